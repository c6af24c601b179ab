"""A real worker process around an engine without torch, for tests of the supervision.

`python light_worker.py JOB`. What it does is in the variant's `extra` settings: `sleep` seconds per
document, and after `at` documents one of `kill`, `segfault`, `exit`, `hang`, `raise`, `memory`, `nan`,
`eat` (all memory there is), `fork` (leave a child behind), `skip` (lose a document), `held` (hang, and let
another process hold it so that SIGKILL does not end it for its parent; its id goes to the file `holder`),
`closes` (close every descriptor of others, then go on), `orphan` (start a process in a session of its own, write its
id to the file `orphan`, then do what `then` says: `complete`, `exit` or `hang`).
`leave` is what it does not put back: `folder`, `child`, `thread`, `limit`, `variable`. `largest` MiB are used
while loading, `later` MiB after the pass.
`emulated-bf16` asks a faked card for bf16 while loading.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runner.measure.cards import CardConditions
from runner.measure.clocks import Device, HostDevice, Parts
from runner.measure.engines.base import Loaded
from runner.measure.engines.loading import refuse_precision
from runner.measure.job import Job
from runner.measure.memory import CudaCounters
from runner.measure.passes import Ledger, Work
from runner.measure.worker import main

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: the tests are not importable otherwise

from tests.measure.fake_cuda import FakeCuda


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


class LightEngine:
    """Says `pos` for every second text of the small campaign, which is right."""

    def __init__(self, job: Job) -> None:
        self._batch = job.settings["batch_size"]
        self._extra = job.settings["extra"]
        threads = job.settings["threads"] or 1
        left = os.environ.get("LEFT_BEHIND")
        self.loaded = Loaded(job.settings | {"threads": threads}, notes=(f"variable: {left}",) if left else ())

    def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
        for start in range(0, len(texts), self._batch):
            positions = list(range(start, min(start + self._batch, len(texts))))
            if start >= self._extra.get("at", len(texts)):
                positions = self._misbehave(positions)
            with parts.busy("inference"):
                time.sleep(self._extra.get("sleep", 0) * len(positions))
            outputs = np.array([[-2.0, 2.0] if at % 2 else [2.0, -2.0] for at in positions], dtype=np.float32)
            outputs = outputs.reshape(-1, 2)
            if self._extra.get("do") == "nan" and start >= self._extra["at"]:
                outputs[:] = np.nan
            work.lengths.extend([3] * len(positions))
            work.computed_tokens += 3 * len(positions)
            work.largest_batch = max(work.largest_batch, len(positions))
            ledger.add(positions, outputs)

    def _misbehave(self, positions: list[int]) -> list[int]:
        do = self._extra.get("do")
        if do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if do == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if do == "exit":
            sys.stderr.write("giving up\n")
            sys.stderr.flush()
            os._exit(7)
        if do == "hang":
            time.sleep(600)
        if do == "held":
            hold_this_process(Path(self._extra["holder"]))
            time.sleep(600)
        if do == "closes":
            os.closerange(3, 1024)  # as daemons do
            time.sleep(600)
        if do == "raise":
            raise RuntimeError("device-side assert")
        if do == "eat":
            eaten = []
            while True:
                eaten.append(b"x" * (1 << 20))
        if do == "memory":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if do == "orphan":
            leave_an_orphan(Path(self._extra["orphan"]))
            if self._extra["then"] == "hang":
                time.sleep(600)
            if self._extra["then"] == "exit":
                os._exit(9)
        if do == "fork":
            subprocess.Popen(["sleep", "600"], close_fds=False)
            os._exit(8)
        return positions[1:] if do == "skip" else positions

    def compile(self, texts: Sequence[str]) -> None:
        return None

    def warm_up(self, texts: Sequence[str], inputs: str, passes: int) -> None:
        return None

    def recompilations(self) -> tuple[int | None, str | None]:
        return 0, None

    def efficiency(self, work: Work, *, matrix_rate: bool) -> dict[str, float | str | None]:
        return {}

    def cut_tokens(self, texts: Sequence[str], lengths: Sequence[int]) -> tuple[int, int]:
        bytearray(self._extra.get("later", 0) << 20)
        return 0, 0


_HOLD = """
import ctypes, sys, time
status = ctypes.CDLL(None, use_errno=True).ptrace(0x4206, int(sys.argv[1]), 0, 0)  # PTRACE_SEIZE
print(status, flush=True)
time.sleep(600)
"""
_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)


def hold_this_process(holder: Path) -> None:
    """A tracer that never looks: the kernel shows the end of the traced process to nobody else, its parent included.

    So the parent waits after SIGKILL as it does when a driver holds the process.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
    tracer = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(os.getpid())], stdout=subprocess.PIPE, start_new_session=True
    )
    assert tracer.stdout is not None
    holder.write_text(f"{tracer.pid} {tracer.stdout.readline().decode().strip()}", encoding="ascii")


def leave_an_orphan(where: Path) -> None:
    """A grandchild in a session of its own whose parent ends at once, as daemons do; once, and traceable by anybody."""
    if where.exists():
        return
    orphan = (
        "import ctypes, os, pathlib, sys, time\n"
        "ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)\n"  # PR_SET_PTRACER, any
        "new = pathlib.Path(sys.argv[1] + '.new'); new.write_text(str(os.getpid())); new.rename(sys.argv[1])\n"
        "time.sleep(600)\n"
    )
    parent = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {orphan!r}, sys.argv[1]], start_new_session=True)\n"
    )
    subprocess.run([sys.executable, "-c", parent, str(where)], check=True)
    while not where.exists() or where.with_name(where.name + ".wait").exists():
        time.sleep(0.02)


def _leave(what: str | None) -> None:
    """An attempt that does not put back what it changed."""
    match what:
        case "folder":
            os.chdir("/")
        case "child":
            subprocess.Popen(["sleep", "600"])
        case "thread":
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        case "limit":
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        case "variable":
            os.environ["LEFT_BEHIND"] = os.environ.get("LEFT_BEHIND", "") + "x"


class LightKit:
    def imports(self) -> None:
        return None

    def device(self, job: Job) -> tuple[Device, CudaCounters | None]:
        return HostDevice("cpu"), None

    def load(self, job: Job) -> LightEngine:
        bytearray(job.settings["extra"].get("largest", 0) << 20)
        _leave(job.settings["extra"].get("leave"))
        if job.settings["extra"].get("do") == "emulated-bf16":
            refuse_precision("bf16", FakeCuda(capability=(7, 5), native_bf16=False))
        return LightEngine(job)

    def conditions(self, job: Job) -> CardConditions | None:
        return None

    def facts(self, job: Job) -> dict[str, Any]:
        return {"runtime": {}, "determinism": {}, "gpus": [], "reasons": {}}


if __name__ == "__main__":
    os._exit(main(sys.argv[1:], LightKit()))
