"""The protocol's fields as a reference for people and as JSON Schema for editors, from the same models."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from runner.errors import without_rule_numbers
from runner.evidence.canonical import pretty_json
from runner.evidence.model import DecimalText, LanguageTag, Record
from runner.protocol.schema import Protocol

SCHEMA_NAME = "quality-protocol.schema.json"
_BEGIN = "<!-- fields: written by `runner protocol fields`; do not edit by hand -->"
_END = "<!-- end of fields -->"
_PATTERN_OF_DECIMALS = next(item.pattern for item in typing.get_args(DecimalText)[1].metadata)
_PATTERN_OF_LANGUAGES = next(
    item.pattern for item in typing.get_args(LanguageTag)[1].metadata if hasattr(item, "pattern")
)


def schema_json() -> bytes:
    """JSON Schema (2020-12) of `quality-protocol.toml`; editors check and complete with it."""
    schema = _described(Protocol.model_json_schema())
    return pretty_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def _described(value: Any) -> Any:
    """The schema with descriptions as users read them."""
    if isinstance(value, list):
        return [_described(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _sentence(item) if key == "description" and isinstance(item, str) else _described(item)
        for key, item in value.items()
    }


def field_reference() -> str:
    """Markdown: one table per TOML table, in the order of the file."""
    parts = [_BEGIN]
    first: dict[type[Record], str] = {}
    for heading, model, text in _tables("", Protocol):
        parts += ["", f"### {heading}", ""]
        if model in first:
            parts.append(f"The same keys as {first[model]}.")
            continue
        first[model] = heading
        parts += [text, "", "| key | kind | default | meaning |", "|---|---|---|---|"]
        parts += [_row(name, field) for name, field in model.model_fields.items() if _inner(field) is None]
    return "\n".join([*parts, "", _END])


def with_reference(document: str) -> str:
    """The document with its part between the marks replaced; without marks it is appended."""
    if _BEGIN not in document:
        return f"{document.rstrip()}\n\n{field_reference()}\n"
    before, rest = document.split(_BEGIN, 1)
    return before + field_reference() + rest.split(_END, 1)[1]


def _tables(name: str, model: type[Record]) -> Iterator[tuple[str, type[Record], str]]:
    """Heading, model and text of a table and of all tables below it."""
    if not name:
        yield "At the top", model, "Before the first table."
    for key, field in model.model_fields.items():
        inner = _inner(field)
        if inner is None:
            continue
        full = f"{name}.{key}" if name else key
        heading = f"`[[{full}]]`" if typing.get_origin(field.annotation) is tuple else f"`[{full}]`"
        yield heading, inner, _sentence(inner.__doc__ or "")
        yield from _tables(full, inner)


def _inner(field: FieldInfo) -> type[Record] | None:
    for candidate in (field.annotation, *typing.get_args(field.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Record):
            return candidate
    return None


def _sentence(text: str) -> str:
    return " ".join(without_rule_numbers(text).split())


def _row(name: str, field: FieldInfo) -> str:
    cells = (f"`{name}`", _kind(field), _default(field), field.description or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined or value is None:
        return "left out"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value) + "]`"
    if isinstance(value, dict):
        return "empty"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _kind(field: FieldInfo) -> str:
    """What may stand there, in words."""
    annotation: Any = field.annotation
    choices = typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    arguments = [item for item in typing.get_args(annotation) if item is not type(None)]
    if typing.get_origin(annotation) is tuple:
        return "list"
    if typing.get_origin(annotation) is dict:
        return "table of names"
    metadata = list(field.metadata)
    plain = annotation
    if arguments and typing.get_origin(annotation) is not typing.Annotated:
        plain = arguments[0]
    if typing.get_origin(plain) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(plain))
    if typing.get_origin(plain) is typing.Annotated:
        plain, *more = typing.get_args(plain)
        metadata += [item for extra in more for item in getattr(extra, "metadata", [extra])]
    patterns = [getattr(item, "pattern", None) for item in metadata]
    if _PATTERN_OF_DECIMALS in patterns:
        return "decimal in quotes"
    if _PATTERN_OF_LANGUAGES in patterns:
        return "language tag"
    if any(patterns):
        return "name"
    least = next((item.ge for item in metadata if getattr(item, "ge", None) is not None), None)
    words = {str: "text", bool: "`true` or `false`", int: "whole number"}.get(plain, "value")
    return words if least is None else f"{words} from {least}"
