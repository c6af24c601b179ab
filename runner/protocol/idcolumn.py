"""A column of ids that is read again whenever it is needed, in parts, instead of being held.

Ten million ids are a third of a gigabyte as Arrow arrays, and new memory costs more time than
reading the file again. Ids are text exactly as the file has them; null stays null.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runner.errors import InputRefused, show_text, show_value
from runner.protocol.parallel import Span, spans_of

AGAIN = "write the file again as Parquet with text columns id and label"
_SPAN_ROWS = 1 << 18  # at least so many rows are given to a thread at once
_BUFFER_BYTES = 1 << 20  # read from a file at once: its pages are no memory of ours, as those of a map would be
_BATCH_ROWS = 1 << 16  # rows read at once: small enough for the cache, large enough for numpy


class IdColumn(Protocol):
    """Ids in the order of their file."""

    def __len__(self) -> int: ...

    def spans(self) -> list[Span]:
        """Spans that can be read at the same time; together they are all rows, in order."""
        ...

    def read(self, first: int, end: int) -> Iterator[pa.Array]:
        """Rows `first` to `end` as text arrays (string or large_string), in order."""
        ...


class HeldIds:
    """Ids that are in memory already: of a text file, or made by the caller."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def spans(self) -> list[Span]:
        return spans_of(len(self), _SPAN_ROWS)

    def read(self, first: int, end: int) -> Iterator[pa.Array]:
        for chunk in self._column.slice(first, end - first).chunks:
            for start, stop in spans_of(len(chunk), _BATCH_ROWS):
                yield chunk.slice(start, stop - start)


class ParquetTable:
    """A Parquet file that is read in parts, by several threads at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable_parquet(path):
            # Bytes as a name: pyarrow encodes text as UTF-8, which not every name of a folder is.
            self._source = pa.OSFile(os.fsencode(path))
            self._metadata = pq.read_metadata(self._source)
            self.schema = self._metadata.schema.to_arrow_schema()
        rows = [self._metadata.row_group(group).num_rows for group in range(self._metadata.num_row_groups)]
        self._starts: list[int] = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64).tolist()

    def __len__(self) -> int:
        return int(self._metadata.num_rows)

    def spans(self) -> list[Span]:
        """Whole row groups: a part of one cannot be read without what is before it."""
        found, first = [], 0
        for end in self._starts[1:]:
            if end > first and (end - first >= _SPAN_ROWS or end == len(self)):
                found.append((first, end))
                first = end
        return found

    def batches(
        self, first: int, end: int, columns: Sequence[str], *, encoded: Sequence[str] = ()
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows `first` to `end` in order, each batch with its first row; `encoded` columns of text as dictionaries."""
        starts = self._starts
        groups = [number for number, start in enumerate(starts[:-1]) if start < end and starts[number + 1] > first]
        row = starts[groups[0]] if groups else end
        with readable_parquet(self.path):
            opened: Any = pq.ParquetFile
            texts = [name for name in encoded if is_text(self.schema.field(name).type)]
            file = opened(self._source, metadata=self._metadata, read_dictionary=texts, buffer_size=_BUFFER_BYTES)
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(columns), use_threads=False):
                low, high = max(first - row, 0), min(end - row, len(batch))
                if high > low:
                    yield row + low, batch.slice(low, high - low)
                row += len(batch)


class ParquetIds:
    """The ids of a Parquet file. What is no text is refused when it is met, with its row."""

    def __init__(self, table: ParquetTable, name: str) -> None:
        self._table, self._name = table, name

    def __len__(self) -> int:
        return len(self._table)

    def spans(self) -> list[Span]:
        return self._table.spans()

    def read(self, first: int, end: int) -> Iterator[pa.Array]:
        for row, batch in self._table.batches(first, end, [self._name]):
            yield as_text(batch.column(0), self._name, self._table.path, row=row)


def texts_at(ids: IdColumn, rows: Sequence[int]) -> list[str | None]:
    """The ids of some rows, in the order in which the rows are given."""
    wanted = np.asarray(rows, dtype=np.int64)
    order = np.argsort(wanted, kind="stable")
    in_order = wanted[order]
    found: list[str | None] = [None] * len(wanted)
    for first, end in ids.spans():
        low, high = np.searchsorted(in_order, [first, end])
        row = first
        for part in ids.read(first, end) if high > low else ():
            low, stop = np.searchsorted(in_order, [row, row + len(part)])
            texts = part.take(pa.array(in_order[low:stop] - row)).to_pylist()
            for place, text in zip(order[low:stop].tolist(), texts, strict=True):
                found[place] = text
            row += len(part)
            if row > in_order[high - 1]:
                break
    return found


def all_texts(ids: IdColumn) -> Iterator[str | None]:
    """Every id, in order."""
    for part in ids.read(0, len(ids)):
        yield from part.to_pylist()


@contextmanager
def readable_parquet(path: Path) -> Iterator[None]:
    """What pyarrow says of a file that it cannot read, as a refusal."""
    try:
        yield
    except OSError as error:
        raise InputRefused(
            f"the prediction file cannot be read: {error.strerror or error}", file=path, next_step=AGAIN
        ) from None
    except pa.ArrowException as error:
        raise InputRefused(f"not a Parquet file: {show_text(_first_line(error))}", file=path, next_step=AGAIN) from None
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, NotImplementedError, RecursionError) as error:
        # A damaged or odd file, of which pyarrow speaks in Python's own exceptions: names that are no text, types.
        what = f"the prediction file cannot be read: {type(error).__name__}: {show_value(_first_line(error))}"
        raise InputRefused(what, file=path, next_step=AGAIN) from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def as_text(column: pa.Array, name: str, path: Path, *, row: int = 0, keep_encoded: bool = False) -> pa.Array:
    """Text stays, whole numbers become their digits; the rest is refused. `row`: the first one, from 0.

    Dictionaries of text become text, too, unless they are to be kept.
    """
    if not is_text(column.type):
        return digits_as_text(column, name, path)
    refuse_what_is_not_utf8(column, name, path, row=row)
    encoded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if encoded and not keep_encoded else column


def is_text(kind: pa.DataType) -> bool:
    """Text, or a dictionary of texts."""
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value_type) or pa.types.is_large_string(value_type))


def digits_as_text(column: pa.Array, name: str, path: Path) -> pa.Array:
    """Values that Arrow itself can write as text, such as whole numbers."""
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputRefused(
            f"a column of type {column.type} is no text", file=path, column=name, next_step=AGAIN
        ) from None


def refuse_what_is_not_utf8(column: pa.Array, name: str, path: Path, *, row: int = 0) -> None:
    """Parquet declares text but does not check it: the first row whose bytes are none is named."""
    encoded = pa.types.is_dictionary(column.type)
    texts = column.dictionary if encoded else column
    try:
        if not is_ascii(texts):
            texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.cast(pa.large_binary())
        for place, data in enumerate((raw.take(column.indices) if encoded else raw).to_pylist()):
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


def is_ascii(texts: pa.Array) -> bool:
    """True if every byte is below 128: then it is UTF-8, and that is quick to see."""
    offsets, raw = text_buffers(texts)
    used = raw[offsets[0] : offsets[-1]]
    return not len(used) or int(used.max()) < 128


def text_buffers(chunk: pa.Array) -> tuple[Any, Any]:
    """Offsets (rows + 1, int32 or int64) and bytes (uint8) of a text array; numpy arrays without a copy."""
    kind = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    _, offsets, data = chunk.buffers()
    if not len(chunk):
        return np.zeros(1, dtype=kind), np.empty(0, dtype=np.uint8)
    places = np.frombuffer(offsets, dtype=kind)[chunk.offset : chunk.offset + len(chunk) + 1]
    return places, np.frombuffer(data or b"", dtype=np.uint8)
