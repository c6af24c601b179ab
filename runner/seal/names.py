"""Which file names may stand in a signed list or an archive: relative, with `/`, never surprising."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from runner.errors import show_value

_MOST_BYTES = 1024
_MOST_PART_BYTES = 255
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}


def bad_name(name: str) -> str | None:
    """Why this name is refused, or None. Nothing is ever cleaned silently."""
    if not name:
        return "is empty"
    if any(unicodedata.category(character)[0] == "C" for character in name):
        return "holds a control or unprintable character"
    if "\\" in name:
        return "holds a backslash"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "is absolute"
    parts = name.split("/")
    if ".." in parts:
        return "leads out of the folder (..)"
    if "" in parts or "." in parts:
        return "is not in its shortest form"
    if any(_unsafe_on_windows(part) for part in parts):
        return "is another name, a device or a hidden stream on Windows"
    if len(name.encode("utf-8")) > _MOST_BYTES or any(len(part.encode("utf-8")) > _MOST_PART_BYTES for part in parts):
        return "is too long"
    return None


def _unsafe_on_windows(part: str) -> bool:
    """Names that Windows would write elsewhere than they say: `x.` is `x`, `nul.csv` a device, `x:y` a stream."""
    return part[-1] in ". " or ":" in part or part.split(".", 1)[0].rstrip().lower() in _DEVICES


def name_findings(names: Iterable[str]) -> tuple[str, ...]:
    """One line per refused name: bad form, twice, the same but for letter case, file and folder at once."""
    findings = []
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        reason = bad_name(name)
        if reason is not None:
            findings.append(f"{show_value(name)} {reason}")
            continue
        key = _folded(name)
        if key in seen:
            same = "stands twice" if seen[key] == name else f"is the same as {show_value(seen[key])} on some systems"
            findings.append(f"{show_value(name)} {same}")
        seen.setdefault(key, name)
        for parent in PurePosixPath(name).parents:
            if parent.name:
                folder = folders.setdefault(_folded(str(parent)), str(parent))
                if folder != str(parent):
                    findings.append(f"the folder {str(parent)!r} is the same as {folder!r} on some systems")
    findings += [f"{show_value(seen[key])} is a file and a folder at once" for key in sorted(seen.keys() & folders)]
    return tuple(dict.fromkeys(findings))


def _folded(name: str) -> str:
    """What a file system without letter case, or with another Unicode form, would take for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
