"""What is kept as given but worth knowing: invisible texts, odd ids, labels that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from runner.corpus.identity import LISTED, code_points, trimmed, twin_key
from runner.errors import show_value


@dataclass
class Remarks:
    """Fed document by document; memory does not grow with their number (but with that of the labels)."""

    _invisible: list[str] = field(default_factory=list)
    _invisible_count: int = 0
    _blank_ids: int = 0
    _first_blank_id: str = ""
    _nul: int = 0
    _first_nul: str = ""
    _labels: set[str] = field(default_factory=set)

    def add(self, place: str, identifier: str, text: str, label: str | None) -> None:
        """The next document, with where it stands (`corpus.csv:3`)."""
        if not text.isalnum() and not any(map(_visible, text)):
            self._invisible_count += 1
            if len(self._invisible) < LISTED:
                points = code_points("".join(sorted(set(text)))) or "empty"
                self._invisible.append(
                    f"{place}, id {show_value(identifier)}: the text has no visible character ({points})"
                )
        if identifier != trimmed(identifier):
            self._blank_ids += 1
            self._first_blank_id = self._first_blank_id or f"{show_value(identifier)}, {place}"
        if "\0" in text or "\0" in identifier:
            self._nul += 1
            self._first_nul = self._first_nul or place
        if label is not None:
            self._labels.add(label)

    def lines(self) -> Iterator[str]:
        """What a reader should know before the freeze, in words; nothing of it is refused."""
        yield from self._invisible
        if self._invisible_count > len(self._invisible):
            yield f"and {self._invisible_count - len(self._invisible)} more texts without a visible character"
        if self._blank_ids:
            yield f"{self._blank_ids} ids begin or end with blanks and are kept so; the first is {self._first_blank_id}"
        if self._nul:
            yield f"{self._nul} documents hold a NUL character, which is kept; the first is {self._first_nul}"
        spellings: dict[str, set[str]] = {}
        for label in self._labels:
            spellings.setdefault(twin_key(label), set()).add(label)
        for family in sorted(sorted(names) for names in spellings.values() if len(names) > 1):
            yield "labels that look alike are kept as different: " + ", ".join(map(show_value, family))


def _visible(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ"
