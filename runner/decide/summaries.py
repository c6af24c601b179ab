"""Summaries of durations: every raw value, exact median, smallest, largest; never a percentile (M30)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from typing import TypeVar

from runner.decide.fates import Fate, Judged
from runner.decide.model import Summary
from runner.decide.sentences import say
from runner.evidence.attempt import Attempt, MemoryPeak
from runner.units import exact_seconds, round_half_up

_EXACT_DIGITS = 80
_SHOWN_PLACES = 6

Value = TypeVar("Value")


def median(values: Sequence[Decimal]) -> Decimal:
    """Exact middle value; the exact mean of the two middle ones when their number is even (TI-05)."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    with localcontext(prec=_EXACT_DIGITS):
        return (ordered[middle - 1] + ordered[middle]) / 2


def decimal_text(value: Decimal) -> str:
    """Plain digits without an exponent."""
    return format(value, "f")


def summarise(configuration_id: str, corpus_id: str, seed: int, judged: Sequence[Judged], *, documents: int) -> Summary:
    """Summary of the attempts of one configuration on one corpus with one seed. `judged` in schedule order."""
    accepted = [item.attempt for item in judged if item.fate is Fate.ACCEPTED]
    timed = [(a.pass_seconds, a.device_shared) for a in accepted if a.pass_seconds is not None]
    seconds = [value for value, _ in timed]
    shares = [_utilisation(accepted, name) for name in ("utilisation_real", "utilisation_executed")]
    exact = [exact_seconds(value) for value in seconds]
    middle = median(exact) if exact else None
    tokens = [attempt.tokens for attempt in accepted]
    return Summary(
        configuration_id=configuration_id,
        corpus_id=corpus_id,
        seed=seed,
        raw_seconds=tuple(seconds),
        shared=tuple(others for _, others in timed),
        median_seconds=None if middle is None else decimal_text(middle),
        minimum_seconds=decimal_text(min(exact)) if exact else None,
        maximum_seconds=decimal_text(max(exact)) if exact else None,
        range_seconds=decimal_text(_difference(exact)) if len(exact) > 1 else None,
        range_reason=None if len(exact) > 1 else say("range.undefined", n_count=str(len(exact))),
        attempts=len(judged),
        accepted=len(accepted),
        failures=sum(item.fate is Fate.FAILURE for item in judged),
        not_counted=sum(item.fate is Fate.NOT_COUNTED for item in judged),
        documents=documents,
        documents_per_second=_rate(documents, middle),
        real_tokens=_agreed(None if count is None else count.real_tokens for count in tokens),
        computed_tokens=_agreed(None if count is None else count.computed_tokens for count in tokens),
        truncated_documents=_agreed(None if count is None else count.truncated_documents for count in tokens),
        cut_tokens=_agreed(None if count is None else count.cut_tokens for count in tokens),
        utilisation_real=shares[0][0],
        utilisation_executed=shares[1][0],
        utilisation_passes=(shares[0][1], shares[1][1]),
        peak_memory=_largest_peaks(peak for attempt in accepted for peak in attempt.memory),
    )


def _difference(values: Sequence[Decimal]) -> Decimal:
    with localcontext(prec=_EXACT_DIGITS):
        return max(values) - min(values)


def _rate(documents: int, seconds: Decimal | None) -> str | None:
    if not seconds:
        return None
    with localcontext(prec=_EXACT_DIGITS):
        return decimal_text(round_half_up(Decimal(documents) / seconds, _SHOWN_PLACES))


def _utilisation(accepted: Sequence[Attempt], name: str) -> tuple[str | None, int]:
    """Median over the accepted passes that have such a value, and how many have one."""
    values = [attempt.telemetry.get(name) for attempt in accepted]
    known = [Decimal(repr(value)) for value in values if isinstance(value, float)]
    return (decimal_text(median(known)) if known else None), len(known)


def _agreed(values: Iterable[Value]) -> Value | None:
    """The value that every pass has; null where they differ, or where there is none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _largest_peaks(peaks: Iterable[MemoryPeak]) -> tuple[tuple[str, str, str, int], ...]:
    """Largest value per device, counter and scope; different counters are never added (M24)."""
    largest: dict[tuple[str, str, str], int] = {}
    for peak in peaks:
        if peak.bytes is not None:
            key = (peak.device, peak.counter, peak.scope)
            largest[key] = max(peak.bytes, largest.get(key, 0))
    return tuple((*key, value) for key, value in sorted(largest.items()))
