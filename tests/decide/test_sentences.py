"""Sentences are data: every code is used, every used code exists, values are complete and formatted."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from runner.decide.sentences import SENTENCES, english, say, shown_seconds

FOLDER = Path(__file__).parents[2] / "runner" / "decide"
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py") if path.name != "sentences.py")


def test_every_sentence_is_said_somewhere_and_every_code_exists() -> None:
    literal = set(re.findall(r'"([a-z]+(?:[.-][a-z]+)+)"', SOURCE))
    made = {f"undecided.{end}-{how}" for end in ("small", "large") for how in ("out", "free", "priced")}
    made |= {"what-if.quality-count", "what-if.quality-all-count"}
    assert literal | made >= SENTENCES.keys(), sorted(SENTENCES.keys() - literal - made)
    said = set(re.findall(r'say\(\s*f?"([a-z.-]+)"', SOURCE))
    assert said <= SENTENCES.keys(), sorted(said - SENTENCES.keys())


def test_a_missing_or_an_unused_value_is_a_bug() -> None:
    with pytest.raises(ValueError, match="needs"):
        say("lost.cost", cost_money="1.00 EUR")
    with pytest.raises(ValueError, match="needs"):
        say("not-measured", name="x")


def test_a_sentence_inside_a_sentence_is_kept_for_translation() -> None:
    inner = say("memory.out", corpus="final", most_count="40")
    outer = say("undecided.fails", name="A.b1", constraint="memory", why=inner, accepted_count="0", attempts_count="2")
    assert outer.parts == {"why": inner}
    assert inner.text in outer.text


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("total_money", "2071 USD", "2,071.00 USD"),
        ("total_money", "0.4525 EUR", "0.4525 EUR"),
        ("median_seconds", "0.123456", "0.123 s"),
        ("median_seconds", "13.0", "13.0 s"),
        ("spare_elapsed_seconds", "259201", "72 h 1 s"),
        ("at_utc", "2026-10-05T09:00:00Z", "2026-10-05 09:00 UTC"),
        ("at_utc", "2026-10-05T09:00:30.100000Z", "2026-10-05 09:00:30 UTC"),
        ("at_utc", "2026-10-05T09:00:00.100000Z", "2026-10-05 09:00 UTC"),
        ("name", "2026-10-05T09:00:00Z {braces}", "2026-10-05T09:00:00Z {braces}"),
    ],
)
def test_values_by_the_last_part_of_their_name(name: str, value: str, shown: str) -> None:
    assert english(name, value) == shown


def test_seconds_for_people_keep_at_most_three_decimals() -> None:
    assert str(shown_seconds(Decimal("1E+1"))) == "10"
    assert str(shown_seconds(Decimal("0.0005"))) == "0.001"


def test_names_of_the_user_with_braces_are_no_templates() -> None:
    assert "{x}" in say("lost.slower", name="{x}").text
