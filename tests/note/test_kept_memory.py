"""M21, M22: in a kept process every attempt names how many it served before; a counter is one row all the same."""

from __future__ import annotations

from pathlib import Path

from runner.evidence.attempt import Attempt
from runner.note.build import note_markdown
from tests.note.sample import OWN_MACHINE, make_campaign, rewrite_attempts

_ALONE = "resident memory, this worker process only, high-water mark reset before the pass; time of the largest sample"


def _served(attempt: Attempt) -> Attempt:
    """As a kept process writes it: `served` grows with the number of the attempt."""
    served = int(attempt.attempt_id[-1]) - 1
    whose = f"this worker process (attempts served before: {served})" if served else "this worker process only"
    scope = _ALONE.replace("this worker process only", whose)
    peaks = tuple(
        peak.model_copy(update={"scope": scope, "bytes": (peak.bytes or 0) + served * (1 << 20)})
        for peak in attempt.memory
    )
    return attempt.model_copy(update={"memory": peaks})


def test_a_kept_process_gives_one_row_per_counter_and_says_how_many_it_served(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path / "campaign", OWN_MACHINE)
    before = _memory(note_markdown(campaign))
    rewrite_attempts(campaign, _served)
    after = _memory(note_markdown(campaign))
    rows = [line for line in after.splitlines() if line.startswith("| cpu")]
    scopes = [line for line in after.splitlines() if line.startswith("- ")]
    assert len(rows) == len([line for line in before.splitlines() if line.startswith("| cpu")])
    assert len(scopes) == 1 and "(attempts served before: at most 4)" in scopes[0]


def _memory(text: str) -> str:
    return text.split("{#sec-memory}", 1)[1].split("{#sec-work}", 1)[0]
