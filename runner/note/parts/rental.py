"""Window, packages, cost and expenses (M34-M40)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runner.decide.calendar import replaced_in
from runner.decide.model import BalanceRow, TaskHappened
from runner.note.evidence import Evidence
from runner.note.format import exact
from runner.note.i18n import N_
from runner.note.parts.options import cost_words, package_words
from runner.note.parts.purchase import purchase
from runner.note.parts.tables import MOST_ROWS, capped
from runner.note.words import NOTHING, Speaker
from runner.pricing.core import PackageLine, lots_for_cards, package_lines
from runner.pricing.window import Window, access_window
from runner.units import exact_seconds, utc_text

KIND_WORDS = {
    "preparation": N_("preparation"),
    "installation": N_("installation"),
    "check": N_("check"),
    "warm_up": N_("warm-up"),
    "measurement": N_("measurement"),
    "retry": N_("reserve for retries"),
    "evaluation": N_("evaluation"),
    "export": N_("export"),
    "wait": N_("waiting, rental kept"),
    "collection": N_("collection"),
}


def rental(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Calendar of the chosen configuration (else of the longest window), windows, packages of the catalogue, costs."""
    row = evidence.calendar_row
    window = _window(evidence, row)
    rented = [item for item in evidence.shown_rows if not item.own_machine]
    happened = _common([line for item in evidence.shown_rows for line in _happened(item, speaker)], speaker)
    packages = _packages(evidence, window, row, speaker)
    busy, waiting = speaker.fmt.parts_of(window.window_seconds, window.busy_seconds)
    return {
        "for": row.configuration_id if row else "",
        "zone": evidence.plan.zone,
        "tasks": [_task(task, evidence, speaker) for task in window.tasks],
        "moved": any(task.moved for task in window.tasks),
        "window": speaker.fmt.hours(window.window_seconds),
        "busy": busy,
        "waiting": waiting,
        "windows": [
            _window_row(item, evidence, speaker) for item in evidence.shown_rows if item in evidence.timed_rows
        ],
        "happened": capped(happened)[0],
        "happened_more": _more(len(happened), "note/balance.json", speaker),
        "packages": capped(packages)[0],
        "packages_more": _more(len(packages), "tariffs.csv", speaker),
        "costs": [_cost_row(item, speaker) for item in rented],
        "remarks": any(item.committed_cost_reason is not None for item in rented),
        "purchase": purchase(evidence, speaker),
        "expenses": _expenses(evidence, speaker),
        "catalogue_dates": ", ".join(
            sorted({speaker.fmt.date(offer.catalogue_date.isoformat()) for offer in evidence.catalogue.offers})
        ),
    }


def _window(evidence: Evidence, row: BalanceRow | None) -> Window:
    """With the largest accepted durations of the chosen configuration, as the balance has it."""
    seconds: dict[str, Decimal] = {}
    if row is not None:
        for summary in row.summaries:
            if summary.raw_seconds:
                largest = max(exact_seconds(value) for value in summary.raw_seconds)
                seconds[summary.corpus_id] = max(largest, seconds.get(summary.corpus_id, Decimal(0)))
    return access_window(
        evidence.plan,
        configuration=row.variant_id if row else None,
        pass_seconds=seconds,
        task_seconds=replaced_in(evidence.plan, row),
    )


def _happened(row: BalanceRow, speaker: Speaker) -> list[dict[str, str]]:
    """Tasks of which the records show a time, beside the plan, and those whose time a moved clock made unknown."""
    return [
        _happened_row(row.configuration_id, task, speaker)
        for task in row.happened
        if task.actual_seconds is not None
        or (task.actual_reason is not None and task.actual_reason.code == "happened.clock")
    ]


def _more(count: int, file: str, speaker: Speaker) -> str:
    """How many rows a capped table leaves to a file."""
    more = count - MOST_ROWS
    if more <= 0:
        return ""
    return speaker.catalogue.ngettext(
        "%(count)s more row is in %(file)s.", "%(count)s more rows are in %(file)s.", more, file=file
    )


def _common(rows: list[dict[str, str]], speaker: Speaker) -> list[dict[str, str]]:
    """What was done once for several configurations, such as installing, stands in one row with their names."""
    names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for row in rows:
        names.setdefault(tuple((key, value) for key, value in row.items() if key != "name"), []).append(row["name"])
    return [{"name": speaker.listed(found)} | dict(rest) for rest, found in names.items()]


def _happened_row(name: str, task: TaskHappened, speaker: Speaker) -> dict[str, str]:
    t, fmt = speaker.catalogue, speaker.fmt
    took, difference, since = t.gettext("unknown"), NOTHING, t.gettext("spread over the attempts")
    if task.kind == "installation":
        since = t.gettext("before the first attempt")
    if task.actual_seconds is None:
        since = NOTHING if task.actual_reason is None else speaker.sentence(task.actual_reason)
    else:
        took = fmt.duration(task.actual_seconds)
        difference = fmt.duration(exact(task.actual_seconds) - exact(task.planned_seconds))
    if task.actual_start_utc is not None:
        since = fmt.instant(task.actual_start_utc)
    return {
        "name": name,
        "task": speaker.campaign_text(task.title),
        "planned": fmt.duration(task.planned_seconds),
        "took": took,
        "difference": difference,
        "since": since,
    }


def _task(task: Any, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    t, fmt, zone = speaker.catalogue, speaker.fmt, evidence.plan.zone
    source = t.gettext("measured") if task.source == "measured" else t.gettext("planned")
    marks = [source]
    if task.moved:
        marks.append(t.gettext("moved"))
    if task.delivery:
        marks.append(t.gettext("delivery"))
    if task.after_rental:
        marks.append(t.gettext("after the rental"))
    return {
        "title": speaker.campaign_text(task.title),
        "kind": speaker.say(KIND_WORDS[task.kind]),
        "start": fmt.calendar_time(utc_text(task.start), zone),
        "end": fmt.calendar_time(utc_text(task.end), zone),
        "duration": fmt.duration(task.seconds),
        "marks": ", ".join(marks),
    }


def _window_row(row: BalanceRow, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    fmt, window = speaker.fmt, row.window
    assert window is not None
    busy, waiting = fmt.parts_of(window.window_seconds, window.busy_seconds)
    return {
        "name": row.configuration_id,
        "window": fmt.hours(window.window_seconds),
        "busy": busy,
        "waiting": waiting,
        "delivered": fmt.calendar_time(window.delivered_at_utc, evidence.plan.zone),
        "slack": fmt.hours(window.deadline_slack_seconds),
        "package": package_words(row, speaker),
    }


def _packages(evidence: Evidence, window: Window, row: BalanceRow | None, speaker: Speaker) -> list[dict[str, str]]:
    """Every package of the catalogue against this window. A price that is not in the file is `no price`."""
    found = []
    devices = max(row.settings.devices or 1, 1) if row else 1
    for gpu in evidence.catalogue.gpus:
        lots = lots_for_cards(devices, gpu.cards_per_lot)
        if row is not None and row.package is not None and row.gpu == gpu.name:
            lots = row.package.lots
        periods = 1 + evidence.plan.extra_periods
        for line in package_lines(evidence.catalogue, gpu.name, lots, window.window_seconds, periods):
            found.append(_package_row(gpu.name, lots, lots * gpu.cards_per_lot, line, evidence, speaker))
    return found


def _package_row(
    gpu: str, lots: int, cards: int, line: PackageLine, evidence: Evidence, speaker: Speaker
) -> dict[str, str]:
    t, fmt = speaker.catalogue, speaker.fmt
    offer = line.offer
    measured = gpu in {row.gpu for row in evidence.measured_rows}
    days = line.days
    name = t.gettext("by the hour") if days is None else t.ngettext("%(count)s day", "%(count)s days", days)
    if line.periods > 1 and days is not None:
        name = f"{line.periods} × {name}"
    no_price = t.gettext("no price")
    return {
        "gpu": gpu,
        "package": name,
        "hours": fmt.integer(line.hours) + "\u00a0h",
        "price": fmt.money(offer.price_per_lot, offer.currency) if offer else no_price,
        "lots": str(lots),
        "cards": str(cards),
        "total": fmt.money(line.total, offer.currency) if offer and line.total is not None else no_price,
        "covers": t.gettext("yes") if line.covers else t.gettext("no"),
        "measured": t.gettext("measured") if measured else t.gettext("not measured"),
    }


def _cost_row(row: BalanceRow, speaker: Speaker) -> dict[str, str]:
    fmt = speaker.fmt
    unused = NOTHING
    if row.package is not None:
        unused = fmt.hours(row.package.slack_seconds)
    other = sum((exact(expense.amount) for expense in row.expenses), Decimal(0))
    currency = row.expenses[0].currency if row.expenses else ""
    return {
        "name": row.configuration_id,
        "package": package_words(row, speaker),
        "cost": cost_words(row, speaker),
        "unused": unused,
        "expenses": fmt.money(other, currency) if row.expenses else NOTHING,
        "reason": speaker.sentence(row.committed_cost_reason) if row.committed_cost_reason else "",
    }


def _expenses(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    return [
        {
            "name": expense.name,
            "amount": speaker.fmt.money(expense.amount, expense.currency),
            "reason": expense.reason,
            "for": expense.configuration or speaker.catalogue.gettext("all variants"),
        }
        for expense in evidence.plan.expense
    ]
