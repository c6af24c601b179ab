"""The optional column `scores` of a Parquet file: numbers for every class, in any form in which Parquet nests them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types


def holds_numbers(kind: pa.DataType) -> bool:
    """Numbers, or lists, structs and maps of numbers; a map's keys may be anything. No value at all is none amiss."""
    if _is_list(kind) or types.is_dictionary(kind):
        return holds_numbers(kind.value_type)
    if types.is_struct(kind):
        return all(holds_numbers(kind.field(place).type) for place in range(kind.num_fields))
    if types.is_map(kind):
        return holds_numbers(kind.item_type)
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind) or types.is_null(kind))


def all_finite(column: pa.Array) -> bool:
    """Every number in it is finite. A row may be without; within a list or struct a missing number is none."""
    return _finite(column.filter(column.is_valid()))


def _finite(column: Any) -> bool:
    """The same of a part that must be there everywhere."""
    kind = column.type
    if types.is_null(kind) or not len(column):
        return True
    if column.null_count:
        return False
    if types.is_dictionary(kind):
        return _finite(column.dictionary_decode())
    if types.is_map(kind):
        first, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return _finite(column.items.slice(first, end - first))
    if _is_list(kind):
        return _finite(column.flatten())
    if types.is_struct(kind):
        return all(_finite(part) for part in column.flatten())
    if types.is_floating(kind):
        return bool(np.isfinite(column.to_numpy(zero_copy_only=False)).all())
    return True  # whole and exact numbers are


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )
