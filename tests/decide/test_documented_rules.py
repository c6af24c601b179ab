"""The worked examples of docs/decision.md are decided here and compared with what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.decide.answer import answer_lines
from runner.evidence.attempt import Status
from tests.decide.worlds import World, tariffs

PAGE = Path(__file__).parents[2] / "docs" / "decision.md"
_PAIR = re.compile(r"```example\n(.*?)```\n+```answer\n(.*?)```", re.DOTALL)
EXAMPLES = _PAIR.findall(PAGE.read_text(encoding="utf-8"))


def _world(example: str) -> World:
    """`price GPU DAYS MONEY`, `passes GPU VARIANT seconds...`, `failed GPU VARIANT status`, `deadline UTC`."""
    words = [line.split() for line in example.splitlines()]
    variants = sorted({line[2] for line in words if line[0] in ("passes", "failed")})
    deadline = next((line[1] for line in words if line[0] == "deadline"), World.deadline)
    prices = tariffs(*(" ".join(line[1:]) for line in words if line[0] == "price"))
    world = World(prices=prices, variants=variants, deadline=deadline)
    for kind, *rest in words:
        if kind == "passes":
            world.passes(rest[0], rest[1], *rest[2:])
        elif kind == "failed":
            world.add(rest[0], rest[1], None, status=Status(rest[2]))
    return world


@pytest.mark.parametrize(("example", "answer"), EXAMPLES)
def test_worked_example(example: str, answer: str) -> None:
    world = _world(example)
    said = answer_lines(world.balance(), world.decision())[2:]
    assert said[: len(answer.splitlines())] == answer.splitlines()


def test_no_example_is_overlooked() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(EXAMPLES) == text.count("```example") == text.count("```answer") >= 9
