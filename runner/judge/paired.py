"""Paired comparison of configurations on the same documents (McNemar): information, never a criterion (M29).

Two configurations with the same accuracy may be right on different documents. The exact test looks
only at the documents on which one of them is right and the other wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations

import numpy as np
import numpy.typing as npt

from runner.evidence.attempt import Attempt
from runner.evidence.verdict import PairedComparisons, PairedTest
from runner.units import round_half_up

METHOD = "McNemar, exact binomial, two-sided (scipy.special.bdtr)"
_PLACES = 6


@dataclass(frozen=True)
class Answers:
    """One accepted attempt: which documents of the corpus, in its order, it labelled right; shape (documents,)."""

    attempt: Attempt
    right: npt.NDArray[np.bool_]


def first_of_each(answers: Sequence[Answers]) -> Iterator[Answers]:
    """The first accepted attempt of every corpus, seed and configuration; passes of one are repeats, not evidence."""
    seen = set()
    for answer in answers:
        attempt = answer.attempt
        key = (attempt.corpus_id, attempt.seed, attempt.gpu_declared, attempt.variant_id)
        if key not in seen:
            seen.add(key)
            yield answer


def compare_pairs(answers: Sequence[Answers], lock_sha256: str) -> tuple[PairedComparisons, ...]:
    """Every pair of configurations, apart for every corpus and seed, in the order of the attempts."""
    chosen = list(first_of_each(answers))
    found = []
    for corpus_id in sorted({answer.attempt.corpus_id for answer in chosen}):
        mine = [answer for answer in chosen if answer.attempt.corpus_id == corpus_id]
        tests = tuple(
            _compared(first, second)
            for first, second in combinations(mine, 2)
            if first.attempt.seed == second.attempt.seed
        )
        if tests:
            found.append(PairedComparisons(lock_sha256=lock_sha256, corpus_id=corpus_id, method=METHOD, tests=tests))
    return tuple(found)


def _compared(first: Answers, second: Answers) -> PairedTest:
    both = int((first.right & second.right).sum())
    only_first, only_second = int(first.right.sum()) - both, int(second.right.sum()) - both
    return PairedTest(
        first=_configuration(first.attempt),
        second=_configuration(second.attempt),
        seed=first.attempt.seed,
        first_attempt=first.attempt.attempt_id,
        second_attempt=second.attempt.attempt_id,
        documents=len(first.right),
        both_right=both,
        only_first_right=only_first,
        only_second_right=only_second,
        both_wrong=len(first.right) - both - only_first - only_second,
        p_value=exact_p_value(only_first, only_second),
    )


def _configuration(attempt: Attempt) -> str:
    return f"{attempt.gpu_declared}.{attempt.variant_id}"


def exact_p_value(only_first: int, only_second: int) -> str:
    """Two-sided exact p of McNemar's test, half up to 6 places; without a discordant document it is 1."""
    from scipy.special import bdtr

    discordant = only_first + only_second
    tail = float(bdtr(min(only_first, only_second), discordant, 0.5)) if discordant else 1.0
    return format(round_half_up(Decimal(min(1.0, 2.0 * tail)), _PLACES), "f")
