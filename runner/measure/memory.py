"""Memory of a pass: one peak per device and counter, with scope and time, never added up (M24).

Resident memory: the kernel's high-water mark is reset before the pass (`/proc/self/clear_refs`);
where that is not allowed, the peak is the largest sample and says so. Device memory: torch's own
counters, reset before the pass to what is allocated then (ME-01). A thread samples the counters at
the protocol's interval for the memory plot and for the times of the peaks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.measure.repeat import Repeater

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_RESET_PEAK_RSS = "5"
RSS = "resident"
THIS_PROCESS = "this worker process only"
BEFORE = "before the pass"
_LOADING = f"{BEFORE}: loading, compiling and warming up"
_NAMES = {"allocated": "torch.cuda.max_memory_allocated", "reserved": "torch.cuda.max_memory_reserved"}
_STALLS = {"allocator_requests": "num_device_alloc", "allocator_retries": "num_alloc_retries"}
_WHOLE_CARD = "everything on the card, drivers and other processes included, when the pass had ended"
_WORDS = {"allocated": "tensors", "reserved": "held by the allocator, tensors included"}


def peak_rss_bytes(ru_maxrss: int, platform: str) -> int:
    """`ru_maxrss` in bytes: Linux counts kibibytes, macOS bytes (ME-06)."""
    return ru_maxrss if platform == "darwin" else ru_maxrss * 1024


def resident_bytes() -> int:
    """Resident memory of this process now (about 8 microseconds)."""
    with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123 - called at every sample
        return int(stream.read().split()[1]) * _PAGE_BYTES


def reset_peak_resident() -> str | None:
    """Set the kernel's high-water mark to the present value; the reason when that is not possible."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK_RSS, encoding="ascii")
    except OSError as error:
        return f"the high-water mark could not be reset ({error.strerror})"
    return None


def peak_resident_bytes() -> int | None:
    """High-water mark since the last reset."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def limit_growth(margin_bytes: int) -> str:
    """Let this process' private memory grow by at most the margin from now on; the limit in words.

    The kernel then refuses a larger allocation, and the allocator says so: evidence, not a guess.
    """
    import resource

    now = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        if line.startswith("VmData:")
    )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (now + margin_bytes, hard))
    return f"RLIMIT_DATA, set after loading with a margin of {margin_bytes} bytes"


class CudaCounters:
    """torch's allocator counters of some cards; `reset` sets the peaks to what is in use now."""

    def __init__(self, cuda: Any, indices: tuple[int, ...]) -> None:
        self._cuda = cuda
        self.indices = indices

    def reset(self) -> None:
        for index in self.indices:
            self._cuda.reset_peak_memory_stats(index)

    def sample(self) -> dict[str, int]:
        return self._read("current")

    def peaks(self) -> dict[str, int]:
        """The values of `torch.cuda.max_memory_allocated` and `max_memory_reserved`."""
        return self._read("peak")

    def _read(self, which: str) -> dict[str, int]:
        """Both counters of a card from one look: they are of the same moment, and it costs the least (the
        flattened `memory_stats` would be built and sorted for each, while the pass wants the interpreter)."""
        values = {}
        for index in self.indices:
            stats = self._cuda.memory_stats_as_nested_dict(index)
            for kind in _NAMES:
                values[f"{kind}:{index}"] = int(stats[f"{kind}_bytes"]["all"][which])
        return values

    def retries(self, index: int) -> dict[str, int]:
        """How often so far the allocator asked the driver for memory, and emptied its cache because none was left."""
        stats = self._cuda.memory_stats_as_nested_dict(index)
        return {name: int(stats[key]) for name, key in _STALLS.items() if key in stats}

    def given_back(self, index: int) -> int:
        """How often so far the allocator emptied its cache because the card was full."""
        return self.retries(index).get("allocator_retries", 0)

    def capacity(self, index: int) -> int:
        return int(self._cuda.get_device_properties(index).total_memory)

    def used(self, index: int) -> int | None:
        """Bytes in use on the whole card, by whomever; None where the driver does not tell (or is in error)."""
        try:
            free, total = self._cuda.mem_get_info(index)
        except Exception:  # after an error of the card every question fails: the error is told elsewhere
            return None
        return int(total) - int(free)


@dataclass
class Timeline:
    """Samples of all counters, seconds since the pass began."""

    interval_seconds: float
    samples: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def time_of_largest(self, counter: str) -> float | None:
        """When the largest sample of this counter was taken; None without samples."""
        taken = [(values[counter], -at) for at, values in self.samples if counter in values]
        return -max(taken)[1] if taken else None

    def largest(self, counter: str) -> int | None:
        return max((values[counter] for _, values in self.samples if counter in values), default=None)

    def as_json(self) -> dict[str, object]:
        return {
            "schema_version": "memory-timeline/1",
            "interval_seconds": self.interval_seconds,
            "samples": [[round(at, 6), values] for at, values in self.samples],
        }


class Sampler:
    """Reads counters at an interval into a time line."""

    def __init__(
        self, interval_seconds: float, read: Callable[[], dict[str, int]], now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._read = read
        self._now_ns = now_ns
        self._start_ns = 0
        self._repeater = Repeater("memory", interval_seconds, self._sample)
        self.timeline = Timeline(interval_seconds)

    def start(self) -> None:
        """First sample now; call right before the pass starts."""
        self._start_ns = self._now_ns()
        self._repeater.start()

    def stop(self) -> Timeline:
        """Last sample now, after the pass."""
        self._repeater.stop()
        return self.timeline

    def _sample(self) -> None:
        self.timeline.samples.append(((self._now_ns() - self._start_ns) / 1e9, self._read()))


class PassMemory:
    """Watches one pass: `start` resets and begins sampling, `stop` gives the peaks as record fields."""

    def __init__(
        self, interval_seconds: float, host: str, host_capacity: int | None, cuda: CudaCounters | None
    ) -> None:
        self._host = host
        self._host_capacity = host_capacity
        self._cuda = cuda
        self._sampler = Sampler(interval_seconds, self._read)
        self._no_reset: str | None = None
        self._loading: list[dict[str, object]] = []
        self._retried: dict[int, int] = {}  # so often until now did the allocator give memory back, by card

    def _read(self) -> dict[str, int]:
        values = {RSS: resident_bytes()}
        if self._cuda is not None:
            values |= self._cuda.sample()
        return values

    def start(self) -> None:
        self._loading = self._peaks_before()
        self._no_reset = reset_peak_resident()
        if self._cuda is not None:
            self._cuda.reset()
            self._retried = {index: self._cuda.given_back(index) for index in self._cuda.indices}
        self._sampler.start()

    def stop(self) -> tuple[Timeline, list[dict[str, object]]]:
        cuda_peaks = {} if self._cuda is None else self._cuda.peaks()
        high_water = peak_resident_bytes() if self._no_reset is None else None
        timeline = self._sampler.stop()
        peaks = [self._resident(timeline, high_water)]
        if self._cuda is not None:
            peaks.extend(device_peaks(self._cuda, cuda_peaks, timeline))
            peaks.extend(whole_cards(self._cuda, self._retried))
        return timeline, peaks + self._loading

    def _peaks_before(self) -> list[dict[str, object]]:
        """Peaks up to now, under names of their own: loading never counts as the pass's (ME-01).

        Without a high-water mark of the kernel only the whole life of the process is known, which the row has anyway.
        """
        untimed: dict[str, object] = {"at_seconds": None, "reason": "the counter has no time"}
        found: list[dict[str, object]] = []
        high_water = peak_resident_bytes()
        if high_water is not None:
            found.append({
                "device": self._host, "counter": f"VmHWM {BEFORE}", "bytes": high_water,
                "scope": f"resident memory, {THIS_PROCESS}, {_LOADING}", "capacity_bytes": self._host_capacity,
            } | untimed)  # fmt: skip
        if self._cuda is not None:
            peaks = self._cuda.peaks()
            found.extend({
                "device": f"cuda:{index}", "counter": f"{counter} {BEFORE}", "bytes": peaks[f"{kind}:{index}"],
                "scope": f"{_WORDS[kind]}, {THIS_PROCESS}, {_LOADING}", "capacity_bytes": self._cuda.capacity(index),
            } | untimed for index in self._cuda.indices for kind, counter in _NAMES.items())  # fmt: skip
        return found

    def _resident(self, timeline: Timeline, high_water: int | None) -> dict[str, object]:
        common: dict[str, object] = {
            "device": self._host,
            "capacity_bytes": self._host_capacity,
            "at_seconds": timeline.time_of_largest(RSS),
        }
        if high_water is not None:
            since = "high-water mark reset before the pass; time of the largest sample"
            scope = f"resident memory, {THIS_PROCESS}, {since}"
            return common | {"counter": "VmHWM", "scope": scope, "bytes": high_water, "reason": None}
        scope = f"resident memory, {THIS_PROCESS}, largest sample of the pass; {self._no_reset}"
        return common | {"counter": "statm resident", "scope": scope, "bytes": timeline.largest(RSS), "reason": None}


def device_peaks(counters: CudaCounters, peaks: Mapping[str, int], timeline: Timeline) -> list[dict[str, object]]:
    """One peak per card and counter. Allocated lies inside reserved: the card's need is `reserved` (ME-02)."""
    found = []
    for index in counters.indices:
        if peaks[f"allocated:{index}"] > peaks[f"reserved:{index}"]:
            raise ValueError(f"card {index}: allocated is larger than reserved, the counters are not consistent")
        for kind, counter in _NAMES.items():
            found.append(
                {
                    "device": f"cuda:{index}",
                    "counter": counter,
                    "bytes": peaks[f"{kind}:{index}"],
                    "reason": None,
                    "scope": f"{_WORDS[kind]}, {THIS_PROCESS}, reset before the pass; time of the largest sample",
                    "at_seconds": timeline.time_of_largest(f"{kind}:{index}"),
                    "capacity_bytes": counters.capacity(index),
                }
            )
    return found


def whole_cards(counters: CudaCounters, retried_before: Mapping[int, int]) -> list[dict[str, object]]:
    """What an attempt takes of a card beside its tensors: the driver's context and the libraries' memory too.

    torch's counters know nothing of these. Its allocator gives nothing back within a pass, so one look after it tells;
    only where memory ran short it emptied its cache and tried again, and that look may be less than the most.
    """
    found: list[dict[str, object]] = []
    for index in counters.indices:
        used = counters.used(index)
        if used is not None:
            retries = counters.given_back(index) - retried_before.get(index, 0)
            less = f"; memory was given back in the pass, times: {retries}, it may have been more" if retries else ""
            found.append({
                "device": f"cuda:{index}", "counter": "torch.cuda.mem_get_info", "bytes": used,
                "reason": f"the counter has no time{less}", "scope": _WHOLE_CARD, "at_seconds": None,
                "capacity_bytes": counters.capacity(index),
            })  # fmt: skip
    return found
