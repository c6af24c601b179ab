"""`doctor`: what can be measured and made on this machine, what cannot, and why, in plain words."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from runner.evidence.campaign import Campaign
from runner.measure.abilities import Ability, ask
from runner.measure.environment import allowed_variables, cpu_name, host_facts
from runner.measure.memory import reset_peak_resident
from runner.measure.nvml import load_nvml
from runner.measure.oom import OomCounters

_LEAST_FREE_BYTES = 1 << 30
_EARLIEST_SENSIBLE_YEAR = 2026
_BUSY_LOAD = 0.5
_KFD = Path("/sys/class/kfd/kfd/proc")  # the AMD driver's list of processes
_PANGO = ("pango-1.0", "pangoft2-1.0", "harfbuzz-subset")


def examine(campaign: Campaign) -> tuple[Ability, ...]:
    """All answers, from the machine to the note. Nothing is written."""
    return (*_machine(), *ask(), *_instruments(), *_tools(campaign))


def _machine() -> Iterator[Ability]:
    facts, _ = host_facts()
    memory = int(facts["memory_bytes"] or 0) / 2**30
    usable = facts["cpus_usable"] or facts["cpus_logical"]
    yield Ability("processor", True, f"{cpu_name()}, {usable} usable, {memory:.1f} GiB of memory")
    limits = []
    if facts["cpu_quota"] is not None:
        limits.append(f"at most {float(facts['cpu_quota']):g} processor cores")
    if facts["memory_limit"] is not None:
        limits.append(f"at most {int(facts['memory_limit']) / 2**30:.1f} GiB of memory")
    if limits or facts["container"]:
        found = [str(facts["container"] or "control group"), *(limits or ["no limit of processors or memory found"])]
        yield Ability("container", None, ", ".join(found))
    yield from _load(int(usable or 1))
    threads = allowed_variables(os.environ).get("OMP_NUM_THREADS")
    yield Ability(
        "threads",
        True if threads else None,
        f"OMP_NUM_THREADS={threads}" if threads else "not set: torch takes all cores; declare threads in the variants",
    )
    yield _clock()


def _load(usable: int) -> Iterator[Ability]:
    """Others at work now would be at work beside a pass."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return
    busy = load > _BUSY_LOAD
    why = f"load {load:.1f} on {usable} usable processors"
    yield Ability("quiet", None if busy else True, why + (": others are at work; times would suffer" if busy else ""))


def _clock() -> Ability:
    year = time.gmtime().tm_year
    if year < _EARLIEST_SENSIBLE_YEAR:
        return Ability("wall clock", False, f"says the year {year}; the calendar of the note would be wrong")
    return Ability("wall clock", True, "durations do not depend on it; jumps are noticed")


def _instruments() -> Iterator[Ability]:
    problem = reset_peak_resident()
    yield Ability(
        "peak of resident memory",
        True if problem is None else None,
        "exact per pass (high-water mark can be reset)" if problem is None else f"sampled only: {problem}",
    )
    counters = OomCounters.read()
    proof = "the control group counts kills" if counters.group is not None else None
    proof = proof or ("the kernel counts kills of the whole machine" if counters.machine is not None else None)
    yield Ability(
        "proof of out of memory",
        True if proof else None,
        proof or "no counter can be read: such a kill is recorded as killed, cause unknown",
    )
    module, reason = load_nvml()
    readings = "clocks, power, temperature, other processes"
    yield Ability("readings of NVIDIA cards", module is not None, reason or readings)
    if _KFD.is_dir():
        yield Ability("readings of AMD cards", True, f"{readings} (no throttling, no energy), from the kernel's files")


def _tools(campaign: Campaign) -> Iterator[Ability]:
    free = shutil.disk_usage(campaign.root if campaign.root.exists() else Path()).free
    yield Ability("disk", free >= _LEAST_FREE_BYTES, f"{free / 2**30:.1f} GiB free for records")
    found = shutil.which("ssh-keygen")
    yield Ability("signatures", found is not None, "ssh-keygen" if found else "install openssh-client")
    missing = [name for name in ("weasyprint", "jinja2", "matplotlib") if importlib.util.find_spec(name) is None]
    libraries = [name for name in _PANGO if ctypes.util.find_library(name) is None]
    if missing:
        yield Ability("the note (HTML, PDF)", False, f"not installed: {', '.join(missing)}; fine on a rental")
    elif libraries:
        yield Ability("the note (HTML, PDF)", False, f"system libraries missing: {', '.join(libraries)}")
    else:
        yield Ability("the note (HTML, PDF)", True, "WeasyPrint and its libraries are here")
