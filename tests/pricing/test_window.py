"""The access window: exact elapsed hours, overlaps, zones, dependencies (M34; PR-01, PR-03, PR-06 to PR-08)."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import InputRefused
from runner.pricing.calendar import read_calendar, write_calendar
from runner.pricing.planfile import read_window
from runner.pricing.tasks import read_tasks
from runner.pricing.times import elapsed, local_text, parse_duration, parse_instant, seconds_of
from runner.pricing.window import TaskTime, Window, access_window, total, union, window_of
from runner.protocol.read import read_plan
from runner.protocol.schema import Plan, Task

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
HOUR = 3600


def plan_of(*tasks: Task, **changes: object) -> Plan:
    fields = {"zone": "Europe/Berlin", "deadline": "2027-10-08T12:00", "deliverables": ("c",), "task": tasks}
    return Plan.model_validate(fields | changes)


def task(id: str, **fields: object) -> Task:
    return Task.model_validate({"id": id, "title": id, "kind": "check"} | fields)


START = task("a", start="2027-10-04T09:00", duration="1:00:00", delivery=True)


# ---- the example of the method -------------------------------------------------------------------


def test_monday_to_friday_is_96_hours() -> None:
    """M34: Monday 09:00 to Friday 09:00 in one zone without a clock change; more than 3 days, less than 7."""
    plan, found = read_window(ROOT / "protocol" / "plan.toml")
    assert found.window_seconds == 96 * HOUR and plan.zone == "Europe/Berlin"
    assert found.busy_seconds + found.waiting_seconds == found.window_seconds
    assert found.deadline_slack_seconds == HOUR
    assert [one.id for one in found.tasks if one.after_rental] == ["deliver"]
    assert {one.kind for one in found.tasks} >= {"preparation", "measurement", "retry", "wait", "collection"}


@pytest.mark.parametrize(("seconds", "moved"), [("0.5", False), ("200000", True)])
def test_measured_passes_replace_the_planned_duration(seconds: str, moved: bool) -> None:
    """DESIGN section 6, rule 8: the largest accepted duration, times the passes; later tasks move if they must."""
    plan = read_plan(ROOT / "protocol" / "plan.toml")
    found = access_window(plan, pass_seconds={"demo-final": Decimal(seconds)})
    by_id = {one.id: one for one in found.tasks}
    assert by_id["measure"].source == "measured" and by_id["measure"].seconds == Decimal(seconds) * 5
    assert by_id["repeat"].start == by_id["measure"].end
    assert by_id["collect"].moved is moved
    if moved:
        assert found.deadline_slack_seconds is not None and found.deadline_slack_seconds < 0
    else:
        assert found.window_seconds == 96 * HOUR


def test_any_task_may_be_replaced_by_what_was_measured() -> None:
    plan = plan_of(START, task("b", after=("a",), duration="2:00:00", kind="collection"))
    found = access_window(plan, task_seconds={"a": Decimal("0.0000001")})
    assert found.tasks[0].seconds == Decimal("0.000001"), "rounded up to the next microsecond, never down"
    assert found.window_seconds == 2 * HOUR + Decimal("0.000001")


# ---- dependencies --------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 2**12 - 1)), min_size=1, max_size=12), st.integers())
@settings(deadline=None, max_examples=60)
def test_the_order_of_the_tasks_in_the_plan_does_not_matter(tasks: list[tuple[int, int]], seed: int) -> None:
    """Random dependencies on earlier tasks (bits): each starts when the last of them ends; any order, same window."""
    ends: list[int] = []
    plan_tasks = []
    for number, (seconds, bits) in enumerate(tasks):
        before = [other for other in range(number) if bits >> other & 1]
        ends.append(max((ends[other] for other in before), default=0) + seconds)
        start = {"after": tuple(f"t{other}" for other in before)} if before else {"start": "2027-10-04T09:00"}
        clock = f"{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
        plan_tasks.append(task(f"t{number}", duration=clock, delivery=number == 0, **start))
    found = access_window(plan_of(*plan_tasks))
    assert found.window_seconds == max(ends)
    random.Random(seed).shuffle(plan_tasks)
    assert access_window(plan_of(*plan_tasks)) == found


def test_tasks_of_a_configuration_are_left_out_for_the_others() -> None:
    """What waits for a task of another configuration waits for what that task waits for."""
    plan = plan_of(
        START,
        task("b", after=("a",), duration="5:00:00", configuration="b8"),
        task("c", after=("b",), duration="1:00:00", kind="collection"),
    )
    assert access_window(plan, configuration="b8").window_seconds == 7 * HOUR
    assert access_window(plan, configuration="b1").window_seconds == 2 * HOUR


@pytest.mark.parametrize(
    ("tasks", "words", "column"),
    [
        ((START, task("b", after=("x",), duration="1:00:00")), "not in the plan", "task[2].after"),
        ((START, task("b", after=("b",), duration="1:00:00")), "circle", "task[2].after"),
        ((START, task("b", duration="1:00:00")), "no start", "task[2]"),
        ((START, task("b", start="2027-10-04T12:00")), "start and end, or a duration", "task[2]"),
        ((START, task("b", start="2027-10-04T12:00", end="2027-10-04T13:00", duration="1:00:00")), "or a", "task[2]"),
        ((START, task("b", end="2027-10-04T13:00", after=("a",))), "or a duration", "task[2]"),
        ((START, task("b", start="2027-10-04T12:00", end="2027-10-04T11:00")), "before it starts", "task[2].end"),
        ((START, task("b", start="2027-10-04T09:30", duration="1:00:00", after=("a",))), "has ended", "task[2].start"),
        ((START, task("b", after=("a",), duration="90:00")), "H:MM:SS", "task[2].duration"),
        ((START, task("b", start="2027-10-04", duration="1:00:00")), "not a time", "task[2].start"),
        (
            (
                START,
                task("b", start="2027-10-04T09:30", duration="1:00:00", kind="collection"),
                task("c", start="2027-10-04T10:00", duration="9:00:00"),
            ),
            "still runs",
            "task",
        ),
        ((START, task("a", after=("a",), duration="1:00:00")), "same id", "task"),
        ((task("a", start="2027-10-04T09:00", duration="1:00:00"),), "no task is the delivery", "task"),
    ],
)
def test_a_plan_that_says_nothing_or_two_things_is_refused(tasks: tuple[Task, ...], words: str, column: str) -> None:
    with pytest.raises(InputRefused) as refused:
        access_window(plan_of(*tasks))
    assert words in str(refused.value) and refused.value.column == column


def test_several_deliverables_need_to_be_named() -> None:
    """M38: a measurement task says which corpus it processes."""
    measure = task("m", start="2027-10-04T09:00", duration="1:00:00", kind="measurement", delivery=True)
    with pytest.raises(InputRefused, match="which corpus"):
        access_window(plan_of(measure, deliverables=("c", "d")), pass_seconds={"c": Decimal(1)})
    named = measure.model_copy(update={"corpus": "d", "passes": 3})
    found = access_window(plan_of(named, deliverables=("c", "d")), pass_seconds={"d": Decimal(7)})
    assert found.window_seconds == 21


def test_refusals_of_a_plan_file_name_file_and_line(tmp_path: Path) -> None:
    text = (ROOT / "protocol" / "plan.toml").read_text(encoding="utf-8")
    file = tmp_path / "plan.toml"
    file.write_text(text.replace('end = "2027-10-07T11:00"', 'end = "2027-10-07T25:00"'), encoding="utf-8")
    with pytest.raises(InputRefused) as refused:
        read_window(file)
    line = next(n for n, row in enumerate(text.splitlines(), start=1) if row == 'end = "2027-10-07T11:00"')
    assert (refused.value.file, refused.value.line) == (str(file), line)
    file.write_text(text.replace('zone = "Europe/Berlin"', 'zone = "CEST"'), encoding="utf-8")
    with pytest.raises(InputRefused, match="'CEST' is not an IANA zone name"):
        read_window(file)


# ---- zones and clock changes ---------------------------------------------------------------------


@pytest.mark.parametrize("file", ["tasks.csv", "window.ics"])
def test_the_end_of_summer_time_has_25_hours(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PR-03: noon to noon over 2026-10-25, on a machine set to any zone."""
    for zone in ("UTC", "Asia/Tokyo", "Europe/Berlin"):
        monkeypatch.setenv("TZ", zone)
        path = CASES / "PR-03" / file
        found = read_calendar(path) if file.endswith("ics") else window_of(read_tasks(path))
        assert found.window_seconds == 25 * HOUR
        assert found.starts_at == datetime(2026, 10, 24, 10, tzinfo=UTC)
    start, end = parse_instant("2026-10-24T12:00+02:00", None), parse_instant("2026-10-25T12:00+01:00", None)
    assert seconds_of(end - start) == 25 * HOUR


def test_a_week_with_the_start_of_summer_time_is_an_hour_shorter() -> None:
    start, end = (parse_instant(text, "Europe/Berlin") for text in ("2026-03-28T09:00", "2026-03-29T09:00"))
    assert seconds_of(end - start) == 23 * HOUR


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize(
    ("file", "details", "column"),
    [("tasks.csv", 2, "start"), ("tasks_mixed.csv", 0, "end"), ("tasks_badzone.csv", 0, "tz")],
)
def test_times_without_a_zone_are_refused(
    zone: str, file: str, details: int, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PR-06: the machine's zone is never used; abbreviations are not zones."""
    monkeypatch.setenv("TZ", zone)
    with pytest.raises(InputRefused) as refused:
        read_tasks(CASES / "PR-06" / file)
    assert (refused.value.line, refused.value.column, len(refused.value.details)) == (2, column, details)
    assert "IANA" in str(refused.value)


def test_24_00_is_the_end_of_the_day() -> None:
    """PR-07: 24:00 is the next day's 00:00; 24:30 is no time of day."""
    found = window_of(read_tasks(CASES / "PR-07" / "tasks.csv"))
    assert found.window_seconds == 4 * HOUR
    assert local_text(found.ends_at, "Europe/Berlin") == "2026-05-05T00:00:00+02:00"
    with pytest.raises(InputRefused) as refused:
        read_tasks(CASES / "PR-07" / "tasks_bad.csv")
    assert refused.value.line == 2 and "24:30" in refused.value.what


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-03-29T02:30", "does not exist"),
        ("2026-10-25T02:30", "two instants"),
        ("2026-02-30T10:00", "not a day of the calendar"),
        ("2027-10-04T09:60", "time of day"),
        ("2027-10-04T09:00+19:00", "offset"),
        ("2027-10-04T09:00+01:60", "offset"),
        ("2027-10-04 09h00", "not a time"),
        ("٢٠٢٦-10-05T09:00", "not a time"),
        ("0000-01-01T00:00", "not a day of the calendar"),
        ("9999-12-31T24:00Z", "time of day"),
        ("0001-01-01T00:00+10:00", "calendar"),
    ],
)
def test_what_is_not_one_instant_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        parse_instant(text, "Europe/Berlin")


def test_an_offset_says_which_of_two_instants_is_meant() -> None:
    first, second = (parse_instant(f"2026-10-25T02:30{offset}", "Europe/Berlin") for offset in ("+02:00", "+01:00"))
    assert second - first == timedelta(hours=1)


@pytest.mark.parametrize(
    "zone", ["CEST", "EST", "CET", "Europe", "Europe/", "../etc/passwd", "/etc/localtime", "", "Mars/X"]
)
def test_only_iana_zones(zone: str) -> None:
    with pytest.raises(InputRefused, match="IANA"):
        parse_instant("2027-10-04T09:00", zone)


def test_durations_are_exact() -> None:
    assert seconds_of(parse_duration("100:00:01.5")) == Decimal("360001.5")
    assert seconds_of(elapsed(Decimal("0.1"))) == Decimal("0.1")


GOOD_TASK = "T1,2026-05-04T08:00Z,2026-05-04T12:00Z"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (f"task,start,end\n{GOOD_TASK}\n{GOOD_TASK}\n", "same name"),
        ("task,start,end\nT1,2026-05-04T12:00Z,2026-05-04T08:00Z\n", "before it starts"),
        ("task,start\nT1,2026-05-04T12:00Z\n", "columns"),
        ("task,start,end,end\n", "columns"),
        ("task,start,end,price\n", "columns"),
        (f"task,start,end\n{GOOD_TASK},x\n", "4 fields"),
        (f"task,start,end,kind\n{GOOD_TASK},party\n", "kind of task"),
        (f"task,start,end,lots\n{GOOD_TASK},0\n", "whole number"),
        ('task,start,end\n"T1', "CSV"),
        ("task,start,end\n ,2026-05-04T08:00Z,2026-05-04T12:00Z\n", "needs a name"),
    ],
)
def test_a_table_of_tasks_is_read_strictly(table: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text(table, encoding="utf-8")
    with pytest.raises(InputRefused, match=words) as refused:
        read_tasks(file)
    assert refused.value.file == str(file)
    file.write_bytes(b"\xff")
    with pytest.raises(InputRefused, match="UTF-8"):
        read_tasks(file)


def test_optional_columns_of_a_task_table(tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text(f"task,start,end,kind,lots,title\n{GOOD_TASK},collection,3,Copy home\n", encoding="utf-8")
    (read,) = read_tasks(file)
    assert (read.kind, read.lots, read.title) == ("collection", 3, "Copy home")


# ---- overlaps ------------------------------------------------------------------------------------


def test_overlapping_tasks_are_united() -> None:
    """PR-08: 08-12, 10-14 and 13:00-13:30 are 6 hours, with at most 2 lots at once."""
    found = window_of(read_tasks(CASES / "PR-08" / "tasks.csv"))
    assert found.busy_seconds == found.window_seconds == 6 * HOUR
    assert found.summed_seconds == Decimal("8.5") * HOUR and found.most_lots == 2


def test_waits_and_gaps_are_paid_but_not_busy() -> None:
    plan = plan_of(
        START,
        task("w", after=("a",), duration="10:00:00", kind="wait"),
        task("c", start="2027-10-05T09:00", duration="1:00:00", kind="collection"),
    )
    found = access_window(plan)
    assert [int(x) for x in (found.window_seconds, found.busy_seconds, found.waiting_seconds)] == [
        25 * HOUR,
        2 * HOUR,
        23 * HOUR,
    ]


ORIGIN = datetime(2026, 10, 5, tzinfo=UTC)
SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), min_size=1, max_size=12)


@given(SPANS, st.integers())
@settings(deadline=None, max_examples=100)
def test_union_agrees_with_counting_minutes(spans: list[tuple[int, int]], seed: int) -> None:
    """Union of intervals against a count of covered minutes; the order of the tasks does not matter."""
    tasks = [
        TaskTime(f"t{n}", "t", "check", ORIGIN + timedelta(minutes=start), ORIGIN + timedelta(minutes=start + length))
        for n, (start, length) in enumerate(spans)
    ]
    covered = {minute for start, length in spans for minute in range(start, start + length)}
    blocks = union((one.start, one.end) for one in tasks)
    assert total(blocks) == timedelta(minutes=len(covered))
    assert all(left[1] < right[0] for left, right in pairwise(blocks))
    found = window_of(tasks)
    assert found.busy_seconds == 60 * len(covered)
    busiest = max((sum(s <= m < s + n for s, n in spans) for m in covered), default=0)
    assert found.most_lots == busiest
    random.Random(seed).shuffle(tasks)
    assert window_of(tasks) == found


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001
    st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
    ),
)
@settings(deadline=None, max_examples=100)
def test_an_instant_shown_in_a_zone_reads_back_the_same(moment: datetime, zone: str) -> None:
    instant = moment.replace(tzinfo=UTC, microsecond=0)
    shown = local_text(instant, zone)
    assert parse_instant(shown, None) == instant
    try:
        assert parse_instant(shown[:-6], zone) == instant
    except InputRefused as error:
        assert "two instants" in error.what


# ---- iCalendar -----------------------------------------------------------------------------------


def test_a_plan_goes_into_a_calendar_and_back(tmp_path: Path) -> None:
    """Same tasks, same window, same deadline; same bytes at every writing; no line over 75 bytes."""
    _, found = read_window(ROOT / "protocol" / "plan.toml")
    data = write_calendar(found, "plan")
    assert data == write_calendar(found, "plan") and b"\r\n" in data
    assert all(len(line) <= 75 for line in data.split(b"\r\n"))
    file = tmp_path / "plan.ics"
    file.write_bytes(data)
    assert read_calendar(file) == found


def ics(*lines: str) -> bytes:
    before = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:x", "BEGIN:VEVENT", "UID:u"]
    return "\r\n".join([*before, *lines, "END:VEVENT", "END:VCALENDAR", ""]).encode()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("DTSTART:20260504T080000", "DTEND:20260504T090000Z"), "no zone or offset"),
        (("DTSTART;TZID=CEST:20260504T080000", "DTEND:20260504T090000Z"), "IANA"),
        (("DTSTART;VALUE=DATE:20260504", "DTEND;VALUE=DATE:20260505"), "whole days"),
        (("DTSTART;TZID=Europe/Berlin:20261025T023000", "DURATION:PT1H"), "two instants"),
        (("DTSTART:20260504T080000Z",), "needs a start, and an end or a duration"),
        (("DTSTART:20260504T080000Z", "DURATION:nonsense"), "not a duration"),
        (("DTSTART:20260504T080000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY"), "repeats"),
        (("DTSTART:20260504T080000Z", "DTEND:20260504T070000Z"), "before it starts"),
        (("DTSTART:20260504T080000Z", "DTSTART:20260504T090000Z", "DURATION:PT1H"), "twice"),
        (("DTSTART:20260504T080000Z", "DURATION:PT1H", "X-LOTS:-1"), "number of lots"),
    ],
)
def test_a_calendar_follows_the_same_rules(lines: tuple[str, ...], words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.ics"
    file.write_bytes(ics(*lines))
    with pytest.raises(InputRefused, match=re.escape(words)) as refused:
        read_calendar(file)
    assert refused.value.file == str(file)


@pytest.mark.parametrize("data", [b"", b"garbage", b"\xff\xfe", b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"])
def test_what_is_no_calendar_is_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.ics"
    file.write_bytes(data)
    with pytest.raises(InputRefused):
        read_calendar(file)


def test_durations_and_cancelled_events_of_a_calendar(tmp_path: Path) -> None:
    file = tmp_path / "x.ics"
    file.write_bytes(ics("DTSTART:20260504T080000Z", "DURATION:P1DT2H"))
    assert read_calendar(file).window_seconds == 26 * HOUR
    file.write_bytes(ics("STATUS:CANCELLED", "DTSTART:20260504T080000Z", "DURATION:PT1H"))
    with pytest.raises(InputRefused, match="no task"):
        read_calendar(file)


@pytest.mark.parametrize(
    ("start", "length", "hours"),
    [
        ("DTSTART;TZID=Europe/Berlin:20261024T090000", "P3D", 73),
        ("DTSTART;TZID=Europe/Berlin:20261024T090000", "PT72H", 72),
        ("DTSTART;TZID=Europe/Berlin:20261024T090000", "P1DT24H", 49),
        ("DTSTART;TZID=Europe/Berlin:20261024T090000", "P1W", 169),
        ("DTSTART;TZID=Europe/Berlin:20260328T090000", "P1D", 23),
        ("DTSTART;TZID=Europe/Berlin:20260328T090000", "PT24H", 24),
        ("DTSTART:20261024T090000Z", "+P3D", 72),
    ],
)
def test_m34_days_of_a_calendar_are_nominal_and_hours_exact(
    start: str, length: str, hours: int, tmp_path: Path
) -> None:
    """RFC 5545, 3.3.6: three days over the end of summer time are 73 h, and 3 days of a package do not cover them."""
    file = tmp_path / "x.ics"
    alarm = ("BEGIN:VALARM", "ACTION:AUDIO", "TRIGGER:-PT15M", "DURATION:PT5M", "REPEAT:1", "END:VALARM")
    file.write_bytes(ics(start, f"DURATION:{length}", *alarm))
    assert read_calendar(file).window_seconds == hours * HOUR


@pytest.mark.parametrize(
    ("start", "length", "words"),
    [
        ("DTSTART:20260504T080000Z", "P99999999999D", "not a duration"),
        ("DTSTART:90000504T080000Z", "P999999D", "outside the calendar"),
        ("DTSTART:99991231T230000Z", "PT5H", "outside the calendar"),
        ("DTSTART:99991231T230000Z", "PT999999999H", "outside the calendar"),
        ("DTSTART;TZID=Europe/Berlin:20260328T023000", "P1D", "does not exist"),
        ("DTSTART:20260504T080000Z", "-PT1H", "not a duration"),
        ("DTSTART:20260504T080000Z", "P", "not a duration"),
    ],
)
def test_a_length_that_leads_nowhere_is_refused(start: str, length: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.ics"
    file.write_bytes(ics(start, f"DURATION:{length}"))
    with pytest.raises(InputRefused, match=words) as refused:
        read_calendar(file)
    assert refused.value.next_step and refused.value.file == str(file)


def test_a_task_that_ends_after_the_last_year_is_refused() -> None:
    late = task("a", start="9999-12-31T09:00", duration="24:00:00", delivery=True)
    with pytest.raises(InputRefused, match="outside the calendar") as refused:
        access_window(plan_of(late))
    assert refused.value.column == "task[1]" and refused.value.next_step


def test_zone_names_of_outlook_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "x.ics"
    zone = "TZID=W. Europe Standard Time"
    file.write_bytes(ics(f"DTSTART;{zone}:20261024T120000", f"DTEND;{zone}:20261025T120000"))
    assert read_calendar(file).window_seconds == 25 * HOUR


def test_a_window_is_frozen() -> None:
    found: Window = access_window(plan_of(START))
    with pytest.raises(AttributeError):
        found.window_seconds = Decimal(0)  # type: ignore[misc]


def test_m34_a_day_that_does_not_exist_is_named_as_a_day_not_as_a_time() -> None:
    """M34: 30 February is refused for its day; 24:30 and a leap second for their time of day."""
    for text, said in (
        ("2026-02-30T09:00Z", "2026-02-30 is not a day of the calendar"),
        ("2026-02-28T24:30Z", "24:30 is not a time of day"),
        ("2026-06-30T23:59:60Z", "23:59:60 is not a time of day"),
    ):
        with pytest.raises(InputRefused, match=said):
            parse_instant(text, None)


def test_m34_a_measured_time_beyond_the_calendar_is_refused_however_long() -> None:
    """A row from elsewhere may say any number of seconds: 1e17 are more microseconds than a calendar can count."""
    for seconds in ("1e12", "1e17", "1e300"):
        with pytest.raises(InputRefused, match="outside the calendar") as refused:
            access_window(plan_of(START), task_seconds={START.id: Decimal(seconds)})
        assert refused.value.column == "task[1]"


def test_m34_the_advice_on_an_offset_is_one_that_is_taken() -> None:
    """M34: what a refusal of an offset says to write must not be refused itself."""
    with pytest.raises(InputRefused) as refused:
        parse_instant("2026-10-05T09:00+19:00", None)
    allowed = re.findall(r"[+-][0-9]{2}:[0-9]{2}", refused.value.next_step)
    assert len(allowed) == 2
    for offset in allowed:
        parse_instant(f"2026-10-05T09:00{offset}", None)
