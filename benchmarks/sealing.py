"""What a reader of the note waits for: checking a campaign, its archive, and the PDF alone."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from benchmarks.campaigns import noted_campaign, runner
from benchmarks.harness import Figure, figure, measures, seconds

_OWN_MACHINE = """\
provider = "own machine"
order = "none"
gpu = "cpu"
lots = 1
days = 7
starts_at = "2027-10-04T09:00+02:00"
ends_at = "2027-10-11T09:00+02:00"
amount = "0.00"
currency = "USD"
"""


@measures("verify_demo_seconds", "verify_archive_seconds", "verify_pdf_seconds")
def verify() -> Iterable[Figure]:
    """`runner verify` as a command, with recomputation of verdicts, decision and text."""
    folder = noted_campaign().folder
    rental = folder / "rental.toml"
    rental.write_text(_OWN_MACHINE, encoding="utf-8")
    runner(folder, "archive", "--rental", str(rental))
    (archive,) = (folder / "archive").glob("*.zip")
    subjects = (
        ("verify_demo_seconds", str(folder), "<= 5"),
        ("verify_archive_seconds", str(archive), None),
        ("verify_pdf_seconds", str(folder / "note/decision-note.pdf"), None),
    )
    for name, subject, goal in subjects:
        taken = [seconds(partial(runner, folder, "verify", subject)) for _ in range(5)]
        yield figure(name, taken, unit="s", goal=goal)
