"""The plan against what really happened: every task with its planned and its actual times.

What happened comes from a table or calendar with the same task ids, or from the attempts: a measurement
task really ran from the first start to the last end of the attempts on its corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from runner.evidence.attempt import Attempt, Status
from runner.pricing.times import seconds_of
from runner.pricing.window import TaskTime, Window
from runner.protocol.schema import Plan
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


def compare(planned: Window, actual: Iterable[TaskTime]) -> tuple[Happened, ...]:
    """All tasks of both, matched by id: the planned ones in their order, then what was not planned."""
    done = {task.id: task for task in actual}
    rows = [_compared(task, done.pop(task.id, None)) for task in planned.tasks]
    extra = sorted(done.values(), key=lambda task: (task.start, task.id))
    rows += [
        Happened(task.id, task.title, None, (task.start, task.end), None, None, "not in the plan") for task in extra
    ]
    return tuple(rows)


def _compared(task: TaskTime, done: TaskTime | None) -> Happened:
    span = (task.start, task.end)
    if done is None:
        return Happened(task.id, task.title, span, None, None, None, "not recorded")
    return Happened(
        task.id, task.title, span, (done.start, done.end), later_seconds=seconds_of(done.start - task.start),
        longer_seconds=done.seconds - task.seconds, reason=None,
    )


def measured_tasks(plan: Plan, attempts: Sequence[Attempt], configuration: str | None = None) -> tuple[TaskTime, ...]:
    """Measurement tasks as they really ran. With a configuration, only its attempts count."""
    found = []
    for task in plan.task:
        if task.kind != "measurement" or task.configuration not in (None, configuration):
            continue
        corpus = task.corpus or plan.deliverables[0]
        spans = [
            (parse_utc(attempt.started_at_utc), parse_utc(attempt.ended_at_utc)) for attempt in attempts
            if attempt.corpus_id == corpus and attempt.status not in _NEVER_RAN and attempt.ended_at_utc is not None
            and configuration in (None, attempt.variant_id)
        ]
        if spans:
            start, end = min(start for start, _ in spans), max(end for _, end in spans)
            found.append(TaskTime(task.id, task.title, task.kind, start, end, source="measured"))
    return tuple(found)


def phase_totals(attempts: Iterable[Attempt]) -> Mapping[str, Decimal]:
    """Seconds spent in each phase over all attempts (M17): outside the pass time, yet paid for."""
    totals: dict[str, Decimal] = {}
    for attempt in attempts:
        for phase in attempt.phases:
            if phase.seconds is not None and not phase.inside_pass:
                totals[phase.name.value] = totals.get(phase.name.value, Decimal(0)) + exact_seconds(phase.seconds)
    return totals
