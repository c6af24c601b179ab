"""What is to be reproduced is declared and checked against the baseline (M27; issue 6, point 13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.evidence.verdict import Verdict
from runner.judge.verdict import judge_attempt
from runner.protocol.freeze import freeze
from tests.support.small_campaign import PROTOCOL, ROWS, make_attempt, make_campaign, write_predictions

RIGHT = [(row[0], row[2], 0.9) for row in ROWS]
Row = tuple[str, str, float]


def judged(root: Path, goal: str, rows: list[Row], baseline: list[tuple[str, ...]] | None = None) -> Verdict:
    """Verdict on a pass with these predictions; the baseline has the score 0.9 and the right label everywhere."""
    protocol = PROTOCOL.replace("[quality]", f"[reproduction]\n{goal}\n\n[quality]", 1)
    campaign = make_campaign(root, protocol=protocol, baseline=baseline)
    lock = freeze(campaign)
    path = write_predictions(campaign.predictions / "a000.parquet", rows)
    return judge_attempt(campaign, lock, make_attempt(campaign, lock, path))


def reproduction(verdict: Verdict) -> tuple[str, str]:
    (check,) = [check for check in verdict.checks if check.name == "reproduction"]
    return check.status, check.reason


def with_score(place: int, score: float) -> list[Row]:
    return [(name, label, score if at == place else old) for at, (name, label, old) in enumerate(RIGHT)]


def with_flip(place: int) -> list[Row]:
    other = {"pos": "neg", "neg": "pos"}
    return [(name, other[label] if at == place else label, score) for at, (name, label, score) in enumerate(RIGHT)]


def test_m27_identical_means_every_label_and_every_score(tmp_path: Path) -> None:
    goal = 'goal = "identical"'
    assert judged(tmp_path / "same", goal, RIGHT).accepted
    score = judged(tmp_path / "score", goal, with_score(3, 0.9000001))
    assert not score.accepted
    assert reproduction(score)[0] == "failed"
    assert "goal identical" in reproduction(score)[1] and "0 labels differ" in reproduction(score)[1]
    flip = judged(tmp_path / "flip", goal, with_flip(9))
    assert (flip.accepted, reproduction(flip)[0], flip.flips) == (False, "failed", 1)
    assert [item.document_id for item in flip.flips_listed] == ["d09"], "flips by id"


@pytest.mark.parametrize(("score", "status"), [(0.85, "passed"), (0.96, "failed"), (0.84, "failed")])
def test_m27_bounded_is_the_largest_difference_of_a_score(tmp_path: Path, score: float, status: str) -> None:
    verdict = judged(tmp_path, 'goal = "bounded"\nmax_score_difference = "0.0500001"', with_score(0, score))
    assert (reproduction(verdict)[0], verdict.accepted) == (status, status == "passed")
    assert "goal bounded: largest difference of a score" in reproduction(verdict)[1]


def test_m27_task_quality_leaves_it_to_the_other_checks(tmp_path: Path) -> None:
    verdict = judged(tmp_path, 'goal = "task_quality"', with_score(0, 0.51))
    assert verdict.accepted and reproduction(verdict)[0] == "passed"


@pytest.mark.parametrize("missing", ["pass", "baseline"])
def test_m27_without_scores_the_goal_cannot_be_assessed_and_nothing_is_accepted(tmp_path: Path, missing: str) -> None:
    import pyarrow.parquet as pq

    protocol = PROTOCOL.replace("[quality]", '[reproduction]\ngoal = "identical"\n\n[quality]', 1)
    campaign = make_campaign(tmp_path, protocol=protocol)
    baseline = campaign.baseline_dir / "small-final.parquet"
    path = write_predictions(campaign.predictions / "a000.parquet", RIGHT)
    bare = baseline if missing == "baseline" else path
    pq.write_table(pq.read_table(bare).drop_columns(["score"]), bare)
    lock = freeze(campaign)
    verdict = judge_attempt(campaign, lock, make_attempt(campaign, lock, path))
    assert reproduction(verdict) == ("not assessable", "scores of the pass or of the baseline are missing")
    assert not verdict.accepted
