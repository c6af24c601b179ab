"""Whether what the decision says is true in the world it says it of: reasons, losers, limits on both sides (M44)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from runner.decide.model import Decision, Reason
from tests.oracle.building import really
from tests.oracle.choosing import (
    Case,
    Found,
    Key,
    Price,
    accepted,
    counted,
    decide,
    failures,
    instant,
    keys,
    look,
    lots_rented,
    offers,
    open_questions,
    time_taken,
)
from tests.oracle.making import case

WORLDS = 250
CENT = {"what-if.price-up-hourly": Fraction(1, 10_000)}


def money(text: str) -> Fraction:
    return Fraction(text.split()[0])


def named(world: Case, name: str) -> list[Key]:
    wanted = {".".join(one.split(".")[:2]) for one in name.split(", ")}
    return [key for key in keys(world) if f"{key[0]}.{key[1]}" in wanted]


def repriced(world: Case, gpu: str, days: int | None, amount: Fraction) -> Case:
    """The same world with one price changed or added; lots without limit where the line is new."""
    text = f"{float(amount):.4f}" if days is None else f"{float(amount):.2f}"
    cards = next(price.cards for price in world.prices if price.gpu == gpu)
    old = next((price for price in world.prices if (price.gpu, price.days) == (gpu, days) and price.amount), None)
    line = replace(old, amount=text) if old else Price(gpu, days, text, cards)
    rest = tuple(price for price in world.prices if price is not old and not (price.gpu == gpu and not price.amount))
    return replace(world, prices=(*rest, line))


def smallest_cost(world: Case, key: Key) -> Fraction:
    ends = [look(world, key, pick) for pick in (min, max)]
    return min(found.cost for found in ends if not found.failing and found.cost is not None)


def check(world: Case, decision: Decision, reason: Reason) -> None:
    """One sentence against the world; a sentence that is not looked at here says so."""
    said, code = reason.values, reason.code
    at_largest = {key: look(world, key, max) for key in keys(world)}
    fit = {key: found for key, found in at_largest.items() if not found.failing}
    rentals = {key: found for key, found in fit.items() if not found.own}
    chosen = named(world, decision.chosen)[0] if decision.chosen else None
    if code == "chosen.lone":
        assert len(fit) == 1
    elif code == "chosen.lone-rental":
        assert len(rentals) == 1 and set(named(world, said["names"])) == set(fit) - set(rentals)
    elif code == "chosen.next":
        assert chosen is not None
        costs = {key: found.cost or Fraction(0) for key, found in rentals.items() if key != chosen}
        assert money(said["cost_money"]) == min(costs.values()) == costs[named(world, said["name"])[0]]
        assert money(said["more_money"]) == min(costs.values()) - (rentals[chosen].cost or 0) > 0
    elif code == "chosen.tie":
        assert chosen is not None
        equal = {key for key, found in rentals.items() if found.cost == rentals[chosen].cost and key != chosen}
        assert set(named(world, said["names"])) == equal
    elif code in ("undecided.gap", "undecided.gap-clear"):
        one, other = (time_taken(world, named(world, said[name])[0]) for name in ("one", "other"))
        assert abs(one[0] - other[0]) == Fraction(said["gap_seconds"])
        assert max(one[1], other[1]) == Fraction(said["range_seconds"])
        assert (code == "undecided.gap") == (Fraction(said["gap_seconds"]) <= Fraction(said["range_seconds"]))
    elif code in ("what-if.price-up", "what-if.price-up-hourly"):
        days = int(said["days_count"]) if "days_count" in said else None
        limit = money(said["limit_money"])
        below = repriced(world, said["gpu"], days, limit - CENT.get(code, Fraction(1, 100)))
        assert decide(below).chosen == chosen == named(world, said["name"])[0], "stays the cheapest below the limit"
        at = repriced(world, said["gpu"], days, limit)
        cost = look(at, chosen, max).cost
        assert cost is None or smallest_cost(at, named(world, said["other"])[0]) <= cost
    elif code == "what-if.price-down" and chosen is not None:
        below = repriced(world, said["gpu"], int(said["days_count"]), money(said["limit_money"]) - Fraction(1, 100))
        for key in named(world, said["name"]):
            assert (look(below, key, max).cost or 0) < (look(below, chosen, max).cost or 0)
    elif code == "what-if.unpriced":
        below = repriced(world, said["gpu"], int(said["days_count"]), money(said["limit_money"]) - Fraction(1, 100))
        after = {key: look(below, key, max) for key in keys(below)}
        costs = {key: found.cost for key, found in after.items() if not found.own and not found.failing and found.cost}
        assert {costs[key] for key in named(world, said["name"])} == {min(costs.values())}
    elif code.startswith("what-if.longer"):
        for key in named(world, said["name"]):
            longer(world, key, at_largest[key], said)
    elif code.startswith("what-if.shorter"):
        for key in named(world, said["name"]):
            seconds = at_largest[key].window - Fraction(said["gain_elapsed_seconds"])
            periods = int(said.get("periods_count", "1"))
            assert seconds == int(said["days_count"]) * periods * 24 * 3600
            if "total_money" in said:
                assert money(said["total_money"]) in [cost for cost, _ in offers(world, key, seconds)[0]]
    elif code.startswith("chosen.waiting"):
        assert chosen is not None
        limit, window = Fraction(said["limit_elapsed_seconds"]), at_largest[chosen].window
        assert limit == int(said["days_count"]) * 24 * 3600 < window == Fraction(said["window_elapsed_seconds"])
        assert window - Fraction(said["waiting_elapsed_seconds"]) - 30 <= limit, "without the waiting it would fit"
        shorter = [cost for cost, _ in offers(world, chosen, limit)[0]]
        known = [p for p in world.prices if (p.gpu, p.days) == (chosen[0], int(said["days_count"])) and p.amount]
        assert money(said["total_money"]) in shorter if "total_money" in said else not known
    elif code in ("what-if.deadline", "what-if.deadline-own"):
        assert {at_largest[key].own for key in named(world, said["name"])} == {code.endswith("-own")}
        for key in named(world, said["name"]):
            assert at_largest[key].delivered + Fraction(said["slack_elapsed_seconds"]) == instant(
                world.deadline, world.zone
            )
    elif code == "what-if.lots":
        for key in named(world, said["name"]):
            found = at_largest[key]
            assert found.cost is not None
            lots = lots_rented(world, key)
            assert int(said["lots_count"]) == lots + 1
            assert money(said["total_money"]) == found.cost / lots * (lots + 1)
            more = replace(world, lots=lots + 1)
            assert money(said["total_money"]) in [cost for cost, _ in offers(more, key, found.window)[0]]
    elif code == "what-if.separated":
        assert chosen is not None
        others = [time_taken(world, key) for key, found in fit.items() if found.own and key != chosen]
        mine = time_taken(world, chosen)
        least = min(other[0] - mine[0] - max(mine[1], other[1]) for other in others)
        assert Fraction(said["gap_seconds"]) - Fraction(said["range_seconds"]) == least
    elif code in ("help.passes", "help.passes-more", "help.passes-none"):
        for key in named(world, said["name"]):
            fewest = min(len(accepted(world, key, corpus, seed)) for corpus in world.corpora for seed in world.seeds)
            assert int(said["more_count"]) == world.least - fewest > 0
        if code == "help.passes-more":
            assert f"make measure GPU={said['gpu']} PASSES={said['passes_count']}" in reason.text
            assert world.least < int(said["passes_count"]) <= world.most
    elif code == "help.more-passes":
        assert int(said["more_count"]) <= world.most - max(
            len([row for row in counted(world, key) if (row.corpus, row.seed) == (corpus, seed)])
            for key in named(world, ", ".join(decision.tied))
            for corpus in world.corpora
            for seed in world.seeds
        )
    elif code == "uncertain.too-few":
        (key,) = named(world, said["name"])
        numbers = [len(accepted(world, key, corpus, seed)) for corpus in world.corpora for seed in world.seeds]
        assert int(said["accepted_count"]) == min(numbers) < world.least


def longer(world: Case, key: Key, found: Found, said: dict[str, str]) -> None:
    """The package holds exactly so much more; a microsecond beyond it needs the next one."""
    edge = found.window + Fraction(said["spare_elapsed_seconds"])
    assert found.cost in [cost for cost, _ in offers(world, key, edge)[0]]
    beyond, _, _ = offers(world, key, edge + Fraction(1, 1_000_000))
    if "days_count" not in said:
        assert not beyond
    elif "total_money" in said:
        assert money(said["total_money"]) == min(cost for cost, _ in beyond)
    else:
        days = int(said["days_count"])
        assert not [price for price in world.prices if (price.gpu, price.days) == (key[0], days) and price.amount]


def walked(world: Case, decision: Decision) -> None:
    """What each step of the ranking is said to have found (rule 5)."""
    fit = {key: found for key in keys(world) if not (found := look(world, key, max)).failing}
    least = min((found.cost for found in fit.values() if not found.own and found.cost is not None), default=None)
    equal = [key for key, found in fit.items() if not found.own and found.cost == least]
    fewest = min((failures(world, key) for key in equal), default=0)
    for reason in decision.walk:
        said, code = reason.values, reason.code
        who = named(world, said.get("names", said.get("name", "")))
        if code == "walk.cost":
            assert (money(said["cost_money"]), set(who)) == (least, set(equal)) and len(equal) > 1
        elif code == "walk.cost-decides":
            assert who == equal
        elif code in ("walk.failures", "walk.failures-fewest", "walk.failures-decide"):
            assert int(said["failures_count"]) == fewest and len({len(counted(world, key)) for key in equal}) == 1
            few = {key for key in equal if failures(world, key) == fewest}
            assert set(who or equal) == few and (len(few) < len(equal)) == bool(who)
        elif code == "walk.failures-unequal":
            assert len({len(counted(world, key)) for key in equal}) > 1
        elif code.startswith("walk.own"):
            assert all(found.own for found in fit.values())
        if code.endswith(("decide", "decides")):
            assert who == named(world, decision.chosen or "")


def loses(world: Case, winner: str, name: str, reason: Reason) -> None:
    """Why another one is not the chosen one, or not among the tied ones of which `winner` is one."""
    (key,), (chosen,) = named(world, name), named(world, winner)
    mine, best = look(world, key, max), look(world, chosen, max)
    if reason.code == "lost.cost":
        assert mine.cost is not None and best.cost is not None
        assert money(reason.values["more_money"]) == mine.cost - best.cost > 0
    elif reason.code == "lost.failures":
        everyone = [found for one in keys(world) if not (found := look(world, one, max)).failing]
        assert len({len(counted(world, found.key)) for found in everyone if found.cost == best.cost}) == 1
        assert failures(world, key) > failures(world, chosen)
    elif reason.code == "lost.slower":
        assert time_taken(world, key)[0] > time_taken(world, chosen)[0]
    elif reason.code == "lost.questions":
        assert open_questions(world, best) < open_questions(world, mine)
    elif reason.code == "lost.own-machine":
        assert mine.own and not best.own
    elif reason.code == "lost.would-be":
        loses(world, reason.values["name"], name, reason.parts["why"])
    elif reason.code == "lost.separated":
        (median, spread), (best_median, best_spread) = time_taken(world, key), time_taken(world, chosen)
        assert median - best_median == Fraction(reason.values["gap_seconds"]) > max(spread, best_spread)


@pytest.mark.parametrize("block", range(4))
def test_m44_every_sentence_of_the_decision_holds_in_its_world(block: int) -> None:
    """1,000 worlds: reasons, excluded, what would help, what would change the answer (rules 5, 6, 9, 10; M35, M44)."""
    looked: Counter[str] = Counter()
    for seed in range(50_000 + block * WORLDS, 50_000 + (block + 1) * WORLDS):
        world = case(seed)
        _, decision = really(world)
        for reason in (*decision.reasons, *decision.what_if, *decision.would_help, *decision.uncertain):
            looked[reason.code] += 1
            try:
                check(world, decision, reason)
            except (AssertionError, ValueError, IndexError, KeyError) as error:
                raise AssertionError(f"seed {seed}: {reason.text} ({reason.code})") from error
        try:
            walked(world, decision)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {[reason.text for reason in decision.walk]}") from error
        looked.update(reason.code for reason in decision.walk)
        for item in decision.excluded:
            looked[item.reason.code] += 1
            first = decision.chosen or item.reason.values.get("name") or next(iter(decision.tied), None)
            if first is None or not item.reason.code.startswith("lost."):
                continue
            try:
                loses(world, first, item.configuration_id, item.reason)
            except (AssertionError, ValueError) as error:
                raise AssertionError(f"seed {seed}: {item.configuration_id} {item.reason.text}") from error
    wanted = {"chosen.lone", "chosen.next", "chosen.tie", "what-if.price-up", "what-if.price-down", "what-if.unpriced",
              "what-if.longer", "what-if.shorter", "what-if.lots", "help.passes-more", "help.more-passes", "lost.cost",
              "lost.slower", "undecided.gap", "uncertain.too-few"}  # fmt: skip
    assert wanted <= set(looked), wanted - set(looked)
