"""Where every observed id stands in the corpus: a hash table of whole ids in numpy, exact and small.

Arrow's own look-up is quick while ids come in the order of the corpus; in another order its table is
larger than every cache, and ten million ids took four times as long as the whole verdict now does.
Here ids are rows of 64-bit words. Two ids are the same only if all their words are, so a collision of
hashes costs time and never a wrong match.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
"""One id per row: its UTF-8 bytes, 0x80, zeros; so different ids are different rows."""
Places = npt.NDArray[np.uint32]

_CHUNK = 1 << 16  # rows handled at once: temporary arrays stay in the cache
_LONGEST_BYTES = 63
_TABLE_BYTES = 256 << 20  # words of the expected ids held at once
_ROUNDS = 40
_MOST_THREADS = 4
_END = 0x80
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def positions_of(expected: pa.ChunkedArray, observed: pa.ChunkedArray) -> Integers:
    """Place of every observed id among the expected ones (distinct, not null), -1 for none; shape (rows,)."""
    positions = np.full(len(observed), -1, dtype=np.int64)
    longest = _longest(expected)
    if longest > _LONGEST_BYTES:
        _with_arrow(expected, observed, positions)
        return positions
    width = longest // 8 + 1
    rows = _TABLE_BYTES // (8 * width)
    for start in range(0, len(expected), rows):
        _look_up(expected.slice(start, rows), observed, width, start, positions)
    return positions


def _look_up(expected: pa.ChunkedArray, observed: pa.ChunkedArray, width: int, start: int, positions: Integers) -> None:
    known = np.empty((len(expected), width), dtype=np.uint64)

    def fill(row: int, chunk: pa.Array) -> None:
        known[row : row + len(chunk)] = _words(chunk, width)

    _in_threads(fill, _chunks(expected))
    index = _Index.of(known)

    def find(row: int, chunk: pa.Array) -> None:
        part = positions[row : row + len(chunk)]
        open_rows = np.flatnonzero(part < 0)
        if len(open_rows):
            found = index.places(_words(chunk, width))
            usable = open_rows[(found[open_rows] >= 0) & _may_match(chunk, width)[open_rows]]
            part[usable] = found[usable] + start

    _in_threads(find, _chunks(observed))
    if index.left:
        left = pa.array(index.left)
        rest = np.full(len(observed), -1, dtype=np.int64)
        _with_arrow(expected.take(left), observed, rest)
        hit = rest >= 0
        positions[hit] = np.array(index.left)[rest[hit]] + start


@dataclass(frozen=True)
class _Index:
    """Tables of places by hash. An id that found its slot taken is in the next, smaller one."""

    known: Words
    tables: tuple[tuple[Places, int], ...]
    left: tuple[int, ...]
    """Places that no table took: ids made to collide."""

    @staticmethod
    def of(known: Words) -> _Index:
        tables: list[tuple[Places, int]] = []
        waiting = np.arange(len(known), dtype=np.uint32)
        while len(waiting) and len(tables) < _ROUNDS:
            bits = max(int(1.5 * len(waiting)).bit_length(), 4)
            table = np.zeros(1 << bits, dtype=np.uint32)
            slots = np.empty(len(waiting), dtype=np.uint32)

            def place(start: int, part: Places, slots: Places = slots, table: Places = table, bits: int = bits) -> None:
                slot = _slots(known[part], bits, len(tables))
                slots[start : start + len(part)] = slot
                table[slot] = part  # whoever comes last stays: which one it is does not matter

            _in_threads(place, _parts(waiting))
            kept = np.empty(len(waiting), dtype=bool)

            def check(start: int, part: Places, slots: Places = slots, table: Places = table,
                      kept: npt.NDArray[np.bool_] = kept) -> None:  # fmt: skip
                kept[start : start + len(part)] = table[slots[start : start + len(part)]] == part

            _in_threads(check, _parts(waiting))
            tables.append((table, bits))
            waiting = waiting[~kept]
        return _Index(known, tuple(tables), tuple(waiting.tolist()))

    def places(self, words: Words) -> Integers:
        """Place of every row of words, -1 for none. An empty slot holds 0: place 0 is compared like any other."""
        found = np.full(len(words), -1, dtype=np.int64)
        rows = np.arange(len(words))
        for number, (table, bits) in enumerate(self.tables):
            here = words if number == 0 else words[rows]
            candidates = table[_slots(here, bits, number)]
            there = self.known.take(candidates, axis=0)  # whole rows: one look into memory for each
            same = there[:, 0] == here[:, 0]
            for column in range(1, words.shape[1]):
                same &= there[:, column] == here[:, column]
            found[rows[same]] = candidates[same]
            rows = rows[~same]
            if not len(rows):
                break
        return found


def _slots(words: Words, bits: int, number: int) -> Places:
    """The upper bits of a hash of all words; another one for every table."""
    value = np.full(len(words), (_MIX[0] * (2 * number + 1)) & (2**64 - 1), dtype=np.uint64)
    for column in range(words.shape[1]):
        value ^= words[:, column]
        value *= np.uint64(_MIX[1])
        value ^= value >> np.uint64(29)
    value *= np.uint64(_MIX[2])
    return (value >> np.uint64(64 - bits)).astype(np.uint32)


def _words(chunk: pa.Array, width: int) -> Words:
    """Shape (rows, width); an id that is too long for `width` words is cut (`_may_match` is false for it)."""
    offsets, raw = _buffers(chunk)
    lengths = np.diff(offsets)
    rows, room = len(chunk), 8 * width
    if rows and lengths[0] < room and (lengths == lengths[0]).all():
        length = int(lengths[0])
        plain = np.zeros((rows, room), dtype=np.uint8)
        plain[:, :length] = raw[offsets[0] : offsets[-1]].reshape(rows, length)
        plain[:, length] = _END
        return plain.view("<u8").astype(np.uint64, copy=False)
    padded = np.concatenate([raw[offsets[0] : offsets[-1]], np.zeros(room, dtype=np.uint8)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 8)
    result = np.empty((rows, width), dtype=np.uint64)
    keep = np.array([(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64)
    end = np.array([_END << (8 * count) for count in range(8)] + [0], dtype=np.uint64)
    starts = offsets[:-1] - offsets[0]
    for column in range(width):
        taken = np.clip(lengths - 8 * column, 0, 8)
        places = np.minimum(starts + 8 * column, len(windows) - 1)
        word = np.ascontiguousarray(windows[places]).view("<u8")[:, 0].astype(np.uint64)
        word &= keep[taken]
        ends_here = (lengths >= 8 * column) & (lengths < 8 * column + 8)
        result[:, column] = np.where(ends_here, word | end[taken], word)
    return result


def _may_match(chunk: pa.Array, width: int) -> npt.NDArray[np.bool_]:
    """False for null and for ids longer than every expected one."""
    offsets, _ = _buffers(chunk)
    fits: npt.NDArray[np.bool_] = np.diff(offsets) < 8 * width
    if chunk.null_count:
        fits &= chunk.is_valid().to_numpy(zero_copy_only=False)
    return fits


def _buffers(chunk: pa.Array) -> tuple[Integers, npt.NDArray[np.uint8]]:
    """Offsets (rows + 1) and bytes of a text array."""
    kind = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    _, offsets, data = chunk.buffers()
    places = np.frombuffer(offsets, dtype=kind)[chunk.offset : chunk.offset + len(chunk) + 1]
    return places.astype(np.int64), np.frombuffer(data or b"", dtype=np.uint8)


def _in_threads(work: Callable[[int, Any], None], parts: Iterable[tuple[int, Any]]) -> None:
    """Every part with its first row; numpy lets go of the interpreter while it computes."""
    listed = list(parts)
    workers = min(_MOST_THREADS, len(listed), os.cpu_count() or 1)
    if workers < 2:
        for row, part in listed:
            work(row, part)
        return
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work, row, part) for row, part in listed]:
            done.result()


def _chunks(column: pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """Slices of the column, each with its first row."""
    row = 0
    for chunk in column.chunks:
        for start in range(0, len(chunk), _CHUNK):
            part = chunk.slice(start, _CHUNK)
            yield row, part
            row += len(part)


def _parts(places: Places) -> Iterator[tuple[int, Places]]:
    for start in range(0, len(places), _CHUNK):
        yield start, places[start : start + _CHUNK]


def _longest(column: pa.ChunkedArray) -> int:
    longest = pc.max(pc.binary_length(column)).as_py()
    return int(longest or 0)


def _with_arrow(expected: pa.ChunkedArray, observed: pa.ChunkedArray, positions: Integers) -> None:
    """For very long ids and for ids made to collide; a null id matches nothing."""
    at_once = 1_000_000
    wanted = observed.combine_chunks()
    for start in range(0, len(expected), at_once):
        part = expected.slice(start, at_once).combine_chunks()
        found = pc.fill_null(pc.index_in(wanted, value_set=part, skip_nulls=True), -1).to_numpy(zero_copy_only=False)
        hit = found >= 0
        positions[hit] = found[hit].astype(np.int64) + start
