"""WordPiece vocabulary learned from texts: the same vocabulary for the same texts, always.

The trainer of the `tokenizers` library breaks ties by hash order and gives another vocabulary on
every run; here the most frequent pair is merged, and of equal ones the first in code point order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

Pair = tuple[str, str]


def learn_vocabulary(words: Iterable[str], size: int, special: tuple[str, ...]) -> list[str]:
    """At most `size` entries: special tokens, characters, then merged pieces in the order of merging.

    A piece that continues a word begins with `##`, as WordPiece has it.
    """
    counts = Counter(words)
    pieces = [[word[0], *("##" + character for character in word[1:])] for word in counts]
    weights = list(counts.values())
    vocabulary = [*special, *sorted({piece for word in pieces for piece in word})]
    known = set(vocabulary)
    pair_counts: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(pieces):
        _count(word, number, weights[number], pair_counts, where)
    while len(vocabulary) < size and pair_counts:
        best = min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))
        if pair_counts[best] < 2:
            break
        merged = best[0] + best[1].removeprefix("##")
        for number in where.pop(best):
            _count(pieces[number], number, -weights[number], pair_counts, where)
            pieces[number] = _merge(pieces[number], best, merged)
            _count(pieces[number], number, weights[number], pair_counts, where)
        del pair_counts[best]
        if merged not in known:
            known.add(merged)
            vocabulary.append(merged)
    return vocabulary


def _count(
    word: list[str], number: int, weight: int, pair_counts: Counter[Pair], where: defaultdict[Pair, set[int]]
) -> None:
    for pair in pairwise(word):
        pair_counts[pair] += weight
        where[pair].add(number)


def _merge(word: list[str], pair: Pair, merged: str) -> list[str]:
    out: list[str] = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] = merged
        else:
            out.append(piece)
    return out
