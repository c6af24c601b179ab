"""Identity of documents (M7): ids are text as given, and must stay distinct for a human reader too.

Two ids are *twins* when they differ only by surrounding blanks, Unicode normalisation or letter
case. Nothing is ever trimmed, normalised or folded in the data itself: the keys below are only
for comparing.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Literal

from runner.errors import show_value

LISTED = 20
"""So many findings of one kind are named in a message; the rest is counted."""
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + ZERO_WIDTH

Difference = Literal["nothing", "surrounding blanks", "Unicode normalisation", "letter case"]


def trimmed(text: str) -> str:
    """Without surrounding blanks and zero-width characters."""
    return text.strip(_BLANKS)


def without_case(text: str) -> str:
    """Key of canonical caseless comparison: full case folding between two decompositions."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())


def twin_key(identifier: str) -> str:
    """Ids with the same key are the same to a reader. Most are their own key: then it is the same object."""
    stripped = trimmed(identifier)
    key = stripped.lower() if stripped.isascii() else without_case(stripped)
    return identifier if key == identifier else key


def difference(one: str, other: str) -> Difference:
    """What two ids with the same `twin_key` differ by; letter case only if nothing else explains it."""
    if one == other:
        return "nothing"
    if trimmed(one) == trimmed(other):
        return "surrounding blanks"
    one, other = (unicodedata.normalize("NFC", trimmed(text)) for text in (one, other))
    return "Unicode normalisation" if one == other else "letter case"


def code_points(text: str) -> str:
    """`U+0065 U+0301`"""
    return " ".join(f"U+{ord(character):04X}" for character in text)


def differing_parts(one: str, other: str) -> tuple[str, str]:
    """The middle parts left when the common start and end are taken away."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]


@dataclass(frozen=True, slots=True)
class Clash:
    """Two records whose ids are equal or twins; places such as `corpus.csv:3` or `line 3`."""

    first: str
    first_place: str
    second: str
    second_place: str
    by: Difference

    def __str__(self) -> str:
        places = f"{self.first_place} and {self.second_place}"
        if self.by == "nothing":
            return f"{places}: the id {show_value(self.first)} stands twice"
        text = f"{places}: {show_value(self.first)} and {show_value(self.second)} differ only by {self.by}"
        if self.by == "Unicode normalisation":
            parts = differing_parts(trimmed(self.first), trimmed(self.second))
            text += f" ({code_points(parts[0])} against {code_points(parts[1])})"
        return text


@dataclass
class IdentityCheck:
    """Finds clashes while ids are added in order; the first ones are kept, all are counted.

    A place is a text, or the number of a line. Memory: one key and one entry per document.
    """

    allow_case_twins: bool = False
    clashes: list[Clash] = field(default_factory=list)
    duplicates: int = 0
    twins: int = 0
    _first: dict[str, tuple[str, str | int]] = field(default_factory=dict)
    _more: dict[str, list[tuple[str, str | int]]] = field(default_factory=dict)

    def add(self, identifier: str, place: str | int) -> None:
        """The id of the next document; `place` is kept for the message that names both."""
        key, entry = twin_key(identifier), (identifier, place)
        first = self._first.setdefault(key, entry)
        if first is entry:
            return
        family = [first, *self._more.get(key, ())]
        for earlier, earlier_place in family:
            by = difference(earlier, identifier)
            if by != "letter case" or not self.allow_case_twins:
                self._found(Clash(earlier, _place_text(earlier_place), identifier, _place_text(place), by))
                break
        if all(earlier != identifier for earlier, _ in family):
            self._more.setdefault(key, []).append(entry)

    def _found(self, clash: Clash) -> None:
        if clash.by == "nothing":
            self.duplicates += 1
        else:
            self.twins += 1
        if len(self.clashes) < LISTED:
            self.clashes.append(clash)


def _place_text(place: str | int) -> str:
    return place if isinstance(place, str) else f"line {place}"
