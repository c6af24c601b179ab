"""Proof of out of memory: what an error says itself, and the kernel's counters of kills (RE-01).

Without proof a failed attempt is `failed`, and a SIGKILL has no known cause.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.measure.cgroups import ControlGroups, read_key

# How drivers and libraries word it: CUDA and HIP through torch, Triton's launcher, NCCL and RCCL.
_SAID = re.compile(
    r"(?:CUDA|HIP) error: out of memory|Triton Error \[(?:CUDA|HIP)\]: out of memory"
    r"|(?:Cuda|HIP) failure (?:\d+ )?'out of memory'"
)
_LIBRARY = re.compile(r"(?:CUBLAS|HIPBLAS|CUSPARSE|CUDNN|MIOPEN)_STATUS_ALLOC_FAILED")
# A library that fails to allocate says the same after other errors of a card: proof is that little was left.
_LITTLE_BYTES = 256 << 20


def memory_evidence(error: BaseException) -> str | None:
    """What in this error, or in one that it wraps, proves that memory ran out; None without proof."""
    return next((found for one in _chain(error) if (found := _evidence(one)) is not None), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it wraps: `raise ... from`, and the compiler's `inner_exception`."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [getattr(one, "inner_exception", None), one.__cause__]


def _evidence(error: BaseException) -> str | None:
    name, text = type(error).__name__, str(error)
    if name == "OutOfMemoryError":
        return f"torch raised {name}"
    if isinstance(error, MemoryError):
        return "Python raised MemoryError"
    if "DefaultCPUAllocator" in text and "allocate" in text:
        return "torch's CPU allocator got no memory from the system"
    said = _SAID.search(text)
    if said is not None:
        return f"the driver answered: {said[0]}"
    library = _LIBRARY.search(text)
    free = None if library is None else _free_on_card()
    if library is not None and free is not None and free < _LITTLE_BYTES:
        return f"{library[0]}, with {free} bytes of the card free"
    return None


def _free_on_card() -> int | None:
    """Free bytes of the current card; None without one, or where it is in error."""
    torch: Any = sys.modules.get("torch")
    try:
        return int(torch.cuda.mem_get_info()[0])
    except Exception:  # no torch, no card, a card in error: no proof in any case
        return None


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
