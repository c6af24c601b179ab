"""Parquet as text, row by row. Imported only when a Parquet file is met (pyarrow is heavy)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types
from pyarrow import lib

from runner.corpus.columns import column_places
from runner.errors import InputRefused

_BATCH_ROWS = 8192


def mapped(file: Path) -> Any:
    """The file as a source for pyarrow, mapped into memory; OSError or ArrowException if that fails.

    A name goes in as bytes: pyarrow encodes text as UTF-8, which not every name of a folder is.
    """
    return pa.memory_map(os.fsencode(file))


def parquet_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str | None, ...]]]:
    """`(row, cells)`, rows counted from 1."""
    row = 0
    with _opened(file) as parquet:
        schema = parquet.schema_arrow
        column_places(schema.names, columns, file)
        converters = [_converter(schema.field(name).type, file, name) for name in columns]
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
            cells = [convert(batch.column(name)) for name, convert in zip(columns, converters, strict=True)]
            for values in zip(*cells, strict=True):
                row += 1
                yield row, values


def refuse_float_column(file: Path, column: str) -> None:
    """Large ids kept as floating-point numbers have lost digits already (CO-09)."""
    with _opened(file) as parquet:
        schema = parquet.schema_arrow
        if column in schema.names and types.is_floating(schema.field(column).type):
            raise InputRefused(
                "the ids are floating-point numbers, so their digits cannot be trusted",
                file=file,
                column=column,
                next_step="write the ids as text",
            )


def class_names(file: Path, column: str) -> dict[str, str]:
    """Names of the class numbers 0, 1, ... as the `datasets` library keeps them in a Parquet file's metadata."""
    with _opened(file) as parquet:
        metadata = parquet.schema_arrow.metadata or {}
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][column]["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise InputRefused(
            "the file does not name its classes",
            file=file,
            column=column,
            next_step="name them with --label-names FILE or --label-name",
        ) from None
    return {str(number): name for number, name in enumerate(names)}


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    open_parquet: Any = pq.ParquetFile
    try:
        with mapped(file) as source, open_parquet(source) as parquet:
            yield parquet
    except (lib.ArrowException, OSError) as error:
        # pyarrow reports damaged metadata as an OSError without a number.
        known = error.strerror if isinstance(error, OSError) else None
        what = f"cannot be read: {known}" if known else f"not a readable Parquet file: {str(error).splitlines()[0]}"
        raise InputRefused(what, file=file, next_step="write the file again as Parquet") from None
    except UnicodeDecodeError:
        raise InputRefused(
            "a text in the Parquet file is not UTF-8", file=file, next_step="write its text columns as UTF-8"
        ) from None


def _converter(kind: Any, file: Path, column: str) -> Callable[[Any], Iterable[str | None]]:
    """How a column becomes text: text as it is, whole numbers exactly, the rest as JSON writes it."""
    value_type = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(value_type) or types.is_large_string(value_type) or types.is_string_view(value_type):
        return _as_it_is
    if types.is_integer(value_type):
        return _as_integers
    if types.is_floating(value_type) or types.is_boolean(value_type) or types.is_list(value_type):
        return _as_json
    if types.is_null(value_type):
        return _as_it_is
    raise InputRefused(
        f"a Parquet column of type {kind} cannot be read as text",
        file=file,
        column=column,
        next_step="write the column as text",
    )


def _as_it_is(array: Any) -> Iterable[str | None]:
    values: list[str | None] = array.to_pylist()
    return values


def _as_integers(array: Any) -> Iterable[str | None]:
    return [None if value is None else str(value) for value in array.to_pylist()]


def _as_json(array: Any) -> Iterable[str | None]:
    return [None if value is None else json.dumps(value) for value in array.to_pylist()]
