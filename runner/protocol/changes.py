"""What changed between two judgements, field by field: old value -> new value (M4, QU-08)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from runner.errors import show_value
from runner.protocol.schema import Judgement

_MISSING = object()


@dataclass(frozen=True)
class Change:
    """One frozen field whose value is another now. Values are JSON text; None: not there."""

    field: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.old)} -> {_shown(self.new)}"


def judgement_changes(old: Judgement, new: Judgement) -> tuple[Change, ...]:
    """Every differing field. Entries with an id or a path are compared by it, not by their position.

    A corpus with the same records is the same, whatever its line ends (NO-09); what only follows
    from other fields is left out. So is where a local model lies: its files are compared one by one.
    """
    before, after = old.as_json(), new.as_json()
    records = {corpus.id: corpus.records_sha256 for corpus in old.corpora}
    same = {corpus.id for corpus in new.corpora if records.get(corpus.id) == corpus.records_sha256}
    for content in (before, after):
        del content["protocol_sha256"]
        if old.model_revision is None and new.model_revision is None:
            content["protocol"] = without_place(content["protocol"])
        for corpus in content["corpora"]:
            del corpus["reference"]
            if corpus["id"] in same:
                del corpus["final"]
    return tuple(_differences("", before, after))


def without_place(protocol: dict[str, Any]) -> dict[str, Any]:
    """A frozen protocol without the folder of its local model: another machine may keep it elsewhere (MO-19)."""
    return {**protocol, "model": {key: value for key, value in protocol["model"].items() if key != "source"}}


def content_changes(old: Any, new: Any) -> tuple[Change, ...]:
    """The same for any two JSON values."""
    return tuple(_differences("", old, new))


def _differences(name: str, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            shorter = key if not name or name == "protocol" else f"{name}.{key}"
            yield from _differences(shorter, old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(name, old, new)
    elif old != new or type(old) is not type(new):
        yield Change(name, _text(old), _text(new))


def _list_differences(name: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    key = next((key for key in ("id", "path", "name") if _all_have(old + new, key)), None)
    if key is None:
        if all(not isinstance(item, dict | list) for item in old + new):
            if old != new:
                yield Change(name, _text(old), _text(new))
            return
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else _MISSING
            after = new[index] if index < len(new) else _MISSING
            yield from _differences(f"{name}[{index + 1}]", before, after)
        return
    before, after = ({item[key]: item for item in items} for items in (old, new))
    for identity in [*before, *(extra for extra in after if extra not in before)]:
        if identity in before and identity in after:
            yield from _differences(f"{name}[{identity}]", before[identity], after[identity])
        else:
            yield Change(f"{name}[{identity}]", *("there" if identity in side else None for side in (before, after)))
    if before.keys() == after.keys() and list(before) != list(after):
        yield Change(f"order of {name}", _text(list(before)), _text(list(after)))


def _all_have(items: list[Any], key: str) -> bool:
    values = [item.get(key) for item in items if isinstance(item, dict)]
    return bool(items) and len(values) == len(items) and all(isinstance(value, str) for value in values)


def _text(value: Any) -> str | None:
    if value is _MISSING:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _shown(value: str | None) -> str:
    if value is None:
        return "(not there)"
    return value if value.replace(".", "", 1).isdigit() else show_value(value)
