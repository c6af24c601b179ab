"""Conditions of the cards over one attempt, whoever makes them: what was read, summarised per card.

A reader (`nvml.py`, `amd.py`) asks the driver; every question may be unanswered and then has its reason.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from runner.measure.memory import CudaCounters

NOT_EVEN_OURS = "the driver lists no process on the card, not even this one"
READ_SECONDS = 0.1
"""Interval of readings in a pass: those of a pass of a second can tell of it. Every tenth asks everything."""
_ALL_EVERY = 10
_LEAST_READINGS = 2
_LOOKS_BACK_SECONDS = 1.0  # so far at most does the driver's share of busy time look back
_INSIDE = ("sm_mhz_least", "sm_mhz_most", "memory_mhz_least", "power_watts_most", "throttle_reasons")
FOREIGN_IDS = "the driver shows process ids of another name space: as many as the attempt has count as its own"


@dataclass(frozen=True)
class CardReading:
    """One look at one card. None: the driver does not tell. Values of a card in slices are of the whole card,
    except memory and processes, which are of the slice."""

    used_bytes: int | None = None
    own_bytes: int | None = None
    others: int | None = None
    others_bytes: int | None = None
    busy_percent: int | None = None
    sm_mhz: int | None = None
    sm_mhz_possible: int | None = None
    memory_mhz: int | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    throttle: tuple[str, ...] | None = None
    energy_joules: float | None = None
    held_by_power_seconds: float | None = None
    held_by_heat_seconds: float | None = None
    ecc: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


class CardReader(Protocol):
    """Asks one driver about the cards that torch uses, in torch's order."""

    count: int
    reasons: dict[str, str]

    def read(
        self, card: int, own_pids: Collection[int], own_here: int = 1, *, brief: bool = False
    ) -> CardReading | None:
        """`brief`: only what changes within a pass (clocks, power, heat, energy), which drivers tell at once."""


@dataclass(frozen=True)
class Use:
    """Who is on a card: bytes of the attempt, number and bytes of others; `reason` for what is None or assumed."""

    own_bytes: int | None
    others: int | None
    others_bytes: int | None
    reason: str | None = None


def who_uses(processes: Sequence[tuple[int, int | None]], own_pids: Collection[int], own_here: int) -> Use:
    """From (process id, bytes) as the driver lists them; `own_here`: processes of the attempt on this card.

    The attempt has a context on the card: a list without any process says nothing about others either. Some
    drivers give a container the ids of its host: then as many strangers as the attempt has processes are its own.
    """
    if not processes:
        return Use(None, None, None, NOT_EVEN_OURS)
    mine = [size for pid, size in processes if pid in own_pids]
    if mine:
        return Use(_sum(mine), len(processes) - len(mine), _sum([s for pid, s in processes if pid not in own_pids]))
    others = max(0, len(processes) - own_here)
    sizes = _sum([size for _, size in processes])
    return Use(None if others else sizes, others, None if others else 0, FOREIGN_IDS)


def _sum(values: Sequence[int | None]) -> int | None:
    """None where the driver leaves out a value; of nothing 0."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class CardConditions:
    """Readings over one attempt, summarised per card: extremes, not averages of what throttled.

    The first is taken before the pass and the last after it; `readings` counts those in between.
    `own_here`: processes of the attempt on each card. `allocator`: torch's counters, for what it asked of the driver.
    """

    def __init__(
        self,
        reader: CardReader,
        own_pid: int,
        own_here: int = 1,
        allocator: CudaCounters | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self.own_pids = frozenset({own_pid})
        self._own_here = own_here
        self._allocator = allocator
        self._now = now
        self._looks = 0
        self._readings: dict[int, list[tuple[float, CardReading]]] = {}
        self._requests: list[dict[str, int]] = []

    def sample(self) -> None:
        self._look(brief=self._looks % _ALL_EVERY != 0)

    def sample_all(self) -> None:
        """The look after the pass: who is on the card then."""
        self._look(brief=False)

    def _look(self, *, brief: bool) -> None:
        self._looks += 1
        for card in range(self._reader.count):
            with contextlib.suppress(Exception):  # a reading must never end a measurement
                reading = self._reader.read(card, self.own_pids, self._own_here, brief=brief)
                if reading is not None:
                    self._readings.setdefault(card, []).append((self._now(), reading))
        if self._allocator is not None:
            with contextlib.suppress(Exception):
                self._requests.append(self._allocator.retries(self._allocator.indices[0]))

    def summary(self) -> tuple[dict[str, float | int | str | None], dict[str, str], bool | None]:
        """Values by `card.name`, reasons for nulls, and whether another process was on a card."""
        values: dict[str, float | int | str | None] = {}
        others: list[int] = []
        short: dict[str, str] = {}
        for card, timed in sorted(self._readings.items()):
            values |= {f"card{card}.{name}": value for name, value in _extremes(timed).items()}
            others += [reading.others for _, reading in timed if reading.others is not None]
            inside = values[f"card{card}.readings"] = max(0, len(timed) - 2)
            if inside < _LEAST_READINGS:
                short = dict.fromkeys(_INSIDE, f"readings inside the pass: {inside}, too few to speak of it")
        for name in self._requests[0] if self._requests else ():
            values[f"card0.{name}"] = self._requests[-1][name] - self._requests[0][name]
        reasons = {f"card.{name}": reason for name, reason in (short | self._reader.reasons).items()}
        if any(name.endswith(".busy_percent_mean") and value is None for name, value in values.items()):
            reasons.setdefault("card.busy_percent", "the pass was shorter than the time that the driver looks back")
        return values, reasons, any(others) if others else None


def _extremes(timed: Sequence[tuple[float, CardReading]]) -> dict[str, float | int | str | None]:
    readings = [reading for _, reading in timed]
    seen = {
        field.name: [value for reading in readings if (value := getattr(reading, field.name)) is not None]
        for field in fields(CardReading)
    }
    # Before and after the pass clocks may be at rest, and nothing is held back.
    inside = readings[1:-1] if len(readings) >= _LEAST_READINGS + 2 else []

    def of_pass(name: str, which: Callable[..., Any]) -> Any:
        return which((value for one in inside if (value := getattr(one, name)) is not None), default=None)

    def most(name: str) -> Any:
        return max(seen[name], default=None)

    def more(name: str) -> float | None:
        """Growth of a counter from the first to the last reading."""
        return round(seen[name][-1] - seen[name][0], 6) if len(seen[name]) > 1 else None

    busy = [
        reading.busy_percent
        for at, reading in timed[1:-1]
        if reading.busy_percent is not None and at - timed[0][0] >= _LOOKS_BACK_SECONDS
    ]
    ecc = seen["ecc"]
    reasons = [reading.throttle for reading in inside if reading.throttle is not None]
    throttled = sorted({reason for one in reasons for reason in one})
    return {
        "used_bytes_most": most("used_bytes"),
        "own_bytes_most": most("own_bytes"),
        "others_bytes_most": most("others_bytes"),
        "busy_percent_mean": round(sum(busy) / len(busy), 1) if busy else None,
        "sm_mhz_least": of_pass("sm_mhz", min),
        "sm_mhz_most": of_pass("sm_mhz", max),
        "sm_mhz_possible": most("sm_mhz_possible"),
        "memory_mhz_least": of_pass("memory_mhz", min),
        "temperature_celsius_most": most("temperature_celsius"),
        "power_watts_most": of_pass("power_watts", max),
        "power_limit_watts": min(seen["power_limit_watts"], default=None),
        "throttle_reasons": ", ".join(throttled) if reasons else None,
        "held_by_power_seconds": more("held_by_power_seconds"),
        "held_by_heat_seconds": more("held_by_heat_seconds"),
        "energy_joules": more("energy_joules"),
        "ecc": None if not ecc else "on" if all(ecc) else "off",
        "pcie_generation_most": most("pcie_generation"),
        "pcie_width_most": most("pcie_width"),
    }
