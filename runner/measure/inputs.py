"""Whether corpus and model are the frozen ones before and after every attempt, outside the timed part (M2, M3, M8).

Files up to 1 MiB are hashed anew each time; of larger ones the identity (device, inode, size, both time
stamps, the name's own entry) is compared with the one they had when this call of `measure` hashed them,
and only a changed one is hashed again. A file that was touched while the attempt ran counts as changed
even if its bytes are right afterwards: what was read in between is not known. In addition the worker
fingerprints the ids and texts that its timed pass was given. Not seen: model files that are changed
without any trace in the file system (a raw device, a file server that keeps wrong time stamps).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.corpus.table import iter_table, table_files
from runner.errors import InputRefused, NotAccepted
from runner.evidence.attempt import Inputs
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import records_sha256, sha256_file
from runner.protocol.inputs import FileIdentity, files_sha256, frozen_corpus_sha256, frozen_model_sha256
from runner.protocol.judgement import read_final
from runner.protocol.modelfiles import ModelFolder, counted_files
from runner.protocol.reference import locked_corpus
from runner.protocol.schema import CorpusFiles, Lock

_HASHED_ANEW_BYTES = 1 << 20
_GONE = "gone"


@dataclass(frozen=True)
class Seen:
    """Files of an attempt at one moment: name -> (SHA-256, identity); None: gone."""

    corpus: Mapping[str, tuple[str, FileIdentity | None]]
    model: Mapping[str, tuple[str, FileIdentity | None]]


class InputWatch:
    """Corpus and model of one call of `measure`; made right after the model was checked."""

    def __init__(self, campaign: Campaign, lock: Lock, corpora: Iterable[CorpusFiles], model: ModelFolder) -> None:
        self._campaign, self._lock, self._model = campaign, lock, model
        self._corpora = {files.id: files for files in corpora}
        self._hashes: dict[Path, tuple[FileIdentity, str]] = {
            model.path / name: (identity, sha256)
            for name, sha256 in ((file.path, file.sha256) for file in model.files)
            if (identity := model.identities.get(name)) is not None
        }
        self._equal_content: dict[str, str] = {}
        self.ids: dict[str, tuple[str, ...]] = {}
        self._texts_sha256: dict[str, str] = {}
        for files in self._corpora.values():
            before = self._corpus(files.id)
            self._refuse_other(files.id, before)
            rows = [cells for _, cells in self._rows(files)]
            self.ids[files.id] = tuple(row[0] or "" for row in rows)
            self._texts_sha256[files.id] = texts_sha256(rows)
            if self._corpus(files.id) != before:
                raise self._stop([f"corpus {files.id}: it changes while it is read"])

    def before(self, corpus_id: str) -> Seen:
        """Fingerprints right before an attempt. Stops the measuring, without a row, if they are not the frozen ones."""
        seen = self._now(corpus_id)
        self._refuse_other(corpus_id, seen.corpus)
        self._refuse_other_model(seen.model)
        return seen

    def after(self, corpus_id: str, before: Seen, texts: Iterable[str] | None) -> Inputs:
        """What the row says; `texts`: fingerprints of the texts that the processes of the pass were given."""
        now = self._now(corpus_id)
        changed = [*_differences(before.corpus, now.corpus), *_differences(before.model, now.model)]
        if any(found != self._texts_sha256[corpus_id] for found in texts or ()):
            changed.append(f"the pass was given other ids or texts than those of corpus {corpus_id} as frozen")
        bytes_of_lock = files_sha256(_pairs(before.corpus)) == frozen_corpus_sha256(self._lock, corpus_id)
        return Inputs(
            corpus_sha256=files_sha256(_pairs(before.corpus)),
            corpus_records_sha256=None if bytes_of_lock else locked_corpus(self._lock, corpus_id).records_sha256,
            model_sha256=files_sha256(_pairs(before.model)),
            changed=tuple(changed),
        )

    def _rows(self, files: CorpusFiles) -> Iterable[tuple[int, tuple[str | None, ...]]]:
        return iter_table(self._campaign.protocol_dir / files.final, (files.id_column, files.text_column))

    def _now(self, corpus_id: str) -> Seen:
        return Seen(
            self._corpus(corpus_id), self._files(lambda: counted_files(self._model.path, self._lock.protocol.model))
        )

    def _corpus(self, corpus_id: str) -> dict[str, tuple[str, FileIdentity | None]]:
        path = self._campaign.protocol_dir / self._corpora[corpus_id].final
        return self._files(lambda: [(self._campaign.relative(file), file) for file in table_files(path)])

    def _files(self, listed: Callable[[], list[tuple[str, Path]]]) -> dict[str, tuple[str, FileIdentity | None]]:
        try:
            return {name: self._hash(file) for name, file in listed()}
        except InputRefused:  # gone, or no longer what it was: no name is left to compare
            return {}

    def _hash(self, file: Path) -> tuple[str, FileIdentity | None]:
        try:
            identity = FileIdentity.of(file)
            known = self._hashes.get(file)
            if known is None or known[0] != identity or identity.content[2] <= _HASHED_ANEW_BYTES:
                known = (identity, sha256_file(file))
                self._hashes[file] = known
        except OSError:
            return _GONE, None
        return known[1], identity

    def _refuse_other(self, corpus_id: str, found: Mapping[str, tuple[str, FileIdentity | None]]) -> None:
        """Other bytes with the same records are still the frozen corpus."""
        sha256 = files_sha256(_pairs(found))
        if sha256 in (frozen_corpus_sha256(self._lock, corpus_id), self._equal_content.get(corpus_id)):
            return
        locked = locked_corpus(self._lock, corpus_id)
        if not found or _GONE in dict(_pairs(found)).values():
            raise self._stop([f"corpus {corpus_id}: its file is gone"])
        if read_final(self._campaign, self._corpora[corpus_id]).records_sha256 != locked.records_sha256:
            frozen = {file.path: file.sha256 for file in locked.final}
            names = sorted(name for name, value in _pairs(found) if frozen.get(name) != value)
            raise self._stop([f"corpus {corpus_id}: {name} has other content" for name in names or [locked.id]])
        self._equal_content[corpus_id] = sha256

    def _refuse_other_model(self, found: Mapping[str, tuple[str, FileIdentity | None]]) -> None:
        if files_sha256(_pairs(found)) == frozen_model_sha256(self._lock):
            return
        now, frozen = dict(_pairs(found)), {file.path: file.sha256 for file in self._lock.judgement.model_files}
        names = sorted(name for name in now.keys() | frozen.keys() if now.get(name) != frozen.get(name))
        raise self._stop([f"model file {name}: {_how(frozen.get(name), now.get(name))}" for name in names])

    def _stop(self, details: Iterable[str]) -> NotAccepted:
        return NotAccepted(
            "measuring stopped: corpus or model is no longer the frozen one",
            file=self._campaign.protocol_dir,
            details=tuple(details),
            next_step="put the frozen files back, then run the same command again: it goes on with what is missing",
        )


def texts_sha256(rows: Iterable[tuple[str | None, ...]]) -> str:
    """Fingerprint of ids and texts in the order of the corpus, as the timed pass gets them."""
    return records_sha256((identifier or "", text or "") for identifier, text in rows)


def _pairs(found: Mapping[str, tuple[str, FileIdentity | None]]) -> list[tuple[str, str]]:
    return [(name, sha256) for name, (sha256, _) in found.items()]


def _differences(
    before: Mapping[str, tuple[str, FileIdentity | None]], now: Mapping[str, tuple[str, FileIdentity | None]]
) -> list[str]:
    found = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        how = _how(None if old is None else old[0], None if new is None else new[0])
        found.append(f"{name}: {how} during the attempt")
    return found


def _how(old: str | None, new: str | None) -> str:
    if new in (None, _GONE):
        return "gone"
    if old is None:
        return "new"
    return "replaced or written to" if old == new else "other content"
