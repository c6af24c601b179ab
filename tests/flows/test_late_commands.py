"""Commands that come after the note, and odd surroundings, never spoil or stop it (DESIGN 4)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign


def test_plan_after_report_leaves_a_genuine_note_genuine(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """M45: a blank sheet that the signed list does not cover is refused (2) and not written; `verify` still passes."""
    sheet = campaign.records / "plan-sheet.csv"
    assert not sheet.exists()
    assert run(["--campaign", str(campaign.root), "plan"]) == 2
    assert "signed note" in capsys.readouterr().err and not sheet.exists()
    assert run(["--campaign", str(campaign.root), "verify"]) == 0


def test_plan_writes_nothing_beside_a_row_that_cannot_be_read(campaign: Campaign) -> None:
    """DESIGN 4: exit 2 means that nothing was written."""
    (campaign.note / "SHA256SUMS").unlink()
    (campaign.attempts / "a004.json").write_text('{"a": ', encoding="utf-8")
    (campaign.attempts / "a003.json").write_text('{"schema_version": "attempt/1"}', encoding="utf-8")
    assert run(["--campaign", str(campaign.root), "plan"]) == 2
    assert not (campaign.records / "plan-sheet.csv").exists()


@pytest.mark.parametrize("value", ["abc", "-5", "1e9", "9" * 30])
def test_an_odd_source_date_epoch_is_refused(
    value: str, campaign: Campaign, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 4: one refusal with the value, exit 2, never 1."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    assert run(["--campaign", str(campaign.root), "report"]) == 2
    assert "SOURCE_DATE_EPOCH" in capsys.readouterr().err


@pytest.mark.parametrize("zone", ["CET-1CEST,M3.5.0,M10.5.0/3", "<-03>3"])
def test_no_value_of_tz_stops_report_or_verify(zone: str, campaign: Campaign) -> None:
    """DESIGN 6.8: instants are UTC, so the zone of the machine is never asked for; in a process of its own."""
    for command in ("report", "verify"):
        done = subprocess.run(
            [sys.executable, "-m", "runner", "--campaign", str(campaign.root), command],
            env=os.environ | {"TZ": zone},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
