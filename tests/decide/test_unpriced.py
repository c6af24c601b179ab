"""Unknown prices beside hourly offers and sold-out packages (DESIGN section 6, rule 10; M43)."""

from __future__ import annotations

from tests.decide.worlds import World, tariffs


def test_rule_10_an_hourly_offer_bounds_no_package_without_a_price() -> None:
    """52 h at 10.00 are 520.00; A's 3 days have no price and may cost less than B's 500.00 (and than 520.00)."""
    both = {"billing": ("package", "hourly")}
    for other, chosen in (("B 3 500.00", None), ("B 3 600.00", "A.b1")):
        world = World(prices=tariffs("A hourly 10.00", other), extra=both)
        world.passes("A", "b1", 180000, 180000, 180000)
        world.passes("B", "b1", 180000, 180001, 180002)
        decision = world.decision()
        assert (decision.chosen, decision.outcome) == (chosen, "chosen" if chosen else "undecided")
        row = world.row("A.b1")
        assert row.unpriced_days == (3, 7, 30)
        assert row.package is not None and row.package.may_be_cheaper
    assert any(reason.code == "question.unpriced" for reason in decision.uncertain)


def test_rule_10_a_package_is_bounded_by_shorter_priced_ones_even_beside_an_hourly_offer() -> None:
    """3 days of A cost 550.00: its 7 and 30 days cannot cost less than the 520.00 of the hours."""
    world = World(prices=tariffs("A hourly 10.00", "A 3 550.00"), extra={"billing": ("package", "hourly")})
    world.passes("A", "b1", 180000, 180000, 180000)
    row = world.row("A.b1")
    assert row.unpriced_days == ()
    assert row.package is not None and not row.package.may_be_cheaper


def test_rule_10_lots_that_are_gone_belong_to_their_own_line() -> None:
    """A's 7 days are sold out; nobody knows the price or the lots of its 3 days, which could beat B's 500.00."""
    world = World(prices=tariffs("A 7 300.00 lots=0", "B 3 500.00"))
    world.passes("A", "b1", 100, 100, 101)
    world.passes("B", "b1", 100, 101, 102)
    decision = world.decision()
    assert (decision.outcome, decision.rule.code) == ("undecided", "rule.unpriced")
    assert set(decision.tied) == {"A.b1", "B.b1"}
    assert [reason.code for reason in decision.would_help] == ["help.unpriced"]
    row = world.row("A.b1")
    assert (row.first_failed, row.unpriced_days) == ("price", (3, 30))
    assert next(c.status for c in row.constraints if c.name == "availability") == "not assessable"
    alone = World(prices=tariffs("A 7 300.00 lots=0"))
    alone.passes("A", "b1", 100, 100, 101)
    assert [reason.code for reason in alone.decision().would_help] == ["help.unpriced"]


def test_rule_10_a_package_that_the_plan_does_not_rent_is_no_unpriced_one() -> None:
    world = World(prices=tariffs("A hourly 10.00", "B hourly 11.00"), extra={"billing": ("hourly",)})
    world.passes("A", "b1", 100, 100, 101)
    world.passes("B", "b1", 100, 100, 101)
    assert world.decision().chosen == "A.b1"
    assert world.row("A.b1").unpriced_days == ()


def test_rule_10_where_known_prices_fall_nothing_is_taken_for_granted() -> None:
    """B's 30 days cost less than its 3 days: its 7 days, without a price, may cost less than either, and than A's."""
    for longest, chosen in (("500.00", "A.b1"), ("350.00", None)):
        world = World(prices=tariffs("A 7 300.00", "B 3 400.00", f"B 30 {longest}"))
        world.passes("A", "b1", 360000, 360000, 360000)
        world.passes("B", "b1", 360000, 360000, 360000)
        assert world.decision().chosen == chosen
        assert world.row("B.b1").unpriced_days == (7,) if chosen is None else True
