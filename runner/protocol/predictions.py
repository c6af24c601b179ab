"""Predictions as a table: id, label, score, read from Parquet, CSV or JSON Lines without touching a value.

Used for the baseline at the freeze and for every judged attempt. Columns are Arrow arrays, so that
ten million rows stay small; line numbers are those of the file (Parquet: row from 1).
"""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runner.corpus.columns import NAME_THE_COLUMNS, column_places
from runner.corpus.read import iter_table
from runner.errors import InputRefused, show_value
from runner.evidence.canonical import sha256_file
from runner.protocol.idcolumn import AGAIN, HeldIds, IdColumn, ParquetIds, ParquetTable, as_text, readable_parquet
from runner.protocol.nested import all_finite, holds_numbers
from runner.protocol.parallel import in_threads

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger[Any]]
"""Classes, as the smallest whole numbers that hold all of them: ten million documents are ten megabytes."""
Floats = npt.NDArray[np.float64]
_LISTED = 20
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
_NEEDED = "a prediction file needs the columns id and label, named exactly so; score is optional"


@dataclass(frozen=True)
class Predictions:
    """One prediction file. `score` is NaN where the file has none; `has_score`: the column exists."""

    path: Path
    sha256: str
    ids: IdColumn
    labels: pa.ChunkedArray
    score: Floats | None
    scores_finite: bool
    lines: Integers | None
    faults: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def line(self, row: int) -> int:
        """Line in the file; for Parquet the row, from 1."""
        return row + 1 if self.lines is None else int(self.lines[row])


def read_predictions(path: Path) -> Predictions:
    """Read a prediction file; columns id and label are needed, score is optional.

    Unreadable files, missing columns and ids kept as floating-point numbers are refused.
    """
    try:
        return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path)
    except InputRefused as error:
        if error.next_step == NAME_THE_COLUMNS:
            error.next_step = _NEEDED
        raise


def _read_parquet(path: Path) -> Predictions:
    with readable_parquet(path), ThreadPoolExecutor(1) as beside:
        sha256 = beside.submit(sha256_file, path)
        table = ParquetTable(path)
        names = table.schema.names
        column_places(names, ("id", "label", *(name for name in ("score", "scores") if name in names)), path)
        if pa.types.is_floating(table.schema.field("id").type):
            raise InputRefused(
                "ids look like floating-point numbers; keep them as text", file=path, column="id", next_step=AGAIN
            )
        if "score" in names:
            _check_score_type(table.schema.field("score").type, path)
        if "scores" in names and not holds_numbers(kind := table.schema.field("scores").type):
            raise _no_numbers("scores", kind, path)
        labels, score, finite = _columns(table, [name for name in ("label", "score", "scores") if name in names])
        return Predictions(path, sha256.result(), ParquetIds(table, "id"), labels, score, finite, None, ())


def _columns(table: ParquetTable, names: list[str]) -> tuple[pa.ChunkedArray, Floats | None, bool]:
    """Labels, scores, and whether every score of every class is finite; the last column is seen and not held."""
    score = np.empty(len(table), dtype=np.float64) if "score" in names else None

    def read(first: int, end: int) -> tuple[list[pa.Array], bool]:
        labels, finite = [], True
        for row, batch in table.batches(first, end, names, encoded=["label"]):
            labels.append(as_text(batch.column("label"), "label", table.path, row=row, keep_encoded=True))
            if score is not None:
                values = batch.column("score").cast(pa.float64(), safe=False)  # huge whole numbers are outside 0 to 1
                score[row : row + len(batch)] = values.to_numpy(zero_copy_only=False)
            if "scores" in names:
                finite &= all_finite(batch.column("scores"))
        return labels, finite

    parts = in_threads(read, table.spans())
    labels = [chunk for part, _ in parts for chunk in part]
    return pa.chunked_array(labels or [pa.array([], pa.string())]), score, all(finite for _, finite in parts)


def _check_score_type(kind: pa.DataType, path: Path) -> None:
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise _no_numbers("score", kind, path)


def _no_numbers(column: str, kind: pa.DataType, path: Path) -> InputRefused:
    return InputRefused(
        f"the scores are not numbers but {kind}",
        file=path,
        column=column,
        next_step="write the scores as floating-point numbers from 0 to 1, or leave the column out",
    )


def _read_text(path: Path) -> Predictions:
    has_score = _has_column(path, "score")
    columns = ("id", "label", "score") if has_score else ("id", "label")
    ids: list[str | None] = []
    labels: list[str | None] = []
    scores: list[float] = []
    lines: list[int] = []
    faults: list[str] = []
    for line, cells in iter_table(path, columns):
        ids.append(cells[0])
        labels.append(cells[1])
        lines.append(line)
        if has_score:
            scores.append(_number(cells[2], line, faults))
    return Predictions(
        path,
        sha256_file(path),
        HeldIds(pa.chunked_array([pa.array(ids, pa.string())])),
        pa.chunked_array([pa.array(labels, pa.string())]),
        np.array(scores) if has_score else None,
        True,
        np.array(lines, dtype=np.int64),
        tuple(faults),
    )


def _has_column(path: Path, name: str) -> bool:
    try:
        next(iter_table(path, (name,)), None)
    except InputRefused as error:
        if error.column == name:
            return False
        raise
    return True


def _number(text: str | None, line: int, faults: list[str]) -> float:
    """A score in plain digits, or nan and inf (which are then not finite); all else is a fault of the file.

    Python's own spellings, such as `0.9_0`, other alphabets' digits or blanks around, are no numbers here.
    """
    if _NUMBER.fullmatch(text or "") is not None:
        return float(text or "")
    if len(faults) < _LISTED:
        faults.append(f"line {line}: score {show_value(text or '')} is not a number")
    return math.nan


def class_type(classes: int) -> type[np.signedinteger[Any]]:
    """The smallest type for the classes 0 to `classes` - 1, and -1 for none."""
    return next((kind for kind in (np.int8, np.int16) if classes <= np.iinfo(kind).max), np.int32)


def label_codes(labels: pa.ChunkedArray, table: tuple[str, ...]) -> Codes:
    """Index of every label in the table, -1 where it is none of them. Shape (rows,)."""
    known = pa.array(table, pa.string())
    codes: Codes = np.empty(len(labels), dtype=class_type(len(table)))
    row = 0
    for chunk in labels.chunks:
        found = codes[row : row + len(chunk)]
        if pa.types.is_dictionary(chunk.type):
            of_entry = np.append(_index_in(chunk.dictionary, known), -1).astype(codes.dtype)
            found[:] = of_entry[pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False)]
        else:
            found[:] = _index_in(chunk, known)
        row += len(chunk)
    return codes


def _index_in(values: Any, known: pa.Array) -> npt.NDArray[np.int32]:
    found = pc.index_in(values.cast(pa.string()), value_set=known)
    codes: npt.NDArray[np.int32] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    return codes


def label_faults(predictions: Predictions, codes: Codes, table: tuple[str, ...]) -> tuple[str, ...]:
    """Labels outside the table, by line and quoted: nothing is trimmed or folded (QU-04)."""
    names = ", ".join(table)
    rows = np.flatnonzero(codes < 0)
    listed = [
        f"line {predictions.line(row)}: label {show_value(predictions.labels[row].as_py() or '')} not in {{{names}}}"
        for row in rows[:_LISTED].tolist()
    ]
    return (*listed, f"and {len(rows) - _LISTED} more") if len(rows) > _LISTED else tuple(listed)


def score_faults(predictions: Predictions) -> tuple[str, ...]:
    """Scores that are no numbers, not finite, or outside 0 to 1, by line."""
    if predictions.faults:
        return predictions.faults
    found = [] if predictions.scores_finite else ["the column scores holds values that are not finite"]
    if predictions.score is None:
        return tuple(found)
    rows = np.flatnonzero(~((predictions.score >= 0) & (predictions.score <= 1)))
    for row in rows[:_LISTED].tolist():
        value = float(predictions.score[row])
        what = "outside 0…1" if math.isfinite(value) else "not finite"
        found.append(f"line {predictions.line(row)}: score {value} {what}")
    if len(rows) > _LISTED:
        found.append(f"and {len(rows) - _LISTED} more")
    return tuple(found)
