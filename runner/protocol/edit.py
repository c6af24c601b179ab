"""Change some values of a TOML file that a person wrote: comments, order and everything else stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.errors import InputRefused
from runner.protocol.toml import Place, TomlDocument, show_place

LEFT_OUT = object()
"""As a value in `edited`: the key goes, with its lines."""


def edited(document: TomlDocument, changes: Mapping[Place, object]) -> str:
    """The file's text with these values. A key that is not there is added at the end of its table's own keys.

    Values may span lines, stand in inline tables or under dotted keys. Refused: a table that is not there.
    """
    text = document.text
    pieces: list[tuple[int, int, str]] = []
    for place, value in changes.items():
        span = document.spans.get(place)
        if value is LEFT_OUT:
            if span is not None:
                pieces.append((*_whole_lines(text, span, place, document), ""))
        elif span is not None:
            pieces.append((*span, toml_value(value)))
        else:
            at = _end_of_table(document, place)
            pieces.append((at, at, f"{place[-1]} = {toml_value(value)}\n"))
    # From the end to the beginning, so that earlier positions hold; additions to one place keep their order.
    order = sorted(range(len(pieces)), key=lambda number: (pieces[number][0], number), reverse=True)
    for number in order:
        start, end, new = pieces[number]
        text = text[:start] + new + text[end:]
    return text


def _whole_lines(text: str, span: tuple[int, int], place: Place, document: TomlDocument) -> tuple[int, int]:
    """From the beginning of the key's line to the end of the value's, if nothing else stands there."""
    start = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", span[1])
    end = len(text) if end < 0 else end + 1
    others = [other for other, (first, _) in document.spans.items() if other[:-1] == place[:-1] and other != place
              and start <= first < end]  # fmt: skip
    if others or isinstance(place[-1], int):
        raise InputRefused(
            f"{show_place(place)} could not be taken out by machine: write it on lines of its own",
            file=document.path,
            line=document.line(place),
            next_step="put this key on a line of its own and run the same command again",
        )
    return start, end


def _end_of_table(document: TomlDocument, place: Place) -> int:
    """After the last line of the table's own keys, or after its header."""
    table = place[:-1]
    ends = [end for other, (_, end) in document.spans.items() if other[:-1] == table and len(other) == len(place)]
    if ends:
        line_end = document.text.find("\n", max(ends))
        return len(document.text) if line_end < 0 else line_end + 1
    line = document.lines.get(table)
    if line is None:
        raise InputRefused(
            f"there is no table {show_place(table)}",
            file=document.path,
            next_step=f"add the table {show_place(table)} to the file",
        )
    position = 0
    for _ in range(line):
        position = document.text.find("\n", position) + 1
    return position


def toml_value(value: object) -> str:
    """A value as TOML writes it: text, number, truth value, or a list of them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = "".join(
            f"\\U{ord(character):08x}"
            if character in '"\\' or ord(character) < 32 or ord(character) == 127
            else character
            for character in value
        )
        return f'"{escaped}"'
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)
