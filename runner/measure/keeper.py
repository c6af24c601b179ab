"""Process policy `kept`, side of the parent: one worker process serves attempts in turn.

An order goes to the worker's standard input, a line per attempt; on the pipe that tells of its end it
reports the end of each. Only after a completed attempt, and only if the worker finds itself as it was
(`kept`), is the process used again. Anything else ends it, and the next attempt gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.evidence.attempt import WorkerProcess
from runner.measure.job import Job
from runner.measure.oom import OomCounters
from runner.measure.supervisor import Child, ChildEnd, JobFiles, StopRequest, Woken, child_end

KEPT = "--kept"
NOT_KEPT = "the process was ended after this attempt: "


@dataclass
class _Running:
    """The process that is kept: its child, the write end of its orders, who it is, what it has used."""

    child: Child
    orders: int
    first_attempt: str
    started_at_utc: str
    served: int = 0
    cpu_seconds: float = 0.0


class Keeper:
    """At most one process at a time. `serving` says who will run an attempt, `run` lets it run."""

    def __init__(self) -> None:
        self._running: _Running | None = None

    def serving(self, attempt_id: str, now_utc: str) -> WorkerProcess:
        """The process that the attempt will get: the kept one if it still lives, else a new one."""
        running = self._running
        if running is not None and running.child.has_ended():
            self.end()  # killed between two attempts: nothing was running in it
            running = None
        if running is None:
            return WorkerProcess(first_attempt=attempt_id, started_at_utc=now_utc, served_before=0)
        return WorkerProcess(
            first_attempt=running.first_attempt, started_at_utc=running.started_at_utc, served_before=running.served
        )

    def run(
        self,
        job: Job,
        process: WorkerProcess,
        *,
        environment: Mapping[str, str],
        timeout_seconds: float,
        stop: StopRequest,
        tick: Callable[[], None] | None,
        command: Sequence[str],
    ) -> ChildEnd:
        """Hand the attempt over and wait blocking; `process` is what `serving` said."""
        files, oom = JobFiles(job), OomCounters.read()
        start = time.monotonic()
        if process.served_before == 0:
            self._running = _start(job, process, [*command, KEPT], environment, files)
        running = self._running
        assert running is not None and running.first_attempt == process.first_attempt
        order = {"job": str(files.job), "reports": running.child.report_end}
        # Where it has ended meanwhile, the wait finds out.
        with contextlib.suppress(BrokenPipeError):
            os.write(running.orders, json.dumps(order).encode() + b"\n")
        try:
            woken = running.child.wait(start + timeout_seconds, stop, tick)
        except BaseException:
            self._forget()
            raise
        report = _report(woken)
        if report is None:
            self._forget()
            return child_end(running.child, woken, files, start, oom, running.cpu_seconds)
        peak, why = running.child.own_peak(int(report["peak_rss_bytes"]))
        end = ChildEnd(
            exit_code=None, signal_number=None, timed_out=False, stopped_by=None,
            elapsed_seconds=time.monotonic() - start,
            cpu_seconds=float(report["cpu_seconds"]) - running.cpu_seconds,
            peak_rss_bytes=peak, peak_reason=why,
            oom_evidence=OomCounters.read().evidence_since(oom),
            result=files.read_result(), stderr_tail=files.tail(), reported=True,
            note=None if report["problem"] is None else f"{NOT_KEPT}{report['problem']}",
        )  # fmt: skip
        files.remove()
        running.served += 1
        running.cpu_seconds = float(report["cpu_seconds"])
        return end if report["problem"] is None else replace(end, stuck=self.end())

    def end(self) -> str | None:
        """End the kept process, if there is one: between attempts it has nothing to lose. Words: it did not end."""
        running = self._running
        if running is None:
            return None
        self._forget()
        return running.child.end()

    def _forget(self) -> None:
        if self._running is not None:
            os.close(self._running.orders)
            self._running = None


def _start(
    job: Job, process: WorkerProcess, command: Sequence[str], environment: Mapping[str, str], files: JobFiles
) -> _Running:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        child = Child(command, environment, files.stderr, stdin=read_end)
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    return _Running(child, write_end, process.first_attempt, process.started_at_utc)


def _report(woken: Woken) -> dict[str, Any] | None:
    """What the worker said at the end of an attempt; None when the process ended, or has to be ended, with it."""
    if woken.timed_out or woken.stopped_by is not None or not woken.said:
        return None
    value = json.loads(woken.said)
    return value if isinstance(value, dict) else None
