"""Write a corpus as CSV that reads back to the same records, whatever the texts hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NEEDS_QUOTES = frozenset(',"\r\n')


def csv_cell(text: str) -> str:
    """Quoted where a reader could go wrong: separator, quotation mark, line break, blank at an end, empty."""
    if not text or not _NEEDS_QUOTES.isdisjoint(text) or text[0].isspace() or text[-1].isspace():
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_line(cells: Iterable[str]) -> str:
    """One record with its line feed."""
    return ",".join(map(csv_cell, cells)) + "\n"


def csv_bytes(header: Sequence[str], records: Iterable[Sequence[str]]) -> bytes:
    """A whole CSV file: UTF-8, LF, no byte-order mark."""
    return (csv_line(header) + "".join(map(csv_line, records))).encode("utf-8")
