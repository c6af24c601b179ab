"""Instants and durations as people write them: zoned, exact, refused where they say nothing or two things.

A local time needs an IANA zone or an offset. In the hour that the clocks skip it does not exist, in the
hour that they repeat it is two instants: both are refused unless an offset says which one is meant.
24:00 is the end of the day. The zones are those of the pinned `tzdata` package, never the machine's.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from runner.errors import InputRefused, show_value

_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)
_DURATION = re.compile(r"(\d{1,6}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)
_ZONE = re.compile(r"[A-Za-z]+(?:/[A-Za-z0-9_+-]+){1,2}")
_MICROSECONDS = 1_000_000
_LONGEST_OFFSET = timedelta(hours=18)


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """IANA zone such as Europe/Berlin, or UTC. Abbreviations (CEST, EST) are not zones and are refused."""
    if name == "UTC" or _ZONE.fullmatch(name):
        place = files("tzdata").joinpath("zoneinfo")
        for part in name.split("/"):
            place = place.joinpath(part)
        if place.is_file():
            with place.open("rb") as stream:
                return ZoneInfo.from_file(stream, key=name)
    raise InputRefused(
        f"{show_value(name)} is not an IANA zone name",
        value=name,
        next_step="write a region and city such as Europe/Berlin, UTC, or give each time an offset such as +02:00",
    )


def parse_instant(text: str, zone: str | None, *, name: str = "time") -> datetime:
    """UTC instant of `2026-10-05T09:00[:30]`, in `zone` or with its own offset (`Z`, `+02:00`), which wins."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise InputRefused(
            "not a time such as 2026-10-05T09:00",
            value=text,
            column=name,
            next_step="write it as YYYY-MM-DDTHH:MM, local time of the plan, or with an offset such as +02:00",
        )
    local = _local_time(found, text, name)
    if found[8] is not None:
        return _to_utc(local.replace(tzinfo=_offset(found[8], text, name)), text, name)
    if zone is None:
        raise InputRefused(
            "no zone or offset",
            value=text,
            column=name,
            next_step="name an IANA zone such as Europe/Berlin, or write the offset: 2026-10-05T09:00+02:00",
        )
    return _in_zone(local, zone, text, name)


def _local_time(found: re.Match[str], text: str, name: str) -> datetime:
    hour, minute, second = int(found[4]), int(found[5]), int(found[6] or 0)
    micros = int((found[7] or "0").ljust(6, "0"))
    end_of_day = hour == 24 and not (minute or second or micros)
    try:
        day = date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        raise InputRefused(
            f"{text[:10]} is not a day of the calendar",
            value=text,
            column=name,
            next_step="write year, month and day such as 2026-10-05",
        ) from None
    try:
        start = datetime(day.year, day.month, day.day, 0 if end_of_day else hour, minute, second, micros)  # noqa: DTZ001
        return start + timedelta(days=1 if end_of_day else 0)
    except (ValueError, OverflowError):
        clock = text[11:].rstrip("Z").split("+")[0].split("-")[0]
        raise InputRefused(
            f"{clock} is not a time of day of {text[:10]}",
            value=text,
            column=name,
            next_step="write hours 00 to 23 and minutes 00 to 59 of a day that exists",
        ) from None


def _offset(text: str, whole: str, name: str) -> timezone:
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    offset = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or offset > _LONGEST_OFFSET:
        raise InputRefused(
            "not a valid offset from UTC",
            value=whole,
            column=name,
            next_step="write an offset between -18:00 and +18:00",
        )
    return timezone(-offset if text[0] == "-" else offset)


def _in_zone(local: datetime, zone: str, text: str, name: str) -> datetime:
    """The one instant that this wall-clock time means in the zone, else a refusal."""
    place = zone_of(zone)
    first, second = (_to_utc(local.replace(tzinfo=place, fold=fold), text, name) for fold in (0, 1))
    if first == second:
        return first
    offsets = [_offset_text(local.replace(tzinfo=place, fold=fold)) for fold in (0, 1)]
    if first.astimezone(place).replace(tzinfo=None) != local:
        raise InputRefused(
            f"this time does not exist: the clocks of {zone} are put forward over it",
            value=text,
            column=name,
            next_step=f"write the instant with its offset, {offsets[0]} before the change or {offsets[1]} after it",
        )
    raise InputRefused(
        f"this time is two instants: the clocks of {zone} are put back over it",
        value=text,
        column=name,
        next_step=f"write it with its offset: {offsets[0]} is the first, {offsets[1]} the second",
    )


def _to_utc(moment: datetime, text: str, name: str) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InputRefused(
            "outside the calendar",
            value=text,
            column=name,
            next_step="write a year from 1 to 9999",
        ) from None


def _offset_text(moment: datetime) -> str:
    return moment.isoformat()[-6:]


def local_text(instant: datetime, zone: str) -> str:
    """`2026-10-05T09:00:00+02:00`: an instant on the zone's clock, with the offset that makes it exact."""
    return instant.astimezone(zone_of(zone)).isoformat()


def parse_duration(text: str, *, name: str = "duration") -> timedelta:
    """Elapsed time written as H:MM:SS; hours may go beyond 24."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InputRefused(
            "not an elapsed time such as 2:30:00 (H:MM:SS)",
            value=text,
            column=name,
            next_step="write hours, minutes and seconds, such as 2:30:00",
        )
    micros = int((found[4] or "0").ljust(6, "0"))
    return timedelta(hours=int(found[1]), minutes=int(found[2]), seconds=int(found[3]), microseconds=micros)


def elapsed(seconds: Decimal) -> timedelta:
    """Duration from exact seconds, up to the next whole microsecond: never shorter than what was measured."""
    return timedelta(microseconds=int((seconds * _MICROSECONDS).to_integral_value(ROUND_CEILING)))


def seconds_of(duration: timedelta) -> Decimal:
    """Exact seconds of a duration."""
    return Decimal(duration // timedelta(microseconds=1)) / _MICROSECONDS
