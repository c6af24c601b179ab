"""The decision against an independent, plain search on thousands of random small worlds (M43).

`naive` below shares no code with `runner.decide`: it works on the raw facts that the worlds are made
from, with fractions, and asks every question of DESIGN section 6 by enumeration.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest

from runner.decide.choice import decide
from runner.decide.model import Balance, Decision
from runner.decide.unpriced import could_be_priced
from runner.evidence.attempt import Status
from runner.protocol.schema import Expense
from tests.decide.worlds import World, tariffs

HOUR = 3600
Money = int | Fraction
LEAST = 3
WORLDS_PER_SEED = 250
SEEDS = range(8)
START_TO_DEADLINE = {"2026-12-31T09:00:00Z": 721, "2026-12-03T09:00:00Z": 49, "2026-12-04T10:00:00Z": 74}
"""Hours from the start of the plan (09:00 Berlin, 08:00 UTC on 1 December) to each deadline."""


@dataclass
class Fact:
    """One configuration: what was measured, and the packages of its GPU (days -> price, None: no price).

    `sold_out`: packages (None: the hourly offer) without a lot left. `hourly`: price per started hour, if it may be
    ranked. `periods`: of every package, as the plan asks.
    """

    name: str
    own: bool
    hours: list[int]
    failures: int
    packages: dict[int, Money | None] = field(default_factory=dict)
    sold_out: set[int | None] = field(default_factory=set)
    hourly: int | None = None
    periods: int = 1


@dataclass
class Expected:
    chosen: str | None
    lone: bool = False


# ---- the naive decision --------------------------------------------------------------------------


def window(duration: int) -> int:
    """One hour before the pass, one for collecting the results."""
    return 1 + duration + 1


def covering(fact: Fact, duration: int) -> list[tuple[Money | None, int, int | None]]:
    """(price or None, hours, days or None) of everything that may be ranked and holds the window."""
    need = window(duration)
    found: list[tuple[Money | None, int, int | None]] = [
        (None if price is None else price * fact.periods, days * 24 * fact.periods, days)
        for days, price in fact.packages.items()
        if days * 24 * fact.periods >= need
    ]
    return found if fact.hourly is None else [*found, (fact.hourly * need, need, None)]


def best_of(fact: Fact, duration: int) -> tuple[Money, int] | None:
    """(price, hours) of the cheapest that can be had, the shorter of equal ones."""
    offers = [(price, hours) for price, hours, days in covering(fact, duration)
              if price is not None and days not in fact.sold_out]  # fmt: skip
    return min(offers, default=None)


def standing(fact: Fact, duration: int, deadline: int) -> tuple[bool, Money | None]:
    """(admissible, cost) if every pass took `duration` hours."""
    enough = len(fact.hours) >= LEAST and 1 + duration <= deadline
    if fact.own:
        return enough, None
    best = best_of(fact, duration)
    return enough and best is not None, None if best is None else best[0]


def middle(values: list[int]) -> Fraction:
    ordered = sorted(values)
    half = len(ordered) // 2
    return Fraction(ordered[half]) if len(ordered) % 2 else Fraction(ordered[half - 1] + ordered[half], 2)


def clearly_faster(one: Fact, other: Fact) -> bool:
    spread = max(max(one.hours) - min(one.hours), max(other.hours) - min(other.hours))
    return middle(other.hours) - middle(one.hours) > spread


def winner(facts: list[Fact], standings: dict[str, tuple[bool, Money | None]]) -> str | None:
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
    """In these worlds: an unpriced package that covers may be cheaper, or fewer passes than planned (4)."""
    found = set()
    if best_of(fact, max(fact.hours)) is not None and unknown_below(fact, max(fact.hours)):
        found.add("unpriced")
    if 0 < len(fact.hours) < 4:
        found.add("fewer")
    return found


def unknown_below(fact: Fact, duration: int) -> bool:
    """Whether a package without a price could cost less than the best known one, or be the only one to be had.

    Prices of packages never fall with their length, so an unknown price is at least that of every shorter package,
    whether that one covers or is sold out. Lots that are gone belong to the line that says so: nothing is known about
    those of a package that has no line. An hourly price bounds no package.
    """
    best = best_of(fact, duration)
    for price, hours, _ in covering(fact, duration):
        if price is not None:
            continue
        shorter = [cost * fact.periods for days, cost in fact.packages.items()
                   if cost is not None and days * 24 * fact.periods < hours]  # fmt: skip
        if best is None or max(shorter, default=0) < best[0]:
            return True
    return False


def could_be_cheaper(fact: Fact, deadline: int) -> bool:
    """Whether an unknown price could still make it win: nothing else is missing at that end of the range."""
    return len(fact.hours) >= LEAST and any(
        1 + duration <= deadline and unknown_below(fact, duration) for duration in (min(fact.hours), max(fact.hours))
    )


def unknown_prices(facts: list[Fact]) -> list[list[Fact]]:
    """The same configurations where one unknown price of a GPU is the least that it can be (rule 10).

    Each shorter package without a price costs no more than that; both count for every configuration on the GPU.
    """
    worlds = []
    for gpu in {fact.name.split(".")[0] for fact in facts}:
        mine = [fact for fact in facts if fact.name.startswith(f"{gpu}.")]
        for days in [days for days, price in mine[0].packages.items() if price is None]:
            known = [price for shorter, price in mine[0].packages.items() if shorter < days and price is not None]
            least = max(known, default=Fraction(1, 100))
            prices = {d: least if p is None and d <= days else p for d, p in mine[0].packages.items()}
            worlds.append([replace(fact, packages=prices) if fact in mine else fact for fact in facts])
    return worlds


def another_wins(facts: list[Fact], best: str, deadline: int) -> bool:
    low = {fact.name: standing(fact, min(fact.hours), deadline) for fact in facts}
    high = {fact.name: standing(fact, max(fact.hours), deadline) for fact in facts}
    scenarios = [high, low, *({**high, fact.name: low[fact.name]} for fact in facts)]
    return any(winner(facts, scenario) != best for scenario in scenarios)


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
        if not own and any(another_wins(priced, best, deadline) for priced in unknown_prices(group)):
            return Expected(None)
        return Expected(best, lone=sum(high[fact.name][0] for fact in group) == 1)
    return Expected(None)


# ---- random worlds -------------------------------------------------------------------------------


def random_world(dice: random.Random, *, rich: bool = False) -> tuple[World, list[Fact], int]:
    """Ties, noise, unpriced packages, deadlines; rich: also lots that are gone, hourly offers, expenses, periods."""
    deadline = dice.choice(list(START_TO_DEADLINE))
    variants = ("b1", "b4")
    gpus = dice.sample(["A", "B", "C", "cpu"], dice.randint(1, 3))
    price_lists: dict[str, dict[int, Money | None]] = {}
    hourly: dict[str, int] = {}
    gone: dict[str, set[int | None]] = {}
    ranked, periods = rich and dice.random() < 0.5, 2 if rich and dice.random() < 0.2 else 1
    lines = ["Z 30 1.00"]
    for gpu in ("A", "B", "C"):
        all_gone = rich and dice.random() < 0.15  # every package priced, none left
        prices: dict[int, Money | None] = {3: None, 7: None, 30: None}
        cost = dice.choice([100, 200])
        for days in prices:
            cost += dice.choice([0, 100, 200])
            prices[days] = cost if all_gone or dice.random() < 0.75 else None
        price_lists[gpu] = prices
        known = {days: f"{gpu} {days} {price}.00" for days, price in prices.items() if price is not None}
        sold: set[int | None] = {days for days in known if all_gone or (rich and dice.random() < 0.2)}
        lines += [text + (" lots=0" if days in sold else "") for days, text in known.items()] or [gpu]
        if rich and dice.random() < 0.5:
            hourly[gpu] = dice.choice([1, 2, 4, 8])
            lines.append(f"{gpu} hourly {hourly[gpu]}.00")
            if dice.random() < 0.2:
                sold.add(None)
                lines[-1] += " lots=0"
        gone[gpu] = sold
    extra: dict[str, object] = {"extra_periods": periods - 1}
    if ranked:
        extra["billing"] = ("package", "hourly")
    world = World(prices=tariffs(*lines), variants=variants, deadline=deadline, planned=4, extra=extra)
    if rich and dice.random() < 0.5:
        world.expenses = [
            Expense(name="x", amount=f"{dice.randint(1, 999)}.00", currency="EUR", reason="r", configuration=name)
            for name in dice.sample([None, *variants], 2)
        ]
    facts = []
    base = dice.choice([10, 48, 69])
    for gpu in gpus:
        for variant in variants:
            if dice.random() < 0.2:
                continue
            hours = [base + dice.randint(0, dice.choice([1, 4])) for _ in range(dice.choice([0, 2, 3, 3, 4, 4]))]
            failures = dice.choice([0, 0, 0, 1, 2])
            for value in hours:
                slot = world.add(gpu, variant, value * HOUR).slot
            for _ in range(failures):
                status = dice.choice([Status.KILLED, Status.LOST, Status.TIMED_OUT, Status.FAILED])
                world.add(gpu, variant, None, status=status, completed=1)
                if hours:  # as on a second machine: no pass beyond the plan (those would wait, M3)
                    world.attempts[-1] = world.attempts[-1].model_copy(update={"slot": slot})
            if dice.random() < 0.3:
                world.add(gpu, variant, None, status=Status.INTERRUPTED)
            offer = hourly.get(gpu) if ranked else None
            facts.append(
                Fact(f"{gpu}.{variant}", gpu == "cpu", hours, failures, price_lists.get(gpu, {}),
                     gone.get(gpu, set()), offer, periods)
            )  # fmt: skip
    return world, facts, START_TO_DEADLINE[deadline]


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_m43_decision_agrees_with_a_plain_search(seed: int, rich: bool) -> None:
    """4,000 worlds: with ties, noise and unpriced packages; rich ones also with lots that are gone (rule 9),
    unpriced packages beside hourly offers and beside sold-out ones (rule 10), expenses (rule 13), periods (M35).
    """
    dice = random.Random(seed + 1000 * rich)
    outcomes: dict[str, int] = {}
    reached: set[str] = set()
    for number in range(WORLDS_PER_SEED):
        world, facts, deadline = random_world(dice, rich=rich)
        balance = world.balance()
        decision, expected = decide(balance, world.protocol), naive(facts, deadline)
        reached |= what_mattered(balance, decision)
        assert decision.chosen == expected.chosen, (seed, number, facts, decision.rule, decision.reasons)
        assert decision.no_comparison == expected.lone, (seed, number, facts)
        outcomes[decision.rule.code] = outcomes.get(decision.rule.code, 0) + 1
    assert len(outcomes) >= 5, f"the worlds are too tame: {outcomes}"
    wanted = {"hourly", "lots", "expenses", "periods", "unpriced beside hourly", "unpriced beside sold out"}
    assert not rich or reached == wanted, f"the rich worlds are too poor: {reached}"


def what_mattered(balance: Balance, decision: Decision) -> set[str]:
    """Which of the rarer rules had a say in this world."""
    found = set()
    for row in balance.rows:
        if row.configuration_id == decision.chosen and row.package is not None:
            found |= {"hourly"} if row.package.billing == "hourly" else set()
            found |= {"periods"} if row.package.periods > 1 else set()
            found |= {"expenses"} if row.expenses else set()
        found |= {"lots"} if row.first_failed == "availability" else set()
        if row.unpriced_days and could_be_priced(row):
            found |= {"unpriced beside hourly"} if row.package and row.package.billing == "hourly" else set()
            gone = any(option.covers and option.available is False for option in row.packages)
            found |= {"unpriced beside sold out"} if gone and row.package is None else set()
    return found


def test_order_of_input_never_changes_the_answer() -> None:
    dice = random.Random(2026)
    for number in range(60):
        world, _, _ = random_world(dice, rich=number % 2 == 1)
        first = (world.balance().dump(), world.decision().dump())
        dice.shuffle(world.attempts)
        dice.shuffle(world.verdicts)
        assert (world.balance().dump(), world.decision().dump()) == first


def test_order_of_the_rows_of_a_balance_never_changes_the_answer() -> None:
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
