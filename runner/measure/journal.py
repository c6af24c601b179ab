"""What a child has done so far, in files that outlive its SIGKILL.

`<id>.jsonl` holds events, one per line. `<id>.results` holds the documents that are finished, as
fixed-size records: position in the corpus and the model's outputs. Both are appended with one
`write()` each, so the kernel has them even if the process is killed the next moment. A torn last
record is counted, reported and never taken for a finished document.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import InputRefused
from runner.evidence.canonical import loads_strict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEADER = b"outputs=%08d\n"
_HEADER_BYTES = 17


def _append(descriptor: int, data: bytes) -> None:
    """The whole of it or nothing: what a full disk took of it is taken back before the error goes on."""
    done = 0
    try:
        while done < len(data):
            done += os.write(descriptor, data[done:])
    except OSError:
        if done:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - done)
        raise


class Journal:
    """Events of one attempt, appended line by line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def event(self, name: str, **fields: object) -> None:
        line = {"event": name, "mono_ns": time.monotonic_ns(), **fields}
        _append(self._descriptor, json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)


class ResultSpool:
    """Outputs of finished documents, appended batch by batch (float32, in the order they finish)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._record: Any = None

    def add(self, positions: Sequence[int], outputs: NDArray[np.float32]) -> None:
        """`outputs`: shape (documents, outputs of the model); one row per position."""
        import numpy as np

        if self._descriptor is None:
            width = outputs.shape[1]
            self._record = _record_type(width)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            _append(self._descriptor, _HEADER % width)
        rows = np.empty(len(positions), dtype=self._record)
        rows["position"] = positions
        rows["outputs"] = outputs
        _append(self._descriptor, rows.tobytes())

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _record_type(width: int) -> Any:
    import numpy as np

    return np.dtype([("position", "<i8"), ("outputs", "<f4", (width,))])


@dataclass(frozen=True)
class JournalState:
    """What a journal says. `completed` is None when nothing was said about documents."""

    events: tuple[dict[str, Any], ...]
    torn_bytes: int

    @property
    def completed(self) -> int | None:
        counts = [event["completed"] for event in self.events if isinstance(event.get("completed"), int)]
        return max(counts) if counts else None

    @property
    def total(self) -> int | None:
        return next((event["total"] for event in self.events if event.get("event") == "start"), None)

    @property
    def ended(self) -> bool:
        return any(event.get("event") == "end" for event in self.events)

    @property
    def last_event(self) -> str | None:
        return self.events[-1].get("event") if self.events else None


def read_journal(path: Path) -> JournalState:
    """Events of whole lines; a last line without line feed is torn, not an error. No file: no events."""
    data = path.read_bytes() if path.exists() else b""
    whole, _, rest = data.rpartition(b"\n")
    events = []
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        event = loads_strict(line, file=path, line=number)
        if not isinstance(event, dict):
            raise InputRefused(
                "a line of the journal is no event",
                file=path,
                line=number,
                next_step="nothing to mend: runner measure runs this attempt again under a new number",
            )
        events.append(event)
    return JournalState(tuple(events), len(rest))


def read_results(path: Path) -> tuple[list[int], NDArray[np.float32]]:
    """Positions and outputs of the finished documents, of all ranks; a torn last record is left out."""
    import numpy as np

    parts = [_read_spool(part) for part in spools(path)]
    parts = [part for part in parts if part[0]] or [([], np.empty((0, 0), dtype=np.float32))]
    return [position for positions, _ in parts for position in positions], np.concatenate([part[1] for part in parts])


def spools(path: Path) -> list[Path]:
    """The spool of an attempt, and those of its ranks beside it (`<path>.0`, `<path>.1`)."""
    return [path, *sorted(path.parent.glob(f"{path.name}.*"))]


def _read_spool(path: Path) -> tuple[list[int], NDArray[np.float32]]:
    import numpy as np

    data = path.read_bytes() if path.exists() else b""
    width = _width(data)
    if width is None:
        return [], np.empty((0, 0), dtype=np.float32)
    record = _record_type(width)
    count = (len(data) - _HEADER_BYTES) // record.itemsize
    rows = np.frombuffer(data, dtype=record, count=count, offset=_HEADER_BYTES)
    whole = _distinct(rows["position"].tolist())
    return whole, rows["outputs"][: len(whole)].copy()


def _width(data: bytes) -> int | None:
    """Outputs per document by the header; None where a power cut left none."""
    header = data[:_HEADER_BYTES]
    digits = header[8:16]
    return int(digits) if header == b"outputs=" + digits + b"\n" and digits.isdigit() and int(digits) else None


def _distinct(positions: list[int]) -> list[int]:
    """Up to the first that cannot be: a power cut may leave zeros where records should be."""
    seen: set[int] = set()
    for at, position in enumerate(positions):
        if position < 0 or position in seen:
            return positions[:at]
        seen.add(position)
    return positions


def count_results(path: Path, outputs: int | None = None) -> int:
    """Number of finished documents, of all ranks, from the sizes of the files alone."""
    return sum(_count_spool(part, outputs) for part in spools(path))


def _count_spool(path: Path, outputs: int | None) -> int:
    try:
        size = path.stat().st_size
        if size < _HEADER_BYTES:
            return 0
        if outputs is None:
            with path.open("rb") as stream:
                outputs = _width(stream.read(_HEADER_BYTES))
    except FileNotFoundError:
        return 0
    return 0 if outputs is None else (size - _HEADER_BYTES) // (8 + 4 * outputs)
