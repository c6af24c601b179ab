"""The lab folder (M49) with its blank sheet (M48)."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.flows.lab import SHEET, make_lab
from runner.measure.plan_sheet import BLANK_COLUMNS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """The demo as it is before the freeze."""
    root = tmp_path / "campaign"
    (root / "protocol" / "corpus").mkdir(parents=True)
    for name in ("quality-protocol.toml", "plan.toml", "corpus/final.csv", "corpus/tuning.csv"):
        (root / "protocol" / name).write_bytes((ROOT / "protocol" / name).read_bytes())
    (root / "tariffs.csv").write_bytes((ROOT / "tariffs.csv").read_bytes())
    return Campaign(root)


def test_the_folder_is_complete_and_carries_no_texts(campaign: Campaign) -> None:
    """M49, M53: instructions, protocol, blank sheet, price script, tariffs, licence; no corpus."""
    made = make_lab(campaign)
    expected = {"README.md", "quality-protocol.toml", "price.py", "tariffs.csv", "LICENSE", "memory.py", "memory.ipynb"}
    assert {*expected, SHEET, "SHA256SUMS"} == set(made.files)
    assert sorted(path.name for path in made.folder.iterdir()) == list(made.files)
    with (campaign.protocol_dir / "corpus" / "final.csv").open(encoding="utf-8", newline="") as stream:
        texts = [row["text"] for row in csv.DictReader(stream)]
    written = b"".join((made.folder / name).read_bytes() for name in made.files)
    assert not any(text.encode() in written for text in texts)


def test_the_price_script_is_the_source_of_the_command(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    """M49: byte-identical with `pricing/core.py`; script and command say the same."""
    folder = make_lab(campaign).folder
    assert (folder / "price.py").read_bytes() == (ROOT / "runner" / "pricing" / "core.py").read_bytes()
    asked = ["--gpu", "rtx-4090", "--days", "7", "--lots", "2", "--accepted-results", "3"]
    script = subprocess.run(
        [sys.executable, "-I", str(folder / "price.py"), *asked], capture_output=True, text=True, check=True, cwd="/"
    ).stdout
    assert run(["--campaign", str(campaign.root), "price", *asked]) == 0
    assert capsys.readouterr().out == script and "220.00 USD, 2 GPUs" in script


def test_performance_cells_are_empty_until_measured(campaign: Campaign) -> None:
    """M48: 3 batch sizes x 5 passes in rotated order, nothing estimated."""
    made = make_lab(campaign)
    with (made.folder / SHEET).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == made.attempts == 15
    assert [row["variant"] for row in rows[:6]] == ["b1", "b4", "b8", "b4", "b8", "b1"]
    assert {row[column] for row in rows for column in BLANK_COLUMNS} == {""}
    assert {row["expected_ids"] for row in rows} == {"1000"}


def test_a_sheet_that_somebody_filled_in_is_never_replaced(campaign: Campaign) -> None:
    made = make_lab(campaign)
    assert make_lab(campaign) == made, "again over the blank sheet: the same folder"
    sheet = made.folder / SHEET
    filled = sheet.read_bytes().replace(b",,,,,,,,,", b",rtx-4090,,completed,1000,yes,12.5,,,", 1)
    sheet.write_bytes(filled)
    with pytest.raises(InputRefused, match="not blank any more"):
        make_lab(campaign)
    assert sheet.read_bytes() == filled


def test_the_sums_are_checked_by_the_usual_tool(campaign: Campaign) -> None:
    folder = make_lab(campaign).folder
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder, check=False).returncode == 0
    names = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines()]
    assert SHEET not in names and "price.py" in names
    assert sha256_file(folder / "tariffs.csv") in (folder / "SHA256SUMS").read_text(encoding="ascii")


def test_the_instructions_quote_the_frozen_checks(campaign: Campaign) -> None:
    text = (make_lab(campaign).folder / "README.md").read_text(encoding="utf-8")
    for words in ("accuracy at least 0.85", "where stratum = long", "at least 0.98 of the labels", "2027-10-08T12:00"):
        assert words in text
    assert "$" not in text


def test_the_command(campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "elsewhere"
    assert run(["--campaign", str(campaign.root), "lab", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == 15
    campaign.tariffs.write_text("gpu\n", encoding="utf-8")
    assert run(["--campaign", str(campaign.root), "lab"]) == 2
    assert not (campaign.root / "lab").exists()


def test_a_broken_template_is_refused(campaign: Campaign) -> None:
    campaign.templates.mkdir()
    (campaign.templates / "lab.md").write_text("$unknown", encoding="utf-8")
    with pytest.raises(InputRefused, match="cannot be filled"):
        make_lab(campaign)
