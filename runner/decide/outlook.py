"""Window, package and cost of one configuration for given durations (M34-M36; DESIGN section 6, rules 8-11)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from runner.decide.model import Constraint, Outlook, PackageChoice, PackageOption, WindowFacts
from runner.decide.sentences import say
from runner.decide.summaries import decimal_text
from runner.pricing.core import Catalogue, PackageLine, lots_for_cards
from runner.pricing.packages import PackageAnswer, choose_package
from runner.pricing.window import Window, access_window
from runner.protocol.schema import LockedVariant, Plan
from runner.units import utc_text


def outlook(
    plan: Plan,
    catalogue: Catalogue,
    gpu: str,
    variant: LockedVariant,
    pass_seconds: Mapping[str, Decimal],
    task_seconds: Mapping[str, Decimal],
    *,
    accepted: bool = True,
) -> Outlook:
    """What the variant needs on `gpu` when a pass over each corpus takes `pass_seconds[corpus]`.

    `task_seconds`: recorded phases in place of planned durations, for the tasks that ask for it.
    A corpus without a measured duration keeps the plan's own times; `accepted` False says that this is so for a
    deliverable, and window and deadline are then open, whatever the plan promises (rules 3 and 8). Hardware without a
    tariff is the user's own machine: no package, cost not applicable.
    """
    window = access_window(plan, configuration=variant.id, pass_seconds=pass_seconds, task_seconds=task_seconds)
    facts = window_facts(window)
    deadline = _deadline(facts) if accepted else _deadline_as_planned(facts)
    if not catalogue.has(gpu):
        free = tuple(
            Constraint(name=name, status="not applicable", found=None, limit=None, reason=say("own-machine.free"))
            for name in ("window", "price", "availability")
        )
        return Outlook(
            window=facts,
            package=None,
            package_reason=say("own-machine.free"),
            constraints=(_overrun(window) or free[0], deadline, *free[1:]),
        )
    devices = max(variant.settings.devices or 1, 1)
    needed = lots_for_cards(devices, catalogue.gpu(gpu).cards_per_lot)
    answer = choose_package(
        catalogue,
        gpu,
        devices=devices,
        window_seconds=window.window_seconds,
        lots=max(needed, plan.lots or needed),
        billing=plan.billing,
        extra_periods=plan.extra_periods,
    )
    short_of_lots = plan.lots is not None and plan.lots < needed
    overrun = window.overrun is not None
    best = None if short_of_lots or overrun else answer.best
    covered, priced, available = (
        _covered(answer, plan, window), _priced(answer, plan), _available(answer, plan, needed)
    )  # fmt: skip
    return Outlook(
        window=facts,
        package=None if best is None else _package(answer, best),
        package_reason=None
        if best is not None
        else next(c.reason for c in (covered, priced, available) if c.status != "met"),
        unpriced_days=() if overrun else answer.unpriced_cheaper,
        lots=answer.lots,
        packages=tuple(_option(line, answer.lots) for line in answer.lines if line.billing in plan.billing),
        constraints=(covered if accepted or overrun else _window_as_planned(facts), deadline, priced, available),
    )


def window_facts(window: Window) -> WindowFacts:
    """The record of a window; needs a plan with a deadline."""
    assert window.deadline is not None and window.deadline_slack_seconds is not None
    return WindowFacts(
        starts_at_utc=utc_text(window.starts_at),
        ends_at_utc=utc_text(window.ends_at),
        window_seconds=decimal_text(window.window_seconds),
        busy_seconds=decimal_text(window.busy_seconds),
        waiting_seconds=decimal_text(window.waiting_seconds),
        delivered_at_utc=utc_text(window.delivered_at),
        deadline_utc=utc_text(window.deadline),
        deadline_slack_seconds=decimal_text(window.deadline_slack_seconds),
    )


def _package(answer: PackageAnswer, line: PackageLine) -> PackageChoice:
    assert line.offer is not None and line.total is not None and line.slack_seconds is not None
    slack = decimal_text(line.slack_seconds)
    if line.days is None:
        reason = say("package.hourly", hours_count=str(line.hours))
    elif line.periods == 1:
        reason = say("package.covers", days_count=str(line.days), spare_elapsed_seconds=slack)
    else:
        reason = say(
            "package.periods", periods_count=str(line.periods), days_count=str(line.days), spare_elapsed_seconds=slack
        )
    return PackageChoice(
        gpu=answer.gpu,
        billing="package" if line.days is not None else "hourly",
        days=line.days,
        periods=line.periods,
        lots=answer.lots,
        cards=answer.cards,
        unused_cards=answer.unused_cards,
        price_per_lot=decimal_text(line.offer.price_per_lot),
        total=decimal_text(line.total),
        currency=line.offer.currency,
        slack_seconds=slack,
        may_be_cheaper=answer.may_be_cheaper,
        reason=reason,
    )


def _option(line: PackageLine, lots: int) -> PackageOption:
    assert line.covers is not None and line.slack_seconds is not None
    return PackageOption(
        billing="package" if line.days is not None else "hourly",
        days=line.days,
        seconds=str(line.hours * 3600),
        price_per_lot=None if line.offer is None else decimal_text(line.offer.price_per_lot),
        total=None if line.total is None else decimal_text(line.total),
        covers=line.covers,
        slack_seconds=decimal_text(line.slack_seconds),
        available=line.available,
        one_more_lot=None
        if line.offer is None or line.offer.lots_available is None
        else lots < line.offer.lots_available,
    )


def _deadline(facts: WindowFacts) -> Constraint:
    """A delivery that ends exactly at the deadline is in time: windows exclude their end."""
    slack = Decimal(facts.deadline_slack_seconds)
    met = slack >= 0
    reason = (
        say("deadline.met", slack_elapsed_seconds=facts.deadline_slack_seconds)
        if met
        else say("deadline.missed", late_elapsed_seconds=decimal_text(-slack))
    )
    return Constraint(
        name="deadline",
        status="met" if met else "not met",
        found=facts.delivered_at_utc,
        limit=facts.deadline_utc,
        unit="utc",
        reason=reason,
    )


def _deadline_as_planned(facts: WindowFacts) -> Constraint:
    """The plan alone proves no delivery."""
    slack = Decimal(facts.deadline_slack_seconds)
    reason = (
        say("deadline.as-planned", slack_elapsed_seconds=facts.deadline_slack_seconds)
        if slack >= 0
        else say("deadline.as-planned-late", late_elapsed_seconds=decimal_text(-slack))
    )
    return Constraint(
        name="deadline", status="not assessable", found=None, limit=facts.deadline_utc, unit="utc", reason=reason
    )


def _window_as_planned(facts: WindowFacts) -> Constraint:
    return Constraint(
        name="window",
        status="not assessable",
        found=None,
        limit=None,
        unit="hours",
        reason=say("window.as-planned", window_elapsed_seconds=facts.window_seconds),
    )


def _overrun(window: Window) -> Constraint | None:
    """The last collection is an appointment: what is measured to end after it leaves results behind."""
    task = window.overrun
    if task is None:
        return None
    ended, collected = utc_text(task.end), utc_text(window.ends_at)
    return Constraint(
        name="window",
        status="not met",
        found=ended,
        limit=collected,
        unit="utc",
        reason=say("window.overrun", task=task.id, ended_utc=ended, collected_utc=collected),
    )


def _covered(answer: PackageAnswer, plan: Plan, window: Window) -> Constraint:
    """Whether any offered length, priced or not, holds the window."""
    overrun = _overrun(window)
    if overrun is not None:
        return overrun
    needed = decimal_text(window.window_seconds)
    lines = [line for line in answer.lines if line.billing in plan.billing]
    longest = max(lines, key=lambda line: line.hours) if lines else None
    covered = any(line.covers for line in lines)
    limit = None if longest is None else str(longest.hours * 3600)
    reason = (
        say("window.covered", window_elapsed_seconds=needed)
        if covered
        else say("window.too-long", window_elapsed_seconds=needed, longest_elapsed_seconds=limit or "0")
    )
    return Constraint(
        name="window",
        status="met" if covered else "not met",
        found=needed,
        limit=limit,
        unit="hours",
        reason=reason,
    )


def _priced(answer: PackageAnswer, plan: Plan) -> Constraint:
    fit = [line for line in answer.lines if line.billing in plan.billing and line.covers]
    priced = [line for line in fit if line.total is not None and line.offer is not None]
    if priced and not _only_unpriced_left(answer):
        least = min(priced, key=lambda line: (line.total or Decimal(0), line.hours))
        assert least.offer is not None and least.total is not None
        money = f"{decimal_text(least.total)} {least.offer.currency}"
        return Constraint(
            name="price",
            status="met",
            found=money,
            limit=None,
            unit="money",
            reason=say("price.known", total_money=money),
        )
    reason = (
        say("price.unknown", gpu=answer.gpu, days=", ".join(str(days) for days in answer.unpriced_covering))
        if answer.unpriced_covering
        else say("price.nothing-covers")
    )
    return Constraint(name="price", status="not met", found=None, limit=None, reason=reason)


def _only_unpriced_left(answer: PackageAnswer) -> bool:
    """Every priced offer that covers is sold out, and one without a price covers: lots that are gone are not its own.

    What is not known is then the price, not a lot (rule 10).
    """
    return answer.best is None and bool(answer.unpriced_covering)


def _available(answer: PackageAnswer, plan: Plan, needed: int) -> Constraint:
    if plan.lots is not None and plan.lots < needed:
        return Constraint(
            name="availability",
            status="not met",
            found=str(plan.lots),
            limit=str(needed),
            unit="count",
            reason=say("availability.plan", lots_count=str(plan.lots), needed_count=str(needed)),
        )
    fit = [line for line in answer.lines if line.billing in plan.billing and line.covers and line.offer is not None]
    if fit and _only_unpriced_left(answer):
        return Constraint(
            name="availability",
            status="not assessable",
            found=None,
            limit=str(answer.lots),
            unit="count",
            reason=say("availability.unknown", lots_count=str(answer.lots)),
        )
    if fit and all(line.available is False for line in fit):
        most = max(line.offer.lots_available or 0 for line in fit if line.offer is not None)
        return Constraint(
            name="availability",
            status="not met",
            found=str(most),
            limit=str(answer.lots),
            unit="count",
            reason=say("availability.short", lots_count=str(most), needed_count=str(answer.lots)),
        )
    stated = any(line.available for line in fit)
    return Constraint(
        name="availability",
        status="met",
        found=None,
        limit=str(answer.lots),
        unit="count",
        reason=say("availability.enough" if stated else "availability.unstated", lots_count=str(answer.lots)),
    )
