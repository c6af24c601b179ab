"""Property tests of identity (M7, M28): whatever the ids are, the counts are those of a plain multiset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.protocol import identity
from runner.protocol.predictions import Predictions

IDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=3)


def observed(ids: list[str]) -> Predictions:
    column = pa.chunked_array([pa.array(ids[:2], pa.string()), pa.array(ids[2:], pa.string())])
    return Predictions(Path("p"), "0" * 64, column, column, None, True, None, ())


@pytest.mark.parametrize("at_once", [2, 4_000_000])
@settings(max_examples=60, deadline=None)
@given(st.lists(IDS, unique=True, min_size=1, max_size=8), st.lists(IDS, max_size=8))
def test_counts_are_those_of_a_multiset(at_once: int, expected: list[str], extra: list[str]) -> None:
    """The slices of the hash table do not matter, nor does the order."""
    before = identity._HASHED_AT_ONCE
    identity._HASHED_AT_ONCE = at_once
    try:
        for ids in (extra, expected + extra, expected[::-1], expected[1:]):
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
    finally:
        identity._HASHED_AT_ONCE = before
