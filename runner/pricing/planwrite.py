"""A plan file from a calendar: the times as somebody moved them there, everything else as the plan has it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.files import write_atomic
from runner.pricing.planfile import read_window
from runner.pricing.times import local_text, parse_instant
from runner.pricing.window import TaskTime, Window
from runner.protocol.schema import Plan, Task

_HEAD = "# Times from a calendar; every task has its own start and end. docs/pricing.md explains every key."
_KEPT = ("schema_version", "zone", "deliverables", "billing", "extra_periods", "lots", "provider", "order")


def write_plan(target: Path, plan: Plan, moved: Window) -> None:
    """Write `plan` with the tasks and times of `moved` to a new file; refused where they contradict each other.

    Tasks are matched by id: what only the plan knows of them (corpus, passes, `after`, configuration) stays. An
    event with another id becomes a task of its own; a task without an event is left out.
    """
    if target.exists():
        raise InputRefused("this file is there already", file=target, next_step="choose another name, then compare")
    text = plan_text(plan, moved)
    with tempfile.TemporaryDirectory(prefix="runner-plan-") as folder:
        trial = Path(folder) / "plan.toml"
        trial.write_text(text, encoding="utf-8")
        try:
            read_window(trial)
        except InputRefused as error:
            raise InputRefused(
                f"the calendar does not make a plan: {error.what}",
                column=error.column,
                value=error.value,
                next_step=error.next_step,
                details=error.details,
            ) from None
    write_atomic(target, text.encode("utf-8"))


def plan_text(plan: Plan, moved: Window) -> str:
    """The TOML text, tasks in order of time."""
    deadline = plan.deadline if moved.deadline is None else _local(moved.deadline, plan.zone)
    values = {name: value for name, value in plan.as_json().items() if name in _KEPT and value is not None}
    lines = [_HEAD, "", *_keys(values | {"deadline": deadline})]
    known, placed = {task.id: task for task in plan.task}, {task.id for task in moved.tasks}
    for task in moved.tasks:
        lines += ["", "[[task]]", *_keys(dict(_task(task, known.get(task.id), placed, plan.zone)))]
    for expense in plan.expense:
        lines += ["", "[[expense]]", *_keys({name: v for name, v in expense.as_json().items() if v is not None})]
    return "\n".join([*lines, ""])


def _task(task: TaskTime, known: Task | None, placed: set[str], zone: str) -> Iterator[tuple[str, object]]:
    yield from (("id", task.id), ("title", task.title), ("kind", task.kind if known is None else known.kind))
    yield from (("start", _local(task.start, zone)), ("end", _local(task.end, zone)))
    if task.lots != 1:
        yield "lots", task.lots
    if task.delivery:
        yield "delivery", True
    if known is None:
        return
    if after := [name for name in known.after if name in placed]:
        yield "after", after
    for name in ("configuration", "corpus"):
        if (value := getattr(known, name)) is not None:
            yield name, value
    if known.passes != 1:
        yield "passes", known.passes
    if known.phases:
        yield "phases", list(known.phases)


def _keys(values: dict[str, object]) -> Sequence[str]:
    """TOML lines; a JSON string, list, number or truth value is the same in TOML."""
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def _local(moment: datetime, zone: str) -> str:
    """`2027-10-04T09:00` on the zone's clock; with its offset where the clock alone would not say which instant."""
    exact = local_text(moment, zone)
    short = exact[:-6].removesuffix(":00") if exact[:-6].count(":") == 2 and "." not in exact else exact[:-6]
    try:
        same = parse_instant(short, zone) == moment
    except InputRefused:
        same = False
    return short if same else exact
