"""The plan against what really happened, in the balance; measured phases in place of planned ones (M17, M34)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runner.decide.calendar import what_happened
from runner.decide.model import TaskHappened
from runner.evidence.attempt import Phase, PhaseName
from runner.protocol.schema import Plan, Task
from tests.decide.worlds import World, tariffs

HOUR = 3600


class Rented(World):
    """A world whose plan installs and warms up too; the warm-up may name the phases that replace its duration."""

    phases: tuple[Any, ...] = ()

    @property
    def plan(self) -> Plan:
        warm = Task(id="warm", title="Warm up", kind="warm_up", after=("install",), duration="4:00:00")
        before = (
            Task(id="install", title="Install", kind="installation", after=("prepare",), duration="2:00:00"),
            warm.model_copy(update={"phases": self.phases}),
        )
        usual = super().plan
        rest = [task.model_copy(update={"after": ("warm",)}) if task.delivery else task for task in usual.task[1:]]
        return usual.model_copy(update={"task": (usual.task[0], *before, *rest)})

    def measure(self, seconds: float, count: int = 3) -> None:
        """Attempts of an hour each from noon on, with 600 s of loading and 300 s of warming up."""
        phases = (Phase(name=PhaseName.LOAD, seconds=600.0), Phase(name=PhaseName.WARM_UP, seconds=300.0),
                  Phase(name=PhaseName.PASS, seconds=seconds))  # fmt: skip
        for number in range(count):
            self.add("A", "b1", seconds)
            started, ended = f"2026-12-01T{12 + number}:00:00Z", f"2026-12-01T{12 + number}:30:00Z"
            self.attempts[-1] = self.attempts[-1].model_copy(
                update={"started_at_utc": started, "ended_at_utc": ended, "phases": phases}
            )
        self.manifests = {
            name: one.model_copy(update={"installation": {"seconds": 90.5}}) for name, one in self.manifests.items()
        }

    def tasks(self) -> dict[str, TaskHappened]:
        return {task.task_id: task for task in self.row("A.b1").happened}


def test_every_task_stands_beside_what_the_records_show() -> None:
    """Issue 4, 2: planned and real times of each task; what nobody recorded says so and is never 0."""
    world = Rented()
    world.measure(100)
    tasks = world.tasks()
    assert list(tasks) == ["prepare", "install", "warm", "measure-final", "collect"]
    measured = tasks["measure-final"]
    assert (measured.planned_start_utc, measured.planned_seconds) == ("2026-12-01T15:00:00Z", "86400")
    assert (measured.actual_start_utc, measured.actual_end_utc) == ("2026-12-01T12:00:00Z", "2026-12-01T14:30:00Z")
    assert measured.actual_seconds == "9000"
    assert (tasks["warm"].actual_seconds, tasks["warm"].actual_start_utc) == ("2700.0", None), "spread over attempts"
    assert tasks["install"].actual_seconds == "90.5"
    for name in ("prepare", "collect"):
        assert tasks[name].actual_seconds is None and tasks[name].actual_reason is not None
    assert world.row("A.b1").phase_seconds == {"installation": "90.5", "load": "1800.0", "warm_up": "900.0"}


def test_m17_measured_phases_replace_a_planned_duration_only_where_the_plan_names_them() -> None:
    """Issue 4, 2: 900 s of warm-up in place of 4 hours: the window is that much shorter, and so may be the package."""
    planned, replaced = Rented(), Rented()
    replaced.phases = ("warm_up",)
    for world in (planned, replaced):
        world.measure(64 * HOUR)
    windows = [world.row("A.b1").window for world in (planned, replaced)]
    assert [window.window_seconds for window in windows if window] == [str(72 * HOUR), str(68 * HOUR + 900)]
    replaced.phases = ("load", "warm_up")
    window = replaced.row("A.b1").window
    assert window is not None and window.window_seconds == str(68 * HOUR + 2700)
    replaced.phases = ("download",)
    window = replaced.row("A.b1").window
    assert window is not None and window.window_seconds == str(72 * HOUR), "nothing recorded: the plan stands"


def test_judging_is_not_what_an_attempt_calls_evaluation() -> None:
    """The evaluation of the plan happens after the attempts: their own phases say nothing about it."""
    world = Rented()
    world.measure(100)
    plan = world.plan
    judging = Task(id="judge", title="Verdicts", kind="evaluation", after=("measure-final",), duration="1:00:00")
    judged = plan.model_copy(update={"task": (*plan.task[:-1], judging, plan.task[-1])})
    found = what_happened(judged, "b1", world.attempts, {"evaluation": Decimal(5), "writing": Decimal(1)})
    (task,) = [task for task in found if task.task_id == "judge"]
    assert task.actual_seconds is None and task.actual_reason is not None
    named = judging.model_copy(update={"phases": ("evaluation",)})
    asked = plan.model_copy(update={"task": (*plan.task[:-1], named, plan.task[-1])})
    found = what_happened(asked, "b1", world.attempts, {"evaluation": Decimal(5)})
    (task,) = [task for task in found if task.task_id == "judge"]
    assert task.actual_seconds == "5", "unless the plan says so"


def test_two_tasks_of_a_kind_do_not_both_claim_the_same_phases() -> None:
    world = Rented()
    world.measure(100)
    plan = world.plan
    twice = plan.task[2].model_copy(update={"id": "warm-again", "after": ("install",)})

    class Twice(Rented):
        @property
        def plan(self) -> Plan:
            return plan.model_copy(update={"task": (*plan.task, twice)})

    other = Twice(prices=tariffs("A 3 300.00"))
    other.measure(100)
    assert other.tasks()["warm"].actual_seconds is None and other.tasks()["warm-again"].actual_seconds is None


def test_a_configuration_that_was_not_measured_has_no_past() -> None:
    world = Rented()
    world.measure(100)
    assert world.row("B.b1").happened == () and world.row("B.b1").phase_seconds == {}
