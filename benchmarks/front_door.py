"""What a user waits for: help, the note from nothing, the report, an attempt beyond its pass."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.campaigns import ROOT, fresh_campaign, noted_campaign, runner
from benchmarks.harness import Figure, figure, measures, pairs, seconds

BATCH = 4


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
    """One more attempt of `runner measure`, beyond what one bare process needs for the same.

    The bare process imports, loads the model and runs a plain pass. Both sides are taken without
    their own pass, whose noise would hide the rest; the start of the command itself is taken off
    by a call that finds nothing left to do.
    """
    campaign = fresh_campaign("overhead")
    protocol = campaign / "protocol/quality-protocol.toml"
    text = protocol.read_text(encoding="utf-8")
    for old, new in (
        ("passes_planned = 5", "passes_planned = 2"), ("min_accepted = 3", "min_accepted = 2"),
        ("passes_most = 10", "passes_most = 100"),
    ):  # fmt: skip
        if old not in text:
            raise RuntimeError(f"the embedded protocol no longer says {old}")
        text = text.replace(old, new)
    protocol.write_text(text, encoding="utf-8")
    for command in ("baseline", "freeze"):
        runner(campaign, command)
    passes = [2]

    def attempt() -> float:
        passes[0] += 1
        arguments = ("measure", "--gpu", "cpu", "--batches", str(BATCH), "--passes", str(passes[0]), "--json")
        out: list[str] = []
        whole = seconds(lambda: out.append(runner(campaign, *arguments)))
        nothing = seconds(lambda: runner(campaign, *arguments))
        (row,) = json.loads(out[0])["written"]
        return whole - nothing - float(row["pass_seconds"])

    runner(campaign, "measure", "--gpu", "cpu", "--batches", str(BATCH), "--passes", "2")
    found = pairs(attempt, lambda: _bare(campaign), n=7)
    beyond = [whole - bare for whole, bare in found]
    yield figure(
        "attempt_overhead_seconds", beyond, unit="s", goal="<= 1.0",
        note="fresh child, checks, warm-up, journal, predictions and row against one bare process",
    )  # fmt: skip


def _bare(campaign: Path) -> float:
    """Seconds of the bare process without its pass."""
    script = Path(__file__).with_name("bare_process.py")
    command = (sys.executable, str(script), str(campaign / "protocol"), str(BATCH))
    out: list[str] = []
    whole = seconds(lambda: out.append(_run(*command)))
    return whole - float(out[0])
