"""What an attempt counts as: accepted, a failure, or neither (DESIGN section 6, rules 1 and 4)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Status
from runner.evidence.verdict import Verdict

_NOT_COUNTED = frozenset({Status.UNAVAILABLE, Status.UNSUPPORTED, Status.INTERRUPTED})


class Fate(StrEnum):
    """Every attempt has exactly one."""

    ACCEPTED = "accepted"
    FAILURE = "failure"
    NOT_COUNTED = "not counted"


@dataclass(frozen=True, slots=True)
class Judged:
    """An attempt with its verdict (none where nothing could be judged) and what it counts as."""

    attempt: Attempt
    verdict: Verdict | None
    fate: Fate

    def failed(self, *names: str) -> bool:
        """Whether a check of one of these names failed or could not be made; `subgroup` covers all subgroups."""
        return self.verdict is not None and any(
            check.status in ("failed", "not assessable") and check.name.partition(" ")[0] in names
            for check in self.verdict.checks
        )


def judge_fates(
    attempts: Sequence[Attempt], verdicts: Mapping[str, Verdict], excluded: Container[str] = ()
) -> tuple[Judged, ...]:
    """Join attempts with verdicts, in schedule order whatever the order of input.

    A row that is still `started` counts as a failure until its end is known: nothing may hide a lost
    pass. A completed attempt without a verdict is refused.
    """
    ordered = sorted(attempts, key=schedule_place)
    return tuple(
        Judged(a, verdicts.get(a.attempt_id), _fate(a, verdicts.get(a.attempt_id), a.attempt_id in excluded))
        for a in ordered
    )


def schedule_place(attempt: Attempt) -> tuple[int, int, int, str, str]:
    """Sorting key: seed, pass, position in the block, then time and id for a slot that was run again."""
    slot = attempt.slot
    return (attempt.seed, slot.pass_index, slot.position, attempt.started_at_utc, attempt.attempt_id)


def _fate(attempt: Attempt, verdict: Verdict | None, excluded: bool) -> Fate:
    if attempt.status is Status.COMPLETED and verdict is None:
        raise InputRefused(
            f"{attempt.attempt_id} is completed but has no verdict",
            next_step="run `runner validate`, then decide again",
        )
    if excluded or attempt.status in _NOT_COUNTED:
        return Fate.NOT_COUNTED
    if attempt.status is Status.COMPLETED and verdict is not None and verdict.accepted:
        return Fate.ACCEPTED
    return Fate.FAILURE
