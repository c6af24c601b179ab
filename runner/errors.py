"""One error family: what failed, where, the value, and the next command to run.

Exit status: 2 input refused and nothing written, 3 recorded or checked but not accepted,
1 a bug of ours. `runner.cli.main` catches the family once and prints it once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

_SHOWN_CHARACTERS = 120
_LAST_OF_FOUR_DIGITS = 0xFFFF
_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "\\'"}

_RULE_NUMBERS = re.compile(r"\s*\((?:M\d+|[A-Z]{2}-\d+)(?:(?:,| to) (?:M\d+|[A-Z]{2}-\d+))*\)")


def without_rule_numbers(text: str) -> str:
    """A docstring as users read it: numbers of our rules and cases are for those who work on the code."""
    return _RULE_NUMBERS.sub("", text)


def show_value(value: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """Quote a value for people: invisible and control characters escaped, long ones shortened.

    Blanks at the ends stay visible inside the quotes; unusual spaces, bidirectional marks and
    combining characters are written as escapes, so that two different values never look the same.
    """
    text = value if isinstance(value, str) else str(value)
    shown = text if len(text) <= limit else text[:limit]
    out = []
    for character in shown:
        if character in _SHORT_ESCAPES:
            out.append(_SHORT_ESCAPES[character])
        elif character != " " and unicodedata.category(character)[0] in "CZM":
            out.append(_escaped(ord(character)))
        else:
            out.append(character)
    quoted = "'" + "".join(out) + "'"
    return quoted if shown is text else f"{quoted}… ({len(text)} characters)"


def show_text(text: str) -> str:
    """A name or a sentence for people, as it is: only what a terminal would act on or hide is escaped.

    Control characters (a NUL or a line end in a file name), bidirectional marks, lone surrogates.
    """
    return "".join(_escaped(ord(one)) if unicodedata.category(one) in _NEVER_SHOWN else one for one in text)


def show_lines(text: str) -> str:
    """Text of several lines in which nothing but the line ends acts on a terminal."""
    return "\n".join(show_text(line) for line in text.split("\n"))


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= _LAST_OF_FOUR_DIGITS else f"\\U{code:08x}"


class RunnerError(Exception):
    """Base of everything that a user may see as an error.

    `what` is one sentence (more lines only for a list of findings). `file`, `line` (the header is
    line 1), `column` and `value` say where; `next_step`, which no error goes without, is the command
    or the action that helps.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: str | int | None = None,
        value: object = None,
        next_step: str,
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what)
        self.what = what
        self.file = None if file is None else str(file)
        self.line = line
        self.column = column
        self.value = value
        self.next_step = next_step
        self.details = details

    def __str__(self) -> str:
        lines = [show_lines(self.what)]
        place = []
        if self.file is not None:
            shown = show_text(self.file)
            place.append(shown if self.line is None else f"{shown}:{self.line}")
        elif self.line is not None:
            place.append(f"line {self.line}")
        if self.column is not None:
            place.append(f"{self._kind_of_place()} {show_text(str(self.column))}")
        if place:
            lines.append("  where: " + ", ".join(place))
        if self.value is not None:
            lines.append("  value: " + show_value(self.value))
        lines.extend("  - " + show_lines(detail) for detail in self.details)
        lines.append("  next:  " + show_lines(self.next_step))
        return "\n".join(lines)

    def _kind_of_place(self) -> str:
        """What `column` names: an option of the command line, a field of TOML or JSON, a column or a character."""
        if isinstance(self.column, str) and self.column.startswith("--"):
            return "option"
        structured = self.file is not None and self.file.endswith((".toml", ".json"))
        return "field" if structured and isinstance(self.column, str) and not self.column.isdecimal() else "column"

    def in_one_line(self) -> str:
        """For records and verdicts: what, the place (the file by its name only) and the value."""
        name = "" if self.file is None else show_text(Path(self.file).name)
        place = [name if self.line is None else f"{name}:{self.line}"] if name else []
        place += [f"line {self.line}"] if self.line is not None and not name else []
        place += [] if self.column is None else [f"{self._kind_of_place()} {show_text(str(self.column))}"]
        place += [] if self.value is None else [f"value {show_value(self.value)}"]
        return show_text(self.what) + (f" ({', '.join(place)})" if place else "")

    def as_json(self) -> dict[str, object]:
        """The same for machines (`--json`)."""
        return {
            "error": self.what,
            "exit_code": self.exit_code,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "value": None if self.value is None else show_value(self.value),
            "details": list(self.details),
            "next_step": self.next_step,
        }


class InputRefused(RunnerError):
    """Unreadable, malformed or contradictory input; nothing was written. Exit 2."""

    exit_code = 2
    parts: list[InputRefused] = []  # noqa: RUF012 (never changed in place; replaced where several came together)


class NotAccepted(RunnerError):
    """Recorded or checked, but not accepted: failed attempt, rejected verdict, bad signature. Exit 3."""

    exit_code = 3


def gathered(*checks: Callable[[], object]) -> None:
    """Run checks that do not need each other; what one or several of them refuse is one refusal, and said once.

    A single refusal is raised as it is. Of several, `what`, place and next step of each stand in `details`; the place
    of the whole is that of the first. Raises: InputRefused.
    """
    refused: list[InputRefused] = []
    for check in checks:
        try:
            check()
        except InputRefused as error:
            refused += [one for one in error.parts or [error] if str(one) not in {str(other) for other in refused}]
    if len(refused) == 1:
        raise refused[0]
    if refused:
        first = refused[0]
        together = InputRefused(
            f"{len(refused)} things are to be put right first",
            file=first.file,
            line=first.line,
            column=first.column,
            details=tuple(_whole(error) for error in refused),
            next_step="put all of them right, then run the same command again",
        )
        together.parts = refused
        raise together


def _whole(error: InputRefused) -> str:
    lines = [error.in_one_line(), *(f"    {detail}" for detail in error.details), f"    next: {error.next_step}"]
    return "\n".join(lines)
