"""The plan as iCalendar beside the note, and a plan read back from a calendar (issue 4, 2; M34)."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.pricing.calendar import plan_calendar, read_calendar
from runner.pricing.planfile import read_window
from runner.pricing.planwrite import plan_text, write_plan
from runner.protocol.read import read_plan
from runner.protocol.schema import Task

ROOT = Path(__file__).resolve().parents[2]
PLAN = ROOT / "protocol" / "plan.toml"


def test_the_calendar_beside_the_note_is_the_plan() -> None:
    """Same plan, same bytes; the tasks of the plan with their times, and the deadline."""
    data = plan_calendar(read_plan(PLAN), ["b1", "b4"])
    assert data == plan_calendar(read_plan(PLAN), ["b1", "b4"])
    assert data.count(b"BEGIN:VEVENT") == len(read_plan(PLAN).task) and data.count(b"BEGIN:VTODO") == 1


def test_a_calendar_that_is_not_touched_reads_back_as_the_same_window(tmp_path: Path) -> None:
    file = tmp_path / "plan.ics"
    file.write_bytes(plan_calendar(read_plan(PLAN), []))
    assert read_calendar(file) == read_window(PLAN)[1]


def test_tasks_of_one_configuration_carry_its_name_and_shifted_ones_stand_once_per_time() -> None:
    plan = read_plan(PLAN)
    extra = Task(id="compile", title="Compile", kind="warm_up", after=("warm-up",), duration="3:00:00")
    extra = extra.model_copy(update={"configuration": "b8"})
    tasks = [task.model_copy(update={"after": ("warm-up", "compile")}) if task.id == "measure" else task
             for task in plan.task]  # fmt: skip
    data = plan_calendar(plan.model_copy(update={"task": (*tasks, extra)}), ["b1", "b4", "b8"]).decode()
    events = [event.replace("\r\n ", "") for event in data.split("BEGIN:VEVENT")[1:]]
    compiled = [event for event in events if "Compile" in event]
    assert len(compiled) == 1 and "SUMMARY:Compile (b8)" in compiled[0] and "UID:compile.b8@plan" in compiled[0]
    measured = sorted(event.split("SUMMARY:")[1].split("\r\n")[0] for event in events if "UID:measure." in event)
    assert measured == ["Five passes over the corpus (b1\\, b4)", "Five passes over the corpus (b8)"]
    assert sum("UID:collect@plan" in event for event in events) == 1, "the same for all: once"


def moved(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) >= 1
    return data.replace(old, new)


def test_a_plan_is_read_from_a_calendar_in_which_somebody_moved_a_task(tmp_path: Path) -> None:
    """The times are those of the calendar; corpus, passes and dependencies stay those of the plan."""
    plan, before = read_window(PLAN)
    calendar, target = tmp_path / "moved.ics", tmp_path / "new.toml"
    data = plan_calendar(plan, [])
    for end in (b"DTEND", b"DTSTART"):  # the collection ends later, what comes after it starts later
        data = moved(data, end + b":20271008T070000Z", end + b":20271008T073000Z")
    calendar.write_bytes(data)
    command = ["--campaign", str(ROOT), "window", "--tasks", str(calendar), "--write-plan", str(target)]
    assert run(command) == 0
    after, window = read_window(target)
    assert window.window_seconds == before.window_seconds + 1800
    tasks = {task.id: task for task in after.task}
    assert (tasks["measure"].corpus, tasks["measure"].passes, tasks["measure"].after) == ("demo-final", 5, ("warm-up",))
    assert (after.zone, after.deadline, after.deliverables) == (plan.zone, plan.deadline, plan.deliverables)
    assert tasks["deliver"].delivery
    assert run(command) == 2, "never over a plan that is there"


def test_a_calendar_that_contradicts_the_plan_writes_nothing(tmp_path: Path) -> None:
    """A task moved before one that it waits for."""
    plan, target = read_plan(PLAN), tmp_path / "new.toml"
    calendar = tmp_path / "moved.ics"
    calendar.write_bytes(moved(plan_calendar(plan, []), b"DTSTART:20271005T100000Z", b"DTSTART:20271005T090000Z"))
    with pytest.raises(InputRefused, match="does not make a plan: task 'repeat' starts before a task"):
        write_plan(target, plan, read_calendar(calendar))
    assert list(tmp_path.iterdir()) == [calendar]


def test_an_hour_that_is_two_instants_is_written_with_its_offset(tmp_path: Path) -> None:
    """02:30 on the last Sunday of October, the second one: the plan must mean the same instant again."""
    plan = read_plan(PLAN).model_copy(update={"deadline": "2026-10-26T12:00"})
    file = tmp_path / "x.ics"
    file.write_text(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART:20261025T013000Z\r\n"
        "DURATION:PT2H\r\nCATEGORIES:collection,delivery\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
        encoding="utf-8",
    )
    text = plan_text(plan, read_calendar(file))
    assert 'start = "2026-10-25T02:30:00+01:00"' in text and 'end = "2026-10-25T04:30"' in text


@pytest.mark.parametrize(
    "arguments", [("--write-plan", "new.toml"), ("--measured",), ("--measured", "--tasks", "x.ics")]
)
def test_what_belongs_together_is_asked_for(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--campaign", str(ROOT), "window", *arguments]) == 2
    assert "needs" in capsys.readouterr().err


def test_a_title_in_the_calendar_has_no_character_that_acts() -> None:
    """RFC 5545 3.3.11: no control characters; nothing turns the text round or ends a line of its own."""
    plan = read_plan(PLAN)
    title = "x\r\nEND:VEVENT\r\nBEGIN:VALARM\x1b[31m\u202ey\x00\x07;,\ttab"
    odd = plan.model_copy(update={"task": (plan.task[0].model_copy(update={"title": title}), *plan.task[1:])})
    text = plan_calendar(odd, []).decode("utf-8")
    assert not {one for one in text if unicodedata.category(one) in ("Cc", "Cf")} - {"\r", "\n", "\t"}
    assert "\nBEGIN:VALARM" not in text and "\\\\u202ey" in text.replace("\r\n ", "")


def test_a_plan_with_text_of_any_kind_is_toml(tmp_path: Path) -> None:
    """Quotes, backslashes and letters of any script in a title survive."""
    plan = read_plan(PLAN)
    title = 'say "hé" \\ 中 \t end'
    odd = plan.model_copy(update={"task": (plan.task[0].model_copy(update={"title": title}), *plan.task[1:])})
    calendar, target = tmp_path / "x.ics", tmp_path / "new.toml"
    calendar.write_bytes(plan_calendar(odd, []))
    write_plan(target, odd, read_calendar(calendar))
    assert json.dumps(read_plan(target).task[0].title) == json.dumps(title)
