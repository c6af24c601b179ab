"""Starting, describing and revising a protocol (M4): what the commands write is what the reader accepts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.protocol.describe import field_reference, schema_json, with_reference
from runner.protocol.freeze import earlier_locks, freeze, make_freeze
from runner.protocol.read import read_plan, read_protocol
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_csv, write_predictions

ROOT = Path(__file__).parents[2]
NEW = [
    "protocol",
    "new",
    "--name",
    "mine",
    "--text",
    'Which "one"?',
    "--corpus",
    "corpus/final.csv",
    "--model",
    "model",
    "--metric",
    "macro_f1",
    "--threshold",
    "0.8",
    "--max-drop",
    "0.01",
    "--min-agreement",
    "0.95",
]


def test_new_writes_a_protocol_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = make_campaign(tmp_path)
    campaign.protocol.unlink()
    options = ["--batches", "2,16", "--group-column", "stratum", "--tuning", "corpus/tuning.csv"]
    assert run(["--campaign", str(tmp_path), *NEW, *options]) == 0
    protocol = read_protocol(campaign.protocol)
    assert protocol.question.text == 'Which "one"?'
    assert protocol.quality.metric == "macro_f1"
    assert protocol.corpus[0].id == "mine-final" and protocol.corpus[0].group_columns == ("stratum",)
    assert protocol.series[0].values == (2, 16)
    before = campaign.protocol.read_bytes()
    assert run(["--campaign", str(tmp_path), *NEW]) == 2
    assert "there is a protocol already" in capsys.readouterr().err
    assert campaign.protocol.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--threshold", "80 %", "must be a decimal"),
        ("--metric", "speed", "must be 'accuracy'"),
        ("--batches", "1 x", "whole numbers"),
        ("--corpus", "corpus/none.csv", "the corpus is not there"),
        ("--corpus", "../x.csv", "below protocol/"),
    ],
)
def test_new_refuses_what_the_reader_would(
    tmp_path: Path, option: str, value: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = make_campaign(tmp_path)
    campaign.protocol.unlink()
    assert run(["--campaign", str(tmp_path), *NEW, option, value]) == 2
    assert words in capsys.readouterr().err
    assert not campaign.protocol.exists()


def attempted(tmp_path: Path) -> Campaign:
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, lock, path))
    return campaign


def test_m4_revise_leads_to_the_next_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: revise, a lower threshold, baseline, freeze; the old lock and baseline stay."""
    campaign = attempted(tmp_path)
    old = freeze(campaign)
    fresh = [(row[0], f"quite another {row[1]}", row[2], row[3]) for row in ROWS]
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), fresh)
    assert run(["--campaign", str(tmp_path), "protocol", "revise", "--corpus", "corpus/second.csv"]) == 0
    protocol = read_protocol(campaign.protocol)
    assert protocol.question.revision == 2
    assert (protocol.corpus[0].id, protocol.corpus[0].final) == ("small-final-r2", "corpus/second.csv")
    assert read_plan(campaign.plan).deliverables == ("small-final-r2",)
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(text.replace('threshold = "0.80"', 'threshold = "0.70"'), encoding="utf-8")
    write_predictions(campaign.baseline_dir / "small-final-r2.parquet", [(row[0], row[2]) for row in fresh])
    frozen = make_freeze(campaign)
    assert frozen.outcome == "new revision"
    assert "quality.threshold: 0.80 -> 0.70" in [str(change) for change in frozen.changes]
    assert earlier_locks(campaign) == (old,)
    assert (campaign.baseline_dir / "small-final.parquet").is_file()
    # the attempt of revision 1 is left alone: nothing to judge yet under revision 2
    assert run(["--campaign", str(tmp_path), "validate"]) == 0
    assert "no attempt to judge yet" in capsys.readouterr().out


def test_revise_refuses_the_same_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = attempted(tmp_path)
    before = campaign.protocol.read_bytes(), campaign.plan.read_bytes()
    copied = [(f"x{row[0]}", f"  {row[1]} ", row[2], row[3]) for row in ROWS]
    copied += [("again", *copied[0][1:]), ("fresh", "another text", *copied[0][2:])]  # one text twice is two documents
    write_csv(campaign.protocol_dir / "corpus" / "second.csv", ("id", "text", "label", "stratum"), copied)
    assert run(["--campaign", str(tmp_path), "protocol", "revise", "--corpus", "corpus/second.csv"]) == 2
    said = capsys.readouterr().err
    assert "11 of its 12 texts stand in 'small-final' too" in said
    assert "take the texts of protocol/corpus/final.csv out of your data" in said and "leave out" not in said
    assert run(["--campaign", str(tmp_path), "protocol", "revise", "--corpus", "other=corpus/second.csv"]) == 2
    assert (campaign.protocol.read_bytes(), campaign.plan.read_bytes()) == before


def test_the_schema_in_the_tree_is_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    """One source: `runner protocol schema > protocol/quality-protocol.schema.json`."""
    assert (ROOT / "protocol" / "quality-protocol.schema.json").read_bytes() == schema_json()
    assert run(["protocol", "schema", "--json"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["properties"]["question"]["description"] == "what is asked"


def test_the_reference_in_the_documentation_is_the_models() -> None:
    """docs/protocol.md: `runner protocol fields` between the marks, every field with a meaning."""
    document = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert with_reference(document) == document
    rows = [line for line in field_reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(line.rstrip().rstrip("|").rsplit("|", 1)[1].strip() for line in rows)


def test_the_embedded_protocol_says_nothing_that_the_schema_forbids() -> None:
    content = tomllib.loads((ROOT / "protocol" / "quality-protocol.toml").read_text(encoding="utf-8"))
    known = json.loads(schema_json())["properties"]
    assert set(content) <= set(known)
    read_protocol(ROOT / "protocol" / "quality-protocol.toml")


@pytest.mark.parametrize(
    ("start", "deadline", "zone", "words"),
    [
        ("tomorrow", "2027-10-09T12:00", "UTC", "option --start"),
        ("2027-10-04T09:00", "soon", "UTC", "option --deadline"),
        ("2027-02-30T09:00", "2027-10-09T12:00", "UTC", "2027-02-30 is not a day"),
        ("2027-03-28T02:30", "2027-10-09T12:00", "Europe/Berlin", "does not exist"),
        ("2027-10-04T09:00", "2027-10-09T12:00", "CEST", "not an IANA zone name"),
        ("2027-10-04T09:00", "2027-10-04T09:00", "UTC", "the deadline is not after the start"),
    ],
)
def test_m34_new_writes_no_plan_that_no_calendar_can_hold(
    start: str, deadline: str, zone: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M34: times are refused when they are given, not when the freeze meets them; nothing is written."""
    campaign = make_campaign(tmp_path)
    campaign.protocol.unlink()
    campaign.plan.unlink()
    options = ["--start", start, "--deadline", deadline, "--zone", zone]
    assert run(["--campaign", str(tmp_path), *NEW, *options]) == 2
    assert words in capsys.readouterr().err
    assert not campaign.protocol.exists() and not campaign.plan.exists()
