"""Conditions of an attempt on the host: who else used the processors, clock, load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.evidence.utilisation import KINDS, NO_RATE, shares
from runner.measure.cgroups import ControlGroups

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STEAL = 7
_IDLE = (3, 4)


@dataclass(frozen=True)
class HostSnapshot:
    """Processor time of the whole machine since boot, in seconds; None where it cannot be read.

    `throttled_seconds`: for how long a processor quota has held this control group back.
    """

    busy_seconds: float | None
    steal_seconds: float | None
    throttled_seconds: float | None = None

    @classmethod
    def read(cls) -> HostSnapshot:
        throttled = ControlGroups().throttled_seconds()
        try:
            first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
            ticks = [int(value) for value in first.split()[1:9]]
            steal = ticks[_STEAL]
        except (OSError, ValueError, IndexError):
            return cls(None, None, throttled)
        busy = sum(value for place, value in enumerate(ticks) if place not in _IDLE and place != _STEAL)
        return cls(busy / _TICKS_PER_SECOND, steal / _TICKS_PER_SECOND, throttled)


@dataclass(frozen=True)
class Conditions:
    """Summary of one attempt: values, reasons for what is missing, whether the processors were shared."""

    values: dict[str, Any]
    reasons: dict[str, str]
    shared: bool | None
    shared_reason: str | None


def with_cards(host: Conditions, result: Mapping[str, Any], *, on_card: bool) -> Conditions:
    """Add what the worker read of the cards; on cards, only another process on them counts as sharing."""
    values: dict[str, Any] = dict(host.values)
    reasons = dict(host.reasons)
    values["device_span_seconds"] = busy = result.get("device_seconds")
    if busy is None:
        reasons["device_span_seconds"] = "this engine records no device events" if on_card else "a processor has none"
    cards = result.get("facts", {}).get("cards")
    if not on_card:
        return replace(host, values=values, reasons=reasons)
    if cards is None:
        return Conditions(values, reasons, None, "nothing reads the processes of a card here")
    unlisted = cards["reasons"].get("card.processes") or "the driver does not list the processes of a card"
    reason = None if cards["shared"] is not None else str(unlisted)
    return Conditions(values | cards["values"], reasons | cards["reasons"], cards["shared"], reason)


def with_efficiency(found: Conditions, result: Mapping[str, Any], rate: float | None) -> Conditions:
    """Model FLOPs utilisation: operations of the real tokens over the matrix rate of the same device."""
    efficiency = dict(result.get("efficiency") or {})
    if not efficiency:
        return found
    reasons = dict(found.reasons)
    why, no_rate = efficiency.pop("flops_reason", None), efficiency.pop("matrix_rate_reason", None)
    # What the device can do is the fastest that was seen of it: a rate taken beside others makes none slower.
    rate = max(filter(None, (efficiency["matrix_flops_rate"], rate)), default=None)
    efficiency["matrix_flops_rate_used"] = rate
    if rate is None:
        reasons["matrix_flops_rate_used"] = NO_RATE
    if efficiency["matrix_flops_rate"] is None:
        reasons["matrix_flops_rate"] = str(no_rate or "measured in the first pass only")
    flops = {kind: efficiency[f"flops_{kind}"] for kind in KINDS}
    reasons |= {f"flops_{kind}": str(why) for kind, count in flops.items() if count is None}
    told = shares(flops, result["pass_seconds"], rate, dict.fromkeys(KINDS, str(why)))
    efficiency |= told.values
    reasons |= told.reasons
    return replace(found, values=found.values | efficiency, reasons=reasons)


def host_conditions(
    before: HostSnapshot, after: HostSnapshot, own_cpu_seconds: float, elapsed: float, shared_from_cores: float
) -> Conditions:
    """`own_cpu_seconds` is the processor time of the worker; the rest of the busy time is others'.

    What the hypervisor gave to others counts as theirs. `shared_from_cores`: the protocol's rule.
    """
    values: dict[str, float | None] = {"other_cpu_cores": None, "steal_cpu_cores": None, "load_1_minute": None}
    reasons: dict[str, str] = {}
    if before.busy_seconds is None or after.busy_seconds is None or elapsed <= 0:
        reasons["other_cpu_cores"] = reasons["steal_cpu_cores"] = "/proc/stat cannot be read"
    else:
        others = max(0.0, after.busy_seconds - before.busy_seconds - own_cpu_seconds)
        values["other_cpu_cores"] = round(others / elapsed, 3)
        steal = (after.steal_seconds or 0.0) - (before.steal_seconds or 0.0)
        values["steal_cpu_cores"] = round(max(0.0, steal) / elapsed, 3)
    if before.throttled_seconds is None or after.throttled_seconds is None:
        values["cpu_throttled_seconds"] = None
        reasons["cpu_throttled_seconds"] = "no control group counts it here"
    else:
        values["cpu_throttled_seconds"] = round(after.throttled_seconds - before.throttled_seconds, 3)
    try:
        values["load_1_minute"] = os.getloadavg()[0]
    except OSError:
        reasons["load_1_minute"] = "the system has no load average"
    others_cores, stolen = values["other_cpu_cores"], values["steal_cpu_cores"]
    if others_cores is None or stolen is None:
        return Conditions(values, reasons, None, reasons["other_cpu_cores"])
    return Conditions(values, reasons, others_cores + stolen > shared_from_cores, None)


def with_clock(found: Conditions, result: Mapping[str, Any]) -> Conditions:
    """Add the processors' clock that the worker sampled in its pass."""
    clock = result.get("facts", {}).get("clock")
    if clock is None:
        return found
    return replace(found, values=found.values | clock["values"], reasons=found.reasons | clock["reasons"])
