"""The plan against what really happened, per configuration, as data for the balance (M17, M34)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from runner.decide.fates import Judged
from runner.decide.model import BalanceRow, Reason, TaskHappened
from runner.decide.sentences import say
from runner.decide.summaries import decimal_text
from runner.evidence.attempt import Attempt
from runner.evidence.manifest import Manifest
from runner.pricing.happened import clock_moved_tasks, measured_tasks, phase_totals, recorded_seconds, replaced_seconds
from runner.pricing.times import seconds_of
from runner.pricing.window import TaskTime, place_tasks
from runner.protocol.schema import Lock, Plan
from runner.units import exact_seconds, parse_utc, utc_text


def phases_of(attempts: Sequence[Attempt], manifests: Mapping[str, Manifest]) -> dict[str, Decimal]:
    """Seconds by phase over these attempts; the installation once per machine, as its manifests have it."""
    totals = dict(phase_totals(attempts))
    used = {attempt.manifest_sha256 for attempt in attempts}
    installed = {
        manifest.machine_id: exact_seconds(seconds)
        for name, manifest in sorted(manifests.items())
        if name in used and isinstance(seconds := manifest.installation.get("seconds"), int | float) and seconds >= 0
    }
    if installed:
        totals["installation"] = sum(installed.values(), Decimal(0))
    return dict(sorted(totals.items()))


def replaced_in(plan: Plan, row: BalanceRow | None) -> dict[str, Decimal]:
    """Recorded durations that a configuration's window takes in place of planned ones, by task id."""
    if row is None:
        return {}
    return replaced_seconds(plan, {name: Decimal(text) for name, text in row.phase_seconds.items()}, row.variant_id)


def what_happened(
    plan: Plan,
    variant_id: str,
    attempts: Sequence[Attempt],
    totals: Mapping[str, Decimal],
    moved: Sequence[Attempt] = (),
) -> tuple[TaskHappened, ...]:
    """Every task of the plan as planned, beside what the records of a configuration's attempts show of it.

    `moved`: attempts of the whole campaign during which a wall clock moved.
    """
    spans = {task.id: task for task in measured_tasks(plan, attempts, variant_id, moved)}
    seconds = recorded_seconds(plan, totals, variant_id)
    planned = sorted(place_tasks(plan, variant_id, {}, {}), key=lambda task: (task.start, task.end, task.id))
    least = clock_moved_tasks(plan, attempts, variant_id, moved)
    return tuple(_beside(task, spans.get(task.id), seconds.get(task.id), least.get(task.id)) for task in planned)


def clock_warnings(judged: Sequence[Judged], lock: Lock) -> tuple[Reason, ...]:
    """Attempts whose times of day cannot be right: set during the attempt, or behind the freeze (TI-03, TI-11)."""
    attempts = [item.attempt for item in judged]
    moved = [attempt for attempt in attempts if attempt.wall_clock_moved]
    frozen = parse_utc(lock.frozen_at_utc)
    behind = [frozen - start for attempt in attempts if (start := parse_utc(attempt.started_at_utc)) < frozen]
    found = [say("clock.moved", n_count=str(len(moved)))] if moved else []
    if behind:
        most = decimal_text(seconds_of(max(behind)))
        found.append(say("clock.behind", n_count=str(len(behind)), behind_elapsed_seconds=most))
    return tuple(found)


def _beside(task: TaskTime, span: TaskTime | None, seconds: Decimal | None, least: Decimal | None) -> TaskHappened:
    """`least`: seconds that it lasted at least, where a wall clock moved and its times are not subtracted."""
    took = seconds if span is None else span.seconds
    unknown = (
        say("happened.unrecorded")
        if least is None
        else say("happened.clock", least_elapsed_seconds=decimal_text(least))
    )
    return TaskHappened(
        task_id=task.id,
        title=task.title,
        kind=task.kind,
        planned_start_utc=utc_text(task.start),
        planned_end_utc=utc_text(task.end),
        planned_seconds=decimal_text(task.seconds),
        actual_start_utc=None if span is None else utc_text(span.start),
        actual_end_utc=None if span is None else utc_text(span.end),
        actual_seconds=None if took is None else decimal_text(took),
        actual_reason=unknown if took is None else None,
    )
