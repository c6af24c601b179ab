"""Several catalogues, the plan against what happened, the forecast: apart from results (M17, M35, M40)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Phase, PhaseName, Status
from runner.pricing.catalogues import Wanted, cheapest_by_currency, side_by_side
from runner.pricing.core import Catalogue, parse_catalogue
from runner.pricing.forecast import forecast
from runner.pricing.happened import compare, measured_tasks, phase_totals
from runner.pricing.planfile import read_window
from runner.pricing.tariffs import load_catalogue
from tests.decide.worlds import World

ROOT = Path(__file__).resolve().parents[2]
HEADER = (
    "gpu,device_pattern,cards_per_lot,memory_gib_per_card,days,"
    "price_per_lot,currency,catalogue_date,source,lots_available"
)


def catalogue(name: str, *lines: str) -> Catalogue:
    """Lines such as `h 1 7 550.00 EUR`: gpu, cards per lot, days, price, currency."""
    rows = []
    for line in lines:
        gpu, cards, days, price, currency = line.split()
        rows.append(f"{gpu},Made-up {gpu},{cards},80,{days},{price},{currency},2026-05-01,list of {name},")
    return parse_catalogue("\n".join([HEADER, *rows, ""]).encode(), name)


# ---- several catalogues --------------------------------------------------------------------------


def test_catalogues_stand_side_by_side_with_date_and_source() -> None:
    one, two = catalogue("one", "h 1 7 550.00 EUR"), catalogue("two", "h 2 7 900.00 EUR", "x 1 3 1.00 EUR")
    three = catalogue("three", "x 1 3 1.00 EUR")
    found = side_by_side([one, two, three], "h", Wanted(cards=4), days=7)
    assert [(item.lots, item.answer.total if item.answer else item.reason) for item in found] == [
        (4, Decimal("2200.00")),
        (2, Decimal("1800.00")),
        (None, "not in this catalogue"),
    ]
    assert [item.catalogue.name for item in cheapest_by_currency(found)["EUR"]] == ["two"]
    assert found[0].answer is not None and found[0].answer.offer is not None
    assert (found[0].answer.offer.source, str(found[0].answer.offer.catalogue_date)) == ("list of one", "2026-05-01")


def test_currencies_are_never_compared_and_ties_are_all_named() -> None:
    """PR-12: no conversion without a stated rate and date."""
    many = [
        catalogue(name, f"h 1 7 {price}")
        for name, price in (("a", "300.00 EUR"), ("b", "1.00 USD"), ("c", "300.00 EUR"), ("d", "301.00 EUR"))
    ]
    best = cheapest_by_currency(side_by_side(many, "h", Wanted(), days=7))
    names = {code: [one.catalogue.name for one in ones] for code, ones in best.items()}
    assert names == {"EUR": ["a", "c"], "USD": ["b"]}


@pytest.mark.parametrize(("gpu", "days"), [("unknown", 7), ("h", 3), ("h", 5)])
def test_what_no_catalogue_knows_is_refused(gpu: str, days: int) -> None:
    """M40: nothing is derived from another package or another catalogue."""
    both = [catalogue("one", "h 1 7 550.00 EUR"), catalogue("two", "h 1 30 1.00 EUR")]
    with pytest.raises(InputRefused):
        side_by_side(both, gpu, Wanted(), days=days)


def test_a_window_is_answered_by_each_catalogue() -> None:
    both = [catalogue("one", "h 1 7 550.00 EUR"), catalogue("two", "h 1 3 1.00 EUR")]
    first, second = side_by_side(both, "h", Wanted(), window_seconds=Decimal(96 * 3600))
    assert first.answer is not None and first.answer.days == 7
    assert (second.answer, second.reason) == (None, "no price")


# ---- plan and reality ----------------------------------------------------------------------------


def changed(attempt: Attempt, **fields: Any) -> Attempt:
    return attempt.model_copy(update={"corpus_id": "demo-final"} | fields)


def test_the_plan_is_shown_against_the_attempts() -> None:
    """A measurement task really ran from the first start to the last end; what is not recorded says so."""
    plan, planned = read_window(ROOT / "protocol" / "plan.toml")
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    ran = [
        changed(attempt, started_at_utc=f"2027-10-04T1{n}:00:00Z", ended_at_utc=f"2027-10-04T1{n}:30:00Z")
        for n, attempt in enumerate(world.attempts)
    ]
    absent = changed(ran[0], status=Status.UNAVAILABLE, started_at_utc="2026-10-01T00:00:00Z")
    rows = {row.id: row for row in compare(planned, measured_tasks(plan, [*ran, absent]))}
    measure = rows["measure"]
    assert measure.actual is not None and measure.actual[1] - measure.actual[0] == timedelta(hours=2, minutes=30)
    assert (measure.later_seconds, measure.longer_seconds) == (0, Decimal("-77400"))
    assert rows["collect"].actual is None and rows["collect"].reason == "not recorded"


def test_tasks_that_nobody_planned_are_shown_too() -> None:
    _, planned = read_window(ROOT / "protocol" / "plan.toml")
    surprise = replace(planned.tasks[0], id="driver-update")
    later = replace(
        planned.tasks[0],
        start=planned.tasks[0].start + timedelta(hours=1),
        end=planned.tasks[0].end + timedelta(hours=3),
    )
    rows = compare(planned, [surprise, later])
    assert rows[-1].id == "driver-update" and rows[-1].reason == "not in the plan"
    assert (rows[0].later_seconds, rows[0].longer_seconds) == (3600, 7200)


def test_phases_outside_the_pass_are_added_up() -> None:
    """M17: they occupy the rental. Unknown is left out, parts inside the pass are not added twice."""
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    phases = (
        Phase(name=PhaseName.LOAD, seconds=0.1),
        Phase(name=PhaseName.READ, seconds=9.0, inside_pass=True),
        Phase(name=PhaseName.DOWNLOAD, seconds=None, reason="local"),
    )
    assert phase_totals([changed(one, phases=phases) for one in world.attempts]) == {"load": Decimal("0.3")}


# ---- forecast ------------------------------------------------------------------------------------


def test_a_forecast_shows_which_package_the_measured_range_needs() -> None:
    """The range lies across the limit of 3 days: the spread decides, and that is said."""
    prices = catalogue("c", "h 1 3 300.00 EUR", "h 1 7 550.00 EUR")
    found = forecast(
        1_000_000,
        measured_documents=1000,
        fastest=Decimal(250),
        slowest=Decimal(260),
        catalogue=prices,
        gpu="h",
        other_seconds=Decimal(3600),
    )
    assert (found.fastest_seconds, found.slowest_seconds) == (253_600, 263_600)
    assert found.package_changes
    assert [answer.best.days for answer in (found.fastest, found.slowest) if answer and answer.best] == [3, 7]


def test_the_own_machine_has_no_package() -> None:
    found = forecast(10, measured_documents=3, fastest=Decimal(1), slowest=Decimal(1))
    assert found.fastest is None and not found.package_changes
    assert found.fastest_seconds == Decimal("3.334"), "rounded up to the millisecond"


@pytest.mark.parametrize(
    "change", [{"documents": 0}, {"measured_documents": 0}, {"fastest": Decimal(0)}, {"slowest": Decimal("0.5")}]
)
def test_a_forecast_needs_something_measured(change: dict[str, Any]) -> None:
    asked = {"documents": 10, "measured_documents": 10, "fastest": Decimal(1), "slowest": Decimal(2)} | change
    with pytest.raises(InputRefused):
        forecast(asked.pop("documents"), **asked)


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.integers(1, 10**6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_a_forecast_is_monotone_and_never_too_short(documents: int, measured: int, low: int, more: int) -> None:
    """More documents never take less; the exact proportion is never undercut, nor exceeded by a millisecond."""
    fastest, slowest = Decimal(low) / 1000, Decimal(low + more) / 1000
    found = forecast(documents, measured_documents=measured, fastest=fastest, slowest=slowest)
    one_more = forecast(documents + 1, measured_documents=measured, fastest=fastest, slowest=slowest)
    assert found.fastest_seconds <= found.slowest_seconds <= one_more.slowest_seconds
    assert 0 <= found.slowest_seconds * measured - slowest * documents < Decimal("0.001") * measured


def test_the_shipped_tariffs_answer_a_forecast() -> None:
    prices = load_catalogue(ROOT / "tariffs.csv")
    found = forecast(
        10**6,
        measured_documents=1000,
        fastest=Decimal(400),
        slowest=Decimal(500),
        catalogue=prices,
        gpu="b200",
        devices=2,
    )
    assert found.slowest is not None and found.slowest.best is not None
    assert found.slowest.best.total == Decimal("2071.00")
