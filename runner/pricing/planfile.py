"""The window of a plan file: refusals of the calendar get the file's name and line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path

from runner.errors import InputRefused, show_value
from runner.pricing.core import CURRENCIES
from runner.pricing.window import Window, access_window
from runner.protocol.read import read_plan
from runner.protocol.schema import Plan
from runner.protocol.toml import Place, read_toml
from runner.units import parse_decimal

_TASK = re.compile(r"task\[(\d+)\](?:\.(\w+))?")


def read_window(
    path: Path,
    *,
    configuration: str | None = None,
    pass_seconds: Mapping[str, Decimal] | None = None,
    task_seconds: Mapping[str, Decimal] | None = None,
) -> tuple[Plan, Window]:
    """Plan and access window of `plan.toml`."""
    plan = read_plan(path)
    check_expenses(plan, path)
    try:
        return plan, access_window(
            plan, configuration=configuration, pass_seconds=pass_seconds or {}, task_seconds=task_seconds or {}
        )
    except InputRefused as error:
        raise InputRefused(
            error.what,
            file=path,
            line=read_toml(path, what="plan").line(_place(error.column)),
            column=error.column,
            value=error.value,
            next_step=error.next_step,
            details=error.details,
        ) from None


def check_plan_file(path: Path, variants: Collection[str]) -> Plan:
    """The plan, if its calendar can be computed for every variant and its tasks name no unknown one."""
    plan = read_plan(path)
    check_configurations(plan, variants, path)
    own = dict.fromkeys(task.configuration for task in plan.task if task.configuration is not None)
    common: tuple[None, ...] = () if variants and set(variants) <= own.keys() else (None,)
    for name in (*common, *own):  # a variant without tasks of its own has the common calendar
        read_window(path, configuration=name)
    return plan


def check_expenses(plan: Plan, path: Path) -> None:
    """Refuse an expense that cannot be listed (M39): no name or reason, a negative amount, an unknown currency."""
    for number, item in enumerate(plan.expense):
        faults = {
            "name": (not item.name.strip(), "an expense needs a name", "say what is paid for"),
            "amount": (parse_decimal(item.amount, name="amount") < 0, "an expense is not negative", "write 0 or more"),
            "currency": (item.currency not in CURRENCIES, "not an ISO 4217 code", "write a code such as EUR or USD"),
            "reason": (not item.reason.strip(), "an expense needs a reason", "say why it is needed"),
        }
        for field, (wrong, what, next_step) in faults.items():
            if wrong:
                raise InputRefused(
                    what,
                    file=path,
                    line=read_toml(path, what="plan").line(("expense", number, field)),
                    column=f"expense[{number + 1}].{field}",
                    value=getattr(item, field),
                    next_step=next_step,
                )


def check_configurations(plan: Plan, variants: Collection[str], path: Path) -> None:
    """Refuse a task for a variant that is not among `variants`: its hours would vanish from every configuration.

    Nothing is refused while no variant is known yet.
    """
    for number, task in enumerate(plan.task):
        if variants and task.configuration is not None and task.configuration not in variants:
            place = ("task", number, "configuration")
            raise InputRefused(
                f"the task {show_value(task.id)} is for a variant that is not known",
                file=path,
                line=read_toml(path, what="plan").line(place),
                column=f"task[{number + 1}].configuration",
                value=task.configuration,
                next_step=f"one of: {', '.join(variants)}; or leave it out, for all of them",
            )


def _place(column: str | int | None) -> Place:
    """`task[2].start` as the place that the TOML reader knows."""
    if column is None:
        return ()
    found = _TASK.fullmatch(str(column))
    if found is None:
        return (column,)
    return ("task", int(found[1]) - 1, *((found[2],) if found[2] else ()))
