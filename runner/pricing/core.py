"""Prices of GPU rental packages: one strict reader of tariffs.csv, exact money, nothing derived.

This one file is also the lab folder's `price.py` (M49): it travels alone, so reader, arithmetic and
command line stand together. Standard library only, Python 3.10 or newer.

    python price.py --gpu rtx-4090 --days 7 --lots 2 [--accepted-results 1]

Committed cost = price per lot x lots: the cards of a lot are not multiplied again, unused time is not
refunded, a price that is not in the file stays unknown. Exit status: 0 done, 2 input refused.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

PACKAGE_DAYS = (3, 7, 30)
HOURS_PER_DAY = 24
SECONDS_PER_HOUR = 3600
REQUIRED_COLUMNS = (
    "gpu",
    "device_pattern",
    "cards_per_lot",
    "memory_gib_per_card",
    "days",
    "price_per_lot",
    "currency",
    "catalogue_date",
    "source",
)
OPTIONAL_COLUMNS = ("billing", "lots_available", "memory_source")
MOST_COUNT = 999_999_999
# ISO 4217, with the codes that took effect up to 2026; older codes stay because catalogues are dated.
CURRENCIES = frozenset(
    """AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG
    HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD
    MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS
    VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG""".split()  # noqa: SIM905
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_WHOLE = re.compile(r"[1-9][0-9]{0,8}")
_MONEY = re.compile(r"(0|[1-9][0-9]{0,11})(\.[0-9]{2})?")
_HOURLY_MONEY = re.compile(r"(0|[1-9][0-9]{0,11})(\.[0-9]{2}|\.[0-9]{4})?")
_GIB = re.compile(r"[1-9][0-9]{0,5}(\.[0-9]{1,2})?")
_HOURS = re.compile(r"([0-9]{1,6})(?::([0-5][0-9]):([0-5][0-9])|(\.[0-9]{1,6}))?")


class PriceError(Exception):
    """Input that cannot be priced: what, where, the value and the next step. Exit 2."""

    def __init__(
        self,
        what: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: str | None = None,
        value: str | None = None,
        next_step: str,
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what)
        self.what, self.file, self.line, self.column = what, file, line, column
        self.value, self.next_step, self.details = value, next_step, details

    def __str__(self) -> str:
        place = [] if self.file is None else [self.file if self.line is None else f"{self.file}:{self.line}"]
        place += [] if self.column is None else [f"column {self.column}"]
        lines = [self.what]
        lines += ["  where: " + ", ".join(place)] if place else []
        lines += [] if self.value is None else ["  value: " + ascii(self.value)]
        lines += ["  - " + detail for detail in self.details]
        lines += ["  next:  " + self.next_step]
        return "\n".join(lines)


# ---- the catalogue -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """What one lot of this name holds. `device_pattern` says which real device counts as this GPU.

    Memory is the vendor's nominal figure; `memory_source` says who gives it and when it was looked up.
    """

    name: str
    device_pattern: str
    cards_per_lot: int
    memory_gib_per_card: Decimal
    memory_source: str = ""


@dataclass(frozen=True)
class Offer:
    """One known price: per lot for a package of `days`, or (billing `hourly`) per lot and started hour."""

    gpu: str
    billing: str
    days: int | None
    price_per_lot: Decimal
    currency: str
    catalogue_date: date
    source: str
    lots_available: int | None
    line: int


@dataclass(frozen=True)
class Catalogue:
    """A dated tariffs.csv: the GPUs that it names and the prices that are known."""

    name: str
    gpus: tuple[Gpu, ...]
    offers: tuple[Offer, ...]
    sha256: str

    @property
    def currency(self) -> str | None:
        return self.offers[0].currency if self.offers else None

    def has(self, gpu: str) -> bool:
        return any(known.name == gpu for known in self.gpus)

    def gpu(self, name: str) -> Gpu:
        """The facts of a GPU; PriceError with the known names for one that the file does not have."""
        for known in self.gpus:
            if known.name == name:
                return known
        names = ", ".join(known.name for known in self.gpus) or "none"
        raise PriceError(
            f"{name!a} is not in {self.name}",
            file=self.name,
            column="gpu",
            value=name,
            next_step=f"choose one of: {names}; or add a line with its dated price",
        )

    def package(self, gpu: str, days: int) -> Offer | None:
        return next((o for o in self.offers if (o.gpu, o.billing, o.days) == (gpu, "package", days)), None)

    def hourly(self, gpu: str) -> Offer | None:
        return next((o for o in self.offers if (o.gpu, o.billing) == (gpu, "hourly")), None)


def read_catalogue(path: Path) -> Catalogue:
    """Strict reader of a tariffs file; every line that cannot be used is named."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PriceError(
            f"the tariffs cannot be read: {error.strerror}",
            file=str(path),
            next_step="write a tariffs.csv with dated prices; the embedded example has one",
        ) from None
    return parse_catalogue(data, str(path))


def parse_catalogue(data: bytes, name: str) -> Catalogue:
    """Catalogue from the bytes of a CSV file called `name`."""
    findings: list[_Finding] = []
    lines = [_parse_line(row, number, findings) for number, row in _rows(data, name)]
    entries = [entry for entry in lines if entry is not None]
    if not findings:
        _check_together(entries, findings)
    if findings:
        first = findings[0]
        raise PriceError(
            f"the tariffs cannot be used: {len(findings)} finding(s), nothing is priced",
            file=name,
            line=first.line,
            column=first.column,
            value=first.value,
            details=tuple(str(finding) for finding in findings),
            next_step="write prices as 1234.56, one currency, one line per GPU and package (docs/pricing.md)",
        )
    gpus = {gpu.name: gpu for _, gpu, _ in entries}
    offers = tuple(offer for _, _, offer in entries if offer is not None)
    return Catalogue(name, tuple(gpus.values()), offers, hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class _Finding:
    line: int
    column: str
    value: str
    what: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.what} ({self.value!a})"


def _rows(data: bytes, name: str) -> list[tuple[int, dict[str, str]]]:
    """(file line, column -> text); the header is line 1. A byte-order mark is ignored."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PriceError(
            f"the tariffs are not UTF-8: byte {error.start} cannot be read",
            file=name,
            next_step="save the file as UTF-8",
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, dict[str, str]]] = []
    header: list[str] = []
    start = 1
    try:
        for fields in reader:
            if not header:
                header = fields
                _check_header(header, name)
            elif fields and len(fields) != len(header):
                raise PriceError(
                    f"{len(fields)} fields, the header has {len(header)}",
                    file=name,
                    line=start,
                    next_step="put a field that holds a comma in double quotes",
                )
            elif fields:
                rows.append((start, dict(zip(header, fields))))  # noqa: B905 (lengths are equal)
            start = reader.line_num + 1
    except csv.Error as error:
        raise PriceError(
            f"not a readable CSV file: {error}",
            file=name,
            line=start,
            next_step="double every quotation mark inside a quoted field and close each",
        ) from None
    if not header:
        raise PriceError("the tariffs are empty", file=name, next_step="write the header line")
    return rows


def _check_header(header: list[str], name: str) -> None:
    missing = [column for column in REQUIRED_COLUMNS if column not in header]
    unknown = [column for column in header if column not in REQUIRED_COLUMNS + OPTIONAL_COLUMNS]
    twice = sorted({column for column in header if header.count(column) > 1})
    details = tuple(
        f"{what}: {', '.join(ascii(column) for column in columns)}"
        for what, columns in (("missing", missing), ("unknown", unknown), ("more than once", twice))
        if columns
    )
    if details:
        raise PriceError(
            "the columns of the tariffs are not the expected ones",
            file=name,
            line=1,
            details=details,
            next_step="header: " + ",".join(REQUIRED_COLUMNS),
        )


def _parse_line(row: dict[str, str], line: int, findings: list[_Finding]) -> tuple[int, Gpu, Offer | None] | None:
    """GPU and price of one line. `days` and `price_per_lot` both empty: the GPU is named, its price unknown."""
    before = len(findings)

    def take(column: str, what: str, read: Callable[[str], Any]) -> Any:
        value = read(row[column])
        if value is None:
            findings.append(_Finding(line, column, row[column], what))
        return value

    billing = row.get("billing") or "package"
    if billing not in ("package", "hourly"):
        findings.append(_Finding(line, "billing", billing, "neither package nor hourly"))
    name = take("gpu", "not a name of letters, digits, dot, dash, underscore", lambda t: _full(_NAME, t))
    pattern = take("device_pattern", "not a regular expression for device names", _pattern)
    cards = take("cards_per_lot", "not a whole number of cards", _whole)
    memory = take("memory_gib_per_card", "not GiB per card, such as 24", lambda t: _decimal(_GIB, t))
    source = take("source", "empty, or with control characters", _words)
    memory_source = row.get("memory_source", "")
    if memory_source:
        take("memory_source", "with control characters", _words)
    if row["price_per_lot"] == "" and row["days"] == "":
        known = len(findings) == before
        return (line, Gpu(name, pattern, cards, memory, memory_source), None) if known else None
    if billing == "hourly":
        days = take("days", "must be empty for an hourly offer", lambda t: 0 if t == "" else None)
        what, form = "not a price per hour such as 0.45 or 0.4500 (2 or 4 decimals, above zero)", _HOURLY_MONEY
    else:
        days = take("days", "not a package of 3, 7 or 30 days", _package_days)
        what, form = "not a price such as 1234.56 (2 decimals, above zero, no separators)", _MONEY
    price = take("price_per_lot", what, lambda t: _decimal(form, t) or None)
    currency = take("currency", "not an upper-case currency code of ISO 4217", lambda t: t if t in CURRENCIES else None)
    day = take("catalogue_date", "not a date such as 2026-09-24", _date)
    lots = row.get("lots_available", "")
    available = take("lots_available", "not a number of lots", lambda t: 0 if t == "0" else _whole(t)) if lots else None
    if len(findings) > before:
        return None
    offer = Offer(name, billing, days or None, price, currency, day, source, available, line)
    return line, Gpu(name, pattern, cards, memory, memory_source), offer


def _check_together(entries: list[tuple[int, Gpu, Offer | None]], findings: list[_Finding]) -> None:
    """One currency per catalogue, one price per GPU and package, the same facts in all lines of a GPU."""
    offers = [offer for _, _, offer in entries if offer is not None]
    currencies = {offer.currency: offer.line for offer in reversed(offers)}
    if len(currencies) > 1:
        what = "one catalogue has one currency; nothing is converted without a stated rate"
        findings += [_Finding(line, "currency", code, what) for code, line in sorted(currencies.items())]
    prices: dict[tuple[str, str, int | None], int] = {}
    for offer in offers:
        first = prices.setdefault((offer.gpu, offer.billing, offer.days), offer.line)
        if first != offer.line:
            findings.append(_Finding(offer.line, "gpu", offer.gpu, f"priced twice, first in line {first}"))
    facts: dict[str, Gpu] = {}
    for line, gpu, _ in entries:
        known = facts.setdefault(gpu.name.casefold(), gpu)
        if known != gpu:
            what = f"differs from the first line of {known.name} in pattern, cards, memory, its source or letter case"
            findings.append(_Finding(line, "gpu", gpu.name, what))


def _full(pattern: re.Pattern[str], text: str) -> str | None:
    return text if pattern.fullmatch(text) else None


def _decimal(form: re.Pattern[str], text: str) -> Decimal | None:
    return Decimal(text) if form.fullmatch(text) else None


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _package_days(text: str) -> int | None:
    return int(text) if text in [str(days) for days in PACKAGE_DAYS] else None


def _words(text: str) -> str | None:
    return text if text.strip() and text.isprintable() else None


def _pattern(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a pattern that another Python may read otherwise
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning):
        return None
    return _words(text)


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None


# ---- the arithmetic ------------------------------------------------------------------------------


def package_seconds(days: int) -> int:
    """Elapsed seconds that a package holds: days x 24 hours."""
    return days * HOURS_PER_DAY * SECONDS_PER_HOUR


def covers(days: int, window_seconds: Decimal, periods: int = 1) -> bool:
    """Whether the package lasts at least as long as the window; exactly equal covers (M35)."""
    return package_seconds(days) * periods >= window_seconds


def lots_for_cards(cards: int, cards_per_lot: int) -> int:
    """Lots are rented whole: 3 cards of 2 per lot need 2 lots."""
    return -(-cards // cards_per_lot)


def committed_cost(price_per_lot: Decimal, lots: int, periods: int = 1) -> Decimal:
    """Price per lot x lots (x periods asked for explicitly), exact."""
    return price_per_lot * lots * periods


@dataclass(frozen=True)
class PerCorpus:
    """Cost per validated corpus (M37): exact, or null with the reason."""

    value: Fraction | None
    status: str
    reason: str | None


def cost_per_corpus(committed: Decimal | None, accepted: int | None) -> PerCorpus:
    """Committed cost / accepted distinct corpora; none accepted is `undefined`, not 0 and not infinite."""
    if committed is None:
        return PerCorpus(None, "not calculated", "the committed cost is not known")
    if accepted is None:
        return PerCorpus(None, "not calculated", "the number of accepted results was not given")
    if accepted == 0:
        return PerCorpus(None, "undefined", "no result was accepted; the committed cost still stands")
    return PerCorpus(Fraction(committed) / accepted, "calculated", None)


def money_text(value: Decimal | Fraction, places: int = 2) -> str:
    """`2071.00`: rounded half up for display only. Amounts are never negative."""
    scaled = Fraction(value) * 10**places
    return f"{Decimal(int(scaled + Fraction(1, 2))).scaleb(-places):.{places}f}"


def amount_text(value: Decimal | Fraction, currency: str) -> str:
    """`2,071.00 USD` for people."""
    places = max(2, -int(value.as_tuple().exponent)) if isinstance(value, Decimal) else 2
    whole, _, cents = money_text(value, places).partition(".")
    return f"{int(whole):,}.{cents} {currency}"


def hours_text(seconds: Decimal) -> str:
    """`96 h`, `1 h 30 min`, `72 h 1 s`, `12.4 s`: elapsed time, exact, without the parts that are 0."""
    return " ".join(f"{number} {unit}" for number, unit in hours_parts(seconds))


def hours_parts(seconds: Decimal) -> list[tuple[str, str]]:
    """(number, unit) for each of hours, minutes and seconds that is not 0; `0 h` if all are. Not negative."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    whole, _, fraction = f"{rest:f}".partition(".")
    clock = whole + ("." + fraction.rstrip("0") if fraction.rstrip("0") else "")
    parts = [(f"{int(hours):,}", "h"), (str(int(minutes)), "min"), (clock, "s")]
    return [(number, unit) for number, unit in parts if number != "0"] or [("0", "h")]


def parse_hours(text: str) -> Decimal:
    """Elapsed seconds from hours written as `96`, `72.5` or `72:00:01`."""
    found = _HOURS.fullmatch(text)
    if found is None:
        raise PriceError(
            "not a number of hours such as 96, 72.5 or 72:00:01",
            value=text,
            next_step="write the hours with a point, or as H:MM:SS",
        )
    if found[2] is None:
        return Decimal(found[1] + (found[4] or "")) * SECONDS_PER_HOUR
    return Decimal(int(found[1]) * SECONDS_PER_HOUR + int(found[2]) * 60 + int(found[3]))


def parse_count(text: str, name: str, least: int = 0) -> int:
    """A whole number, written with digits only."""
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) >= least:
        return int(text)
    raise PriceError(
        f"{name} must be a whole number from {least} to {MOST_COUNT:,}, digits only",
        value=text,
        next_step=f"write digits only, such as {least}",
    )


# ---- one question, one answer --------------------------------------------------------------------


@dataclass(frozen=True)
class PackageLine:
    """One package (or hourly offer) for a number of lots; `None` where nothing is known or nothing was asked."""

    billing: str
    days: int | None
    hours: int
    offer: Offer | None
    total: Decimal | None
    covers: bool | None
    slack_seconds: Decimal | None
    available: bool | None
    periods: int = 1

    @property
    def name(self) -> str:
        if self.billing == "hourly":
            return "hourly"
        return f"{self.days} days" if self.periods == 1 else f"{self.periods} x {self.days} days"


def package_lines(
    catalogue: Catalogue, gpu: str, lots: int, window_seconds: Decimal | None = None, periods: int = 1
) -> tuple[PackageLine, ...]:
    """The 3, 7 and 30 day packages in this order; then the hourly offer, if there is one and a window is given."""
    catalogue.gpu(gpu)
    lines = []
    for days in PACKAGE_DAYS:
        offer = catalogue.package(gpu, days)
        seconds = package_seconds(days) * periods
        total = None if offer is None else committed_cost(offer.price_per_lot, lots, periods)
        slack = None if window_seconds is None else seconds - window_seconds
        covered = None if window_seconds is None else covers(days, window_seconds, periods)
        lines.append(
            PackageLine(
                "package",
                days,
                seconds // SECONDS_PER_HOUR,
                offer,
                total,
                covered,
                slack,
                _available(offer, lots),
                periods,
            )
        )
    hourly = catalogue.hourly(gpu)
    if hourly is not None and window_seconds is not None:
        hours = int((window_seconds / SECONDS_PER_HOUR).to_integral_value(ROUND_CEILING))
        lines.append(
            PackageLine(
                "hourly",
                None,
                hours,
                hourly,
                committed_cost(hourly.price_per_lot, lots, hours),
                True,
                hours * SECONDS_PER_HOUR - window_seconds,
                _available(hourly, lots),
            )
        )
    return tuple(lines)


def _available(offer: Offer | None, lots: int) -> bool | None:
    return None if offer is None or offer.lots_available is None else lots <= offer.lots_available


def cheapest(lines: Sequence[PackageLine], billing: Sequence[str] = ("package",)) -> PackageLine | None:
    """Smallest committed cost among the priced lines that cover and are not known to be sold out."""
    fit = [line for line in lines if line.billing in billing and line.covers and line.available is not False]
    priced = [(line.total, line.hours, line) for line in fit if line.total is not None]
    return min(priced, key=lambda item: item[:2])[2] if priced else None


def could_cost_less(lines: Sequence[PackageLine], best: PackageLine | None) -> tuple[PackageLine, ...]:
    """Packages without a price that cover and could cost less than `best`; all that cover while there is none.

    The one thing taken for granted about an unknown price is that a longer package of the same GPU costs no less than a
    shorter one, sold out or too short alike, as long as the known prices do not say otherwise. Hours bound no package.
    """
    known = [line.total for line in lines if line.days is not None and line.total is not None]
    rising = never_fall(known)
    found = []
    for line in lines:
        if line.days is None or not line.covers or line.offer is not None:
            continue
        shorter = [
            one.total for one in lines if one.days is not None and one.hours < line.hours and one.total is not None
        ]
        least = max(shorter, default=Decimal(0)) if rising else Decimal(0)
        if best is None or best.total is None or least < best.total:
            found.append(line)
    return tuple(found)


def never_fall(prices: Sequence[Decimal]) -> bool:
    """Whether prices in the order of the packages' lengths never get smaller."""
    return list(prices) == sorted(prices)


def less_by_the_hour(lines: Sequence[PackageLine], best: PackageLine | None) -> PackageLine | None:
    """The hourly offer, where it can be had and costs less than `best`, or where there is no best."""
    for line in lines:
        if line.days is None and line.total is not None and line.available is not False:
            return line if best is None or best.total is None or line.total < best.total else None
    return None


@dataclass(frozen=True)
class Quote:
    """Answer of the price command: the packages, and the one that was asked for or is the cheapest to cover."""

    catalogue: Catalogue
    gpu: Gpu
    lots: int
    window_seconds: Decimal | None
    lines: tuple[PackageLine, ...]
    line: PackageLine | None
    accepted: int | None
    per_corpus: PerCorpus


def quote(
    catalogue: Catalogue,
    gpu: str,
    lots: int,
    *,
    days: int | None = None,
    window_seconds: Decimal | None = None,
    accepted: int | None = None,
    periods: int = 1,
) -> Quote:
    """Price of a package of `days`, or of the cheapest package that covers the window. Unknown price: refused."""
    lines = package_lines(catalogue, gpu, lots, window_seconds, periods)
    line = cheapest(lines) if days is None else next((package for package in lines if package.days == days), None)
    if days is not None and (line is None or line.total is None):
        known = ", ".join(f"{o.days} days" for o in catalogue.offers if o.gpu == gpu and o.days) or "none"
        raise PriceError(
            f"no price for the package of {days} days of {gpu} in {catalogue.name}; it is not derived from another one",
            file=catalogue.name,
            column="days",
            value=str(days),
            next_step=f"packages of {gpu} with a known price: {known}; or add a line with a dated price",
        )
    per_corpus = cost_per_corpus(None if line is None else line.total, accepted)
    return Quote(catalogue, catalogue.gpu(gpu), lots, window_seconds, lines, line, accepted, per_corpus)


def quote_lines(answer: Quote) -> list[str]:
    """The answer for people, in plain ASCII."""
    cards, line = answer.gpu.cards_per_lot * answer.lots, answer.line
    lots, gpus = _plural(answer.lots, "lot"), _plural(cards, "GPU")
    memory = f"{answer.gpu.memory_gib_per_card} GiB per card, nominal, never added up over cards"
    if line is None or line.offer is None or line.total is None:
        text = [f"{answer.gpu.name}, {lots}: no priced package covers the window ({gpus})"]
    else:
        offer, total = line.offer, amount_text(line.total, line.offer.currency)
        text = [
            f"{answer.gpu.name}, {line.name}, {lots}: {total}, {gpus}",
            f"  price per lot: {amount_text(offer.price_per_lot, offer.currency)} "
            f"({ascii(offer.source)[1:-1]}, {offer.catalogue_date})",
        ]
    text.append(f"  memory: {memory}")
    if answer.gpu.memory_source:
        text.append(f"    {ascii(answer.gpu.memory_source)[1:-1]}")
    text += [f"  cost per validated corpus: {per_corpus_text(answer)}"]
    if answer.accepted is not None:
        text.append(f"  accepted results: {answer.accepted}, as you say; no prediction is read or checked here")
    if answer.window_seconds is not None:
        text.append(f"  window: {hours_text(answer.window_seconds)}")
    width = max(len(line.name) for line in answer.lines)
    text += ["packages:", *(f"  {_line_text(line, width)}" for line in answer.lines)]
    unknown = could_cost_less(answer.lines, line) if line is not None else ()
    if unknown:
        names = ", ".join(one.name for one in unknown)
        text.append(f"It may be cheaper: {names} would also cover, at a price that is not known.")
    hourly = less_by_the_hour(answer.lines, line)
    if hourly is not None and hourly.offer is not None and hourly.total is not None:
        cost = amount_text(hourly.total, hourly.offer.currency)
        text.append(f"By the hour it would cost {cost}; hourly offers are ranked only where the plan lists them.")
    return [*text, "Unused time is not refunded; packages are not extended or combined by themselves."]


def _line_text(line: PackageLine, width: int) -> str:
    name, hours, price, cover = line_cells(line)
    return f"{name:{width}} {hours:>6}  {price:>16}  {cover}".rstrip()


def line_cells(line: PackageLine) -> tuple[str, str, str, str]:
    """A package as the cells of a table: name, hours, committed cost, whether it covers."""
    price = "no price" if line.offer is None or line.total is None else amount_text(line.total, line.offer.currency)
    cover = ""
    if line.slack_seconds is not None:
        slack = hours_text(abs(line.slack_seconds))
        cover = f"covers, {slack} to spare" if line.covers else f"does not cover, {slack} too short"
    if line.available is False and line.offer is not None:
        cover += f"{'; ' if cover else ''}only {_plural(line.offer.lots_available or 0, 'lot')} available"
    return line.name, f"{line.hours} h", price, cover


def per_corpus_text(answer: Quote) -> str:
    """Cost per validated corpus in words; the exact value beside one that had to be rounded."""
    per = answer.per_corpus
    if per.value is None or answer.line is None or answer.line.offer is None:
        return f"{per.status} ({per.reason})"
    shown = amount_text(per.value, answer.line.offer.currency)
    exact = per.value * 100 == int(per.value * 100)
    return shown if exact else f"{shown} (rounded half up from {money_text(per.value, 6)})"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def main(arguments: Sequence[str]) -> int:
    """The lab folder's command line; `runner price` calls the same functions."""
    parser = argparse.ArgumentParser(prog="price.py", description="Committed cost of a GPU rental package.")
    parser.add_argument("--gpu", required=True, help="name in tariffs.csv, such as rtx-4090")
    parser.add_argument("--days", help="package: 3, 7 or 30 days")
    parser.add_argument("--window-hours", help="or: the hours that the rental must cover, such as 96 or 72:00:01")
    parser.add_argument("--lots", default="1", help="number of lots (default 1)")
    parser.add_argument("--accepted-results", help="distinct corpora that passed every quality check")
    parser.add_argument("--tariffs", type=Path, default=Path(__file__).with_name("tariffs.csv"))
    options = parser.parse_args(arguments)
    try:
        if options.days is None and options.window_hours is None:
            raise PriceError("say --days or --window-hours", next_step="give one of the two")
        answer = quote(
            read_catalogue(options.tariffs),
            options.gpu,
            parse_count(options.lots, "--lots", 1),
            days=None if options.days is None else parse_count(options.days, "--days", 1),
            window_seconds=None if options.window_hours is None else parse_hours(options.window_hours),
            accepted=None
            if options.accepted_results is None
            else parse_count(options.accepted_results, "--accepted-results"),
        )
    except PriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(quote_lines(answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
