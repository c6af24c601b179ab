"""`runner price` and `runner calculator`: what a package costs, on the command line and as a page."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from runner.cli.output import Output, Session, runner_command, write_line
from runner.cli.seal import LANGUAGE_METAVAR
from runner.cli.values import named_as
from runner.cli.window import END, START, ZONE, hours_number, span, tasks_window
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.pricing import core
from runner.pricing.catalogues import Listed, Wanted, cheapest_by_currency, side_by_side
from runner.pricing.formats import load_formatted_catalogue, read_number_format
from runner.pricing.tariffs import future_dates, load_catalogue, refusals
from runner.pricing.times import seconds_of


@runner_command("price", short_help="Committed cost of a package; which packages cover a window.")
@click.option("--gpu", required=True, help="name in tariffs.csv, such as rtx-4090")
@click.option("--days", help="package: 3, 7 or 30 days")
@click.option("--window-hours", "--hours", "window_hours", help="or the hours to cover, such as 96, 72.5 or 72:00:01")
@START
@END
@ZONE
@click.option(
    "--tasks",
    type=click.Path(dir_okay=False, path_type=Path),
    help="or a table (.csv), a calendar (.ics) or a plan (.toml)",
)
@click.option("--lots", help="number of lots (default 1)")
@click.option("--cards", help="or the cards needed; lots are rented whole")
@click.option("--accepted-results", help="distinct corpora that passed every quality check; you confirm the check")
@click.option("--extra-periods", default="0", help="further periods of the same package, only if you ask for them")
@click.option(
    "--tariffs",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    help="default: tariffs.csv of the campaign; several are shown side by side",
)
@click.option(
    "--number-format",
    type=click.Path(dir_okay=False, path_type=Path),
    help='JSON file that declares how the tariffs write numbers: {"delimiter", "decimal", "thousands"}',
)
def price(
    session: Session,
    gpu: str,
    days: str | None,
    window_hours: str | None,
    start: str | None,
    end: str | None,
    zone: str | None,
    tasks: Path | None,
    lots: str | None,
    cards: str | None,
    accepted_results: str | None,
    extra_periods: str,
    tariffs: tuple[Path, ...],
    number_format: Path | None,
) -> Output:
    """Committed cost of a package; the 3, 7 and 30 day packages and which of them cover a window."""
    files = tariffs or (Campaign(session.root).tariffs,)
    catalogues = [_catalogue(file, number_format) for file in files]
    for file, catalogue in zip(files, catalogues, strict=True):
        for text in future_dates(catalogue, gpu=gpu, file=file):
            write_line(f"warning: {text}", error=True)
    if tasks is not None and any(one is not None for one in (window_hours, start, end)):
        raise InputRefused(
            "--tasks and another window ask for the same thing", column="--tasks", next_step="give one of them"
        )
    if accepted_results is not None and len(catalogues) > 1:
        raise InputRefused(
            "--accepted-results needs one catalogue: their costs per corpus are not shown side by side",
            column="--accepted-results",
            next_step="leave it out, or give one --tariffs",
        )
    window = tasks_window(tasks).window_seconds if tasks else _window_seconds(window_hours, start, end, zone)
    if days is None and window is None:
        raise InputRefused("neither a package nor a window is given", next_step="add --days 7, or --window-hours 96")
    with refusals():
        package = None if days is None else core.parse_count(days, "--days", 1)
        accepted = None if accepted_results is None else core.parse_count(accepted_results, "--accepted-results")
        periods = 1 + core.parse_count(extra_periods, "--extra-periods")
        wanted = _wanted(lots, cards)
    if len(catalogues) > 1:
        listed = side_by_side(catalogues, gpu, wanted, days=package, window_seconds=window, periods=periods)
        return _several(listed, gpu)
    with refusals():
        rented = wanted.lots_of(catalogues[0].gpu(gpu))
        answer = core.quote(
            catalogues[0], gpu, rented, days=package, window_seconds=window, accepted=accepted, periods=periods
        )
    unused = None if wanted.cards is None else rented * answer.gpu.cards_per_lot - wanted.cards
    lines = core.quote_lines(answer) + [f"{unused} of the cards stay unused; lots are rented whole."] * bool(unused)
    return Output(lines, quote_data(answer) | {"unused_cards": unused})


def _wanted(lots: str | None, cards: str | None) -> Wanted:
    if lots is not None and cards is not None:
        raise core.PriceError("--lots and --cards ask for the same thing", next_step="give one of them")
    if cards is not None:
        return Wanted(cards=core.parse_count(cards, "--cards", 1))
    return Wanted(lots=core.parse_count(lots or "1", "--lots", 1))


def _several(listed: tuple[Listed, ...], gpu: str) -> Output:
    """Catalogues side by side, each price with its date and source."""
    best = cheapest_by_currency(listed)
    lines = [f"{gpu} in {len(listed)} catalogues:", *(f"  {_listed_text(one)}" for one in listed)]
    lines += [f"smallest in {code}: {', '.join(one.catalogue.name for one in ones)}" for code, ones in best.items()]
    if len(best) > 1:
        lines.append("Amounts of different currencies are not compared: that needs a rate with its date.")
    return Output(
        lines,
        {
            "gpu": gpu,
            "smallest": {code: [one.catalogue.name for one in ones] for code, ones in best.items()},
            "catalogues": [
                {
                    "file": one.catalogue.name,
                    "sha256": one.catalogue.sha256,
                    "lots": one.lots,
                    "reason": one.reason,
                    "answer": None if one.answer is None else package_data(one.answer),
                    "packages": [package_data(line) for line in one.lines],
                }
                for one in listed
            ],
        },
    )


def _listed_text(one: Listed) -> str:
    offer = None if one.answer is None else one.answer.offer
    if one.answer is None or offer is None or one.answer.total is None:
        return f"{one.catalogue.name}: {one.reason}"
    total = core.amount_text(one.answer.total, offer.currency)
    return (
        f"{one.catalogue.name}: {one.answer.name}, {one.lots} {'lot' if one.lots == 1 else 'lots'}, {total}"
        f" ({offer.catalogue_date}; {offer.source})"
    )


def _catalogue(file: Path, number_format: Path | None) -> core.Catalogue:
    if number_format is None:
        return load_catalogue(file)
    return load_formatted_catalogue(file, read_number_format(number_format))


def _window_seconds(hours: str | None, start: str | None, end: str | None, zone: str | None) -> Decimal | None:
    if hours is not None and (start or end):
        raise InputRefused("--window-hours and --start/--end ask for the same thing", next_step="give one of them")
    if hours is not None:
        with refusals():
            return core.parse_hours(hours)
    if start is None and end is None:
        return None
    first, last = span(start, end, zone)
    return seconds_of(last - first)


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
        "periods": line.periods,
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


@runner_command("calculator", short_help="Write the price calculator as one page without network.")
@click.option(
    "--language",
    metavar=LANGUAGE_METAVAR,
    default=None,
    envvar="NOTE_LANG",
    help="of the page (default: that of the note that is there, else en); also NOTE_LANG",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="write it here (.html) instead of note/")
def calculator(session: Session, language: str | None, out: Path | None) -> Output:
    """Write note/calculator.html from tariffs.csv: the price command as one page, without network."""
    from runner.flows.standing import language_of
    from runner.note.calculator import write_calculator  # the note's room is not needed for the other commands

    campaign = Campaign(session.root)
    if out is not None:
        named_as(out, ".html", "--out")
    written = write_calculator(campaign, language_of(campaign, language), out)
    path = str(written) if out is not None else campaign.relative(written)
    return Output([f"calculator: {path}"], {"path": path})
