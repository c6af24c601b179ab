"""TI-03 (M20, M34): what really happened where a wall clock moved: monotonic seconds as a bound, no difference."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from runner.evidence.attempt import Attempt, Phase, PhaseName
from runner.pricing.happened import clock_moved_tasks, compare, measured_tasks
from runner.pricing.window import access_window
from runner.units import parse_utc, utc_text
from tests.decide.worlds import World

RECORD = json.loads((Path(__file__).parents[1] / "cases" / "TI-03" / "record.json").read_text())
NOON = parse_utc("2026-12-01T12:00:00Z")


def ran(world: World, start: datetime, end: datetime, *, moved: float | None = 0.0, seconds: float = 600) -> Attempt:
    """One ended attempt: 60 s of loading, then the pass; phases inside of the pass are not added again."""
    world.add("A", "b1", seconds)
    phases = (
        Phase(name=PhaseName.LOAD, seconds=60.0), Phase(name=PhaseName.PASS, seconds=seconds),
        Phase(name=PhaseName.INFERENCE, seconds=seconds / 2, inside_pass=True),
    )  # fmt: skip
    world.attempts[-1] = world.attempts[-1].model_copy(
        update={"started_at_utc": utc_text(start), "ended_at_utc": utc_text(end), "wall_clock_moved_seconds": moved,
                "phases": phases}
    )  # fmt: skip
    return world.attempts[-1]


def test_ti_03_one_attempt_set_back_is_unknown_and_at_least_its_monotonic_seconds() -> None:
    """TI-03 [1, 3]: -3480 s by the wall clock; 120 s of the pass and 60 s of loading are what is known."""
    world = World()
    mono = float(RECORD["mono_end"]) - float(RECORD["mono_start"])
    wall = (parse_utc(RECORD["wall_end"]) - parse_utc(RECORD["wall_start"])).total_seconds()
    ran(world, parse_utc(RECORD["wall_start"]), parse_utc(RECORD["wall_end"]), moved=wall - mono, seconds=mono)
    assert wall == -3480 and measured_tasks(world.plan, world.attempts) == ()
    assert clock_moved_tasks(world.plan, world.attempts) == {"measure-final": Decimal("180.0")}
    (row,) = [
        row for row in compare(access_window(world.plan), (), {"measure-final": "the clock moved"})
        if row.id == "measure-final"
    ]  # fmt: skip
    assert (row.actual, row.longer_seconds, row.reason) == (None, None, "the clock moved")


@pytest.mark.parametrize("moved", [-3600.0, 3600.0, None])
def test_ti_03_one_jump_among_several_attempts_spoils_the_whole_span(moved: float | None) -> None:
    """TI-03: four attempts of a quarter of an hour, the clock set in the second: neither 59 min nor 2 h is said."""
    world = World()
    shift = timedelta(seconds=moved or -3600)
    quarter = timedelta(minutes=15)
    for number in range(4):
        start = NOON + number * quarter + (shift if number > 1 else timedelta(0))
        end = NOON + (number + 1) * quarter + (shift if number > 0 else timedelta(0))
        ran(world, start, end, moved=moved if number == 1 else 0.0)
    assert measured_tasks(world.plan, world.attempts, "b1") == ()
    assert clock_moved_tasks(world.plan, world.attempts, "b1") == {"measure-final": Decimal("2640.0")}


def test_ti_03_a_clock_set_back_between_two_attempts_is_noticed_by_their_chain() -> None:
    """TI-03 (M50): no attempt saw the clock move, yet the later one of the chain started earlier."""
    world = World()
    ran(world, NOON, NOON + timedelta(minutes=15))
    ran(world, NOON - timedelta(minutes=40), NOON - timedelta(minutes=25))
    assert measured_tasks(world.plan, world.attempts) == ()
    assert clock_moved_tasks(world.plan, world.attempts) == {"measure-final": Decimal("1320.0")}


def test_ti_03_seconds_of_machines_that_ran_at_the_same_time_are_not_added_to_the_bound() -> None:
    """TI-03: two machines for 660 s each lasted at least 660 s, not 1,320 s."""
    world = World()
    first = ran(world, NOON, NOON - timedelta(minutes=45), moved=-3600.0)
    second = ran(world, NOON, NOON + timedelta(minutes=15))
    second = second.model_copy(update={"chain": first.chain.model_copy(update={"machine_id": "m-other"})})
    assert clock_moved_tasks(world.plan, [first, second]) == {"measure-final": Decimal("660.0")}


def test_ti_03_a_clock_within_a_second_is_subtracted_as_before() -> None:
    """TI-03: drift below a second is no jump: the span is known, and nothing is reported as moved."""
    world = World()
    ran(world, NOON, NOON + timedelta(minutes=15), moved=-0.999)
    ran(world, NOON + timedelta(minutes=15), NOON + timedelta(minutes=30))
    (task,) = measured_tasks(world.plan, world.attempts)
    assert task.seconds == 1800 and clock_moved_tasks(world.plan, world.attempts) == {}
