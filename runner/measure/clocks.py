"""Clocks of a pass: monotonic, and stopped only when the device has finished (M20).

A device is anything that may still be working when a call returns. `HostDevice` never is;
`CudaDevice` (CUDA and ROCm builds of torch alike) is. Wall clocks give dates, never durations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_NANOSECONDS = 1_000_000_000


class Device(Protocol):
    """What the pass needs to know of a device. Times are integers, nanoseconds of one monotonic clock."""

    @property
    def name(self) -> str: ...

    def synchronize(self) -> None:
        """Return when all work given to the device so far is done."""

    def now_ns(self) -> int: ...


class HostDevice:
    """The CPU: a call that returned is done."""

    def __init__(self, name: str) -> None:
        self.name = name

    def synchronize(self) -> None:
        return None

    def now_ns(self) -> int:
        return time.monotonic_ns()


class CudaDevice:
    """One or more cards through `torch.cuda` (also the name of the ROCm build's module)."""

    def __init__(self, cuda: Any, indices: tuple[int, ...]) -> None:
        self._cuda = cuda
        self._indices = indices
        self.name = cuda.get_device_name(indices[0])

    def synchronize(self) -> None:
        for index in self._indices:
            self._cuda.synchronize(index)

    def now_ns(self) -> int:
        return time.monotonic_ns()


class PassClock:
    """Start and stop of the measured pass; the device is waited for before both marks (M20, TI-01)."""

    def __init__(self, device: Device) -> None:
        self._device = device
        device.synchronize()
        self.start_ns = device.now_ns()

    def stop(self) -> float:
        """Seconds since the start, the device's work included."""
        self._device.synchronize()
        return seconds_between(self.start_ns, self._device.now_ns())


class Parts:
    """Busy time of the parts inside a pass, added up without any synchronisation.

    On an asynchronous device `inference` is the time to hand the work over; the waiting shows in
    `materialise`. That is why the parts explain a pass and are never compared on their own.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.busy_ns: dict[str, int] = {}

    @contextmanager
    def busy(self, part: str) -> Iterator[None]:
        start = self._now_ns()
        try:
            yield
        finally:
            self.add(part, self._now_ns() - start)

    def add(self, part: str, nanoseconds: int) -> None:
        self.busy_ns[part] = self.busy_ns.get(part, 0) + nanoseconds

    def seconds(self) -> dict[str, float]:
        return {part: nanoseconds / _NANOSECONDS for part, nanoseconds in self.busy_ns.items()}


def seconds_between(start_ns: int, stop_ns: int) -> float:
    """Elapsed seconds of the monotonic clock; it cannot run backwards."""
    if stop_ns < start_ns:
        raise ValueError("a monotonic clock went backwards")
    return (stop_ns - start_ns) / _NANOSECONDS


def wall_clock_moved(wall_start_ns: int, wall_stop_ns: int, start_ns: int, stop_ns: int) -> float:
    """Seconds by which the wall clock was set during the span; negative is back (TI-03)."""
    return ((wall_stop_ns - wall_start_ns) - (stop_ns - start_ns)) / _NANOSECONDS


def wall_clock_note(moved_seconds: float, least_seconds: float = 1.0) -> str | None:
    """The warning for the record, or None when the wall clock ran along."""
    if abs(moved_seconds) < least_seconds:
        return None
    return f"wall clock moved by {moved_seconds:.0f} s during the attempt; durations are of the monotonic clock"
