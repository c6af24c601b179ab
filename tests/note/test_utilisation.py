"""Issue 6, point 5: how far a configuration is from what its device can do stands beside the tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.note.build import note_markdown
from tests.note.sample import NO_RATE, OWN_MACHINE, make_campaign, rewrite_attempts


def table(campaign: Campaign) -> list[list[str]]:
    """Cells of the table of utilisation, header first."""
    work = note_markdown(campaign).split("{#sec-work}", 1)[1].split("{#tbl-utilisation", 1)[0].split("{#tbl-work", 1)[1]
    lines = [line.strip("| ").split(" | ") for line in work.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def shares(values: dict[str, float | None], reason: str | None = None) -> Callable[[Attempt], Attempt]:
    """Every completed pass of b4 gets these values."""

    def change(attempt: Attempt) -> Attempt:
        if attempt.tokens is None or attempt.variant_id != "b4":
            return attempt
        reasons = {} if reason is None else dict.fromkeys(values, reason)
        return attempt.model_copy(update={"telemetry": dict(values), "telemetry_reasons": reasons})

    return change


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return make_campaign(tmp_path / "campaign", OWN_MACHINE)


def test_both_shares_of_every_configuration_are_shown(campaign: Campaign) -> None:
    """Real: the texts' own operations; executed: with padding, or with work that was skipped."""
    rewrite_attempts(campaign, shares({"utilisation_real": 0.2471, "utilisation_executed": 0.5834}))
    rows = {row[0]: row[1:] for row in table(campaign)}
    assert rows["cpu.b4"][:2] == ["24.7%", "58.3%"]
    assert rows["cpu.b1"][:2] == ["31.0%", "31.0%"]


@pytest.mark.parametrize(("reason", "said"), [(NO_RATE, NO_RATE), (None, "not measured")])
def test_an_unknown_share_is_a_dash_with_its_reason(campaign: Campaign, reason: str | None, said: str) -> None:
    """Unknown is never zero, and never without a reason."""
    values: dict[str, float | None] = {"utilisation_real": None, "utilisation_executed": None}
    rewrite_attempts(campaign, shares(values, reason))
    header, *rows = table(campaign)
    assert header[-1] == "Why unknown"
    assert next(row for row in rows if row[0] == "cpu.b4")[1:] == ["–", "–", said]


def test_without_an_unknown_share_there_is_no_column_for_reasons(tmp_path: Path) -> None:
    known = replace(OWN_MACHINE, configurations=tuple(c for c in OWN_MACHINE.configurations if c.batch != 8))
    header, *rows = table(make_campaign(tmp_path / "campaign", known))
    assert len(header) == 3
    assert rows and all(len(row) == 3 and row[1].endswith("%") for row in rows)
