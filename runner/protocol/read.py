"""Readers of `quality-protocol.toml` and `plan.toml`: strict, with line numbers and what to do (M1, M3)."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from runner.errors import InputRefused, show_value
from runner.evidence.model import Record
from runner.protocol.rules import Finding, plan_findings, protocol_findings
from runner.protocol.schema import Plan, Protocol
from runner.protocol.toml import Place, TomlDocument, as_json_text, read_toml, show_place

R = TypeVar("R", bound=Record)

_SCENARIO = (
    "only the scenario 'offline' can be measured: a corpus processed as a whole. {needs}, "
    "and an offline ranking must not be read that way"
)
_SCENARIO_NEEDS = {
    "interactive": "'interactive' would need arrivals, concurrency and a latency limit",
    "server": "'server' would need arrivals, concurrency and a latency limit",
    "training": "'training' would need a training target (a quality to reach) and its time to reach it",
}
_OTHER_SCENARIO = "Another scenario would need arrivals, concurrency and a latency limit, or a training target"


def read_protocol(path: Path) -> Protocol:
    """The quality protocol; refused with every finding and its line."""
    document = read_toml(
        path, what="quality protocol", next_step="runner protocol new, or copy the one of the embedded example"
    )
    protocol = _validate(document, Protocol, "quality protocol")
    _refuse_findings(document, protocol_findings(protocol), "quality protocol")
    return protocol


def read_plan(path: Path) -> Plan:
    """The plan: deliverables, deadline, calendar."""
    document = read_toml(path, what="plan", next_step="write protocol/plan.toml; the embedded example shows one")
    plan = _validate(document, Plan, "plan")
    _refuse_findings(document, plan_findings(plan), "plan")
    return plan


def read_toml_record(path: Path, model: type[R], *, what: str, next_step: str) -> R:
    """Any strict record that people write as TOML, such as `rental.toml`."""
    return _validate(read_toml(path, what=what, next_step=next_step), model, what)


def _validate(document: TomlDocument, model: type[R], what: str) -> R:
    try:
        return model.model_validate_json(as_json_text(document), strict=True)
    except ValidationError as error:
        findings = [_finding(item, model) for item in error.errors(include_url=False)]
        places = [finding.place for finding in findings]
        # A list whose entries are faulty also counts as too short: the entries' own findings say more.
        unique = [finding for finding in set(findings) if not any(_is_inside(place, finding.place) for place in places)]
        _refuse_findings(document, unique, what)
        raise AssertionError("a validation error without findings") from None


def _is_inside(place: Place, outer: Place) -> bool:
    return len(place) > len(outer) and place[: len(outer)] == outer


def _refuse_findings(document: TomlDocument, findings: list[Finding], what: str) -> None:
    """One refusal for all findings, in the order of the file; the first gives place and value."""
    if not findings:
        return
    findings = sorted(findings, key=lambda finding: (document.line(finding.place) or 0, finding.message))
    first = findings[0]
    details = (
        ()
        if len(findings) == 1
        else tuple(f"line {document.line(finding.place) or '-'}: {finding.message}" for finding in findings)
    )
    raise InputRefused(
        first.message if not details else f"the {what} has {len(findings)} faults",
        file=document.path,
        line=document.line(first.place),
        column=show_place(first.place) or None,
        value=_value_at(document.data, first.place),
        details=details,
        next_step=first.next_step or "correct the file; docs/protocol.md explains every field",
    )


def _value_at(data: Any, place: Place) -> str | None:
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return str(data) if isinstance(data, str | int | float) else None


def _finding(item: Any, model: type[Record]) -> Finding:
    """One of pydantic's findings in the words of this project."""
    place = _known_place(tuple(item["loc"]), model)
    name, kind, value = show_place(place), item["type"], item["input"]
    if kind == "extra_forbidden":
        return Finding(place, f"unknown key {show_value(place[-1])}{_did_you_mean(place, model)}")
    if kind == "missing":
        return Finding(place, f"{name} is missing")
    if place == ("question", "scenario"):
        needs = _SCENARIO_NEEDS.get(value, _OTHER_SCENARIO) if isinstance(value, str) else _OTHER_SCENARIO
        return Finding(place, _SCENARIO.format(needs=needs), 'write scenario = "offline", or do not use this tool')
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return Finding(place, f'{name} must be text in quotes, such as "{value}": a bare number is not exact')
    if kind == "string_pattern_mismatch" and "[0-9]*)(" in item["ctx"]["pattern"]:
        return Finding(place, f'{name} must be a decimal such as "0.90": digits with an optional point')
    if kind in ("string_pattern_mismatch", "string_too_long") and place == ("question", "language"):
        return Finding(place, f"{name} must be a language tag such as de, pt-BR or zh-Hant (BCP 47)")
    if kind == "string_pattern_mismatch":
        return Finding(place, f"{name} must be a name of letters, digits, '.', '_' or '-', at most 120 of them")
    if kind == "literal_error":
        return Finding(place, f"{name} must be {item['ctx']['expected']}")
    if kind == "greater_than_equal":
        return Finding(place, f"{name} must be at least {item['ctx']['ge']}{_why_at_least(place)}")
    return Finding(place, f"{name}: {item['msg'].lower()}")


def _why_at_least(place: Place) -> str:
    if place == ("measurement", "min_accepted"):
        return ": fewer accepted passes have no spread and decide nothing"
    return ""


def _known_place(location: tuple[str | int, ...], model: type[Record]) -> Place:
    """Pydantic adds the tried type of a union (`values.0.str`): cut it off."""
    place: list[str | int] = []
    current: Any = model
    for part in location:
        if isinstance(part, str) and not (isinstance(current, type) and issubclass(current, Record)):
            if current is not dict:
                break
            place.append(part)
            continue
        place.append(part)
        if isinstance(part, str):
            field = current.model_fields.get(part)
            if field is None:
                break
            current = _inner_type(field.annotation)
    return tuple(place)


def _inner_type(annotation: Any) -> Any:
    """The record inside `tuple[X, ...]`, `X | None`; `dict` for a table of free keys; else None."""
    for candidate in _flatten(annotation):
        if isinstance(candidate, type) and issubclass(candidate, Record):
            return candidate
    return dict if typing.get_origin(annotation) is dict else None


def _flatten(annotation: Any) -> Iterator[Any]:
    yield annotation
    for argument in typing.get_args(annotation):
        yield from _flatten(argument)


def _did_you_mean(place: Place, model: type[Record]) -> str:
    current: Any = model
    for part in place[:-1]:
        if isinstance(part, str) and current is not None:
            current = _inner_type(current.model_fields[part].annotation)
    known = list(current.model_fields) if current is not None else []
    close = difflib.get_close_matches(str(place[-1]), known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(known)}"
