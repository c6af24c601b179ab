"""What a user waits for: help, the note from nothing, the report, an attempt beyond its pass."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.campaigns import fresh_campaign, noted_campaign, runner
from benchmarks.harness import ROOT, Figure, figure, measures, pairs, seconds
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.measure.run import Request, measure
from runner.measure.schedule import Planned

BATCH = 8
PAIRS = 6


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8").stdout


@measures("help_over_bare_seconds")
def help_over_bare() -> Iterable[Figure]:
    """`runner --help` against an interpreter that does nothing."""
    found = pairs(
        lambda: seconds(lambda: _run(sys.executable, "-m", "runner", "--help")),
        lambda: seconds(lambda: _run(sys.executable, "-c", "pass")),
        n=15,
    )
    yield figure("help_over_bare_seconds", [shown - bare for shown, bare in found], unit="s", goal="<= 0.15")


@measures("note_after_install_seconds")
def note_after_install() -> Iterable[Figure]:
    """`make note` after the installation: 15 attempts, verdicts, decision, note, check."""
    yield figure("note_after_install_seconds", [noted_campaign().seconds], unit="s", goal="<= 300")


@measures("demo_report_seconds")
def demo_report() -> Iterable[Figure]:
    """`runner report` as a command: decide, figures, HTML, PDF, signatures."""
    folder = noted_campaign().folder
    taken = [seconds(lambda: runner(folder, "report")) for _ in range(5)]
    yield figure("demo_report_seconds", taken, unit="s", goal="<= 8")


@measures("attempt_overhead_seconds")
def attempt_overhead() -> Iterable[Figure]:
    """What an attempt costs beyond its pass and beyond starting, importing and loading in a bare process.

    Attempts and bare processes take turns inside one call of `measure`. An attempt is everything from the
    end of what came before to its finished row on disk. Its own pass is taken off; the bare process runs
    none, and its exit is not counted (a plain script pays about half a second for it, a worker does not).
    """
    campaign = Campaign(_overhead_campaign())
    turns = _Turns(campaign.protocol_dir / "model")
    outcome = measure(campaign, Request("cpu", batches=(BATCH,), passes=PAIRS + 1), turns)
    if not outcome.complete:
        raise RuntimeError("an attempt of the benchmark failed")
    yield figure(
        "attempt_overhead_seconds", turns.beyond[1:], unit="s", goal="<= 1.0",  # the first one warms up
        note="fresh worker, warm-up, journal, memory line, predictions, row; below 0: it starts and loads faster than "
        "a bare script by more than all that costs",
    )  # fmt: skip


def _overhead_campaign() -> Path:
    """The embedded campaign, frozen for enough passes."""
    folder = fresh_campaign("overhead")
    protocol = folder / "protocol/quality-protocol.toml"
    text = protocol.read_text(encoding="utf-8")
    for old, new in (("passes_planned = 5", f"passes_planned = {PAIRS + 1}"), ("passes_most = 10", "passes_most = 50")):
        if old not in text:
            raise RuntimeError(f"the embedded protocol no longer says {old}")
        text = text.replace(old, new)
    protocol.write_text(text, encoding="utf-8")
    for command in ("baseline", "freeze"):
        runner(folder, command)
    return folder


class _Turns:
    """Progress of `measure` that takes the time of each attempt, and runs a bare process after it."""

    live = False

    def __init__(self, model: Path) -> None:
        self._model = model
        self._began = 0.0
        self.beyond: list[float] = []

    def begin(self, planned: Sequence[Planned], slots: int, earlier: Sequence[Attempt]) -> None:
        self._began = time.monotonic()

    def notice(self, text: str) -> None: ...

    def not_here(self, problem: str, rows: int) -> None:
        raise RuntimeError(problem)

    def started(self, planned: Planned) -> None:
        """Counted from the end of the turn before."""

    def tick(self) -> None:
        """Nobody looks on."""

    def ended(self, attempt: Attempt) -> None:
        taken = time.monotonic() - self._began
        self.beyond.append(taken - (attempt.pass_seconds or 0.0) - self._bare())
        self._began = time.monotonic()

    def _bare(self) -> float:
        script = Path(__file__).with_name("bare_process.py")
        return float(_run(sys.executable, str(script), str(self._model), str(time.monotonic_ns())))
