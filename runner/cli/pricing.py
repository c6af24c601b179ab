"""`runner price` and `runner window`: what a package costs, and which packages a calendar needs."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from runner.cli.output import Output, Session, runner_command
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.pricing import core
from runner.pricing.calendar import read_calendar, write_calendar
from runner.pricing.formats import load_formatted_catalogue, read_number_format
from runner.pricing.planfile import read_window
from runner.pricing.tariffs import load_catalogue, refusals
from runner.pricing.tasks import read_tasks
from runner.pricing.times import local_text, parse_instant, seconds_of
from runner.pricing.window import Window, window_of
from runner.units import utc_text

_START = click.option("--start", help="first start, such as 2026-10-05T09:00")
_END = click.option("--end", help="last collection, such as 2026-10-09T09:00")
_ZONE = click.option("--zone", help="IANA zone of --start and --end, such as Europe/Berlin")


@runner_command("price", short_help="Committed cost of a package; which packages cover a window.")
@click.option("--gpu", required=True, help="name in tariffs.csv, such as rtx-4090")
@click.option("--days", help="package: 3, 7 or 30 days")
@click.option("--window-hours", "--hours", "window_hours", help="or the hours to cover, such as 96, 72.5 or 72:00:01")
@_START
@_END
@_ZONE
@click.option("--tasks", type=click.Path(dir_okay=False, path_type=Path), help="or a table (.csv) or calendar (.ics)")
@click.option("--lots", help="number of lots (default 1)")
@click.option("--cards", help="or the cards needed; lots are rented whole")
@click.option("--accepted-results", help="distinct corpora that passed every quality check; you confirm the check")
@click.option("--extra-periods", default="0", help="further periods of the same package, only if you ask for them")
@click.option("--tariffs", type=click.Path(dir_okay=False, path_type=Path), help="default: tariffs.csv of the campaign")
@click.option("--number-format", type=click.Path(dir_okay=False, path_type=Path),
              help='JSON file that declares how the tariffs write numbers: {"delimiter", "decimal", "thousands"}')
def price(
    session: Session, gpu: str, days: str | None, window_hours: str | None, start: str | None, end: str | None,
    zone: str | None, tasks: Path | None, lots: str | None, cards: str | None, accepted_results: str | None,
    extra_periods: str, tariffs: Path | None, number_format: Path | None,
) -> Output:
    """Committed cost of a package; the 3, 7 and 30 day packages and which of them cover a window."""
    catalogue = _catalogue(tariffs or Campaign(session.root).tariffs, number_format)
    window = tasks_window(tasks).window_seconds if tasks else _window_seconds(window_hours, start, end, zone)
    if days is None and window is None:
        raise InputRefused("neither a package nor a window is given", next_step="add --days 7, or --window-hours 96")
    with refusals():
        answer = core.quote(
            catalogue, gpu, _lots(catalogue.gpu(gpu), lots, cards),
            days=None if days is None else core.parse_count(days, "--days", 1), window_seconds=window,
            accepted=None if accepted_results is None else core.parse_count(accepted_results, "--accepted-results"),
            periods=1 + core.parse_count(extra_periods, "--extra-periods"),
        )
    unused = 0 if cards is None else answer.lots * answer.gpu.cards_per_lot - int(cards)
    lines = core.quote_lines(answer) + [f"{unused} of the cards stay unused; lots are rented whole."] * (unused > 0)
    return Output(lines, quote_data(answer) | {"unused_cards": None if cards is None else unused})


def _catalogue(file: Path, number_format: Path | None) -> core.Catalogue:
    if number_format is None:
        return load_catalogue(file)
    return load_formatted_catalogue(file, read_number_format(number_format))


def _lots(gpu: core.Gpu, lots: str | None, cards: str | None) -> int:
    if cards is None:
        return core.parse_count(lots or "1", "--lots", 1)
    if lots is not None:
        raise core.PriceError("--lots and --cards ask for the same thing", next_step="give one of them")
    return core.lots_for_cards(core.parse_count(cards, "--cards", 1), gpu.cards_per_lot)


def _window_seconds(hours: str | None, start: str | None, end: str | None, zone: str | None) -> Decimal | None:
    if hours is not None and (start or end):
        raise InputRefused("--window-hours and --start/--end ask for the same thing", next_step="give one of them")
    if hours is not None:
        with refusals():
            return core.parse_hours(hours)
    if start is None and end is None:
        return None
    first, last = _span(start, end, zone)
    return seconds_of(last - first)


def _span(start: str | None, end: str | None, zone: str | None) -> tuple[datetime, datetime]:
    if start is None or end is None:
        raise InputRefused("a window needs --start and --end", next_step="add the missing one")
    first = parse_instant(start, zone, name="--start")
    last = parse_instant(end, zone, name="--end")
    if last < first:
        raise InputRefused("the window ends before it starts", column="--end", value=end)
    return first, last


def quote_data(answer: core.Quote) -> dict[str, Any]:
    """A quote for machines: money as decimal text, unknown as null."""
    line, per_corpus = answer.line, answer.per_corpus
    offer = None if line is None else line.offer
    return {
        "gpu": answer.gpu.name,
        "lots": answer.lots,
        "gpus": answer.lots * answer.gpu.cards_per_lot,
        "cards_per_lot": answer.gpu.cards_per_lot,
        "memory_gib_per_card": str(answer.gpu.memory_gib_per_card),
        "days": None if line is None else line.days,
        "committed_cost": _money(None if line is None else line.total),
        "currency": None if offer is None else offer.currency,
        "cost_per_validated_corpus": {
            "status": per_corpus.status,
            "reason": per_corpus.reason,
            "exact": None if per_corpus.value is None else str(per_corpus.value),
            "rounded_half_up": None if per_corpus.value is None else core.money_text(per_corpus.value),
        },
        "window_hours": None if answer.window_seconds is None else hours_number(answer.window_seconds),
        "packages": [package_data(package) for package in answer.lines],
        "catalogue": {"file": answer.catalogue.name, "sha256": answer.catalogue.sha256},
    }


def package_data(line: core.PackageLine) -> dict[str, Any]:
    """One package for machines."""
    offer = line.offer
    return {
        "billing": line.billing,
        "days": line.days,
        "hours": line.hours,
        "price_per_lot": _money(None if offer is None else offer.price_per_lot),
        "total": _money(line.total),
        "price_reason": "no price" if offer is None else None,
        "currency": None if offer is None else offer.currency,
        "catalogue_date": None if offer is None else offer.catalogue_date.isoformat(),
        "source": None if offer is None else offer.source,
        "covers": line.covers,
        "slack_seconds": None if line.slack_seconds is None else f"{line.slack_seconds:f}",
        "available": line.available,
    }


def _money(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:f}"


def hours_number(seconds: Decimal) -> int | float:
    """96 for whole hours; otherwise the nearest number (the exact value is `..._seconds`)."""
    hours = seconds / core.SECONDS_PER_HOUR
    return int(hours) if hours == int(hours) else float(hours)


@runner_command("window", short_help="Elapsed hours of a rental's calendar, and which packages cover.")
@_START
@_END
@_ZONE
@click.option("--plan", "plan_file", type=click.Path(dir_okay=False, path_type=Path),
              help="default: protocol/plan.toml of the campaign, if no --start is given")
@click.option("--tasks", type=click.Path(dir_okay=False, path_type=Path),
              help="a table of tasks (.csv: task,start,end,tz) or a calendar (.ics) instead of the plan")
@click.option("--configuration", help="variant id: adds the tasks of this configuration")
@click.option("--calendar", type=click.Path(dir_okay=False, path_type=Path),
              help="also write the tasks as an iCalendar file")
def window(
    session: Session, start: str | None, end: str | None, zone: str | None, plan_file: Path | None,
    tasks: Path | None, configuration: str | None, calendar: Path | None,
) -> Output:
    """Elapsed hours from first start to last collection, busy time, and which packages cover."""
    if start is not None or end is not None:
        first, last = _span(start, end, zone)
        return _window_output(seconds_of(last - first), [], {
            "starts_at_utc": utc_text(first), "ends_at_utc": utc_text(last),
        })
    if tasks is not None:
        found, shown_in = tasks_window(tasks), zone or "UTC"
    else:
        plan, found = read_window(plan_file or Campaign(session.root).plan, configuration=configuration)
        shown_in = zone or plan.zone
    lines = _plan_lines(found, shown_in)
    if calendar is not None:
        write_atomic(calendar, write_calendar(found, "plan"))
        lines.append(f"calendar: {calendar}")
    return _window_output(found.window_seconds, lines, _plan_data(found))


def tasks_window(path: Path) -> Window:
    """Window of a task table or of an iCalendar file, by the ending of its name."""
    if path.suffix.lower() == ".ics":
        return read_calendar(path)
    if path.suffix.lower() == ".csv":
        return window_of(read_tasks(path))
    raise InputRefused("neither a .csv table nor an .ics calendar", file=path, next_step="rename or export it")


def _window_output(seconds: Decimal, lines: list[str], data: dict[str, Any]) -> Output:
    packages = [(days, core.package_seconds(days) - seconds) for days in core.PACKAGE_DAYS]
    text = [f"window: {core.hours_text(seconds)}", *lines, "packages:"]
    for days, slack in packages:
        hours = core.hours_text(abs(slack))
        found = f"covers, {hours} to spare" if slack >= 0 else f"does not cover, {hours} too short"
        text.append(f"  {days:2} days {days * core.HOURS_PER_DAY:4} h  {found}")
    if all(slack < 0 for _, slack in packages):
        text.append("No package covers: change the plan, or price further periods explicitly (extra_periods).")
    text.append("Fitting a package does not prove finishing in time.")
    return Output(text, data | {
        "window_hours": hours_number(seconds),
        "window_seconds": f"{seconds:f}",
        "covering_days": [days for days, slack in packages if slack >= 0],
        "packages": [
            {"days": days, "hours": days * core.HOURS_PER_DAY, "covers": slack >= 0, "slack_seconds": f"{slack:f}"}
            for days, slack in packages
        ],
    })


def _plan_lines(found: Window, zone: str) -> list[str]:
    lines = [
        f"  from {local_text(found.starts_at, zone)} to {local_text(found.ends_at, zone)}",
        f"  busy {core.hours_text(found.busy_seconds)}, waiting {core.hours_text(found.waiting_seconds)}"
        f" (tasks added up: {core.hours_text(found.summed_seconds)}, not priced); most lots at once: {found.most_lots}",
    ]
    if found.deadline is not None and found.deadline_slack_seconds is not None:
        slack = core.hours_text(abs(found.deadline_slack_seconds))
        kept = f"{slack} before" if found.deadline_slack_seconds >= 0 else f"{slack} AFTER"
        lines.append(f"  delivered {local_text(found.delivered_at, zone)}, {kept} the deadline")
    lines.append("tasks:")
    for task in found.tasks:
        marks = [task.kind] + ["delivery"] * task.delivery + ["after the rental"] * task.after_rental
        lines.append(f"  {local_text(task.start, zone)}  {core.hours_text(task.seconds):>10}  {task.id}"
                     f" ({', '.join(marks)})")
    return lines


def _plan_data(found: Window) -> dict[str, Any]:
    return {
        "starts_at_utc": utc_text(found.starts_at),
        "ends_at_utc": utc_text(found.ends_at),
        "busy_seconds": f"{found.busy_seconds:f}",
        "waiting_seconds": f"{found.waiting_seconds:f}",
        "most_lots": found.most_lots,
        "delivered_at_utc": utc_text(found.delivered_at),
        "deadline_utc": None if found.deadline is None else utc_text(found.deadline),
        "deadline_slack_seconds":
            None if found.deadline_slack_seconds is None else f"{found.deadline_slack_seconds:f}",
        "tasks": [
            {
                "id": task.id, "kind": task.kind, "title": task.title, "start_utc": utc_text(task.start),
                "end_utc": utc_text(task.end), "seconds": f"{task.seconds:f}", "lots": task.lots,
                "delivery": task.delivery, "after_rental": task.after_rental, "source": task.source,
            }
            for task in found.tasks
        ],
    }


@runner_command("calculator", short_help="Write the price calculator as one page without network.")
def calculator(session: Session) -> Output:
    """Write note/calculator.html from tariffs.csv: the price command as one page, without network."""
    from runner.note.calculator import write_calculator  # the note's room is not needed for the other commands

    campaign = Campaign(session.root)
    path = campaign.relative(write_calculator(campaign))
    return Output([f"calculator: {path}"], {"path": path})
