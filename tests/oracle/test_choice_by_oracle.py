"""Random small worlds through the real balance and decision, against rules 3 to 14 written again from their text."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from runner.decide.model import Balance, Decision
from tests.oracle.building import really
from tests.oracle.choosing import Answer, Case, decide, failures, keys, look
from tests.oracle.making import case

WORLDS = 250
_REACHED = {
    "lone",
    "cost",
    "tie",
    "time",
    "unpriced",
    "noise",
    "too few",
    "none admissible",
    "none accepted",
    "other work",
}


def differences(world: Case, answer: Answer, balance: Balance, decision: Decision) -> list[str]:
    found = []
    chosen = None if answer.chosen is None else ".".join(answer.chosen[:2])
    real = None if decision.chosen is None else ".".join(decision.chosen.split(".")[:2])
    if chosen != real:
        found.append(f"chosen {chosen} ({answer.why}), not {real}: {[reason.text for reason in decision.reasons]}")
    for key in keys(world):
        expected = look(world, key, max)
        (row,) = [row for row in balance.rows if row.measured and (row.gpu, row.variant_id) == key[:2]]
        if row.admissible != (not expected.failing):
            found.append(f"{key}: fails {expected.failing}, not {row.first_failed}")
        if row.window is None or Fraction(row.window.window_seconds) != expected.window:
            found.append(f"{key}: window {float(expected.window)} s, not {row.window and row.window.window_seconds}")
        if (None if row.committed_cost is None else Fraction(row.committed_cost)) != expected.cost:
            found.append(f"{key}: costs {expected.cost}, not {row.committed_cost}")
        if row.failures != failures(world, key):
            found.append(f"{key}: {failures(world, key)} failures, not {row.failures}")
        marked = row.package is not None and row.package.may_be_cheaper
        if row.configuration_id == decision.chosen and marked != answer.may_be_cheaper:
            found.append(f"{key}: may be cheaper {answer.may_be_cheaper}")
    return found


@pytest.mark.parametrize("block", range(8))
def test_rules_3_to_14_the_decision_agrees_with_the_text_on_random_worlds(block: int) -> None:
    """2,000 worlds: windows over both changes of the clocks (M34), packages to the second (PR-01), lots (rule 9),
    unknown prices (rule 10), own machines (rule 11), noise (rule 7), seeds and corpora (M27, M38), M3, M31, M35.
    """
    reached: Counter[str] = Counter()
    for seed in range(block * WORLDS, (block + 1) * WORLDS):
        world = case(seed)
        answer = decide(world)
        reached[answer.why] += 1
        assert not differences(world, answer, *really(world)), f"seed {seed}"
    assert set(reached) == _REACHED, f"the worlds are too tame: {reached}"


def test_the_order_of_the_input_changes_nothing() -> None:
    """M43: the same world, every list turned round."""
    from dataclasses import replace

    for seed in range(40):
        world = case(seed)
        turned = replace(world, rows=world.rows[::-1], prices=world.prices[::-1])
        assert decide(world) == decide(turned)
        assert really(world)[1].chosen == really(turned)[1].chosen
