"""Progress of a measurement: one bar with the time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner.cli.output import write_line
from runner.errors import show_text

if TYPE_CHECKING:
    from runner.evidence.attempt import Attempt, Status
    from runner.measure.run import Progress
    from runner.measure.schedule import Planned

_BAR_CHARACTERS = 24
_MESSAGE_CHARACTERS = 200


def describe(attempt: Attempt) -> str:
    """One line about an attempt that has ended."""
    name = f"{attempt.gpu_declared} {attempt.variant_id} pass {attempt.slot.pass_index + 1}"
    if attempt.status.value == "unavailable":
        return f"{attempt.gpu_declared} {attempt.variant_id}: device unavailable, not measured"
    if attempt.pass_seconds is not None:
        return f"{name}: {attempt.pass_seconds:.3f} s, {attempt.completed_documents:,} documents"
    found = status_words(attempt.status)
    if attempt.completed_documents:
        found += f" after {attempt.completed_documents:,} of {attempt.expected_documents:,} documents"
    message = "" if attempt.error is None else _shortened(attempt.error.message)
    return f"{name}: {found}" + (f" ({message})" if message and message != found else "")


def status_words(status: Status) -> str:
    """`out of memory`, `timed out`: a status as people write it."""
    return status.value.replace("_", " ")


def _shortened(message: str) -> str:
    """First line of a message, safe to show."""
    line = show_text(next(iter(message.strip().splitlines()), ""))
    return line if len(line) <= _MESSAGE_CHARACTERS else line[:_MESSAGE_CHARACTERS] + "…"


def _say(text: str) -> None:
    """A line on standard error; a terminal that has gone loses the text, not the measurement."""
    with contextlib.suppress(OSError, ValueError):
        write_line(text, error=True)


class Lines:
    """Plain lines on standard error, each with the time left: standard output stays for the result."""

    live = False

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._attempt_start = time.monotonic()
        self._seconds: dict[str, list[float]] = {}
        self._left: list[str] = []

    def begin(self, planned: Sequence[Planned], slots: int, earlier: Sequence[Attempt]) -> None:
        self._total = len(planned)
        for row in earlier:
            whole = sum(phase.seconds or 0.0 for phase in row.phases if not phase.inside_pass)
            self._seconds.setdefault(row.variant_id, []).append(whole)
        self._left = [item.variant.id for item in planned]
        if 0 < len(planned) < slots:
            _say(f"{slots - len(planned)} of {slots} passes were run before, {len(planned)} are left")

    def notice(self, text: str) -> None:
        _say(f"note: {text}")

    def not_here(self, problem: str, rows: int) -> None:
        self._total = rows
        _say(f"nothing can be measured: {problem}")

    def started(self, planned: Planned) -> None:
        self._attempt_start = time.monotonic()

    def tick(self) -> None:
        pass

    def ended(self, attempt: Attempt) -> None:
        now = time.monotonic()
        self._seconds.setdefault(attempt.variant_id, []).append(now - self._attempt_start)
        self._attempt_start = now
        self._done += 1
        if self._left:
            self._left.pop(0)
        left = f"; {self._time_left()}" if self._left else ""
        _say(f"[{self._done}/{self._total}] {describe(attempt)}{left}")

    def _time_left(self) -> str:
        """Mean of what each variant took so far; variants not seen yet take the mean of the others."""
        known = {name: sum(values) / len(values) for name, values in self._seconds.items()}
        if not known:
            return "time left: after the first attempt"
        mean = sum(known.values()) / len(known)
        seconds = sum(known.get(name, mean) for name in self._left) - (time.monotonic() - self._attempt_start)
        return f"about {rough(max(0, round(seconds)))} left"


def rough(seconds: int) -> str:
    """`40 s`, `2 min 05 s`, `3 h`: how long a person will wait."""
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    (large, unit), (small, rest_unit) = (
        ((minutes, "min"), (rest, "s")) if minutes < 60 else ((minutes // 60, "h"), (minutes % 60, "min"))
    )
    return f"{large} {unit} {small:02d} {rest_unit}" if small else f"{large} {unit}"


class Bar(Lines):
    """The same lines, and below them a bar that says what runs and how long it may still take."""

    live = True

    def __init__(self) -> None:
        super().__init__()
        self._running = ""

    def started(self, planned: Planned) -> None:
        super().started(planned)
        self._running = f"{planned.variant.id} pass {planned.slot.pass_index + 1}"
        self.tick()

    def tick(self) -> None:
        filled = 0 if not self._total else _BAR_CHARACTERS * self._done // self._total
        bar = "#" * filled + "." * (_BAR_CHARACTERS - filled)
        line = f"[{bar}] {self._done}/{self._total} {self._running} {self._time_left()}"
        columns = shutil.get_terminal_size().columns  # a line that wraps could not be taken back
        self._draw(f"\r\x1b[K{line[: columns - 1]}")

    def ended(self, attempt: Attempt) -> None:
        self._draw("\r\x1b[K")
        super().ended(attempt)

    @staticmethod
    def _draw(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def make_progress() -> Progress:
    """A bar where a person looks on, lines in files, in logs and on terminals that cannot take a line back."""
    return Bar() if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else Lines()
