"""Writing that a crash cannot tear, and the lock that keeps two writers apart."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign

_LOCK_NAME = ".lock"
_CHUNK_BYTES = 1 << 20
_MOST_TRIES = 1000  # far more than others that come and go can cause; a folder that is none ends here


def write_atomic(path: Path, data: bytes) -> None:
    """The file is there as a whole or not at all, also after a power cut: write, fsync, rename, fsync folder.

    Missing folders are made. On an error (disk full) the old file stays and the rest is removed.
    """
    with _whole(path) as stream:
        stream.write(data)


def copy_atomic(source: Path, path: Path, *, size: int, sha256: str) -> None:
    """`write_atomic` of the first `size` bytes of a file, in parts; InputRefused if they are not those of `sha256`."""
    digest, left = hashlib.sha256(), size
    with source.open("rb") as origin, _whole(path) as stream:
        while left and (chunk := origin.read(min(left, _CHUNK_BYTES))):
            stream.write(chunk)
            digest.update(chunk)
            left -= len(chunk)
        if left or digest.hexdigest() != sha256:
            raise InputRefused(
                "the file changed while it was collected",
                file=source,
                next_step="wait until nobody writes there, then run the same command again",
            )


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file beside the place, which it takes when the block has ended well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        with temporary.open("wb") as stream:
            yield stream
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
    """Only one measuring command per campaign folder; a second one is refused, a dead one's lock is gone.

    The file is removed at the end, and so is an empty `records/`: a refused command leaves nothing behind.
    """
    path = campaign.records / _LOCK_NAME
    stream = _locked(path)
    try:
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        yield
    finally:
        # While it is still locked: whoever waits on this file sees that it is no longer the one in the folder.
        path.unlink(missing_ok=True)
        stream.close()
        remove_empty(campaign.records)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Wait until nobody else writes `path`, then be its only writer: for files that are read and written as a whole.

    The lock is a file beside it, since writing replaces `path` itself; it is removed at the end.
    """
    beside = path.with_name(f".{path.name}.lock")
    while True:
        beside.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("a", encoding="ascii") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if not _is_still(beside, stream):  # its last holder removed it while we waited
                continue
            try:
                yield
            finally:
                beside.unlink(missing_ok=True)
            return


def remove_empty(*folders: Path) -> None:
    """Remove folders that hold nothing; others, and those that are not there, stay as they are."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _locked(path: Path) -> TextIO:
    """The lock file, held; made anew if its last holder removed it, or its empty folder, in the meantime."""
    for _ in range(_MOST_TRIES):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = path.open("a+", encoding="ascii")
        except (FileNotFoundError, FileExistsError):
            continue
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read(20).strip() or "unknown"
            stream.close()
            raise InputRefused(
                f"another measurement is running in this campaign (process {holder})",
                file=path,
                next_step="wait until it has ended, then run the same command again",
            ) from None
        except OSError:
            stream.close()
            raise
        if _is_still(path, stream):
            return stream
        stream.close()
    raise InputRefused(
        "the lock file cannot be made here: is its folder one?",
        file=path,
        next_step="make the folder an ordinary one on a disk that can be written, and run the same command again",
    )


def _is_still(path: Path, stream: TextIO) -> bool:
    """Whether the open file is the one that the folder holds now."""
    try:
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
