"""What the process policy `kept` cannot serve: refused at the freeze, so that it is the same for all variants (M21).

A kept process is found as it was between two attempts. Where that cannot be had, or where the attempt
starts processes of its own anyway, `kept` would be a name only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runner.errors import InputRefused
from runner.evidence.attempt import Settings
from runner.protocol.schema import LockedVariant, Protocol

KEPT = "kept"


def kept_faults(protocol: Protocol, variants: Iterable[LockedVariant]) -> Iterator[str]:
    """Why these variants cannot be served by one process; nothing under the policy `fresh`."""
    if protocol.measurement.process != KEPT:
        return
    if protocol.model.allow_custom_code:
        yield (
            "allow_custom_code lets code of the model's folder run: what it leaves behind in a kept process "
            "would reach the attempts after it"
        )
    threads: dict[int | None, str] = {}
    for variant in variants:
        why = _why_not(variant.settings)
        if why is not None:
            yield f"the variant '{variant.id}' cannot be served by a kept process: {why}"
        threads.setdefault(variant.settings.threads, variant.id)
    if len(threads) > 1:
        named = ", ".join(
            f"'{name}' asks for {count or 'what the machine has'}" for count, name in list(threads.items())[:2]
        )
        yield (
            f"the variants differ in threads ({named}): several libraries take their number once, "
            "when the process starts"
        )


def refuse_unkeepable(protocol: Protocol, variants: Iterable[LockedVariant]) -> None:
    """Before anything is measured: variants that were added to the lock are bound by its policy too."""
    faults = tuple(kept_faults(protocol, variants))
    if faults:
        raise InputRefused(
            f'measurement.process = "{KEPT}" is frozen and does not fit: {faults[0]}',
            details=faults[1:],
            next_step="leave such variants out of this campaign, or measure them in one of their own",
        )


def _why_not(settings: Settings) -> str | None:
    if settings.engine == "command":
        return "engine command starts its program anew for every attempt"
    if (settings.workers or 1) * (settings.devices or 1) > 1:
        return "several processes are started anew for every attempt"
    if "memory_margin_mib" in settings.extra:
        return "memory_margin_mib would be set on top of what earlier attempts have left in the process"
    return None
