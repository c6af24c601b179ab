"""Exclusion rules in a small language over external facts of a row, so that they hit all variants alike (M31).

`started_at_utc >= 2026-11-30T07:00:00Z and started_at_utc < 2026-11-30T07:20:00Z`: comparisons joined
by `and`. Only what is listed here can be named: times, the machine, and the conditions around the pass
(temperature, throttling, clocks, load, other processes, stolen processor time). What a pass achieved
(duration, utilisation, operations, energy, memory, predictions) and which variant it was cannot.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Attempt
from runner.units import exact_seconds, parse_utc

_TERM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*)\s*(<=|>=|!=|=|<|>)\s*(\S+)\s*")
_AND = re.compile(r"\s+and\s+")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
_FACTS: dict[str, Callable[[Attempt], Any]] = {
    "started_at_utc": lambda attempt: attempt.started_at_utc,
    "ended_at_utc": lambda attempt: attempt.ended_at_utc,
    "machine_id": lambda attempt: attempt.chain.machine_id,
    "gpu_declared": lambda attempt: attempt.gpu_declared,
    "device_shared": lambda attempt: attempt.device_shared,
    "wall_clock_moved_seconds": lambda attempt: attempt.wall_clock_moved_seconds,
}
_TELEMETRY = "telemetry."
_OF_THE_HOST = (
    "other_cpu_cores",
    "steal_cpu_cores",
    "load_1_minute",
    "cpu_throttled_seconds",
    "cpu_mhz_min",
    "cpu_mhz_mean",
    "cpu_mhz_max",
)
_OF_A_CARD = ("temperature_celsius_most", "throttle_reasons", "sm_mhz_least", "sm_mhz_most", "memory_mhz_least")
_CARD = re.compile(r"(?:node\d{1,4}\.)?card\d{1,4}\.(.+)")
_WHICH_HARDWARE = "gpu_declared"
_EXAMPLE = "for example: started_at_utc >= 2026-11-30T07:00:00Z and started_at_utc < 2026-11-30T07:20:00Z"


@dataclass(frozen=True)
class Term:
    """One comparison of an external fact with a value."""

    fact: str
    sign: str
    value: str

    def hits(self, attempt: Attempt) -> bool:
        """A fact that is unknown in this row is not hit."""
        found = (
            attempt.telemetry.get(self.fact.removeprefix(_TELEMETRY))
            if self.fact.startswith(_TELEMETRY)
            else (_FACTS[self.fact](attempt))
        )
        if found is None:
            return False
        return _OPERATORS[self.sign](*_comparable(found, self.value, self))


@dataclass(frozen=True)
class Rule:
    """All terms must hold."""

    terms: tuple[Term, ...]

    def hits(self, attempt: Attempt) -> bool:
        return all(term.hits(attempt) for term in self.terms)


def parse_rule(text: str) -> Rule:
    """Refused: other words, facts that are results of the pass, empty rules."""
    terms = []
    for part in _AND.split(text.strip()):
        found = _TERM.fullmatch(part)
        if found is None:
            raise InputRefused("the rule is not a comparison", column="--rule", value=part, next_step=_EXAMPLE)
        fact, sign, value = found.groups()
        if not _is_external(fact):
            raise InputRefused(
                f"a rule cannot use {show_value(fact)}: only external facts that hit all variants alike",
                column="--rule",
                value=part,
                details=(f"facts: {', '.join(_FACTS)}", *_conditions()),
                next_step=_EXAMPLE,
            )
        terms.append(Term(fact, sign, value))
    if all(term.fact == _WHICH_HARDWARE for term in terms):
        raise InputRefused(
            "a rule that names the declared GPU only excludes a configuration, not an incident",
            column="--rule",
            value=text,
            next_step="say what happened there as well; " + _EXAMPLE,
        )
    return Rule(tuple(terms))


def _is_external(fact: str) -> bool:
    if not fact.startswith(_TELEMETRY):
        return fact in _FACTS
    name = fact.removeprefix(_TELEMETRY)
    card = _CARD.fullmatch(name)
    return name in _OF_THE_HOST if card is None else card[1] in _OF_A_CARD


def _conditions() -> tuple[str, str]:
    """The conditions that may be named, as two lines."""
    return (
        f"conditions of the host: {', '.join(_TELEMETRY + name for name in _OF_THE_HOST)}",
        f"conditions of a card: {', '.join(_TELEMETRY + 'card0.' + name for name in _OF_A_CARD)}",
    )


def _comparable(found: Any, value: str, term: Term) -> tuple[Any, Any]:
    """Both sides in the type of the fact: instant, number, truth value or text."""
    if term.fact.endswith("_utc"):
        return parse_utc(found), parse_utc(value, name=term.fact)
    if isinstance(found, bool):
        if value not in ("true", "false") or term.sign not in ("=", "!="):
            raise InputRefused(
                f"{term.fact} is compared by = or != with true or false",
                column="--rule",
                value=value,
                next_step=f"write {term.fact} = true, or {term.fact} = false",
            )
        return found, value == "true"
    if isinstance(found, int | float):
        try:
            wanted = Decimal(value)
        except ArithmeticError:
            wanted = Decimal("NaN")
        if not wanted.is_finite():
            raise InputRefused(
                f"{term.fact} is a number",
                column="--rule",
                value=value,
                next_step=f"write {term.fact} > {found} (for example)",
            )
        return exact_seconds(found), wanted
    if term.sign not in ("=", "!="):
        raise InputRefused(
            f"{term.fact} is text, compared by = or !=",
            column="--rule",
            value=value,
            next_step=f"write {term.fact} = {found} (for example)",
        )
    return found, value
