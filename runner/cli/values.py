"""Values of options that several commands take."""

from __future__ import annotations

import re

from runner.errors import InputRefused


def parse_batches(text: str) -> tuple[int, ...]:
    """`"1 4 8"` (blanks or commas) as numbers; nothing given is an empty tuple."""
    parts = re.split(r"[ ,]+", text.strip()) if text.strip() else []
    if not all(re.fullmatch(r"[1-9][0-9]{0,5}", part) for part in parts):
        raise InputRefused(
            "batches are whole numbers from 1 on", column="--batches", value=text, next_step='--batches "1 4 8"'
        )
    return tuple(int(part) for part in parts)
