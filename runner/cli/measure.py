"""`runner baseline`, `runner plan`, `runner measure`: reference predictions, blank sheet, attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from runner.cli.output import Output, Session, runner_command, write_line
from runner.cli.progress import make_progress, status_words
from runner.cli.values import parse_batches
from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.measure.run import Outcome, Request

_VALIDATE = "next: runner validate"
_STOPS = {"SIGINT": "Ctrl-C", "SIGTERM": "a request to end (SIGTERM)", "SIGHUP": "the end of the connection (SIGHUP)"}


@runner_command("baseline")
@click.option("--gpu", default="cpu", help="where to compute; a large model may need the rented card (default: cpu)")
def baseline(session: Session, gpu: str) -> Output:
    """Reference predictions of every corpus, untimed, before the freeze."""
    from runner.measure.baseline import make_baselines

    campaign = Campaign(session.root)
    _say_what_is_open(campaign)
    files = make_baselines(campaign, gpu)
    lines = [
        f"{campaign.relative(file.path)}: {file.documents:,} documents" + ("" if file.made else " (unchanged)")
        for file in files
    ]
    data = [
        {"corpus": file.corpus_id, "path": campaign.relative(file.path), "documents": file.documents, "made": file.made}
        for file in files
    ]
    told, quality = _baseline_quality(campaign)
    return Output([*lines, *told], {"baselines": data, "quality": quality})


def _say_what_is_open(campaign: Campaign) -> None:
    """What the freeze will refuse as still shipped, before minutes of computing: a changed corpus makes them again."""
    from runner.protocol.read import read_plan, read_protocol
    from runner.protocol.shipped import refuse_example

    if campaign.lock.is_file() or not (campaign.protocol.is_file() and campaign.plan.is_file()):
        return
    protocol, plan = read_protocol(campaign.protocol), read_plan(campaign.plan)
    try:
        refuse_example(protocol, plan, campaign.protocol, campaign.plan)
    except InputRefused as error:
        write_line(f"warning: the freeze will refuse: {error.what}", error=True)
        for detail in error.details:
            write_line(f"  {detail}", error=True)


def _baseline_quality(campaign: Campaign) -> tuple[list[str], list[dict[str, object]]]:
    """How good the reference predictions are, against the minimum of the protocol; no time is looked at (M2).

    Lines for people, the next step among them; for machines, every check with its exact figures.
    """
    from runner.judge.minimum import PUT_RIGHT, current_baselines, spoken, warnings_of

    try:
        found = current_baselines(campaign)
    except InputRefused as error:  # the predictions are there; the freeze will refuse for the same reason
        return [f"warning: how good they are cannot be told: {error.what}", "next: runner freeze"], []
    lines = [
        f"  {item.corpus_id}: {spoken(check)}" for item in found for check in item.checks if check not in item.missed
    ]
    warnings = warnings_of(found)
    lines += [f"warning: {warning}" for warning in warnings]
    lines.append(f"next: {PUT_RIGHT}, then runner baseline" if warnings else "next: runner freeze")
    return lines, [item.as_json() for item in found]


@runner_command("plan", short_help="Blank sheet of the planned attempts; nothing is measured.")
def plan(session: Session) -> Output:
    """Blank sheet of the planned attempts; performance cells stay empty until measured."""
    from runner.evidence.store import AttemptStore
    from runner.measure.plan_sheet import write_plan_sheet
    from runner.protocol.lockfile import read_lock

    campaign = Campaign(session.root)
    recorded_rows = AttemptStore(campaign).scan().attempts  # unreadable ones are refused before anything is written
    path, rows = write_plan_sheet(campaign)
    name, lock = campaign.relative(path), read_lock(campaign).lock_sha256
    recorded = sum(row.lock_sha256 == lock for row in recorded_rows)
    plural = "" if recorded == 1 else "s"
    state = (
        f"the sheet is blank; {recorded} attempt{plural} recorded under this lock so far: runner validate lists them"
        if recorded
        else "nothing measured yet"
    )
    return Output(
        [f"{name}: {len(rows)} planned attempts, {state}", "next: runner measure --gpu NAME"],
        {"path": name, "rows": rows, "recorded": recorded},
    )


@runner_command("measure")
@click.option("--gpu", required=True, help="what was rented, as in tariffs.csv; cpu: this machine")
@click.option("--batches", default="", help='batch series, such as "1 4 8" (default: all variants of the lock)')
@click.option("--series", default=None, help="one series or variant of the lock")
@click.option("--passes", type=click.IntRange(min=1), default=None, help="passes per variant, up to the frozen maximum")
@click.option("--nnodes", type=click.IntRange(min=1), default=1, help="machines that share an attempt (as torchrun)")
@click.option("--node-rank", type=click.IntRange(min=0), default=0, help="which of them this is; 0 holds the records")
@click.option("--rdzv-endpoint", default=None, help="address of node 0; the next port is used too")
@click.option("--rdzv-backend", default="static", help="how the nodes meet: static or c10d")
@click.option("--rdzv-id", default="runner", help="name of the meeting, the same on every node")
def measure(
    session: Session, gpu: str, batches: str, series: str | None, passes: int | None, nnodes: int, node_rank: int,
    rdzv_endpoint: str | None, rdzv_backend: str, rdzv_id: str,
) -> Output:  # fmt: skip
    """Run the attempts that are still missing, in the frozen order."""
    from runner.judge.minimum import baseline_warnings
    from runner.measure.nodes import parse_nodes
    from runner.measure.run import measure as run

    nodes = parse_nodes(nnodes, node_rank, rdzv_endpoint, rdzv_backend, rdzv_id)
    if nodes is not None and nodes.node_rank:
        from runner.measure.assist import assist

        attempts = assist(Campaign(session.root), gpu, nodes)
        return Output([f"took part in {attempts} attempts; the records are on node 0"], {"attempts": attempts})
    request = Request(gpu=gpu, batches=parse_batches(batches), series=series, passes=passes, nodes=nodes)
    if request.batches and series:
        raise InputRefused(
            "give either --batches or --series, not both",
            value=f"{batches} and {series}",
            next_step="leave one of them out: runner measure --help",
        )
    campaign = Campaign(session.root)
    for warning in baseline_warnings(campaign):  # before the first paid minute
        write_line(f"warning: {warning}", error=True)
    outcome = run(campaign, request, make_progress())
    lines, stale = _lines(outcome), _stale_note(campaign, outcome)
    if stale and lines[-1] == _VALIDATE:  # one next step, not two
        lines.pop()
    return Output([*lines, *stale], _data(outcome), 0 if outcome.complete else 3)


def _stale_note(campaign: Campaign, outcome: Outcome) -> list[str]:
    """New rows behind a signed note are no tampering, but `verify` cannot tell: said here."""
    if not outcome.written or not (campaign.note / "decision-note.pdf").exists():
        return []
    return [
        "the signed note does not cover these new rows: verify will refuse it until it is made again",
        "next: runner validate, runner decide, runner report",
    ]


def _lines(outcome: Outcome) -> list[str]:
    """What was recorded, what it means, what to do next."""
    lines = [f"warning: {warning}" for warning in outcome.warnings]
    if outcome.written and all(row.status is Status.UNAVAILABLE for row in outcome.written):
        device = outcome.written[0].gpu_declared
        rows = f"{len(outcome.written)} row{'s' * (len(outcome.written) > 1)}"
        lines.append(f"no measurement: {rows} recorded as unavailable, {_passes(outcome)}")
        return [*lines, f"next: the same command on the machine with {device}; runner doctor says what is here"]
    lines.append(f"{len(outcome.written)} attempt{'s' * (len(outcome.written) != 1)} recorded, {_passes(outcome)}")
    lines += [f"  {line}" for line in _not_completed(outcome.written)]
    if outcome.stopped_by:
        left = outcome.left
        by = _STOPS.get(outcome.stopped_by, outcome.stopped_by)
        lines.append(f"stopped by {by}, {left} pass{'es' * (left != 1)} left")
        lines.append("next: the same command goes on with what is left")
    elif outcome.left:
        lines.append(f"next: the same command, {outcome.left} left")
    elif outcome.complete:
        lines.append(_VALIDATE)
    else:
        lines.append("what failed stays as it is and is not run again; the rows say why (records/attempts/)")
        lines.append("a further pass of all variants makes up for it: the same command with --passes, one more")
        lines.append("  (make: PASSES=...); for a documented external reason: runner exclude")
        lines.append(_VALIDATE)
    return lines


def _passes(outcome: Outcome) -> str:
    return f"{outcome.completed} of {outcome.wanted} passes completed"


def _not_completed(rows: Sequence[Attempt]) -> list[str]:
    """`b8: out of memory (2)`, one line per variant and status, in the order they came."""
    counted = Counter((row.variant_id, row.status) for row in rows if row.status is not Status.COMPLETED)
    return [f"{variant}: {status_words(status)} ({count})" for (variant, status), count in counted.items()]


def _data(outcome: Outcome) -> dict[str, object]:
    return {
        "written": [_row(attempt) for attempt in outcome.written],
        "completed": outcome.completed,
        "wanted": outcome.wanted,
        "left": outcome.left,
        "stopped_by": outcome.stopped_by,
        "warnings": list(outcome.warnings),
    }


def _row(attempt: Attempt) -> dict[str, object]:
    return {
        "attempt_id": attempt.attempt_id,
        "variant": attempt.variant_id,
        "status": attempt.status.value,
        "pass_seconds": attempt.pass_seconds,
        "completed_documents": attempt.completed_documents,
        "error": None if attempt.error is None else attempt.error.message,
    }
