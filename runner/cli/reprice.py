"""`runner reprice`: the same measurements under other prices."""

from __future__ import annotations

from pathlib import Path

import click

from runner.cli.output import Output, Session, runner_command
from runner.cli.seal import LANGUAGE_METAVAR
from runner.pricing.core import amount_text
from runner.units import parse_decimal


@runner_command("reprice", short_help="New prices for a note: nothing is measured again, a new linked note.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--tariffs", type=click.Path(dir_okay=False, path_type=Path), required=True, help="the new tariffs.csv")
@click.option("--language", metavar=LANGUAGE_METAVAR, default="en", show_default=True, help="of the new note")
def reprice(session: Session, source: Path, folder: Path, tariffs: Path, language: str) -> Output:
    """Decide SOURCE (archive or campaign folder) again under other tariffs, as a new campaign in FOLDER."""
    from runner.flows.foreign import shell_word
    from runner.flows.reprice import reprice as decide_again

    made = decide_again(source, tariffs, folder, language)
    link, decision = made.link, made.decision
    lines = [
        f"{made.folder}: note {made.note_id}, repriced from {link.note_id}; nothing was measured again",
        f"  before: {_answer(link.outcome, link.chosen, link.committed_cost, link.currency)}",
        f"  now:    {_answer(decision.outcome, decision.chosen, made.committed_cost, made.currency)}",
        f"next: runner --campaign {shell_word(str(made.folder))} verify",
    ]
    return Output(
        lines,
        {
            "folder": str(made.folder),
            "note_id": made.note_id,
            "repriced_from": link.as_json(),
            "outcome": decision.outcome,
            "chosen": decision.chosen,
            "committed_cost": made.committed_cost,
            "currency": made.currency,
        },
    )


def _answer(outcome: str, chosen: str | None, cost: str | None, currency: str | None) -> str:
    if chosen is None:
        return outcome
    if cost is None or currency is None:
        return f"{chosen}, cost not applicable"
    return f"{chosen}, {amount_text(parse_decimal(cost, name='committed cost'), currency)}"
