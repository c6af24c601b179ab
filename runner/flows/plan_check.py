"""The plan against the variants of the campaign: every calendar computed before anything is frozen or paid."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing.core import PACKAGE_DAYS, covers, hours_text
from runner.pricing.planfile import check_configurations, check_plan_file, read_window
from runner.pricing.tariffs import future_dates, load_catalogue
from runner.pricing.window import Window
from runner.protocol.lockfile import read_lock
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.variants import expand
from runner.units import utc_text


def known_variants(campaign: Campaign) -> tuple[str, ...]:
    """Ids of the variants of the protocol and of the lock; empty where there is neither yet."""
    names = [variant.id for variant in expand(read_protocol(campaign.protocol))] if campaign.protocol.is_file() else []
    if campaign.lock.is_file():
        names += [variant.id for variant in read_lock(campaign).variants]
    return tuple(dict.fromkeys(names))


def check_plan(campaign: Campaign) -> None:
    """Refuse a plan whose calendar cannot be kept for one of the variants, or that names an unknown one (M34)."""
    check_plan_file(campaign.plan, known_variants(campaign))


def plan_warnings(campaign: Campaign, now: datetime | None = None) -> tuple[str, ...]:
    """Why no result can be in time with this plan, or none be paid by a package, said before paid hours (M34, M52).

    Each calendar (the common one, and those of variants with tasks of their own) is looked at; `now` is UTC.
    """
    plan = read_plan(campaign.plan)
    own = dict.fromkeys(task.configuration for task in plan.task if task.configuration is not None)
    windows = {name: read_window(campaign.plan, configuration=name)[1] for name in (None, *own)}
    found = [text for window in windows.values() if (text := past_deadline(window, now)) is not None][:1]
    for name, window in windows.items():
        whose = "" if name is None else f" ({name})"
        slack = window.deadline_slack_seconds
        if slack is not None and slack < 0:
            found.append(
                f"planned delivery{whose} is {hours_text(-slack)} AFTER the deadline: no result can be in time"
            )
        if "package" in plan.billing and not any(covers(days, window.window_seconds) for days in PACKAGE_DAYS):
            found.append(
                f"the planned window{whose} of {hours_text(window.window_seconds)}: no single package covers it"
            )
    return (*(f"{text} (make window shows the calendar)" for text in found), *_dates_to_come(campaign, now))


def _dates_to_come(campaign: Campaign, now: datetime | None) -> tuple[str, ...]:
    """Prices from the future; tariffs that are missing or cannot be read are refused where they are needed."""
    try:
        return future_dates(load_catalogue(campaign.tariffs), now, file=campaign.tariffs)
    except InputRefused:
        return ()


def past_deadline(window: Window, now: datetime | None = None) -> str | None:
    """A sentence where the deadline lies before `now` (UTC; default: this moment)."""
    now = datetime.now(UTC) if now is None else now
    if window.deadline is None or window.deadline >= now:
        return None
    minutes = Decimal(int((now - window.deadline).total_seconds()) // 60 * 60)
    since = f"{hours_text(minutes)} ago" if minutes else "just now"
    return f"the deadline of the plan, {utc_text(window.deadline)}, has passed ({since}): no result can be in time"


def check_asked(campaign: Campaign, plan: Path, configuration: str | None) -> None:
    """Refuse `--configuration` of a variant that neither campaign nor plan knows, and a plan with unknown ones.

    A plan of another place is read on its own: the campaign's variants say nothing about it.
    """
    own = plan.resolve() == campaign.plan.resolve()
    names = known_variants(campaign) if own else ()
    read = read_plan(plan)
    if own:
        check_configurations(read, names, plan)
    known = dict.fromkeys([*names, *(task.configuration for task in read.task if task.configuration is not None)])
    if configuration is not None and known and configuration not in known:
        raise InputRefused(
            "no variant of this name",
            column="--configuration",
            value=configuration,
            next_step=f"one of: {', '.join(known)}",
        )
