"""Constraint by constraint: what was found, the limit, and the reason that is shown."""

from __future__ import annotations

from runner.decide.model import Constraint
from runner.evidence.attempt import Status
from runner.evidence.verdict import MetricValue
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
    assert "71 documents" in _constraint(world, "memory").reason.text
    completeness = _constraint(world, "completeness")
    assert (completeness.found, completeness.limit) == ("80", "100")


def test_memory_is_open_where_nothing_shows_whether_it_suffices() -> None:
    world = World()
    world.add("A", "b1", None, status=Status.KILLED, completed=80)
    assert _constraint(world, "memory").status == "not assessable"


def test_the_reason_of_a_missing_package_is_the_constraint_that_failed() -> None:
    world = World(prices=tariffs("A", "B 3 100.00 lots=0"))
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
