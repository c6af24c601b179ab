"""Property tests of identity (M7, M28): whatever the ids are, the counts are those of a plain multiset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.protocol import idcolumn, identity, matching
from runner.protocol.idcolumn import HeldIds
from runner.protocol.predictions import Predictions, read_predictions

IDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=3)
NEAR_WORD_ENDS = st.text("a\0é", min_size=1, max_size=20)


def observed(ids: list[str]) -> Predictions:
    column = pa.chunked_array([pa.array(ids[:2], pa.string()), pa.array(ids[2:], pa.string())])
    return Predictions(Path("p"), "0" * 64, HeldIds(column), column, None, True, None, ())


def check_counts(expected: list[str], ids: list[str]) -> None:
    found = identity.match_ids(HeldIds(pa.chunked_array([pa.array(expected)])), observed(ids))
    counted = Counter(ids)
    counts = found.counts
    assert counts.missing == sum(name not in counted for name in expected)
    assert counts.unexpected == len(set(ids) - set(expected))
    assert counts.duplicate == sum(number > 1 for number in counted.values())
    assert counts.ids_match == (counted == Counter(expected))
    if counts.ids_match:
        values = np.array([expected.index(name) for name in ids])
        assert found.in_corpus_order(values).tolist() == list(range(len(expected)))


SMALL = {"matching._CHUNK": 2, "matching._TABLE_BYTES": 40, "idcolumn._SPAN_ROWS": 3, "idcolumn._BATCH_ROWS": 2}
WAYS = {
    "as is": {},
    "small slices": SMALL,
    "long ids": {"matching._LONGEST_BYTES": 1},
    "long ids in small slices": {**SMALL, "matching._LONGEST_BYTES": 9},
    "one table": {"matching._ROUNDS": 1},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["any characters", "near the ends of words"])
def test_m28_counts_are_those_of_a_multiset(way: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """M28: however ids are sliced and hashed, and in whatever order, the counts are the same."""
    names = IDS if kind == "any characters" else NEAR_WORD_ENDS
    for name, value in WAYS[way].items():
        monkeypatch.setattr(f"runner.protocol.{name}", value)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(names, unique=True, min_size=1, max_size=8), st.lists(names, max_size=8))
    def check(expected: list[str], extra: list[str]) -> None:
        for ids in (extra, expected, expected + extra, expected[::-1], expected[1:]):
            check_counts(expected, ids)

    check()


@pytest.mark.parametrize("rows_in_group", [1, 3, 100])
@pytest.mark.parametrize("kind", ["text", "large text", "dictionary", "whole numbers"])
def test_m28_ids_of_a_parquet_file_are_those_of_the_table(
    kind: str, rows_in_group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M28: read again and in parts, whatever its row groups are, a file has the ids that were written to it."""
    for name, value in SMALL.items():
        monkeypatch.setattr(f"runner.protocol.{name}", value)
    names: list[str | None] = [str(number * 7919 % 1000) for number in range(23)]
    names[5] = None
    column = pa.array(names, pa.large_string() if kind == "large text" else pa.string())
    if kind == "dictionary":
        column = column.dictionary_encode()
    if kind == "whole numbers":
        column = column.cast(pa.int64())
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"id": column, "label": ["a"] * len(names)}), path, row_group_size=rows_in_group)
    ids = read_predictions(path).ids
    assert list(idcolumn.all_texts(ids)) == names
    spans = ids.spans()
    assert [row for first, end in spans for row in range(first, end)] == list(range(23))
    assert len(spans) == {1: 8, 3: 8, 100: 1}[rows_in_group]
    for first, end in [(0, 23), (4, 9), (22, 23), (7, 7)]:
        parts = list(ids.read(first, end))
        assert [name for part in parts for name in part.to_pylist()] == names[first:end]
        assert all(len(part) <= 2 for part in parts)
    rows = [22, 0, 5, 5, 13]
    assert idcolumn.texts_at(ids, rows) == [names[row] for row in rows]
    same = HeldIds(pa.chunked_array([pa.array([name or "null" for name in names], pa.string())]))
    assert matching.positions_of(same, ids).tolist() == [-1 if name is None else row for row, name in enumerate(names)]


def test_m28_the_same_order_is_the_same_ids() -> None:
    """M28: one id elsewhere, one more, one less or null is another order; sizes of batches and types are not."""
    names = [f"é{number}" for number in range(20)]

    def ids(values: list[str | None], kind: pa.DataType = pa.string(), first: int = 7) -> HeldIds:  # noqa: B008
        return HeldIds(pa.chunked_array([pa.array(values[:first], kind), pa.array(values[first:], kind)]))

    expected = ids([*names])
    assert matching.in_same_order(expected, ids([*names], pa.large_string(), 3))
    assert matching.in_same_order(ids([*names], pa.large_string(), 3), expected)
    others = ([*names[:-1]], [*names, "x"], [*names[:-1], None], [*names[:-1], "x"], [names[1], names[0], *names[2:]])
    for other in others:
        assert not matching.in_same_order(expected, ids([*other]))


def test_m28_ids_that_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """M28: a hash that is the same for all ids costs time, never a wrong match."""
    monkeypatch.setattr(matching, "_slots", lambda words, bits, number: np.zeros(len(words), dtype=np.int64))
    ids = [f"doc-{number}" for number in range(200)]
    check_counts(ids, ids[::-1])
    check_counts(ids, [*ids[1:], "doc-200", "doc-7"])


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_m28_null_ids_and_ids_of_many_lengths(text: pa.DataType) -> None:
    """M28, M7: null is no id; `1`, `10` and `1` with a NUL are three ids; slices keep their offset."""
    ids = ["x" * length for length in range(1, 70)] + ["1", "10", "1\0", "é" * 30]
    column = pa.chunked_array([pa.array(["before", *ids], text)[1:]])
    shuffled = np.random.default_rng(0).permutation(len(ids))
    rows = pa.chunked_array([pa.array(["-", *(ids[place] for place in shuffled), None, "y" * 200], text)[1:]])
    assert matching.positions_of(HeldIds(column), HeldIds(rows)).tolist() == [*shuffled.tolist(), -1, -1]
    short = column.filter(pa.compute.less(pa.compute.binary_length(column), 20))
    found = matching.positions_of(HeldIds(short), HeldIds(rows))
    assert [short[place].as_py() if place >= 0 else None for place in found.tolist()] == [
        name.as_py() if name.is_valid and len(str(name.as_py()).encode()) < 20 else None for name in rows
    ]


def test_m28_a_null_matches_nothing_whatever_its_bytes_are() -> None:
    """M28: null is no id, also where its slot in memory still holds the bytes of one."""
    names = pa.array(["", "a", "doc"])
    _, offsets, data = names.buffers()
    nulls = pa.StringArray.from_buffers(3, offsets, data, pa.py_buffer(b"\x00"), 3)
    found = matching.positions_of(HeldIds(pa.chunked_array([names])), HeldIds(pa.chunked_array([nulls])))
    assert found.tolist() == [-1, -1, -1]


def test_m28_a_column_with_fewer_rows_than_it_says_is_not_the_same() -> None:
    """M28: rows that a damaged file does not give are no match."""

    class Short(HeldIds):
        def __len__(self) -> int:
            return super().__len__() + 1

    expected, short = (pa.chunked_array([pa.array(names)]) for names in (["a", "b", "c"], ["a", "b"]))
    assert not matching.in_same_order(HeldIds(expected), Short(short))
