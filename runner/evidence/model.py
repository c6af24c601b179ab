"""Base of every record that is written to or read from a file: frozen, strict, no unknown keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from runner.errors import InputRefused
from runner.evidence.canonical import load_json_file, loads_strict, pretty_json

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Elapsed seconds of a monotonic clock; exact value by `runner.units.exact_seconds`."""
Bytes = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _one_zero(text: str) -> str:
    return text.removeprefix("-") if text.startswith("-0") and not text.strip("-0.") else text


DecimalText = Annotated[str, Field(pattern=r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"), AfterValidator(_one_zero)]
"""A decimal kept as text (money, thresholds), parsed by `runner.units.parse_decimal`. Zero has no sign."""
UtcText = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$")]
LanguageTag = Annotated[
    str,
    Field(
        pattern=r"^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*$",
        max_length=35,
    ),
]
"""Language, script, region and variants of BCP 47 (RFC 5646), in the case that it recommends."""
SafeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$")]
"""A name that becomes part of a file name: no separators, no leading dot."""
Scalar = str | int | float | bool | None


class Record(BaseModel):
    """Frozen and strict. `load`/`loads` refuse with file, place and value; `dump` is deterministic."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, every field present."""
        return self.model_dump(mode="json", by_alias=True)

    def dump(self) -> bytes:
        return pretty_json(self.as_json())

    @classmethod
    def from_json(cls, value: Any, *, file: str | Path | None = None) -> Self:
        """The record of parsed JSON; InputRefused with every field that does not fit (`file`: for the message)."""
        try:
            record = cls.model_validate_json(json.dumps(value, ensure_ascii=False), strict=True)
        except ValidationError as error:
            raise refusal(error, what=f"not a valid {cls.__name__}", file=file) from None
        _share_field_names(record)
        return record

    @classmethod
    def loads(cls, data: bytes, *, file: str | Path | None = None) -> Self:
        return cls.from_json(loads_strict(data, file=file), file=file)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls.from_json(load_json_file(path), file=path)


_FIELD_NAMES: dict[frozenset[str], set[str]] = {}


def _share_field_names(record: Record) -> None:
    """Pydantic gives every record a set of its own of the fields that were given: half of all memory.

    Equal sets become one. Nothing changes them: a record is frozen, and `model_copy` copies the set.
    """
    left: list[Any] = [record]
    while left:
        item = left.pop()
        if isinstance(item, Record):
            names = item.__pydantic_fields_set__
            object.__setattr__(item, "__pydantic_fields_set__", _FIELD_NAMES.setdefault(frozenset(names), names))
            left.extend(item.__dict__.values())
        elif isinstance(item, tuple):
            left.extend(item)


def refusal(error: ValidationError, *, what: str, file: str | Path | None = None) -> InputRefused:
    """Pydantic's findings as one refusal of ours: every place named, the first value shown."""
    findings = error.errors(include_url=False, include_context=False)
    details = tuple(f"{'.'.join(str(part) for part in item['loc']) or '(whole)'}: {item['msg']}" for item in findings)
    first = findings[0]
    shown = first["input"] if isinstance(first["input"], str | int | float | bool) else None
    return InputRefused(
        what,
        file=file,
        column=".".join(str(part) for part in first["loc"]) or None,
        value=shown,
        details=details,
        next_step="correct the named fields, or restore the file from its copy",
    )
