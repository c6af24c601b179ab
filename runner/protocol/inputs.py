"""One fingerprint for all files of a corpus and one for all files of the model: what a row says it has read (M8)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from runner.evidence.canonical import content_sha256
from runner.protocol.schema import Lock


class FileIdentity(NamedTuple):
    """What changes when a file is replaced or written to: the name's own entry and the content behind it.

    Setting a time stamp back (`touch -d`) does not hide a change: the status time cannot be set.
    """

    link: tuple[int, int, int]
    content: tuple[int, int, int, int, int]

    @classmethod
    def of(cls, path: Path) -> FileIdentity:
        """Raises OSError if the file is gone."""
        name, file = path.lstat(), path.stat()
        return cls(
            (name.st_dev, name.st_ino, name.st_ctime_ns),
            (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns),
        )


def files_sha256(files: Iterable[tuple[str, str]]) -> str:
    """Fingerprint over (name, SHA-256) of every file; their order does not matter."""
    return content_sha256(sorted(list(file) for file in files))


def frozen_corpus_sha256(lock: Lock, corpus_id: str) -> str | None:
    """`files_sha256` of the final split as frozen; None: no such corpus."""
    for corpus in lock.judgement.corpora:
        if corpus.id == corpus_id:
            return files_sha256((file.path, file.sha256) for file in corpus.final)
    return None


def frozen_model_sha256(lock: Lock) -> str:
    """`files_sha256` of the model's files as frozen."""
    return files_sha256((file.path, file.sha256) for file in lock.judgement.model_files)
