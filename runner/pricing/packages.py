"""Which package pays for a configuration's window (M35, M36; DESIGN section 6, rules 9 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from runner.errors import InputRefused
from runner.pricing.core import (
    Catalogue,
    PackageLine,
    cheapest,
    could_cost_less,
    hours_text,
    lots_for_cards,
    money_text,
    package_lines,
)
from runner.pricing.tariffs import refusals

_MOST_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class PackageAnswer:
    """All packages for a window, and the cheapest known one that covers it and can be had.

    `unpriced_covering`: days of packages that would cover, whose price is not known.
    `unpriced_cheaper`: those of them that could cost less than `best`; all of them while there is no best one.
    """

    gpu: str
    lots: int
    cards: int
    unused_cards: int
    lines: tuple[PackageLine, ...]
    best: PackageLine | None
    unpriced_covering: tuple[int, ...]
    unpriced_cheaper: tuple[int, ...]
    reason: str

    @property
    def may_be_cheaper(self) -> bool:
        return self.best is not None and bool(self.unpriced_cheaper)


def choose_package(
    catalogue: Catalogue,
    gpu: str,
    *,
    devices: int,
    window_seconds: Decimal,
    lots: int | None = None,
    billing: Sequence[str] = ("package",),
    extra_periods: int = 0,
) -> PackageAnswer:
    """Cheapest committed cost for `devices` cards over the window. Equal price: the shorter package.

    `lots` asks for more lots than the devices need; fewer are refused. `extra_periods` adds further
    periods of the same package, only because the plan says so.
    """
    with refusals():
        model = catalogue.gpu(gpu)
    needed = lots_for_cards(max(devices, 1), model.cards_per_lot)
    rented = needed if lots is None else lots
    if rented < needed:
        raise InputRefused(
            f"{devices} cards of {gpu} need {needed} lots of {model.cards_per_lot}",
            column="lots",
            value=lots,
            next_step=f"plan {needed} lots",
        )
    lines = package_lines(catalogue, gpu, rented, window_seconds, periods=1 + extra_periods)
    best = cheapest(lines, billing)
    unpriced = [
        line
        for line in lines
        if line.days is not None and line.billing in billing and line.covers and line.offer is None
    ]
    unpriced_days = _days(unpriced)
    return PackageAnswer(
        gpu=gpu,
        lots=rented,
        cards=rented * model.cards_per_lot,
        unused_cards=rented * model.cards_per_lot - max(devices, 1),
        lines=lines,
        best=best,
        unpriced_covering=unpriced_days,
        unpriced_cheaper=_days([line for line in could_cost_less(lines, best) if line.billing in billing]),
        reason=_reason(lines, best, unpriced_days, billing, catalogue.name),
    )


def _days(lines: Sequence[PackageLine]) -> tuple[int, ...]:
    return tuple(line.days for line in lines if line.days is not None)


def _reason(
    lines: Sequence[PackageLine], best: PackageLine | None, unpriced: Sequence[int], billing: Sequence[str], file: str
) -> str:
    if best is not None and best.slack_seconds is not None:
        return f"{best.name} cover the window, {hours_text(best.slack_seconds)} to spare"
    fit = [line for line in lines if line.covers and line.billing in billing]
    if any(line.total is not None for line in fit):
        return "the packages that cover the window have too few lots available"
    if unpriced:
        names = ", ".join(f"{days} days" for days in unpriced)
        return f"no price in {file} for a package that covers the window ({names})"
    longest = max((line for line in lines if line.days is not None), key=lambda line: line.hours)
    short = hours_text(-longest.slack_seconds) if longest.slack_seconds is not None else ""
    return f"no package covers the window: {longest.name} are {short} too short"


def distinct_texts(values: Sequence[Decimal | Fraction], least: int = 2) -> tuple[str, ...]:
    """The values with so many decimals that unequal ones read differently (3.334 and 3.333, not 3.33 twice)."""
    different = len({Fraction(value) for value in values})
    texts: tuple[str, ...] = ()
    for places in range(least, _MOST_DECIMALS + 1):
        texts = tuple(money_text(value, places) for value in values)
        if len(set(texts)) == different:
            break
    return texts
