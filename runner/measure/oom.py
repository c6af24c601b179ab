"""Kernel counters that prove an out-of-memory kill; without one, a SIGKILL has no known cause (RE-01)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class OomCounters:
    """Counts of kills: of this control group, and of the whole machine. None: cannot be read."""

    group: int | None
    machine: int | None

    @classmethod
    def read(cls) -> OomCounters:
        return cls(_group_kills(), _value(Path("/proc/vmstat"), "oom_kill"))

    def evidence_since(self, before: OomCounters) -> str | None:
        """In words, or None: the group's own counter is the stronger proof."""
        for now, then, name in (
            (self.group, before.group, "the control group's counter oom_kill"),
            (self.machine, before.machine, "the kernel's counter oom_kill (whole machine)"),
        ):
            if now is not None and then is not None and now > then:
                return f"{name} rose by {now - then} while the worker ran"
        return None


def _group_kills() -> int | None:
    """`oom_kill` of this process's memory control group, version 2 or 1."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            file = _CGROUP_ROOT / path.lstrip("/") / "memory.events"
        elif "memory" in controllers.split(","):
            file = _CGROUP_ROOT / "memory" / path.lstrip("/") / "memory.oom_control"
        else:
            continue
        count = _value(file, "oom_kill")
        if count is not None:
            return count
    return None


def _value(file: Path, name: str) -> int | None:
    try:
        for line in file.read_text(encoding="ascii").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    except (OSError, ValueError):
        return None
    return None
