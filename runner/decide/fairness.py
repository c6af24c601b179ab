"""Whether all configurations were treated alike: order of passes (M21), other expenses (M39)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from runner.decide.fates import Judged
from runner.decide.model import Expense, Reason
from runner.decide.sentences import say
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
            warnings.append(say("expense.unfair", name=name, given=have, missing=", ".join(missing)))
        strangers = sorted(
            {item.configuration for item in plan.expense if item.name == name and item.configuration} - set(variants)
        )
        if strangers:
            warnings.append(say("expense.stranger", name=name, variant=", ".join(strangers)))
    return tuple(warnings)


def total_expenses(expenses: Sequence[Expense], currency: str) -> Decimal:
    """Sum of the expenses in this currency; others cannot be added without a stated rate."""
    return sum((Decimal(item.amount) for item in expenses if item.currency == currency), Decimal(0))


def rotation_warnings(judged: Sequence[Judged], variants: Sequence[LockedVariant]) -> tuple[Reason, ...]:
    """Variants that were first in no pass, or first in all, although several shared the passes (M21)."""
    warnings = []
    groups = sorted({(i.attempt.gpu_declared, i.attempt.corpus_id, i.attempt.seed) for i in judged})
    for gpu, corpus, seed in groups:
        mine = [
            item.attempt
            for item in judged
            if (item.attempt.gpu_declared, item.attempt.corpus_id, item.attempt.seed) == (gpu, corpus, seed)
        ]
        passes = sorted({attempt.slot.pass_index for attempt in mine})
        first = {
            index: min((a for a in mine if a.slot.pass_index == index), key=lambda a: a.slot.position).variant_id
            for index in passes
        }
        tried = [variant.id for variant in variants if any(a.variant_id == variant.id for a in mine)]
        if len(tried) > 1 and len(passes) > 1 and len(set(first.values())) == 1:
            warnings.append(say("order.not-rotated", gpu=gpu, corpus=corpus, variant=first[passes[0]]))
    return tuple(warnings)
