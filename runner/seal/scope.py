"""What lies under `protocol/` and is no part of this campaign: corpora and models that none of its locks names.

The repository comes with the corpus and the model of the embedded example, and a folder may hold those of earlier
trials: signed and archived beside the measured ones, they would be taken for them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from runner.evidence.campaign import Campaign
from runner.protocol.lockfile import earlier_locks
from runner.protocol.modelfiles import frozen_model
from runner.protocol.schema import Lock

_CORPORA = PurePosixPath("protocol/corpus")
_TABLES = {".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"}
_OF_THE_SHEET = {"labels.csv", "contradictions.csv"}  # `runner corpus` writes them beside the splits, without texts
# Read by name or pattern: never a foreign model, whatever somebody puts into them.
_OWN_FOLDERS = {"protocol", "protocol/baseline", "protocol/reference", "protocol/locks", "protocol/keys"}


def of_another(campaign: Campaign) -> Callable[[str], bool]:
    """Is this file or folder (path as listed) a corpus or a model of something else than this campaign?

    A corpus of an earlier revision belongs to it, since its lock is kept. Without a lock nothing is of another.
    Raises: InputRefused for a lock that cannot be read.
    """
    if not campaign.lock.is_file():
        return lambda relative: False
    lock = Lock.load(campaign.lock)
    named = _named((lock, *earlier_locks(campaign)))
    folders = {path.parent for path in map(PurePosixPath, named)}
    measured = str(_CORPORA.parent / frozen_model(campaign, lock).source)

    def foreign(relative: str) -> bool:
        path = PurePosixPath(relative)
        if relative in named or path.parts[0] != _CORPORA.parts[0]:
            return False
        place = campaign.root / path
        if place.is_dir() and not place.is_symlink():
            inside = any(path == folder or path in folder.parents for folder in folders)
            own = inside or relative in _OWN_FOLDERS or relative == measured
            return not own and (place / "config.json").is_file()
        if _CORPORA not in path.parents:
            return False
        beside = path.parent in folders or any(
            folder in path.parents for folder in folders if _CORPORA in folder.parents
        )
        return not beside or (path.suffix.lower() in _TABLES and path.name not in _OF_THE_SHEET)

    return foreign


def _named(locks: tuple[Lock, ...]) -> frozenset[str]:
    """Paths, from the campaign's folder, of every file that a lock holds a fingerprint of; its model apart."""
    corpora = [corpus for lock in locks for corpus in lock.judgement.corpora]
    files = [file for corpus in corpora for file in (*corpus.final, *corpus.tuning)]
    files += [file for corpus in corpora for file in (corpus.reference, corpus.baseline) if file is not None]
    files += [file for lock in locks for file in lock.judgement.evaluation_files or ()]
    names = (file.path for file in files)
    return frozenset(name if name.startswith("protocol/") else f"protocol/{name}" for name in names)


def frozen_model_files(campaign: Campaign) -> frozenset[str]:
    """Paths of the frozen model's files below `protocol/`, there or not; empty if it lies elsewhere."""
    lock = Lock.load(campaign.lock)
    source = PurePosixPath(frozen_model(campaign, lock).source)
    if source.is_absolute() or ".." in source.parts or lock.judgement.model_revision is not None:
        return frozenset()
    return frozenset(str(_CORPORA.parent / source / file.path) for file in lock.judgement.model_files)
