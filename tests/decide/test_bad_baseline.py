"""A model that misses its own minimum: the decision says the cause once, and the note no untrue word of quality."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.decide.model import Decision
from runner.decide.write import write_decision
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.judge.campaign import judge_campaign
from runner.note.evidence import read_evidence
from runner.note.parts.page_one import _documents
from runner.note.parts.quality import _quality_reached
from runner.protocol.freeze import freeze
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

ROOT = Path(__file__).parents[2]
OTHER = {"pos": "neg", "neg": "pos"}
BASELINE = [(row[0], OTHER[row[2]] if row[0] in ("d06", "d07", "d08") else row[2]) for row in ROWS]


Labels = list[tuple[str, str]]


def measured(root: Path, predictions: Labels, baseline: Labels = BASELINE) -> Campaign:
    """Two passes of each of three batch sizes, and one of b8 that Ctrl-C ended."""
    campaign = make_campaign(root, baseline=baseline)
    shutil.copyfile(ROOT / "tariffs.csv", campaign.tariffs)
    lock = freeze(campaign)
    for number in range(6):
        path = write_predictions(campaign.predictions / f"a{number:03d}.parquet", predictions)
        variant = ("b1", "b4", "b8")[number % 3]
        store_attempt(campaign, make_attempt(campaign, lock, path, number=number, variant=variant))
    stopped = make_attempt(campaign, lock, None, number=6, variant="b8", status=Status.INTERRUPTED)
    store_attempt(campaign, stopped)
    judge_campaign(campaign)
    return campaign


@pytest.fixture
def decided(tmp_path: Path) -> tuple[Campaign, Decision]:
    campaign = measured(tmp_path, BASELINE)
    return campaign, write_decision(campaign).decision


def test_the_cause_is_said_once_for_all_configurations(decided: tuple[Campaign, Decision]) -> None:
    """M29, M36: three configurations, one reason; an interrupted attempt is not counted (docs/decision.md)."""
    decision = decided[1]
    assert [reason.code for reason in decision.reasons] == ["undecided.baseline", "undecided.fails"]
    text = str(decision.reasons[1])
    assert text.startswith("cpu.b1, cpu.b4 and cpu.b8: quality not shown, the answers on small-final are those")
    assert "is below 0.80" in text and text.endswith("accepted 0 of 6 attempts.")
    assert [reason.code for reason in decision.would_help] == ["help.baseline"]


def test_the_note_counts_no_rejected_pass_as_good_and_covers_nothing(decided: tuple[Campaign, Decision]) -> None:
    """M27, M29: the goal of task quality is reached where every check of quality is; no accepted pass, no load."""
    evidence = read_evidence(decided[0])
    verdicts = [verdict for verdict in evidence.verdicts.values() if verdict.metrics]
    assert len(verdicts) == 6
    assert not any(_quality_reached(verdict) for verdict in verdicts)
    assert _documents(evidence) == 0


def test_other_answers_than_the_baseline_keep_their_own_reason(tmp_path: Path) -> None:
    """Worse than the baseline is no proof about the baseline."""
    worse = [(row[0], OTHER[row[1]] if row[0] == "d00" else row[1]) for row in BASELINE]
    decision = write_decision(measured(tmp_path, worse)).decision
    assert decision.reasons[0].code == "undecided.no-accepted-pass"
    assert "those of the baseline" not in str(decision.reasons[1])


def test_good_passes_cover_their_documents(tmp_path: Path) -> None:
    right = [(row[0], row[2]) for row in ROWS]
    campaign = measured(tmp_path, right, right)
    write_decision(campaign)
    evidence = read_evidence(campaign)
    assert sum(_quality_reached(verdict) for verdict in evidence.verdicts.values() if verdict.metrics) == 6
    assert _documents(evidence) == len(ROWS)
