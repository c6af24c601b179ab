"""The strict reader of protocol and plan (M1, M3): every fault with its line and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import InputRefused
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.toml import read_toml
from tests.support.small_campaign import PLAN, PROTOCOL


def refused(tmp_path: Path, text: str, *, plan: bool = False) -> InputRefused:
    path = tmp_path / "file.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputRefused) as caught:
        read_plan(path) if plan else read_protocol(path)
    return caught.value


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_a_good_protocol_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(PROTOCOL, encoding="utf-8")
    protocol = read_protocol(path)
    assert protocol.corpus[0].group_columns == ("stratum",)
    assert protocol.series[0].values == (1, 4, 8)
    path.write_bytes(PROTOCOL.replace("\n", "\r\n").encode())
    assert read_protocol(path) == protocol


@pytest.mark.parametrize("scenario", ["interactive", "server"])
def test_m1_other_scenarios_need_what_is_not_there(tmp_path: Path, scenario: str) -> None:
    text = PROTOCOL.replace('"offline"', f'"{scenario}"')
    error = refused(tmp_path, text)
    assert "arrivals, concurrency and a latency limit" in error.what
    assert "an offline ranking must not be read that way" in error.what
    assert error.line == line_of(text, "scenario")
    assert error.exit_code == 2


def test_m1_training_needs_a_target(tmp_path: Path) -> None:
    assert "training target" in refused(tmp_path, PROTOCOL.replace('"offline"', '"training"')).what


FAULTS = [
    ('threshold = "0.80"', "threshold = 0.80", "threshold = 0.80", 'must be text in quotes, such as "0.8"'),
    ('threshold = "0.80"', 'threshold = "80 %"', "threshold", "must be a decimal"),
    ('threshold = "0.80"', 'threshold = "80"', "threshold", "outside 0 to 1"),
    ('threshold = "0.80"', 'treshold = "0.80"', "treshold", "did you mean 'threshold'?"),
    ('max_drop = "0.10"', 'max_drop = "-0.10"', "max_drop", "cannot be negative"),
    ('metric = "accuracy"', 'metric = "speed"', "metric", "must be 'accuracy'"),
    ("revision = 1", 'revision = "1"', "revision", "integer"),
    ("revision = 1", "revision = 1\nrevision = 2", "revision = 2", "stands twice"),
    ("values = [1, 4, 8]", "values = [\n  1,\n  4,\n  4,\n]", "values", "stands twice"),
    ("values = [1, 4, 8]", 'values = [1, "four"]', "[[series]]", "no value for batch_size"),
    ("values = [1, 4, 8]", "values = [1]", "values", "at least two values"),
    ('variable = "batch_size"', 'variable = "batchsize"', "variable", "is no setting"),
    ('column = "stratum"', 'column = "topic"', "group_columns", "not among the group_columns"),
    ('final = "corpus/final.csv"', 'final = "../final.csv"', "final =", "below protocol/"),
    ('final = "corpus/final.csv"', 'final = "/etc/passwd"', "final =", "below protocol/"),
    ("revision = 1", "revision = 2026-01-01", "revision", "in quotes"),
    ("max_length = 128", "max_length = nan", "max_length", "not a finite number"),
    ("[quality]", "[measurement]\nmin_accepted = 1\n\n[quality]", "min_accepted", "at least 2"),
    ("[quality]", "[measurement]\npasses_planned = 2\n\n[quality]", "passes_planned", "less than min_accepted"),
    ("[quality]", "[measurement]\nseeds = [1, 1]\n\n[quality]", "seeds", "stands twice"),
    ("[quality]", '[reproduction]\ngoal = "bounded"\n\n[quality]', "goal", "belong together"),
    ('text = "Which batch size costs least?"', 'text = " "', "text =", "the question is empty"),
    ("costs least?", "costs\\u0000 least?", "text =", "control characters (U+0000)"),
    ("costs least?", "costs\\u0085 \\u001bleast?", "text =", "control characters (U+001B, U+0085)"),
    ('max_drop = "0.10"', 'max_drop = "2"', "max_drop", "cannot drop by more than 1"),
    ("[quality]", "[measurement]\nseeds = [-1]\n\n[quality]", "seeds", "whole number from 0 to 4294967295"),
    ("[quality]", "[measurement]\nseeds = [0, 99999999999999999999999]\n\n[quality]", "seeds", "from 0 to 4294967295"),
    ("[quality]", f"[measurement]\ntimeout_seconds = {10**20 - 1}\n\n[quality]", "timeout", "at most 31622400"),
    ("[quality]", f"[measurement]\npasses_most = {2**63 - 1}\n\n[quality]", "passes_most", "at most 10000"),
    ("values = [1, 4, 8]", f"values = [1, {10**23}]", "values", "at most 999999 texts"),
    ("[quality]", f"[baseline.settings]\nbatch_size = {10**6}\n\n[quality]", "batch_size =", "at most 999999 texts"),
    ("[quality]", '[model.single_logit]\npositive = "p"\nnegative = "p"\n\n[quality]', "negative", "the same label"),
]


@pytest.mark.parametrize(("old", "new", "part", "words"), FAULTS)
def test_every_fault_is_refused_with_its_line(tmp_path: Path, old: str, new: str, part: str, words: str) -> None:
    """M3: unknown keys, wrong types, float thresholds, duplicate keys, impossible limits."""
    assert old in PROTOCOL
    text = PROTOCOL.replace(old, new)
    error = refused(tmp_path, text)
    assert words in str(error)
    if not new.startswith("values = [\n"):
        line = line_of(text, part)
        assert error.line == line or any(detail.startswith(f"line {line}:") for detail in error.details), str(error)


def test_m28_what_a_metric_below_zero_may_lose_is_twice_as_much(tmp_path: Path) -> None:
    text = PROTOCOL.replace('metric = "accuracy"', 'metric = "mcc"').replace('max_drop = "0.10"', 'max_drop = "2"')
    path = tmp_path / "good.toml"
    path.write_text(text, encoding="utf-8")
    assert read_protocol(path).quality.max_drop == "2"
    assert "more than 2" in str(refused(tmp_path, text.replace('max_drop = "2"', 'max_drop = "2.1"')))


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    text = (
        PROTOCOL.replace('"offline"', '"server"')
        .replace('threshold = "0.80"', "threshold = 0.8")
        .replace("revision = 1", "revision = 0")
    )
    error = refused(tmp_path, text)
    assert error.what == "the quality protocol has 3 faults"
    assert [detail.split(":")[0] for detail in error.details] == [
        f"line {line_of(text, part)}" for part in ("revision", "scenario", "threshold")
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xef\xbb\xbf[question]\n", "byte-order mark"),
        (b'[question]\nname = "\xff"\n', "not UTF-8"),
        (b"[question\n", "not valid TOML"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "too many digits"),
        (b"", "faults"),
    ],
)
def test_unreadable_files(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(data)
    with pytest.raises(InputRefused, match=words):
        read_protocol(path)


def test_a_missing_file_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(InputRefused) as caught:
        read_protocol(tmp_path / "no.toml")
    assert "runner protocol new" in str(caught.value)


def test_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    assert read_plan(path).deliverables == ("small-final",)
    twice = refused(tmp_path, PLAN.replace('["small-final"]', '["small-final", "small-final"]'), plan=True)
    assert "stands twice" in twice.what
    bare = refused(tmp_path, PLAN.replace('"2026-12-31T09:00"', "2026-12-31T09:00:00"), plan=True)
    assert bare.line == line_of(PLAN, "deadline")


def test_places_in_every_kind_of_toml(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(
        '# comment\n"odd key".b = """\nmany\n[lines]""" # end\n[[t]]\na = {x = 1, y = [1,\n 2]}\n'
        "[t.sub]\nz = '''\\'''\n[[t]]\n[t.sub]\nz = 5\n",
        encoding="utf-8",
    )
    document = read_toml(path, what="test")
    lines = {
        ("odd key", "b"): 2,
        ("t", 0): 5,
        ("t", 0, "a", "x"): 6,
        ("t", 0, "a", "y", 1): 7,
        ("t", 0, "sub", "z"): 9,
        ("t", 1): 10,
        ("t", 1, "sub", "z"): 12,
        ("t", 1, "sub", "unknown"): 11,
        ("nothing",): None,
    }
    assert {place: document.line(place) for place in lines} == lines


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20)


def toml_text(text: str) -> str:
    escaped = "".join(
        f"\\U{ord(char):08x}" if char in '"\\' or ord(char) < 32 or ord(char) == 127 else char for char in text
    )
    return f'"{escaped}"'


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, st.one_of(TEXTS, st.lists(TEXTS, max_size=3)), max_size=5))
def test_the_scanner_finds_every_key(tmp_path_factory: pytest.TempPathFactory, content: dict[str, object]) -> None:
    """Property: whatever keys and values are, each key is found on its own line."""
    lines = [
        f"{toml_text(key)} = "
        + (toml_text(value) if isinstance(value, str) else "[" + ", ".join(map(toml_text, value)) + "]")  # type: ignore[call-overload]
        for key, value in content.items()
    ]
    path = tmp_path_factory.mktemp("toml") / "t.toml"
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    document = read_toml(path, what="test")
    assert document.data == content
    assert [document.line((key,)) for key in content] == list(range(1, len(content) + 1))
