"""Strict JSON in one canonical form, and SHA-256 fingerprints of bytes and of content.

Canonical form: keys sorted by code point, no blanks, UTF-8, no NaN or Infinity, no duplicate keys.
Files for people use the same order with an indent of two and a final line feed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypedDict

from runner.errors import InputRefused, show_value

_CHUNK_BYTES = 1 << 20


def sha256_bytes(data: bytes) -> str:
    """Hexadecimal SHA-256 of the bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def canonical_json(value: Any) -> bytes:
    """The bytes that fingerprints of content are taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def content_sha256(value: Any) -> str:
    """Fingerprint of the content: key order and blanks do not matter, list order does."""
    return sha256_bytes(canonical_json(value))


def records_sha256(records: Iterable[Iterable[str]]) -> str:
    """Fingerprint of parsed rows, in order. Each field is length-prefixed, so no joining is ambiguous."""
    digest = hashlib.sha256()
    for record in records:
        fields = [field.encode("utf-8", "surrogatepass") for field in record]
        digest.update(b"%d;" % len(fields))
        for field in fields:
            digest.update(b"%d:" % len(field))
            digest.update(field)
    return digest.hexdigest()


def pretty_json(value: Any) -> bytes:
    """Sorted, indented, UTF-8, LF, no NaN: how every JSON file of a campaign is written."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


class StrictHooks(TypedDict):
    """Arguments of `json.loads` that refuse what RFC 8259 does not have."""

    parse_constant: Callable[[str], Any]
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any]


_STRINGS_AND_CONSTANTS = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')


def _line_of_constant(text: str) -> int | None:
    """Line of the first NaN or Infinity that is no part of a string."""
    place = next((found.start() for found in _STRINGS_AND_CONSTANTS.finditer(text) if found[1]), None)
    return None if place is None else text.count("\n", 0, place) + 1


def strict_hooks(file: str | Path | None, line: int | None, text: str = "") -> StrictHooks:
    """For `json.loads`: NaN, Infinity and keys that stand twice in one object are refused with their place.

    Without a `line` of its own (a line of JSON Lines has one) a constant is looked up in the `text`.
    """

    def refuse_constant(name: str) -> NoReturn:
        raise InputRefused(
            f"{name} is not allowed in JSON",
            file=file,
            line=line or _line_of_constant(text),
            value=name,
            next_step="write null where there is no number",
        )

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [key for key, _ in pairs]
            twice = next(key for key in names if names.count(key) > 1)
            raise InputRefused(
                f"a key stands twice in one JSON object: {show_value(twice)}",
                file=file,
                line=line,
                column=twice,
                next_step="keep one of the two keys",
            )
        return found

    return StrictHooks(parse_constant=refuse_constant, object_pairs_hook=refuse_duplicates)


def loads_strict(data: bytes | str, *, file: str | Path | None = None, line: int | None = None) -> Any:
    """Parse JSON as RFC 8259 has it: NaN, Infinity, duplicate keys, bad UTF-8 and a BOM are refused."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return json.loads(text, **strict_hooks(file, line, text))
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"not UTF-8: byte {error.start} cannot be read",
            file=file,
            line=line,
            next_step="save the file as UTF-8",
        ) from None
    except json.JSONDecodeError as error:
        raise InputRefused(
            f"not valid JSON: {error.msg}",
            file=file,
            line=line or error.lineno,
            column=error.colno,
            next_step="restore the file from its copy, or write it again with a JSON library",
        ) from None
    except RecursionError:
        raise InputRefused(
            "JSON nested too deeply",
            file=file,
            line=line,
            next_step="write it with fewer levels",
        ) from None


def load_json_file(path: Path) -> Any:
    """Strict JSON file; a missing or unreadable one is refused with its name."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputRefused(
            f"cannot be read: {error.strerror}",
            file=path,
            next_step="check that the file is there and may be read",
        ) from None
    return loads_strict(data, file=path)
