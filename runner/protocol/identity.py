"""Exact identity of predictions: the ids as a multiset, code point by code point (M7, M28)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from runner.corpus.identity import trimmed, without_case
from runner.errors import show_value
from runner.evidence.verdict import IdCounts
from runner.protocol.idcolumn import IdColumn, texts_at
from runner.protocol.matching import Positions, in_same_order, positions_of
from runner.protocol.parallel import in_threads, spans_of
from runner.protocol.predictions import Predictions

Integers = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)
_LISTED = 20
_AT_ONCE = 1 << 18
_COMPARED_FOR_HINTS = 100_000
_FLOAT_LIKE = re.compile(r"[+-]?([0-9]+\.[0-9]*|[0-9]*\.?[0-9]+[eE][+-]?[0-9]+|nan|inf|NaN|Infinity)")


@dataclass(frozen=True)
class IdMatch:
    """`positions[row]` is the document's place in the corpus, -1 for an unexpected id; shape (rows,).

    None: row and place are the same number for all of them.
    """

    counts: IdCounts
    positions: Positions | None

    def in_corpus_order(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Values of the rows, put in the order of the corpus. Only for an exact match."""
        positions = self.positions
        if positions is None:
            return values
        ordered = np.empty_like(values)

        def put(first: int, end: int) -> None:
            ordered[positions[first:end]] = values[first:end]

        in_threads(put, spans_of(len(values), _AT_ONCE))
        return ordered


def match_ids(expected: IdColumn, predictions: Predictions) -> IdMatch:
    """Compare the ids of a prediction file with the expected ones (distinct, in corpus order)."""
    observed = predictions.ids
    if in_same_order(expected, observed):
        return IdMatch(_all_match(len(expected)), None)
    positions = positions_of(expected, observed)
    if _each_once(positions, len(expected)):
        return IdMatch(_all_match(len(expected)), positions)
    seen = np.bincount(positions[positions >= 0], minlength=len(expected))
    missing = np.flatnonzero(seen == 0)
    strangers = _rows_by_id(predictions, np.flatnonzero(positions < 0))
    strangers_twice = [(name, rows) for name, rows in strangers.items() if len(rows) > 1]
    doubled = np.flatnonzero(seen > 1)
    twice = (*_rows_by_id_known(expected, positions, doubled[:_LISTED]), *strangers_twice)
    missing_ids = [name or "" for name in texts_at(expected, missing[:_COMPARED_FOR_HINTS].tolist())]
    counts = IdCounts(
        expected_ids=len(expected),
        observed_ids=len(observed),
        ids_match=not (len(missing) or len(strangers) or len(doubled)),
        missing=len(missing),
        duplicate=len(doubled) + len(strangers_twice),
        unexpected=len(strangers),
        missing_listed=tuple(missing_ids[:_LISTED]),
        duplicate_listed=tuple(_with_lines(name, rows, predictions) for name, rows in twice[:_LISTED]),
        unexpected_listed=tuple(list(strangers)[:_LISTED]),
        listed_most=_LISTED,
        hints=_hints(missing_ids, list(strangers)[:_COMPARED_FOR_HINTS]),
    )
    return IdMatch(counts, positions)


def _all_match(documents: int) -> IdCounts:
    return IdCounts(
        expected_ids=documents, observed_ids=documents, ids_match=True, missing=0, duplicate=0, unexpected=0
    )


def _each_once(positions: Positions, documents: int) -> bool:
    """Is every place taken by exactly one row?"""
    if len(positions) != documents or positions.min(initial=0) < 0:
        return False
    taken = np.zeros(documents, dtype=bool)

    def take(first: int, end: int) -> None:
        taken[positions[first:end]] = True

    in_threads(take, spans_of(documents, _AT_ONCE))
    return bool(taken.all())


def describe(counts: IdCounts) -> str:
    """One sentence with the three counts, as verdicts and messages say it."""
    return f"missing {counts.missing}, duplicate {counts.duplicate}, unexpected {counts.unexpected}"


def details(counts: IdCounts) -> tuple[str, ...]:
    """The listed ids of each kind, and hints, one line each."""
    lines = []
    for kind, total, listed in (
        ("missing", counts.missing, tuple(show_value(name) for name in counts.missing_listed)),
        ("duplicate", counts.duplicate, counts.duplicate_listed),
        ("unexpected", counts.unexpected, tuple(show_value(name) for name in counts.unexpected_listed)),
    ):
        if total:
            more = f" and {total - len(listed)} more" if total > len(listed) else ""
            lines.append(f"{kind} {total}: {', '.join(listed)}{more}")
    return (*lines, *(f"hint: {hint}" for hint in counts.hints))


def _rows_by_id(predictions: Predictions, rows: Integers) -> dict[str, list[int]]:
    """Rows of the unexpected ids, in file order; a null id is called `(null)`."""
    found: dict[str, list[int]] = {}
    for row, name in zip(rows.tolist(), texts_at(predictions.ids, rows.tolist()), strict=True):
        found.setdefault("(null)" if name is None else name, []).append(row)
    return found


def _rows_by_id_known(expected: IdColumn, positions: Positions, places: Integers) -> list[tuple[str, list[int]]]:
    """Ids of a few places, and the rows that have them."""
    names = texts_at(expected, places.tolist())
    return [
        (name or "", np.flatnonzero(positions == place).tolist())
        for name, place in zip(names, places.tolist(), strict=True)
    ]


def _with_lines(name: str, rows: Sequence[int], predictions: Predictions) -> str:
    lines = [str(predictions.line(row)) for row in rows[:_LISTED]]
    word = "rows" if predictions.lines is None else "lines"
    return f"{show_value(name)} ({word} {', '.join(lines[:-1])} and {lines[-1]})"


def _hints(missing: Sequence[str], unexpected: Sequence[str]) -> tuple[str, ...]:
    """What probably happened on the way, in words; never a reason to match anyway."""
    if not unexpected:
        return ()
    checks: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("equal after Unicode normalisation (NFC): {pairs}; the ids were written in another form", _nfc),
        ("leading zeros lost? {pairs}", _without_zeros),
        ("blanks at the ends added or lost? {pairs}", trimmed),
        ("equal except for letter case: {pairs}", without_case),
    )
    found = []
    explained: set[str] = set()  # the first reason that fits is the narrowest one
    for text, key in checks:
        by_key = {key(name): name for name in missing}
        pairs = [(by_key[key(name)], name) for name in unexpected if key(name) in by_key and name not in explained]
        explained.update(name for _, name in pairs)
        if pairs:
            shown = ", ".join(f"{show_value(old)} / {show_value(new)}" for old, new in pairs[:3])
            found.append(text.format(pairs=shown + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")))
    if any(_FLOAT_LIKE.fullmatch(name) for name in unexpected) and not any(map(_FLOAT_LIKE.fullmatch, missing)):
        found.append("ids look like floating-point numbers; keep them as text")
    return tuple(found)


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _without_zeros(name: str) -> str:
    return name.lstrip("0") or "0"
