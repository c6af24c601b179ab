"""Writing that a crash cannot tear, and the lock that keeps two writers apart."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign

_LOCK_NAME = ".lock"


def write_atomic(path: Path, data: bytes) -> None:
    """The file is there as a whole or not at all, also after a power cut: write, fsync, rename, fsync folder.

    Missing folders are made. On an error (disk full) the old file stays and the rest is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_interrupted_writes(folder: Path) -> tuple[str, ...]:
    """Remove what killed writers left of `write_atomic`, in words; the files themselves are whole.

    Only while no other process writes there: call with the campaign lock held.
    """
    found = []
    for path in sorted(folder.rglob(".*.tmp")):
        found.append(f"removed the rest of an interrupted write, {path.stat().st_size} bytes: {path.name}")
        path.unlink()
    return tuple(found)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def campaign_lock(campaign: Campaign) -> Iterator[None]:
    """Only one measuring command per campaign folder; a second one is refused, a dead one's lock is gone."""
    campaign.records.mkdir(parents=True, exist_ok=True)
    path = campaign.records / _LOCK_NAME
    with path.open("a+", encoding="ascii") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            raise InputRefused(
                f"another measurement is running in this campaign (process {stream.read(20).strip() or 'unknown'})",
                file=path,
                next_step="wait until it has ended, then run the same command again",
            ) from None
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        yield
