"""What would change the answer: every stated limit is checked by deciding again on both sides of it."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from decimal import Decimal

from runner.decide.model import BalanceRow, Decision, Reason
from runner.decide.options import at_largest, at_smallest
from runner.evidence.attempt import Settings, Status
from runner.pricing.core import Catalogue, Offer
from tests.decide.test_brute_force import random_world
from tests.decide.worlds import World, tariffs

CENT = Decimal("0.0001")
HOUR = 3600


def _said(decision: Decision, code: str) -> list[Reason]:
    return [reason for reason in decision.what_if if reason.code == code]


def _with_price(prices: Catalogue, gpu: str, days: int, price: Decimal) -> Catalogue:
    """The catalogue with one price changed or added."""
    others = tuple(offer for offer in prices.offers if (offer.gpu, offer.days) != (gpu, days))
    offer = Offer(gpu, "package", days, price, "EUR", date(2026, 9, 24), "test", None, 99)
    return replace(prices, offers=(*others, offer))


def _again(world: World, prices: Catalogue) -> World:
    other = replace(world, prices=prices)
    other.attempts, other.verdicts, other.manifests = world.attempts, world.verdicts, world.manifests
    return other


def _least(row: BalanceRow) -> Decimal:
    costs = [end.cost for end in (at_largest(row), at_smallest(row)) if end.admissible and end.cost is not None]
    return min(costs)


def test_prices_lots_window_deadline_and_quality_of_a_simple_choice() -> None:
    world = World(prices=tariffs("A 3 100.00", "A 7 150.00", "B 3 160.00 cards=2"), deadline="2026-12-02T09:00:00Z")
    world.passes("A", "b1", 10 * HOUR, 10 * HOUR, 10 * HOUR)
    world.passes("B", "b1", HOUR, HOUR, HOUR)
    decision = world.decision()
    assert decision.chosen == "A.b1"
    texts = {reason.code: reason.text for reason in decision.what_if}
    # 12 h of window, 3 days: 60 h to spare. Delivery after 11 h, deadline after 25 h: 14 h later.
    assert texts["what-if.longer"] == (
        "A.b1: a window longer by more than 60 h needs the package of 7 days, 150.00 EUR."
    )
    assert texts["what-if.deadline"] == "A.b1: delivery may come 14 h later and still be in time."
    assert texts["what-if.lots"] == "A.b1 with one lot more (lots: 2) would cost 200.00 EUR."
    assert "further wrong documents that would still pass: 10" in texts["what-if.quality-all-count"]
    assert "less than 100.00 EUR per lot (now 160.00 EUR)" in texts["what-if.price-down"]
    # Its package of 7 days for 150.00 would be cheaper than B: the price of 3 days alone flips nothing.
    assert "what-if.price-up" not in texts


def test_a_shorter_window_and_a_missing_price_are_said() -> None:
    world = World(prices=tariffs("A 7 100.00", "B 7 160.00"))
    world.passes("A", "b1", 94 * HOUR, 94 * HOUR, 94 * HOUR)
    decision = world.decision()
    texts = {reason.code: reason.text for reason in decision.what_if}
    assert texts["what-if.shorter-unpriced"].startswith("A.b1: a window shorter by 24 h would fit the package of 3")
    assert texts["what-if.longer-unpriced"].startswith("A.b1: a window longer by more than 72 h needs the package of")


def test_m35_with_further_periods_both_sides_of_a_limit_name_the_periods() -> None:
    """M35: where the plan asks for two periods, the longer and the shorter choice are two periods too."""
    world = World(prices=tariffs("A 7 100.00", "A 30 900.00"), extra={"extra_periods": 1})
    world.passes("A", "b1", 158 * HOUR, 158 * HOUR, 158 * HOUR)
    texts = {reason.code: reason.text for reason in world.decision().what_if}
    assert texts["what-if.longer-periods"] == (
        "A.b1: a window longer by more than 176 h needs 2 periods of 30 days, 1800.00 EUR.".replace("1800", "1,800")
    )
    assert texts["what-if.shorter-periods-unpriced"] == (
        "A.b1: a window shorter by 16 h would fit 2 periods of 3 days, whose price is not known."
    )


def test_the_price_that_is_missing_is_named_with_its_limit() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 7 900.00 cards=2"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    decision = world.decision()
    assert decision.rule.code == "rule.unpriced"
    (reason,) = _said(decision, "what-if.unpriced")
    assert reason.values["limit_money"] == "300.00 EUR"
    below = _again(world, _with_price(world.prices, "B", 3, Decimal("299.99"))).decision()
    above = _again(world, _with_price(world.prices, "B", 3, Decimal("300.01"))).decision()
    assert (below.chosen, above.chosen) == ("B.b1", "A.b1")


def test_own_machine_says_how_steady_the_separation_is() -> None:
    world = World(prices=tariffs("rental 3 300.00"))
    world.passes("A", "b1", 80, 82, 81)
    world.passes("B", "b1", 97, 103, 101)
    (reason,) = _said(world.decision(), "what-if.separated")
    assert (reason.values["gap_seconds"], reason.values["range_seconds"]) == ("20.0", "6.0")


def test_every_price_limit_holds_on_both_sides_in_random_worlds() -> None:
    dice = random.Random(41)
    checked = {"what-if.price-up": 0, "what-if.price-down": 0, "what-if.unpriced": 0}
    for _ in range(150):
        world, _, _ = random_world(dice)
        decision = world.decision()
        rows = {row.configuration_id: row for row in world.balance().rows}
        for reason in decision.what_if:
            if reason.code not in checked:
                continue
            checked[reason.code] += 1
            gpu, days = reason.values["gpu"], int(reason.values["days_count"])
            limit = Decimal(reason.values["limit_money"].split()[0])
            below = _again(world, _with_price(world.prices, gpu, days, limit - CENT))
            name = reason.values["name"]
            if reason.code == "what-if.price-up":
                at = _again(world, _with_price(world.prices, gpu, days, limit))
                assert below.row(name).committed_cost is not None
                assert Decimal(below.row(name).committed_cost or 0) < _least(below.row(reason.values["other"]))
                assert Decimal(at.row(name).committed_cost or 0) >= _least(at.row(reason.values["other"]))
            else:
                best = min(
                    Decimal(row.committed_cost)
                    for row in rows.values()
                    if row.admissible and row.committed_cost is not None
                )
                assert all(_least(below.row(one)) < best for one in name.split(", "))
    assert all(count >= 5 for count in checked.values()), checked


def test_undecided_says_something_about_the_tied_ones() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 3 300.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    decision = world.decision()
    assert decision.outcome == "undecided"
    assert [reason.values["name"] for reason in _said(decision, "what-if.deadline")] == ["A.b1, B.b1"]


def test_nothing_accepted_has_no_what_if() -> None:
    world = World()
    world.add("A", "b1", None, status=Status.KILLED)
    assert world.decision().what_if == ()


def test_the_limit_of_a_price_is_the_first_one_of_a_catalogue_that_flips() -> None:
    """52 h: 11.5384 an hour are 599.9968, 11.5385 are 600.0020. Three lots: 103.33 are 309.99, 103.34 are 310.02."""
    three = {"b1": Settings(batch_size=1, max_length=512, devices=3)}
    for best, limit, below, rival, options in (
        ("A hourly {}", "11.5385", "11.5384", "B 3 600.00", {"extra": {"billing": ("package", "hourly")}}),
        ("A 3 {}", "103.34", "103.33", "B 3 310.00 cards=4", {"settings": three}),
    ):
        chosen = {}
        for price in ("10.00", below, limit):
            rest = ("A 3 9000.00",) if "hourly" in best else ()
            world = World(prices=tariffs(best.format(price), rival, *rest), **options)
            world.passes("A", "b1", 180000, 180000, 180000)
            world.passes("B", "b1", 180000, 180001, 180002)
            chosen[price] = (world.decision(), min(row.committed_cost or "" for row in world.balance().rows))
        code = "what-if.price-up-hourly" if "hourly" in best else "what-if.price-up"
        (reason,) = _said(chosen["10.00"][0], code)
        assert reason.values["limit_money"] == f"{limit} EUR"
        assert Decimal(chosen[below][1]) < Decimal(rival.split()[2]) == Decimal(chosen[limit][1])


def test_a_lot_more_is_only_said_where_one_is_left() -> None:
    """Rule 9: the catalogue knows of two lots; a third is no option."""
    for stated, said in ((" lots=2", False), (" lots=3", True), ("", True)):
        world = World(
            prices=tariffs(f"A 7 350.00 cards=2{stated}"),
            settings={"b1": Settings(batch_size=1, max_length=512, devices=3)},
        )
        world.passes("A", "b1", 10, 11, 12)
        assert bool(_said(world.decision(), "what-if.lots")) is said
