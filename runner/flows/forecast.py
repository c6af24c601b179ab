"""Production forecast of every measured configuration, from the balance (a planning assumption)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from runner.decide.model import Balance, BalanceRow, Summary
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing.core import Catalogue, lots_for_cards
from runner.pricing.forecast import Forecast, forecast
from runner.pricing.tariffs import load_catalogue
from runner.protocol.read import read_plan
from runner.protocol.schema import Plan
from runner.units import parse_decimal


@dataclass(frozen=True)
class Projected:
    """A configuration on one corpus with one seed (M27): its forecast, or why there is none."""

    configuration_id: str
    corpus_id: str
    seed: int
    forecast: Forecast | None
    reason: str | None


def forecast_campaign(campaign: Campaign, documents: int, other_seconds: Decimal) -> tuple[Projected, ...]:
    """One entry per measured configuration, corpus and seed, in the order of the balance."""
    if not campaign.balance.is_file():
        raise InputRefused("there is no balance yet to forecast from", file=campaign.balance, next_step="make decide")
    balance, catalogue = Balance.load(campaign.balance), load_catalogue(campaign.tariffs)
    plan = read_plan(campaign.plan)
    found = []
    for row in balance.rows:
        if not row.measured:
            continue
        for summary in row.summaries:
            reason = _why_not(row, summary, balance.min_accepted) or _too_few_lots(row, plan, catalogue)
            seconds = _range(summary)
            if reason is None and seconds is not None:
                projected = forecast(
                    documents,
                    measured_documents=summary.documents,
                    fastest=seconds[0],
                    slowest=seconds[1],
                    other_seconds=other_seconds,
                    catalogue=catalogue if catalogue.has(row.gpu) else None,
                    gpu=row.gpu,
                    devices=row.settings.devices or 1,
                    lots=row.lots,
                    billing=plan.billing,
                    extra_periods=plan.extra_periods,
                )
                found.append(Projected(row.configuration_id, summary.corpus_id, summary.seed, projected, None))
            else:
                found.append(Projected(row.configuration_id, summary.corpus_id, summary.seed, None, reason))
    return tuple(found)


def _why_not(row: BalanceRow, summary: Summary, min_accepted: int) -> str | None:
    if summary.accepted < min_accepted:
        return f"{summary.accepted} accepted passes, {min_accepted} needed"
    if not row.admissible and row.first_failed in ("quality", "completeness", "memory", "settings"):
        return f"not admissible: {row.first_failed}"
    return None


def _too_few_lots(row: BalanceRow, plan: Plan, catalogue: Catalogue) -> str | None:
    """The plan's lots bind the forecast as they bind the decision (rule 9)."""
    if plan.lots is None or not catalogue.has(row.gpu):
        return None
    needed = lots_for_cards(max(row.settings.devices or 1, 1), catalogue.gpu(row.gpu).cards_per_lot)
    return f"lots in the plan: {plan.lots}, needed: {needed}" if plan.lots < needed else None


def _range(summary: Summary) -> tuple[Decimal, Decimal] | None:
    if summary.minimum_seconds is None or summary.maximum_seconds is None:
        return None
    return (
        parse_decimal(summary.minimum_seconds, name="minimum_seconds"),
        parse_decimal(summary.maximum_seconds, name="maximum_seconds"),
    )
