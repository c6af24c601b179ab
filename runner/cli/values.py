"""Values of options that several commands take."""

from __future__ import annotations

import re
from pathlib import Path

from runner.errors import InputRefused


def parse_batches(text: str) -> tuple[int, ...]:
    """`"1 4 8"` (blanks or commas) as numbers; nothing given is an empty tuple."""
    parts = re.split(r"[ ,]+", text.strip()) if text.strip() else []
    if not all(re.fullmatch(r"[1-9][0-9]{0,5}", part) for part in parts):
        raise InputRefused(
            "batches are whole numbers from 1 on", column="--batches", value=text, next_step='--batches "1 4 8"'
        )
    return tuple(int(part) for part in parts)


def named_as(path: Path, ending: str, option: str) -> Path:
    """The path of a file to be written, if its name has this ending: a slip must not replace a plan or a table."""
    if path.suffix.lower() != ending:
        raise InputRefused(
            f"the name does not end in {ending}; a file of another kind is not written over",
            column=option,
            value=path,
            next_step=f"{option} {path.stem or 'new'}{ending} (for example)",
        )
    return path
