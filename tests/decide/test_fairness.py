"""Whether all configurations were treated alike: order, numbers of passes, seeds, expenses, money for the search."""

from __future__ import annotations

from runner.decide.tables import attempt_rows
from runner.evidence.attempt import Slot, Status
from runner.protocol.schema import Expense
from tests.decide.worlds import World, tariffs


def _passes(world: World, orders: list[str], *, again: tuple[int, ...] = ()) -> None:
    """Passes over b1, b4, b8 in these orders (`148` = b1, b4, b8); `again`: rows that ran a slot again."""
    for index, order in enumerate(orders):
        for position, batch in enumerate(order):
            number = len(world.attempts)
            attempt = world.add("A", f"b{batch}", 10)
            world.attempts[-1] = attempt.model_copy(
                update={
                    "slot": Slot(pass_index=index, position=position),
                    "retry_of": "a0000" if number in again else None,
                }
            )


def _warnings(world: World) -> list[str]:
    return [reason.code for reason in world.balance().warnings]


def _three() -> World:
    return World(variants=("b1", "b4", "b8"), prices=tariffs("A 3 300.00"))


def test_m21_the_rotation_is_confirmed_from_the_records() -> None:
    world = _three()
    _passes(world, ["148", "481", "814", "148", "481"])
    assert _warnings(world) == []


def test_m21_always_the_same_first_is_said() -> None:
    world = _three()
    _passes(world, ["148", "148", "148"])
    assert _warnings(world) == ["order.not-rotated"]


def test_m21_another_order_than_the_rotation_is_said() -> None:
    world = _three()
    _passes(world, ["148", "841", "814"])
    assert _warnings(world) == ["order.other"]


def test_a_slot_that_was_run_again_does_not_disturb_the_order() -> None:
    world = _three()
    _passes(world, ["148", "48", "814"])
    world.add("A", "b1", 10)
    world.attempts[-1] = world.attempts[-1].model_copy(
        update={"slot": Slot(pass_index=1, position=2), "retry_of": "a0005"}
    )
    assert _warnings(world) == []


def test_m3_unequal_numbers_of_passes_are_said() -> None:
    world = World(variants=("b1", "b4", "b8"), planned=4, prices=tariffs("A 3 300.00"))
    _passes(world, ["148", "481", "814", "1"])
    assert _warnings(world) == ["passes.uneven"]
    assert world.balance().warnings[0].values["found"] == "b1: 4, b4: 3, b8: 3"


def test_m3_passes_beyond_the_plan_wait_until_every_variant_has_them() -> None:
    world = _three()
    _passes(world, ["148", "481", "814", "148", "481"])  # as planned
    for _ in range(2):
        world.add("A", "b8", 1)
        world.attempts[-1] = world.attempts[-1].model_copy(
            update={"slot": Slot(pass_index=len(world.attempts) - 11, position=0)}
        )
    row = world.row("A.b8")
    assert (row.accepted, row.not_counted, row.summaries[0].raw_seconds) == (5, 2, (10.0,) * 5)
    listed = {item.attempt_id: item.reason.code for item in world.balance().left_out}
    assert listed == dict.fromkeys([item.attempt_id for item in world.attempts[15:]], "left-out.surplus")
    assert "passes.uneven" not in _warnings(world), "what waits is no unequal treatment"
    # One more of the others each: the first of the two counts now, the second still waits.
    for variant in ("b1", "b4"):
        world.add("A", variant, 10)
        world.attempts[-1] = world.attempts[-1].model_copy(update={"slot": Slot(pass_index=5, position=1)})
    assert world.row("A.b8").summaries[0].raw_seconds == (10.0,) * 5 + (1.0,)
    assert [item.attempt_id for item in world.balance().left_out] == [world.attempts[16].attempt_id]
    assert world.row("A.b1").accepted == 6


def test_m3_a_failure_beyond_the_plan_waits_like_an_accepted_pass() -> None:
    world = _three()
    _passes(world, ["148", "481", "814", "148", "481"])
    world.add("A", "b8", None, status=Status.FAILED)
    world.attempts[-1] = world.attempts[-1].model_copy(update={"slot": Slot(pass_index=5, position=0)})
    assert world.row("A.b8").failures == 0
    assert [item.reason.code for item in world.balance().left_out] == ["left-out.surplus"]
    verdicts = {verdict.attempt_id: verdict for verdict in world.verdicts}
    table = attempt_rows(world.attempts, verdicts, {}, world.planned)
    assert [row["counts_as"] for row in table if row["variant_id"] == "b8"][-1] == "not counted", "as in the balance"
    assert attempt_rows(world.attempts, verdicts, {})[-1]["counts_as"] == "failure"


def test_m27_every_frozen_seed_needs_its_passes() -> None:
    world = World(seeds=(0, 1))
    world.passes("A", "b1", 10, 11, 12)
    assert world.row("A.b1").first_failed == "enough passes"
    world.passes("A", "b1", 10, 11, 12, seed=1)
    row = world.row("A.b1")
    assert row.admissible
    assert [summary.seed for summary in row.summaries] == [0, 1], "kept apart"


def test_m3_a_variant_added_later_stays_marked() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12, added_later=True)
    assert [question.code for question in world.row("A.b1").open_questions] == ["question.added-later"]
    assert any(reason.code == "question.added-later" for reason in world.decision().uncertain)


def test_m39_an_expense_for_one_and_not_for_another_is_flagged_never_filled_in() -> None:
    """M39: an expense that one configuration lacks is named."""
    both = Expense(name="transfer", amount="5.00", currency="EUR", reason="for all")
    one = Expense(name="licence", amount="50.00", currency="EUR", reason="needed", configuration="b1")
    stranger = Expense(name="licence", amount="50.00", currency="EUR", reason="needed", configuration="b9")
    world = World(variants=("b1", "b4"), expenses=[both, one, stranger])
    world.passes("A", "b1", 10, 11, 12)
    warnings = world.balance().warnings
    assert [reason.code for reason in warnings] == ["expense.unfair", "expense.stranger"]
    assert warnings[0].values == {"expense": "licence", "given": "b1", "missing": "b4"}
    assert [item.name for item in world.row("A.b1").expenses] == ["transfer", "licence"]
    assert world.row("A.b1").committed_cost == "300.00", "expenses stand apart"


def test_rule_9_money_for_the_search_is_shown_apart_per_gpu() -> None:
    world = World(variants=("b1", "b4"), prices=tariffs("A 3 300.00", "B 3 310.00"))
    for variant in ("b1", "b4"):
        world.passes("A", variant, 10, 11, 12)
    world.add("B", "b1", None, status=Status.KILLED)
    world.passes("cpu", "b1", 10, 11, 12)
    found = [(reason.values["gpu"], reason.values["cost_money"]) for reason in world.balance().search_costs]
    assert found == [("A", "300.00 EUR"), ("B", "310.00 EUR")]
