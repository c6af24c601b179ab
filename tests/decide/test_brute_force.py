"""The decision against an independent, plain search on thousands of random small worlds (M43).

`naive` below shares no code with `runner.decide`: it works on the raw facts that the worlds are made
from, with fractions, and asks every question of DESIGN section 6 by enumeration.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from runner.evidence.attempt import Status
from tests.decide.worlds import World, tariffs

HOUR = 3600
LEAST = 3
WORLDS_PER_SEED = 250
SEEDS = range(8)
START_TO_DEADLINE = {"2026-12-31T09:00:00Z": 721, "2026-12-03T09:00:00Z": 49, "2026-12-04T10:00:00Z": 74}
"""Hours from the start of the plan (09:00 Berlin, 08:00 UTC on 1 December) to each deadline."""


@dataclass
class Fact:
    """One configuration: what was measured, and the packages of its GPU (days -> price, None: no price)."""

    name: str
    own: bool
    hours: list[int]
    failures: int
    packages: dict[int, int | None] = field(default_factory=dict)


@dataclass
class Expected:
    chosen: str | None
    lone: bool = False


# ---- the naive decision --------------------------------------------------------------------------


def window(duration: int) -> int:
    """One hour before the pass, one for collecting the results."""
    return 1 + duration + 1


def standing(fact: Fact, duration: int, deadline: int) -> tuple[bool, int | None]:
    """(admissible, cost) if every pass took `duration` hours."""
    enough = len(fact.hours) >= LEAST and 1 + duration <= deadline
    if fact.own:
        return enough, None
    covering = [price for days, price in fact.packages.items() if days * 24 >= window(duration)]
    prices = [price for price in covering if price is not None]
    return enough and bool(prices), min(prices, default=None)


def middle(values: list[int]) -> Fraction:
    ordered = sorted(values)
    half = len(ordered) // 2
    return Fraction(ordered[half]) if len(ordered) % 2 else Fraction(ordered[half - 1] + ordered[half], 2)


def clearly_faster(one: Fact, other: Fact) -> bool:
    spread = max(max(one.hours) - min(one.hours), max(other.hours) - min(other.hours))
    return middle(other.hours) - middle(one.hours) > spread


def winner(facts: list[Fact], standings: dict[str, tuple[bool, int | None]]) -> str | None:
    """Cost, failures, separated median; nobody has fewer open questions in these worlds but by n and price."""
    fit = [fact for fact in facts if standings[fact.name][0]]
    if len(fit) <= 1:
        return fit[0].name if fit else None
    if not fit[0].own:
        least = min(standings[fact.name][1] or 0 for fact in fit)
        fit = [fact for fact in fit if standings[fact.name][1] == least]
        if len({len(fact.hours) + fact.failures for fact in fit}) == 1:
            fewest = min(fact.failures for fact in fit)
            fit = [fact for fact in fit if fact.failures == fewest]
        if len(fit) == 1:
            return fit[0].name
    for fact in fit:
        if all(clearly_faster(fact, other) for other in fit if other is not fact):
            return fact.name
    if not fit[0].own:
        questions = {fact.name: open_questions(fact) for fact in fit}
        for fact in fit:
            if all(questions[fact.name] < questions[other.name] for other in fit if other is not fact):
                return fact.name
    return None


def open_questions(fact: Fact) -> set[str]:
    """In these worlds: a shorter unpriced package covers, or fewer passes than planned (4)."""
    found = set()
    priced = [(price, days) for days, price in fact.packages.items() if price is not None and covers(days, fact)]
    if priced and any(covers(days, fact) and days < min(priced)[1] for days in unpriced(fact)):
        found.add("unpriced")
    if 0 < len(fact.hours) < 4:
        found.add("fewer")
    return found


def covers(days: int, fact: Fact) -> bool:
    return days * 24 >= window(max(fact.hours))


def unpriced(fact: Fact) -> list[int]:
    return [days for days, price in fact.packages.items() if price is None]


def could_be_cheaper(fact: Fact, deadline: int) -> bool:
    """Whether an unknown price could still make it win: nothing else is missing at that end of the range."""
    if len(fact.hours) < LEAST:
        return False
    for duration in (min(fact.hours), max(fact.hours)):
        if 1 + duration > deadline:
            continue
        covering = {days: price for days, price in fact.packages.items() if days * 24 >= window(duration)}
        priced = [(price, days) for days, price in covering.items() if price is not None]
        best = min(priced)[1] if priced else 10**6
        if any(price is None and days < best for days, price in covering.items()):
            return True
    return False


def naive(facts: list[Fact], deadline: int) -> Expected:
    measured = [fact for fact in facts if fact.hours or fact.failures]
    tried = [fact for fact in measured if fact.hours]
    low = {fact.name: standing(fact, min(fact.hours), deadline) for fact in tried}
    high = {fact.name: standing(fact, max(fact.hours), deadline) for fact in tried}
    for own in (False, True):
        group = [fact for fact in tried if fact.own is own]
        if not any(low[f.name][0] or high[f.name][0] or (not own and could_be_cheaper(f, deadline)) for f in group):
            continue
        best = winner(group, high)
        scenarios = [low, *({**high, fact.name: low[fact.name]} for fact in group)]
        if best is None or any(winner(group, scenario) != best for scenario in scenarios):
            return Expected(None)
        if not own and any(could_be_cheaper(fact, deadline) for fact in group if fact.name != best):
            return Expected(None)
        return Expected(best, lone=sum(high[fact.name][0] for fact in group) == 1)
    return Expected(None)


# ---- random worlds -------------------------------------------------------------------------------


def random_world(dice: random.Random) -> tuple[World, list[Fact], int]:
    deadline = dice.choice(list(START_TO_DEADLINE))
    variants = ("b1", "b4")
    gpus = dice.sample(["A", "B", "C", "cpu"], dice.randint(1, 3))
    price_lists: dict[str, dict[int, int | None]] = {}
    lines = ["Z 30 1.00"]
    for gpu in ("A", "B", "C"):
        prices: dict[int, int | None] = {3: None, 7: None, 30: None}
        cost = dice.choice([100, 200])
        for days in prices:
            cost += dice.choice([0, 100, 200])
            prices[days] = cost if dice.random() < 0.75 else None
        price_lists[gpu] = prices
        known = [f"{gpu} {days} {price}.00" for days, price in prices.items() if price is not None]
        lines += known or [gpu]
    world = World(prices=tariffs(*lines), variants=variants, deadline=deadline, planned=4)
    facts = []
    base = dice.choice([10, 48, 69])
    for gpu in gpus:
        for variant in variants:
            if dice.random() < 0.2:
                continue
            hours = [base + dice.randint(0, dice.choice([1, 4])) for _ in range(dice.choice([0, 2, 3, 3, 4, 4]))]
            failures = dice.choice([0, 0, 0, 1, 2])
            for value in hours:
                world.add(gpu, variant, value * HOUR)
            for _ in range(failures):
                status = dice.choice([Status.KILLED, Status.LOST, Status.TIMED_OUT, Status.FAILED])
                world.add(gpu, variant, None, status=status, completed=1)
            if dice.random() < 0.3:
                world.add(gpu, variant, None, status=Status.INTERRUPTED)
            facts.append(Fact(f"{gpu}.{variant}", gpu == "cpu", hours, failures, price_lists.get(gpu, {})))
    return world, facts, START_TO_DEADLINE[deadline]


@pytest.mark.parametrize("seed", SEEDS)
def test_m43_decision_agrees_with_a_plain_search(seed: int) -> None:
    dice = random.Random(seed)
    outcomes: dict[str, int] = {}
    for number in range(WORLDS_PER_SEED):
        world, facts, deadline = random_world(dice)
        decision, expected = world.decision(), naive(facts, deadline)
        assert decision.chosen == expected.chosen, (seed, number, facts, decision.rule, decision.reasons)
        assert decision.no_comparison == expected.lone, (seed, number, facts)
        outcomes[decision.rule.code] = outcomes.get(decision.rule.code, 0) + 1
    assert len(outcomes) >= 5, f"the worlds are too tame: {outcomes}"


def test_order_of_input_never_changes_the_answer() -> None:
    dice = random.Random(2026)
    for _ in range(60):
        world, _, _ = random_world(dice)
        first = (world.balance().dump(), world.decision().dump())
        dice.shuffle(world.attempts)
        dice.shuffle(world.verdicts)
        assert (world.balance().dump(), world.decision().dump()) == first


def test_order_of_the_rows_of_a_balance_never_changes_the_answer() -> None:
    from runner.decide.choice import decide

    dice = random.Random(7)
    for _ in range(20):
        world, _, _ = random_world(dice)
        balance = world.balance()
        wanted = decide(balance, world.protocol)
        for _ in range(10):
            rows = tuple(dice.sample(balance.rows, len(balance.rows)))
            assert decide(balance.model_copy(update={"rows": rows}), world.protocol) == wanted


def test_the_search_is_not_blind() -> None:
    """Break the decision on purpose: a world in which the naive search must disagree with a wrong answer."""
    facts = [Fact("A.b1", False, [10, 10, 10], 0, {3: 300}), Fact("B.b1", False, [10, 10, 10], 0, {3: 200})]
    assert naive(facts, 721).chosen == "B.b1"
    facts[1].packages[3] = 400
    assert naive(facts, 721).chosen == "A.b1"
