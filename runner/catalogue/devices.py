"""Which real device counts as a rented GPU: `device_pattern` of tariffs.csv against the device's name (M11).

The whole name must match, letter case included, untrimmed: `NVIDIA GeForce RTX 4090` is not
`NVIDIA GeForce RTX 4090 Laptop GPU`. Patterns are regular expressions of a small, safe kind.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from pathlib import Path

from runner.errors import InputRefused, show_value

_LONGEST_PATTERN = 200
_LONGEST_NAME = 200
_MOST_REPEATS = 2
_MOST_CHOICES = 8
# Parts of a pattern that decide how long matching may take; escapes and classes are skipped whole.
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|\(\?|[()|?*+{]", re.DOTALL)


def check_pattern(pattern: str, *, file: str | Path | None = None, line: int | None = None) -> re.Pattern[str]:
    """Compile a device pattern; refuse what is invalid, matches every name, or could take very long.

    Allowed: plain text, escapes, classes, groups `( )` and `(?: )`, at most 8 of `|` and `?` and at most
    2 of `*`, `+`, `{m,n}`. A group may be optional, never repeated; no look-around, no back-references.
    """

    def refuse(why: str) -> InputRefused:
        return InputRefused(
            f"device pattern refused: {why}",
            file=file,
            line=line,
            column="device_pattern",
            value=pattern,
            next_step="write the device's name as the driver reports it, such as NVIDIA B200",
        )

    if not pattern or len(pattern) > _LONGEST_PATTERN or not pattern.isprintable():
        raise refuse(f"1 to {_LONGEST_PATTERN} printable characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a pattern that another Python may read otherwise, such as "[["
            compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise refuse(f"not a regular expression ({error})") from None
    previous, end, repeats, choices = "", -1, 0, 0
    for found in _PART.finditer(pattern):
        part = found[0]
        if part == "(?" or (re.fullmatch(r"\\[0-9A-Za-z]", part) and part[1] not in "dswDSW"):
            raise refuse("look-around, flags, back-references and special escapes are not allowed")
        if part in ("*", "+", "{"):
            repeats += 1
            if previous == ")" and end == found.start():
                raise refuse("a group must not be repeated")
        choices += part in ("?", "|")
        previous, end = part, found.end()
    if repeats > _MOST_REPEATS or choices > _MOST_CHOICES:
        raise refuse(f"at most {_MOST_REPEATS} of * + {{}} and {_MOST_CHOICES} of | ?")
    if compiled.fullmatch("") or compiled.fullmatch("\x00 no device has this name \x00"):
        raise refuse("it would accept any device")
    return compiled


def device_pattern(tariffs: Path, gpu: str) -> re.Pattern[str] | None:
    """Compiled pattern of a GPU of tariffs.csv, or None if no line names it. Prices are not looked at here."""
    found: re.Pattern[str] | None = None
    for line, name, pattern in _patterns(tariffs):
        if name != gpu:
            continue
        if found is not None and found.pattern != pattern:
            raise InputRefused(
                f"two device patterns for {show_value(gpu)}",
                file=tariffs,
                line=line,
                column="device_pattern",
                value=pattern,
                next_step="write the same pattern in every line of this GPU",
            )
        found = check_pattern(pattern, file=tariffs, line=line)
    return found


def matches(gpu: str, device_name: str, tariffs: Path) -> bool | None:
    """Whether a device really present counts as the declared GPU; None if tariffs.csv does not name the GPU."""
    pattern = device_pattern(tariffs, gpu)
    if pattern is None:
        return None
    return len(device_name) <= _LONGEST_NAME and pattern.fullmatch(device_name) is not None


def _patterns(tariffs: Path) -> list[tuple[int, str, str]]:
    """(file line, gpu, device_pattern) of every line; the other columns are read by `runner.pricing`."""
    try:
        text = tariffs.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputRefused(
            f"the tariffs cannot be read: {error.strerror}",
            file=tariffs,
            next_step="write a tariffs.csv with dated prices; the embedded example has one",
        ) from None
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"the tariffs are not UTF-8: byte {error.start} cannot be read",
            file=tariffs,
            next_step="save the file as UTF-8",
        ) from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = {"gpu", "device_pattern"} - set(reader.fieldnames or ())
        if missing:
            raise InputRefused(
                f"no column {', '.join(sorted(missing))}",
                file=tariffs,
                line=1,
                next_step="name the columns in the first line as docs/pricing.md has them",
            )
        return [(reader.line_num, row["gpu"] or "", row["device_pattern"] or "") for row in reader]
    except csv.Error as error:
        raise InputRefused(
            f"not a readable CSV file: {error}",
            file=tariffs,
            line=reader.line_num,
            next_step="double every quotation mark inside a quoted field and close each",
        ) from None
