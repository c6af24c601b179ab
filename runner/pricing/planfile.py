"""The window of a plan file: refusals of the calendar get the file's name and line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from runner.errors import InputRefused
from runner.pricing.window import Window, access_window
from runner.protocol.read import read_plan
from runner.protocol.schema import Plan
from runner.protocol.toml import Place, read_toml

_TASK = re.compile(r"task\[(\d+)\](?:\.(\w+))?")


def read_window(
    path: Path, *, configuration: str | None = None, pass_seconds: Mapping[str, Decimal] | None = None,
    task_seconds: Mapping[str, Decimal] | None = None,
) -> tuple[Plan, Window]:
    """Plan and access window of `plan.toml`."""
    plan = read_plan(path)
    try:
        return plan, access_window(plan, configuration=configuration, pass_seconds=pass_seconds or {},
                                   task_seconds=task_seconds or {})
    except InputRefused as error:
        raise InputRefused(
            error.what, file=path, line=read_toml(path, what="plan").line(_place(error.column)), column=error.column,
            value=error.value, next_step=error.next_step, details=error.details,
        ) from None


def _place(column: str | int | None) -> Place:
    """`task[2].start` as the place that the TOML reader knows."""
    if column is None:
        return ()
    found = _TASK.fullmatch(str(column))
    if found is None:
        return (column,)
    return ("task", int(found[1]) - 1, *((found[2],) if found[2] else ()))
