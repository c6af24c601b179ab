"""`runner window`: how long a rental is needed, which packages cover it, and what really happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from runner.cli.output import Output, Session, runner_command
from runner.cli.values import named_as
from runner.decide.sentences import say
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.evidence.store import read_attempts
from runner.pricing import core
from runner.pricing.calendar import read_calendar, write_calendar
from runner.pricing.happened import (
    Happened,
    clock_moved_tasks,
    compare,
    measured_tasks,
    phase_totals,
    recorded_seconds,
)
from runner.pricing.planfile import read_window
from runner.pricing.planwrite import write_plan
from runner.pricing.tasks import read_tasks
from runner.pricing.times import local_text, parse_instant, seconds_of
from runner.pricing.window import TaskTime, Window, window_of
from runner.protocol.lockfile import read_lock
from runner.protocol.read import read_plan
from runner.protocol.schema import Plan
from runner.units import round_half_up, utc_text

START = click.option("--start", help="first start, such as 2026-10-05T09:00")
END = click.option("--end", help="last collection, such as 2026-10-09T09:00")
ZONE = click.option("--zone", help="IANA zone of --start and --end, such as Europe/Berlin")


@runner_command("window", short_help="Elapsed hours of a rental's calendar, and which packages cover.")
@START
@END
@ZONE
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="default: protocol/plan.toml of the campaign, if no --start is given",
)
@click.option(
    "--tasks",
    type=click.Path(dir_okay=False, path_type=Path),
    help="a table of tasks (.csv: task,start,end,tz) or a calendar (.ics) instead of the plan",
)
@click.option("--configuration", help="variant id: adds the tasks of this configuration")
@click.option(
    "--calendar",
    type=click.Path(dir_okay=False, path_type=Path),
    help="also write the tasks as a calendar (.ics)",
)
@click.option(
    "--write-plan",
    "new_plan",
    type=click.Path(dir_okay=False, path_type=Path),
    help="with --tasks: also write the campaign's plan with these times as a new file",
)
@click.option(
    "--measured",
    is_flag=True,
    help="measured durations in place of planned ones, as the decision uses them; needs --configuration b1 or b200.b1",
)
@click.option("--happened", is_flag=True, help="beside the plan, what the records of the campaign say")
@click.option(
    "--against",
    type=click.Path(dir_okay=False, path_type=Path),
    help="beside the plan, what really happened: a table or calendar with the same task ids",
)
def window(
    session: Session,
    start: str | None,
    end: str | None,
    zone: str | None,
    plan_file: Path | None,
    tasks: Path | None,
    configuration: str | None,
    calendar: Path | None,
    new_plan: Path | None,
    measured: bool,
    happened: bool,
    against: Path | None,
) -> Output:
    """Elapsed hours from first start to last collection, busy time, and which packages cover."""
    given = {
        "--plan": plan_file is not None, "--tasks": tasks is not None, "--configuration": configuration is not None,
        "--calendar": calendar is not None, "--write-plan": new_plan is not None, "--measured": measured,
        "--happened": happened, "--against": against is not None,
    }  # fmt: skip
    if start is not None or end is not None:
        _refuse_unused(given, "--start and --end, which have no tasks", "leave it out, or leave out --start and --end")
        first, last = span(start, end, zone)
        ends = {"starts_at_utc": utc_text(first), "ends_at_utc": utc_text(last)}
        return _window_output(seconds_of(last - first), [], ends)
    campaign = Campaign(session.root)
    plan_path = plan_file or campaign.plan
    if new_plan is not None and tasks is None:
        raise InputRefused("--write-plan needs the times of --tasks", next_step="runner window --tasks moved.ics")
    if measured and (configuration is None or tasks is not None):
        raise InputRefused("--measured needs the plan and --configuration", next_step="add --configuration b1")
    if calendar is not None:
        named_as(calendar, ".ics", "--calendar")
    told = _Told()
    if tasks is not None:
        plans = ("--configuration", "--happened", *(() if new_plan else ("--plan",)))
        _refuse_unused({name: given[name] for name in plans}, "--tasks", "leave it out, or leave out --tasks")
        found, shown_in = tasks_window(tasks), zone or "UTC"
    else:
        plan, found = _planned(campaign, plan_path, configuration, measured=measured)
        shown_in = zone or plan.zone
        if happened:
            told = _recorded(campaign, plan, configuration)
    actual = [*told.actual, *(() if against is None else tasks_window(against).tasks)]
    lines, data = _plan_lines(found, shown_in), _plan_data(found)
    if happened:
        data["phase_seconds"] = {name: f"{seconds:f}" for name, seconds in told.phases.items()}
    if happened or against is not None:
        rows = compare(found, actual, told.unknown)
        lines.append("plan and what happened:")
        lines += [f"  {_happened_text(row, shown_in, told.spread.get(row.id))}" for row in rows]
        data["happened"] = [_happened_data(row, told.spread.get(row.id)) for row in rows]
        if told.phases:
            shown = ", ".join(
                f"{name.replace('_', ' ')} {core.hours_text(round_half_up(s, 1))}" for name, s in told.phases.items()
            )
            lines.append(f"  outside of the passes, all attempts together: {shown}")
    if new_plan is not None:
        write_plan(new_plan, read_plan(plan_path), found)
        lines.append(f"plan: {new_plan}")
    if calendar is not None:
        write_atomic(calendar, write_calendar(found, "plan"))
        lines.append(f"calendar: {calendar}")
    return _window_output(found.window_seconds, lines, data)


@dataclass(frozen=True)
class _Told:
    """What the records say of the plan's tasks: measured ones, seconds by phase and by task, why one is unknown."""

    actual: tuple[TaskTime, ...] = ()
    phases: Mapping[str, Decimal] = field(default_factory=dict)
    spread: Mapping[str, Decimal] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def _refuse_unused(given: Mapping[str, bool], beside: str, next_step: str) -> None:
    """An option that could not be followed is refused: left out in silence, it would look as if it had been."""
    for name, is_given in given.items():
        if is_given:
            raise InputRefused(f"{name} is of no use beside {beside}", column=name, next_step=next_step)


def _planned(campaign: Campaign, plan_path: Path, configuration: str | None, *, measured: bool) -> tuple[Plan, Window]:
    """The plan and its window, with measured durations in place of planned ones if asked for."""
    from runner.flows.plan_check import check_asked  # expands the protocol; spans and tables need no campaign

    check_asked(campaign, plan_path, None if measured else configuration)  # a measured one is sought in the balance
    if measured and configuration is not None:
        from runner.flows.measured_window import measured_window  # judging is not needed for the other questions

        return measured_window(campaign, plan_path, configuration)
    return read_window(plan_path, configuration=configuration)


def _recorded(campaign: Campaign, plan: Plan, configuration: str | None) -> _Told:
    """What the rows of this lock say; those of an earlier freeze are of another measuring (M3)."""
    lock = read_lock(campaign).lock_sha256 if campaign.lock.is_file() else None
    attempts = [attempt for attempt in read_attempts(campaign) if lock in (None, attempt.lock_sha256)]
    phases = phase_totals(one for one in attempts if configuration in (None, one.variant_id))
    return _Told(
        actual=measured_tasks(plan, attempts, configuration),
        phases=phases,
        spread=recorded_seconds(plan, phases, configuration),
        unknown={
            name: str(say("happened.clock", least_elapsed_seconds=f"{least:f}"))
            for name, least in clock_moved_tasks(plan, attempts, configuration).items()
        },
    )


def _happened_text(row: Happened, zone: str, spread: Decimal | None) -> str:
    if row.actual is None and spread is not None and row.planned is not None:
        planned = core.hours_text(seconds_of(row.planned[1] - row.planned[0]))
        took = core.hours_text(round_half_up(spread, 1))
        return f"{row.id}: {took} in all, spread over the attempts; planned {planned}"
    if row.actual is None:
        return f"{row.id}: {row.reason}"
    start, end = (_clock(moment, zone) for moment in row.actual)
    if row.later_seconds is None or row.longer_seconds is None:
        return f"{row.id}: {start} to {end}, {row.reason}"
    later = f"{core.hours_text(abs(row.later_seconds))} {'later' if row.later_seconds >= 0 else 'earlier'}"
    longer = f"{core.hours_text(abs(row.longer_seconds))} {'longer' if row.longer_seconds >= 0 else 'shorter'}"
    return f"{row.id}: {start} to {end}, {later} and {longer} than planned"


def _happened_data(row: Happened, spread: Decimal | None) -> dict[str, Any]:
    def span_text(pair: tuple[datetime, datetime] | None) -> list[str] | None:
        return None if pair is None else [utc_text(moment) for moment in pair]

    def seconds_text(value: Decimal | None) -> str | None:
        return None if value is None else f"{value:f}"

    return {
        "id": row.id,
        "planned_utc": span_text(row.planned),
        "actual_utc": span_text(row.actual),
        "reason": row.reason,
        "later_seconds": seconds_text(row.later_seconds),
        "longer_seconds": seconds_text(row.longer_seconds),
        "recorded_seconds": seconds_text(spread),
    }


def tasks_window(path: Path) -> Window:
    """Window of a task table, an iCalendar file or a plan, by the ending of its name."""
    if path.suffix.lower() == ".toml":
        return read_window(path)[1]
    if path.suffix.lower() == ".ics":
        return read_calendar(path)
    if path.suffix.lower() == ".csv":
        return window_of(read_tasks(path))
    raise InputRefused(
        "neither a table (.csv), a calendar (.ics) nor a plan (.toml)", file=path, next_step="rename or export it"
    )


def _window_output(seconds: Decimal, lines: list[str], data: dict[str, Any]) -> Output:
    packages = [(days, core.covers(days, seconds), core.package_seconds(days) - seconds) for days in core.PACKAGE_DAYS]
    text = [f"window: {core.hours_text(seconds)}", *lines, "packages:"]
    for days, covered, slack in packages:
        hours = core.hours_text(abs(slack))
        found = f"covers, {hours} to spare" if covered else f"does not cover, {hours} too short"
        text.append(f"  {days:2} days {days * core.HOURS_PER_DAY:4} h  {found}")
    if not any(covered for _, covered, _ in packages):
        text.append("No package covers: change the plan, or price further periods explicitly (extra_periods).")
    text.append("Fitting a package does not prove finishing in time.")
    return Output(
        text,
        data
        | {
            "window_hours": hours_number(seconds),
            "window_seconds": f"{seconds:f}",
            "covering_days": [days for days, covered, _ in packages if covered],
            "packages": [
                {"days": days, "hours": days * core.HOURS_PER_DAY, "covers": covered, "slack_seconds": f"{slack:f}"}
                for days, covered, slack in packages
            ],
        },
    )


def _plan_lines(found: Window, zone: str) -> list[str]:
    lines = [
        f"  from {_clock(found.starts_at, zone)} to {_clock(found.ends_at, zone)}",
        f"  busy {_shown(found.busy_seconds)}, waiting {_shown(found.waiting_seconds)}; "
        f"most lots at once: {found.most_lots}",
        f"  tasks added up, planned waiting and overlaps in full: {_shown(found.summed_seconds)} (not priced)",
    ]
    if found.deadline is not None and found.deadline_slack_seconds is not None:
        slack = core.hours_text(abs(found.deadline_slack_seconds))
        kept = f"{slack} before" if found.deadline_slack_seconds >= 0 else f"{slack} AFTER"
        lines.append(f"  delivered {_clock(found.delivered_at, zone)}, {kept} the deadline")
    if found.overrun is not None:
        late = _shown(seconds_of(found.overrun.end - found.ends_at))
        lines.append(f"  NOT POSSIBLE: task {found.overrun.id} ends {late} after the last collection")
    lines.append("tasks:")
    for task in found.tasks:
        marks = [task.kind] + ["measured"] * (task.source == "measured") + ["delivery"] * task.delivery
        marks += ["after the rental"] * task.after_rental
        lines.append(f"  {_clock(task.start, zone)}  {_shown(task.seconds):>10}  {task.id} ({', '.join(marks)})")
    return lines


def _clock(instant: datetime, zone: str) -> str:
    """To the second, for people; the data has the exact instant."""
    return local_text(instant.replace(microsecond=0), zone)


def _shown(seconds: Decimal) -> str:
    """To the millisecond; limits are judged on exact seconds."""
    return core.hours_text(round_half_up(seconds, 3))


def _plan_data(found: Window) -> dict[str, Any]:
    return {
        "starts_at_utc": utc_text(found.starts_at),
        "ends_at_utc": utc_text(found.ends_at),
        "busy_seconds": f"{found.busy_seconds:f}",
        "waiting_seconds": f"{found.waiting_seconds:f}",
        "most_lots": found.most_lots,
        "delivered_at_utc": utc_text(found.delivered_at),
        "deadline_utc": None if found.deadline is None else utc_text(found.deadline),
        "deadline_slack_seconds": None if found.deadline_slack_seconds is None else f"{found.deadline_slack_seconds:f}",
        "tasks": [
            {
                "id": task.id,
                "kind": task.kind,
                "title": task.title,
                "start_utc": utc_text(task.start),
                "end_utc": utc_text(task.end),
                "seconds": f"{task.seconds:f}",
                "lots": task.lots,
                "delivery": task.delivery,
                "after_rental": task.after_rental,
                "source": task.source,
            }
            for task in found.tasks
        ],
    }


def span(start: str | None, end: str | None, zone: str | None) -> tuple[datetime, datetime]:
    """UTC instants of `--start` and `--end`; refused: one alone, what is not one instant, an end before the start."""
    if start is None or end is None:
        raise InputRefused("a window needs --start and --end", next_step="add the missing one")
    first = parse_instant(start, zone, name="--start")
    last = parse_instant(end, zone, name="--end")
    if last < first:
        raise InputRefused(
            "the window ends before it starts",
            column="--end",
            value=end,
            next_step="give an --end after --start; across midnight both need their date",
        )
    return first, last


def hours_number(seconds: Decimal) -> int | float:
    """96 for whole hours; otherwise the nearest number (the exact value is `..._seconds`)."""
    hours = seconds / core.SECONDS_PER_HOUR
    return int(hours) if hours == int(hours) else float(hours)
