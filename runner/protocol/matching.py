"""Where every observed id stands in the corpus: a hash table of whole ids in numpy, exact and small.

Arrow's own look-up is quick while ids come in the order of the corpus; in another order its table is
larger than every cache, and ten million ids took four times as long as the whole verdict now does.
Here ids are rows of 64-bit words. Two ids are the same only if all their words are, so a collision of
hashes costs time and never a wrong match. Both columns are read in parts and never held as texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runner.protocol.idcolumn import IdColumn, text_buffers
from runner.protocol.parallel import in_threads, spans_of

Positions = npt.NDArray[np.signedinteger[Any]]
Words = npt.NDArray[np.uint64]
"""One id per row: its UTF-8 bytes, 0x80, zeros; so different ids are different rows."""
Places = npt.NDArray[np.uint32]

_CHUNK = 1 << 16  # rows handled at once: temporary arrays stay in the cache
_LONGEST_BYTES = 63
_TABLE_BYTES = 512 << 20  # words of the expected ids held at once
_ROUNDS = 40
_END = 0x80
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def in_same_order(expected: IdColumn, observed: IdColumn) -> bool:
    """Are the ids the same, one after the other? Reads no further than the first difference that it meets."""
    if len(expected) != len(observed):
        return False
    different = Event()

    def compare(first: int, end: int) -> None:
        rows = 0
        for one, other in _side_by_side(expected.read(first, end), observed.read(first, end)):
            if different.is_set():
                return
            rows += len(one)
            if not one.equals(other if other.type == one.type else other.cast(one.type)):
                different.set()
        if rows != end - first:
            different.set()

    in_threads(compare, expected.spans())
    return not different.is_set()


def _side_by_side(ones: Iterator[pa.Array], others: Iterator[pa.Array]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Slices of the same length, until one side ends."""
    one, other = next(ones, None), next(others, None)
    while one is not None and other is not None:
        rows = min(len(one), len(other))
        yield one.slice(0, rows), other.slice(0, rows)
        one = one.slice(rows) if rows < len(one) else next(ones, None)
        other = other.slice(rows) if rows < len(other) else next(others, None)


def positions_of(expected: IdColumn, observed: IdColumn) -> Positions:
    """Place of every observed id among the expected ones (distinct, not null), -1 for none; shape (rows,)."""
    kind = np.int32 if len(expected) <= np.iinfo(np.int32).max else np.int64  # new memory costs time
    positions: Positions = np.full(len(observed), -1, dtype=kind)
    start, width = 0, 1
    while start < len(expected):
        if 8 * width > _LONGEST_BYTES + 1:
            _with_arrow(expected, observed, start, positions)
            break
        end = min(start + _TABLE_BYTES // (8 * width), len(expected))
        try:
            index = _Index.of(expected, start, end, width)
        except _Longer as longer:
            width = longer.width
            continue
        index.look_up(observed, positions)
        start = end
    return positions


class _Longer(Exception):
    """An expected id needs more words than were planned."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.width = width


@dataclass(frozen=True)
class _Index:
    """Tables of places by hash. An id that found its slot taken is in the next, smaller one."""

    known: Words
    first: int
    """Place in the corpus of the first known id; all places below count from it."""
    tables: tuple[tuple[Places, int], ...]
    left: tuple[int, ...]
    """Places that no table took: ids made to collide."""

    @staticmethod
    def of(expected: IdColumn, first: int, end: int, width: int) -> _Index:
        """Of the expected ids `first` to `end`; `_Longer` if one of them does not fit."""
        known = np.empty((end - first, width), dtype=np.uint64)
        bits = _bits(len(known))
        table = np.zeros(1 << bits, dtype=np.uint32)

        def fill(start: int, stop: int) -> None:
            row = max(start, first)
            for chunk in expected.read(row, min(stop, end)):
                needed = _longest(chunk) // 8 + 1
                if needed > width:
                    raise _Longer(needed)
                words = _words(chunk, width)
                place = row - first
                known[place : place + len(chunk)] = words
                # Whoever comes last stays: which one it is does not matter.
                table[_slots(words, bits, 0)] = np.arange(place, place + len(chunk), dtype=np.uint32)
                row += len(chunk)

        in_threads(fill, [span for span in expected.spans() if span[0] < end and span[1] > first])
        waiting = _not_in(table, bits, 0, known, None)
        tables = [(table, bits)]
        while len(waiting) and len(tables) < _ROUNDS:
            number, bits = len(tables), _bits(len(waiting))
            table = np.zeros(1 << bits, dtype=np.uint32)
            for start, stop in spans_of(len(waiting), _CHUNK):
                part = waiting[start:stop]
                table[_slots(known.take(part, axis=0), bits, number)] = part
            tables.append((table, bits))
            waiting = _not_in(table, bits, number, known, waiting)
        return _Index(known, first, tuple(tables), tuple(waiting.tolist()))

    def look_up(self, observed: IdColumn, positions: Positions) -> None:
        """Put the place in the corpus of every observed id that is known into `positions`."""
        width = self.known.shape[1]

        def find(start: int, end: int) -> None:
            row = start
            for chunk in observed.read(start, end):
                found = self._places(_words(chunk, width))
                usable = found >= 0
                usable &= _may_match(chunk, width)
                np.copyto(positions[row : row + len(chunk)], found + self.first, where=usable, casting="same_kind")
                row += len(chunk)

        in_threads(find, observed.spans())
        if self.left:
            self._look_up_the_rest(observed, positions)

    def _places(self, words: Words) -> npt.NDArray[np.int64]:
        """Place of every row of words, -1 for none. An empty slot holds 0: place 0 is compared like any other."""
        found = np.full(len(words), -1, dtype=np.int64)
        rows: npt.NDArray[np.intp] | None = None  # all of them
        for number, (table, bits) in enumerate(self.tables):
            candidates = table.take(_slots(words, bits, number))
            there = self.known.take(candidates, axis=0)  # whole rows: one look into memory for each
            same = there[:, 0] == words[:, 0]
            for column in range(1, words.shape[1]):
                same &= there[:, column] == words[:, column]
            if rows is None:
                np.copyto(found, candidates, where=same)
            else:
                found[rows[same]] = candidates[same]
            other = np.flatnonzero(~same)
            if not len(other):
                break
            rows = other if rows is None else rows.take(other)
            words = words.take(other, axis=0)
        return found

    def _look_up_the_rest(self, observed: IdColumn, positions: Positions) -> None:
        width = self.known.shape[1]
        places = {self.known[place].tobytes(): place + self.first for place in self.left}
        row = 0
        for chunk in observed.read(0, len(observed)):
            words, usable = _words(chunk, width), _may_match(chunk, width)
            for number in np.flatnonzero(usable & (positions[row : row + len(chunk)] < 0)).tolist():
                positions[row + number] = places.get(words[number].tobytes(), -1)
            row += len(chunk)


def _bits(rows: int) -> int:
    return max(int(1.5 * rows).bit_length(), 4)


def _not_in(table: Places, bits: int, number: int, known: Words, places: Places | None) -> Places:
    """Those of the places (None: of all) whose slot another one took."""

    def left(start: int, stop: int) -> Places:
        part: Places = np.arange(start, stop, dtype=np.uint32) if places is None else places[start:stop]
        words = known[start:stop] if places is None else known.take(part, axis=0)
        taken: Places = part[table.take(_slots(words, bits, number)) != part]
        return taken

    parts: list[Places] = in_threads(left, spans_of(len(known if places is None else places), _CHUNK))
    return np.concatenate(parts)


def _slots(words: Words, bits: int, number: int) -> npt.NDArray[np.int64]:
    """The upper bits of a hash of all words; another one for every table."""
    value = words[:, 0] * np.uint64(_MIX[0])
    for column in range(1, words.shape[1]):
        value ^= value >> np.uint64(32)
        value += words[:, column]
        value *= np.uint64(_MIX[1])
    value ^= value >> np.uint64(29)
    value *= np.uint64((_MIX[2] * (2 * number + 1)) & (2**64 - 1))
    value >>= np.uint64(64 - bits)
    return value.view(np.int64)


def _words(chunk: pa.Array, width: int) -> Words:
    """Shape (rows, width); an id that is too long for `width` words is cut (`_may_match` is false for it)."""
    offsets, raw = text_buffers(chunk)
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
    offsets, _ = text_buffers(chunk)
    fits: npt.NDArray[np.bool_] = np.diff(offsets) < 8 * width
    if chunk.null_count:
        fits &= chunk.is_valid().to_numpy(zero_copy_only=False)
    return fits


def _longest(chunk: pa.Array) -> int:
    offsets, _ = text_buffers(chunk)
    return int(np.diff(offsets).max(initial=0))


def _with_arrow(expected: IdColumn, observed: IdColumn, first: int, positions: Positions) -> None:
    """For very long ids, expected ones from place `first` on; a null id matches nothing."""
    at_once = 1_000_000
    wanted = _large(observed, 0, len(observed))
    for start, end in spans_of(len(expected), at_once, first=first):
        found = pc.index_in(wanted, value_set=_large(expected, start, end), skip_nulls=True)
        places = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
        hit = places >= 0
        positions[hit] = places[hit] + start


def _large(ids: IdColumn, first: int, end: int) -> pa.Array:
    chunks = [chunk.cast(pa.large_string()) for chunk in ids.read(first, end)]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())
