"""`runner note`: the whole chain, from protocol and corpus to a signed and verified note."""

from __future__ import annotations

import click

from runner.cli.output import Output, Session, runner_command, write_line
from runner.cli.progress import make_progress
from runner.cli.seal import LANGUAGE_HELP, LANGUAGE_METAVAR
from runner.cli.values import parse_batches
from runner.evidence.campaign import Campaign
from runner.evidence.checks import check_commands, read_signer


@runner_command("note", short_help="The whole chain: baseline, freeze, measure, validate, decide, report, verify.")
@click.option("--gpu", default="cpu", show_default=True, help="What was rented, as in tariffs.csv; cpu: this machine.")
@click.option("--batches", default="1 4 8", show_default=True, help="Batch series to measure.")
@click.option("--language", metavar=LANGUAGE_METAVAR, default=None, help=LANGUAGE_HELP)
def note(session: Session, gpu: str, batches: str, language: str | None) -> Output:
    """Make the signed decision note from nothing, or go on where the last call stopped.

    Exit 0 when the note is there and checked (also when it says `undecided`), 3 when measuring was
    stopped or impossible, or a check failed.
    """
    from runner.decide.answer import answer_lines
    from runner.flows.note import make_note
    from runner.flows.standing import NOTE_FILES, language_of
    from runner.measure.run import Request
    from runner.note.build import templates_of
    from runner.note.i18n import load_catalogue

    campaign = Campaign(session.root)
    # What is not there is refused before hours of measuring.
    load_catalogue(templates_of(campaign), language_of(campaign, language))
    request = Request(gpu=gpu, batches=parse_batches(batches))
    chain = make_note(campaign, request, language, make_progress(), lambda text: write_line(text, error=True))
    if chain.answer is None:
        why = f"stopped by {chain.measured.stopped_by}" if chain.measured.stopped_by else "nothing could be measured"
        lines = [f"no note yet: {why}; the rows say why (records/attempts/)", "next: the same command goes on"]
        return Output(lines, {"note": None, "completed": chain.measured.completed}, exit_code=3)

    answer = chain.answer
    files = [str(campaign.note / name) for name in NOTE_FILES]
    signer = read_signer(campaign)
    lines = [*answer_lines(answer.balance, answer.decision), "", "the note:", *(f"  {file}" for file in files), ""]
    lines += answer.verification.lines() if not answer.verification.accepted else [answer.verification.bottom_line]
    lines += ["check it yourself: make verify, or without our code in the campaign folder:"]
    lines += [] if signer is None else [f"  {check.command}" for check in check_commands(signer)]
    data = {
        "decision": answer.decision.as_json(),
        "note": files,
        "verified": answer.verification.as_json(),
        "completed": chain.measured.completed,
    }
    return Output(lines, data, exit_code=0 if answer.verification.accepted else 3)
