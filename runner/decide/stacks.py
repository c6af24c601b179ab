"""Where the software and hardware under two configurations differ (M12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.decide.model import Reason
from runner.decide.sentences import say
from runner.evidence.manifest import Manifest

_UNKNOWN = "unknown"


def stack_differences(manifests: Mapping[str, Manifest | None]) -> tuple[Reason, ...]:
    """One sentence per entry of the stacks that differs, with the configurations that have each value."""
    flat = {name: _flat(manifest.stack) for name, manifest in manifests.items() if manifest is not None}
    keys = sorted({key for entries in flat.values() for key in entries})
    differences = []
    for key in keys:
        holders: dict[str, list[str]] = {}
        for name, entries in flat.items():
            holders.setdefault(entries.get(key, _UNKNOWN), []).append(name)
        if len(holders) > 1:
            found = "; ".join(f"{value} ({', '.join(names)})" for value, names in sorted(holders.items()))
            differences.append(say("stack.differs", entry=key, found=found))
    missing = [name for name, manifest in manifests.items() if manifest is None]
    if missing and flat:
        differences.append(say("stack.unknown", names=", ".join(missing)))
    return tuple(differences)


def _flat(value: Any, path: str = "") -> dict[str, str]:
    """`packages.torch` -> `2.13.0` for every leaf."""
    if isinstance(value, Mapping):
        return {
            key: text
            for name, part in value.items()
            for key, text in _flat(part, f"{path}.{name}" if path else str(name)).items()
        }
    if isinstance(value, list):
        return {path: ", ".join(str(part) for part in value) or "none"}
    return {path: _UNKNOWN if value is None else str(value)}
