"""The plan against what really happened: every task with its planned and its actual times.

What happened comes from a table or calendar with the same task ids, or from the records: a measurement
task really ran from the first start to the last end of the attempts on its corpus; installing, loading and
warming up lasted as long as their phases together, spread over the attempts (M17). Where a wall clock moved,
how long measuring took is unknown: only the monotonic durations inside of the attempts are (M20).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from runner.evidence.attempt import Attempt, PhaseName, Status
from runner.pricing.times import seconds_of
from runner.pricing.window import TaskTime, Window
from runner.protocol.schema import Plan, Task
from runner.units import exact_seconds, parse_utc

# Nothing of these ran on a device: they occupied no rental time.
_NEVER_RAN = frozenset({Status.UNAVAILABLE, Status.UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class Happened:
    """One task: planned and actual span, how much later it started, how much longer it took.

    `actual` is None with a reason where nothing is recorded; `planned` is None for what was not planned.
    """

    id: str
    title: str
    planned: tuple[datetime, datetime] | None
    actual: tuple[datetime, datetime] | None
    later_seconds: Decimal | None
    longer_seconds: Decimal | None
    reason: str | None


_NONE_UNKNOWN: Mapping[str, str] = {}


def compare(
    planned: Window, actual: Iterable[TaskTime], unknown: Mapping[str, str] = _NONE_UNKNOWN
) -> tuple[Happened, ...]:
    """All tasks of both, matched by id: the planned ones in their order, then what was not planned.

    `unknown`: why there is no time of a task, by its id.
    """
    done = {task.id: task for task in actual}
    rows = [_compared(task, done.pop(task.id, None), unknown.get(task.id, "not recorded")) for task in planned.tasks]
    extra = sorted(done.values(), key=lambda task: (task.start, task.id))
    rows += [
        Happened(task.id, task.title, None, (task.start, task.end), None, None, "not in the plan") for task in extra
    ]
    return tuple(rows)


def _compared(task: TaskTime, done: TaskTime | None, otherwise: str) -> Happened:
    span = (task.start, task.end)
    if done is None:
        return Happened(task.id, task.title, span, None, None, None, otherwise)
    return Happened(
        task.id,
        task.title,
        span,
        (done.start, done.end),
        later_seconds=seconds_of(done.start - task.start),
        longer_seconds=done.seconds - task.seconds,
        reason=None,
    )


def measured_tasks(
    plan: Plan, attempts: Sequence[Attempt], configuration: str | None = None, moved: Sequence[Attempt] = ()
) -> tuple[TaskTime, ...]:
    """Measurement tasks as they really ran. With a configuration, only its attempts count.

    Where a wall clock moved, nothing is subtracted: the task is left out (`clock_moved_tasks` has it, TI-03).
    `moved`: further attempts during which a clock moved; those between the first and the last one matter too.
    """
    found = []
    for task, ran in _ran(plan, attempts, configuration):
        if not _clock_moved(ran, (*attempts, *moved)):
            start = min(parse_utc(attempt.started_at_utc) for attempt in ran)
            end = max(parse_utc(attempt.ended_at_utc) for attempt in ran if attempt.ended_at_utc is not None)
            found.append(TaskTime(task.id, task.title, task.kind, start, end, source="measured"))
    return tuple(found)


def clock_moved_tasks(
    plan: Plan, attempts: Sequence[Attempt], configuration: str | None = None, moved: Sequence[Attempt] = ()
) -> dict[str, Decimal]:
    """Measurement tasks whose wall clocks moved, by id: seconds that they lasted at least, by the monotonic clock."""
    known = (*attempts, *moved)
    return {
        task.id: _least_seconds(ran) for task, ran in _ran(plan, attempts, configuration) if _clock_moved(ran, known)
    }


def _ran(plan: Plan, attempts: Sequence[Attempt], configuration: str | None) -> Iterator[tuple[Task, list[Attempt]]]:
    """Each measurement task with the ended attempts on its corpus; tasks without one are left out."""
    for task in plan.task:
        if task.kind != "measurement" or task.configuration not in (None, configuration):
            continue
        corpus = task.corpus or plan.deliverables[0]
        ran = [
            attempt
            for attempt in attempts
            if attempt.corpus_id == corpus
            and attempt.status not in _NEVER_RAN
            and attempt.ended_at_utc is not None
            and configuration in (None, attempt.variant_id)
        ]
        if ran:
            yield task, ran


def _clock_moved(ran: Sequence[Attempt], known: Sequence[Attempt]) -> bool:
    """During an attempt from the first to the last of `ran`, of whatever configuration, or between two of them.

    An attempt that is later in its machine's chain cannot have started earlier.
    """
    places: dict[str, list[int]] = {}
    for attempt in ran:
        places.setdefault(attempt.chain.machine_id, []).append(attempt.chain.index)
    if any(
        min(found) <= attempt.chain.index <= max(found)
        for attempt in known
        if (found := places.get(attempt.chain.machine_id)) and attempt.wall_clock_moved
    ):
        return True
    ordered = sorted(ran, key=lambda attempt: (attempt.chain.machine_id, attempt.chain.index))
    return any(
        one.chain.machine_id == other.chain.machine_id
        and one.gpu_declared == other.gpu_declared
        and one.chain.index < other.chain.index
        and parse_utc(other.started_at_utc) < parse_utc(one.started_at_utc)
        for one, other in pairwise(ordered)
    )


def _least_seconds(attempts: Sequence[Attempt]) -> Decimal:
    """Recorded seconds added up per machine, the largest sum: machines may run at the same time."""
    sums: dict[str, Decimal] = {}
    for attempt in attempts:
        found = [
            exact_seconds(phase.seconds)
            for phase in attempt.phases
            if phase.seconds is not None and not phase.inside_pass and phase.name is not PhaseName.PASS
        ]
        found += [] if attempt.pass_seconds is None else [exact_seconds(attempt.pass_seconds)]
        machine = attempt.chain.machine_id
        sums[machine] = sums.get(machine, Decimal(0)) + sum(found, Decimal(0))
    return max(sums.values(), default=Decimal(0))


_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "installation": ("installation",),
    "warm_up": ("process_start", "imports", "download", "load", "compile", "warm_up"),
}
"""What the records show of a task that names no phases itself, where it is the only one of its kind.

Not of an evaluation: judging happens after the attempts, and no attempt records it.
"""


def recorded_seconds(plan: Plan, totals: Mapping[str, Decimal], configuration: str | None = None) -> dict[str, Decimal]:
    """Seconds that the phases of each task really took, by task id. Tasks without a recorded phase are left out."""
    mine = [task for task in plan.task if task.configuration in (None, configuration)]
    found = {}
    for task in mine:
        alone = sum(other.kind == task.kind for other in mine) == 1
        names = task.phases or (_OF_KIND.get(task.kind, ()) if alone else ())
        known = [totals[name] for name in names if name in totals]
        if known:
            found[task.id] = sum(known, Decimal(0))
    return found


def replaced_seconds(plan: Plan, totals: Mapping[str, Decimal], configuration: str | None = None) -> dict[str, Decimal]:
    """Those that take the place of planned durations in the window: only of tasks that name their phases."""
    asked = {task.id for task in plan.task if task.phases}
    return {name: value for name, value in recorded_seconds(plan, totals, configuration).items() if name in asked}


def phase_totals(attempts: Iterable[Attempt]) -> dict[str, Decimal]:
    """Seconds spent in each phase over all attempts (M17): outside the pass time, yet paid for."""
    totals: dict[str, Decimal] = {}
    for attempt in attempts:
        for phase in attempt.phases:
            if phase.seconds is not None and not phase.inside_pass and phase.name is not PhaseName.PASS:
                totals[phase.name.value] = totals.get(phase.name.value, Decimal(0)) + exact_seconds(phase.seconds)
    return totals
