"""Kernel counters that prove an out-of-memory kill; without one, a SIGKILL has no known cause (RE-01)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.measure.cgroups import ControlGroups, read_key


@dataclass(frozen=True)
class OomCounters:
    """Counts of kills: of this control group, and of the whole machine. None: cannot be read."""

    group: int | None
    machine: int | None

    @classmethod
    def read(cls) -> OomCounters:
        return cls(ControlGroups().oom_kills(), read_key(Path("/proc/vmstat"), "oom_kill"))

    def evidence_since(self, before: OomCounters) -> str | None:
        """In words, or None: the group's own counter is the stronger proof."""
        for now, then, name in (
            (self.group, before.group, "the control group's counter oom_kill"),
            (self.machine, before.machine, "the kernel's counter oom_kill (whole machine)"),
        ):
            if now is not None and then is not None and now > then:
                return f"{name} rose by {now - then} while the worker ran"
        return None
