"""Generator of the embedded corpus: invented support messages, the same bytes for the same seed.

Each message is put together from the phrases of `phrases.toml`. Its label is the team that it was
given to. Some messages name two subjects with equal weight, or none at all; their label is drawn,
so nobody can be right about all of them. Everything made here is called synthetic.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, Literal, NamedTuple, TypeVar

from runner.corpus.overlap import normalised_text

Length = Literal["short", "medium", "long"]
LABEL_WEIGHTS = {"billing": 22, "delivery": 21, "returns": 17, "technical": 16, "account": 14, "product": 10}
SHARE_VAGUE = {"short": 0.05, "medium": 0.03, "long": 0.0}
SHARE_EQUAL = {"short": 0.07, "medium": 0.13, "long": 0.14}
_SHARE_SIDE_SUBJECT = 0.35
_SHARE_TYPOS = 0.30
_SHARE_LOWER_CASE = 0.12

Item = TypeVar("Item")


class Message(NamedTuple):
    """One generated text with its label."""

    text: str
    label: str


class Dice:
    """Choices made from `Random.random()` alone, whose numbers Python keeps equal between versions."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def below(self, limit: int) -> int:
        """Whole number from 0 to limit - 1."""
        return int(self._random() * limit)

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def weighted(self, weights: Mapping[str, int]) -> str:
        place = self.below(sum(weights.values()))
        for name, weight in weights.items():
            place -= weight
            if place < 0:
                return name
        raise AssertionError("a place below the sum belongs to an item")

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items (all of them if there are fewer), in random order."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(min(count, len(rest)))]


@cache
def phrases() -> dict[str, Any]:
    """The vocabulary: slots, neutral sentences, sentences by subject."""
    return tomllib.loads(files("runner.demo").joinpath("phrases.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class _Writer:
    dice: Dice

    def message(self, length: Length) -> Message:
        label = self.dice.weighted(LABEL_WEIGHTS)
        draw = self.dice.below(1000) / 1000
        if draw < SHARE_VAGUE[length]:
            sentences = self._vague(length)
        elif draw < SHARE_VAGUE[length] + SHARE_EQUAL[length]:
            other = self._other(label)
            pair = (label, other) if self.dice.chance(0.5) else (other, label)
            sentences = self._equal(pair, length)
        else:
            sentences = self._plain(label, length)
        return Message(self._style(sentences, length), label)

    def _other(self, label: str) -> str:
        return self.dice.weighted({name: weight for name, weight in LABEL_WEIGHTS.items() if name != label})

    def _vague(self, length: Length) -> list[str]:
        neutral = phrases()["neutral"]
        count = 1 if length == "short" else 2
        return self.dice.some(neutral["vague"], count) + self.dice.some(neutral["filler"], 0 if count == 1 else 4)

    def _equal(self, pair: tuple[str, str], length: Length) -> list[str]:
        first, second = (phrases()["topics"][name] for name in pair)
        link = self.dice.pick(phrases()["neutral"]["link"])
        if length == "short":
            return [self.dice.pick(first["open"]), f"{link} {_lower_first(self.dice.pick(second['open']))}"]
        tell, fill = (1, 2) if length == "medium" else (6, 8)
        return [
            self.dice.pick(first["open"]),
            *self.dice.some(first["tell"], tell),
            *self._filler(fill // 2),
            f"{link} {_lower_first(self.dice.pick(second['open']))}",
            *self.dice.some(second["tell"], tell),
            *self._filler(fill - fill // 2),
        ]

    def _plain(self, label: str, length: Length) -> list[str]:
        topic = phrases()["topics"][label]
        if length == "short":
            sentences = [self.dice.pick(topic["open"])]
            return sentences + ([self.dice.pick(topic["ask"])] if self.dice.chance(0.35) else [])
        opening = self.dice.some(topic["open"], 1 if length == "medium" else 2)
        tell = 1 + self.dice.below(3) if length == "medium" else 7 + self.dice.below(6)
        fill = 1 + self.dice.below(2) if length == "medium" else 6 + self.dice.below(8)
        body = self.dice.some(self.dice.some(topic["tell"], tell) + self._filler(fill), tell + fill)
        if self.dice.chance(_SHARE_SIDE_SUBJECT):
            side = phrases()["topics"][self._other(label)]
            place = self.dice.below(len(body) + 1)
            body.insert(place, _upper_first(self.dice.pick(side["mention"])) + ".")
            if length == "long":
                body.insert(self.dice.below(len(body) + 1), self.dice.pick(side["tell"]))
        return opening + body + ([self.dice.pick(topic["ask"])] if self.dice.chance(0.7) else [])

    def _filler(self, count: int) -> list[str]:
        sentences: list[str] = phrases()["neutral"]["filler"]
        return self.dice.some(sentences, count)

    def _style(self, sentences: list[str], length: Length) -> str:
        """Greeting and closing, filled slots, paragraphs, haste."""
        neutral = phrases()["neutral"]
        greet = {"short": 0.15, "medium": 0.6, "long": 0.9}[length]
        parts = [self._fill(sentence) for sentence in sentences]
        paragraphs = [" ".join(parts)] if length != "long" else [" ".join(part) for part in _thirds(parts)]
        if self.dice.chance(greet):
            paragraphs.insert(0, self.dice.pick(neutral["greeting"]))
        if self.dice.chance(greet):
            paragraphs.append(self._fill(self.dice.pick(neutral["closing"])))
        text = ("\n" if length == "long" or self.dice.chance(0.2) else " ").join(paragraphs)
        if self.dice.chance(_SHARE_TYPOS):
            text = self._with_typos(text, 1 + self.dice.below(3 if length == "short" else 8))
        return text.lower() if self.dice.chance(_SHARE_LOWER_CASE) else text

    def _fill(self, sentence: str) -> str:
        slots = phrases()["slots"]
        while "{" in sentence:
            before, rest = sentence.split("{", 1)
            name, after = rest.split("}", 1)
            sentence = before + self.dice.pick(slots[name]) + after
        text = "".join(str(self.dice.below(10)) if character == "#" else character for character in sentence)
        return _upper_first(text) if sentence[0].islower() else text

    def _with_typos(self, text: str, count: int) -> str:
        """Swap, drop or double single letters."""
        letters = list(text)
        for _ in range(count):
            place = self.dice.below(len(letters) - 1)
            if not (letters[place].isalpha() and letters[place + 1].isalpha()):
                continue
            kind = self.dice.below(3)
            if kind == 0:
                letters[place], letters[place + 1] = letters[place + 1], letters[place]
            elif kind == 1:
                del letters[place]
            else:
                letters.insert(place, letters[place])
        return "".join(letters)


def messages(seed: int, split: str, length: Length, taken: set[str]) -> Iterator[Message]:
    """Endless messages of about this length; `taken` holds normalised texts that must not come again."""
    number = 0
    while True:
        message = _Writer(Dice(f"{seed}/{split}/{length}/{number}")).message(length)
        number += 1
        key = normalised_text(message.text)
        if key not in taken:
            taken.add(key)
            yield message


def _thirds(parts: list[str]) -> list[list[str]]:
    size = -(-len(parts) // 3)
    return [parts[start : start + size] for start in range(0, len(parts), size)]


def _lower_first(sentence: str) -> str:
    return sentence if sentence.startswith(("I ", "{", "VAT")) else sentence[0].lower() + sentence[1:]


def _upper_first(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
