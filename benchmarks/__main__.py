"""`python -m benchmarks [--only NAMES]`: measure, print a table, write `benchmarks/results.json`."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import platform
import sys
import time
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks.harness import Figure, Measure, NotMeasurable, families
from benchmarks.results import UnreadableResults, merge, read_figures

RESULTS = Path(__file__).with_name("results.json")
# Not families: the harness itself, and scripts that run in processes of their own.
_NOT_FAMILIES = frozenset(
    {"__main__", "harness", "results", "campaigns", "bare_process", "card_passes", "engine_passes", "judge_rows"}
)


def load_families() -> dict[tuple[str, ...], Measure]:
    """Import every family of this package; each registers itself."""
    for module in sorted(item.name for item in pkgutil.iter_modules(benchmarks.__path__)):
        if module not in _NOT_FAMILIES:
            importlib.import_module(f"benchmarks.{module}")
    return families()


def chosen(known: dict[tuple[str, ...], Measure], words: list[str]) -> dict[tuple[str, ...], Measure]:
    """Families one of whose names contains one of the words; all without words."""
    if not words:
        return known
    unknown = [word for word in words if not any(word in name for names in known for name in names)]
    if unknown:
        everything = " ".join(name for names in known for name in names)
        raise SystemExit(f"no figure is called {' or '.join(unknown)}; there are: {everything}")
    return {names: run for names, run in known.items() if any(word in name for name in names for word in words)}


def machine() -> dict[str, Any]:
    """The machine in words, so that two results can be told apart."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def line(item: Figure) -> str:
    verdict = {None: "", True: "reached", False: "NOT REACHED"}[item.reached]
    spread = f"{item.minimum:.4g} to {item.maximum:.4g}, n={item.n}"
    return f"{item.name:<36} {item.value:>10.4g} {item.unit:<6} {item.goal or '':<9} {verdict:<12} {spread}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", default="", help="parts of names of figures, separated by blanks")
    options = parser.parse_args()
    here = machine()
    try:
        read_figures(RESULTS)
    except UnreadableResults as error:
        sys.stderr.write(f"{error}\n")
        return 2
    reached = True
    for names, run in chosen(load_families(), options.only.split()).items():
        began = time.monotonic()
        try:
            found = list(run())
        except NotMeasurable as error:
            sys.stdout.write("".join(f"{name:<36} not measured: {error}\n" for name in names))
            continue
        if sorted(item.name for item in found) != sorted(names):
            raise RuntimeError(f"{run.__name__} promised {names} and measured {[item.name for item in found]}")
        merge(RESULTS, here, [item.as_json() for item in found])
        for item in found:
            sys.stdout.write(line(item) + "\n")
        sys.stdout.write(f"  measuring {run.__name__} took {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
        reached = reached and all(item.reached is not False for item in found)
    if not reached:
        sys.stdout.write("a goal was not reached\n")
    return 0 if reached else 3


if __name__ == "__main__":
    sys.exit(main())
