"""Rules 1 and 2 of judgement, written again from their text alone: ids, format, metric, drop, agreement, subgroups.

Plain Python over lists of rows; every number is a Fraction. Nothing here imports the rooms that it checks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Group:
    """A planned subgroup: documents whose group is `value` must reach `minimum`."""

    value: str
    minimum: str
    metric: str | None = None


@dataclass(frozen=True)
class Rules:
    metric: str
    threshold: str
    max_drop: str
    min_agreement: str
    max_flips: int | None = None
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True)
class Document:
    id: str
    label: str
    group: str
    baseline: str


@dataclass(frozen=True)
class Surd:
    """sign * sqrt(square): Matthews' coefficient without rounding."""

    sign: int
    square: Fraction


def confusion(pairs: Sequence[tuple[str, str]]) -> tuple[Counter[tuple[str, str]], Counter[str], Counter[str]]:
    return Counter(pairs), Counter(right for right, _ in pairs), Counter(said for _, said in pairs)


def recall_mean(pairs: Sequence[tuple[str, str]]) -> Fraction:
    cells, truth, _ = confusion(pairs)
    return sum((Fraction(cells[name, name], truth[name]) for name in truth), Fraction(0)) / len(truth)


def f1(pairs: Sequence[tuple[str, str]], *, weighted: bool) -> Fraction:
    """Over the classes of the labels (rule 14); a class that is never predicted has the value 0."""
    cells, truth, said = confusion(pairs)
    total = Fraction(0)
    for name in truth:
        value = Fraction(2 * cells[name, name], truth[name] + said[name])
        total += value * Fraction(truth[name], len(pairs)) if weighted else value / len(truth)
    return total


def mcc(pairs: Sequence[tuple[str, str]]) -> Surd | None:
    """Gorodkin's coefficient for any number of classes; no value where one side has one class only."""
    cells, truth, said = confusion(pairs)
    n, hits = len(pairs), sum(count for (a, b), count in cells.items() if a == b)
    top = hits * n - sum(truth[name] * said[name] for name in {*truth, *said})
    below = (n * n - sum(v * v for v in said.values())) * (n * n - sum(v * v for v in truth.values()))
    if below == 0:
        return None
    return Surd((top > 0) - (top < 0), Fraction(top * top, below))


def kappa(pairs: Sequence[tuple[str, str]], table: Sequence[str]) -> Fraction | None:
    """Cohen's kappa, weights (i - j) squared, classes in the order of the frozen table."""
    place = {name: index for index, name in enumerate(table)}
    _, truth, said = confusion(pairs)
    seen = sum((Fraction((place[a] - place[b]) ** 2) for a, b in pairs), Fraction(0))
    chance = sum(
        (Fraction((place[a] - place[b]) ** 2 * truth[a] * said[b], len(pairs)) for a in truth for b in said),
        Fraction(0),
    )
    return None if chance == 0 else 1 - seen / chance


def value(metric: str, pairs: Sequence[tuple[str, str]], table: Sequence[str]) -> Fraction | Surd | None:
    if not pairs:
        return None
    if metric == "accuracy":
        return Fraction(sum(a == b for a, b in pairs), len(pairs))
    if metric == "balanced_accuracy":
        return recall_mean(pairs)
    if metric == "macro_f1":
        return f1(pairs, weighted=False)
    if metric == "weighted_f1":
        return f1(pairs, weighted=True)
    if metric == "mcc":
        return mcc(pairs)
    return kappa(pairs, table)


def reaches(found: Fraction | Surd | None, least: str) -> bool:
    limit = Fraction(least)
    if found is None:
        return False
    if isinstance(found, Fraction):
        return found >= limit
    signed, wanted = found.sign * found.square, limit * abs(limit)
    return signed >= wanted


def real(found: Fraction | Surd) -> float:
    return float(found) if isinstance(found, Fraction) else found.sign * math.sqrt(found.square)


def dropped_too_far(base: Fraction | Surd, found: Fraction | Surd, most: str) -> bool:
    """base - found > most, exactly; for two roots by squaring."""
    limit = Fraction(most)
    if isinstance(base, Fraction) and isinstance(found, Fraction):
        return base - found > limit
    # b > f + t, all real: compare the roots by squaring twice, with the signs looked at
    assert isinstance(base, Surd) and isinstance(found, Surd)
    return _compare(base, found, limit) > 0


def _compare(base: Surd, found: Surd, limit: Fraction) -> int:
    """Sign of base - found - limit, by intervals that are halved until they tell (or equality by squares)."""
    if base.square == found.square and base.sign == found.sign:
        return -1 if limit > 0 else (1 if limit < 0 else 0)
    digits = 50
    while digits < 2000:
        scale = 10**digits
        low_b, high_b = _bounds(base, scale)
        low_f, high_f = _bounds(found, scale)
        if low_b - high_f - limit > 0:
            return 1
        if high_b - low_f - limit < 0:
            return -1
        digits *= 4
    return 0


def _bounds(surd: Surd, scale: int) -> tuple[Fraction, Fraction]:
    root = math.isqrt(surd.square.numerator * scale * scale // surd.square.denominator)
    low, high = Fraction(root, scale), Fraction(root + 1, scale)
    if Fraction(root * root) == surd.square * scale * scale:
        high = low
    return (low, high) if surd.sign >= 0 else (-high, -low)


def judge(
    documents: Sequence[Document],
    rows: Sequence[tuple[str, str, float | None]],
    table: Sequence[str],
    rules: Rules,
) -> str | None:
    """The first check that refuses these predictions, or None: accepted."""
    wanted, seen = Counter(document.id for document in documents), Counter(row[0] for row in rows)
    if wanted != seen:
        return "ids"
    if any(label not in table for _, label, _ in rows):
        return "labels"
    if any(score is None or not math.isfinite(score) or not 0 <= score <= 1 for _, _, score in rows):
        return "scores"
    said = {name: label for name, label, _ in rows}
    pairs = [(document.label, said[document.id]) for document in documents]
    base = value(rules.metric, [(document.label, document.baseline) for document in documents], table)
    found = value(rules.metric, pairs, table)
    if not reaches(found, rules.threshold):
        return "metric"
    if base is None or found is None or dropped_too_far(base, found, rules.max_drop):
        return "drop"
    equal = sum(said[document.id] == document.baseline for document in documents)
    if Fraction(equal, len(documents)) < Fraction(rules.min_agreement):
        return "agreement"
    if rules.max_flips is not None and len(documents) - equal > rules.max_flips:
        return "flips"
    for group in rules.groups:
        inside = [(d.label, said[d.id]) for d in documents if d.group == group.value]
        if not reaches(value(group.metric or rules.metric, inside, table), group.minimum):
            return "subgroup"
    return None
