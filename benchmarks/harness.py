"""What every family shares: a figure, interleaved pairs, the registry of what can be measured.

A family is a module of this package. It registers a function with `@measures("name", ...)`, which
returns one `Figure` for every name. Both sides of a comparison run in turns, so that a slow minute
hits both; what counts is the median over the pairs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

Measure = Callable[[], Iterable["Figure"]]
_FAMILIES: dict[tuple[str, ...], Measure] = {}


class NotMeasurable(Exception):
    """This machine lacks what a figure needs; the message says what. Nothing is written for it."""


@dataclass(frozen=True)
class Figure:
    """One measured number. `goal`: what it should reach, such as `<= 1.0`; None where none was set."""

    name: str
    value: float
    unit: str
    goal: str | None
    n: int
    minimum: float
    maximum: float
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        relation, limit = self.goal.split()
        return self.value <= float(limit) if relation == "<=" else self.value >= float(limit)

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": _rounded(self.value),
            "unit": self.unit,
            "goal": self.goal,
            "reached": self.reached,
            "n": self.n,
            "min": _rounded(self.minimum),
            "max": _rounded(self.maximum),
            "note": self.note,
        }


def figure(name: str, values: Sequence[float], *, unit: str, goal: str | None = None, note: str = "") -> Figure:
    """Median of the values, with their number and range."""
    return Figure(name, statistics.median(values), unit, goal, len(values), min(values), max(values), note)


def measures(*names: str) -> Callable[[Measure], Measure]:
    """Register a function that measures the figures of these names."""

    def register(function: Measure) -> Measure:
        _FAMILIES[names] = function
        return function

    return register


def families() -> dict[tuple[str, ...], Measure]:
    """All registered functions by the names of their figures, in the order of registration."""
    return dict(_FAMILIES)


# The kernel counts the memory of whoever forked into a child's peak: a launcher without anything stands between.
_LAUNCHER = """
import os, sys
child = os.posix_spawn(sys.executable, sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as stream:
    stream.write(str(usage.ru_maxrss * 1024))
raise SystemExit(os.waitstatus_to_exitcode(status) and 1)
"""


def output_and_peak(arguments: Sequence[str]) -> tuple[str, int]:
    """What `python ARGUMENTS` prints, and the largest resident memory of that process in bytes.

    Raises RuntimeError where it does not end with 0. The memory of the calling process is not in the figure.
    """
    with tempfile.NamedTemporaryFile(mode="r") as peak:
        command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, peak.name, sys.executable, *arguments]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"python {' '.join(arguments)} did not end with 0")
        return done.stdout, int(peak.read())


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call, from a monotonic clock."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def pairs(
    first: Callable[[], float], second: Callable[[], float], n: int, *, warm_up: int = 1
) -> list[tuple[float, float]]:
    """`n` pairs of results of two measuring functions; every other pair runs in reverse order."""
    for _ in range(warm_up):
        first()
        second()
    found = []
    for index in range(n):
        if index % 2:
            right = second()
            left = first()
        else:
            left = first()
            right = second()
        found.append((left, right))
    return found


def _rounded(value: float) -> float:
    """Four significant digits: more would be noise."""
    return float(f"{value:.4g}")
