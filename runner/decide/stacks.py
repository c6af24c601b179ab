"""Which software stack an attempt belongs to, and where the stacks of two configurations differ (M12)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from runner.decide.fates import Fate, Judged
from runner.decide.model import Reason
from runner.decide.sentences import say
from runner.evidence.manifest import Manifest

_UNKNOWN = "unknown"


def by_stack(items: Sequence[Judged], stack_of: Mapping[str, str]) -> dict[str | None, list[Judged]]:
    """Attempts of one variant by software stack; `stack_of`: manifest's fingerprint -> stack's.

    One that ended before its manifest was read counts for the only stack, else for the only stack of its
    machine, else for every stack: a failure is never left without a configuration.
    """
    own = [stack_of.get(item.attempt.manifest_sha256 or "") for item in items]
    known = sorted({stack for stack in own if stack is not None})
    if len(known) <= 1:
        return {known[0] if known else None: list(items)}
    on_machine: dict[str, set[str]] = {}
    for item, stack in zip(items, own, strict=True):
        if stack is not None:
            on_machine.setdefault(item.attempt.chain.machine_id, set()).add(stack)
    groups: dict[str | None, list[Judged]] = {stack: [] for stack in known}
    for item, stack in zip(items, own, strict=True):
        here = on_machine.get(item.attempt.chain.machine_id, set())
        for name in [stack] if stack is not None else sorted(here) if len(here) == 1 else known:
            groups[name].append(item)
    return groups


def stackless_warnings(judged: Mapping[str, Sequence[Judged]], manifests: Container[str]) -> tuple[Reason, ...]:
    """Failures whose stack is not known and could be one of several: for which configurations each was counted.

    `judged`: attempts by configuration, of those whose stack is known.
    """
    found: dict[str, list[str]] = {}
    variants: dict[tuple[str, str], set[str]] = {}
    for name, items in judged.items():
        for item in items:
            variants.setdefault((item.attempt.gpu_declared, item.attempt.variant_id), set()).add(name)
            if item.fate is Fate.FAILURE and (item.attempt.manifest_sha256 or "") not in manifests:
                found.setdefault(item.attempt.attempt_id, []).append(name)
    several = {item.attempt.attempt_id for items in judged.values() for item in items
               if len(variants[item.attempt.gpu_declared, item.attempt.variant_id]) > 1}  # fmt: skip
    return tuple(
        say("stack.attempt", attempt=attempt, names=", ".join(names))
        for attempt, names in sorted(found.items())
        if attempt in several
    )


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
