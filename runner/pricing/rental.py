"""The rental record against the decision, field by field (M46)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from runner.errors import InputRefused, NotAccepted, show_value
from runner.evidence.rental import Rental
from runner.pricing.core import MOST_COUNT, amount_text, hours_text
from runner.pricing.times import parse_instant, seconds_of
from runner.protocol.read import read_toml_record
from runner.protocol.shipped import refuse_unfilled, unfilled
from runner.protocol.toml import read_toml
from runner.units import parse_decimal, utc_text

_MOST_DAYS = 99_999
OWN_MACHINE = "own machine: nothing is rented, cost not applicable"


@dataclass(frozen=True, slots=True)
class Expected:
    """What plan and decision say about the rental; `None` where they say nothing. Window: start and end in UTC.

    `periods`: of the package of `days`, where the plan asks for further ones. `decided`: a configuration was chosen;
    otherwise the record is compared with what was measured.
    """

    gpu: str
    lots: int | None
    days: int | None
    amount: Decimal | None
    currency: str | None
    window: tuple[datetime, datetime] | None = None
    periods: int = 1
    own_machine: bool = False
    decided: bool = True
    provider: str | None = None
    order: str | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One field of the record that contradicts the decision."""

    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.field}: the note says {self.expected}, the record {self.found}"


@dataclass(frozen=True, slots=True)
class RentalMatch:
    """Fields that agree, fields that do not, and fields with nothing to compare with (field, reason)."""

    matched: tuple[str, ...]
    mismatches: tuple[Mismatch, ...]
    not_applicable: tuple[tuple[str, str], ...]
    decided: bool = True
    own_machine: bool = False

    def summary(self) -> str:
        """`gpu, amount as decided`; where nothing is chosen, what the record was compared with instead."""
        fields = ", ".join(self.matched) or "no field"
        if self.decided:
            return f"{fields} as decided"
        if self.own_machine:
            return (
                f"{fields} as on the own machine that was measured; nothing is rented on it, "
                "so there is no package and no price to compare"
            )
        return (
            f"{fields} as in what was measured; no configuration is chosen, "
            "so there is no package and no price to compare"
        )

    def by_reason(self) -> dict[str, list[str]]:
        """Fields with nothing to compare with, under their common reason."""
        found: dict[str, list[str]] = {}
        for field, reason in self.not_applicable:
            found.setdefault(reason, []).append(field)
        return found

    def refuse(self, path: Path) -> None:
        """Stop with exit 3 where the record contradicts the decision."""
        if self.mismatches:
            names = ", ".join(item.field for item in self.mismatches)
            raise NotAccepted(
                f"the rental record does not match the decision: {names}",
                file=path,
                details=tuple(str(item) for item in self.mismatches),
                next_step="correct the record from the invoice, or decide again with what was really rented",
            )


def read_rental(path: Path) -> Rental:
    """Record of a TOML file; no field may be left as the example has it, the period must be zoned and in order."""
    copy = "cp protocol/rental.example.toml rental.toml, then fill it in from the invoice"
    document = read_toml(path, what="rental record", next_step=copy)
    numbers = tuple((name,) for name in ("lots", "days") if document.data.get(name) == 0)
    if next(unfilled(document.data), None):
        refuse_unfilled(document, "rental record", numbers)
    rental = read_toml_record(path, Rental, what="rental record", next_step=copy)
    for name in ("provider", "order", "gpu", "currency"):
        if not getattr(rental, name).strip():
            raise InputRefused(
                "a field of the rental record is empty",
                file=path,
                column=name,
                next_step="fill the field in",
            )
    for name, most in (("lots", MOST_COUNT), ("days", _MOST_DAYS)):
        if getattr(rental, name) < 1:
            raise InputRefused(
                "must be 1 or more",
                file=path,
                column=name,
                value=getattr(rental, name),
                next_step="write a whole number from 1",
            )
        if getattr(rental, name) > most:
            raise InputRefused(
                f"must be at most {most:,}",
                file=path,
                column=name,
                value=getattr(rental, name),
                next_step=f"write a whole number from 1 to {most}",
            )
    if parse_decimal(rental.amount, name="amount") < 0:
        raise InputRefused(
            "an amount is not negative",
            file=path,
            column="amount",
            value=rental.amount,
            next_step="write the amount of the invoice, 0 or more",
        )
    starts_at, ends_at = _period(rental, path)
    if ends_at <= starts_at:
        raise InputRefused(
            "the rental ends before it starts",
            file=path,
            column="ends_at",
            value=rental.ends_at,
            next_step="correct starts_at or ends_at",
        )
    return rental


def _period(rental: Rental, path: Path | None = None) -> tuple[datetime, datetime]:
    try:
        return (
            parse_instant(rental.starts_at, None, name="starts_at"),
            parse_instant(rental.ends_at, None, name="ends_at"),
        )
    except InputRefused as error:
        raise InputRefused(
            error.what, file=path, column=error.column, value=error.value, next_step=error.next_step
        ) from None


def match_rental(rental: Rental, expected: Expected) -> RentalMatch:
    """Compare record, plan and decision: provider, order, gpu, lots, package, amount, currency, length and place of
    the period.
    """
    matched, mismatches, not_applicable = [], [], []
    for field, wanted, found, agrees in _comparisons(rental, expected):
        if wanted is None:
            not_applicable.append((field, _why_not_compared(field, expected)))
        elif agrees:
            matched.append(field)
        else:
            mismatches.append(Mismatch(field, wanted, found))
    return RentalMatch(tuple(matched), tuple(mismatches), tuple(not_applicable), expected.decided, expected.own_machine)


def _why_not_compared(field: str, expected: Expected) -> str:
    if field in ("provider", "order"):
        return "the plan does not say"
    if expected.own_machine:
        return OWN_MACHINE
    return "the decision does not say" if expected.decided else "nothing is decided"


def _comparisons(rental: Rental, expected: Expected) -> Iterator[tuple[str, str | None, str, bool]]:
    """(field, what is expected or None, what the record says, whether they agree)."""
    starts_at, ends_at = _period(rental)
    length, package = ends_at - starts_at, timedelta(days=rental.days * expected.periods)
    amount = parse_decimal(rental.amount, name="amount")
    paid, currency = expected.amount, expected.currency
    yield (
        "provider",
        None if expected.provider is None else show_value(expected.provider),
        show_value(rental.provider),
        rental.provider == expected.provider,
    )
    yield (
        "order",
        None if expected.order is None else show_value(expected.order),
        show_value(rental.order),
        rental.order == expected.order,
    )
    yield "gpu", show_value(expected.gpu), show_value(rental.gpu), rental.gpu == expected.gpu
    yield "lots", _text(expected.lots), str(rental.lots), rental.lots == expected.lots
    yield "days", _text(expected.days), str(rental.days), rental.days == expected.days
    if expected.own_machine and amount:
        yield "amount", "not applicable (own machine, nothing is rented)", amount_text(amount, rental.currency), False
    else:
        yield (
            "amount",
            None if paid is None else amount_text(paid, currency or ""),
            amount_text(amount, rental.currency),
            paid == amount,
        )
    yield "currency", currency, show_value(rental.currency), rental.currency == currency
    name = f"{rental.days} days" if expected.periods == 1 else f"{expected.periods} x {rental.days} days"
    yield (
        "period",
        f"{name} = {hours_text(seconds_of(package))} from starts_at to ends_at",
        hours_text(seconds_of(length)),
        length == package,
    )
    if expected.window is None:
        yield "window", None, "", False
    else:
        start, end = expected.window
        yield (
            "window",
            f"{utc_text(start)} to {utc_text(end)} inside the rental",
            f"{utc_text(starts_at)} to {utc_text(ends_at)}",
            starts_at <= start and end <= ends_at,
        )


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
