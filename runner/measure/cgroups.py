"""Limits that a container sets: this process's control groups, version 2 or 1.

A limit of any group on the way up applies, so the smallest counts. Inside a container the path that the
kernel tells may be that of the host and not exist here; the mounted root is then the container's own group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Version 1 writes the largest multiple of a page for "no limit".
_NO_LIMIT_BYTES = 1 << 62


@dataclass(frozen=True)
class ControlGroups:
    """Where to look; tests bring a tree of their own."""

    root: Path = Path("/sys/fs/cgroup")
    table: Path = Path("/proc/self/cgroup")

    def folders(self, controller: str) -> Iterator[tuple[int, Path]]:
        """(version, folder) of this process's group of a controller, innermost first, up to the root."""
        for line in _lines(self.table):
            parts = line.split(":", 2)
            if len(parts) != 3:
                continue
            _, controllers, path = parts
            if controllers == "":
                yield from self._upwards(2, self.root, path)
            elif controller in controllers.split(","):
                yield from self._upwards(1, self.root / controller, path)

    @staticmethod
    def _upwards(version: int, root: Path, path: str) -> Iterator[tuple[int, Path]]:
        names = [name for name in path.split("/") if name not in ("", "..")]
        for count in range(len(names), -1, -1):
            yield version, root.joinpath(*names[:count])

    def cpu_limit_cores(self) -> float | None:
        """Processor cores that may be used on average; None without a limit that can be read."""
        return _smallest(self.folders("cpu"), _quota_cores)

    def memory_limit_bytes(self) -> int | None:
        """Bytes; None without a limit that can be read."""
        limit = _smallest(self.folders("memory"), _memory_bytes)
        return None if limit is None else int(limit)

    def throttled_seconds(self) -> float | None:
        """Time for which the processor quota has held this group back so far; None if nothing counts it."""
        for version, folder in self.folders("cpu"):
            name, per_second = ("throttled_usec", 1e6) if version == 2 else ("throttled_time", 1e9)
            value = read_key(folder / "cpu.stat", name)
            if value is not None:
                return value / per_second
        return None

    def oom_kills(self) -> int | None:
        """Processes of this group that the kernel has killed for memory so far."""
        for version, folder in self.folders("memory"):
            count = read_key(folder / ("memory.events" if version == 2 else "memory.oom_control"), "oom_kill")
            if count is not None:
                return count
        return None


def read_key(file: Path, name: str) -> int | None:
    """The number behind `name` in a file of lines `name number`."""
    for line in _lines(file):
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdecimal():
            return int(value)
    return None


def _smallest(folders: Iterator[tuple[int, Path]], read: Callable[[int, Path], float | None]) -> float | None:
    return min((value for version, folder in folders if (value := read(version, folder)) is not None), default=None)


def _quota_cores(version: int, folder: Path) -> float | None:
    if version == 2:
        words = _words(folder / "cpu.max")
    else:
        words = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # `max` or -1: no limit
    return int(words[0]) / int(words[1])


def _memory_bytes(version: int, folder: Path) -> float | None:
    words = _words(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
    if len(words) != 1 or not words[0].isdecimal() or int(words[0]) >= _NO_LIMIT_BYTES:
        return None
    return int(words[0])


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
