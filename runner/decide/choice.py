"""The decision from the balance: chosen or undecided, and why (M43, M32; DESIGN section 6, rules 3 to 14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runner.decide.comparable import different_work
from runner.decide.losers import excluded_rows
from runner.decide.model import Balance, BalanceRow, Decision, Excluded, Reason
from runner.decide.options import Option, at_largest, at_smallest, sound
from runner.decide.pick import Pick, pick
from runner.decide.sentences import say
from runner.decide.ties import help_for_tie, reasons_for_tie
from runner.decide.unpriced import could_be_priced, rivals
from runner.decide.walk import walk_of
from runner.decide.whatif import what_if
from runner.decide.words import (
    help_for_noise,
    help_for_nothing,
    help_for_unpriced,
    reasons_for_nothing,
    reasons_for_winner,
    uncertain_about,
)
from runner.protocol.schema import Protocol

Basis = Literal["committed cost", "time on own machine", "none"]

_UNCERTAIN = frozenset({"calendar.past", "clock.moved", "clock.behind"})
"""Warnings about the calendar that the reader of page 1 must know."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome before it is put into words for everybody who lost."""

    chosen: Option | None
    tied: tuple[Option, ...]
    basis: Basis
    rule: str
    reasons: tuple[Reason, ...]
    would_help: tuple[Reason, ...] = ()
    no_comparison: bool = False
    ranked: Pick | None = None
    """What the ranking gave at the largest durations, where noise or an unknown price keeps it open all the same."""
    walk: tuple[Reason, ...] = ()


def decide(balance: Balance, protocol: Protocol) -> Decision:
    """Decision of a balance; the order of its rows never matters."""
    rows = sorted((row for row in balance.rows if row.measured), key=lambda row: row.configuration_id)
    answer = _answer(balance, rows)
    chosen = None if answer.chosen is None else answer.chosen.row
    compared = [row for row in rows if row.accepted]
    past = tuple(warning for warning in balance.warnings if warning.code in _UNCERTAIN)
    return Decision(
        question=protocol.question.text,
        synthetic=protocol.question.synthetic,
        protocol_name=protocol.question.name,
        protocol_revision=protocol.question.revision,
        lock_sha256=balance.lock_sha256,
        outcome="undecided" if chosen is None else "chosen",
        chosen=None if chosen is None else chosen.configuration_id,
        tied=tuple(option.id for option in answer.tied),
        basis=answer.basis,
        reasons=answer.reasons,
        rule=say(_told(answer)),
        walk=answer.walk,
        no_comparison=answer.no_comparison,
        excluded=excluded_rows(rows, chosen, answer.tied, answer.rule, balance.deliverables, answer.ranked),
        unmeasured=tuple(
            _unmeasured(row) for row in sorted(balance.rows, key=lambda row: row.configuration_id) if not row.measured
        ),
        uncertain=(*past, *uncertain_about(rows, chosen, answer.rule, [option.row for option in answer.tied])),
        would_help=answer.would_help,
        different_stacks=balance.stack_differences,
        what_if=what_if(
            balance,
            rows,
            chosen,
            tuple(option.row for option in answer.tied),
            rule=answer.rule,
        ),
        left_out=balance.left_out,
        warnings=(*(w for w in balance.warnings if w not in past), *different_work(compared, balance.deliverables)),
    )


def _answer(balance: Balance, rows: Sequence[BalanceRow]) -> Answer:
    """Rentals are compared with rentals; the user's own machines only among themselves (rule 11)."""
    if not rows:
        return Answer(None, (), "none", "rule.nothing-measured", (say("undecided.nothing-measured"),))
    rentals = [row for row in rows if not row.own_machine]
    own = [row for row in rows if row.own_machine]
    if any(at_largest(row).admissible or at_smallest(row).admissible or could_be_priced(row) for row in rentals):
        return _among(balance, rentals, "committed cost", [row.configuration_id for row in own if row.admissible])
    if any(at_largest(row).admissible or at_smallest(row).admissible for row in own):
        return _among(balance, own, "time on own machine")
    return Answer(None, (), "none", "rule.none", reasons_for_nothing(balance, rows), help_for_nothing(balance, rows))


def _among(balance: Balance, rows: Sequence[BalanceRow], basis: Basis, beside: Sequence[str] = ()) -> Answer:
    """Answer for configurations that may be ranked with each other; `beside`: admissible ones on own machines."""
    largest = [at_largest(row) for row in rows]
    possible = [row for row in rows if at_largest(row).admissible or at_smallest(row).admissible]
    others_work = different_work(possible, balance.deliverables)
    if others_work:
        unlike = tuple(at_largest(row) for row in possible)
        return Answer(None, unlike, basis, "rule.different-work", others_work, (say("help.same-work"),))
    best = _pick(balance, largest)
    if best.winner is None and best.tied:
        reasons = reasons_for_tie(best.tied, balance.deliverables)
        would_help = help_for_tie(balance, best.tied)
        return Answer(None, best.tied, basis, best.rule, reasons, would_help, walk=walk_of(best, largest))
    unsteady = _unsteady(balance, rows, best.winner)
    if unsteady:
        names = tuple(at_largest(row) for row in unsteady)
        tied = names if best.winner is None else (best.winner, *(n for n in names if n.id != best.winner.id))
        reasons, would_help = help_for_noise(best.winner, unsteady)
        return Answer(None, tied, basis, "rule.noise", reasons, would_help, ranked=best)
    unpriced = rivals(rows, None if best.winner is None else best.winner.id, balance.deliverables)
    if unpriced:
        reasons, would_help = help_for_unpriced(best.winner, unpriced)
        tied = tuple(at_largest(rival.row) for rival in unpriced)
        named = tied if best.winner is None else (best.winner, *tied)
        return Answer(None, named, basis, "rule.unpriced", reasons, would_help, ranked=best)
    if best.winner is None:
        return Answer(
            None, (), "none", "rule.none", reasons_for_nothing(balance, rows), help_for_nothing(balance, rows)
        )
    reasons = reasons_for_winner(best, largest, balance.deliverables, beside)
    lone = best.rule == "rule.lone"
    return Answer(best.winner, (), basis, best.rule, reasons, no_comparison=lone, walk=walk_of(best, largest))


def _told(answer: Answer) -> str:
    """Code of the rule as it is quoted: on own machines it says why the time decides (rule 11)."""
    own = answer.rule == "rule.tie" and all(option.row.own_machine for option in answer.tied)
    return "rule.tie-own" if own else answer.rule


def _pick(balance: Balance, options: Sequence[Option]) -> Pick:
    return pick(options, balance.deliverables)


def _unsteady(balance: Balance, rows: Sequence[BalanceRow], winner: Option | None) -> tuple[BalanceRow, ...]:
    """Configurations whose smallest accepted durations would change the winner (rule 7).

    The winner must hold when everyone takes the smallest durations, and when any single one does while
    the others, the winner included, take their largest.
    """
    name = None if winner is None else winner.id
    changing = []
    for row in rows:
        scenario = [at_smallest(other) if other is row else at_largest(other) for other in rows]
        if sound(row) and _winner(balance, scenario) != name:
            changing.append(row)
    if not changing and _winner(balance, [at_smallest(row) for row in rows]) != name:
        changing = [row for row in rows if sound(row) and _moves(row)]
    return tuple(changing)


def _winner(balance: Balance, options: Sequence[Option]) -> str | None:
    found = _pick(balance, options).winner
    return None if found is None else found.id


def _moves(row: BalanceRow) -> bool:
    """Whether package or admissibility differ between the ends of the range."""
    one, other = at_largest(row), at_smallest(row)
    return (one.admissible, one.cost) != (other.admissible, other.cost)


def _unmeasured(row: BalanceRow) -> Excluded:
    return Excluded(configuration_id=row.configuration_id, reason=row.window_reason or say("not-measured"))
