"""Run one worker and find out what became of it. The parent blocks and uses no CPU meanwhile.

The child holds the write end of a pipe; when it is gone, however it went, the read end reports it.
A process that serves several attempts (`keeper`) says on the same pipe that one of them has ended.
Ctrl-C, SIGTERM and SIGHUP never raise in the middle of something: they set a flag and wake the wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from runner.errors import InputRefused, NotAccepted
from runner.evidence.canonical import loads_strict
from runner.measure.job import Job
from runner.measure.leftovers import Leftovers, not_ended, used_so_far
from runner.measure.memory import peak_resident_bytes, peak_rss_bytes
from runner.measure.oom import OomCounters

WORKER = (sys.executable, "-m", "runner.measure.worker")
_CHECK_SECONDS = 5.0
_SOON_SECONDS = 0.001
_OWN_WORD_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_TICK_SECONDS = 1.0
_STDERR_BYTES = 4000
_REPORT_BYTES = select.PIPE_BUF  # what is written at once arrives at once
END_SECONDS = 60.0
"""How long a killed process may take to end: a driver gives back a full card within seconds."""
NOT_TOLD = "told when a process has ended: it has not"
NOT_ITS_OWN = "not above what the process that started it had held, which the kernel counts too"


class StopRequest:
    """Set by SIGINT, SIGTERM or SIGHUP while `listening`; `name` says which."""

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.name: str | None = None
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    @property
    def descriptor(self) -> int:
        """Becomes readable when a stop was asked for."""
        return self._read

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopRequest]:
        # What is ignored stays so: `nohup runner measure` has to survive the end of the connection.
        heard = [number for number in self._SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in heard}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class ChildEnd:
    """How the attempt of a worker ended.

    Exactly one of exit code and signal number is set; none of them if the worker said that the attempt has
    ended and goes on (`reported`), or if not even SIGKILL has ended it: `stuck` says so in words.
    `note`: what the row has to say about its process. `peak_rss_bytes` None: the kernel did not tell, for
    `peak_reason`. `lost`: ended because others of the attempt could not go on. `left`: in words, another process of
    the attempt that not even SIGKILL has ended.
    """

    exit_code: int | None
    signal_number: int | None
    timed_out: bool
    stopped_by: str | None
    elapsed_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int | None
    oom_evidence: str | None
    result: Mapping[str, Any] | None
    stderr_tail: str
    reported: bool = False
    note: str | None = None
    stuck: str | None = None
    left: str | None = None
    lost: str | None = None
    peak_reason: str | None = None

    @property
    def signal_name(self) -> str | None:
        return None if self.signal_number is None else signal.Signals(self.signal_number).name


@dataclass(frozen=True)
class Usage:
    """Processor seconds of a process and its children; largest resident memory of any of them, or why it is unknown."""

    cpu_seconds: float
    peak_rss_bytes: int | None
    reason: str | None = None


@dataclass(frozen=True)
class Reaped:
    """A process that is over: exit code, or minus the number of the signal. `stuck`: it is not, in words.

    `left`: the same of another process of the attempt."""

    code: int | None
    usage: Usage
    stuck: str | None = None
    left: str | None = None


class JobFiles:
    """What parent and worker hand to each other for the length of one attempt."""

    def __init__(self, job: Job) -> None:
        self.result = Path(job.result)
        self.job = self.result.with_suffix(".job")
        self.stderr = self.result.with_suffix(".stderr")
        self.job.write_bytes(job.dump())

    def read_result(self) -> Mapping[str, Any] | None:
        """The worker's result; None when it wrote none or only half of it."""
        try:
            value = loads_strict(self.result.read_bytes(), file=self.result)
        except (FileNotFoundError, InputRefused):
            return None
        return value if isinstance(value, dict) else None

    def tail(self) -> str:
        """The end of what the worker printed; a chatty program of the user's may have printed a lot."""
        try:
            with self.stderr.open("rb") as stream:
                stream.seek(max(0, self.stderr.stat().st_size - _STDERR_BYTES))
                return stream.read(_STDERR_BYTES).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""

    def remove(self) -> None:
        for file in (self.job, self.stderr, self.result):
            file.unlink(missing_ok=True)


class Watch(Protocol):
    """What others say while a child runs, such as the further nodes of an attempt."""

    def descriptors(self) -> Sequence[int]:
        """Those that become readable when there is something to hear."""

    def heard(self) -> str | None:
        """Takes it; in words why the attempt cannot go on, if so."""


@dataclass(frozen=True)
class Woken:
    """Why the wait for a child is over; all empty: the child has ended. `lost`: the others' word, see `Watch`."""

    timed_out: bool = False
    lost: str | None = None
    stopped_by: str | None = None
    said: bytes = b""


class Child:
    """A worker process in a session of its own, and the pipe that tells of it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], stderr_file: Path, stdin: int = subprocess.DEVNULL
    ) -> None:
        self._alive, self.report_end = os.pipe2(os.O_CLOEXEC)
        self._others = Leftovers()
        try:
            with stderr_file.open("wb") as stderr:
                self._process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=stderr,
                    stderr=stderr,
                    env=dict(environment),
                    pass_fds=(self.report_end,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(self.report_end)
        # Until it is another program, the child has this process's memory: Linux counts that into its `ru_maxrss`.
        self._held_by_us = (peak_resident_bytes() or 0) if sys.platform == "linux" else 0

    def own_peak(self, ru_maxrss_bytes: int) -> tuple[int | None, str | None]:
        """Largest resident memory of the worker; None with the reason where it may be this process's own."""
        if ru_maxrss_bytes <= self._held_by_us:
            return None, NOT_ITS_OWN
        return ru_maxrss_bytes, None

    def wait(
        self, deadline: float, stop: StopRequest, tick: Callable[[], None] | None, watch: Watch | None = None
    ) -> Woken:
        """Until it says something or is gone, its time is over, a stop was asked for, or the others cannot go on.

        In the last case it has some seconds to find that out itself: its own error says more.
        No worker goes on behind an error of this process.
        """
        poller = select.poll()
        poller.register(self._alive, select.POLLIN)
        poller.register(stop.descriptor, select.POLLIN)
        longest = _TICK_SECONDS if tick else _CHECK_SECONDS
        listened: set[int] = set()
        soon: float | None = None
        lost: str | None = None
        try:
            while True:
                if watch is not None and lost is None:
                    lost = watch.heard()
                    if lost is not None:
                        deadline = min(deadline, time.monotonic() + _OWN_WORD_SECONDS)
                left = deadline - time.monotonic()
                if left <= 0:
                    return Woken(timed_out=lost is None, lost=lost)
                heard = set() if watch is None or lost is not None else set(watch.descriptors())
                for descriptor in listened - heard:
                    poller.unregister(descriptor)
                for descriptor in heard - listened:
                    poller.register(descriptor, select.POLLIN)
                listened = heard
                ready = poller.poll(min(left, longest if soon is None else soon) * 1000)
                if stop.name is not None:
                    return Woken(stopped_by=stop.name)
                if any(descriptor == self._alive for descriptor, _ in ready):
                    said = os.read(self._alive, _REPORT_BYTES)
                    if said:
                        return Woken(said=said)
                    # It has closed the pipe: it ends, or a library of it closes whatever is open. Its time goes on.
                    poller.unregister(self._alive)
                    soon = _SOON_SECONDS
                # A grandchild may hold the pipe open after the child's end: look at the child itself too.
                if self.has_ended():
                    return Woken()
                soon = None if soon is None else min(2 * soon, longest)
                if tick:
                    tick()
        except BaseException:
            self.end()
            raise

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """It and all processes that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def reap(self) -> Reaped:
        """Wait for its end, `END_SECONDS` at most: SIGKILL waits too while a driver holds the process. Once.

        What else is left of the attempt is ended and waited for as long again.
        """
        pid = self._process.pid
        ended = self._ends_within(END_SECONDS)
        self.kill()  # processes that it left behind, while its id cannot be another's yet
        os.close(self._alive)
        stuck = None if ended else not_ended(pid, END_SECONDS)
        left = self._others.end(pid, END_SECONDS)
        if stuck is not None:
            self._process.returncode = -signal.SIGKILL  # Popen asks no more
            return Reaped(None, Usage(used_so_far(pid), None, NOT_TOLD), stuck, left)
        _, status, used = os.wait4(pid, 0)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime + self._others.cpu_seconds
        return Reaped(code, Usage(seconds, *self.own_peak(peak_rss_bytes(used.ru_maxrss, sys.platform))), left=left)

    def _ends_within(self, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, _SOON_SECONDS
        while not self.has_ended():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS)
        return True

    def end(self) -> str | None:
        """Kill it and wait; in words if it did not end."""
        self.kill()
        reaped = self.reap()
        return reaped.stuck or reaped.left


def refuse_beside(stuck: str | None) -> None:
    """A process that not even SIGKILL has ended may hold its device: no attempt beside it could be trusted (M23)."""
    if stuck is not None:
        raise NotAccepted(
            "no further attempt is made: a process of the last attempt cannot be ended and may still hold the device",
            details=(stuck,),
            next_step="restart the machine, then run the same command again: it goes on with what is missing",
        )


def run_worker(
    job: Job,
    *,
    environment: Mapping[str, str],
    timeout_seconds: float,
    stop: StopRequest,
    tick: Callable[[], None] | None = None,
    command: Sequence[str] = WORKER,
    watch: Watch | None = None,
) -> ChildEnd:
    """Start the worker, wait blocking, end it on timeout or stop. `tick` is called about once a second."""
    files, oom = JobFiles(job), OomCounters.read()
    start = time.monotonic()
    child = Child([*command, str(files.job)], environment, files.stderr)
    woken = child.wait(start + timeout_seconds, stop, tick, watch)
    return child_end(child, woken, files, start, oom)


def child_end(
    child: Child, woken: Woken, files: JobFiles, start: float, oom: OomCounters, cpu_seconds_before: float = 0.0
) -> ChildEnd:
    """The end of an attempt that ends its process; `start` (seconds, monotonic) and `oom` are from before it."""
    ended = woken.timed_out or woken.stopped_by is not None or woken.lost is not None
    if ended:
        child.kill()
    reaped = child.reap()
    code, usage = reaped.code, reaped.usage
    end = ChildEnd(
        exit_code=code if code is not None and code >= 0 else None,
        signal_number=-code if code is not None and code < 0 else None,
        timed_out=woken.timed_out,
        stopped_by=woken.stopped_by,
        elapsed_seconds=time.monotonic() - start,
        cpu_seconds=usage.cpu_seconds - cpu_seconds_before,
        peak_rss_bytes=usage.peak_rss_bytes,
        oom_evidence=OomCounters.read().evidence_since(oom),
        result=None if ended else files.read_result(),
        stderr_tail=files.tail(),
        stuck=reaped.stuck,
        left=reaped.left,
        lost=woken.lost,
        peak_reason=usage.reason,
    )
    files.remove()
    return end
