"""The choice (M43, DESIGN section 6 rules 3 to 14), on worlds small enough to be decided by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.cli.decide import SORTS
from runner.decide.answer import answer_lines
from runner.decide.choice import decide
from runner.decide.model import Decision
from runner.decide.ordering import KEYS, ordered
from runner.errors import InputRefused
from runner.evidence.attempt import Settings, Slot, Status
from runner.protocol.schema import Expense
from tests.decide.worlds import World, tariffs

CASES = Path(__file__).parents[1] / "cases"
HOUR = 3600


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _text(decision: Decision) -> str:
    return "\n".join(str(reason) for reason in decision.reasons)


def _codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


# ---- cost ----------------------------------------------------------------------------------------


def test_m43_smallest_committed_cost_wins_even_when_slower() -> None:
    world = World()
    world.passes("A", "b1", 100, 101, 102)
    world.passes("B", "b1", 10, 11, 12)
    decision = world.decision()
    assert (decision.outcome, decision.chosen, decision.rule.code) == ("chosen", "A.b1", "rule.cost")
    assert "300.00 EUR" in _text(decision) and "10.00 EUR more" in _text(decision)
    assert [(item.configuration_id, item.reason.code) for item in decision.excluded] == [("B.b1", "lost.cost")]


def test_m43_a_fast_option_can_win_a_tight_deadline_without_being_cheapest() -> None:
    world = World(deadline="2026-12-01T20:00:00Z")
    world.passes("A", "b1", 20 * HOUR, 20 * HOUR, 20 * HOUR)
    world.passes("B", "b1", HOUR, HOUR, HOUR)
    decision = world.decision()
    assert (decision.chosen, decision.no_comparison) == ("B.b1", True)
    (excluded,) = decision.excluded
    assert (excluded.configuration_id, excluded.constraint) == ("A.b1", "deadline")


def test_m43_unmeasured_options_are_named_and_never_win() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 3 1.00", "C"))
    world.passes("A", "b1", 10, 11, 12)
    decision = world.decision()
    assert decision.chosen == "A.b1"
    assert [item.configuration_id for item in decision.unmeasured] == ["B.b1", "C.b1"]
    row = world.row("B.b1")
    assert (row.measured, row.admissible, row.committed_cost) == (False, False, None)
    assert row.committed_cost_reason is not None and row.committed_cost_reason.text == "not measured"


def test_m11_a_device_that_was_not_there_is_not_measured() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    world.add("B", "b1", None, status=Status.UNAVAILABLE)
    decision = world.decision()
    assert decision.chosen == "A.b1"
    (other,) = decision.unmeasured
    assert other.configuration_id == "B.b1" and "B was declared" in other.reason.text
    assert world.row("B.b1").failures == 0


def test_m36_lots_follow_the_devices_and_cards_are_not_multiplied_again() -> None:
    """M36, rule 9: 3 devices of 2 per lot are 2 lots."""
    world = World(
        prices=tariffs("A 3 900.00 cards=2"), settings={"b1": Settings(batch_size=1, max_length=512, devices=3)}
    )
    world.passes("A", "b1", 10, 11, 12)
    package = world.row("A.b1").package
    assert package is not None
    assert (package.lots, package.cards, package.unused_cards, package.total) == (2, 4, 1, "1800.00")


def test_rule_9_too_few_lots_are_not_admissible() -> None:
    world = World(
        prices=tariffs("A 3 300.00 lots=1", "A 7 400.00 lots=1", "A 30 500.00 lots=1"),
        settings={"b1": Settings(batch_size=1, max_length=512, devices=2)},
    )
    world.passes("A", "b1", 10, 11, 12)
    assert world.row("A.b1").first_failed == "availability"
    planned = World(prices=tariffs("A 3 300.00"), lots=1, settings=world.settings)
    planned.passes("A", "b1", 10, 11, 12)
    assert planned.row("A.b1").first_failed == "availability"
    assert planned.decision().outcome == "undecided"
    (constraint,) = [c for c in planned.row("A.b1").constraints if c.name == "availability"]
    assert (constraint.found, constraint.limit, constraint.unit) == ("1", "2", "count")


def test_rule_9_as_many_lots_as_planned_are_enough_and_one_package_that_can_be_had_suffices() -> None:
    two = {"b1": Settings(batch_size=1, max_length=512, devices=2)}
    exact = World(prices=tariffs("A 3 300.00"), lots=2, settings=two)
    exact.passes("A", "b1", 10, 11, 12)
    assert exact.row("A.b1").admissible
    sold_out = World(prices=tariffs("A 3 300.00 lots=0", "A 7 500.00 lots=1"))
    sold_out.passes("A", "b1", 10, 11, 12)
    row = sold_out.row("A.b1")
    assert row.admissible and row.committed_cost == "500.00"


def test_pr_14_none_accepted_is_undefined_and_never_ranked() -> None:
    """PR-14, M37: the lone survivor is chosen by the protocol's rule, which is quoted."""
    results = json.loads((CASES / "PR-14" / "result.json").read_text(encoding="utf-8"))
    world = World(prices=tariffs(*(f"{item['config']} 3 {item['cost']}" for item in results)))
    for item in results:
        if item["accepted"]:
            world.passes(item["config"], "b1", 10, 11, 12)
        else:
            world.add(item["config"], "b1", 10, accepted=False)
    one, other = world.row("A.b1"), world.row("B.b1")
    assert (one.committed_cost, one.cost_per_validated_corpus) == ("300.00", None)
    assert one.cost_per_validated_corpus_reason is not None
    assert one.cost_per_validated_corpus_reason.text.startswith("undefined")
    assert (other.committed_cost, other.cost_per_validated_corpus) == ("550.00", "550.00")
    decision = world.decision()
    assert (decision.chosen, decision.no_comparison, decision.rule.code) == ("B.b1", True, "rule.lone")
    assert "without a comparison" in decision.rule.text
    table = [line.split() for line in answer_lines(world.balance(), decision) if line.startswith(("A.b1 ", "B.b1 "))]
    assert [line[0] for line in table] == ["B.b1", "A.b1"], "undefined comes last"
    assert "undefined" in table[1] and "300.00" in table[1]


@pytest.mark.parametrize("descending", [False, True])
def test_pr_14_undefined_sorts_last_in_both_directions(descending: bool) -> None:
    """PR-14, 2: by every key of a table, smallest or largest first."""
    world = World(variants=("b1", "b4"), prices=tariffs("A 3 300.00", "B 3 550.00", "C 3 100.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 100, 110, 120)
    world.add("C", "b1", 10, accepted=False)
    rows = [row for row in world.balance().rows if row.measured]
    wanted = ["B.b1", "A.b1", "C.b1"] if descending else ["A.b1", "B.b1", "C.b1"]
    for key in ("per-corpus", "median"):
        assert [row.configuration_id for row in ordered(rows, key, descending=descending)] == wanted, key
        assert [row.configuration_id for row in ordered(rows[::-1], key, descending=descending)] == wanted, key
    assert KEYS.keys() == set(SORTS)
    lines = answer_lines(world.balance(), world.decision(), sort="median", descending=descending)
    shown = [line.split()[0] for line in lines if line.startswith(("A.b1 ", "B.b1 ", "C.b1 "))]
    assert shown == wanted


def test_m38_a_deliverable_is_counted_once_however_often_it_was_repeated() -> None:
    world = World(corpora=("one", "two"))
    for corpus in world.corpora:
        world.passes("A", "b1", 10, 11, 12, corpus=corpus)
    row = world.row("A.b1")
    assert row.deliverables_accepted == ("one", "two")
    assert row.cost_per_validated_corpus == "150.00"


def test_rule_3_every_deliverable_must_be_accepted() -> None:
    world = World(corpora=("one", "two"))
    world.passes("A", "b1", 10, 11, 12, corpus="one")
    world.passes("A", "b1", 10, 11, corpus="two")
    assert world.row("A.b1").first_failed == "enough passes"
    assert world.decision().outcome == "undecided"


def test_rule_3_further_failures_count_but_do_not_block() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    world.add("A", "b1", None, status=Status.OUT_OF_MEMORY, completed=50)
    assert world.row("A.b1").admissible
    assert world.row("A.b1").failures == 1


def test_m35_further_periods_only_where_the_plan_asks_for_them() -> None:
    world = World(prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 80 * HOUR, 80 * HOUR, 80 * HOUR)
    assert world.row("A.b1").first_failed == "price"
    asked = World(prices=world.prices, extra={"extra_periods": 1})
    asked.attempts, asked.verdicts, asked.manifests = world.attempts, world.verdicts, world.manifests
    package = asked.row("A.b1").package
    assert package is not None and (package.days, package.periods, package.total) == (3, 2, "600.00")
    assert "2 periods of 3 days" in _text(asked.decision())


# ---- ties ----------------------------------------------------------------------------------------


def test_rule_5_equal_cost_fewer_failures_only_with_equal_numbers_of_attempts() -> None:
    world = World(variants=("b1", "b4"), planned=5, prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.add("A", "b1", None, status=Status.FAILED)
    world.passes("A", "b4", 10, 11, 12, 12)
    decision = world.decision()
    assert (decision.chosen, decision.rule.code) == ("A.b4", "rule.failures")
    world.passes("A", "b1", 12)
    assert world.decision().outcome == "undecided"


def test_rule_5_equal_cost_a_separated_median_wins() -> None:
    world = World(variants=("b1", "b4", "b8"), prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 80, 82, 81)
    world.passes("A", "b4", 97, 103, 101)
    world.passes("A", "b8", 97, 103, 102)
    decision = world.decision()
    assert (decision.chosen, decision.rule.code) == ("A.b1", "rule.separated")


def test_rule_5_the_faster_one_must_be_separated_from_every_tied_option() -> None:
    world = World(variants=("b1", "b4", "b8"), prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 80, 82, 81)
    world.passes("A", "b4", 82, 84, 83)
    world.passes("A", "b8", 300, 301, 302)
    decision = world.decision()
    assert (decision.outcome, set(decision.tied)) == ("undecided", {"A.b1", "A.b4", "A.b8"})


def test_rule_5_less_remaining_uncertainty_decides_last() -> None:
    world = World(variants=("b1", "b4"), prices=tariffs("A 3 300.00"), planned=5)
    world.passes("A", "b1", 10, 11, 12, 11)
    world.passes("A", "b4", 10, 11, 12, 11, 10)
    decision = world.decision()
    assert (decision.chosen, decision.rule.code) == ("A.b4", "rule.questions")


@pytest.mark.parametrize(("name", "chosen"), [("close", None), ("clear", "A.b1")])
def test_ti_09_a_gap_within_the_spread_names_no_winner(name: str, chosen: str | None) -> None:
    """TI-09, M32, on the user's own machine, where only time counts."""
    world = World(prices=tariffs("rental 3 300.00"))
    for record in _lines(CASES / "TI-09" / f"{name}.jsonl"):
        world.add(str(record["config"]), "b1", str(record["duration_s"]))
    decision = world.decision()
    assert decision.chosen == chosen
    assert decision.basis == "time on own machine"
    if chosen is None:
        assert "gap 1.0 s ≤ range 6.0 s" in _text(decision)
        assert any(reason.code == "help.spread" for reason in decision.would_help)
    else:
        assert decision.rule.code == "rule.fastest"


def test_ti_09_the_same_among_rentals_of_equal_cost() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 3 300.00"))
    for record in _lines(CASES / "TI-09" / "close.jsonl"):
        world.add(str(record["config"]), "b1", str(record["duration_s"]))
    decision = world.decision()
    assert (decision.outcome, decision.tied) == ("undecided", ("A.b1", "B.b1"))
    assert "gap 1.0 s ≤ range 6.0 s" in _text(decision)


@pytest.mark.parametrize(
    ("seconds", "shared", "likely"),
    [
        ((307, 290, 285, 190, 191), (True, True, True, False, False), True),
        ((189, 164, 154, 220, 212), (True, True, True, False, False), False),  # the quiet ones are slower
        ((189, 164, 154, 150, 120), (True, True, True, False, False), False),  # faster, but not together
        ((307, 290, 285, 280, 190), (True, True, True, True, False), False),  # one pass is no group
        ((307, 290, 285, 190, 191), (True, True, None, False, False), False),  # not known of one
        ((197, 203, 201, 199, 200), (True, True, True, True, True), False),  # nothing to compare with
    ],
)
def test_m32_a_cause_is_named_only_where_the_records_support_it(
    seconds: tuple[int, ...], shared: tuple[bool | None, ...], likely: bool
) -> None:
    world = World(prices=tariffs("rental 3 300.00"), planned=5)
    world.passes("A", "b1", 200, 204, 198, 199, 201)
    world.passes("B", "b1", *seconds)
    others = iter(shared)
    world.attempts = [
        attempt.model_copy(update={"device_shared": next(others) if attempt.gpu_declared == "B" else False})
        for attempt in world.attempts
    ]
    helping = {reason.code: reason.text for reason in world.decision().would_help}
    said = {code: text for code, text in helping.items() if code.startswith("help.shared")}
    assert ["a likely cause" in text for text in said.values()] == [likely]
    assert likely or "passes of B.b1. Whether they caused the wide range is not known." in said["help.shared-unknown"]
    assert "can move the medians, but not narrow a range" in helping["help.more-passes"]


def test_m32_several_passes_at_one_end_are_not_told_as_one() -> None:
    world = World(prices=tariffs("rental 3 300.00"), planned=5)
    world.passes("A", "b1", 300, 299, 301, 180, 182)
    world.passes("B", "b1", 297, 298, 296, 295, 299)
    (said,) = [reason for reason in world.decision().would_help if reason.code.startswith("help.spread")]
    assert said.text.endswith("of A.b1: 2 of its 5 passes lie nearer to 180.0 s than to the median, 299.0 s.")


def test_rule_6_a_gap_equal_to_the_spread_is_not_separated() -> None:
    world = World(prices=tariffs("rental 3 300.00"))
    world.passes("A", "b1", 10, 11, 13)
    world.passes("B", "b1", 13, 14, 16)
    assert world.decision().outcome == "undecided"
    clear = World(prices=tariffs("rental 3 300.00"))
    clear.passes("A", "b1", 10, 11, 13)
    clear.passes("B", "b1", "13.1", "14.1", "16.1")
    assert clear.decision().chosen == "A.b1"


# ---- too few, none -------------------------------------------------------------------------------


def test_ti_06_fewer_passes_than_the_minimum_decide_nothing() -> None:
    """TI-06."""
    world = World()
    for record in _lines(CASES / "TI-06" / "records.jsonl"):
        world.add(str(record["config"]), "b1", str(record["duration_s"]))
    decision = world.decision()
    assert decision.outcome == "undecided"
    assert _text(decision).startswith("Fewer passes than the protocol's minimum of 3.")
    # One GPU, one command: said once for each.
    assert [(lacks.values["name"], lacks.values["more_count"]) for lacks in decision.would_help] == [
        ("A.b1", "2"), ("B.b1", "2"),
    ]  # fmt: skip
    assert all("further passes" in lacks.text for lacks in decision.would_help)


@pytest.mark.parametrize(
    ("accepted", "failed", "code", "command"),
    [
        (1, 0, "help.passes", "make measure GPU=A"),  # two of the planned five are still to be run
        (2, 2, "help.passes", "make measure GPU=A"),
        (1, 3, "help.passes-more", "make measure GPU=A PASSES=6"),
        (1, 7, "help.passes-more", "make measure GPU=A PASSES=10"),
        (1, 8, "help.passes-none", None),
    ],
)
def test_m32_further_passes_stand_with_their_command(
    accepted: int, failed: int, code: str, command: str | None
) -> None:
    """M3, M32, TI-06: as many passes as are missing, with those that failed, and never more than the frozen maximum."""
    world = World(prices=tariffs("A 3 300.00"), planned=5)
    for seconds in range(10, 10 + accepted):
        world.add("A", "b1", seconds)
    for seconds in range(20, 20 + failed):
        world.add("A", "b1", seconds, accepted=False)
    (reason,) = world.decision().would_help
    assert reason.code == code
    assert reason.text.endswith(f"Command: {command}" if command else "a new revision with a new final corpus.")


def test_rule_12_a_lone_configuration_below_the_minimum_is_undecided() -> None:
    world = World()
    world.passes("A", "b1", 10, 11)
    assert world.decision().outcome == "undecided"
    world.passes("A", "b1", 12)
    decision = world.decision()
    assert (decision.chosen, decision.no_comparison) == ("A.b1", True)


def test_ti_07_all_passes_failed() -> None:
    """TI-07: undecided, nothing stands for undefined but the word."""
    world = World(prices=tariffs("A 3 300.00", "B 3 280.00"))
    kinds = {"oom": Status.OUT_OF_MEMORY, "killed": Status.KILLED, "aborted": Status.FAILED}
    for record in _lines(CASES / "TI-07" / "records.jsonl"):
        world.add(
            str(record["config"]),
            "b1",
            None,
            status=kinds[str(record["status"])],
            completed=int(str(record["completed"])),
        )
    decision = world.decision()
    assert (decision.outcome, decision.chosen) == ("undecided", None)
    assert _text(decision).startswith("No accepted pass.")
    for name, attempts, money in (("A.b1", 2, "300.00"), ("B.b1", 1, "280.00")):
        row = world.row(name)
        assert (row.accepted, row.attempts, row.failures) == (0, attempts, attempts)
        assert (row.committed_cost, row.cost_per_validated_corpus) == (money, None)
    notes = [note.text for note in world.row("A.b1").notes]
    assert "out_of_memory" in notes[0] and "40 of 100 documents" in notes[0]
    assert "killed" in notes[1] and "12 of 100 documents" in notes[1]
    assert world.row("A.b1").first_failed == "completeness"
    assert [c.name for c in world.row("A.b1").constraints if c.status == "not met"] == [
        "completeness",
        "enough passes",
        "memory",
    ]


def test_nothing_measured_is_undecided() -> None:
    decision = World().decision()
    assert (decision.outcome, decision.rule.code) == ("undecided", "rule.nothing-measured")


def test_quality_rejected_names_the_check() -> None:
    world = World()
    for seconds in (10, 11, 12):
        world.add("A", "b1", seconds, accepted=False, failing="metric")
    row = world.row("A.b1")
    assert row.first_failed == "quality"
    assert (row.accepted, row.failures) == (0, 3)
    statuses = {constraint.name: constraint.status for constraint in row.constraints}
    assert (statuses["completeness"], statuses["memory"]) == ("met", "met")


def test_m16_other_settings_than_asked_for_are_no_result() -> None:
    world = World()
    world.add("A", "b1", 10, accepted=False, failing="settings")
    statuses = {constraint.name: constraint.status for constraint in world.row("A.b1").constraints}
    assert (statuses["settings"], statuses["quality"]) == ("not met", "not assessable")


# ---- noise, unpriced, own machine, expenses -------------------------------------------------------


def test_rule_7_a_package_boundary_inside_the_range_that_matters_is_undecided() -> None:
    """B needs 7 days with its largest duration, 3 days with its smallest, and would then be cheaper than A."""
    world = World(prices=tariffs("A 3 300.00", "B 3 200.00", "B 7 400.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 69 * HOUR, 70 * HOUR, 71 * HOUR)
    decision = world.decision()
    assert (decision.outcome, decision.rule.code) == ("undecided", "rule.noise")
    assert decision.tied == ("A.b1", "B.b1")
    assert "B.b1" in _text(decision) and "200.00 EUR" in _text(decision)


def test_rule_7_a_boundary_inside_the_range_that_does_not_matter_is_no_obstacle() -> None:
    world = World(prices=tariffs("A 3 100.00", "B 3 200.00", "B 7 400.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 69 * HOUR, 70 * HOUR, 71 * HOUR)
    assert world.decision().chosen == "A.b1"


def test_rule_7_a_deadline_inside_the_range_is_undecided() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 3 200.00"), deadline="2026-12-01T20:00:00Z")
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10 * HOUR, 10 * HOUR, 11 * HOUR + 1)
    decision = world.decision()
    assert (decision.outcome, decision.rule.code) == ("undecided", "rule.noise")
    alone = World(prices=world.prices, deadline=world.deadline)
    alone.passes("B", "b1", 10 * HOUR, 10 * HOUR, 11 * HOUR + 1)
    assert alone.decision().outcome == "undecided"


def test_a_delivery_that_ends_exactly_at_the_deadline_is_in_time() -> None:
    world = World(deadline="2026-12-01T20:00:00Z")
    world.passes("A", "b1", 11 * HOUR, 11 * HOUR, 11 * HOUR)
    assert world.decision().chosen == "A.b1"
    late = World(deadline="2026-12-01T19:59:59Z")
    late.passes("A", "b1", 11 * HOUR, 11 * HOUR, 11 * HOUR)
    assert late.decision().outcome == "undecided"


def test_rule_10_a_shorter_unpriced_package_of_the_chosen_one_may_be_cheaper() -> None:
    world = World(prices=tariffs("A 7 300.00", "B 3 900.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    decision = world.decision()
    assert decision.chosen == "A.b1"
    assert any(reason.code == "question.unpriced" for reason in decision.uncertain)


def test_rule_10_another_ones_unpriced_package_could_win() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 7 900.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    decision = world.decision()
    assert (decision.outcome, decision.rule.code, decision.tied) == ("undecided", "rule.unpriced", ("A.b1", "B.b1"))
    assert decision.would_help[0].values == {"gpu": "B", "days": "3"}
    longer = World(prices=tariffs("A 3 300.00", "B 3 900.00"))
    longer.attempts, longer.verdicts, longer.manifests = world.attempts, world.verdicts, world.manifests
    assert longer.decision().chosen == "A.b1"


def test_rule_10_no_priced_covering_package_at_all() -> None:
    world = World(prices=tariffs("A 3 300.00", "B"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    assert world.row("B.b1").first_failed == "price"
    assert world.decision().rule.code == "rule.unpriced"


def test_rule_11_own_machine_is_never_ranked_against_rentals() -> None:
    world = World()
    world.passes("A", "b1", 100, 101, 102)
    world.passes("cpu", "b1", 1, 2, 3)
    decision = world.decision()
    assert (decision.chosen, decision.basis) == ("A.b1", "committed cost")
    assert [item.reason.code for item in decision.excluded] == ["lost.own-machine"]
    row = world.row("cpu.b1")
    assert row.committed_cost is None and row.admissible
    assert row.committed_cost_reason is not None and "does not apply" in row.committed_cost_reason.text


def test_rule_11_an_own_machine_is_chosen_without_an_access_window() -> None:
    """A window is that of a rental: the reason names the delivery, in time and in words of no rental."""
    world = World()
    world.passes("cpu", "b1", 1, 2, 3)
    decision = world.decision()
    assert (decision.chosen, decision.basis) == ("cpu.b1", "time on own machine")
    assert "chosen.in-time-own" in [reason.code for reason in decision.reasons]
    assert "window" not in _text(decision) and "package" not in _text(decision)


def test_rule_11_noise_on_an_own_machine_speaks_of_the_deadline_not_of_packages() -> None:
    """Rule 7: the deadline lies inside of the measured range."""
    world = World(deadline="2026-12-01T10:00:11+01:00")
    world.passes("cpu", "b1", 10, 11, 12)
    decision = world.decision()
    assert decision.rule.code == "rule.noise"
    reason = next(reason for reason in decision.reasons if reason.code.startswith("undecided.boundary"))
    assert reason.code == "undecided.boundary-own"
    assert "2026-12-01 09:00:10 UTC" in reason.text and "2026-12-01 09:00:12 UTC" in reason.text
    assert [reason.code for reason in decision.would_help] == ["help.boundary-own"]


def test_rule_13_expenses_do_not_rank_but_a_flip_is_said() -> None:
    world = World(
        prices=tariffs("A 3 300.00"),
        variants=("b1", "b4"),
        expenses=[Expense(name="licence", amount="50.00", currency="EUR", reason="per setting", configuration="b1")],
    )
    world.passes("A", "b1", 10, 11, 12)
    world.passes("A", "b4", 100, 110, 120)
    decision = world.decision()
    assert decision.chosen == "A.b1"
    assert any(reason.code == "uncertain.expenses" for reason in decision.uncertain)
    assert [reason.code for reason in decision.warnings] == ["expense.unfair"]


def test_rule_13_hourly_offers_rank_only_if_the_plan_lists_them() -> None:
    text = (
        "gpu,device_pattern,cards_per_lot,memory_gib_per_card,days,price_per_lot,currency,catalogue_date,source,billing\n"
        "A,A card,1,24,3,300.00,EUR,2026-09-24,test,package\n"
        "A,A card,1,24,,0.50,EUR,2026-09-24,test,hourly\n"
    )
    from runner.pricing.core import parse_catalogue

    prices = parse_catalogue(text.encode(), "tariffs.csv")
    world = World(prices=prices)
    world.passes("A", "b1", 10, 11, 12)
    assert world.row("A.b1").committed_cost == "300.00"
    hourly = World(prices=prices, extra={"billing": ("package", "hourly")})
    hourly.attempts, hourly.verdicts, hourly.manifests = world.attempts, world.verdicts, world.manifests
    package = hourly.row("A.b1").package
    assert package is not None and (package.billing, package.days, package.total) == ("hourly", None, "1.50")
    assert package.reason.text == "hourly offer, started hours: 3"
    assert "hourly offer" in _text(hourly.decision())


# ---- comparability, stacks, locks ----------------------------------------------------------------


def test_mo_17_different_truncation_is_not_compared() -> None:
    """MO-17."""
    lines = _lines(CASES / "MO-17" / "records.jsonl")
    lengths = {f"b{place + 1}": line for place, line in enumerate(lines)}
    world = World(
        prices=tariffs("A 3 300.00"),
        variants=tuple(lengths),
        settings={name: Settings(max_length=int(str(line["max_length"]))) for name, line in lengths.items()},
    )
    for name, line in lengths.items():
        world.passes("A", name, *[str(line["duration_s"])] * 3, truncated=int(str(line["truncated_entries"])))
    decision = world.decision()
    assert (decision.outcome, decision.rule.code) == ("undecided", "rule.different-work")
    assert "not comparable" in _text(decision)
    assert "max_length 512 (A.b1) against 256 (A.b2)" in _text(decision)
    assert "0 (A.b1) against 41 (A.b2)" in _text(decision)


def test_m12_different_stacks_are_named_and_are_configurations_of_their_own() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12, stack="driver-1")
    world.passes("A", "b1", 10, 11, 12, stack="driver-2")
    decision = world.decision()
    assert len([row for row in world.balance().rows if row.measured]) == 2
    assert any("driver.version" in reason.text for reason in decision.different_stacks)


def test_m12_m23_a_failure_without_a_manifest_counts_for_every_stack_it_may_be_of() -> None:
    world = World(variants=("b1",), prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 10, 11, 12, stack="driver-1")
    world.passes("A", "b1", 10, 11, 12, stack="driver-2")
    world.add("A", "b1", None, status=Status.OUT_OF_MEMORY, stack=None)
    world.attempts[-1] = world.attempts[-1].model_copy(update={"slot": Slot(pass_index=0, position=9)})
    balance = world.balance()
    rows = [row for row in balance.rows if row.measured]
    assert [row.failures for row in rows] == [1, 1] and all(row.stack_sha256 for row in rows)
    (said,) = [reason for reason in balance.warnings if reason.code == "stack.attempt"]
    assert said.values["names"] == ", ".join(row.configuration_id for row in rows)


def test_m12_a_failure_without_a_manifest_counts_for_the_only_stack_of_its_machine() -> None:
    world = World(variants=("b1",), prices=tariffs("A 3 300.00"))
    for machine, stack in (("m-one", "driver-1"), ("m-two", "driver-2")):
        first = len(world.attempts)
        world.passes("A", "b1", 10, 11, 12, stack=stack)
        if machine == "m-two":
            world.add("A", "b1", None, status=Status.KILLED, stack=None)
        for place in range(first, len(world.attempts)):
            attempt = world.attempts[place]
            chain = attempt.chain.model_copy(update={"machine_id": machine})
            slot = Slot(pass_index=min(place - first, 2), position=0)
            world.attempts[place] = attempt.model_copy(update={"chain": chain, "slot": slot})
    balance = world.balance()
    failures = {row.stack_sha256: row.failures for row in balance.rows if row.measured}
    assert sorted(failures.values()) == [0, 1]
    (said,) = [reason for reason in balance.warnings if reason.code == "stack.attempt"]
    assert said.values["names"] == next(row.configuration_id for row in balance.rows if row.failures)


def test_an_attempt_that_ended_before_its_manifest_belongs_to_the_only_stack() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    world.add("A", "b1", None, status=Status.KILLED, stack=None)
    assert world.row("A.b1").failures == 1


def test_m3_attempts_of_another_lock_are_refused() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    world.attempts[0] = world.attempts[0].model_copy(update={"lock_sha256": "f" * 64})
    with pytest.raises(InputRefused, match="another lock"):
        world.balance()


def test_a_completed_attempt_without_a_verdict_is_refused() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    world.verdicts.pop()
    with pytest.raises(InputRefused, match="no verdict"):
        world.balance()


def test_m31_an_excluded_pass_stays_listed_and_is_no_failure() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12, 99)
    balance = world.balance(exclusions={"a0003": "power cut in the building"})
    row = next(row for row in balance.rows if row.configuration_id == "A.b1")
    assert (row.accepted, row.failures, row.not_counted) == (3, 0, 1)
    assert row.summaries[0].maximum_seconds == "12.0"
    assert [(item.attempt_id, "power cut" in item.reason.text) for item in balance.left_out] == [("a0003", True)]


def test_a_row_that_has_not_ended_counts_as_a_failure_and_is_said() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    world.add("A", "b1", None, status=Status.STARTED)
    assert world.row("A.b1").failures == 1
    assert [warning.code for warning in world.balance().warnings] == ["attempt.unfinished"]


def test_records_survive_their_own_files() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    balance, decision = world.balance(), world.decision()
    assert type(balance).loads(balance.dump()) == balance
    assert type(decision).loads(decision.dump()) == decision
    assert decide(type(balance).loads(balance.dump()), world.protocol) == decision


def test_a_deadline_that_had_passed_at_the_freeze_is_said_and_never_hidden() -> None:
    """M44: the calendar of an expired plan shows hours, not a date that was kept."""
    expired, current = World(deadline="2026-09-01T09:00:00Z"), World()
    for world in (expired, current):
        world.passes("A", "b1", 10, 11, 12)
    assert "calendar.past" in {reason.code for reason in expired.decision().uncertain}
    assert "calendar.past" not in {reason.code for reason in current.decision().uncertain}
    assert "what-if.deadline" in {reason.code for reason in current.decision().what_if}
    assert "what-if.deadline" not in {reason.code for reason in expired.decision().what_if}
