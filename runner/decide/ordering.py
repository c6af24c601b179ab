"""Order of configurations in displays: what is undefined or unknown comes last, in both directions (PR-14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from runner.decide.model import BalanceRow


def _median(row: BalanceRow) -> Decimal | None:
    """Of all deliverables one after the other; unknown while one of them has none."""
    medians = [summary.median_seconds for summary in row.summaries]
    if not medians or any(median is None for median in medians):
        return None
    return sum((Decimal(median) for median in medians if median is not None), Decimal(0))


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


KEYS: Mapping[str, Callable[[BalanceRow], Decimal | None]] = {
    "per-corpus": lambda row: _decimal(row.cost_per_validated_corpus),
    "cost": lambda row: _decimal(row.committed_cost),
    "median": _median,
    "window": lambda row: None if row.window is None else Decimal(row.window.window_seconds),
}
"""What a table can be ordered by."""


def ordered(rows: Sequence[BalanceRow], key: str = "per-corpus", *, descending: bool = False) -> list[BalanceRow]:
    """Rows by a key of `KEYS`, equal ones as they were; rows without a value last, whatever the direction."""
    value = KEYS[key]
    known = [(found, row) for row in rows if (found := value(row)) is not None]
    known.sort(key=lambda item: item[0], reverse=descending)
    return [row for _, row in known] + [row for row in rows if value(row) is None]
