"""95 % intervals of metrics (M29, issue 3 line 6): information, checked against scipy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as oracle

from runner.judge.intervals import BOOTSTRAP, WILSON, metric_interval
from runner.judge.metrics import confusion
from runner.protocol.schema import BuiltInMetric

RANDOM = np.random.default_rng(3)
TRUTH = RANDOM.integers(0, 3, 400).astype(np.int32)
FOUND = np.where(RANDOM.random(400) < 0.8, TRUTH, RANDOM.integers(0, 3, 400)).astype(np.int32)
ORACLES = {
    "balanced_accuracy": oracle.balanced_accuracy_score,
    "macro_f1": lambda truth, found: oracle.f1_score(truth, found, average="macro"),
    "weighted_f1": lambda truth, found: oracle.f1_score(truth, found, average="weighted"),
    "mcc": oracle.matthews_corrcoef,
    "quadratic_kappa": lambda truth, found: oracle.cohen_kappa_score(truth, found, weights="quadratic"),
}


@pytest.mark.parametrize("metric", ORACLES)
def test_m29_the_bootstrap_agrees_with_scipy(metric: BuiltInMetric) -> None:
    """M29: scipy resamples the documents themselves; the bounds of two such draws lie close together."""
    expected = stats.bootstrap(
        (TRUTH, FOUND), ORACLES[metric], paired=True, vectorized=False, n_resamples=400, method="percentile", rng=1
    ).confidence_interval
    found = metric_interval(metric, confusion(TRUTH, FOUND, 3))
    assert found is not None and found.method == BOOTSTRAP
    assert abs(float(found.low) - expected.low) < 0.015 and abs(float(found.high) - expected.high) < 0.015


def test_m29_the_interval_of_an_accuracy_is_wilsons() -> None:
    counts = confusion(TRUTH, FOUND, 3)
    right = int((TRUTH == FOUND).sum())
    expected = stats.binomtest(right, 400).proportion_ci(0.95, method="wilson")
    found = metric_interval("accuracy", counts)
    assert found is not None and found.method == WILSON
    assert (float(found.low), float(found.high)) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_m29_the_same_counts_give_the_same_digits() -> None:
    """A verdict that is computed again is the same, byte by byte: golden digits of numpy's frozen stream."""
    found = metric_interval("macro_f1", [[40, 3], [5, 52]])
    assert found is not None
    assert json.dumps([found.low, found.high]) == GOLDEN


def test_m29_where_a_resample_has_no_value_there_is_no_interval() -> None:
    assert metric_interval("mcc", [[1, 0], [0, 1]]) is None  # a resample may hold one class only
    assert metric_interval("macro_f1", [[0, 0], [0, 0]]) is None


GOLDEN = '["0.856179", "0.969633"]'
