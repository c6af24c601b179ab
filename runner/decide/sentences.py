"""Every sentence of the balance and the decision, as data: a code, its values, the English text.

The note translates the template of a code and formats the values in the reader's locale; here they
are formatted in English. The last part of a placeholder's name says what the value is:
`_money` (`2071.00 USD`), `_seconds` (exact decimal), `_hours` (exact seconds, shown as H:MM:SS),
`_utc` (an instant), `_count` (a whole number); any other value is text and is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from string import Formatter

from runner.decide.model import Reason
from runner.units import hours_minutes_seconds, round_half_up

SENTENCES: dict[str, str] = {}


def say(code: str, **values: str) -> Reason:
    """The sentence of `code` with these values. A missing or an unused value is a bug of ours."""
    template = SENTENCES[code]
    if placeholders(template) != set(values):
        raise ValueError(f"{code} needs {sorted(placeholders(template))}, not {sorted(values)}")
    return Reason(code=code, values=values, text=fill(template, values))


def placeholders(template: str) -> set[str]:
    """Names between braces."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def fill(template: str, values: Mapping[str, str]) -> str:
    """English text of a template."""
    return template.format(**{name: english(name, value) for name, value in values.items()})


def english(name: str, value: str) -> str:
    """One value as English text, by the last part of its name."""
    match name.rpartition("_")[2]:
        case "money":
            amount, _, currency = value.partition(" ")
            return f"{round_half_up(Decimal(amount), 2):,} {currency}".rstrip()
        case "seconds":
            return f"{shown_seconds(Decimal(value))} s"
        case "hours":
            return hours_minutes_seconds(Decimal(value))
        case "utc":
            return re.sub(r"T(\d\d:\d\d):00Z$", r" \1 UTC", value).replace("T", " ").replace("Z", " UTC")
        case _:
            return value


def shown_seconds(seconds: Decimal) -> Decimal:
    """Seconds for people: three decimals, fewer where the value has fewer. Unit: seconds."""
    places = min(3, max(0, -int(seconds.as_tuple().exponent)))
    return round_half_up(seconds, places)
