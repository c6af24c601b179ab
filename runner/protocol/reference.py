"""What predictions are compared with: expected ids, right answers, groups, baseline; no texts (M2).

At the freeze the corpora's ids, labels and groups are written once as Parquet below
`protocol/reference/`. Judging needs nothing else, so a copy without the texts can be judged and
verified too (M53), and ten million documents stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock as ThreadLock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from runner.corpus.read import Corpus
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.verdict import IdCounts
from runner.protocol.idcolumn import IdColumn, ParquetIds, ParquetTable, texts_at
from runner.protocol.identity import describe, details, match_ids
from runner.protocol.labels import LabelTable, table_of
from runner.protocol.parallel import in_threads
from runner.protocol.predictions import (
    Codes,
    Predictions,
    class_type,
    label_codes,
    label_faults,
    read_predictions,
    score_faults,
)
from runner.protocol.procedure import Answered
from runner.protocol.schema import Lock, LockedCorpus, LockedFile, Model

Floats = npt.NDArray[np.float64]
_GROUP = "group:"


@dataclass(frozen=True)
class Parts:
    """Documents in `count` parts: `number[codes[document]]` is the part of a document, from 0."""

    codes: Codes
    number: npt.NDArray[np.int64]
    count: int


@dataclass(frozen=True)
class Group:
    """One group column: index of the value per document, and the values."""

    codes: Codes
    values: tuple[str, ...]

    def mask(self, value: str) -> npt.NDArray[np.bool_]:
        """True where the document's value is exactly this one; shape (documents,)."""
        if value not in self.values:
            return np.zeros(len(self.codes), dtype=bool)
        found: npt.NDArray[np.bool_] = self.codes == self.values.index(value)
        return found

    def parts(self, values: Sequence[str]) -> Parts:
        """Part 0 holds the documents with none of these (distinct) values, part 1 those with the first, and so on."""
        part = {value: number for number, value in enumerate(values, start=1)}
        number = np.array([part.get(value, 0) for value in self.values], dtype=np.int64)
        return Parts(self.codes, number, len(values) + 1)


@dataclass(frozen=True)
class Reference:
    """One corpus in its order: ids, right answers as classes of the table, groups."""

    corpus_id: str
    ids: IdColumn
    truth: Codes
    table: LabelTable
    groups: Mapping[str, Group]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class BaselineValues:
    """Reference predictions in the order of the corpus: classes, and scores if the file has them."""

    codes: Codes
    score: Floats | None


def write_reference(corpus: Corpus, path: Path) -> None:
    """Ids, labels and groups of a corpus as Parquet, in its order. The caller makes the name final."""
    documents = corpus.documents
    columns: dict[str, pa.Array] = {
        "id": pa.array([document.id for document in documents], pa.string()),
        "label": pa.array([document.label for document in documents], pa.string()),
    }
    for index, name in enumerate(corpus.group_columns):
        columns[_GROUP + name] = pa.array([document.groups[index] for document in documents], pa.string())
    with path.open("wb") as stream:
        pq.write_table(pa.table(columns), stream, compression="zstd")


def load_reference(campaign: Campaign, lock: Lock, corpus_id: str) -> Reference:
    """The frozen reference of a corpus; a changed or missing file is refused."""
    locked = locked_corpus(lock, corpus_id)
    if locked.reference is None:
        raise InputRefused(f"the lock holds no reference for corpus '{corpus_id}'", next_step="runner freeze")
    path = check_file(campaign, locked.reference, "the reference (ids and labels)")
    return reference_of(path, corpus_id, table_of(lock), lock.protocol.model)


def reference_of(path: Path, corpus_id: str, table: LabelTable, model: Model) -> Reference:
    """The content of one reference file, labels as classes of the table."""
    file = ParquetTable(path)
    names = [name for name in file.schema.names if name == "label" or name.startswith(_GROUP)]
    # Repeated values are never made into texts: ten million labels are ten million small numbers.
    index = {label: number for number, label in enumerate(table.labels)}
    truth = _Coded(len(file), class_type(len(index)), lambda label: index[model.label_map.get(label, label)])
    coded = {name: truth if name == "label" else _Coded.by_appearance(len(file)) for name in names}

    def read(first: int, end: int) -> None:
        for row, batch in file.batches(first, end, names, encoded=names):
            for name, column in coded.items():
                column.put(row, batch.column(name))

    in_threads(read, file.spans())
    groups = {
        name.removeprefix(_GROUP): Group(column.codes, tuple(column.values))
        for name, column in coded.items()
        if name != "label"
    }
    return Reference(corpus_id, ParquetIds(file, "id"), truth.codes, table, groups)


def locked_corpus(lock: Lock, corpus_id: str) -> LockedCorpus:
    """The frozen corpus with that id."""
    for corpus in lock.judgement.corpora:
        if corpus.id == corpus_id:
            return corpus
    known = ", ".join(corpus.id for corpus in lock.judgement.corpora)
    raise InputRefused(
        f"there is no frozen corpus of that name; frozen are {known}",
        value=corpus_id,
        next_step="name one of them with --corpus",
    )


def load_baseline(campaign: Campaign, lock: Lock, reference: Reference) -> BaselineValues | None:
    """The frozen baseline in corpus order, or None if the lock has none."""
    locked = locked_corpus(lock, reference.corpus_id).baseline
    if locked is None:
        return None
    path = check_file(campaign, locked, "the baseline")
    return checked_baseline(read_predictions(path), reference)


def checked_baseline(predictions: Predictions, reference: Reference) -> BaselineValues:
    """A baseline must itself be a complete and valid set of predictions."""
    match = match_ids(reference.ids, predictions)
    if not match.counts.ids_match:
        raise _baseline_refused(
            predictions, f"its ids are not those of the corpus: {describe(match.counts)}", match.counts
        )
    codes = label_codes(predictions.labels, reference.table.labels)
    faults = (*label_faults(predictions, codes, reference.table.labels), *score_faults(predictions))
    if faults:
        raise InputRefused(
            "the baseline cannot be used: labels or scores are not valid",
            file=predictions.path,
            details=faults,
            next_step="runner baseline",
        )
    score = None if predictions.score is None else match.in_corpus_order(predictions.score)
    return BaselineValues(match.in_corpus_order(codes), score)


def answered(reference: Reference, codes: Codes, mask: npt.NDArray[np.bool_] | None = None) -> Answered:
    """What an evaluation procedure is given: texts in corpus order, of all documents or of those in `mask`."""
    names = np.array(reference.table.labels, dtype=object)
    truth = reference.truth if mask is None else reference.truth[mask]
    predicted = codes if mask is None else codes[mask]

    def ids() -> list[str]:
        listed = range(len(reference)) if mask is None else np.flatnonzero(mask).tolist()
        return [name or "" for name in texts_at(reference.ids, listed)]

    return Answered(names[truth].tolist(), names[predicted].tolist(), reference.table.labels, ids)


def check_file(campaign: Campaign, locked: LockedFile, what: str) -> Path:
    """Path of a frozen file whose bytes are as they were."""
    path = campaign.inside(locked.path)
    if not path.is_file():
        raise InputRefused(f"{what} is missing", file=path, next_step="put the frozen file back")
    found = sha256_file(path)
    if found != locked.sha256:
        raise InputRefused(
            f"{what} is not the frozen one",
            file=path,
            details=(f"sha256 frozen: {locked.sha256}", f"sha256 now:    {found}"),
            next_step="put the frozen file back",
        )
    return path


def _baseline_refused(predictions: Predictions, what: str, counts: IdCounts) -> InputRefused:
    return InputRefused(
        f"the baseline cannot be used: {what}",
        file=predictions.path,
        column="id",
        details=details(counts),
        next_step="runner baseline",
    )


class _Coded:
    """A column of repeated values as numbers, filled from several threads; `codes` has the shape (documents,)."""

    def __init__(self, documents: int, kind: type[np.signedinteger[Any]], code_of: Callable[[str], int]) -> None:
        self.codes: Codes = np.empty(documents, dtype=kind)
        self.values: dict[str, int] = {}
        self._code_of = code_of
        self._lock = ThreadLock()

    @classmethod
    def by_appearance(cls, documents: int) -> _Coded:
        """Numbered in the order in which the values are met."""
        coded = cls(documents, np.int32, lambda _: len(coded.values))
        return coded

    def put(self, row: int, column: pa.Array) -> None:
        """The values of the rows from `row` on."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        numbers = np.array([self._code(value) for value in encoded.dictionary.to_pylist()], dtype=self.codes.dtype)
        self.codes[row : row + len(column)] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]

    def _code(self, value: str) -> int:
        with self._lock:
            if value not in self.values:
                self.values[value] = self._code_of(value)
            return self.values[value]
