"""The access window (M34): from the first start on the rental to the last collection, in elapsed hours.

Tasks overlap as in the calendar and are never added twice. Busy time is the union of all tasks but the
waits; waiting is the rest of the window, in which the rental is kept and paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from runner.errors import InputRefused, show_value
from runner.pricing.times import elapsed, parse_duration, parse_instant, seconds_of, zone_of
from runner.protocol.schema import Plan, Task

Span = tuple[datetime, datetime]
_NOTHING_MEASURED: Mapping[str, Decimal] = {}


@dataclass(frozen=True, slots=True)
class TaskTime:
    """A task in the calendar. `moved`: later than written, because a task before it took longer."""

    id: str
    title: str
    kind: str
    start: datetime
    end: datetime
    lots: int = 1
    delivery: bool = False
    source: Literal["planned", "measured"] = "planned"
    moved: bool = False
    after_rental: bool = False

    @property
    def seconds(self) -> Decimal:
        return seconds_of(self.end - self.start)


@dataclass(frozen=True, slots=True)
class Window:
    """Window, busy time and waiting of one configuration; instants in UTC, exact seconds.

    `delivered_at` is the end of the last delivery task. A negative slack misses the deadline. `overrun`: a task
    that measured durations carry beyond the last collection, which then leaves results behind.
    """

    tasks: tuple[TaskTime, ...]
    starts_at: datetime
    ends_at: datetime
    window_seconds: Decimal
    busy_seconds: Decimal
    waiting_seconds: Decimal
    summed_seconds: Decimal
    most_lots: int
    delivered_at: datetime
    deadline: datetime | None = None
    deadline_slack_seconds: Decimal | None = None
    overrun: TaskTime | None = None


def access_window(
    plan: Plan,
    *,
    configuration: str | None = None,
    pass_seconds: Mapping[str, Decimal] = _NOTHING_MEASURED,
    task_seconds: Mapping[str, Decimal] = _NOTHING_MEASURED,
) -> Window:
    """Window of a plan for one configuration (variant id; None: only the tasks common to all).

    `pass_seconds` gives a duration per corpus id: each `measurement` task then lasts `passes` times that
    of its corpus. `task_seconds` replaces the duration of any task by its id. A measured task keeps its
    start; what comes after it moves only if it must. Refused: times that are not one instant, unknown or
    circular `after`, tasks still running when the last collection ends, measuring after it, a plan without a
    delivery task or whose deliveries do not wait for the measuring.

    What measured durations carry beyond the last collection is not refused: see `Window.overrun`.
    """
    placed = place_tasks(plan, configuration, {}, {})
    measured = bool(pass_seconds or task_seconds)
    if measured:
        window_of(placed)  # the plan's own times are refused, whatever was measured
        placed = place_tasks(plan, configuration, pass_seconds, task_seconds, may_move=True)
    if not any(task.delivery for task in placed):
        raise InputRefused(
            "no task is the delivery",
            column="task",
            next_step="write delivery = true at the task whose end the deadline applies to",
        )
    _check_deliveries(plan, {task.id for task in placed})
    deadline = parse_instant(plan.deadline, plan.zone, name="deadline")
    return window_of(placed, deadline, may_overrun=measured)


def _check_deliveries(plan: Plan, present: set[str]) -> None:
    """A delivery comes after the results exist: one of them is, or waits for, every measuring of a deliverable.

    `present`: ids of the tasks of this configuration. A fixed start alone does not wait: measuring may last longer.
    """
    by_id = {task.id: task for task in plan.task}
    reached = [task.id for task in plan.task if task.delivery and task.id in present]
    for name in reached:  # grows while it is read
        reached += [before for before in by_id[name].after if before not in reached]
    for number, task in enumerate(plan.task, start=1):
        measures = task.kind == "measurement" and (task.corpus is None or task.corpus in plan.deliverables)
        if measures and task.id in present and task.id not in reached:
            raise InputRefused(
                f"no delivery waits for {show_value(task.id)}, which measures a deliverable",
                column=f"task[{number}].id",
                value=task.id,
                next_step=f'add "{task.id}" to the after of a delivery, or of a task that the delivery waits for',
            )


def window_of(tasks: Iterable[TaskTime], deadline: datetime | None = None, *, may_overrun: bool = False) -> Window:
    """Window of tasks with known times. The order of the tasks does not matter.

    A task that runs on when the last collection ends, and a measurement after it, are refused; with `may_overrun`
    the first of them is named in the window instead.
    """
    ordered = sorted(tasks, key=lambda task: (task.start, task.end, task.id))
    if not ordered:
        raise InputRefused(
            "no task: there is nothing to rent for",
            column="task",
            next_step="write a [[task]] in protocol/plan.toml; docs/pricing.md shows one",
        )
    starts_at = ordered[0].start
    ends_at = max([task.end for task in ordered if task.kind == "collection"] or [task.end for task in ordered])
    overrun = next((task for task in ordered if _overruns(task, ends_at)), None)
    if overrun is not None and not may_overrun:
        raise InputRefused(
            f"task {show_value(overrun.id)} still runs when the last collection ends"
            if overrun.start < ends_at
            else f"task {show_value(overrun.id)} measures after the last collection",
            column="task",
            value=overrun.end.isoformat(),
            next_step="let the collection come after it"
            + ("" if overrun.kind == "measurement" else ", or start it after the collection"),
        )
    ordered = [replace(task, after_rental=True) if task.start >= ends_at < task.end else task for task in ordered]
    rental = [task for task in ordered if not task.after_rental]
    busy = total(union((task.start, min(task.end, ends_at)) for task in rental if task.kind != "wait"))
    window = ends_at - starts_at
    delivered_at = max([task.end for task in ordered if task.delivery] or [ends_at])
    return Window(
        tasks=tuple(ordered),
        starts_at=starts_at,
        ends_at=ends_at,
        window_seconds=seconds_of(window),
        busy_seconds=seconds_of(busy),
        waiting_seconds=seconds_of(window - busy),
        summed_seconds=sum((task.seconds for task in rental), Decimal(0)),
        most_lots=most_lots(rental),
        delivered_at=delivered_at,
        deadline=deadline,
        deadline_slack_seconds=None if deadline is None else seconds_of(deadline - delivered_at),
        overrun=overrun,
    )


def _overruns(task: TaskTime, ends_at: datetime) -> bool:
    """Whether a task needs the rental after its end. What starts later, such as reading the note at home, does not."""
    return task.end > ends_at and (task.start < ends_at or task.kind == "measurement")


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Overlapping and touching spans united, in order of time."""
    blocks: list[Span] = []
    for start, end in sorted(spans):
        if blocks and start <= blocks[-1][1]:
            blocks[-1] = (blocks[-1][0], max(blocks[-1][1], end))
        else:
            blocks.append((start, end))
    return tuple(blocks)


def total(spans: Iterable[Span]) -> timedelta:
    """Sum of the lengths."""
    return sum((end - start for start, end in spans), timedelta())


def most_lots(tasks: Sequence[TaskTime]) -> int:
    """Most lots in use at one moment; a task that starts when another ends does not overlap with it."""
    changes = sorted(
        [(task.start, task.lots) for task in tasks if task.end > task.start]
        + [(task.end, -task.lots) for task in tasks if task.end > task.start]
    )
    used = most = 0
    for _, change in changes:
        used += change
        most = max(most, used)
    return most


# ---- placing the tasks of a plan -----------------------------------------------------------------


def place_tasks(
    plan: Plan,
    configuration: str | None,
    pass_seconds: Mapping[str, Decimal],
    task_seconds: Mapping[str, Decimal],
    *,
    may_move: bool = False,
) -> tuple[TaskTime, ...]:
    """The plan's tasks with start and end, in the order of their dependencies.

    `may_move`: a fixed start gives way to a task before it that was measured to take longer; without it a
    plan whose own times contradict its dependencies is refused.
    """
    zone_of(plan.zone)  # refused even where every time has its own offset
    by_id = {task.id: task for task in plan.task}
    if len(by_id) != len(plan.task):
        names = [task.id for task in plan.task]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputRefused(
            "two tasks have the same id", column="task", value=twice, next_step="give each task an id of its own"
        )
    places = {task.id: f"task[{number}]" for number, task in enumerate(plan.task, start=1)}
    placed: dict[str, TaskTime] = {}
    for task in _in_order(by_id, places):
        place = places[task.id]
        measured = _measured(task, place, plan, pass_seconds, task_seconds)
        before = [placed[name] for name in _before(task, by_id, configuration)]
        if task.configuration in (None, configuration):
            placed[task.id] = _place(task, place, plan.zone, before, measured, may_move)
    return tuple(placed.values())


def _measured(
    task: Task, place: str, plan: Plan, pass_seconds: Mapping[str, Decimal], task_seconds: Mapping[str, Decimal]
) -> Decimal | None:
    if task.id in task_seconds:
        return task_seconds[task.id]
    if task.kind != "measurement" or not pass_seconds:
        return None
    if task.corpus is None and len(plan.deliverables) > 1:
        raise InputRefused(
            "a measurement task does not say which corpus it processes",
            column=f"{place}.corpus",
            next_step=f"write corpus = one of: {', '.join(plan.deliverables)}",
        )
    corpus = task.corpus or plan.deliverables[0]
    return None if corpus not in pass_seconds else pass_seconds[corpus] * task.passes


def _in_order(by_id: Mapping[str, Task], places: Mapping[str, str]) -> list[Task]:
    """Each task after those it waits for; unknown names and circles are refused."""
    waiting = {name: set(task.after) for name, task in by_id.items()}
    for name, before in waiting.items():
        if unknown := sorted(before - by_id.keys()):
            raise InputRefused(
                f"task {show_value(name)} waits for a task that is not in the plan",
                column=f"{places[name]}.after",
                value=unknown[0],
                next_step=f"name one of: {', '.join(by_id)}",
            )
    order: list[Task] = []
    while waiting:
        ready = [name for name, before in waiting.items() if not before]
        if not ready:
            first = next(iter(waiting))
            raise InputRefused(
                "tasks wait for each other in a circle",
                column=f"{places[first]}.after",
                value=", ".join(sorted(waiting)),
                next_step="take one of them out of the after of another",
            )
        for name in ready:
            order.append(by_id[name])
            del waiting[name]
        for before in waiting.values():
            before.difference_update(ready)
    return order


def _before(task: Task, by_id: Mapping[str, Task], configuration: str | None) -> set[str]:
    """What the task waits for; through a task of another configuration to what that one waits for."""
    names: set[str] = set()
    for name in task.after:
        other = by_id[name]
        names |= {name} if other.configuration in (None, configuration) else _before(other, by_id, configuration)
    return names


def _place(
    task: Task, place: str, zone: str, before: Sequence[TaskTime], measured: Decimal | None, may_move: bool
) -> TaskTime:
    fixed_start, length = _written(task, place, zone)
    ready = max((other.end for other in before), default=None)
    if fixed_start is None and ready is None:
        raise InputRefused(
            f"task {show_value(task.id)} has no start",
            column=place,
            next_step="write start, or after = [the tasks that it waits for]",
        )
    late = fixed_start is not None and ready is not None and ready > fixed_start
    if late and not may_move:
        raise InputRefused(
            f"task {show_value(task.id)} starts before a task that it waits for has ended",
            column=f"{place}.start",
            value=task.start,
            next_step="start it later, or plan the tasks before it shorter",
        )
    start = max(moment for moment in (fixed_start, ready) if moment is not None)
    try:
        if measured is not None:
            length = elapsed(measured)
        end = start + length
    except OverflowError:
        raise InputRefused(
            f"task {show_value(task.id)} ends outside the calendar",
            column=place,
            value=task.duration or task.end,
            next_step="let it end before the year 10000",
        ) from None
    return TaskTime(
        id=task.id,
        title=task.title,
        kind=task.kind,
        start=start,
        end=end,
        lots=task.lots,
        delivery=task.delivery,
        source="planned" if measured is None else "measured",
        moved=late,
    )


def _written(task: Task, place: str, zone: str) -> tuple[datetime | None, timedelta]:
    """Start (if fixed) and elapsed length as the plan writes them: start and end, or a duration."""
    start = None if task.start is None else parse_instant(task.start, zone, name=f"{place}.start")
    if (task.duration is None) == (task.end is None) or (task.end is not None and start is None):
        raise InputRefused(
            f"task {show_value(task.id)} needs start and end, or a duration",
            column=place,
            next_step="write start and end, start and duration, or duration and after",
        )
    if task.duration is not None:
        return start, parse_duration(task.duration, name=f"{place}.duration")
    assert task.end is not None and start is not None
    end = parse_instant(task.end, zone, name=f"{place}.end")
    if end < start:
        raise InputRefused(
            f"task {show_value(task.id)} ends before it starts",
            column=f"{place}.end",
            value=task.end,
            next_step="write an end after the start",
        )
    return start, end - start
