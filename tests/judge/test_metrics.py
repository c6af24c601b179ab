"""Exact metrics (DESIGN 6.2), scikit-learn as the oracle; QU-07."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as oracle

from runner.judge.metrics import (
    Undefined,
    at_least,
    confusion,
    decimal_text,
    fraction_text,
    metric_value,
    short,
    wilson_interval,
)
from runner.protocol.schema import MetricName

CASES = Path(__file__).parent.parent / "cases"
PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60)


def value(name: MetricName, truth: list[int], predicted: list[int]) -> Fraction | Undefined:
    return metric_value(name, confusion(np.array(truth), np.array(predicted), 4))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_metrics_agree_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = [list(side) for side in zip(*pairs, strict=True)]
    present = sorted(set(truth))
    expected = {
        "accuracy": oracle.accuracy_score(truth, predicted),
        "balanced_accuracy": oracle.balanced_accuracy_score(truth, predicted),
        "macro_f1": oracle.f1_score(truth, predicted, labels=present, average="macro", zero_division=0),
        "weighted_f1": oracle.f1_score(truth, predicted, average="weighted", zero_division=0),
        "mcc": oracle.matthews_corrcoef(truth, predicted),
        "quadratic_kappa": oracle.cohen_kappa_score(truth, predicted, weights="quadratic", labels=[0, 1, 2, 3]),
    }
    for name, number in expected.items():
        found = value(name, truth, predicted)  # type: ignore[arg-type]
        if isinstance(found, Undefined):
            assert number == 0 or math.isnan(number), name
        else:
            assert math.isclose(float(found), number, abs_tol=1e-12), name


def test_qu_07_a_drop_equal_to_the_tolerance_is_within_it() -> None:
    """QU-07: 46/50 - 45/50 is exactly 0.02, and 45/50 exactly 0.90; 44/50 is below."""
    protocol = json.loads((CASES / "QU-07" / "protocol.json").read_text())
    threshold, tolerance = Fraction(protocol["threshold"]), Fraction(protocol["tolerance"])
    baseline = Fraction(46, 50)
    reached = {}
    for row in json.loads((CASES / "QU-07" / "counts.json").read_text()):
        accuracy = Fraction(row["correct"], row["total"])
        reached[row["config"]] = at_least(accuracy, threshold) and at_least(tolerance, baseline - accuracy)
    assert reached == {"A": True, "B": False, "C": True}
    assert 0.92 - 0.90 > 0.02  # what floats would have said


def test_a_metric_without_value_is_undefined_not_zero() -> None:
    assert isinstance(value("mcc", [1, 1, 1], [1, 2, 1]), Undefined)
    assert isinstance(value("quadratic_kappa", [1, 1], [1, 1]), Undefined)
    assert isinstance(metric_value("accuracy", [[0, 0], [0, 0]]), Undefined)


def test_matthews_coefficient_equal_to_its_threshold_passes() -> None:
    """A rational value is exact; an irrational one is compared finer than two such values can differ."""
    exact = value("mcc", [0, 0, 1, 1], [0, 0, 1, 0])  # 1/sqrt(3)
    assert isinstance(exact, Fraction)
    assert at_least(exact, exact)
    assert not at_least(exact, exact + Fraction(1, 10**100))
    assert value("mcc", [0, 1, 0, 1], [0, 1, 0, 1]) == 1


def test_shown_figures() -> None:
    assert decimal_text(Fraction(1, 3), 4) == "0.3333"
    assert decimal_text(Fraction(1, 8), 2) == "0.13"  # half up
    assert decimal_text(Fraction(-1, 8), 2) == "-0.13"
    assert decimal_text(Fraction(-1, 10**9), 2) == "0.00"
    assert fraction_text(Fraction(1, 2), 50) == "25/50"
    assert fraction_text(Fraction(1, 3), 50) == "1/3"
    assert short("0.500000") == "0.5" and short("10") == "10" and short("1.000") == "1"


def test_wilson_interval() -> None:
    """scipy is the oracle."""
    for right, documents in ((886, 1000), (0, 10), (10, 10), (1, 3), (999_999, 1_000_000)):
        interval = stats.binomtest(right, documents).proportion_ci(method="wilson")
        assert wilson_interval(right, documents) == (f"{interval.low:.6f}", f"{interval.high:.6f}")
