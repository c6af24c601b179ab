"""`runner decide`: balance and decision from records and verdicts."""

from __future__ import annotations

import click

from runner.cli.output import Output, Session, runner_command

SORTS = ("per-corpus", "cost", "median", "window")


@runner_command("decide", short_help="Choose the admissible configuration of smallest committed cost, or say why not.")
@click.option(
    "--leave-out-other-locks",
    is_flag=True,
    help="Leave out (and list) attempts measured under another lock, instead of refusing them.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default=SORTS[0],
    show_default=True,
    help="Order of the table; what is undefined comes last.",
)
@click.option("--descending", is_flag=True, help="Largest first; what is undefined still comes last.")
def decide(session: Session, *, leave_out_other_locks: bool, sort: str, descending: bool) -> Output:
    """Choose the admissible configuration with the smallest committed cost, or say `undecided` and why.

    Writes decision.json, balance.json, balance.csv, attempts.csv, attempts-spreadsheet.csv and plan.ics below note/.
    """
    from runner.decide.answer import answer_lines
    from runner.decide.write import write_decision
    from runner.evidence.campaign import Campaign

    campaign = Campaign(session.root)
    made = write_decision(campaign, leave_out_other_locks=leave_out_other_locks)
    files = [str(campaign.note / name) for name in made.files]
    lines = answer_lines(made.balance, made.decision, sort=sort, descending=descending)
    return Output(
        lines=[*lines, "", "written: " + ", ".join(files), "next: runner report"],
        data={"decision": made.decision.as_json(), "files": files},
    )
