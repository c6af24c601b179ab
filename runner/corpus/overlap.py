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


class SharedDocuments(NamedTuple):
    """What two corpora share: documents of each whose text stands in the other, too, and ids that mean two texts."""

    first: int
    second: int
    pairs: tuple[tuple[str, str], ...]
    """Ids of some equal texts, in the first corpus and in the second."""
    same_ids: int
    example_id: str

    def details(self, one: str, other: str) -> tuple[str, ...]:
        """The listed pairs, one line each."""
        lines = tuple(
            f"{show_value(first)} of '{one}' and {show_value(second)} of '{other}' have the same text"
            for first, second in self.pairs
        )
        more = max(self.first, self.second) - len(lines)
        return (*lines, f"and {more} more") if more > 0 else lines


def shared_documents(first: Sequence[Document], second: Sequence[Document]) -> SharedDocuments:
    """Texts as a reader sees them; ids exactly. Memory: the keys of the smaller corpus."""
    turned = len(first) > len(second)
    small, large = (second, first) if turned else (first, second)
    by_text: dict[str, str] = {}
    for item in small:
        if item.text.strip():
            by_text.setdefault(normalised_text(item.text), item.id)
    text_by_id = {item.id: item.text for item in small}
    met: set[str] = set()
    pairs: list[tuple[str, str]] = []
    in_large = same_ids = 0
    example = ""
    for item in large:
        key = normalised_text(item.text)
        twin = by_text.get(key) if item.text.strip() else None
        if twin is not None:
            in_large += 1
            met.add(key)
            if len(pairs) < _LISTED:
                pairs.append((item.id, twin) if turned else (twin, item.id))
        other = text_by_id.get(item.id)
        if other is not None and normalised_text(other) != key:
            same_ids += 1
            example = example or item.id
    in_small = sum(normalised_text(item.text) in met for item in small) if met else 0
    counts = (in_large, in_small) if turned else (in_small, in_large)
    return SharedDocuments(*counts, tuple(pairs), same_ids, example)


def refuse_overlap(overlap: Overlap, *, file: object = None) -> None:
    """Exit 2 if the splits share anything (M5)."""
    if not overlap.found:
        return
    raise InputRefused(
        f"tuning and final share {len(overlap.shared_ids)} ids and "
        f"{len({pair.final_id for pair in overlap.shared_texts})} texts",
        file=None if file is None else str(file),
        details=overlap.details(),
        next_step="take these documents out of one of the two splits",
    )
