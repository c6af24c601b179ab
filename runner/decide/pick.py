"""The choice among admissible options: cost, failures, separated median, open questions (DESIGN section 6, rule 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.decide.options import Option, separated_from_all, times


@dataclass(frozen=True, slots=True)
class Pick:
    """The chosen option, or those that stay tied. `rule` names the rule that decided or stopped."""

    winner: Option | None
    tied: tuple[Option, ...]
    rule: str


def pick(options: Sequence[Option], deliverables: Sequence[str]) -> Pick:
    """Choose among the admissible ones of `options`: all rentals, or all on the user's own machine."""
    fit = sorted((option for option in options if option.admissible), key=lambda option: option.id)
    if not fit:
        return Pick(None, (), "rule.none")
    if len(fit) == 1:
        return Pick(fit[0], (), "rule.lone")
    if all(option.row.own_machine for option in fit):
        fastest = _separated(fit, deliverables)
        return Pick(
            fastest, () if fastest else _not_slower(fit, deliverables), "rule.fastest" if fastest else "rule.tie"
        )
    priced = [(option.cost, option) for option in fit if option.cost is not None]
    least = min(cost for cost, _ in priced)
    cheapest = [option for cost, option in priced if cost == least]
    if len(cheapest) == 1:
        return Pick(cheapest[0], (), "rule.cost")
    return _break_tie(cheapest, deliverables)


def _break_tie(tied: list[Option], deliverables: Sequence[str]) -> Pick:
    if len({option.row.accepted + option.row.failures for option in tied}) == 1:
        least = min(option.row.failures for option in tied)
        tied = [option for option in tied if option.row.failures == least]
        if len(tied) == 1:
            return Pick(tied[0], (), "rule.failures")
    fastest = _separated(tied, deliverables)
    if fastest is not None:
        return Pick(fastest, (), "rule.separated")
    clearest = _clearest(tied)
    if clearest is not None:
        return Pick(clearest, (), "rule.questions")
    return Pick(None, tuple(tied), "rule.tie")


def _separated(options: Sequence[Option], deliverables: Sequence[str]) -> Option | None:
    """The option whose median is faster than every other's by more than the larger range."""
    measured = [(times(option.row, deliverables), option) for option in options]
    for own, option in measured:
        if separated_from_all(own, [other for other, rival in measured if rival is not option]):
            return option
    return None


def _not_slower(options: Sequence[Option], deliverables: Sequence[str]) -> tuple[Option, ...]:
    """The fastest and those that are not separated from it: who is really undecided."""
    measured = [(times(option.row, deliverables), option) for option in options]
    fastest, _ = min(measured, key=lambda item: (item[0].median, item[1].id))
    return tuple(option for own, option in measured if own is fastest or not separated_from_all(fastest, [own]))


def _clearest(options: Sequence[Option]) -> Option | None:
    """The option whose open questions are all open for every other one too, while each other has more."""
    asked = [(frozenset(question.code for question in option.row.open_questions), option) for option in options]
    for questions, option in asked:
        if all(questions < others for others, rival in asked if rival is not option):
            return option
    return None
