"""`benchmarks/results.json`: figures of this machine and of others, each with where and when it was measured.

The top level names the machine and the day of the latest run. A figure measured on another machine carries that
machine itself; every figure carries its own date. One figure has one entry: measured again, it replaces the earlier.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Machine = dict[str, Any]
Entry = dict[str, Any]


class UnreadableResults(RuntimeError):
    """The file is there and is not what this module wrote: it is never written over."""


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def read_figures(path: Path) -> dict[str, Entry]:
    """Entries by name, each with its `machine` and its `date`; nothing where there is no file yet."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        shared = {"machine": content["machine"], "date": content["date"]}
        return {item["name"]: shared | item for item in content["figures"]}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path} cannot be read ({error}): mend it, or move it away; nothing was measured or written"
        raise UnreadableResults(message) from error


def merge(path: Path, here: Machine, measured: Iterable[Entry]) -> None:
    """Put entries measured here and today into the file, whatever other runs wrote meanwhile.

    The file is read again under a lock, so that two runs beside each other keep each other's figures.
    """
    with _locked(path.parent):
        figures = read_figures(path)
        for item in measured:
            figures[item["name"]] = {"machine": here, "date": today()} | item
        content = {
            "machine": here,
            "date": today(),
            "figures": [_without_shared_machine(figures[name], here) for name in sorted(figures)],
        }
        fresh = path.with_suffix(".tmp")
        fresh.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(path)


def _without_shared_machine(item: Entry, here: Machine) -> Entry:
    """Name and value first; the machine only where it is another one."""
    last = {"date": item["date"]} | ({} if item["machine"] == here else {"machine": item["machine"]})
    return {key: value for key, value in item.items() if key not in ("date", "machine")} | last


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one run writes at a time. The lock is on the folder: no lock file is left behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
