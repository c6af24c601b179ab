"""Summaries of durations (M30): raw values, exact median, no invented range, no percentile."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.decide.model import Summary
from runner.decide.summaries import median
from runner.decide.tables import attempt_rows
from runner.evidence.attempt import Status
from runner.units import exact_seconds
from tests.decide.worlds import World

CASES = Path(__file__).parents[1] / "cases"


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _summary(world: World, name: str) -> Summary:
    (summary,) = world.row(name).summaries
    return summary


def test_ti_05_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    """TI-05."""
    world = World()
    for record in _lines(CASES / "TI-05" / "records.jsonl"):
        world.add(str(record["config"]), "b1", str(record["duration_s"]))
    one, other = _summary(world, "A.b1"), _summary(world, "B.b1")
    assert (one.median_seconds, one.accepted) == ("13.0", 4)
    assert (other.median_seconds, other.accepted) == ("12.0", 2)
    assert one.raw_seconds == (14.0, 10.0, 40.0, 12.0)
    assert (one.minimum_seconds, one.maximum_seconds, one.range_seconds) == ("10.0", "40.0", "30.0")


def test_ti_06_one_pass_has_no_range() -> None:
    """TI-06: null with a reason, never 0."""
    world = World()
    world.add("A", "b1", "10.0")
    summary = _summary(world, "A.b1")
    assert summary.range_seconds is None
    assert summary.range_reason is not None and summary.range_reason.text == "not defined (n = 1)"
    assert summary.median_seconds == "10.0"


def test_median_is_exact_where_floats_are_not() -> None:
    assert median([Decimal("0.1"), Decimal("0.2")]) == Decimal("0.15")
    assert median([exact_seconds(0.1), exact_seconds(1e16)]) == Decimal("5000000000000000.05")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(min_value=1e-9, max_value=1e6), min_size=1, max_size=9))
def test_median_agrees_with_exact_fractions_in_any_order(values: list[float]) -> None:
    """From a nanosecond to eleven days: the clocks resolve nothing finer."""
    exact = sorted(Fraction(exact_seconds(value)) for value in values)
    half = len(exact) // 2
    wanted = exact[half] if len(exact) % 2 else (exact[half - 1] + exact[half]) / 2
    assert Fraction(median([exact_seconds(value) for value in reversed(values)])) == wanted


def test_m23_failures_stay_and_m31_not_counted_ones_are_counted_apart() -> None:
    world = World()
    world.passes("A", "b1", "10", "11")
    world.add("A", "b1", None, status=Status.OUT_OF_MEMORY, completed=40)
    world.add("A", "b1", None, status=Status.INTERRUPTED, completed=3)
    world.add("A", "b1", "9", accepted=False)
    summary = _summary(world, "A.b1")
    assert (summary.attempts, summary.accepted, summary.failures, summary.not_counted) == (5, 2, 2, 1)
    assert summary.raw_seconds == (10.0, 11.0)


def test_documents_per_second_tokens_and_largest_peak_stand_beside_the_time() -> None:
    world = World()
    world.passes("A", "b1", "8", "10", "12")
    summary = _summary(world, "A.b1")
    assert summary.documents_per_second == "10.000000"
    assert (summary.real_tokens, summary.computed_tokens, summary.truncated_documents) == (1000, 1500, 0)
    assert summary.peak_memory == (("cuda:0", "max_memory_allocated", "tensors", 1 << 30),)


@pytest.mark.parametrize("field", Summary.model_fields)
def test_m30_no_percentile_is_kept(field: str) -> None:
    assert "p95" not in field and "percentile" not in field and "quantile" not in field


def test_utilisation_is_the_median_of_accepted_passes_or_unknown() -> None:
    """Issue 6 point 5: far from what the device can do, said in numbers; one pass without it leaves it unknown."""
    world = World()
    for seconds, shares in (("10.0", (0.1, 0.3)), ("11.0", (0.3, 0.5)), ("12.0", (0.2, 0.4))):
        world.add("A", "b1", seconds)
        real, executed = shares
        world.attempts[-1] = world.attempts[-1].model_copy(
            update={"telemetry": {"utilisation_real": real, "utilisation_executed": executed}}
        )
        world.add("B", "b1", seconds)
    summary = _summary(world, "A.b1")
    assert (summary.utilisation_real, summary.utilisation_executed) == ("0.2", "0.4")
    row, other, *_ = attempt_rows(world.attempts, {verdict.attempt_id: verdict for verdict in world.verdicts}, {})
    assert (row["utilisation_real"], row["utilisation_executed"]) == (Decimal("0.1"), Decimal("0.3"))
    assert _summary(world, "B.b1").utilisation_real is None
    assert other["utilisation_real"] is None
    assert json.loads(str(other["missing"]))["utilisation_real"] == "unknown: not measured"


def test_issue_6_point_5_every_pass_is_held_against_the_fastest_rate_of_its_device() -> None:
    """The first pass knew a slow rate (others were at work), the last a faster one, the second none; another card
    has its own. Operations and durations are in the rows: the shares are computed when all rates are known."""
    world = World()
    for gpu, seconds, rate in (("A", 10.0, 50.0), ("A", 10.0, None), ("A", 5.0, 200.0), ("B", 10.0, 40.0)):
        world.add(gpu, "b1", str(seconds))
        telemetry = {"flops_real": 1000, "flops_executed": 3000.0, "matrix_flops_rate": rate, "utilisation_real": 0.9}
        world.attempts[-1] = world.attempts[-1].model_copy(update={"telemetry": telemetry})
    assert _summary(world, "A.b1").utilisation_real == "0.5"
    rows = attempt_rows(world.attempts, {verdict.attempt_id: verdict for verdict in world.verdicts}, {})
    found = {
        (row["gpu_declared"], str(row["pass_seconds"]), row["utilisation_real"], row["utilisation_executed"])
        for row in rows
    }
    assert found == {
        ("A", "10.0", Decimal("0.5"), None),  # 1.5 of the rate is no share of it
        ("A", "5.0", Decimal("1.0"), None),
        ("B", "10.0", None, None),
    }
    (other,) = [row for row in rows if row["gpu_declared"] == "B"]
    assert "faster than the matrix product" in json.loads(str(other["missing"]))["utilisation_real"]
    assert all(attempt.telemetry["utilisation_real"] == 0.9 for attempt in world.attempts), "records stay as they are"
