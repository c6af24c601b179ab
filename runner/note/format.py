"""The one place where numbers, money, dates and durations meet words, by locale (Babel).

Values come in exact (Decimal, text, integers, UTC text) and go out as display strings, rounded half
up. Nothing here reads the clock or the locale of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime, get_timezone
from babel.lists import format_list
from babel.numbers import format_decimal

from runner.errors import InputRefused
from runner.pricing.core import hours_parts
from runner.units import parse_utc, round_half_up

Number = Decimal | int | str
NO_BREAK = "\u00a0"
MINUS = "\u2212"
_FORMATS_OF = {"en": "en_GB"}
_DAY = {"de": "EEE d. MMM", "tr": "d MMM EEE"}  # elsewhere as in English; Babel has no short form with the weekday
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_OCTETS = ("o", "Kio", "Mio", "Gio", "Tio")  # French writes the same units with the octet
_KIBI = 1024
_WHOLE_HOURS = 100 * 3600  # seconds: from here on minutes say nothing


def exact(value: Number) -> Decimal:
    """Decimal of a decimal text, an integer or a Decimal; never of a float."""
    return value if isinstance(value, Decimal) else Decimal(value)


def exact_fraction(text: str, places: int = 12) -> Decimal:
    """Decimal of an exact fraction such as `886/1000`, half up at `places`; plain decimals pass through."""
    fraction = Fraction(text)
    scaled = fraction * 10**places
    whole = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    return Decimal(whole).scaleb(-places)


@dataclass(frozen=True)
class Formatter:
    """Display strings of one language. English uses British dates (30 November 2026)."""

    language: str

    @cached_property
    def locale(self) -> Locale:
        try:
            return Locale.parse(_FORMATS_OF.get(self.language, self.language))
        except (UnknownLocaleError, ValueError):
            raise InputRefused(
                "no number and date formats are known for this language",
                value=self.language,
                next_step="name the catalogue after a language that Babel knows, such as de or fr (docs/templates.md)",
            ) from None

    def decimal(self, value: Number, places: int) -> str:
        """`1,234.50`: exactly `places` decimals, grouped, a real minus sign."""
        pattern = "#,##0" + ("." + "0" * places if places else "")
        rounded = round_half_up(exact(value), places)
        text: str = format_decimal(abs(rounded), format=pattern, locale=self.locale)
        return (MINUS if rounded < 0 else "") + text

    def integer(self, value: Number) -> str:
        return self.decimal(value, 0)

    def listed(self, names: Sequence[str], word: str = "and") -> str:
        """`a, b and c` as a sentence of the language has it; `a, b or c` with "or"."""
        text: str = format_list(list(names), "or" if word == "or" else "standard", self.locale)
        return text

    def plain(self, value: Number) -> str:
        """All decimals as given: thresholds and limits are shown as they were frozen."""
        number = exact(value)
        return self.decimal(number, max(0, -int(number.as_tuple().exponent)))

    def percent(self, share: Number, places: int = 1) -> str:
        """Share of one as percent: `88.6 %` (`%88,6` in Turkish)."""
        pattern = str(self.locale.percent_formats[None].pattern)
        return pattern.replace("#,##0", self.decimal(exact(share) * 100, places)).replace(" ", NO_BREAK)

    def money(self, amount: Number, currency: str) -> str:
        """`220.00 USD`: two decimals, more only if the price has them; the ISO code is unambiguous."""
        number = exact(amount)
        places = max(2, -int(number.normalize().as_tuple().exponent))
        return f"{self.decimal(number, places)}{NO_BREAK}{currency}"

    def seconds(self, value: Number, places: int = 2) -> str:
        return f"{self.decimal(value, places)}{NO_BREAK}s"

    def duration(self, value: Number) -> str:
        """Seconds in the unit people read: `0.51 s`, `75.3 s`, `12 min 05 s`, `6 h 12 min`, `2 h`, `1,032 h`."""
        total = exact(value)
        size = abs(total)
        if size < 10:
            return self.seconds(total, 2)
        if size < 120:
            return self.seconds(total, 1)
        if size >= _WHOLE_HOURS:
            return f"{MINUS if total < 0 else ''}{self.integer(size / 3600)}{NO_BREAK}h"
        whole, units = int(round_half_up(size, 0)), ("min", "s")
        if whole >= 3600:
            whole, units = int(round_half_up(size / 60, 0)), ("h", "min")
        large, small = divmod(whole, 60)
        rest = f"{NO_BREAK}{small:02d}{NO_BREAK}{units[1]}" if small else ""
        return f"{MINUS if total < 0 else ''}{large}{NO_BREAK}{units[0]}{rest}"

    def hours(self, seconds: Number) -> str:
        """Elapsed hours, at most one decimal: `96 h`, `70.5 h`; less than an hour as `12.1 s` or `4 min 30 s`.

        Packages end at whole hours, so rounding makes no whole hours of more than one: `72 h 1 s`, not `72 h`.
        """
        size = abs(exact(seconds))
        if 0 < size < 3600:
            return self.elapsed(round_half_up(exact(seconds), 3 if size < 1 else 1 if size < 60 else 0))
        hours = exact(seconds) / 3600
        shown = round_half_up(hours, 1)
        whole = shown == shown.to_integral_value()
        if whole and shown * 3600 != exact(seconds):
            near = round_half_up(exact(seconds), 0)
            return self.elapsed(near if near != shown * 3600 else exact(seconds))
        return f"{self.decimal(shown, 0 if whole else 1)}{NO_BREAK}h"

    def parts_of(self, whole: Number, part: Number) -> tuple[str, str]:
        """A part of an elapsed time to the minute, and the rest: what is shown adds up to the whole."""
        total, size = exact(whole), exact(part)
        step = 60 if size >= 3600 else 1
        near = min(round_half_up(size / step, 0) * step, total)
        return self._clock(near), self._clock(total - near)

    def _clock(self, seconds: Decimal) -> str:
        """Whole minutes as durations are written (`82 h 05 min`), seconds only where there are some."""
        fits = 3600 <= seconds < _WHOLE_HOURS and seconds % 60 == 0
        return self.duration(seconds) if fits else self.elapsed(seconds)

    def elapsed(self, seconds: Number) -> str:
        """`96 h`, `1 h 30 min`, `72 h 1 s`: exact to the millisecond, without the parts that are 0."""
        rounded = round_half_up(exact(seconds), 3)
        shown = [f"{self.plain(number.replace(',', ''))}{NO_BREAK}{unit}" for number, unit in hours_parts(abs(rounded))]
        return (MINUS if rounded < 0 else "") + NO_BREAK.join(shown)

    def bytes(self, count: int) -> str:
        """Binary units with three significant digits: `512 B`, `1.50 GiB`, `23.6 GiB`."""
        value, unit = Decimal(count), 0
        while value >= _KIBI and unit < len(_BINARY_UNITS) - 1:
            value, unit = value / _KIBI, unit + 1
        places = 0 if unit == 0 or value >= 100 else 1 if value >= 10 else 2
        return f"{self.decimal(value, places)}{NO_BREAK}{self.binary_units[unit]}"

    @property
    def binary_units(self) -> tuple[str, ...]:
        """`B`, `KiB`, `MiB`, `GiB`, `TiB`; the same with the octet in French."""
        return _OCTETS if self.locale.language == "fr" else _BINARY_UNITS

    def date(self, utc_or_date: str) -> str:
        """Calendar day of `2026-09-24` or of a UTC instant, in words: `24 September 2026`."""
        day = datetime.fromisoformat(utc_or_date[:10])
        return self._day(day)

    def instant(self, utc: str) -> str:
        """UTC instant to the minute: `30 November 2026, 06:20 UTC`."""
        return self.local_instant(utc, "UTC")

    def local_instant(self, utc: str, zone: str) -> str:
        """Instant in a zone, with the zone's name, so that nobody has to guess."""
        local = parse_utc(utc).astimezone(ZoneInfo(zone))
        time: str = format_datetime(local, format="HH:mm", tzinfo=get_timezone(zone), locale=self.locale)
        return f"{self._day(local)}, {time}{NO_BREAK}{zone}"

    def _day(self, day: datetime) -> str:
        """`24 September 2026`; a line never ends between the day and its month."""
        text: str = format_date(day.date(), format="long", locale=self.locale)
        return text.replace(" ", NO_BREAK, 1)

    @property
    def day_pattern(self) -> str:
        """Babel's pattern of a weekday with day and month: `Mon 5 Oct`, `Mo. 5. Okt.`, `5 Eki Pzt`."""
        return _DAY.get(self.locale.language, "EEE d MMM")

    def calendar_time(self, utc: str, zone: str) -> str:
        """`Mon 5 Oct, 09:00` in a zone that the table names."""
        local = parse_utc(utc).astimezone(ZoneInfo(zone))
        text: str = format_datetime(
            local, format=f"{self.day_pattern}, HH:mm", tzinfo=get_timezone(zone), locale=self.locale
        )
        return text

    def short_instant(self, utc: str) -> str:
        """`30 Nov, 06:20:51` in UTC, for tables whose head names the zone."""
        local = parse_utc(utc)
        text: str = format_datetime(
            local, format=f"{self.day_pattern.replace('EEE', '').strip()}, HH:mm:ss", locale=self.locale
        )
        return text
