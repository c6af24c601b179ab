"""`runner validate`, as people read it: what all passes are warned of is said once (M2, DESIGN 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.attempt import Status
from runner.evidence.store import AttemptStore
from runner.protocol.freeze import freeze
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

SHARED = "device: other processes used the device during the pass"


@pytest.mark.parametrize("shared", [(True, True), (True, False)])
def test_m2_a_warning_for_every_pass_is_said_once(
    shared: tuple[bool, bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An attempt that was not completed has no warning and hides none; a warning of one pass stands at its line."""
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    predictions = write_predictions(campaign.predictions / "p.parquet", [(row[0], row[2]) for row in ROWS])
    for number, one in enumerate(shared):
        store_attempt(campaign, make_attempt(campaign, lock, predictions, number=number, device_shared=one))
    gone = {"status": Status.INTERRUPTED, "pass_seconds": None, "pass_seconds_reason": "stopped"}
    store_attempt(campaign, make_attempt(campaign, lock, None, number=2, completed_documents=3, **gone))
    assert run(["--campaign", str(tmp_path), "validate"]) == 0
    shown = capsys.readouterr().out
    assert shown.count(SHARED) == 1, shown
    assert (f"warning for every completed pass: {SHARED}" in shown) == all(shared)
    assert (f"    warning: {SHARED}" in shown) == (not all(shared))
    assert f"next: runner --campaign {tmp_path} decide" in shown


def test_m2_a_list_made_while_measuring_says_so_and_why_it_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row that has not ended is no refusal of its configuration yet; rows of two GPUs are told apart."""
    campaign = make_campaign(tmp_path)
    lock = freeze(campaign)
    predictions = write_predictions(campaign.predictions / "p.parquet", [(row[0], row[2]) for row in ROWS])
    store_attempt(campaign, make_attempt(campaign, lock, predictions, number=0))
    assert run(["--campaign", str(tmp_path), "validate"]) == 0
    assert "cpu" not in capsys.readouterr().out.replace(str(tmp_path), "")
    now = {"status": Status.STARTED, "pass_seconds": None, "pass_seconds_reason": "not ended", "gpu_declared": "b200"}
    store = AttemptStore(campaign)
    row = make_attempt(campaign, lock, None, number=1, completed_documents=0, **now)
    store.start(row.model_copy(update={"chain": store.next_link("m1")}))
    assert run(["--campaign", str(tmp_path), "validate"]) == 3
    shown = capsys.readouterr().out
    assert "pass 1 cpu " in shown and "pass 2 b200 " in shown
    assert "1 of them not ended" in shown and "exit status 3: 1 not accepted" in shown
    assert "next: wait until measuring has ended" in shown and "decide" not in shown
