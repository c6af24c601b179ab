"""`runner rental` and `runner forecast`: the order against the decision, and an outlook on production."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

import click

from runner.cli.output import Output, Session, runner_command
from runner.evidence.campaign import Campaign
from runner.pricing import core
from runner.pricing.forecast import ASSUMPTION, Forecast
from runner.pricing.packages import PackageAnswer
from runner.pricing.tariffs import refusals

_SHORT_SECONDS = 10


@runner_command("rental", short_help="Match a rental record with the decision; export a ledger line.")
@click.argument("record", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--ledger", type=click.Path(dir_okay=False, path_type=Path), help="add one line to this CSV file")
def rental(session: Session, record: Path, ledger: Path | None) -> Output:
    """Match a rental record with the decision, field by field; exit 3 where they contradict each other."""
    from runner.flows.archive import match_decision
    from runner.flows.ledger import add_to_ledger, ledger_row
    from runner.pricing.rental import read_rental

    campaign, order = Campaign(session.root), read_rental(record)
    match = match_decision(campaign, order)
    match.refuse(record)
    found = f"matches the decision ({', '.join(match.matched)})" if match.decided else match.summary()
    lines = [f"{order.provider}, order {order.order}: {found}"]
    lines += [f"  {field}: not compared, {reason}" for field, reason in match.not_applicable]
    added = None
    if ledger is not None:
        added = add_to_ledger(ledger, ledger_row(campaign, order))
        lines.append(f"ledger: {ledger}, {'one line added' if added else 'the line is there already'}")
    return Output(
        lines,
        {
            "matched": list(match.matched),
            "not_applicable": [list(pair) for pair in match.not_applicable],
            "ledger": None if ledger is None else str(ledger),
            "ledger_line_added": added,
        },
    )


@runner_command("forecast", short_help="How long more documents would take: a planning assumption.")
@click.option("--documents", required=True, help="how many documents are to be processed later")
@click.option("--other-hours", default="0", help="hours on the rental beside processing, such as 3 or 2:30:00")
def forecast(session: Session, documents: str, other_hours: str) -> Output:
    """How long more documents would take and which package that needs. A planning assumption, not a result."""
    from runner.flows.forecast import Projected, forecast_campaign

    def lines_of(one: Projected) -> list[str]:
        name = f"{one.configuration_id} on {one.corpus_id}" + (f", seed {one.seed}" if several_seeds else "")
        if one.forecast is None:
            return [f"{name}: no forecast ({one.reason})"]
        return [f"{name}: {_duration_text(one.forecast)}", f"  {_package_text(one.forecast)}"]

    with refusals():
        count, other = core.parse_count(documents, "--documents", 1), core.parse_hours(other_hours)
    found = forecast_campaign(Campaign(session.root), count, other)
    several_seeds = len({one.seed for one in found}) > 1
    documents_text = f"{count:,} document{'' if count == 1 else 's'}"
    lines = [f"forecast for {documents_text}: {ASSUMPTION}", *(line for one in found for line in lines_of(one))]
    if not found:
        lines.append("nothing was measured: there is nothing to forecast from")
    return Output(
        lines,
        {
            "assumption": ASSUMPTION,
            "documents": count,
            "configurations": [
                {
                    "configuration": one.configuration_id,
                    "corpus": one.corpus_id,
                    "seed": one.seed,
                    "reason": one.reason,
                    "forecast": None if one.forecast is None else _forecast_data(one.forecast),
                }
                for one in found
            ],
        },
    )


def _duration_text(found: Forecast) -> str:
    fastest, slowest = (_rounded_up(one) for one in (found.fastest_seconds, found.slowest_seconds))
    return f"{fastest} to {slowest} (fastest and slowest accepted pass)"


def _package_text(found: Forecast) -> str:
    if found.fastest is None or found.slowest is None:
        return "own machine: no package, cost not applicable"
    texts = []
    for answer in (found.fastest, found.slowest):
        best = answer.best
        if best is None or best.total is None or best.offer is None:
            texts.append(_without_package(answer))
        else:
            lots = f"lots: {answer.lots}, " if answer.lots != 1 else ""
            texts.append(f"{best.name}, {lots}{core.amount_text(best.total, best.offer.currency)}")
    if found.fastest.best is None and found.slowest.best is None:
        return f"package: none, even if every document is as fast as in the fastest pass: {texts[0]}"
    if texts[0] == texts[1]:
        return f"package: {texts[0]}"
    return f"package: {texts[0]} if every document is as fast as the fastest pass; {texts[1]} at the slowest"


def _without_package(answer: PackageAnswer) -> str:
    """Why none can be rented for so long; a forecast does not need seconds."""
    longest = max((line for line in answer.lines if line.days is not None), key=lambda line: line.hours)
    if longest.covers or longest.slack_seconds is None:
        return answer.reason
    return f"{longest.name} are {_rounded_up(-longest.slack_seconds)} too short"


def _rounded_up(seconds: Decimal) -> str:
    """To the minute from an hour on, else to the second, below ten seconds to the millisecond."""
    unit = 60 if seconds >= core.SECONDS_PER_HOUR else Decimal(1) if seconds >= _SHORT_SECONDS else Decimal("0.001")
    return core.hours_text((seconds / unit).to_integral_value(ROUND_CEILING) * unit)


def _forecast_data(found: Forecast) -> dict[str, Any]:
    return {
        "fastest_seconds": _seconds(found.fastest_seconds),
        "slowest_seconds": _seconds(found.slowest_seconds),
        "package_changes": found.package_changes,
        "packages": [
            None
            if answer is None or answer.best is None
            else {
                "billing": answer.best.billing,
                "days": answer.best.days,
                "periods": answer.best.periods,
                "lots": answer.lots,
                "total": str(answer.best.total),
            }
            for answer in (found.fastest, found.slowest)
        ],
    }


def _seconds(value: Decimal) -> str:
    return f"{value:f}"
