"""Whatever stands in a file or an option: an answer or a refusal of ours, never another exception."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.catalogue.devices import check_pattern
from runner.errors import InputRefused
from runner.pricing import core
from runner.pricing.calendar import read_calendar
from runner.pricing.tasks import read_tasks
from runner.pricing.times import parse_duration, parse_instant

ROOT = Path(__file__).resolve().parents[2]
TARIFFS = (Path(__file__).parent / "golden_tariffs.csv").read_bytes()
CALENDAR = (ROOT / "tests" / "cases" / "PR-03" / "window.ics").read_bytes()
TASKS = (ROOT / "tests" / "cases" / "PR-08" / "tasks.csv").read_bytes()
QUIET = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])

TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?"
PIECES = st.sampled_from([b"", b"\xff", *(bytes([code]) for code in b'\x00\r\n",;9-TZ:=.')])
DAMAGE = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), PIECES), min_size=1, max_size=4)


def damaged(data: bytes, damage: list[tuple[int, int, bytes]]) -> bytes:
    """The bytes with some places cut out and something else put there."""
    for place, length, piece in damage:
        at = place % len(data)
        data = data[:at] + piece + data[at + length :]
    return data


@QUIET
@given(DAMAGE)
def test_damaged_tariffs(damage: list[tuple[int, int, bytes]]) -> None:
    try:
        found = core.parse_catalogue(damaged(TARIFFS, damage), "t.csv")
    except core.PriceError as error:
        assert error.file == "t.csv" and str(error)
        return
    assert all(offer.price_per_lot > 0 and offer.currency in core.CURRENCIES for offer in found.offers)


@QUIET
@given(damage=DAMAGE)
def test_damaged_calendars_and_tables(damage: list[tuple[int, int, bytes]], tmp_path: Path) -> None:
    for name, data, read in (("x.ics", CALENDAR, read_calendar), ("x.csv", TASKS, read_tasks)):
        file = tmp_path / name
        file.write_bytes(damaged(data, damage))
        try:
            read(file)
        except InputRefused as error:
            assert error.file == str(file)


@QUIET
@given(st.text() | st.from_regex(TIME, fullmatch=True))
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    for zone in (None, "Europe/Berlin"):
        try:
            assert parse_instant(text, zone).utcoffset() is not None
        except InputRefused as error:
            assert error.column == "time"


@QUIET
@given(st.text(max_size=40) | st.text("0123456789:.", max_size=12))
def test_any_text_is_a_number_a_duration_or_refused(text: str) -> None:
    for read in (core.parse_hours, lambda value: core.parse_count(value, "n"), parse_duration):
        with contextlib.suppress(core.PriceError, InputRefused):
            read(text)


@QUIET
@given(st.text(max_size=30) | st.text("ab()[]{}?*+|.\\^$-0,:=", max_size=16))
def test_any_text_is_a_safe_pattern_or_refused(text: str) -> None:
    try:
        compiled = check_pattern(text)
    except InputRefused:
        return
    compiled.fullmatch("a" * 60 + "b")


@pytest.mark.parametrize("zone", ["Europe/Berlin\n", "Europe//Berlin", "Europe/../UTC", "utc", "Etc/GMT+1 "])
def test_zone_names_are_exact(zone: str) -> None:
    with pytest.raises(InputRefused):
        parse_instant("2026-10-05T09:00", zone)
