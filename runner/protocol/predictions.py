"""Predictions as a table: id, label, score, read from Parquet, CSV or JSON Lines without touching a value.

Used for the baseline at the freeze and for every judged attempt. Columns are Arrow arrays, so that
ten million rows stay small; line numbers are those of the file (Parquet: row from 1).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runner.corpus.columns import NAME_THE_COLUMNS, column_places
from runner.corpus.parquet import mapped
from runner.corpus.read import iter_table
from runner.errors import InputRefused, show_value
from runner.evidence.canonical import sha256_file

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
_LISTED = 20
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
_NEEDED = "a prediction file needs the columns id and label, named exactly so; score is optional"
_AGAIN = "write the file again as Parquet with text columns id and label"


@dataclass(frozen=True)
class Predictions:
    """One prediction file. `score` is NaN where the file has none; `has_score`: the column exists."""

    path: Path
    sha256: str
    ids: pa.ChunkedArray
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
    try:
        source = mapped(path)
        schema = pq.read_schema(source)
        column_places(schema.names, ("id", "label"), path)
        columns = [name for name in ("id", "label", "score", "scores") if name in schema.names]
        table = pq.read_table(source, columns=columns, read_dictionary=["label"])
    except OSError as error:
        raise InputRefused(
            f"the prediction file cannot be read: {error.strerror or error}", file=path, next_step=_AGAIN
        ) from None
    except pa.ArrowException as error:
        raise InputRefused(f"not a Parquet file: {str(error).splitlines()[0]}", file=path, next_step=_AGAIN) from None
    if pa.types.is_floating(schema.field("id").type):
        raise InputRefused(
            "ids look like floating-point numbers; keep them as text", file=path, column="id", next_step=_AGAIN
        )
    score = _as_floats(table["score"], path) if "score" in columns else None
    finite = _all_finite(table["scores"]) if "scores" in columns else True
    return Predictions(
        path, sha256_file(path), _as_text(table, "id", path), _as_text(table, "label", path), score, finite, None, ()
    )


def _as_text(table: pa.Table, name: str, path: Path) -> pa.ChunkedArray:
    """Text stays, dictionaries of text stay, whole numbers become their digits; the rest is refused."""
    column = table[name]
    value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(value_type) or pa.types.is_large_string(value_type):
        _refuse_what_is_not_utf8(column, name, path)
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputRefused(
            f"a column of type {column.type} is no text", file=path, column=name, next_step=_AGAIN
        ) from None


def _refuse_what_is_not_utf8(column: pa.ChunkedArray, name: str, path: Path) -> None:
    """Parquet declares text but does not check it: the first row whose bytes are none is named."""
    row = 0
    for chunk in column.chunks:
        try:
            (chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk).validate(full=True)
        except pa.ArrowInvalid:
            raw = (
                chunk.cast(pa.large_binary())
                if not pa.types.is_dictionary(chunk.type)
                else (chunk.dictionary.cast(pa.large_binary()).take(chunk.indices))
            )
            for place, data in enumerate(raw.to_pylist()):
                try:
                    (data or b"").decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputRefused(
                        f"not UTF-8: byte 0x{data[error.start]:02x} cannot be read",
                        file=path,
                        line=row + place + 1,
                        column=name,
                        next_step="write the text columns as UTF-8",
                    ) from None
        row += len(chunk)


def _as_floats(column: pa.ChunkedArray, path: Path) -> Floats:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InputRefused(
            f"the scores are not numbers but {column.type}",
            file=path,
            column="score",
            next_step="write the scores as floating-point numbers from 0 to 1, or leave the column out",
        )
    values: Floats = column.cast(pa.float64()).to_numpy()
    return values


def _all_finite(column: pa.ChunkedArray) -> bool:
    """Every score of every class is finite; a list column is looked at chunk by chunk."""
    return all(
        bool(np.isfinite(chunk.flatten().to_numpy(zero_copy_only=False).astype(np.float64)).all())
        for chunk in column.chunks
        if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type)
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
        pa.chunked_array([pa.array(ids, pa.string())]),
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


def label_codes(labels: pa.ChunkedArray, table: tuple[str, ...]) -> Codes:
    """Index of every label in the table, -1 where it is none of them. Shape (rows,)."""
    known = pa.array(table, pa.string())
    parts = []
    for chunk in labels.chunks:
        if pa.types.is_dictionary(chunk.type):
            of_entry = _index_in(chunk.dictionary, known)
            entries = pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False)
            codes = np.append(of_entry, np.int32(-1))[entries]
        else:
            codes = _index_in(chunk, known)
        parts.append(codes)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def _index_in(values: Any, known: pa.Array) -> Codes:
    found = pc.index_in(values.cast(pa.string()), value_set=known)
    codes: Codes = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int32)
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
