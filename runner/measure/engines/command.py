"""Engine `command`: the user's own program under the same boundaries, id rules and supervision.

The program is started once. After loading and warming up it writes one line to its standard output,
`{"ready": true, "effective": {...}}`, with the settings that it really uses. The worker then writes
`go`; the pass runs until the program answers `done`. In between it reads the corpus (variable
RUNNER_CORPUS), and writes predictions (RUNNER_PREDICTIONS: CSV, JSON Lines or Parquet by its name)
with the columns id, label and, if there is one, score. Whatever it does not say is unknown.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.measure.job import AttemptFailed, Job, Unsupported
from runner.measure.memory import RSS, Timeline
from runner.measure.repeat import Repeater

_SETTINGS = (
    "batch_size",
    "precision",
    "quantization",
    "compile",
    "attention",
    "padding",
    "padding_side",
    "max_length",
    "truncation",
    "grouping",
    "threads",
    "workers",
    "devices",
)
_LONGEST_LINE = 65536


@dataclass(frozen=True)
class CommandPass:
    """What one pass of the program showed. `counter`: what `peak_bytes` was read from."""

    seconds: float
    timeline: Timeline
    peak_bytes: int | None
    counter: str


class Program:
    """The running program. Its life ends with `close`, whatever happened."""

    def __init__(self, job: Job, predictions: Path) -> None:
        command = job.settings["extra"].get("command")
        if not isinstance(command, str) or not command.strip():
            raise Unsupported('engine command needs the program to run: extra = { command = "python my.py" }')
        environment = dict(os.environ) | {
            "RUNNER_CORPUS": job.corpus.path,
            "RUNNER_ID_COLUMN": job.corpus.id_column,
            "RUNNER_TEXT_COLUMN": job.corpus.text_column,
            "RUNNER_MODEL": job.model.path,
            "RUNNER_PREDICTIONS": str(predictions),
            "RUNNER_SETTINGS": json.dumps(job.settings),
        }
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        except (OSError, ValueError) as error:
            raise Unsupported(f"the program cannot be started: {error}") from None

    def effective(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Wait until the program is ready; its own word on each setting, None where it says nothing."""
        line = self._line("ready")
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict) or said.get("ready") is not True:
            raise AttemptFailed("failed", "protocol", 'the program\'s first line must be {"ready": true, ...}')
        own = said.get("effective", {})
        return {name: own.get(name) for name in _SETTINGS} | {"engine": "command", "extra": dict(settings["extra"])}

    def run(self, interval_seconds: float) -> CommandPass:
        """One pass, from `go` to `done`; memory of the program is read from outside."""
        timeline = Timeline(interval_seconds)
        reset = self._reset_peak()
        start = time.monotonic_ns()

        def sample() -> None:
            resident = self._resident()
            if resident is not None:
                timeline.samples.append(((time.monotonic_ns() - start) / 1e9, {RSS: resident}))

        repeater = Repeater("memory", interval_seconds, sample)
        repeater.start()
        start = time.monotonic_ns()
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()
        answer = self._line("done").strip()
        seconds = (time.monotonic_ns() - start) / 1e9
        peak, counter = self._status("VmHWM") if reset else None, "VmHWM"
        repeater.stop()
        if peak is None:  # it cannot be reset here, or the program ended right behind its answer
            peak, counter = timeline.largest(RSS), RSS
        if answer != "done":
            raise AttemptFailed("failed", "protocol", "the program must answer go with done")
        return CommandPass(seconds, timeline, peak, counter)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _line(self, expected: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline(_LONGEST_LINE)
        if not line:
            status = self._process.wait()
            raise AttemptFailed(
                "failed", "crash", f"the program ended before it was {expected}", evidence=f"exit status {status}"
            )
        return line.decode("utf-8", "replace")

    def _reset_peak(self) -> bool:
        try:
            Path(f"/proc/{self._process.pid}/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return False
        return True

    def _resident(self) -> int | None:
        return self._status("VmRSS")

    def _status(self, name: str) -> int | None:
        try:
            text = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name + ":")), None)


@contextmanager
def program(job: Job, predictions: Path) -> Iterator[Program]:
    started = Program(job, predictions)
    try:
        yield started
    finally:
        started.close()
