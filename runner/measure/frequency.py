"""Clock of the processors during a pass, read at a low rate: a throttled or idling-down host shows here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from runner.measure.repeat import Repeater

_INTERVAL_SECONDS = 1.0
_MOST_CPUS = 8  # a sample of the usable ones: reading each of hundreds would disturb what is measured
_SYSFS = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
NO_FREQUENCY = "neither cpufreq nor /proc/cpuinfo tells a clock here"


def read_megahertz(cpus: list[int], sysfs: Path = _SYSFS, cpuinfo: Path = _CPUINFO) -> list[float]:
    """Clock of each of these processors that tells one, in MHz."""
    found = []
    for cpu in cpus:
        try:
            kilohertz = int((sysfs / f"cpu{cpu}" / "cpufreq" / "scaling_cur_freq").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        found.append(kilohertz / 1000)
    return found or _from_cpuinfo(set(cpus), cpuinfo)


def _from_cpuinfo(cpus: set[int], cpuinfo: Path) -> list[float]:
    try:
        lines = cpuinfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    found, current = [], -1
    for line in lines:
        name, _, value = line.partition(":")
        try:
            if name.strip() == "processor":
                current = int(value)
            elif name.strip() == "cpu MHz" and current in cpus:
                found.append(float(value))
        except ValueError:
            continue
    return found


def usable_cpus() -> list[int]:
    """Some of the processors that this process may use, spread over all of them."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    step = -(-len(cpus) // _MOST_CPUS)
    return cpus[::step]


class FrequencySampler:
    """Samples at the start of a pass, every second, and at its end."""

    def __init__(self, read: Callable[[list[int]], list[float]] = read_megahertz) -> None:
        self._read = read
        self._cpus = usable_cpus()
        self._seen: list[list[float]] = []
        self._repeater = Repeater("frequency", _INTERVAL_SECONDS, self._sample)

    def start(self) -> None:
        self._repeater.start()

    def stop(self) -> None:
        self._repeater.stop()

    def _sample(self) -> None:
        self._seen.append(self._read(self._cpus))

    def summary(self) -> tuple[dict[str, float | None], dict[str, str]]:
        """Values in MHz over all samples and processors, and why there are none."""
        every = [value for sample in self._seen for value in sample]
        names = ("cpu_mhz_min", "cpu_mhz_mean", "cpu_mhz_max")
        if not every:
            return dict.fromkeys(names), dict.fromkeys(names, NO_FREQUENCY)
        values = (min(every), sum(every) / len(every), max(every))
        return dict(zip(names, (round(value, 1) for value in values), strict=True)), {}
