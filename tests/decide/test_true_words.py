"""Sentences and choices that were once false in some worlds: each kind in its smallest world (M43, M44)."""

from __future__ import annotations

from collections.abc import Sequence

from runner.decide.model import Decision, Reason
from runner.decide.sentences import SENTENCES, placeholders
from runner.evidence.attempt import Settings, Status
from runner.evidence.verdict import Check
from tests.decide.worlds import World, tariffs

HOUR = 3600


def _codes(reasons: Sequence[Reason]) -> list[str]:
    return [reason.code for reason in reasons]


def _said(decision: Decision, code: str) -> dict[str, str]:
    return next(reason.values for reason in decision.what_if if reason.code == code)


def test_rule_10_one_unknown_price_is_the_same_for_every_setting_on_the_gpu() -> None:
    """Only the 7 days of A have a price, as in the shipped catalogue: 3 days would be cheaper for both."""
    world = World(prices=tariffs("A 7 110.00"), variants=("b1", "b4"))
    world.passes("A", "b1", 100, 101, 102)
    world.passes("A", "b4", 50, 51, 52)
    decision = world.decision()
    assert (decision.chosen, decision.rule.code) == ("A.b4", "rule.separated")
    assert world.row("A.b4").package is not None
    assert any(reason.code == "question.unpriced" for reason in decision.uncertain)


def test_rule_10_what_an_unknown_price_cannot_undercut_keeps_nothing_open() -> None:
    """B's 3 days cost 400.00, so its 7 days do too, at least: they cannot beat A's 300.00, but may equal 400.00."""
    for price, chosen in (("300.00", "A.b1"), ("400.01", None)):
        world = World(prices=tariffs(f"A 7 {price}", "B 3 400.00"), variants=("b1",))
        world.passes("A", "b1", 94 * HOUR, 94 * HOUR, 94 * HOUR)
        world.passes("B", "b1", 94 * HOUR, 94 * HOUR, 94 * HOUR)
        decision = world.decision()
        assert decision.chosen == chosen
    assert _codes(decision.reasons)[0] == "undecided.unpriced"


def test_rule_10_a_price_that_could_only_be_equal_is_not_called_less() -> None:
    world = World(prices=tariffs("A 7 400.00", "B 3 400.00"), variants=("b1",))
    world.passes("A", "b1", 94 * HOUR, 94 * HOUR, 94 * HOUR)
    world.passes("B", "b1", 90 * HOUR, 90 * HOUR, 90 * HOUR)
    decision = world.decision()
    assert (decision.chosen, _codes(decision.reasons)[0]) == (None, "undecided.unpriced-equal")


def test_m27_the_times_of_each_seed_stay_apart() -> None:
    """Each seed is steady, the second slower: the difference between seeds is no spread of the passes."""
    world = World(prices=tariffs("A 3 300.00"), variants=("b1", "b4"), seeds=(0, 7))
    for seed, (slow, fast) in {0: (100, 90), 7: (200, 190)}.items():
        world.passes("A", "b1", slow, slow + 1, slow + 2, seed=seed)
        world.passes("A", "b4", fast, fast + 1, fast + 2, seed=seed)
    assert (world.decision().chosen, world.decision().rule.code) == ("A.b4", "rule.separated")


def test_m27_a_seed_that_was_not_run_misses_all_its_passes() -> None:
    world = World(seeds=(0, 7))
    world.passes("A", "b1", 10, 11, 12)
    (reason,) = world.decision().would_help
    assert (reason.code, reason.values["more_count"]) == ("help.passes", "3")


def test_rule_11_the_only_rental_is_not_called_the_only_admissible_one() -> None:
    """Rule 11: the own machine is admissible too, and never ranked against rentals."""
    world = World(prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("cpu", "b1", 10, 11, 12)
    decision = world.decision()
    assert (decision.chosen, decision.no_comparison) == ("A.b1", True)
    assert "chosen.lone-rental" in _codes(decision.reasons) and "chosen.lone" not in _codes(decision.reasons)


def test_rule_5_failures_are_no_reason_where_they_were_not_compared() -> None:
    """Three tied ones with unequal numbers of attempts: the median decided, also against the one that failed."""
    world = World(prices=tariffs("A 3 300.00"), variants=("b1", "b4", "b8"), planned=4, min_accepted=3)
    world.passes("A", "b8", 50, 50, 50, 50)
    world.passes("A", "b4", 90, 90)
    world.add("A", "b4", 90, accepted=False)
    world.passes("A", "b4", 90)
    world.passes("A", "b1", 100, 100, 100)
    world.attempts = [  # one pass each of the plan
        attempt.model_copy(update={"slot": attempt.slot.model_copy(update={"pass_index": 0})})
        for attempt in world.attempts
    ]
    decision = world.decision()
    assert (decision.chosen, decision.rule.code) == ("A.b8", "rule.separated")
    assert {item.configuration_id: item.reason.code for item in decision.excluded} == {
        "A.b4": "lost.slower",
        "A.b1": "lost.slower",
    }


def test_what_if_a_price_that_both_pay_turns_nothing() -> None:
    """b4 needs two lots of the same package: cheaper days of A make b1 cheaper as well; dearer ones both dearer."""
    two = {name: Settings(batch_size=int(name[1:]), max_length=512, devices=n) for name, n in (("b1", 1), ("b4", 2))}
    world = World(prices=tariffs("A 3 100.00"), variants=("b1", "b4"), settings=two)
    world.passes("A", "b1", 10, 11, 12)
    world.passes("A", "b4", 10, 11, 12)
    decision = world.decision()
    assert decision.chosen == "A.b1"
    assert not {"what-if.price-up", "what-if.price-down"} & set(_codes(decision.what_if))


def test_what_if_a_longer_window_needs_no_package_where_hours_are_ranked_or_lots_are_gone() -> None:
    hourly = World(
        prices=tariffs("A 3 100.00", "A 7 900.00", "A hourly 2.00"), extra={"billing": ("package", "hourly")}
    )
    hourly.passes("A", "b1", 60 * HOUR, 60 * HOUR, 60 * HOUR)
    assert not [code for code in _codes(hourly.decision().what_if) if code.startswith("what-if.longer")]
    gone = World(prices=tariffs("A 3 100.00", "A 7 900.00 lots=0", "A 30 1000.00"))
    gone.passes("A", "b1", 60 * HOUR, 60 * HOUR, 60 * HOUR)
    assert _said(gone.decision(), "what-if.longer")["days_count"] == "30"


def test_what_if_the_separation_is_told_of_the_one_that_is_nearest_to_breaking_it() -> None:
    """B is nearer (gap 10 over range 1), C nearer to overlapping (gap 20 over range 19)."""
    world = World(prices=tariffs("rental 3 300.00"))
    world.passes("A", "b1", 100, 100, 100)
    world.passes("B", "b1", 110, 110, 111)
    world.passes("C", "b1", 120, 110, 129)
    assert world.decision().chosen == "A.b1"
    said = _said(world.decision(), "what-if.separated")
    assert (said["other"], said["gap_seconds"], said["range_seconds"]) == ("C.b1", "20.0", "19.0")


def test_what_if_the_spare_documents_are_those_of_the_tightest_check() -> None:
    """M29: accuracy 0.9 against 0.80 bears 10 more wrong ones, the agreement only one, the drop none."""
    for name, found, limit, spare in (
        ("agreement", "96/100", "0.95", "1"),
        ("drop", "2/100", "0.02", "0"),
        ("flips", "4", "9", "5"),
        ("agreement", "50/100", "0.0", "10"),
    ):
        world = World()
        world.passes("A", "b1", 10, 11, 12)
        check = Check(name=name, status="passed", found=found, limit=limit, reason="looked at")
        world.verdicts = [
            verdict.model_copy(update={"checks": (*(c for c in verdict.checks if c.name != name), check)})
            for verdict in world.verdicts
        ]
        assert _said(world.decision(), "what-if.quality-all-count")["spare_count"] == spare


def test_the_number_of_further_passes_counts_the_failed_ones() -> None:
    """M3: at most 10 passes; three accepted and two failed leave five."""
    world = World(prices=tariffs("A 3 300.00"), variants=("b1", "b4"), planned=5)
    for name in ("b1", "b4"):
        world.passes("A", name, 10, 11, 12)
        for _ in range(2):
            world.add("A", name, 12, accepted=False)
    world.attempts = [
        attempt.model_copy(update={"slot": attempt.slot.model_copy(update={"pass_index": n % 5})})
        for n, attempt in enumerate(world.attempts)
    ]
    reason = next(reason for reason in world.decision().would_help if reason.code == "help.more-passes")
    assert reason.values["more_count"] == "5"


def test_too_few_passes_are_those_of_the_corpus_that_has_fewest() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 3 310.00"), corpora=("one", "two"))
    for corpus in world.corpora:
        world.passes("A", "b1", 10, 11, 12, corpus=corpus)
    world.passes("B", "b1", 10, 11, 12, corpus="one")
    world.passes("B", "b1", 10, 11, corpus="two")
    reason = next(reason for reason in world.decision().uncertain if reason.code == "uncertain.too-few")
    assert reason.values["accepted_count"] == "2"


def test_m44_every_tied_one_is_in_what_would_change_the_answer() -> None:
    """Four tied ones, all of them told; of more than eight the rest by name."""
    for count in (4, 10):
        names = tuple(f"b{number}" for number in range(1, count + 1))
        world = World(prices=tariffs("rental 3 300.00"), variants=names)
        for name in names:
            world.passes("cpu", name, 10, 12, 14)
        decision = world.decision()
        assert len(decision.tied) == count
        told = ", ".join(reason.values.get("name", reason.values.get("names", "")) for reason in decision.what_if)
        assert set(decision.tied) <= set(told.replace(",", "").split())


def test_m44_an_admissible_one_slower_beyond_the_ranges_is_in_a_list() -> None:
    world = World(prices=tariffs("rental 3 300.00"), variants=("b1", "b4", "b8"))
    world.passes("cpu", "b1", 10, 11, 12)
    world.passes("cpu", "b4", 11, 11.5, 12)
    world.passes("cpu", "b8", 14, 15, 15.5)
    decision = world.decision()
    assert decision.tied == ("cpu.b1", "cpu.b4")
    (out,) = decision.excluded
    assert (out.configuration_id, out.reason.text) == ("cpu.b8", "slower than cpu.b1: gap 4.0 s > range 2.0 s")
    assert _codes(decision.walk) == ["walk.own-cost", "walk.own-failures", "walk.times", "walk.own-questions"]


def test_m44_a_dearer_one_is_in_a_list_while_the_cheapest_are_tied() -> None:
    world = World(prices=tariffs("A 3 300.00", "B 3 300.00", "C 3 310.00"))
    for gpu in "ABC":
        world.passes(gpu, "b1", 10, 11, 12)
    decision = world.decision()
    assert (decision.tied, _codes(decision.walk)) == (
        ("A.b1", "B.b1"),
        ["walk.cost", "walk.failures", "walk.times", "walk.questions"],
    )
    assert [(item.configuration_id, item.reason.code) for item in decision.excluded] == [("C.b1", "lost.cost")]


def test_the_parts_of_a_name_say_the_unit_seconds_are_called_seconds() -> None:
    """A machine that reads `slack_elapsed_seconds: 3600` gets one hour; people read 1 h."""
    world = World(prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 10, 11, 12)
    values = _said(world.decision(), "what-if.deadline")
    assert set(values) == {"name", "slack_elapsed_seconds"}
    assert not [name for text in SENTENCES.values() for name in placeholders(text) if name.endswith("_hours")]


def test_m43_where_failures_decided_the_uncertainty_about_them_is_said() -> None:
    """One killed attempt decides between equal costs: that it may have been chance stands under `uncertain`."""
    world = World(prices=tariffs("A 3 300.00"), variants=("b1", "b4"), planned=4)
    world.passes("A", "b1", 100, 101, 102, 100)
    world.passes("A", "b4", 80, 81, 82)
    world.add("A", "b4", None, status=Status.KILLED)
    decision = world.decision()
    assert (decision.chosen, decision.rule.code) == ("A.b1", "rule.failures")
    (said,) = [reason.text for reason in decision.uncertain if reason.code == "uncertain.failures"]
    assert said.startswith("Failures decided against A.b4.")
