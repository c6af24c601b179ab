"""Model FLOPs utilisation: operations of a pass over what the same device was seen to do in the same campaign.

An attempt records its operations and its duration; how fast the device can be is known best at the end of the
campaign. Both the worker's parent and the decision use this one rule, so that a rate that was taken beside
other work, or before a faster one, makes no pass look better than the device allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.evidence.attempt import Attempt

KINDS = ("real", "executed")
NO_RATE = "no matrix rate was measured for this precision and number of threads"
BEYOND = (
    "the pass was faster than the matrix product measured for this type: "
    "another type computes (int8), or others used the device"
)
_RATE_OF = ("precision", "threads", "workers", "devices")


@dataclass(frozen=True)
class Shares:
    """Values and reasons under their names in the telemetry: `utilisation_real`, `utilisation_executed`."""

    values: dict[str, float | None]
    reasons: dict[str, str] = field(default_factory=dict)


def device_of(attempt: Attempt) -> tuple[Any, ...]:
    """Attempts with the same key ran on the same device, in the same type and with as many threads and processes."""
    settings = (getattr(attempt.requested, name) for name in _RATE_OF)
    return (attempt.chain.machine_id, attempt.gpu_declared, *settings)


def fastest_rates(attempts: Iterable[Attempt]) -> dict[tuple[Any, ...], float]:
    """Fastest matrix rate, in operations per second, that any of these attempts saw of its device."""
    rates: dict[tuple[Any, ...], float] = {}
    for attempt in attempts:
        rate = attempt.telemetry.get("matrix_flops_rate")
        if isinstance(rate, float):
            key = device_of(attempt)
            rates[key] = max(rate, rates.get(key, 0.0))
    return rates


def shares(
    flops: Mapping[str, float | None], seconds: float | None, rate: float | None, unknown: Mapping[str, str]
) -> Shares:
    """`flops` by kind; `unknown`: by kind, why its operations are not known. A share above one is no share."""
    found = Shares({})
    for kind in KINDS:
        name, count = f"utilisation_{kind}", flops.get(kind)
        share = None if not rate or not seconds or count is None else count / seconds / rate
        beyond = share is not None and share > 1
        found.values[name] = None if share is None or beyond else round(share, 4)
        if count is None:
            found.reasons[name] = unknown.get(kind, "not measured")
        elif beyond:
            found.reasons[name] = BEYOND
        elif share is None:
            found.reasons[name] = NO_RATE
    return found


def with_fastest_rates(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The same attempts, their shares by the fastest rate of them all; records stay as they are."""
    rates = fastest_rates(attempts)
    return tuple(_by_rate(attempt, rates.get(device_of(attempt))) for attempt in attempts)


def _by_rate(attempt: Attempt, rate: float | None) -> Attempt:
    if rate is None or "flops_real" not in attempt.telemetry or attempt.telemetry.get("matrix_flops_rate_used") == rate:
        return attempt
    told = attempt.telemetry_reasons
    flops = {kind: _number(attempt.telemetry.get(f"flops_{kind}")) for kind in KINDS}
    why = {kind: told[f"flops_{kind}"] for kind in KINDS if f"flops_{kind}" in told}
    found = shares(flops, attempt.pass_seconds, rate, why)
    reasons = {name: reason for name, reason in told.items() if name not in (*found.values, "matrix_flops_rate_used")}
    return attempt.model_copy(
        update={
            "telemetry": attempt.telemetry | found.values | {"matrix_flops_rate_used": rate},
            "telemetry_reasons": reasons | found.reasons,
        }
    )


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
