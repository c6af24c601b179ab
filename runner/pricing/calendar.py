"""The plan as an iCalendar file (RFC 5545), written and read, so that it can be seen in a calendar.

Times are written in UTC: exact in every calendar program, without zone definitions of our own. Reading
follows the same rules as the plan: a time needs a zone or UTC, and must be one instant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from runner.errors import InputRefused, show_text, show_value
from runner.pricing.tasks import KINDS
from runner.pricing.times import parse_instant
from runner.pricing.window import TaskTime, Window, place_tasks, window_of
from runner.protocol.schema import Plan

PRODUCT = "-//gpu-decision-note//plan//EN"
_LOCAL = re.compile(r"(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(Z?)", re.ASCII)
_LENGTH = re.compile(
    r"\+?P(?:(\d{1,6})W|(?=[\dT])(?:(\d{1,6})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A task in the file; `only`: the configurations that have it at this time, empty for all."""

    task: TaskTime
    only: tuple[str, ...] = ()


def write_calendar(window: Window, name: str) -> bytes:
    """All tasks as events, the deadline as a to-do. Same window, same bytes: no clock is read."""
    return _written([_Entry(task) for task in window.tasks], window.deadline, name)


def plan_calendar(plan: Plan, variants: Sequence[str], name: str = "plan") -> bytes:
    """The plan as it was planned, measured durations left aside: tasks of all `variants`, deadline as a to-do.

    A task that stands at different times for different configurations is one event per time, with their names.
    """
    own = any(task.configuration is not None for task in plan.task)
    names = list(variants) if own and variants else [None]
    holders: dict[TaskTime, list[str]] = {}
    for variant in names:
        for task in place_tasks(plan, variant, {}, {}):
            holders.setdefault(task, []).append(variant or "")
    entries = [
        _Entry(task, () if len(found) == len(names) else tuple(found))
        for task, found in sorted(holders.items(), key=lambda item: (item[0].start, item[0].end, item[0].id))
    ]
    return _written(entries, parse_instant(plan.deadline, plan.zone, name="deadline"), name)


def _written(entries: Sequence[_Entry], deadline: datetime | None, name: str) -> bytes:
    from icalendar import Calendar, Event, Todo

    calendar = Calendar()
    calendar.add("prodid", PRODUCT)
    calendar.add("version", "2.0")
    stamp = entries[0].task.start  # a stamp is required; the plan's own start keeps the file reproducible
    for entry in entries:
        task = entry.task
        event = Event()
        event.add("uid", f"{'.'.join([task.id, *entry.only])}@{name}")
        event.add("dtstamp", stamp)
        event.add("dtstart", _whole_second(task.start))
        event.add("dtend", _whole_second(task.end))
        event.add("summary", _shown(task.title) + (f" ({', '.join(entry.only)})" if entry.only else ""))
        event.add("categories", [task.kind, *(["delivery"] if task.delivery else [])])
        event.add("x-lots", str(task.lots))
        calendar.add_component(event)
    if deadline is not None:
        todo = Todo()
        todo.add("uid", f"deadline@{name}")
        todo.add("dtstamp", stamp)
        todo.add("due", _whole_second(deadline))
        todo.add("summary", "Deadline")
        calendar.add_component(todo)
    written: bytes = calendar.to_ical()
    return written


def _shown(title: str) -> str:
    """RFC 5545 has no control characters in a text; others, and marks that turn it round, are shown as their code."""
    return "".join(one if one in "\t\n" else show_text(one) for one in title)


def _whole_second(moment: datetime) -> datetime:
    """iCalendar has whole seconds: a measured fraction is shown as the second that it lies in."""
    return moment.replace(microsecond=0)


def read_calendar(path: Path) -> Window:
    """Window of the events of an iCalendar file; cancelled events are left out, repeated ones refused."""
    from icalendar import Calendar

    try:
        data = path.read_bytes()
        calendar: Any = Calendar.from_ical(data)
        lengths = _written_lengths(data)
        every = list(zip(calendar.walk("VEVENT"), lengths, strict=True))
    except OSError as error:
        raise InputRefused(
            f"the calendar cannot be read: {error.strerror}",
            file=path,
            next_step="check that the file is there and may be read",
        ) from None
    except ValueError:
        raise InputRefused("not an iCalendar file", file=path, next_step="export the plan as .ics again") from None
    events = [(event, length) for event, length in every if str(event.get("STATUS", "")).upper() != "CANCELLED"]
    try:
        tasks = [_task(event, length, number) for number, (event, length) in enumerate(events, start=1)]
        if len({task.id for task in tasks}) != len(tasks):
            raise InputRefused("two events have the same UID", column="UID", next_step="give every event its own UID")
        deadlines = [_instant(todo, "DUE", "to-do") for todo in calendar.walk("VTODO") if "DUE" in todo]
        if len(deadlines) > 1:
            raise InputRefused(
                "more than one to-do with a due time: which is the deadline?",
                column="DUE",
                next_step="keep one VTODO with DUE, the deadline",
            )
        return window_of(tasks, deadlines[0] if deadlines else None)
    except InputRefused as error:
        raise InputRefused(
            error.what, file=path, column=error.column, value=error.value, next_step=error.next_step
        ) from None


def _written_lengths(data: bytes) -> list[str | None]:
    """DURATION of each event as it is written: the library makes P3D of PT72H, which is another length (below)."""
    from icalendar.parser import Contentlines

    found: list[str | None] = []
    inside: list[str] = []
    lines: Any = Contentlines
    for line in lines.from_ical(data.decode("utf-8-sig")):
        if not line:
            continue
        name, _, value = line.parts()
        if name.upper() == "BEGIN":
            inside.append(str(value).upper())
            if inside[-1] == "VEVENT":
                found.append(None)
        elif name.upper() == "END":
            inside = inside[:-1]
        elif name.upper() == "DURATION" and inside[-1:] == ["VEVENT"]:
            found[-1] = str(value)
    return found


def _task(event: Any, length: str | None, number: int) -> TaskTime:
    title = str(event.get("SUMMARY", "")) or f"event {number}"
    place = f"event {number}"
    for name in ("RRULE", "RDATE", "RECURRENCE-ID"):
        if name in event:
            raise InputRefused(
                f"{show_value(title)} repeats; a plan has each task once",
                column=f"{place}.{name}",
                next_step="write one event per task",
            )
    if "DTSTART" not in event or ("DTEND" in event) == ("DURATION" in event):
        raise InputRefused(
            f"{show_value(title)} needs a start, and an end or a duration",
            column=place,
            next_step="give the event DTSTART, and DTEND or DURATION",
        )
    start = _instant(event, "DTSTART", place)
    end = _instant(event, "DTEND", place) if "DTEND" in event else _after(event, start, length or "", place)
    if end < start:
        raise InputRefused(
            f"{show_value(title)} ends before it starts",
            column=f"{place}.DTEND",
            next_step="put DTEND after DTSTART",
        )
    marks = [str(mark) for entry in _list(event.get("CATEGORIES")) for mark in entry.cats]
    lots = str(event.get("X-LOTS", "1"))
    if not re.fullmatch(r"[1-9][0-9]{0,5}", lots):
        raise InputRefused(
            "not a number of lots",
            column=f"{place}.X-LOTS",
            value=lots,
            next_step="write a whole number from 1",
        )
    return TaskTime(
        id=str(event.get("UID", place)).partition("@")[0],
        title=title,
        kind=next((mark for mark in marks if mark in KINDS), "check"),
        start=start,
        end=end,
        lots=int(lots),
        delivery="delivery" in marks,
    )


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _instant(component: Any, name: str, place: str) -> datetime:
    """Instant of a property: its own text and zone, so that skipped and repeated hours are seen."""
    field = component[name]
    if isinstance(field, list):
        raise InputRefused("stands twice", column=f"{place}.{name}", next_step="keep one of the two lines")
    text = field.to_ical().decode("utf-8")
    found = _LOCAL.fullmatch(text)
    if found is None:
        raise InputRefused(
            "not a time of day (whole days have no hours)",
            column=f"{place}.{name}",
            value=text,
            next_step="write a time such as 20261005T090000",
        )
    year, month, day, hour, minute, second, utc = found.groups()
    written = f"{year}-{month}-{day}T{hour}:{minute}:{second}{utc}"
    return parse_instant(written, _zone(field.params.get("TZID")), name=f"{place}.{name}")


def _zone(name: str | None) -> str | None:
    """IANA zone of a TZID; Outlook writes Windows names, which Unicode's list translates."""
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

    return None if name is None else WINDOWS_TO_OLSON.get(str(name), str(name))


def _after(event: Any, start: datetime, length: str, place: str) -> datetime:
    """End of an event with a DURATION (RFC 5545, 3.3.6): weeks and days go to the same time of day, in the event's
    zone, and are 23 or 25 h where the clocks change; hours, minutes and seconds are exact, counted after them.
    """
    found = _LENGTH.fullmatch(length)
    if found is None:
        raise InputRefused(
            "not a duration",
            column=f"{place}.DURATION",
            value=length,
            next_step="write a duration such as PT2H30M",
        )
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    text, zone = event["DTSTART"].to_ical().decode("utf-8"), _zone(event["DTSTART"].params.get("TZID"))
    try:
        if weeks or days:
            day = date(int(text[:4]), int(text[4:6]), int(text[6:8])) + timedelta(weeks=weeks, days=days)
            clock = f"{text[9:11]}:{text[11:13]}:{text[13:15]}{text[15:]}"
            start = parse_instant(f"{day.isoformat()}T{clock}", zone, name=f"{place}.DURATION")
        return start + timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise InputRefused(
            "the end lies outside the calendar",
            column=f"{place}.DURATION",
            value=length,
            next_step="write an end before the year 10000",
        ) from None
