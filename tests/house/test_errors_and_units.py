"""One error family with place, value and next step; exact quantities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.cli import main as entry
from runner.errors import InputRefused, NotAccepted, RunnerError, show_lines, show_text, show_value
from runner.units import (
    exact_seconds,
    parse_decimal,
    parse_utc,
    round_half_up,
    share_text,
    utc_text,
)


def test_a_refusal_says_what_where_value_and_next() -> None:
    error = InputRefused(
        "label is empty", file="c.csv", line=3, column="label", value="a\x1b[31m\t", next_step="fill it"
    )
    assert str(error) == (
        "label is empty\n  where: c.csv:3, column label\n  value: 'a\\u001b[31m\\t'\n  next:  fill it"
    )
    assert (RunnerError.exit_code, InputRefused.exit_code, NotAccepted.exit_code) == (1, 2, 3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(" r1", "' r1'"), ("r2\t", "'r2\\t'"), ("e\u0301", "'e\\u0301'"), ("a\u202eb", "'a\\u202eb'"), ("é", "'é'")],
)
def test_values_that_look_alike_are_shown_differently(value: str, shown: str) -> None:
    assert show_value(value) == shown


def test_long_values_are_shortened_by_rule() -> None:
    assert show_value("x" * 5000).endswith("… (5000 characters)")


@given(st.text())
def test_a_shown_value_has_no_control_characters(value: str) -> None:
    assert all(character.isprintable() for character in show_value(value))


HOSTILE = "a\x00b\x1b[31m\u202ec\x9bd"
ESCAPED = "a\\u0000b\\u001b[31m\\u202ec\\u009bd"


def test_control_characters_are_escaped_in_every_part_of_a_refusal() -> None:
    """DESIGN 4: file, column, details and next step come from users too; a line end cannot forge a line."""
    shown = str(
        InputRefused(HOSTILE, file=HOSTILE + "\nvalue: forged", column=HOSTILE, details=(HOSTILE,), next_step=HOSTILE)
    )
    assert shown.count(ESCAPED) == 5 and "\n" + "value: forged" not in shown
    assert all(character.isprintable() for line in shown.splitlines() for character in line)
    assert show_text("é 中 ا a\u0301") == "é 中 ا a\u0301", "letters of any script stay as they are"
    assert (show_text("\U000e0001"), show_lines("a\nb\t")) == ("\\U000e0001", "a\nb\\u0009")


def test_commands_print_no_control_characters_of_their_users(capsys: pytest.CaptureFixture[str]) -> None:
    """DESIGN 4: by the command line itself, from options, paths and command names."""
    for arguments in (["price", "--gpu", "b200", "--days", "7", "--tariffs", HOSTILE.replace("\0", "")],
                      ["window", "--plan", "x\0y.toml"], ["--campaign", "x\x1b[31m\ny", "decide"], [HOSTILE],
                      ["price", "--" + HOSTILE]):  # fmt: skip
        assert entry.run(arguments) == 2
        shown = capsys.readouterr().err
        assert shown and all(character.isprintable() for line in shown.splitlines() for character in line), shown


@pytest.mark.parametrize("text", ["1,5", "1e3", " 1", "+1", "01", ".5", "1.", "", "NaN", "१"])
def test_decimals_have_one_form(text: str) -> None:
    with pytest.raises(InputRefused):
        parse_decimal(text, name="threshold")


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9))
def test_decimals_are_exact(value: Decimal) -> None:
    assert parse_decimal(f"{value:f}", name="amount") == value


def test_display_rounds_half_up() -> None:
    assert round_half_up(Decimal("0.125"), 2) == Decimal("0.13")
    assert exact_seconds(0.1) == Decimal("0.1")


@pytest.mark.parametrize(
    ("exact", "shown"),
    [("895/1000", "0.895"), ("0/1", "0"), ("1/1", "1"), ("2/3", "0.6667 (2/3)"), ("-1/1000", "-0.001"),
     ("1/16", "0.0625"), ("1/32", "0.0313 (1/32)"), ("-1/30000", "0 (-1/30000)"), ("0.886123456789", "0.8861")],
)  # fmt: skip
def test_a_share_is_a_decimal_and_the_fraction_stands_by_where_it_hides_something(exact: str, shown: str) -> None:
    assert share_text(exact) == shown


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)))  # noqa: DTZ001
def test_instants_survive_writing(naive: datetime) -> None:
    instant = naive.replace(tzinfo=timezone(timedelta(hours=5, minutes=45)))
    assert parse_utc(utc_text(instant)) == instant
    assert utc_text(instant) == utc_text(instant.astimezone(UTC))


@pytest.mark.parametrize("text", ["2026-11-30T06:20:52", "2026-02-30T00:00:00Z", "2026-11-30T06:20:52+00:00"])
def test_an_instant_is_utc_and_of_the_calendar(text: str) -> None:
    with pytest.raises(InputRefused):
        parse_utc(text)


def test_a_bug_of_ours_is_exit_1_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(entry.cli, "main", broken)
    assert entry.run([]) == 1
    shown = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: boom" in shown
    assert "Traceback" not in shown
