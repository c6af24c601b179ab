"""Whether a package without a price could change the choice (DESIGN section 6, rule 10).

One price counts for every configuration that rents the package: two settings on the same GPU get cheaper together.
Taken for granted is only that a longer package of a GPU costs no less than a shorter one, as long as its known prices
do not say otherwise (`rising`). So the choice is made again with each unknown price at the least that it can be, all
shorter unknown ones as dear as that: if the winner holds there, it holds at every higher price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from runner.decide.model import BalanceRow, Constraint, PackageChoice, PackageOption
from runner.decide.options import DEPENDS_ON_TIME, Option, at_largest, at_smallest, sound
from runner.decide.pick import pick
from runner.pricing.core import never_fall

LEAST_PRICE = Decimal("0.01")
"""The lowest price per lot that a catalogue can hold."""
_SECONDS_PER_DAY = 86400

End = Callable[[BalanceRow], Option]


@dataclass(frozen=True, slots=True)
class Rival:
    """A configuration that an unknown price could bring forward. `cheaper`: below the winner, not only equal to it."""

    row: BalanceRow
    days: tuple[int, ...]
    cheaper: bool


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A package without a price: its price per lot is at least `least`."""

    gpu: str
    days: int
    least: Decimal
    rising: bool = True


def could_be_priced(row: BalanceRow) -> tuple[int, ...]:
    """Days of unpriced packages that would make a sound configuration cheaper than it is, or admissible at all."""
    if not sound(row) or row.own_machine:
        return ()
    days: set[int] = set(row.unpriced_days) if _open(row.constraints) else set()
    if row.at_smallest is not None and _open(row.at_smallest.constraints):
        days.update(row.at_smallest.unpriced_days)
    return tuple(sorted(days))


def least_if_priced(row: BalanceRow, beside: PackageChoice) -> Decimal | None:
    """The least that a sound configuration can cost through a package without a price; None: there is none such.

    A package that is longer than `beside` on the same GPU is left out: it is never cheaper than that one per lot.
    """
    costs = [
        cost
        for unknown in _unknown([row])
        if (row.gpu != beside.gpu or beside.days is None or unknown.days < beside.days)
        for end in (at_largest, at_smallest)
        if (cost := _cost(row, end, unknown)) is not None
    ]
    return min(costs, default=None)


def rivals(rows: Sequence[BalanceRow], winner: str | None, deliverables: Sequence[str]) -> tuple[Rival, ...]:
    """Who could win in place of `winner` (None: nothing is admissible), in the order of `rows`."""
    found: dict[str, dict[int, bool]] = {}
    for unknown in _unknown(rows):
        for ends in _ends(rows):
            options = [_priced(end, row, unknown) for row, end in zip(rows, ends, strict=True)]
            best = pick(options, deliverables)
            if winner is not None and best.winner is not None and best.winner.id == winner:
                continue
            known = next((option.cost for option in options if option.id == winner), None)
            for row, end, option in zip(rows, ends, options, strict=True):
                if option.id == winner or option.cost is None or _cost(row, end, unknown) is None:
                    continue
                if known is None or option.cost <= known:
                    days = found.setdefault(option.id, {})
                    days[unknown.days] = days.get(unknown.days, False) or known is None or option.cost < known
    return tuple(
        Rival(row, tuple(sorted(found[row.configuration_id])), any(found[row.configuration_id].values()))
        for row in rows
        if row.configuration_id in found
    )


def _ends(rows: Sequence[BalanceRow]) -> Iterator[list[End]]:
    """All at their largest durations; each one, and all, at their smallest (rule 7)."""
    largest: list[End] = [at_largest] * len(rows)
    yield largest
    for number, row in enumerate(rows):
        if _moves(row):
            yield [*largest[:number], at_smallest, *largest[number + 1 :]]
    yield [at_smallest] * len(rows)


def _moves(row: BalanceRow) -> bool:
    """Whether another length covers at the smallest durations, or admissibility or cost differ there."""
    if row.at_smallest is None:
        return False
    covers = [[option.covers for option in packages] for packages in (row.packages, row.at_smallest.packages)]
    one, other = at_largest(row), at_smallest(row)
    return covers[0] != covers[1] or (one.admissible, one.cost) != (other.admissible, other.cost)


def _unknown(rows: Sequence[BalanceRow]) -> list[_Unknown]:
    """Every package without a price of a GPU of these rows, with its least price."""
    found: dict[tuple[str, int], _Unknown] = {}
    for row in rows:
        for option in row.packages:
            if option.days is None or option.price_per_lot is not None or (row.gpu, option.days) in found:
                continue
            known = [(o.days, Decimal(o.price_per_lot)) for o in row.packages if o.days and o.price_per_lot is not None]
            rising = never_fall([price for _, price in known])
            shorter = [price for days, price in known if days < option.days and rising]
            found[row.gpu, option.days] = _Unknown(
                row.gpu, option.days, max(shorter, default=LEAST_PRICE), rising=rising
            )
    return list(found.values())


def _priced(end: End, row: BalanceRow, unknown: _Unknown) -> Option:
    """The option with this price in place of the unknown one, if it rents the package and that is cheaper."""
    option, cost = end(row), _cost(row, end, unknown)
    if cost is None or (option.admissible and option.cost is not None and option.cost <= cost):
        return option
    known = tuple(question for question in row.open_questions if question.code != "question.unpriced")
    return replace(option, row=row.model_copy(update={"open_questions": known}), admissible=True, cost=cost)


def _cost(row: BalanceRow, end: End, unknown: _Unknown) -> Decimal | None:
    """Least cost of the row through the unknown package; None where it cannot rent it, or fails for another reason."""
    if row.gpu != unknown.gpu or row.own_machine or row.lots is None or not sound(row):
        return None
    constraints, packages = row.constraints, row.packages
    if end is at_smallest and row.at_smallest is not None:
        constraints, packages = row.at_smallest.constraints, row.at_smallest.packages
    if not _open(constraints):
        return None
    return min((_total(option, row.lots, unknown.least) for option in packages if _is(option, unknown)), default=None)


def _is(option: PackageOption, unknown: _Unknown) -> bool:
    """The package itself, or a shorter one without a price, which then costs no more; where it covers."""
    if option.days is None or option.price_per_lot is not None or not option.covers:
        return False
    return option.days == unknown.days or (unknown.rising and option.days < unknown.days)


def _total(option: PackageOption, lots: int, price: Decimal) -> Decimal:
    periods = int(Decimal(option.seconds) // ((option.days or 1) * _SECONDS_PER_DAY))
    return price * lots * periods


def _open(constraints: Sequence[Constraint]) -> bool:
    """Whether nothing but a price is missing; lots of a package without a line are as unknown as its price."""
    others = [c for c in constraints if c.name in DEPENDS_ON_TIME and c.name != "price"]
    return all(
        c.status in ("met", "not applicable") or (c.name == "availability" and c.status == "not assessable")
        for c in others
    )
