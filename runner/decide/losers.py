"""Why each measured configuration that is neither chosen nor tied is out."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from runner.decide.model import BalanceRow, Excluded, Reason
from runner.decide.options import Option, gap_and_spread, times
from runner.decide.pick import Pick
from runner.decide.sentences import say
from runner.decide.summaries import decimal_text


def excluded_rows(
    rows: Sequence[BalanceRow],
    chosen: BalanceRow | None,
    tied: Sequence[Option],
    rule: str,
    deliverables: Sequence[str],
    ranked: Pick | None = None,
) -> tuple[Excluded, ...]:
    """Why each measured configuration is not the chosen one; tied and unresolved ones are not excluded.

    `ranked`: the ranking at the largest durations, where noise or an unknown price keeps its winner open. What it
    left behind says by what.
    """
    open_names = {option.id for option in tied}
    by_failures = chosen is not None and _even(rows, chosen)
    would_be = None if ranked is None or ranked.winner is None else ranked.winner.row
    found = []
    for row in rows:
        if row is chosen or row.configuration_id in open_names:
            continue
        failed = next((c for c in row.constraints if c.name == row.first_failed), None)
        if failed is not None:
            found.append(Excluded(configuration_id=row.configuration_id, constraint=failed.name, reason=failed.reason))
        elif chosen is not None:
            reason = _lost(row, chosen, rule, by_failures)
            found.append(Excluded(configuration_id=row.configuration_id, reason=reason))
        elif rule == "rule.tie" and tied:
            reason = _behind(row, tied, deliverables)
            found.append(Excluded(configuration_id=row.configuration_id, reason=reason))
        elif ranked is not None and would_be is not None:
            reason = say(
                "lost.would-be",
                name=would_be.configuration_id,
                why=_lost(row, would_be, ranked.rule, _even(rows, would_be)),
            )
            found.append(Excluded(configuration_id=row.configuration_id, reason=reason))
    return tuple(found)


def _even(rows: Sequence[BalanceRow], best: BalanceRow) -> bool:
    """Whether all admissible ones of the same cost have as many attempts: only then are failures compared."""
    equal = [row for row in rows if row.admissible and row.committed_cost == best.committed_cost]
    return len({row.accepted + row.failures for row in equal}) == 1


def _lost(row: BalanceRow, chosen: BalanceRow, rule: str, by_failures: bool) -> Reason:
    """`by_failures`: whether failures were compared, because all of equal cost have as many attempts."""
    if row.own_machine and not chosen.own_machine:
        return say("lost.own-machine")
    if row.committed_cost is not None and chosen.committed_cost is not None:
        cost, least = Decimal(row.committed_cost), Decimal(chosen.committed_cost)
        if cost > least:
            return say(
                "lost.cost",
                cost_money=f"{row.committed_cost} {row.currency}",
                more_money=f"{decimal_text(cost - least)} {row.currency}",
            )
        if row.failures > chosen.failures and by_failures:
            return say("lost.failures", failures_count=str(row.failures), fewer_count=str(chosen.failures))
        return say("lost.questions" if rule == "rule.questions" else "lost.slower", name=chosen.configuration_id)
    return say("lost.slower", name=chosen.configuration_id)


def _behind(row: BalanceRow, tied: Sequence[Option], deliverables: Sequence[str]) -> Reason:
    """Why an admissible configuration is not among the tied: dearer, more failures, or slower beyond the ranges."""
    first = tied[0]
    if not all(option.row.own_machine for option in tied):
        by_failures = row.committed_cost == first.row.committed_cost
        return _lost(row, first.row, "rule.tie", by_failures)
    fastest = min(tied, key=lambda option: (times(option.row, deliverables).median, option.id))
    gap, spread = gap_and_spread(times(fastest.row, deliverables), times(row, deliverables))
    return say("lost.separated", name=fastest.id, gap_seconds=decimal_text(gap), range_seconds=decimal_text(spread))
