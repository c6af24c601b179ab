"""First pass over the source: what every document is, in about 35 bytes a document.

Texts are not kept. Equal texts and equal ids are found by sorting 64-bit keys; ids with equal keys
are read again and compared exactly.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from runner.corpus.findings import Finding, Findings
from runner.corpus.identity import IdentityCheck, trimmed, twin_key
from runner.corpus.overlap import normalised_text
from runner.corpus.remarks import Remarks
from runner.corpus.source import Item, Source
from runner.corpus.strata import Band, TokenCounter, band_of
from runner.errors import InputRefused

OUTSIDE = 255
_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Rules:
    """What the builder lets through. `skip_empty`: texts without a character are left out and counted."""

    allow_case_twins: bool = False
    allow_empty_texts: bool = False
    skip_empty: bool = False


@dataclass(frozen=True)
class Scan:
    """One entry per document that may be chosen, in the order of the source.

    `number`: place in the source (0-based, left-out records counted). `band`: index, OUTSIDE if its
    length is in none. `rank`: seeded random order that depends on the id alone. `id_key`, `text_key`:
    equal for ids and texts that a reader takes for the same.
    """

    number: npt.NDArray[np.int64]
    band: npt.NDArray[np.uint8]
    label: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int64]
    rank: npt.NDArray[np.uint64]
    id_key: npt.NDArray[np.uint64]
    text_key: npt.NDArray[np.uint64]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    empty_texts: int
    skipped_labels: dict[str, int]

    def __len__(self) -> int:
        return len(self.number)

    def repeated_texts(self) -> tuple[int, int]:
        """Documents with the text of another one (beyond the first of each), and those among them whose
        text also stands with a different label: nobody can be right about all of these."""
        order = np.lexsort((self.label, self.text_key))
        keys, labels = self.text_key[order], self.label[order]
        same = keys[1:] == keys[:-1]
        return int(np.count_nonzero(same)), int(np.count_nonzero(same & (labels[1:] != labels[:-1])))

    def contradicting(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places of all documents whose text also stands with another label, and the number (0-based) of their text."""
        order = np.lexsort((self.label, self.text_key))
        keys, labels = self.text_key[order], self.label[order]
        text = np.cumsum(np.concatenate(([0], keys[1:] != keys[:-1])))
        other = np.bincount(text[1:][(keys[1:] == keys[:-1]) & (labels[1:] != labels[:-1])], minlength=text[-1] + 1) > 0
        places = np.sort(order[other[text]])
        # Numbered as they first stand in the source, so that the list can be read along with it.
        _, first, number = np.unique(self.text_key[places], return_index=True, return_inverse=True)
        return places.astype(np.int64), np.argsort(np.argsort(first))[number].astype(np.int64)


class _Sound(NamedTuple):
    """A document without a fault."""

    number: int
    id: str
    text: str
    label: str


@dataclass
class _Columns:
    """Growing typed arrays; a list of Python numbers would take eight times the room."""

    number: array[int] = field(default_factory=lambda: array("q"))
    band: array[int] = field(default_factory=lambda: array("B"))
    label: array[int] = field(default_factory=lambda: array("i"))
    tokens: array[int] = field(default_factory=lambda: array("q"))
    rank: array[int] = field(default_factory=lambda: array("Q"))
    text_key: array[int] = field(default_factory=lambda: array("Q"))
    id_key: array[int] = field(default_factory=lambda: array("Q"))


def key_of(text: str, salt: bytes = b"") -> int:
    """64-bit key of a text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt).digest(), "big")


def rank_of(identifier: str, seed: int) -> int:
    """Place of a document in the seeded random order."""
    return key_of(identifier, b"rank %d" % seed)


def scan(
    source: Source,
    counter: TokenCounter,
    bands: Sequence[Band],
    seed: int,
    rules: Rules,
    progress: Callable[[int], None] = lambda documents: None,
) -> Scan:
    """Read everything once; refused: twin or empty ids, empty labels, empty texts (M7).

    `progress` is told now and then how many documents were read.
    """
    columns, findings, remarks = _Columns(), Findings(), Remarks()
    label_numbers: dict[str, int] = {}
    notes: list[str] = []
    skipped: Counter[str] = Counter()
    empty_texts = 0

    def sound() -> Iterator[_Sound]:
        nonlocal empty_texts
        for number, item in enumerate(source.items(notes.append, skipped)):
            if _left_out(item, rules):
                empty_texts += 1
                continue
            found = _faults(item, source, rules)
            for finding in found:
                findings.add(finding)
            if item.id is not None and trimmed(item.id):
                columns.id_key.append(key_of(twin_key(item.id)))
            if not found and item.id is not None and item.text is not None and item.label is not None:
                remarks.add(item.place, item.id, item.text, item.label)
                yield _Sound(number, item.id, item.text, item.label)

    for chunk in _chunks(sound()):
        for document, tokens in zip(chunk, counter.count(item.text for item in chunk), strict=True):
            band = band_of(tokens, bands)
            columns.number.append(document.number)
            columns.band.append(OUTSIDE if band is None else bands.index(band))
            columns.label.append(label_numbers.setdefault(document.label, len(label_numbers)))
            columns.tokens.append(tokens)
            columns.rank.append(rank_of(document.id, seed))
            columns.text_key.append(key_of(normalised_text(document.text)))
        progress(len(columns.number))
    findings.refuse(source.path, source.id_column or "id", _compare_ids(source, columns.id_key, rules))
    if not columns.number:
        raise InputRefused(
            "the source holds no document",
            file=source.path,
            next_step="put at least one record below the header",
        )
    return _finished(columns, label_numbers, (*notes, *remarks.lines()), empty_texts, dict(skipped))


def _finished(
    columns: _Columns, label_numbers: dict[str, int], notes: tuple[str, ...], empty_texts: int, skipped: dict[str, int]
) -> Scan:
    """Labels are numbered by name, so that the order of the source changes nothing."""
    names = sorted(label_numbers)
    renumber = np.empty(len(names), dtype=np.int32)
    for new, name in enumerate(names):
        renumber[label_numbers[name]] = new
    return Scan(
        number=np.asarray(columns.number, dtype=np.int64),
        band=np.asarray(columns.band, dtype=np.uint8),
        label=renumber[np.asarray(columns.label, dtype=np.int32)],
        tokens=np.asarray(columns.tokens, dtype=np.int64),
        rank=np.asarray(columns.rank, dtype=np.uint64),
        id_key=np.asarray(columns.id_key, dtype=np.uint64),
        text_key=np.asarray(columns.text_key, dtype=np.uint64),
        labels=tuple(names),
        notes=notes,
        empty_texts=empty_texts,
        skipped_labels=skipped,
    )


def _left_out(item: Item, rules: Rules) -> bool:
    return rules.skip_empty and bool(item.id) and (item.text is None or not item.text.strip())


def _faults(item: Item, source: Source, rules: Rules) -> list[Finding]:
    if item.id is None or not trimmed(item.id):
        return [Finding(item.place, item.line, source.id_column or "id", item.id or "", "the id is empty")]
    found = []
    label, text = item.label, item.text
    if label is None or not label.strip():
        found.append(Finding(item.place, item.line, source.label_column, label or "", "the label is empty", item.id))
    if text is None or (not text.strip() and not rules.allow_empty_texts):
        found.append(Finding(item.place, item.line, source.text_columns[0], text or "", "no text", item.id))
    return found


def _compare_ids(source: Source, id_keys: array[int], rules: Rules) -> IdentityCheck:
    """Exact comparison of the few ids whose keys are equal; needs a second look at the source."""
    keys = np.sort(np.asarray(id_keys, dtype=np.uint64))
    suspects = set(keys[1:][keys[1:] == keys[:-1]].tolist())
    check = IdentityCheck(rules.allow_case_twins)
    if not suspects:
        return check
    for item in source.items(lambda text: None):
        if item.id is None or not trimmed(item.id) or _left_out(item, rules):
            continue
        if key_of(twin_key(item.id)) in suspects:
            check.add(item.id, item.place)
    return check


def _chunks(entries: Iterable[_Sound]) -> Iterator[list[_Sound]]:
    iterator = iter(entries)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
