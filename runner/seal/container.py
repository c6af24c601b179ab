"""A ZIP container in one canonical form, and a reader that accepts no other.

Stored (not compressed), sorted names, one fixed time, no comments, no extra fields: equal files give
equal bytes with every Python, and a reader that writes the container again finds every changed byte
of it. Written by hand because `zipfile` may change flags between versions.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from runner.errors import InputRefused, NotAccepted, show_value
from runner.seal.names import name_findings

MOST_FILES = 65_000
MOST_BYTES = 2_000_000_000
ANOTHER_COPY = "get the archive again from who made it and check that copy; what it holds now proves nothing"
_CHUNK_BYTES = 1 << 20
_VERSION = 20
_UTF8 = 0x0800
_DATE, _TIME = 0x0021, 0  # 1 January 1980, 00:00: a date that says nothing
_UNIX = 3 << 8
_MODE = (stat.S_IFREG | 0o644) << 16
_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"

Source = bytes | Path
"""Content of a file: bytes, or the path to read it from."""


class Sink(Protocol):
    """Where a container is written to."""

    def write(self, data: bytes, /) -> int: ...


def write_container(stream: Sink, files: Mapping[str, Source]) -> None:
    """Write the canonical container with these files. Refuses bad names and what ZIP's plain form cannot hold."""
    findings = name_findings(files)
    if findings:
        raise InputRefused(
            "the archive would hold names that are refused", details=findings, next_step="rename these files"
        )
    if len(files) > MOST_FILES:
        raise InputRefused(
            f"an archive holds at most {MOST_FILES} files",
            value=len(files),
            next_step="runner archive --rental FILE --without-texts takes less along",
        )
    central = []
    offset = 0
    for name in sorted(files):
        checksum, size = _measure(files[name])
        if offset + size > MOST_BYTES:
            raise InputRefused(
                f"an archive holds at most {MOST_BYTES} bytes",
                file=name,
                next_step="runner archive --rental FILE --without-texts takes less along",
            )
        encoded = name.encode("utf-8")
        fields = struct.pack("<HHHHHLLLHH", _VERSION, _UTF8, 0, _TIME, _DATE, checksum, size, size, len(encoded), 0)
        stream.write(_LOCAL + fields + encoded)
        _copy(files[name], stream, checksum, size)
        central.append(
            _CENTRAL
            + struct.pack("<H", _UNIX | _VERSION)
            + fields
            + struct.pack("<HHHLL", 0, 0, 0, _MODE, offset)
            + encoded
        )
        offset += len(_LOCAL) + len(fields) + len(encoded) + size
    directory = b"".join(central)
    stream.write(directory)
    stream.write(_END + struct.pack("<HHHHLLH", 0, 0, len(files), len(files), len(directory), offset, 0))


def read_container(path: Path) -> dict[str, bytes]:
    """All files of a canonical container, nothing written anywhere.

    Bad names, links, duplicates and oversize are refused (exit 2, all listed) before any content is
    read; a container that is not byte for byte canonical is not accepted (exit 3).
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _refuse_entries(entries, path)
            files = {entry.filename: archive.read(entry) for entry in entries}
    except (OSError, zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError) as error:
        raise NotAccepted(f"not a readable archive, or damaged: {error}", file=path, next_step=ANOTHER_COPY) from None
    _require_canonical(path, files)
    return files


def read_loosely(path: Path) -> tuple[dict[str, bytes], str | None]:
    """All files of any ZIP whose names are safe, and why it is not the canonical container (None: it is).

    For checking what somebody packed again. Refused as by `read_container`: bad names, links, oversize, damage.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            folders = [entry for entry in entries if entry.filename.endswith("/") and entry.file_size == 0]
            _refuse_names([f"{entry.orig_filename}0" for entry in folders], (), path)  # as of a file in it
            entries = [entry for entry in entries if entry not in folders]
            _refuse_entries(entries, path, packed=True)
            files = {entry.filename: archive.read(entry) for entry in entries}
    except (OSError, zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError) as error:
        raise NotAccepted(f"not a readable archive, or damaged: {error}", file=path, next_step=ANOTHER_COPY) from None
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        return files, "it is compressed"
    if folders:
        return files, "it holds entries for folders"
    try:
        _require_canonical(path, files)
    except NotAccepted as error:
        return files, error.what
    return files, None


def _refuse_entries(entries: list[zipfile.ZipInfo], path: Path, *, packed: bool = False) -> None:
    links = tuple(
        f"{show_value(entry.orig_filename)} is a link or a device"
        for entry in entries
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG)
    )
    _refuse_names([entry.orig_filename for entry in entries], links, path)
    # The declared sizes are believed only to refuse: reading stops at them, and they are compared below.
    if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise InputRefused(
            f"the archive is larger than {MOST_FILES} files or {MOST_BYTES} bytes", file=path, next_step=ANOTHER_COPY
        )
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries) and not packed:
        raise NotAccepted(
            "the archive is compressed, so it is not one that this tool made", file=path, next_step=ANOTHER_COPY
        )


def _refuse_names(names: list[str], more: tuple[str, ...], path: Path) -> None:
    findings = (*name_findings(names), *more)
    if findings:
        raise InputRefused(
            "the archive holds names that are refused; nothing was taken out of it",
            file=path,
            details=findings,
            next_step=ANOTHER_COPY,
        )


class _Comparison:
    """A stream that compares what is written with a file instead of keeping it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position = 0
        self.differs_at: int | None = None

    def write(self, data: bytes, /) -> int:
        found = self._stream.read(len(data))
        if self.differs_at is None and found != data:
            same = next((index for index, (a, b) in enumerate(zip(found, data, strict=False)) if a != b), len(found))
            self.differs_at = self.position + same
        self.position += len(data)
        return len(data)


def _require_canonical(path: Path, files: Mapping[str, bytes]) -> None:
    with path.open("rb") as stream:
        comparison = _Comparison(stream)
        write_container(comparison, files)
        trailing = stream.read(1)
    if comparison.differs_at is not None or trailing:
        place = comparison.position if comparison.differs_at is None else comparison.differs_at
        raise NotAccepted(
            f"the archive's container was changed (byte {place} is not what it must be)",
            file=path,
            next_step=ANOTHER_COPY,
        )


def _measure(source: Source) -> tuple[int, int]:
    """(CRC-32, bytes) of a content."""
    if isinstance(source, bytes):
        return zlib.crc32(source), len(source)
    checksum = size = 0
    with source.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
            size += len(chunk)
    return checksum, size


def _copy(source: Source, target: Sink, checksum: int, size: int) -> None:
    if isinstance(source, bytes):
        target.write(source)
        return
    found = copied = 0
    with source.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            target.write(chunk)
            found = zlib.crc32(chunk, found)
            copied += len(chunk)
    if (found, copied) != (checksum, size):
        raise InputRefused("a file changed while it was archived", file=source, next_step="run the same command again")
