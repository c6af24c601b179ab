"""Run one worker and find out what became of it. The parent blocks and uses no CPU meanwhile.

The child holds the write end of a pipe; when it is gone, however it went, the read end reports it.
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
from typing import Any

from runner.errors import InputRefused
from runner.evidence.canonical import loads_strict
from runner.measure.job import Job
from runner.measure.memory import peak_rss_bytes
from runner.measure.oom import OomCounters

WORKER = (sys.executable, "-m", "runner.measure.worker")
_CHECK_SECONDS = 5.0
_TICK_SECONDS = 1.0
_STDERR_BYTES = 4000


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
    """How a worker ended. Exactly one of exit code and signal number is set."""

    exit_code: int | None
    signal_number: int | None
    timed_out: bool
    stopped_by: str | None
    elapsed_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    oom_evidence: str | None
    result: Mapping[str, Any] | None
    stderr_tail: str

    @property
    def signal_name(self) -> str | None:
        return None if self.signal_number is None else signal.Signals(self.signal_number).name


def run_worker(
    job: Job,
    *,
    environment: Mapping[str, str],
    timeout_seconds: float,
    stop: StopRequest,
    tick: Callable[[], None] | None = None,
    command: Sequence[str] = WORKER,
) -> ChildEnd:
    """Start the worker, wait blocking, end it on timeout or stop. `tick` is called about once a second."""
    job_file, stderr_file = Path(job.result).with_suffix(".job"), Path(job.result).with_suffix(".stderr")
    job_file.write_bytes(job.dump())
    oom = OomCounters.read()
    start = time.monotonic()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        with stderr_file.open("wb") as stderr:
            child = subprocess.Popen(
                [*command, str(job_file)],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env=dict(environment),
                pass_fds=(write_end,),
                start_new_session=True,
            )
        os.close(write_end)
        timed_out, stopped_by = _ended(child, read_end, start + timeout_seconds, stop, tick)
    finally:
        os.close(read_end)
    if timed_out or stopped_by:
        _kill_group(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    elapsed = time.monotonic() - start
    _kill_group(child.pid)  # processes that it left behind, while its id cannot be another's yet
    _, status, usage = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    child.returncode = code
    end = ChildEnd(
        exit_code=code if code >= 0 else None,
        signal_number=-code if code < 0 else None,
        timed_out=timed_out,
        stopped_by=stopped_by,
        elapsed_seconds=elapsed,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_rss_bytes=peak_rss_bytes(usage.ru_maxrss, sys.platform),
        oom_evidence=OomCounters.read().evidence_since(oom),
        result=None if timed_out or stopped_by else _read_result(Path(job.result)),
        stderr_tail=_tail(stderr_file),
    )
    for file in (job_file, stderr_file, Path(job.result)):
        file.unlink(missing_ok=True)
    return end


def _ended(
    child: subprocess.Popen[bytes],
    alive: int,
    deadline: float,
    stop: StopRequest,
    tick: Callable[[], None] | None,
) -> tuple[bool, str | None]:
    """`_wait`, and no worker goes on behind an error of this process."""
    try:
        return _wait(child, alive, deadline, stop, tick)
    except BaseException:
        _kill_group(child.pid)
        child.wait()
        raise


def _wait(
    child: subprocess.Popen[bytes],
    alive: int,
    deadline: float,
    stop: StopRequest,
    tick: Callable[[], None] | None,
) -> tuple[bool, str | None]:
    """Until the child is gone, its time is over, or a stop was asked for: (timed out, stopped by)."""
    poller = select.poll()
    poller.register(alive, select.POLLIN)
    poller.register(stop.descriptor, select.POLLIN)
    longest = _TICK_SECONDS if tick else _CHECK_SECONDS
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return True, None
        ready = poller.poll(min(left, longest) * 1000)
        if stop.name is not None:
            return False, stop.name
        # A grandchild may hold the pipe open after the child's end: look at the child itself too.
        if any(descriptor == alive for descriptor, _ in ready) or _has_ended(child.pid):
            return False, None
        if tick:
            tick()


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _read_result(path: Path) -> Mapping[str, Any] | None:
    """The worker's result; None when it wrote none or only half of it."""
    try:
        value = loads_strict(path.read_bytes(), file=path)
    except (FileNotFoundError, InputRefused):
        return None
    return value if isinstance(value, dict) else None


def _tail(path: Path) -> str:
    """The end of what the worker printed; a chatty program of the user's may have printed a lot."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _STDERR_BYTES))
            return stream.read(_STDERR_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
