"""Which documents go together: the organisation of the work, always a declared variant (M15)."""

from __future__ import annotations

from collections.abc import Sequence

from runner.measure.job import Unsupported


def plan_batches(lengths: Sequence[int], batch_size: int, grouping: str) -> list[list[int]]:
    """Positions of each batch, every position once. `lengths` in tokens, in corpus order.

    `none`: corpus order. `length-sorted`: longest first (the largest need of memory comes first),
    equal lengths in corpus order. `token-budget:N`: sorted, as many as fit into N padded tokens,
    at most `batch_size`; a text longer than the budget is a batch of its own.
    """
    positions: Sequence[int] = range(len(lengths))
    if grouping == "none":
        return _chunks(positions, batch_size)
    longest_first = sorted(positions, key=lambda position: -lengths[position])
    if grouping == "length-sorted":
        return _chunks(longest_first, batch_size)
    name, _, budget = grouping.partition(":")
    if name == "token-budget" and budget.isdecimal() and int(budget) > 0:
        return _within_budget(longest_first, lengths, int(budget), batch_size)
    raise Unsupported(f"grouping {grouping!r} is not known: use none, length-sorted or token-budget:N")


def _chunks(positions: Sequence[int], size: int) -> list[list[int]]:
    return [list(positions[start : start + size]) for start in range(0, len(positions), size)]


def _within_budget(positions: Sequence[int], lengths: Sequence[int], budget: int, most: int) -> list[list[int]]:
    batches: list[list[int]] = []
    batch: list[int] = []
    for position in positions:
        # Sorted longest first: the first of a batch is its padded width.
        width = lengths[batch[0]] if batch else lengths[position]
        if batch and (width * (len(batch) + 1) > budget or len(batch) == most):
            batches.append(batch)
            batch = []
        batch.append(position)
    if batch:
        batches.append(batch)
    return batches
