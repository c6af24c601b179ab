"""M14: a series changes one declared variable; what moved beside it is said, with the values of each variant."""

from __future__ import annotations

from runner.evidence.attempt import Settings
from runner.protocol.schema import Series
from tests.decide.worlds import World


def world(**moved: object) -> World:
    """b1 and b4 of a series over batch_size; in b4 the settings `moved` came out differently."""
    made = World(variants=("b1", "b4"))
    made.protocol = made.protocol.model_copy(
        update={"series": (Series(name="batch", variable="batch_size", values=(1, 4)),)}
    )
    made.passes("A", "b1", 20, 21, 20, effective=Settings(batch_size=1, max_length=512, threads=2))
    used = Settings(batch_size=4, max_length=512, threads=2).model_copy(update=moved)
    made.passes("A", "b4", 10, 11, 10, effective=used)
    return made


def test_m14_a_series_in_which_only_its_variable_moved_is_not_marked() -> None:
    assert [reason.code for reason in world().balance().warnings] == []


def test_m14_an_undeclared_variable_that_moved_marks_the_series() -> None:
    """Threads are left to the machine: nobody asked for another number, and it is not the batch size alone."""
    (reason,) = world(threads=4).balance().warnings
    assert reason.code == "series.moved"
    assert reason.values == {
        "series": "batch", "gpu": "A", "variable": "batch_size", "setting": "threads", "found": "2 (b1); 4 (b4)",
    }  # fmt: skip
    assert reason in world(threads=4).decision().warnings


def test_m14_settings_of_an_engine_count_and_unknown_ones_say_nothing() -> None:
    (reason,) = world(extra={"dynamic_shapes": False}, threads=None).balance().warnings or (None,)
    assert reason is None, "one value only, and an unknown number of threads"
    made = world(extra={"dynamic_shapes": False})
    made.attempts[0] = made.attempts[0].model_copy(
        update={"effective": Settings(batch_size=1, max_length=512, threads=2, extra={"dynamic_shapes": True})}
    )
    assert [r.values["setting"] for r in made.balance().warnings] == ["dynamic_shapes"]
