"""Progress of a measurement: one bar with the time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner.cli.output import write_line
from runner.errors import show_value

if TYPE_CHECKING:
    from runner.evidence.attempt import Attempt
    from runner.measure.run import Progress
    from runner.measure.schedule import Planned

_BAR_CHARACTERS = 24


def describe(attempt: Attempt) -> str:
    """One line about an attempt that has ended."""
    slot = f"pass {attempt.slot.pass_index + 1}"
    if attempt.pass_seconds is not None:
        found = f"{attempt.pass_seconds:.3f} s, {attempt.completed_documents} documents"
    else:
        message = attempt.error.message if attempt.error else ""
        found = f"{attempt.status.value} ({show_value(message, 200)})"
        if attempt.completed_documents:
            found += f", {attempt.completed_documents} of {attempt.expected_documents} documents"
    return f"{attempt.gpu_declared} {attempt.variant_id} {slot}: {found}"


class Lines:
    """Plain lines on standard error: standard output stays for the result."""

    live = False

    def __init__(self) -> None:
        self._total = 0
        self._done = 0

    def begin(self, planned: Sequence[Planned]) -> None:
        self._total = len(planned)

    def started(self, planned: Planned) -> None:
        pass

    def tick(self) -> None:
        pass

    def ended(self, attempt: Attempt) -> None:
        self._done += 1
        write_line(f"[{self._done}/{self._total}] {describe(attempt)}", error=True)


class Bar(Lines):
    """The same lines, and below them a bar that says what runs and how long it may still take."""

    live = True

    def __init__(self) -> None:
        super().__init__()
        self._running = ""
        self._attempt_start = time.monotonic()
        self._seconds: dict[str, list[float]] = {}
        self._left: list[str] = []

    def begin(self, planned: Sequence[Planned]) -> None:
        super().begin(planned)
        self._left = [item.variant.id for item in planned]

    def started(self, planned: Planned) -> None:
        self._running = f"{planned.variant.id} pass {planned.slot.pass_index + 1}"
        self._attempt_start = time.monotonic()
        self.tick()

    def tick(self) -> None:
        filled = 0 if not self._total else _BAR_CHARACTERS * self._done // self._total
        bar = "#" * filled + "." * (_BAR_CHARACTERS - filled)
        sys.stderr.write(f"\r\x1b[K[{bar}] {self._done}/{self._total} {self._running} {self._time_left()}")
        sys.stderr.flush()

    def ended(self, attempt: Attempt) -> None:
        self._seconds.setdefault(attempt.variant_id, []).append(time.monotonic() - self._attempt_start)
        if self._left:
            self._left.pop(0)
        sys.stderr.write("\r\x1b[K")
        super().ended(attempt)

    def _time_left(self) -> str:
        """Mean of what each variant took so far; variants not seen yet take the mean of the others."""
        known = {name: sum(values) / len(values) for name, values in self._seconds.items()}
        if not known:
            return "time left: after the first attempt"
        mean = sum(known.values()) / len(known)
        seconds = sum(known.get(name, mean) for name in self._left) - (time.monotonic() - self._attempt_start)
        minutes, rest = divmod(max(0, round(seconds)), 60)
        return f"about {minutes}:{rest:02d} left"


def make_progress() -> Progress:
    """A bar where a person looks on, lines in files and logs."""
    return Bar() if sys.stderr.isatty() else Lines()
