"""How far the ranking came, step by step: committed cost, failures, times, open questions (rules 5 and 11)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from runner.decide.model import Reason
from runner.decide.options import Option
from runner.decide.pick import Pick
from runner.decide.sentences import say
from runner.decide.words import money_text

_RANKED = frozenset({"rule.cost", "rule.failures", "rule.separated", "rule.questions", "rule.fastest", "rule.tie"})


def walk_of(best: Pick, options: Sequence[Option]) -> tuple[Reason, ...]:
    """What each step of the ranking found, up to the one that decided. `options`: all that were ranked together.

    Nothing where nothing was ranked: no admissible option, or only one.
    """
    fit = sorted((option for option in options if option.admissible), key=lambda option: option.id)
    if best.rule not in _RANKED or not fit:
        return ()
    winner = "" if best.winner is None else best.winner.id
    if all(option.row.own_machine for option in fit):
        times = say("walk.times-decide", name=winner) if winner else say("walk.times")
        return say("walk.own-cost"), say("walk.own-failures"), times, say("walk.own-questions")
    if best.rule == "rule.cost":
        return (say("walk.cost-decides", name=winner),)
    priced = [(option.cost, option) for option in fit if option.cost is not None]
    least = min(cost for cost, _ in priced)
    equal = [option for cost, option in priced if cost == least]
    return _cost(equal, least), *_after_cost(best.rule, winner, equal)


def _cost(equal: Sequence[Option], least: Decimal) -> Reason:
    return say("walk.cost", cost_money=money_text(least, equal[0]), names=_names(equal))


def _after_cost(rule: str, winner: str, equal: Sequence[Option]) -> tuple[Reason, ...]:
    fewest = min(option.row.failures for option in equal)
    count = str(fewest)
    if rule == "rule.failures":
        return (say("walk.failures-decide", name=winner, failures_count=count),)
    left = [option for option in equal if option.row.failures == fewest]
    if len({option.row.accepted + option.row.failures for option in equal}) > 1:
        failures = say("walk.failures-unequal")
    elif len(left) < len(equal):
        failures = say("walk.failures-fewest", failures_count=count, names=_names(left))
    else:
        failures = say("walk.failures", failures_count=count)
    if rule == "rule.separated":
        return failures, say("walk.times-decide", name=winner)
    last = say("walk.questions-decide", name=winner) if rule == "rule.questions" else say("walk.questions")
    return failures, say("walk.times"), last


def _names(options: Sequence[Option]) -> str:
    return ", ".join(option.id for option in options)
