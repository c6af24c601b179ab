"""Near-duplicates: texts that share most of their word triples. Reported, never removed.

Candidates come from MinHash signatures (16 groups of 4 out of 64 hashes: pairs above a similarity of
0.8 are missed about once in 4,000 times); every reported similarity is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from runner.corpus.overlap import normalised_text

LEAST = 0.8
_GROUPS, _GROUP = 16, 4
_PRIME = (1 << 61) - 1
_LISTED = 20
MOST_DOCUMENTS = 50_000  # above it the search is left out, and the data sheet says so
Documents = Sequence[tuple[str, str]]
"""(id, text) of each document."""
_NEIGHBOURS = 8  # in a crowd of look-alikes only this many earlier ones are compared with each text


class Similar(NamedTuple):
    """Two texts (indices, first < second) and the share of word triples that they have in common."""

    first: int
    second: int
    similarity: float


def near_duplicates(texts: Sequence[str], references: Sequence[str] | None = None) -> list[Similar]:
    """For each text the most similar earlier text, or the most similar reference, if that is similar enough.

    With `references`, `Similar.first` is an index into them and texts are not compared among themselves.
    """
    crowds = _Crowds(references or ())
    found = []
    for number, text in enumerate(texts):
        best = crowds.most_similar(text, add=references is None)
        if best is not None:
            found.append(Similar(best[0], number, best[1]))
    return found


class _Crowds:
    """Texts by the groups of their signatures: look-alikes meet in at least one group."""

    def __init__(self, texts: Sequence[str]) -> None:
        draw = np.random.default_rng(2026)
        # Fixed linear maps modulo 2**61 - 1; products of 29 and 32 bits fit.
        self._factors = draw.integers(1, 1 << 29, size=(_GROUPS * _GROUP, 1), dtype=np.uint64)
        self._offsets = draw.integers(0, 1 << 60, size=(_GROUPS * _GROUP, 1), dtype=np.uint64)
        self._members: list[frozenset[int]] = []
        self._crowds: defaultdict[bytes, list[int]] = defaultdict(list)
        for text in texts:
            shingles = _shingles(text)
            self._add(shingles, self._keys(shingles))

    def most_similar(self, text: str, *, add: bool) -> tuple[int, float] | None:
        """(member, similarity) of the best member above the limit; `add`: the text becomes a member."""
        shingles = _shingles(text)
        keys = self._keys(shingles)
        candidates = sorted({other for key in keys for other in self._crowds[key][-_NEIGHBOURS:]})
        best = max(((_similarity(shingles, self._members[other]), -other) for other in candidates), default=(0.0, 0))
        if add:
            self._add(shingles, keys)
        return (-best[1], best[0]) if best[0] >= LEAST else None

    def _add(self, shingles: frozenset[int], keys: Sequence[bytes]) -> None:
        for key in keys:
            self._crowds[key].append(len(self._members))
        self._members.append(shingles)

    def _keys(self, shingles: frozenset[int]) -> list[bytes]:
        values = np.fromiter(shingles, dtype=np.uint64, count=len(shingles))
        signature = ((self._factors * values + self._offsets) % np.uint64(_PRIME)).min(axis=1)
        groups = signature.reshape(_GROUPS, _GROUP)
        return [bytes([number]) + group.tobytes() for number, group in enumerate(groups)]


def _shingles(text: str) -> frozenset[int]:
    """Hashes of all runs of three words; of the whole text if it is shorter."""
    words = normalised_text(text).split()
    runs = [" ".join(words[start : start + 3]) for start in range(max(1, len(words) - 2))]
    return frozenset(crc32(run.encode("utf-8", "surrogatepass")) for run in runs)


def _similarity(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other)


def similarity_facts(final: Documents, tuning: Documents | None = None) -> dict[str, Any]:
    """What the data sheet says: inside the final split, and final documents like a tuning one."""
    texts = [text for _, text in final]
    facts: dict[str, Any] = {
        "searched": True,
        "least_similarity": str(LEAST),
        "inside_final": _facts(near_duplicates(texts), final, final),
    }
    if tuning is not None:
        pairs = near_duplicates(texts, [text for _, text in tuning])
        facts["final_like_tuning"] = _facts(pairs, tuning, final)
    return facts


def _facts(pairs: Sequence[Similar], first: Documents, second: Documents) -> dict[str, Any]:
    listed = sorted(pairs, key=lambda pair: (-pair.similarity, pair.second))[:_LISTED]
    return {
        "documents": len(pairs),
        "most_similar": [
            {"ids": [first[pair.first][0], second[pair.second][0]], "similarity": f"{pair.similarity:.3f}"}
            for pair in listed
        ],
    }
