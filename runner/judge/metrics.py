"""Metrics as exact numbers from the confusion matrix, so that the figure shown is the figure judged.

Ratios of counts are `Fraction`s. Matthews' coefficient has a root in it: it is kept as numerator and
squared denominator and compared in integer arithmetic that is finer than any two such values can be
apart. scikit-learn is the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isqrt

import numpy as np
import numpy.typing as npt

from runner.protocol.parallel import in_threads, spans_of
from runner.protocol.predictions import Codes
from runner.protocol.reference import Parts
from runner.protocol.schema import OWN, BuiltInMetric, MetricName
from runner.units import round_half_up

_ROOT_DIGITS = 200  # two different sums of such roots differ long before
_SHOWN_PLACES = 12
_AT_ONCE = 1 << 16  # documents counted at once: temporary arrays stay in the cache
_Z = Decimal("1.959963984540054")  # 97.5 % quantile of the normal distribution

Counts = list[list[int]]
"""`counts[truth][prediction]`: documents; classes in the order of the label table."""


@dataclass(frozen=True)
class Undefined:
    """A metric without a value on these documents, and why; never 0."""

    reason: str


Value = Fraction | Undefined


def confusion(truth: Codes, predicted: Codes, classes: int) -> Counts:
    """Counts of (truth, prediction) pairs; both arrays hold classes 0..classes-1, shape (documents,)."""
    return confusions(truth, predicted, classes)[0]


def confusions(truth: Codes, predicted: Codes, classes: int, parts: Parts | None = None) -> list[Counts]:
    """`confusion` of every part of the documents, in one pass; None: all documents are one part."""
    count = 1 if parts is None else parts.count
    cells = count * classes * classes

    def counted(first: int, end: int) -> npt.NDArray[np.intp]:
        pairs = truth[first:end].astype(np.int64)
        if parts is not None:
            pairs += parts.number[parts.codes[first:end]] * classes
        pairs *= classes
        pairs += predicted[first:end]
        return np.bincount(pairs, minlength=cells)

    flat = np.zeros(cells, dtype=np.int64)
    for found in in_threads(counted, spans_of(len(truth), max(_AT_ONCE, 4 * cells))):
        flat += found
    result: list[Counts] = flat.reshape(count, classes, classes).tolist()
    return result


def metric_value(name: BuiltInMetric, counts: Counts) -> Value:
    """The metric as an exact fraction (Matthews' coefficient: to 200 digits), or why it has none."""
    if sum(map(sum, counts)) == 0:
        return Undefined("no document")
    return _METRICS[name](counts)


def is_exact(name: MetricName) -> bool:
    """Is the metric a ratio of counts?"""
    return name not in ("mcc", OWN)


def at_least(value: Fraction, limit: Fraction) -> bool:
    """`value >= limit`; values closer than the precision of the roots are equal."""
    return value - limit >= -Fraction(1, 10 ** (_ROOT_DIGITS - 20))


def decimal_text(value: Fraction, places: int = _SHOWN_PLACES) -> str:
    """Half up to `places` decimals, for display and for records."""
    scaled = abs(value) * 10**places
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    if 2 * rest >= scaled.denominator:
        whole += 1
    sign = "-" if value < 0 and whole else ""
    return sign + format(Decimal(whole).scaleb(-places), "f")


def short(decimal: str) -> str:
    """Without zeros at the end, for sentences: `0.5`."""
    return decimal.rstrip("0").rstrip(".") if "." in decimal else decimal


def fraction_text(value: Fraction, documents: int | None = None) -> str:
    """`886/1000`: over the number of documents where the fraction is a share of them."""
    if documents and (value * documents).denominator == 1:
        return f"{value * documents}/{documents}"
    return f"{value.numerator}/{value.denominator}"


def correct(counts: Counts) -> int:
    """Documents on the diagonal."""
    return sum(row[index] for index, row in enumerate(counts))


def _total(counts: Counts) -> int:
    return sum(map(sum, counts))


def _supports(counts: Counts) -> list[int]:
    return [sum(row) for row in counts]


def _predicted(counts: Counts) -> list[int]:
    return [sum(column) for column in zip(*counts, strict=True)]


def _accuracy(counts: Counts) -> Value:
    return Fraction(correct(counts), _total(counts))


def _balanced_accuracy(counts: Counts) -> Value:
    """Mean recall of the classes that the labels hold."""
    return _mean([Fraction(counts[index][index], support) for index, support in _present(counts)])


def _macro_f1(counts: Counts) -> Value:
    return _mean([_f1(counts, index) for index, _ in _present(counts)])


def _weighted_f1(counts: Counts) -> Value:
    weighted = sum((_f1(counts, index) * support for index, support in _present(counts)), Fraction(0))
    return weighted / _total(counts)


def _f1(counts: Counts, index: int) -> Fraction:
    """2 TP / (2 TP + FP + FN); the denominator is not 0 for a class that the labels hold."""
    return Fraction(2 * counts[index][index], _supports(counts)[index] + _predicted(counts)[index])


def _present(counts: Counts) -> list[tuple[int, int]]:
    """Classes of the labels with their support: averages run over these."""
    return [(index, support) for index, support in enumerate(_supports(counts)) if support]


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _mcc(counts: Counts) -> Value:
    """Matthews' correlation of several classes."""
    total, supports, predicted = _total(counts), _supports(counts), _predicted(counts)
    covariance = correct(counts) * total - sum(t * p for t, p in zip(supports, predicted, strict=True))
    spread_truth = total**2 - sum(count**2 for count in supports)
    spread_predicted = total**2 - sum(count**2 for count in predicted)
    if not spread_truth or not spread_predicted:
        side = "labels" if not spread_truth else "predictions"
        return Undefined(f"Matthews' coefficient is undefined: all {side} are of one class")
    square = spread_truth * spread_predicted
    root = isqrt(square)
    if root * root == square:
        return Fraction(covariance, root)
    scale: int = 10**_ROOT_DIGITS
    return Fraction(covariance * scale, isqrt(square * scale**2))


def _quadratic_kappa(counts: Counts) -> Value:
    """Cohen's kappa with weights (i - j)², classes in the order of the label table."""
    supports, predicted, total = _supports(counts), _predicted(counts), _total(counts)
    classes = range(len(counts))
    observed = sum((i - j) ** 2 * counts[i][j] for i in classes for j in classes) * total
    expected = sum((i - j) ** 2 * supports[i] * predicted[j] for i in classes for j in classes)
    if not expected:
        return Undefined("kappa is undefined: labels and predictions are all of the same class")
    return 1 - Fraction(observed, expected)


_METRICS: dict[BuiltInMetric, Callable[[Counts], Value]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "macro_f1": _macro_f1,
    "weighted_f1": _weighted_f1,
    "mcc": _mcc,
    "quadratic_kappa": _quadratic_kappa,
}


def wilson_interval(right: int, documents: int) -> tuple[str, str]:
    """95 % interval of a share of documents (Wilson), as decimals; information, never a criterion.

    Closed form in decimals, so that every machine writes the same digits (and scipy's import is saved).
    """
    share, count = Decimal(right) / documents, Decimal(documents)
    spread = (share * (1 - share) / count + _Z * _Z / (4 * count * count)).sqrt()
    centre, scale = share + _Z * _Z / (2 * count), 1 + _Z * _Z / count
    low, high = max((centre - _Z * spread) / scale, Decimal(0)), min((centre + _Z * spread) / scale, Decimal(1))
    return format(round_half_up(low, 6), "f"), format(round_half_up(high, 6), "f")
