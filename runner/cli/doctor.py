"""`runner doctor` and `runner rehearse`: what works here, and a try before paid hours."""

from __future__ import annotations

import click

from runner.cli.output import Output, Session, runner_command, write_line
from runner.evidence.campaign import Campaign

_MARKS = {True: "yes", False: "no", None: "note"}


@runner_command("doctor")
def doctor(session: Session) -> Output:
    """What can be measured on this machine, what cannot, and why."""
    from runner.flows.doctor import examine

    found = examine(Campaign(session.root))
    width = max(len(ability.name) for ability in found)
    lines = [f"{_MARKS[ability.possible]:>4}  {ability.name:<{width}}  {ability.why}" for ability in found]
    data = [{"name": ability.name, "possible": ability.possible, "why": ability.why} for ability in found]
    return Output(lines, {"abilities": data})


@runner_command("rehearse", short_help="Longest texts, largest batch, disk, key, clock, end: a try, nothing counted.")
@click.option("--gpu", default="cpu", help="what will be rented, as in tariffs.csv (default: cpu)")
@click.option("--rental-end", default=None, help="end of the rental, such as 2026-10-09T09:00Z")
def rehearse(session: Session, gpu: str, rental_end: str | None) -> Output:
    """Longest texts in the largest batch, disk, key, clock, end of the rental; nothing of it is counted."""
    from runner.flows.rehearse import rehearse as run

    found = run(Campaign(session.root), gpu, rental_end, say=lambda text: write_line(text, error=True))
    lines = [f"{'ok' if check.passed else 'NO':>3}  {check.name}: {check.found}" for check in found.checks]
    lines.append("nothing of this was recorded as an attempt")
    again = "correct what says NO, then rehearse again"
    lines.append(f"next: {f'runner measure --gpu {gpu}' if found.passed else again}")
    data = [{"name": check.name, "passed": check.passed, "found": check.found} for check in found.checks]
    return Output(lines, {"checks": data, "passed": found.passed}, 0 if found.passed else 3)
