"""Do two splits share documents (M5)? By id, by text, and by text as a reader sees it (CO-14)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from runner.corpus.identity import twin_key
from runner.corpus.read import Document
from runner.errors import InputRefused, show_value

Sameness = Literal["exactly", "after blank collapsing", "after Unicode normalisation", "after case folding"]
_LISTED = 20
_EXTRACT_CHARACTERS = 40


def collapsed(text: str) -> str:
    """Runs of blanks become one blank; none at the ends."""
    return " ".join(text.split())


def normalised_text(text: str) -> str:
    """Key under which two texts are the same to a reader: blanks collapsed, NFKC, case folded."""
    if text.isascii():
        return collapsed(text).lower()
    return collapsed(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))


def sameness(one: str, other: str) -> Sameness:
    """The weakest change under which two texts with the same key become equal."""
    if one == other:
        return "exactly"
    if collapsed(one) == collapsed(other):
        return "after blank collapsing"
    one, other = (collapsed(unicodedata.normalize("NFKC", text)) for text in (one, other))
    return "after Unicode normalisation" if one == other else "after case folding"


class SharedText(NamedTuple):
    """One text that stands in both splits."""

    tuning_id: str
    final_id: str
    by: Sameness
    extract: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """What two splits share. `shared_ids` are the final split's, in its order; twins count as shared."""

    shared_ids: tuple[str, ...]
    shared_texts: tuple[SharedText, ...]

    @property
    def found(self) -> bool:
        return bool(self.shared_ids or self.shared_texts)

    @property
    def ids_disjoint(self) -> bool:
        return not self.shared_ids

    def details(self) -> tuple[str, ...]:
        """One line per finding; texts only as short escaped extracts."""
        lines = [f"ids disjoint: {'true' if self.ids_disjoint else 'false'}"]
        lines += [f"the id {show_value(name)} stands in both" for name in self.shared_ids[:_LISTED]]
        if len(self.shared_ids) > _LISTED:
            lines.append(f"and {len(self.shared_ids) - _LISTED} more ids")
        for pair in self.shared_texts[:_LISTED]:
            lines.append(
                f"tuning {show_value(pair.tuning_id)} and final {show_value(pair.final_id)}: "
                f"texts equal {pair.by} ({pair.extract})"
            )
        if len(self.shared_texts) > _LISTED:
            lines.append(f"and {len(self.shared_texts) - _LISTED} more pairs of texts")
        return tuple(lines)


def find_overlap(tuning: Iterable[Document], final: Sequence[Document]) -> Overlap:
    """Ids and normalised texts that both splits hold. Memory: the keys of the smaller split."""
    ours = tuple(tuning)
    small, large = (ours, final) if len(ours) <= len(final) else (final, ours)
    ids = {twin_key(item.id) for item in small}
    texts: dict[str, list[int]] = {}
    for place, item in enumerate(small):
        if item.text.strip():
            texts.setdefault(normalised_text(item.text), []).append(place)
    shared_ids: set[str] = set()
    pairs: list[tuple[int, int]] = []
    for place, item in enumerate(large):
        if (key := twin_key(item.id)) in ids:
            shared_ids.add(key)
        if item.text.strip():
            found = texts.get(normalised_text(item.text), ())
            pairs += ((other, place) if small is ours else (place, other) for other in found)
    shared = (_shared(ours[one], final[other]) for one, other in sorted(pairs))
    return Overlap(tuple(item.id for item in final if shared_ids and twin_key(item.id) in shared_ids), tuple(shared))


def _shared(one: Document, other: Document) -> SharedText:
    extract = show_value(collapsed(one.text), _EXTRACT_CHARACTERS)
    return SharedText(one.id, other.id, sameness(one.text, other.text), extract)


def refuse_overlap(overlap: Overlap, *, file: object = None) -> None:
    """Exit 2 if the splits share anything (M5)."""
    if not overlap.found:
        return
    raise InputRefused(
        f"tuning and final share {len(overlap.shared_ids)} ids and {len(overlap.shared_texts)} texts",
        file=None if file is None else str(file),
        details=overlap.details(),
        next_step="take these documents out of one of the two splits",
    )
