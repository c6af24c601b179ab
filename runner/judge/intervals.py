"""95 % interval of a metric: information, never a criterion (M29).

Accuracy: Wilson's interval of a share, in closed form, so that every machine writes the same digits.
Other metrics: percentile bootstrap over documents. All that such a resample can change are the counts
of the confusion matrix, so these are drawn, from a generator of numpy whose stream is frozen for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from runner.judge.metrics import Counts, Undefined, correct, metric_value, wilson_interval
from runner.protocol.schema import BuiltInMetric
from runner.units import round_half_up

RESAMPLES = 400
_SEED = 0
_PLACES = 6
WILSON = "Wilson, 95 %"
BOOTSTRAP = f"percentile bootstrap of {RESAMPLES} resamples, 95 %"


@dataclass(frozen=True)
class Interval:
    """Bounds as decimals of 6 places, and how they were found."""

    low: str
    high: str
    method: str


def metric_interval(metric: BuiltInMetric, counts: Counts) -> Interval | None:
    """The interval, or None without documents or where some resample has no value."""
    documents = sum(map(sum, counts))
    if not documents:
        return None
    if metric == "accuracy":
        return Interval(*wilson_interval(correct(counts), documents), WILSON)
    cells = np.array(counts, dtype=np.int64)
    found = []
    for drawn in _resampled(cells, documents):
        value = metric_value(metric, drawn.reshape(cells.shape).tolist())
        if isinstance(value, Undefined):
            return None
        found.append(value)
    found.sort()
    return Interval(_shown(found[RESAMPLES // 40]), _shown(found[-1 - RESAMPLES // 40]), BOOTSTRAP)


def _resampled(cells: npt.NDArray[np.int64], documents: int) -> npt.NDArray[np.int64]:
    """Shape (resamples, cells). Only cells that hold something can be drawn."""
    flat = cells.reshape(-1)
    filled = np.flatnonzero(flat)
    drawn = np.zeros((RESAMPLES, flat.size), dtype=np.int64)
    generator = np.random.RandomState(_SEED)  # the legacy one: its stream never changes between versions
    drawn[:, filled] = generator.multinomial(documents, flat[filled] / documents, size=RESAMPLES)
    return drawn


def _shown(value: Fraction) -> str:
    return format(round_half_up(Decimal(value.numerator) / value.denominator, _PLACES), "f")
