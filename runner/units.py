"""Quantities with units: exact decimals, UTC instants, elapsed seconds. No locale, no clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from runner.errors import InputRefused

SECONDS_PER_HOUR = 3600
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")


def parse_decimal(text: str, *, name: str) -> Decimal:
    """Exact decimal from locale-free text (`0.90`, `2071.00`): no exponent, sign `+`, comma or blanks."""
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text) or not text.isascii():
        raise InputRefused(
            f"{name} must be a decimal number written as text, such as 0.90",
            value=text,
            next_step="write digits with an optional point, in quotes, without separators",
        )
    return Decimal(text)


def exact_seconds(seconds: float | int) -> Decimal:
    """The decimal a JSON number shows (`0.1` is 1/10), for exact medians and gaps. Unit: seconds."""
    return Decimal(repr(seconds))


def round_half_up(value: Decimal, places: int) -> Decimal:
    """For display only: comparisons use the unrounded value."""
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def share_text(exact: str, places: int = 4) -> str:
    """`895/1000` as `0.895`, `2/3` as `0.6667 (2/3)`: the fraction only where the decimals do not hold it."""
    value = Fraction(exact)
    size = abs(value) * 10**places
    whole = (2 * size.numerator + size.denominator) // (2 * size.denominator)
    sign = "-" if value < 0 and whole else ""
    text = f"{whole // 10**places}.{whole % 10**places:0{places}d}".rstrip("0").removesuffix(".")
    hidden = "/" in exact and Fraction(whole) != size
    return f"{sign}{text} ({exact})" if hidden else f"{sign}{text}"


def utc_text(instant: datetime) -> str:
    """`2026-11-30T06:20:52Z`, microseconds only where there are some. Needs an aware datetime."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_utc(text: str, *, name: str = "time") -> datetime:
    """Instant from `...Z` text, as the records hold it."""
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise InputRefused(
            f"{name} must be a UTC instant such as 2026-11-30T06:20:52Z",
            value=text,
            next_step="write it as 2026-11-30T06:20:52Z",
        )
    try:
        return datetime.fromisoformat(text[:-1] + "+00:00")
    except ValueError as error:
        raise InputRefused(
            f"{name} is not an instant of the calendar: {error}",
            value=text,
            next_step="write it as 2026-11-30T06:20:52Z",
        ) from None
