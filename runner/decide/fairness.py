"""Whether all configurations were treated alike: order of passes (M21), other expenses (M39)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from runner.decide.fates import Fate, Judged
from runner.decide.model import BalanceRow, Expense, Reason
from runner.decide.sentences import say
from runner.evidence.attempt import Status
from runner.protocol.schema import LockedVariant, Plan


def expenses_of(plan: Plan, variant_id: str) -> tuple[Expense, ...]:
    """Other expenses of a variant: those for all, and its own."""
    return tuple(
        Expense(name=item.name, amount=item.amount, currency=item.currency, reason=item.reason)
        for item in plan.expense
        if item.configuration in (None, variant_id)
    )


def expense_warnings(plan: Plan, variants: Sequence[str]) -> tuple[Reason, ...]:
    """An item given for one configuration and missing for another is flagged, never filled in."""
    names = sorted({item.name for item in plan.expense})
    warnings = []
    for name in names:
        given = {v for v in variants for item in plan.expense if item.name == name and item.configuration in (None, v)}
        missing = [variant for variant in variants if variant not in given]
        if missing and given:
            have = ", ".join(variant for variant in variants if variant in given)
            warnings.append(say("expense.unfair", expense=name, given=have, missing=", ".join(missing)))
        strangers = sorted(
            {item.configuration for item in plan.expense if item.name == name and item.configuration} - set(variants)
        )
        if strangers:
            warnings.append(say("expense.stranger", expense=name, variant=", ".join(strangers)))
    return tuple(warnings)


def total_expenses(expenses: Sequence[Expense], currency: str) -> Decimal:
    """Sum of the expenses in this currency; others cannot be added without a stated rate."""
    return sum((Decimal(item.amount) for item in expenses if item.currency == currency), Decimal(0))


def rotation_warnings(judged: Sequence[Judged], variants: Sequence[LockedVariant]) -> tuple[Reason, ...]:
    """Whether the order really alternated (M21): checked from the records, by the times of the starts.

    A pass counts if every variant that was tried on this hardware stands in it once; a slot that was run
    again later says nothing about the order.
    """
    rank = {variant.id: place for place, variant in enumerate(variants)}
    warnings = []
    for (gpu, corpus, seed), items in _groups(judged).items():
        firsts = [item for item in items if item.attempt.retry_of is None]
        tried = sorted({item.attempt.variant_id for item in firsts}, key=lambda name: rank[name])
        orders = [order for order in _orders(firsts) if len(order) == len(tried) > 1]
        if len(orders) > 1 and len({order[0] for order in orders}) == 1:
            warnings.append(say("order.not-rotated", gpu=gpu, corpus=corpus, variant=orders[0][0]))
        odd = [order for order in orders if order not in _rotations(tried)]
        if odd:
            warnings.append(say("order.other", gpu=gpu, corpus=corpus, found=", ".join(odd[0]), seed_count=str(seed)))
    return tuple(warnings)


def _groups(judged: Sequence[Judged]) -> dict[tuple[str, str, int], list[Judged]]:
    """Attempts by declared GPU, corpus and seed."""
    groups: dict[tuple[str, str, int], list[Judged]] = {}
    for item in judged:
        attempt = item.attempt
        groups.setdefault((attempt.gpu_declared, attempt.corpus_id, attempt.seed), []).append(item)
    return dict(sorted(groups.items()))


def _orders(items: Sequence[Judged]) -> list[list[str]]:
    """Variants of each pass by the time of their start."""
    passes: dict[int, list[Judged]] = {}
    for item in items:
        passes.setdefault(item.attempt.slot.pass_index, []).append(item)
    return [
        [item.attempt.variant_id for item in sorted(found, key=lambda item: item.attempt.started_at_utc)]
        for _, found in sorted(passes.items())
    ]


def _rotations(names: list[str]) -> list[list[str]]:
    return [[*names[turn:], *names[:turn]] for turn in range(len(names))]


def passes_warnings(judged: Sequence[Judged]) -> tuple[Reason, ...]:
    """More passes only for all variants alike (M3): unequal numbers on the same hardware are said."""
    warnings = []
    for (gpu, corpus, _), items in _groups(judged).items():
        counts: dict[str, int] = {}
        for item in items:
            counts[item.attempt.variant_id] = counts.get(item.attempt.variant_id, 0) + (
                item.fate is not Fate.NOT_COUNTED
            )
        tried = {name: count for name, count in counts.items() if count}
        if len(set(tried.values())) > 1:
            found = ", ".join(f"{name}: {count}" for name, count in sorted(tried.items()))
            warnings.append(say("passes.uneven", gpu=gpu, corpus=corpus, found=found))
    return tuple(warnings)


def hold_back_surplus(judged: Sequence[Judged], planned: int) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
    """More passes only for all variants alike (M3): a pass beyond the plan waits until every tried variant has it.

    Those that wait count neither as accepted nor as failures; their ids come second, in the order of the schedule.
    """
    waiting: set[str] = set()
    for items in _groups(judged).values():
        done: dict[str, set[int]] = {}
        for item in items:
            if item.attempt.status not in (Status.UNAVAILABLE, Status.UNSUPPORTED, Status.INTERRUPTED):
                done.setdefault(item.attempt.variant_id, set()).add(item.attempt.slot.pass_index)
        allowed = max(planned, min((len(slots) for slots in done.values()), default=0))
        late = {variant: set(sorted(slots)[allowed:]) for variant, slots in done.items()}
        waiting |= {
            item.attempt.attempt_id
            for item in items
            if item.attempt.slot.pass_index in late.get(item.attempt.variant_id, ())
        }
    held = tuple(
        replace(item, fate=Fate.NOT_COUNTED) if item.attempt.attempt_id in waiting else item for item in judged
    )
    return held, tuple(item.attempt.attempt_id for item in judged if item.attempt.attempt_id in waiting)


def search_costs(rows: Sequence[BalanceRow]) -> tuple[Reason, ...]:
    """Money that the comparison itself commits, per GPU, if each was rented once for all of its variants (rule 9)."""
    costs: dict[str, list[BalanceRow]] = {}
    for row in rows:
        if row.measured and row.committed_cost is not None:
            costs.setdefault(row.gpu, []).append(row)
    found = []
    for gpu, same in sorted(costs.items()):
        dearest = max(same, key=lambda row: (Decimal(row.committed_cost or "0"), row.configuration_id))
        names = ", ".join(row.variant_id for row in same)
        money = f"{dearest.committed_cost} {dearest.currency}"
        found.append(say("search.gpu", gpu=gpu, names=names, cost_money=money))
    return tuple(found)
