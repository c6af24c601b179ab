"""Options as the choice sees them: a configuration at one end of its measured range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

from runner.decide.model import BalanceRow, ConstraintName, Outlook
from runner.decide.summaries import median
from runner.units import exact_seconds

DEPENDS_ON_TIME: frozenset[ConstraintName] = frozenset({"window", "deadline", "price", "availability"})
_EXACT_DIGITS = 80


@dataclass(frozen=True, slots=True)
class Times:
    """Median and range of the time for all deliverables and seeds together, one after the other. Seconds."""

    median: Decimal
    range: Decimal


@dataclass(frozen=True, slots=True)
class Option:
    """A configuration with the cost and admissibility of one end of its range. `cost` None: own machine."""

    row: BalanceRow
    admissible: bool
    cost: Decimal | None
    unpriced_days: tuple[int, ...]

    @property
    def id(self) -> str:
        return self.row.configuration_id


def at_largest(row: BalanceRow) -> Option:
    """With the largest accepted durations: what window and committed cost of the balance are based on."""
    cost = None if row.committed_cost is None else Decimal(row.committed_cost)
    return Option(row, row.admissible, cost, row.unpriced_days)


def at_smallest(row: BalanceRow) -> Option:
    """With the smallest accepted durations."""
    end = row.at_smallest
    if end is None:
        return at_largest(row)
    package = end.package
    cost = None if package is None else Decimal(package.total)
    return Option(row, sound(row) and fits(end), cost, end.unpriced_days)


def sound(row: BalanceRow) -> bool:
    """Whether everything that does not depend on durations and prices is met."""
    return row.measured and all(
        c.status in ("met", "not applicable") for c in row.constraints if c.name not in DEPENDS_ON_TIME
    )


def fits(end: Outlook) -> bool:
    return all(constraint.status in ("met", "not applicable") for constraint in end.constraints)


def times(row: BalanceRow, deliverables: Sequence[str]) -> Times:
    """Sum of the medians and of the ranges: every deliverable with every seed, each apart (M27). Needs a sound row."""
    measured = [summary for summary in row.summaries if summary.corpus_id in deliverables and summary.raw_seconds]
    values = [[exact_seconds(seconds) for seconds in summary.raw_seconds] for summary in measured]
    with localcontext(prec=_EXACT_DIGITS):
        return Times(
            sum((median(seconds) for seconds in values), Decimal(0)),
            sum((max(seconds) - min(seconds) for seconds in values), Decimal(0)),
        )


def gap_and_spread(one: Times, other: Times) -> tuple[Decimal, Decimal]:
    """Distance of the medians, and the larger of the two ranges: separated if the first exceeds the second."""
    with localcontext(prec=_EXACT_DIGITS):
        return abs(one.median - other.median), max(one.range, other.range)


def separated_from_all(one: Times, others: Iterable[Times]) -> bool:
    """Faster than every other by more than the larger range of the two; equal is not separated."""
    return all(
        one.median < other.median and gap_and_spread(one, other)[0] > gap_and_spread(one, other)[1] for other in others
    )
