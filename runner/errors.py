"""One error family: what failed, where, the value, and the next command to run.

Exit status: 2 input refused and nothing written, 3 recorded or checked but not accepted,
1 a bug of ours. `runner.cli.main` catches the family once and prints it once.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import ClassVar

_SHOWN_CHARACTERS = 120
_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


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
            code = ord(character)
            out.append(f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
        else:
            out.append(character)
    quoted = "'" + "".join(out) + "'"
    return quoted if shown is text else f"{quoted}… ({len(text)} characters)"


class RunnerError(Exception):
    """Base of everything that a user may see as an error.

    `what` is one sentence (more lines only for a list of findings). `file`, `line` (the header is
    line 1), `column` and `value` say where; `next_step` is the command or the action that helps.
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
        next_step: str | None = None,
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
        lines = [self.what]
        place = []
        if self.file is not None:
            place.append(self.file if self.line is None else f"{self.file}:{self.line}")
        elif self.line is not None:
            place.append(f"line {self.line}")
        if self.column is not None:
            place.append(f"column {self.column}")
        if place:
            lines.append("  where: " + ", ".join(place))
        if self.value is not None:
            lines.append("  value: " + show_value(self.value))
        lines.extend("  - " + detail for detail in self.details)
        if self.next_step is not None:
            lines.append("  next:  " + self.next_step)
        return "\n".join(lines)

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


class NotAccepted(RunnerError):
    """Recorded or checked, but not accepted: failed attempt, rejected verdict, bad signature. Exit 3."""

    exit_code = 3
