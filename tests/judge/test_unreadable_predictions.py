"""A prediction file that cannot be read: file, line, column, value, next step (DESIGN 4; RE-08, M28).

`validate --predictions` refuses it (2); the file of a recorded attempt gives a rejected verdict (3).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.protocol.freeze import freeze
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt

HEAD = b"id,label\nd00,neg\n"


@dataclass(frozen=True)
class Fault:
    """A file and what must be said about it: words, line, column, shown value (None: none)."""

    name: str
    data: bytes
    words: str
    line: int | None
    column: object = None
    value: str | None = None


FAULTS = {
    "ragged": Fault(
        "p.csv", HEAD + b"d01,pos,\x1b[31m\n", "3 fields, the header has 2", 3, None, "'d01,pos,\\u001b[31m'"
    ),
    "no id": Fault("p.csv", b"foo,label\nd00,neg\n", "the column is missing: 'id'; there are: 'foo', 'label'", 1, "id"),
    "no label": Fault("p.csv", b"id,foo\nd00,neg\n", "the column is missing: 'label'", 1, "label"),
    "twice": Fault("p.csv", b"id,id,label\nd,d,neg\n", "twice in the header", 1, "id", "'id'"),
    "bytes": Fault("p.csv", HEAD + b"d01,p\xffs\n", "not UTF-8: byte 0xff", 3, 6),
    "quote": Fault("p.csv", HEAD + b'"d01,pos\nd02,neg\n', "not valid CSV", 3, None, "'\"d01,pos'"),
    "empty line": Fault("p.csv", HEAD + b"\nd01,pos\n", "empty line", 3),
    "empty": Fault("p.csv", b"", "the file is empty", None),
    "no key": Fault(
        "p.jsonl",
        b'{"id": "d00", "label": "neg"}\n{"id": "d01"}\n',
        "the key is missing: 'label'; there are: 'id'",
        2,
        "label",
    ),
    "nan": Fault(
        "p.jsonl",
        b'{"id": "d00", "label": "neg", "score": 0.9}\n{"id": "d01", "label": "pos", "score": NaN}\n',
        "NaN is not allowed in JSON",
        2,
        None,
        "'NaN'",
    ),
    "infinity": Fault(
        "p.jsonl",
        b'{"id": "d00", "label": "neg"}\n{"id": "d01", "label": -Infinity}\n',
        "-Infinity is not allowed in JSON",
        2,
        None,
        "'-Infinity'",
    ),
    "json bytes": Fault("p.jsonl", b'{"id": "d00", "label": "neg"}\n{"id": "\xff"}\n', "not UTF-8: byte 0xff", 2, 9),
    "json": Fault(
        "p.jsonl", b'{"id": "d00", "label": "neg"}\n{"id": "d01",\n', "not valid JSON", 2, 14, '\'{"id": "d01",\''
    ),
    "key twice": Fault(
        "p.jsonl", b'{"id": "d00", "id": "d01", "label": "neg"}\n', "twice in one JSON object: 'id'", 1, "id"
    ),
    "no object": Fault("p.jsonl", b"[1]\n", "one JSON object", 1),
    "no parquet": Fault("p.parquet", b"PAR1 and nothing else", "not a", None),
    "kind": Fault("p.xlsx", b"PK", "kind of table", None),
}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    campaign = make_campaign(tmp_path / "campaign")
    freeze(campaign)
    return campaign


def refused(campaign: Campaign, path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, object], str]:
    """What `--json` and what people get of the refusal of this file."""
    capsys.readouterr()
    command = ["--campaign", str(campaign.root), "validate", "--predictions", str(path)]
    assert run([*command, "--json"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert run(command) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and not campaign.verdicts.exists()
    assert isinstance(data, dict)
    return data, shown.err


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_of_another_engine_is_refused_where_it_is_wrong(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """DESIGN 4, RE-08: `validate --predictions` says file:line, column, value and what to do next; 2."""
    fault = FAULTS[name]
    path = tmp_path / fault.name
    path.write_bytes(fault.data)
    data, shown = refused(campaign, path, capsys)
    assert fault.words in str(data["error"])
    assert (data["file"], data["line"], data["column"], data["value"]) == (
        str(path),
        fault.line,
        fault.column,
        fault.value,
    )
    assert data["next_step"] and f"next:  {data['next_step']}" in shown
    place = str(path) if fault.line is None else f"{path}:{fault.line}"
    assert place in shown and "\x1b" not in shown
    if "missing" in fault.words and fault.name.endswith(".csv"):
        assert data["next_step"] == (
            "a prediction file needs the columns id and label, named exactly so; score is optional"
        )


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_of_a_parquet_file_that_is_not_utf_8(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str], dictionary: bool
) -> None:
    """DESIGN 4: Parquet does not check its texts; the first bad row and its column are named."""
    path = tmp_path / "p.parquet"
    good = pa.array([row[0].encode() for row in ROWS], pa.binary())
    bad = pa.array([b"neg", b"p\xffs", *[b"pos"] * 8], pa.binary())
    names = [good, bad] if dictionary else [bad, good]
    columns = [pa.Array.from_buffers(pa.string(), len(item), item.buffers()) for item in names]
    pq.write_table(pa.table({"id": columns[0], "label": columns[1]}), path)
    data, _ = refused(campaign, path, capsys)
    assert data["error"] == "not UTF-8: byte 0xff cannot be read"
    assert (data["line"], data["column"]) == (2, "label" if dictionary else "id")
    assert data["next_step"] == "write the text columns as UTF-8"


@pytest.mark.parametrize(
    ("table", "words", "column"),
    [
        ({"foo": ["a"], "label": ["neg"]}, "the column is missing: 'id'; there are: 'foo', 'label'", "id"),
        ({"id": [1.5], "label": ["neg"]}, "ids look like floating-point numbers", "id"),
        ({"id": [["a"]], "label": ["neg"]}, "is no text", "id"),
        ({"id": ["a"], "label": [{"x": 1}]}, "is no text", "label"),
        ({"id": ["a"], "label": ["neg"], "score": ["high"]}, "the scores are not numbers but string", "score"),
    ],
)
def test_columns_of_a_parquet_file(
    campaign: Campaign,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    table: dict[str, list[object]],
    words: str,
    column: str,
) -> None:
    """DESIGN 4, CO-09: a Parquet file with other columns or types: which one, and what to do."""
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table(table), path)
    data, _ = refused(campaign, path, capsys)
    assert words in str(data["error"]) and data["column"] == column and data["next_step"]


@pytest.mark.parametrize("name", ["ragged", "no id", "nan", "bytes", "json", "quote"])
def test_the_file_of_an_attempt_is_a_rejected_verdict_with_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """DESIGN 4, M28: a recorded prediction file is judged, not refused: 3, with line, column and value."""
    fault = FAULTS[name]
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    path = campaign.predictions / f"a000{Path(fault.name).suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(fault.data)
    attempt = make_attempt(campaign, lock, path)
    assert attempt.predictions is not None and attempt.predictions.sha256 == sha256_file(path)
    store_attempt(campaign, attempt)
    assert run(["--campaign", str(tmp_path), "validate"]) == 3
    reason = json.loads((campaign.verdicts / "a000.json").read_text())["reasons"][0]
    assert reason.startswith("predictions: ") and fault.words in reason
    assert f"({path.name}:{fault.line}" in reason and str(tmp_path) not in reason
    assert fault.column is None or f"column {fault.column}" in reason
    assert fault.value is None or f"value {fault.value}" in reason.replace("\\\\", "\\")
    assert f"{path.name}:{fault.line}" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["1_0", "0.9_0", " 0.9", "0.9 ", "٠.٩", "0x1p-1", "0,9", "1e", "."])
def test_re08_a_score_is_a_plain_decimal(tmp_path: Path, text: str) -> None:
    """DESIGN 5: strict numbers of no locale; Python's own spellings are none."""
    from runner.protocol.predictions import read_predictions, score_faults

    path = tmp_path / "p.csv"
    path.write_text(f'id,label,score\na,pos,0.5\nb,neg,"{text}"\n', encoding="utf-8")
    (fault,) = score_faults(read_predictions(path))
    assert fault.startswith("line 3: score ") and fault.endswith("is not a number")


def test_re08_decimals_with_and_without_exponent_are_read(tmp_path: Path) -> None:
    from runner.protocol.predictions import read_predictions, score_faults

    path = tmp_path / "p.csv"
    path.write_text("id,label,score\na,pos,5e-1\nb,neg,1\nc,neg,.25\nd,neg,nan\n", encoding="utf-8")
    found = read_predictions(path)
    assert found.score is not None and found.score.tolist()[:3] == [0.5, 1.0, 0.25]
    assert score_faults(found) == ("line 5: score nan not finite",)
