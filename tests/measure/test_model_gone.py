"""A model folder that is not there: refused before a row, and the slot stays open (M16, M23, MO-19)."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cli.main import run as runner
from runner.errors import NotAccepted
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.measure.job import AttemptFailed, ModelSource
from runner.measure.run import Request, measure
from tests.measure.light import WORKER, Quiet, light_campaign, run


class BetweenAttempts(Quiet):
    """Moves the model away after the first attempt, as somebody who tidies up does."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__()
        self._model = campaign.protocol_dir / "model"

    def ended(self, attempt: object) -> None:
        super().ended(attempt)
        if len(self.seen) == 1:
            self._model.rename(self._model.with_name("moved"))


def test_a_missing_folder_is_refused_before_any_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, nothing written, the folder and the step named."""
    campaign = light_campaign(tmp_path)
    model = campaign.protocol_dir / "model"
    model.rename(model.with_name("moved"))
    assert runner(["--campaign", str(campaign.root), "measure", "--gpu", "cpu"]) == 2
    error = capsys.readouterr().err
    assert f"'model' is no folder below {campaign.protocol_dir}" in error and "put the folder back there" in error
    assert not list(campaign.attempts.glob("*.json"))


def test_a_folder_that_goes_away_between_attempts_burns_none(tmp_path: Path) -> None:
    """M23: rows stay, and none is written for an attempt that could not begin: the next call has all slots to run."""
    campaign = light_campaign(tmp_path, passes=3)
    with pytest.raises(NotAccepted, match="no longer the frozen one") as stopped:
        measure(campaign, Request(gpu="cpu"), BetweenAttempts(campaign), WORKER)
    assert any("model" in detail and "gone" in detail for detail in stopped.value.details), stopped.value.details
    assert len(read_attempts(campaign)) == 1
    moved = campaign.protocol_dir / "moved"
    moved.rename(moved.with_name("model"))
    outcome = run(campaign)
    assert (len(outcome.written), outcome.completed, outcome.left) == (2, 3, 0)


def test_a_folder_that_goes_away_while_an_attempt_starts_is_named(tmp_path: Path) -> None:
    """M23: this one is a failed row; it says that the folder is gone, not what a library makes of the path."""
    pytest.importorskip("transformers")
    from runner.measure.engines.loading import load_tokenizer

    source = ModelSource(
        path=str(tmp_path / "gone"), allow_custom_code=False, allow_pickle=False, pad_token=None, max_length=8,
        labels=("a", "b"), single_logit=None,
    )  # fmt: skip
    with pytest.raises(AttemptFailed, match=r"the model folder is gone: .*gone"):
        load_tokenizer(source, {"truncation": "right", "padding_side": "right"})
