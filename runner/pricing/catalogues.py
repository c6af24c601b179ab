"""Several catalogues side by side: each price with its date and source, none derived, none converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from runner.errors import InputRefused
from runner.pricing.core import Catalogue, Gpu, PackageLine, cheapest, lots_for_cards, package_lines


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much is to be rented: a number of lots, or cards, for which each catalogue has lots of its own size."""

    lots: int = 1
    cards: int | None = None

    def lots_of(self, gpu: Gpu) -> int:
        return self.lots if self.cards is None else lots_for_cards(self.cards, gpu.cards_per_lot)


@dataclass(frozen=True, slots=True)
class Listed:
    """What one catalogue says about a GPU: its packages, and the one that answers the question (or None)."""

    catalogue: Catalogue
    lots: int | None
    lines: tuple[PackageLine, ...]
    answer: PackageLine | None
    reason: str | None


def side_by_side(
    catalogues: Sequence[Catalogue],
    gpu: str,
    wanted: Wanted,
    *,
    days: int | None = None,
    window_seconds: Decimal | None = None,
    periods: int = 1,
) -> tuple[Listed, ...]:
    """The same question to each catalogue, in the order given. A GPU that none of them names is refused."""
    if not any(catalogue.has(gpu) for catalogue in catalogues):
        raise InputRefused(
            "none of the catalogues names this GPU",
            column="gpu",
            value=gpu,
            next_step="names known: " + ", ".join(sorted(_names(catalogues))),
        )
    listed = tuple(_listed(catalogue, gpu, wanted, days, window_seconds, periods) for catalogue in catalogues)
    if days is not None and not any(one.answer for one in listed):
        raise InputRefused(
            f"no price for the package of {days} days of {gpu} in any of the catalogues",
            column="days",
            value=days,
            details=tuple(f"{one.catalogue.name}: {one.reason}" for one in listed),
            next_step="runner price --gpu NAME lists what has a price; or add a line with its dated price",
        )
    return listed


def _names(catalogues: Sequence[Catalogue]) -> set[str]:
    return {gpu.name for catalogue in catalogues for gpu in catalogue.gpus}


def _listed(
    catalogue: Catalogue, gpu: str, wanted: Wanted, days: int | None, window_seconds: Decimal | None, periods: int
) -> Listed:
    if not catalogue.has(gpu):
        return Listed(catalogue, None, (), None, "not in this catalogue")
    lots = wanted.lots_of(catalogue.gpu(gpu))
    lines = package_lines(catalogue, gpu, lots, window_seconds, periods)
    line = cheapest(lines) if days is None else next((line for line in lines if line.days == days), None)
    if line is None or line.total is None:
        return Listed(catalogue, lots, lines, None, "no price")
    return Listed(catalogue, lots, lines, line, None)


def cheapest_by_currency(listed: Sequence[Listed]) -> dict[str, tuple[Listed, ...]]:
    """Per currency the catalogues with the smallest committed cost; equal ones are all named.

    Amounts of different currencies are never compared: that would need a rate with its date.
    """
    found: dict[str, tuple[Listed, ...]] = {}
    for one in listed:
        total, currency = _total(one), one.catalogue.currency
        if total is None or currency is None:
            continue
        best = found.get(currency, ())
        known = _total(best[0]) if best else None
        if known is None or total < known:
            found[currency] = (one,)
        elif total == known:
            found[currency] = (*best, one)
    return found


def _total(one: Listed) -> Decimal | None:
    return None if one.answer is None else one.answer.total
