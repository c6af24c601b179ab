"""`runner decide`: balance and decision from records and verdicts."""

from __future__ import annotations

import click

from runner.cli.output import Output, Session, runner_command


@runner_command("decide", short_help="Choose the admissible configuration of smallest committed cost, or say why not.")
@click.option(
    "--leave-out-other-locks",
    is_flag=True,
    help="Leave out (and list) attempts measured under another lock, instead of refusing them.",
)
def decide(session: Session, *, leave_out_other_locks: bool) -> Output:
    """Choose the admissible configuration with the smallest committed cost, or say `undecided` and why.

    Writes decision.json, balance.json, balance.csv, attempts.csv, attempts-spreadsheet.csv and plan.ics below note/.
    """
    from runner.decide.answer import answer_lines
    from runner.decide.write import write_decision
    from runner.evidence.campaign import Campaign

    campaign = Campaign(session.root)
    made = write_decision(campaign, leave_out_other_locks=leave_out_other_locks)
    files = [str(campaign.note / name) for name in made.files]
    return Output(
        lines=[*answer_lines(made.balance, made.decision), "", "written: " + ", ".join(files)],
        data={"decision": made.decision.as_json(), "files": files},
    )
