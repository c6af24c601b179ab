"""The note says what the frozen warm-up does on a card (M18)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runner.note.parts.frozen import _of_cards
from runner.protocol.schema import WarmUp

SPEAKER: Any = SimpleNamespace(
    fmt=SimpleNamespace(plain=str), catalogue=SimpleNamespace(gettext=lambda text, **values: text % values)
)


def rows(rule: WarmUp, *gpus: str) -> tuple[tuple[str, str], ...]:
    attempts = tuple(SimpleNamespace(gpu_declared=gpu) for gpu in gpus)
    evidence: Any = SimpleNamespace(protocol=SimpleNamespace(warm_up=rule), counted_attempts=attempts)
    return _of_cards(evidence, SPEAKER)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (WarmUp(), "one batch of every size first, then at least 1 s"),
        (WarmUp(card_shapes="inputs", card_least_seconds="2.5"), "at least 2.5 s"),
    ],
)
def test_m18_the_rule_of_cards_stands_where_a_card_was_measured(rule: WarmUp, said: str) -> None:
    assert rows(rule, "cpu", "b200") == (("Warm-up of cards", said),)
    assert rows(rule, "cpu") == ()


def test_m18_a_protocol_that_warms_up_nothing_says_nothing_of_cards() -> None:
    assert rows(WarmUp(inputs="none"), "b200") == rows(WarmUp(passes=0), "b200") == ()
