"""Commands over more than one campaign: `again`, `compare`, `collect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from runner.cli.output import Output, Session, runner_command
from runner.evidence.campaign import Campaign

_COPIES_SHOWN = 3
_PATH = click.Path(path_type=Path)


@runner_command("again", short_help="Set up the same experiment in a new folder, for a new model or version.")
@click.argument("source", type=_PATH)
@click.argument("folder", type=_PATH)
@click.option("--model", help="Another model: folder below the new protocol/, absolute path, or hub id.")
@click.option("--revision", help="Commit of a model from the hub.")
def again(session: Session, source: Path, folder: Path, model: str | None, revision: str | None) -> Output:
    """Take protocol, plan, corpora, tariffs and templates of SOURCE (archive or campaign) into the new FOLDER.

    Nothing measured comes along: the new campaign gets its own freeze and nonce, and says that its
    corpora were seen before.
    """
    from runner.flows.again import set_up_again

    made = set_up_again(source, folder, model=model, revision=revision)
    lines = [f"{made.folder}: set up again from the note {made.note_id}; corpus seen before", "next:"]
    lines += [f"  {step}" for step in made.next_steps]
    data = {
        "folder": str(made.folder),
        "note_id": made.note_id,
        "missing": list(made.missing),
        "next_steps": list(made.next_steps),
    }
    return Output(lines, data)


@runner_command("compare", short_help="Two campaigns side by side: what changed, and may they be compared?")
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
def compare(session: Session, a: Path, b: Path) -> Output:
    """Compare A with B (archives or campaign folders): model, software, prices, durations, decision."""
    from runner.flows.compare import compare as put_side_by_side

    found = put_side_by_side(a, b)
    return Output(list(found.lines()), found.as_json())


@runner_command("collect", short_help="Merge the records of several rentals under one lock.")
@click.argument("folders", type=_PATH, nargs=-1, required=True)
@click.option("--keep-other-locks", is_flag=True, help="Keep rows of other locks too; they are listed, never counted.")
def collect(session: Session, folders: tuple[Path, ...], keep_other_locks: bool) -> Output:
    """Merge the records of FOLDERS (campaigns or their records/) into this campaign.

    Exact copies are ignored and counted (--json names all of them); rows that contradict each other, and chains with
    gaps, are refused.
    """
    from runner.flows.collect import collect as merge

    made = merge(Campaign(session.root), folders, keep_other_locks=keep_other_locks)
    lines = [
        f"{_counted(len(made.added), 'row')} added, {made.rows} in all, of {_counted(len(made.machines), 'machine')}",
        *_copies(made.ignored),
        *(f"another lock, never counted: {row}" for row in made.other_locks),
        *(f"warning: {warning}" for warning in made.warnings),
        "next: runner validate",
    ]
    data = {
        "rows": made.rows,
        "added": list(made.added),
        "ignored": list(made.ignored),
        "other_locks": list(made.other_locks),
        "machines": list(made.machines),
        "warnings": list(made.warnings),
    }
    return Output(lines, data)


def _copies(ignored: Sequence[str]) -> list[str]:
    """All rows of a folder that was collected before are copies: the first few show where they lie."""
    if len(ignored) <= _COPIES_SHOWN:
        return list(ignored)
    rows = f"{len(ignored)} rows have exact copies, which are ignored; the first {_COPIES_SHOWN} (all: --json):"
    return [rows, *(f"  {line}" for line in ignored[:_COPIES_SHOWN])]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
