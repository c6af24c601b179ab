"""From `make corpus` to a protocol without editing errors: use-corpus, first plan, edits of any layout (M4, M13)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.protocol.adopt import adopt_corpus
from runner.protocol.edit import LEFT_OUT, edited
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.toml import Place, TomlDocument, read_toml
from tests.support.small_campaign import ROWS, make_campaign, with_given_baseline, write_csv, write_predictions

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(tmp_path: Path) -> Campaign:
    """The files of a fresh clone: the embedded protocol and plan, before any freeze."""
    campaign = Campaign(tmp_path)
    shutil.copytree(
        ROOT / "protocol",
        campaign.protocol_dir,
        ignore=shutil.ignore_patterns("reference", "baseline", "keys", "protocol.lock.json*", "locks"),
    )
    return campaign


def source(folder: Path) -> Path:
    rows = [
        (
            f"m{number:03d}",
            "please help me with this order " * (1 + number % 40) + str(number),
            "billing" if number % 2 else "returns",
            "mail",
        )
        for number in range(120)
    ]
    rows[7] = (*rows[7][:1], "", *rows[7][2:])
    return write_csv(folder / "messages.csv", ("id", "text", "label", "channel"), rows)


BANDS = [item for band in ("short:1-32:10", "medium:33-128:10", "long:129+:5") for item in ("--band", band)]


def build(campaign: Campaign, file: Path, *options: str) -> int:
    return run(["--campaign", str(campaign.root), "corpus", "--from", str(file), *BANDS, *options])


def test_m13_what_was_left_out_is_said_with_the_next_command(
    demo: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M13, issue 3 line 4: every document is in a split or counted with its reason."""
    file = source(tmp_path)
    assert build(demo, file) == 2
    assert "--skip-empty" in capsys.readouterr().err
    assert build(demo, file, "--skip-empty", "--group-column", "channel") == 0
    shown = capsys.readouterr().out
    assert "read: 120 documents of messages.csv" in shown
    assert "left out: 1 without text, as asked for" in shown
    facts = json.loads((demo.protocol_dir / "corpus" / "messages" / "corpus.json").read_text())
    rest = facts["source"]["available"]
    assert sum(rest.values()) == 119
    assert f"left out: {119 - 25} more than asked for" in shown
    assert f"next: runner --campaign {tmp_path} protocol use-corpus messages" in shown


def test_m13_use_corpus_puts_it_into_protocol_and_plan(
    demo: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo's tuning line goes, comments stay, plan and tasks follow, and what is left to the user is listed."""
    assert build(demo, source(tmp_path), "--skip-empty", "--group-column", "channel") == 0
    before = demo.protocol.read_text(encoding="utf-8").splitlines()
    capsys.readouterr()
    assert run(["--campaign", str(tmp_path), "protocol", "use-corpus", "messages"]) == 0
    shown = capsys.readouterr().out
    assert "the line tuning = 'corpus/tuning.csv' is gone" in shown and "licence and permission" in shown
    assert "'billing', 'returns'" in shown
    assert f"next: runner --campaign {tmp_path} baseline, runner --campaign {tmp_path} freeze" in shown
    protocol, plan = read_protocol(demo.protocol), read_plan(demo.plan)
    (corpus,) = protocol.corpus
    assert (corpus.id, corpus.final, corpus.tuning) == ("messages", "corpus/messages/final.csv", None)
    assert corpus.group_columns == ("stratum", "channel") and corpus.licence.startswith("FILL IN")
    assert not protocol.question.synthetic
    assert plan.deliverables == ("messages",)
    assert {task.corpus for task in plan.task} == {None, "messages"}
    after = demo.protocol.read_text(encoding="utf-8").splitlines()
    gone = {line.split(" =")[0] for line in before if line not in after}
    assert gone == {"id", "final", "tuning", "group_columns", "licence", "permission", "synthetic"}
    assert all("# (yours" in line for line in after if line.startswith(("id =", "licence =", "synthetic =")))
    assert [line for line in before if line.startswith("#")] == [line for line in after if line.startswith("#")]


def test_m5_a_tuning_split_takes_the_old_ones_place(demo: Campaign, tmp_path: Path) -> None:
    assert build(demo, source(tmp_path), "--skip-empty", "--tuning", "8", "--name", "other") == 0
    assert run(["--campaign", str(tmp_path), "protocol", "use-corpus", "other"]) == 0
    assert read_protocol(demo.protocol).corpus[0].tuning == "corpus/other/tuning.csv"


def test_m4_a_frozen_protocol_takes_no_other_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M4: the way on is named: a new revision. A folder that the builder did not make is refused too."""
    campaign = make_campaign(tmp_path)
    assert run(["--campaign", str(tmp_path), "protocol", "use-corpus", "none"]) == 2
    assert f"runner --campaign {tmp_path} corpus --from FILE" in capsys.readouterr().err
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0
    before = campaign.protocol.read_bytes()
    capsys.readouterr()
    assert run(["--campaign", str(tmp_path), "protocol", "use-corpus", "none"]) == 2
    assert f"runner --campaign {tmp_path} protocol revise" in capsys.readouterr().err
    assert campaign.protocol.read_bytes() == before


def test_a_subgroup_that_the_new_corpus_has_not_is_refused(
    demo: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            [
                "--campaign",
                str(tmp_path),
                "corpus",
                "--from",
                str(source(tmp_path)),
                "--skip-empty",
                "--band",
                "any:1+:20",
            ]
        )
        == 0
    )
    before = demo.protocol.read_bytes(), demo.plan.read_bytes()
    assert run(["--campaign", str(tmp_path), "protocol", "use-corpus", "messages"]) == 2
    assert "stratum='short' has no document in the new corpus" in capsys.readouterr().err
    assert (demo.protocol.read_bytes(), demo.plan.read_bytes()) == before


def test_protocol_new_writes_a_plan_that_freezes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 3 line 1: from flags to a frozen protocol without a file written by hand."""
    campaign = make_campaign(tmp_path)
    campaign.protocol.unlink()
    campaign.plan.unlink()
    options = [
        "--name",
        "mine",
        "--text",
        "Which?",
        "--corpus",
        "corpus/final.csv",
        "--model",
        "model",
        "--metric",
        "accuracy",
        "--threshold",
        "0.8",
        "--max-drop",
        "0.01",
        "--min-agreement",
        "0.95",
    ]
    new = ["--campaign", str(tmp_path), "protocol", "new", *options]
    assert run([*new, "--start", "2027-10-04T09:00"]) == 2
    assert "belong together" in capsys.readouterr().err
    assert run([*new, "--start", "2027-10-04T09:00", "--deadline", "2027-10-08T12:00", "--zone", "Europe/Berlin"]) == 0
    assert read_plan(campaign.plan).deliverables == ("mine-final",)
    write_predictions(campaign.baseline_dir / "mine-final.parquet", [(row[0], row[2]) for row in ROWS])
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2
    assert "no record of what made it" in capsys.readouterr().err
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(with_given_baseline(text), encoding="utf-8")
    shutil.move(campaign.baseline_dir / "mine-final.parquet", campaign.baseline_dir / "small-final.parquet")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 2
    shown = capsys.readouterr().err
    assert "corpus[1].licence" in shown and "corpus[1].permission" in shown
    text = campaign.protocol.read_text(encoding="utf-8").replace("FILL IN: ", "ours: ")
    campaign.protocol.write_text(text, encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0, capsys.readouterr().err
    assert run(["--campaign", str(tmp_path), "window"]) == 0, capsys.readouterr().err


LAYOUTS = {
    "on one line": 'a = 1\n[t]\nk = "old"  # why\nn = 2\n',
    "over many lines": 'a = 1\n[t]\nk = [\n  "x",  # one\n  "y",\n]\nn = 2\n',
    "inline table": 'a = 1\nt = {k = "old", n = 2}\n',
    "dotted": "a = 1\nt.k = 'old'\nt.n = 2\n",
    "long text": 'a = 1\n[t]\nk = """\nold\n"""\nn = 2\n',
}


def document(tmp_path: Path, text: str) -> TomlDocument:
    path = tmp_path / "t.toml"
    path.write_text(text, encoding="utf-8", newline="\n")
    return read_toml(path, what="test")


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_m4_values_of_any_layout_are_changed_in_place(tmp_path: Path, text: str) -> None:
    """Issue 3 line 2: a revision edits whatever layout the user chose; comments and the rest stay."""
    changed = document(tmp_path, edited(document(tmp_path, text), {("t", "k"): "new", ("a",): 5}))
    assert changed.data == {"a": 5, "t": {"k": "new", "n": 2}}
    assert ("# why" in text) == ("# why" in changed.text)


def test_m4_keys_are_added_and_taken_out(tmp_path: Path) -> None:
    text = "[[c]]\nid = 'a'\ntuning = [\n 'x',\n]  # gone\n\n# about the next\n[[c]]\nid = 'b'\n"
    changes: dict[Place, object] = {("c", 0, "tuning"): LEFT_OUT, ("c", 0, "licence"): "CC", ("c", 1, "n"): 3}
    changed = document(tmp_path, edited(document(tmp_path, text), changes))
    assert changed.data == {"c": [{"id": "a", "licence": "CC"}, {"id": "b", "n": 3}]}
    assert "# about the next\n[[c]]" in changed.text
    with pytest.raises(InputRefused, match="taken out by machine"):
        edited(document(tmp_path, "t = {a = 1, b = 2}\n"), {("t", "a"): LEFT_OUT})
    with pytest.raises(InputRefused, match="no table"):
        edited(document(tmp_path, "a = 1\n"), {("t", "a"): 1})


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20))
def test_m4_any_text_is_written_so_that_it_is_read_back(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    """Property: control characters, quotation marks and backslashes survive the edit."""
    folder = tmp_path_factory.mktemp("edit")
    changes: dict[Place, object] = {("t", "k"): value, ("t", "l"): (value,)}
    changed = document(folder, edited(document(folder, "[t]\nk = 1\nl = 2\n"), changes))
    assert changed.data == {"t": {"k": value, "l": [value]}}


def write_what_is_yours(campaign: Campaign) -> None:
    """Name, question and dates of one's own in place of the example's."""
    for file, old, new in (
        (campaign.protocol, 'name = "demo" ', 'name = "mine" '),
        (campaign.protocol, "classifies all support messages", "sorts all of our messages"),
        (campaign.plan, "2027-10-", "2027-11-"),
    ):
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.e2e
def test_m2_a_newcomers_way_from_a_table_to_an_accepted_verdict(
    demo: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M2, M3, M13: the documented commands in their order; what is marked (yours) is written before the freeze."""
    shutil.copy(ROOT / "tariffs.csv", demo.tariffs)
    mine = tmp_path / "mine.csv"
    shutil.move(demo.protocol_dir / "corpus" / "final.csv", mine)
    bands = [item for band in ("short:1-32:200", "medium:33-128:120", "long:129+:80") for item in ("--band", band)]
    terms = ["--licence", "Apache-2.0", "--permission", "made by this project"]
    commands = (
        ["corpus", "--from", str(mine), *bands, *terms], ["protocol", "use-corpus", "mine"], ["baseline"], ["freeze"],
        ["plan"], ["validate", "--predictions", str(demo.baseline_dir / "mine.parquet")],
    )  # fmt: skip
    shown = ""
    for command in commands:
        if command == ["freeze"]:
            assert run(["--campaign", str(tmp_path), "freeze"]) == 2
            assert "question.name" in capsys.readouterr().err
            write_what_is_yours(demo)
        status = run(["--campaign", str(tmp_path), *command])
        captured = capsys.readouterr()
        assert status == 0, (command, captured.err)
        shown += captured.out
    assert "corpus mine: 400 documents" in shown and "mine.parquet: accepted" in shown
    # What the freeze proves, in its own words (issue 3, line 2).
    assert "The signature shows who froze this; the nonce, that an attempt which carries it came after" in shown
    assert "Neither proves when: only an outside time stamp" in shown
    assert read_plan(demo.plan).deliverables == ("mine",)


@pytest.mark.parametrize("lost", ["name", "licence", "permission", "splits", "strata", "classes"])
def test_a_damaged_description_of_a_built_corpus_is_refused(lost: str, tmp_path: Path) -> None:
    """M13: `corpus.json` cut or edited by hand: one clear refusal with the field, both files as they were."""
    campaign = make_campaign(tmp_path)
    folder = campaign.protocol_dir / "corpus" / "mine"
    folder.mkdir()
    facts: dict[str, Any] = {
        "schema_version": "corpus-build/1", "name": "mine", "licence": "", "permission": "",
        "splits": {"final": {"strata": {}, "classes": {"pos": 1}}},
    }  # fmt: skip
    for table in (facts, facts["splits"]["final"]):
        table.pop(lost, None)
    (folder / "corpus.json").write_text(json.dumps(facts), encoding="utf-8")
    before = campaign.protocol.read_bytes(), campaign.plan.read_bytes()
    with pytest.raises(InputRefused, match="is not whole") as refused:
        adopt_corpus(campaign, "mine")
    assert any(lost in detail for detail in refused.value.details)
    assert (campaign.protocol.read_bytes(), campaign.plan.read_bytes()) == before
