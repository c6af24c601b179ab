"""`runner lab`: a folder for working by hand."""

from __future__ import annotations

from pathlib import Path

import click

from runner.cli.output import Output, Session, runner_command
from runner.evidence.campaign import Campaign
from runner.flows.lab import make_lab


@runner_command("lab", short_help="Everything for working by hand, in one folder without texts.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="default: lab/ of the campaign")
def lab(session: Session, out: Path | None) -> Output:
    """Instructions, quality protocol, blank sheet, price script, tariffs and licence in one folder (M49)."""
    made = make_lab(Campaign(session.root), out)
    lines = [
        f"lab folder: {made.folder} ({made.attempts} planned attempts)",
        *(f"  {name}" for name in made.files),
        f"next: read {made.folder / 'README.md'}",
    ]
    return Output(lines, {"folder": str(made.folder), "files": list(made.files), "attempts": made.attempts})
