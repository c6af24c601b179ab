"""Constraint by constraint: what was found, the limit, and the reason that is shown."""

from __future__ import annotations

import re

import pytest

from runner.decide.choice import decide
from runner.decide.model import Constraint
from runner.decide.sentences import SENTENCES
from runner.evidence.attempt import Status
from runner.evidence.verdict import MetricValue
from runner.protocol.schema import Plan, Task
from tests.decide.worlds import World, tariffs


def _constraint(world: World, name: str, row: str = "A.b1") -> Constraint:
    (found,) = [constraint for constraint in world.row(row).constraints if constraint.name == name]
    return found


def _metric(value: str, *, group: str = "all", metric: str = "accuracy", documents: int = 100) -> MetricValue:
    right = round(float(value) * documents)
    return MetricValue(
        metric=metric, group=group, documents=documents, fraction=f"{right}/{documents}", value=value, minimum="0.80",
        met=True,
    )  # fmt: skip


def _judged(world: World, *metrics: tuple[MetricValue, ...]) -> World:
    world.verdicts = [
        verdict.model_copy(update={"metrics": found}) for verdict, found in zip(world.verdicts, metrics, strict=True)
    ]
    return world


def test_quality_shows_the_lowest_value_of_all_documents_not_of_a_subgroup() -> None:
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    group = _metric("0.81", group="stratum=long")
    _judged(world, (_metric("0.91"), group), (_metric("0.89"), group), (_metric("0.9"), group))
    assert _constraint(world, "quality").found == "accuracy 89/100"


def test_quality_margin_is_the_lowest_accepted_value_per_group() -> None:
    world = World()
    world.passes("A", "b1", 10, 11)
    world.add("A", "b1", 12, accepted=False)
    _judged(
        world,
        (_metric("0.91"), _metric("0.85", group="stratum=long", documents=20)),
        (_metric("0.9"), _metric("0.95", group="stratum=long", documents=20)),
        (_metric("0.5"), _metric("0.5", group="stratum=long", documents=20)),
    )
    margins = {item.group: item for item in world.row("A.b1").quality}
    assert (margins["all"].value, margins["all"].margin, margins["all"].spare_documents) == ("0.9", "0.10", 10)
    assert (margins["stratum=long"].value, margins["stratum=long"].spare_documents) == ("0.85", 1)


def test_spare_documents_are_said_for_accuracy_only() -> None:
    world = World()
    world.passes("A", "b1", 10)
    _judged(world, (_metric("0.9", metric="macro_f1"),))
    (margin,) = world.row("A.b1").quality
    assert margin.spare_documents is None


def test_memory_and_completeness_say_how_far_the_best_attempt_came() -> None:
    world = World()
    world.add("A", "b1", None, status=Status.OUT_OF_MEMORY, completed=40)
    world.add("A", "b1", None, status=Status.OUT_OF_MEMORY, completed=71)
    world.add("A", "b1", None, status=Status.KILLED, completed=80)
    assert "done before: 71" in _constraint(world, "memory").reason.text
    completeness = _constraint(world, "completeness")
    assert (completeness.found, completeness.limit) == ("80", "100")


def test_memory_is_open_where_nothing_shows_whether_it_suffices() -> None:
    world = World()
    world.add("A", "b1", None, status=Status.KILLED, completed=80)
    assert _constraint(world, "memory").status == "not assessable"


def test_the_reason_of_a_missing_package_is_the_constraint_that_failed() -> None:
    world = World(prices=tariffs("A", *(f"B {days} 100.00 lots=0" for days in (3, 7, 30))))
    world.passes("A", "b1", 10, 11, 12)
    world.passes("B", "b1", 10, 11, 12)
    reasons = {row.gpu: row.package_reason for row in world.balance().rows}
    assert reasons["A"] is not None and reasons["A"].code == "price.unknown"
    assert reasons["B"] is not None and reasons["B"].code == "availability.short"


def test_a_window_beyond_the_longest_package_is_never_extended_by_itself() -> None:
    """M35."""
    world = World(
        prices=tariffs("A 3 100.00", "A 30 900.00"), planned_hours="24:00:00", deadline="2027-03-01T09:00:00Z"
    )
    world.passes("A", "b1", 721 * 3600, 721 * 3600, 721 * 3600)
    row = world.row("A.b1")
    assert row.first_failed == "window"
    assert row.package is None and row.committed_cost is None
    assert row.package_reason is not None and "nothing is extended automatically" in row.package_reason.text


def test_m31_passes_that_were_all_excluded_are_not_told_as_a_failure_of_quality() -> None:
    """Nothing is known about their quality that counts: the reason and the help say so."""
    world = World(prices=tariffs("A 3 300.00"))
    world.passes("A", "b1", 10, 11, 12)
    every = {attempt.attempt_id: "another load on the host" for attempt in world.attempts}
    balance = world.balance(exclusions=every)
    quality = next(c for c in balance.rows[0].constraints if c.name == "quality")
    assert (quality.status, quality.reason.code) == ("not met", "quality.excluded")
    decision = decide(balance, world.protocol)
    assert [reason.code for reason in decision.would_help] == ["help.excluded"]
    # Their slots are not run again: three more than were planned.
    assert decision.would_help[0].text.endswith("Command: make measure GPU=A PASSES=6")
    assert not any(": -" in reason.text for reason in decision.reasons)
    rejected = World(prices=tariffs("A 3 300.00"))
    rejected.add("A", "b1", 10, accepted=False)
    rejected.passes("A", "b1", 11)
    one = {rejected.attempts[1].attempt_id: "another load on the host"}
    found = next(c for c in rejected.balance(exclusions=one).rows[0].constraints if c.name == "quality")
    assert (found.status, found.reason.code, found.reason.values["why"]) == (
        "not met", "quality.rejected", "metric: not met",
    )  # fmt: skip


def test_numbers_of_lots_read_well_whatever_they_are() -> None:
    """No sentence about lots puts a bare number before a plural: one lot, two lots, in every language."""
    for code in ("availability.enough", "availability.unstated", "availability.short", "availability.plan"):
        assert re.search(r"\{(lots|needed)_count\} [a-z]", SENTENCES[code]) is None, code


def _fixed_collection(prices: str = "A 3 300.00") -> World:
    """Measuring of 10 h planned from 10:00 on 1 December; the collection is an appointment on 3 December, 09:00."""
    plan = Plan(
        zone="Europe/Berlin", deadline="2026-12-09T12:00:00Z", deliverables=("final",),
        task=(
            Task(id="prepare", title="p", kind="preparation", start="2026-12-01T09:00", duration="1:00:00"),
            Task(id="measure", title="m", kind="measurement", after=("prepare",), corpus="final",
                 duration="10:00:00", delivery=True),
            Task(id="collect", title="c", kind="collection", start="2026-12-03T09:00", duration="1:00:00"),
        ),
    )  # fmt: skip

    class Fixed(World):
        @property
        def plan(self) -> Plan:
            return plan

    return Fixed(prices=tariffs(prices, "B 3 400.00"), deadline="2026-12-09T12:00:00Z")


def test_m34_a_configuration_that_overruns_the_last_collection_is_inadmissible_and_the_others_are_decided() -> None:
    """50 h from 1 December 10:00 (Berlin) end on the 3rd at 12:00, after the collection that ends at 10:00."""
    world = _fixed_collection()
    world.passes("A", "b1", 180000, 180000, 180000)
    world.passes("B", "b1", 36000, 36000, 36001)
    decision = world.decision()
    assert decision.chosen == "B.b1"
    assert [(e.configuration_id, e.constraint, e.reason.code) for e in decision.excluded] == [
        ("A.b1", "window", "window.overrun")
    ]
    assert decision.excluded[0].reason.text == (
        "task measure ends on 2026-12-03 11:00 UTC, after the last collection on 2026-12-03 09:00 UTC"
    )
    row = world.row("A.b1")
    assert row.package is None and row.unpriced_days == () and row.committed_cost is None
    assert row.window is not None
    assert (row.window.window_seconds, row.window.busy_seconds, row.window.waiting_seconds) == ("176400", "176400", "0")
    alone = _fixed_collection("A")
    alone.passes("A", "b1", 180000, 180000, 180000)
    assert [reason.code for reason in alone.decision().would_help] == ["help.overrun"]
    own = _fixed_collection()
    own.passes("cpu", "b1", 180000, 180000, 180000)
    assert own.row("cpu.b1").first_failed == "window"


def test_m42_the_lowest_value_is_the_smallest_number_not_the_first_text() -> None:
    """M42: a metric of one's own may exceed 1, Matthews' coefficient may be negative: "10.5" < "9.0" only as text."""
    world = World()
    world.passes("A", "b1", 10, 11)
    for values, lowest in ((("10.5", "9.0"), "9.0"), (("-0.1", "-0.5"), "-0.5")):
        metrics = (
            MetricValue(metric="own", group="all", documents=9, fraction=None, value=value, minimum="-1", met=True)
            for value in values
        )
        _judged(world, *((metric,) for metric in metrics))
        assert _constraint(world, "quality").found == f"own {lowest}"


def _status(world: World, name: str, row: str = "A.b1") -> tuple[str, str]:
    found = _constraint(world, name, row)
    return found.status, found.reason.code


def test_rules_3_and_8_the_plan_alone_meets_no_deadline() -> None:
    """Without an accepted pass for every deliverable no largest accepted duration stands in the window."""
    world = World()
    world.add("A", "b1", None, status=Status.OUT_OF_MEMORY)
    assert _status(world, "deadline") == ("not assessable", "deadline.as-planned")
    assert _status(world, "window") == ("not assessable", "window.as-planned")
    assert _constraint(world, "deadline").found is None
    assert world.row("A.b1").committed_cost is not None, "M37: the committed cost still stands"
    late = World(deadline="2026-12-01T09:00:00+01:00")
    late.add("A", "b1", None, status=Status.OUT_OF_MEMORY)
    assert _status(late, "deadline") == ("not assessable", "deadline.as-planned-late")
    one_of_two = World(corpora=("final", "second"))
    one_of_two.passes("A", "b1", 10, 11, 12, corpus="final")
    assert _status(one_of_two, "deadline") == ("not assessable", "deadline.as-planned")
    one_of_two.passes("A", "b1", 10, 11, 12, corpus="second")
    assert _status(one_of_two, "deadline") == ("met", "deadline.met")
    assert _status(one_of_two, "window") == ("met", "window.covered")


def test_rule_11_an_own_machine_without_an_accepted_pass_meets_no_deadline_and_has_no_window() -> None:
    world = World()
    world.add("cpu", "b1", None, status=Status.KILLED)
    assert _status(world, "deadline", "cpu.b1") == ("not assessable", "deadline.as-planned")
    assert _status(world, "window", "cpu.b1") == ("not applicable", "own-machine.free")


def test_a_missing_package_is_never_explained_by_the_deadline() -> None:
    world = World(prices=tariffs("A"), deadline="2026-12-01T09:00:00+01:00")
    world.passes("A", "b1", 10, 11, 12)
    reason = world.row("A.b1").package_reason
    assert reason is not None and reason.code == "price.unknown"


@pytest.mark.parametrize(("third", "chosen"), [(0, "A.b1"), (3, "A.b4")])
def test_m29_passes_of_one_configuration_that_cut_differently_are_not_one_work(third: int, chosen: str) -> None:
    world = World(variants=("b1", "b4"))
    world.passes("A", "b1", 10, 11)
    world.add("A", "b1", 12, truncated=third)
    world.passes("A", "b4", 20, 21, 22)
    found = _constraint(world, "settings")
    assert found.status == ("not met" if third else "met")
    assert ("0/0 (a0000) against 3/3 (a0002)" in found.reason.text) is bool(third)
    decision = world.decision()
    assert decision.chosen == chosen
    assert any("different work" in str(row) for row in decision.excluded) is bool(third)


def test_m29_a_rejected_pass_that_cut_differently_spoils_nothing() -> None:
    world = World()
    world.passes("A", "b1", 10, 11)
    world.add("A", "b1", 10, truncated=3, accepted=False)
    assert _constraint(world, "settings").status == "met"


def _questions(world: World) -> set[str]:
    return {reason.code for reason in world.row("A.b1").open_questions}


def test_m24_the_memory_of_a_card_is_unknown_although_that_of_the_host_is_known() -> None:
    """Engine `command`: what its program takes of a card nobody counts; so is who else was on the card."""
    world = World()
    world.passes("A", "b1", 10, 11, 12)
    assert not {"question.card-memory-unknown", "question.shared-unknown"} & _questions(world)
    card = world.attempts[1].memory[0]
    host = card.model_copy(update={"device": "cpu", "counter": "VmHWM", "bytes": 1 << 28})
    unknown = card.model_copy(update={"bytes": None, "at_seconds": None, "reason": "only its own library counts"})
    world.attempts[1] = world.attempts[1].model_copy(
        update={"memory": (host, unknown), "device_shared": None, "device_shared_reason": "nothing reads them"}
    )
    assert {"question.card-memory-unknown", "question.shared-unknown"} <= _questions(world)
    own = world.attempts[1].model_copy(update={"gpu_declared": "cpu", "memory": (host,)})
    world.attempts = [own if attempt is world.attempts[1] else attempt for attempt in world.attempts]
    assert "question.card-memory-unknown" not in _questions(world)
