"""Strict TOML with places: every key and every array element knows its line.

`tomllib` parses; a small scanner over the same, already valid text finds where things stand, so that
a finding about content can name a line as a finding about syntax does.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import InputRefused, show_value

Place = tuple[str | int, ...]
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")
_SYNTAX_PLACE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_NAMES = re.compile(r"\('.*'\,?\)|'[^']+'")
_KEY_OF_LINE = re.compile(r"\s*(?:\[+(?P<table>[^\[\]]+)\]+|(?P<key>[^=#\[\]{}]+?)\s*=)")
_DUPLICATE = re.compile(r"overwrite|declare|twice|immutable|duplicate", re.IGNORECASE)


@dataclass(frozen=True)
class TomlDocument:
    """Parsed content with the line (from 1) of every place in it."""

    path: Path
    data: dict[str, Any]
    lines: dict[Place, int]
    text: str = ""
    """The file's text with `\\n` line ends."""
    spans: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """First character of a value and the one after its last, in `text`; for keys and array elements."""

    def line(self, place: Place) -> int | None:
        """Line of the place, or of the nearest thing around it; None for the whole file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def read_toml(path: Path, *, what: str, next_step: str = "name a file that can be read") -> TomlDocument:
    """Parse; bad UTF-8, a byte-order mark, syntax, duplicate keys, bare times, NaN are refused."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise InputRefused("not a regular file", file=path, next_step="name a file of text")
        data = path.read_bytes()
    except OSError as error:
        raise InputRefused(f"the {what} cannot be read: {error.strerror}", file=path, next_step=next_step) from None
    if data.startswith(b"\xef\xbb\xbf"):
        raise InputRefused(
            f"the {what} starts with a byte-order mark, which TOML does not allow",
            file=path,
            line=1,
            next_step="save the file as UTF-8 without a byte-order mark",
        )
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputRefused(
            f"the {what} is not UTF-8: byte {error.start} cannot be read",
            file=path,
            line=line,
            next_step="save the file as UTF-8",
        ) from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_refusal(error, path, what, text) from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise InputRefused(
            f"the {what} holds a number with too many digits",
            file=path,
            next_step="write a smaller number",
        ) from None
    except RecursionError:
        raise InputRefused(
            f"the {what} is nested too deeply",
            file=path,
            next_step="write it with fewer levels",
        ) from None
    scanner = _Scanner(text)
    document = TomlDocument(path, content, scanner.scan(), text, scanner.spans)
    _refuse_what_json_has_not(document, content, (), what)
    return document


def _syntax_refusal(error: tomllib.TOMLDecodeError, path: Path, what: str, text: str) -> InputRefused:
    found = _SYNTAX_PLACE.match(str(error))
    message, line, column = (found[1], int(found[2]), int(found[3])) if found else (str(error), None, None)
    if _DUPLICATE.search(message):
        name = _named_twice(message, text, line)
        return InputRefused(
            f"a key or table stands twice in the {what}: {show_value(name)}",
            file=path,
            line=line,
            column=column,
            value=name,
            next_step="keep one of the two",
        )
    return InputRefused(
        f"the {what} is not valid TOML: {message}",
        file=path,
        line=line,
        column=column,
        next_step=f"mend this place of the {what}; https://toml.io shows the form",
    )


def _named_twice(message: str, text: str, line: int | None) -> str:
    """Name of the repeated key or table: as the parser says it, else the key of that line or the one before it."""
    told = _NAMES.search(message)
    if told:
        return ".".join(re.findall(r"'([^']*)'", told[0])) or told[0]
    before = text.split("\n")[:line]
    for written in reversed(before):
        key = _KEY_OF_LINE.match(written)
        if key:
            return (key["table"] or key["key"]).strip()
    return before[-1].strip()


def _refuse_what_json_has_not(document: TomlDocument, value: Any, place: Place, what: str) -> None:
    """Times without quotes and NaN/Infinity: neither survives the way into a fingerprint."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_what_json_has_not(document, inner, (*place, key), what)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_what_json_has_not(document, inner, (*place, index), what)
    elif isinstance(value, dt.date | dt.time):
        raise InputRefused(
            f"{show_place(place)} in the {what} is a bare date or time; write it in quotes",
            file=document.path,
            line=document.line(place),
            column=show_place(place),
            value=value.isoformat(),
            next_step="put quotation marks around it",
        )
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputRefused(
            f"{show_place(place)} in the {what} is not a finite number",
            file=document.path,
            line=document.line(place),
            column=show_place(place),
            value=value,
            next_step="write a number, or leave the entry out",
        )


def show_place(place: Place) -> str:
    """`corpus[1].final`: entries of an array are counted from 1, as people do."""
    shown = ""
    for part in place:
        shown += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if shown else str(part)
    return shown


class _Scanner:
    """Walks valid TOML text once and notes the line where each key or array element starts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.lines: dict[Place, int] = {}
        self.spans: dict[Place, tuple[int, int]] = {}
        self.tables: dict[Place, int] = {}

    def scan(self) -> dict[Place, int]:
        table: Place = ()
        while self._skip_blank(newlines=True):
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.lines

    def _advance(self, count: int) -> None:
        self.line += self.text.count("\n", self.position, self.position + count)
        self.position += count

    def _skip_blank(self, *, newlines: bool) -> bool:
        """Skip blanks and comments (and line ends); True while something is left."""
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == "#":
                end = self.text.find("\n", self.position)
                self._advance((len(self.text) if end < 0 else end) - self.position)
            elif character in " \t" or (newlines and character == "\n"):
                self._advance(1)
            else:
                return True
        return False

    def _header(self) -> Place:
        array = self.text.startswith("[[", self.position)
        line = self.line
        self._advance(2 if array else 1)
        keys = tuple(self._keys())
        self._skip_blank(newlines=False)
        self._advance(2 if array else 1)
        place: Place = ()
        for number, key in enumerate(keys):
            place = (*place, key)
            self.lines.setdefault(place, line)
            if array and number == len(keys) - 1:
                self.tables[place] = self.tables.get(place, 0) + 1
            if place in self.tables:
                place = (*place, self.tables[place] - 1)
                self.lines.setdefault(place, line)
        self.lines[place] = line
        return place

    def _pair(self, table: Place) -> None:
        line = self.line
        place = table
        for key in self._keys():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._skip_blank(newlines=False)
        self._advance(1)  # the equals sign
        self._skip_blank(newlines=False)
        self._value(place)

    def _keys(self) -> Iterator[str]:
        while True:
            self._skip_blank(newlines=False)
            if self.text[self.position] in "\"'":
                start = self.position
                self._string()
                yield str(tomllib.loads("key = " + self.text[start : self.position])["key"])
            else:
                found = _BARE_KEY.match(self.text, self.position)
                assert found is not None
                self._advance(len(found[0]))
                yield found[0]
            self._skip_blank(newlines=False)
            if not self.text.startswith(".", self.position):
                return
            self._advance(1)

    def _string(self) -> None:
        quote = self.text[self.position]
        long = self.text.startswith(quote * 3, self.position)
        closing = quote * 3 if long else quote
        self._advance(len(closing))
        while not self.text.startswith(closing, self.position):
            self._advance(2 if quote == '"' and self.text[self.position] == "\\" else 1)
        self._advance(len(closing))
        while long and self.text.startswith(quote, self.position):
            self._advance(1)  # up to two quotes may stand before the closing three

    def _value(self, place: Place) -> None:
        start = self.position
        self._one_value(place)
        self.spans[place] = (start, start + len(self.text[start : self.position].rstrip()))

    def _one_value(self, place: Place) -> None:
        character = self.text[self.position]
        if character in "\"'":
            self._string()
        elif character in "[{":
            self._container(place, "]" if character == "[" else "}")
        else:
            found = _SCALAR.match(self.text, self.position)
            assert found is not None
            self._advance(len(found[0]))

    def _container(self, place: Place, closing: str) -> None:
        self._advance(1)
        index = 0
        while True:
            self._skip_blank(newlines=True)
            if self.text[self.position] == closing:
                self._advance(1)
                return
            if self.text[self.position] == ",":
                self._advance(1)
            elif closing == "]":
                self.lines[(*place, index)] = self.line
                self._value((*place, index))
                index += 1
            else:
                self._pair(place)


def as_json_text(document: TomlDocument) -> str:
    """The content as JSON, whose arrays strict models accept as tuples."""
    return json.dumps(document.data, ensure_ascii=False, allow_nan=False)
