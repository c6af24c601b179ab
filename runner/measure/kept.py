"""Process policy `kept`, side of the worker: attempts one after another in one process.

Start, imports and the device's context are paid once. Every attempt loads its model anew and warms up by
the frozen rule. Between two attempts everything of the last one is freed, and the process looks whether it
is as it was before the first: if not, it says what differs and is ended. After an attempt that was
not completed it ends itself, unasked.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import json
import os
import resource
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from runner.measure.job import Job
from runner.measure.kits import Kit
from runner.measure.memory import BEFORE, THIS_PROCESS, peak_rss_bytes, reset_peak_resident, resident_bytes

_STDIN, _STDOUT, _STDERR = 0, 1, 2
# Some bytes of the device stay with its libraries (random state of captured graphs); a model is far larger.
_LEFT_ON_DEVICE_BYTES = 1 << 20
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


class Life:
    """The process over its attempts: how many it has served, and what it was like before the first."""

    def __init__(self) -> None:
        self.served = 0
        self.resident_at_start: int | None = None
        self._environment: dict[str, str] = {}
        self._state: dict[str, object] | None = None
        self._no_mark: str | None = None

    def begin(self) -> None:
        """An attempt begins: the high-water mark of resident memory is set back to what is there now."""
        self.resident_at_start = resident_bytes()
        self._no_mark = reset_peak_resident() if self.served else None

    def imported(self) -> None:
        """The libraries are loaded: what the process is like now has to be found again after every attempt."""
        if self._state is None:
            self._environment = dict(os.environ)
            self._state = _state()

    def peaks(self, peaks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Peaks of an attempt, in words that say what else this process has done."""
        if not self.served:
            return peaks
        whose = f"this worker process (attempts served before: {self.served})"
        found = [peak | {"scope": str(peak["scope"]).replace(THIS_PROCESS, whose)} for peak in peaks]
        for peak in found:
            if self._no_mark is not None and peak["counter"] == f"VmHWM {BEFORE}":
                peak |= {"bytes": None, "reason": self._no_mark}
        return found

    def free(self) -> str | None:
        """Free what an attempt has left; what is not as it was, or None if all is."""
        try:
            _release()
            for name in set(os.environ) - set(self._environment):
                del os.environ[name]
            os.environ.update(self._environment)
            difference = _difference(self._state or {}, _state())
        except Exception as error:  # whatever cannot be freed must not reach the next attempt
            return f"it could not be freed ({type(error).__name__})"
        gc.disable()  # as at the start of a process; the attempt enables it when its modules are loaded
        self.served += 1
        return difference


def serve(kit: Kit | None, attempt: Callable[[Job, Kit | None, Life], str]) -> int:
    """Attempts as they are ordered on standard input, until one is not completed or there are no more orders.

    `attempt` is the worker's: it runs one and says its status.
    """
    life = Life()
    with _orders() as orders:
        for line in orders:
            order = json.loads(line)
            os.set_inheritable(order["reports"], False)
            job = Job.load(Path(order["job"]))
            if life.served:
                _redirect(Path(job.result).with_suffix(".stderr"))
            life.begin()
            if attempt(job, kit, life) != "completed":
                return 0
            os.write(order["reports"], json.dumps({"problem": life.free(), **_used()}).encode())
    return 0


def _orders() -> Any:
    """Standard input under another number: no library and no program of the attempt reads orders."""
    own = os.dup(_STDIN)  # not inherited by children
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    return os.fdopen(own, "rb")


def _redirect(path: Path) -> None:
    """What this attempt prints goes to a file of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, _STDOUT)
    os.dup2(file, _STDERR)
    os.close(file)


def _used() -> dict[str, float | int]:
    """Processor seconds since the start of the process, its children included; largest resident memory."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {"cpu_seconds": seconds, "peak_rss_bytes": peak_rss_bytes(own.ru_maxrss, sys.platform)}


def _release() -> None:
    """Objects, compiled code, memory of the device, memory that the C library holds back."""
    _clear_frames()
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        _forget_compiled(torch)
        _end_progress_bars()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            for name in ("_cuda_clearCublasWorkspaces", "_host_emptyCache"):  # not in every build
                getattr(torch._C, name, lambda: None)()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def _clear_frames() -> None:
    """Functions that have ended: a library that is loaded within an attempt may hold on to what called it.

    (pyarrow does.) Their variables, the model among them, would stay for the life of the process.
    """
    for item in gc.get_objects():
        if type(item) is FrameType and not item.f_code.co_flags & _SUSPENDABLE:
            with contextlib.suppress(RuntimeError):  # still running
                item.clear()


def _forget_compiled(torch: Any) -> None:
    """Graphs, their counters, compiled kernels in memory, processes and threads that compile; only what was loaded.

    Parts of it have no public name: where a version has others, what stays is noticed as a thread or process.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
        torch._dynamo.utils.counters.clear()
    utils: Any = sys.modules.get("torch._inductor.utils")
    if utils is not None:
        utils.clear_caches()
    workers: Any = sys.modules.get("torch._inductor.async_compile")
    if workers is not None:
        workers.shutdown_compile_workers()
        pool = workers.AsyncCompile.pool
        if pool.cache_info().currsize:
            pool().shutdown()
            pool.cache_clear()


def _end_progress_bars() -> None:
    """tqdm watches its bars in a thread that stays."""
    bars: Any = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bars is not None and bars.monitor is not None:
        bars.monitor.exit()
        bars.monitor = None


def _state() -> dict[str, object]:
    """What an attempt could leave behind for the next one, by name in words."""
    state: dict[str, object] = {
        "working folder": str(Path.cwd()),
        "limits": tuple(resource.getrlimit(limit) for limit in _LIMITS),
        "processors": tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None,
        "threads": frozenset(thread.name for thread in threading.enumerate()),
        "processes": _children(),
    }
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return state
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    return state | {
        "number formats": (
            torch.get_default_dtype(), torch.get_float32_matmul_precision(), matmul.allow_tf32, cudnn.allow_tf32,
            torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda"),
        ),
        "determinism": (torch.are_deterministic_algorithms_enabled(), cudnn.benchmark, cudnn.deterministic),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), str(torch.get_default_device())),
        # Those without weights are functions in modules' clothes, made once when a library loads.
        "models": sum(
            issubclass(type(item), torch.nn.Module) and bool(getattr(item, "_parameters", None))
            for item in gc.get_objects()
        ),
        "device memory": (
            torch.cuda.memory_allocated() // _LEFT_ON_DEVICE_BYTES if torch.cuda.is_initialized() else 0
        ),
    }  # fmt: skip


def _children() -> frozenset[int] | None:
    """Ids of the processes that this one has started and that are still there; None where the system does not tell."""
    try:
        found = [path.read_text(encoding="ascii").split() for path in Path("/proc/self/task").glob("*/children")]
    except OSError:
        return None
    return frozenset(int(pid) for pids in found for pid in pids)


def _difference(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    changed = [name for name, value in now.items() if name in before and before[name] != value]
    return None if not changed else f"not as it was before: {', '.join(changed)}"
