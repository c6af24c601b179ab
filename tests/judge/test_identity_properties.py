"""Property tests of identity (M7, M28): whatever the ids are, the counts are those of a plain multiset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.protocol import identity, matching
from runner.protocol.predictions import Predictions

IDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=3)
NEAR_WORD_ENDS = st.text("a\0é", min_size=1, max_size=20)


def observed(ids: list[str]) -> Predictions:
    column = pa.chunked_array([pa.array(ids[:2], pa.string()), pa.array(ids[2:], pa.string())])
    return Predictions(Path("p"), "0" * 64, column, column, None, True, None, ())


def check_counts(expected: list[str], ids: list[str]) -> None:
    found = identity.match_ids(pa.chunked_array([pa.array(expected)]), observed(ids))
    counted = Counter(ids)
    counts = found.counts
    assert counts.missing == sum(name not in counted for name in expected)
    assert counts.unexpected == len(set(ids) - set(expected))
    assert counts.duplicate == sum(number > 1 for number in counted.values())
    assert counts.ids_match == (counted == Counter(expected))
    if counts.ids_match:
        values = np.array([expected.index(name) for name in ids])
        assert found.in_corpus_order(values).tolist() == list(range(len(expected)))


SMALL = {"_CHUNK": 2, "_TABLE_BYTES": 40}
WAYS = [{}, SMALL, {"_LONGEST_BYTES": 1}, {**SMALL, "_ROUNDS": 0}, {"_ROUNDS": 1}]


@pytest.mark.parametrize("limits", WAYS, ids=["as is", "small slices", "long ids", "every hash taken", "one table"])
@pytest.mark.parametrize("kind", ["any characters", "near the ends of words"])
def test_m28_counts_are_those_of_a_multiset(limits: dict[str, int], kind: str) -> None:
    """M28: however ids are sliced and hashed, and in whatever order, the counts are the same."""
    names = IDS if kind == "any characters" else NEAR_WORD_ENDS
    before = {name: getattr(matching, name) for name in limits}

    @settings(max_examples=60, deadline=None)
    @given(st.lists(names, unique=True, min_size=1, max_size=8), st.lists(names, max_size=8))
    def check(expected: list[str], extra: list[str]) -> None:
        for ids in (extra, expected + extra, expected[::-1], expected[1:]):
            check_counts(expected, ids)

    try:
        for name, value in limits.items():
            setattr(matching, name, value)
        check()
    finally:
        for name, value in before.items():
            setattr(matching, name, value)


def test_m28_ids_that_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """M28: a hash that is the same for all ids costs time, never a wrong match."""
    monkeypatch.setattr(matching, "_slots", lambda words, bits, number: np.zeros(len(words), dtype=np.uint32))
    ids = [f"doc-{number}" for number in range(200)]
    check_counts(ids, ids[::-1])
    check_counts(ids, [*ids[1:], "doc-200", "doc-7"])


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_m28_null_ids_and_ids_of_many_lengths(text: pa.DataType) -> None:
    """M28, M7: null is no id; `1`, `10` and `1` with a NUL are three ids; slices keep their offset."""
    ids = ["x" * length for length in range(1, 70)] + ["1", "10", "1\0", "é" * 30]
    expected = pa.chunked_array([pa.array(["before", *ids], text)[1:]])
    shuffled = np.random.default_rng(0).permutation(len(ids))
    rows = pa.chunked_array([pa.array(["-", *(ids[place] for place in shuffled), None, "y" * 200], text)[1:]])
    assert matching.positions_of(expected, rows).tolist() == [*shuffled.tolist(), -1, -1]
    short = expected.filter(pa.compute.less(pa.compute.binary_length(expected), 20))
    found = matching.positions_of(short, rows)
    assert [short[place].as_py() if place >= 0 else None for place in found.tolist()] == [
        name.as_py() if name.is_valid and len(str(name.as_py()).encode()) < 20 else None for name in rows
    ]
