"""Processes of an attempt beside its worker: ranks, loaders, a program of the user's, and what those started (M23).

Ranks have sessions of their own, and whatever loses its parent would become a child of the system's first process:
no group holds them all. So this process adopts the orphans of the attempt (Linux: child subreaper), ends
them when the worker has ended, and waits: a process that a driver holds may still hold the card.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_SOON_SECONDS, _PAUSE_SECONDS = 0.001, 0.1
_STATES = {"D": "the kernel or a driver holds it", "Z": "ended, but another process holds it"}


class Leftovers:
    """From before the start of a worker: whatever this process has not started itself comes from the attempt."""

    def __init__(self) -> None:
        self._before = set(_family())
        self._adopted_before = _adopts(True)
        self.cpu_seconds = 0.0

    def end(self, worker: int, seconds: float) -> str | None:
        """Kill them and wait, `seconds` at most; in words if one has not ended. Once, after the worker's end.

        `cpu_seconds`: what those used that had no other parent left.
        """
        deadline, pause = time.monotonic() + seconds, _SOON_SECONDS
        try:
            while True:
                left = [pid for pid in self._strangers(worker) if not self._has_ended(pid)]
                if not left:
                    return None
                if time.monotonic() >= deadline:
                    return not_ended(left[0], seconds)
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS)
        finally:
            if not self._adopted_before:
                _adopts(False)

    def _strangers(self, worker: int) -> list[int]:
        """Descendants of this process in other sessions that came after the start of the worker; without it."""
        family = _family()
        return [
            pid for pid, session in family.items()
            if pid != worker and pid not in self._before and session != os.getsid(0)
        ]  # fmt: skip

    def _has_ended(self, pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        try:
            ended, _, used = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:  # it is gone, or a parent that has not ended yet has not looked at its end
            return _stat(pid)[:1] in ([], ["Z"]) and len(_threads(pid)) <= 1
        if ended:
            self.cpu_seconds += used.ru_utime + used.ru_stime
        return ended != 0


def not_ended(pid: int, seconds: float) -> str:
    """A process that SIGKILL has not ended, with the kernel's word for its state."""
    state = _stat(pid)[:1]
    told = f" (state {state[0]}: {_STATES.get(state[0], 'see man proc')})" if state else ""
    return f"SIGKILL did not end process {pid} within {seconds:.0f} s{told}"


def used_so_far(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended; 0 where the kernel does not tell."""
    return sum(int(ticks) for ticks in _stat(pid)[11:15]) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Fields of `/proc/PID/stat` from the state on. Of all files there this one never waits for the process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - only their number is needed
    except OSError:
        return []


def _family() -> dict[int, int]:
    """Session by id of every process that descends from this one; nothing where there is no `/proc`."""
    parents: dict[int, int] = {}
    sessions: dict[int, int] = {}
    for pid in _ids():
        fields = _stat(pid)
        if len(fields) > 3:
            parents[pid], sessions[pid] = int(fields[1]), int(fields[3])
    return {pid: sessions[pid] for pid in parents if _descends(pid, parents)}


def _descends(pid: int, parents: dict[int, int]) -> bool:
    """The ids are not of one moment: a circle is nobody's child."""
    own, seen = os.getpid(), {pid}
    while (pid := parents.get(pid, 0)) not in seen:
        if pid == own:
            return True
        seen.add(pid)
    return False


def _ids() -> Iterator[int]:
    try:
        yield from (int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208 - only names are needed
    except OSError:
        return


def _adopts(orphans: bool) -> bool:
    """Whether this process adopted the orphans of its descendants until now; from now on it does as said."""
    if sys.platform != "linux":
        return False
    process, before = ctypes.CDLL(None, use_errno=True), ctypes.c_int(0)
    process.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    process.prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)
    return bool(before.value)
