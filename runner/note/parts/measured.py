"""What was measured: durations, memory, work in tokens (M24, M30). No percentiles exist here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from runner.decide.model import BalanceRow, Summary
from runner.evidence.attempt import Attempt, Status
from runner.evidence.utilisation import with_fastest_rates
from runner.note.evidence import Evidence
from runner.note.parts.tables import attempts_of
from runner.note.words import NOTHING, Speaker
from runner.units import exact_seconds

_MOST_RAW = 10  # durations in one cell: what a protocol usually plans at most
_RATE_DIGITS = 3  # of texts per second
# A kept process names in every attempt how many it served before: one counter all the same.
_SERVED = re.compile(r"this worker process \(attempts served before: (\d+)\)")
_ALONE = "this worker process only"


def durations(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """One row per configuration, corpus and seed, with every raw duration; whether any pass was accepted."""
    return {
        "rows": [_duration_row(name, summary, speaker) for name, _, summary in _named(evidence, speaker)],
        "accepted": any(summary.accepted for row in evidence.measured_rows for summary in row.summaries),
    }


def _named(evidence: Evidence, speaker: Speaker) -> Iterator[tuple[str, BalanceRow, Summary]]:
    """Every summary with its configuration's name; of several corpora or seeds, with these too."""
    several = len(evidence.lock.judgement.corpora) > 1 or len(evidence.protocol.measurement.seeds) > 1
    for row in evidence.shown_rows:
        for summary in row.summaries:
            seed = speaker.catalogue.gettext("seed %(seed)s", seed=str(summary.seed))
            more = f" · {summary.corpus_id} · {seed}" if several else ""
            yield row.configuration_id + more, row, summary


def _duration_row(name: str, summary: Summary, speaker: Speaker) -> dict[str, str]:
    fmt = speaker.fmt
    raw = [exact_seconds(value) for value in summary.raw_seconds]
    places = places_of(max(raw, default=Decimal(1)))

    def shown(text: str | None) -> str:
        return fmt.decimal(text, places) if text is not None else NOTHING

    return {
        "name": name,
        "raw": _raw(raw, places, speaker),
        "median": shown(summary.median_seconds),
        "minimum": shown(summary.minimum_seconds),
        "maximum": shown(summary.maximum_seconds),
        "range": shown(summary.range_seconds),
        "accepted": str(summary.accepted),
        "failures": str(summary.failures),
        "not_counted": str(summary.not_counted),
        "truncated": _count(summary.truncated_documents, speaker),
        "rate": _rate(summary.documents_per_second, speaker),
    }


def _raw(raw: list[Decimal], places: int, speaker: Speaker) -> str:
    """Every duration; of very many the first ones, and how many more the attached table holds."""
    shown = " · ".join(speaker.fmt.decimal(value, places) for value in raw[:_MOST_RAW]) or NOTHING
    more = len(raw) - _MOST_RAW
    if more <= 0:
        return shown
    rest = speaker.catalogue.ngettext(
        "%(count)s more in note/attempts.csv",
        "%(count)s more in note/attempts.csv",
        more,
        count=speaker.fmt.integer(more),
    )
    return f"{shown} … {rest}"


def places_of(largest: Decimal) -> int:
    """Decimals so that durations keep about four figures: 0.512, 12.35, 754.2."""
    return 3 if largest < 10 else 2 if largest < 100 else 1


def memory(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Largest peak per device and counter; counters are never added."""
    fmt = speaker.fmt
    rows: list[dict[str, str]] = []
    scopes: dict[tuple[str, str], int] = {}
    for row in evidence.shown_rows:
        peaks: dict[tuple[str, str, str], int] = {}
        for device, counter, scope, count in (peak for summary in row.summaries for peak in summary.peak_memory):
            alone, served = _one_process(scope)
            key = (device, counter, alone)
            peaks[key] = max(count, peaks.get(key, 0))
            scopes[counter, alone] = max(served, scopes.get((counter, alone), 0))
        capacity = {
            peak.device: peak.capacity_bytes
            for attempt in attempts_of(evidence, row)
            for peak in attempt.memory
            if peak.capacity_bytes is not None
        }
        for (device, counter, _), count in peaks.items():
            limit = capacity.get(device)
            rows.append(
                {
                    "name": row.configuration_id,
                    "device": device,
                    "counter": _counter(counter, speaker),
                    "peak": fmt.bytes(count),
                    "capacity": fmt.bytes(limit) if limit else speaker.catalogue.gettext("not known"),
                    "share": fmt.percent(Decimal(count) / Decimal(limit)) if limit else NOTHING,
                }
            )
    return {
        "rows": rows,
        "scopes": [
            {"counter": _counter(counter, speaker), "scope": speaker.recorded(_of_several(scope, served))}
            for (counter, scope), served in sorted(scopes.items())
        ],
    }


def _counter(name: str, speaker: Speaker) -> str:
    """A counter's own name, with our words behind it in the language of the note."""
    own = name.removesuffix(" before the pass")
    return name if own == name else speaker.catalogue.gettext("%(counter)s before the pass", counter=own)


def _one_process(scope: str) -> tuple[str, int]:
    """The scope as of a process of its own, and how many attempts the process had served before (0: none)."""
    found = _SERVED.search(scope)
    return (scope, 0) if found is None else (_SERVED.sub(_ALONE, scope), int(found[1]))


def _of_several(scope: str, served: int) -> str:
    """The scope again, with the most attempts that a process had served before."""
    return scope.replace(_ALONE, f"this worker process (attempts served before: at most {served})") if served else scope


def waste(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Tokens of the texts against tokens computed: the difference is padding."""
    fmt = speaker.fmt
    rows = []
    for name, _, summary in _named(evidence, speaker):
        real, computed = summary.real_tokens, summary.computed_tokens
        padding = None if real is None or not computed else Decimal(computed - real) / Decimal(computed)
        rows.append(
            {
                "name": name,
                "real": NOTHING if real is None else fmt.integer(real),
                "computed": NOTHING if computed is None else fmt.integer(computed),
                "padding": NOTHING if padding is None else fmt.percent(padding),
                "truncated": _count(summary.truncated_documents, speaker),
                "cut": _count(summary.cut_tokens, speaker),
            }
        )
    return {"rows": rows if any(row["computed"] != NOTHING for row in rows) else []}


def utilisation(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Share of the device's own matrix rate: of the texts' operations, and of those executed; unknown has a reason."""
    rows = []
    told = {attempt.attempt_id: attempt for attempt in with_fastest_rates(evidence.counted_attempts)}
    for name, row, summary in _named(evidence, speaker):
        shares = {"utilisation_real": summary.utilisation_real, "utilisation_executed": summary.utilisation_executed}
        counts = dict(zip(shares, summary.utilisation_passes, strict=True))
        unknown = [key for key in shares if counts[key] < max(1, summary.accepted)]
        real, executed = (_share(value, counts[key], summary.accepted, speaker) for key, value in shares.items())
        passes = [told[one.attempt_id] for one in attempts_of(evidence, row) if evidence.accepted(one)]
        why = _why_unknown(passes, summary, unknown)
        said = speaker.parted([speaker.recorded(reason) for reason in why]) or NOTHING
        rows.append({"name": name, "real": real, "executed": executed, "why": said})
    return {"rows": rows, "some_unknown": any(row["why"] != NOTHING for row in rows)}


def _share(value: str | None, count: int, accepted: int, speaker: Speaker) -> str:
    """`63.9%`; where not every accepted pass has a share, with how many have one."""
    if value is None:
        return NOTHING
    shown = speaker.fmt.percent(Decimal(value))
    if count == accepted:
        return shown
    return speaker.catalogue.gettext(
        "%(share)s (%(count)s of %(all)s passes)", share=shown, count=str(count), all=str(accepted)
    )


def _why_unknown(attempts: Sequence[Attempt], summary: Summary, names: Sequence[str]) -> list[str]:
    """Reasons of the accepted passes behind a summary, each once, in schedule order."""
    passes = [
        attempt
        for attempt in attempts
        if (attempt.corpus_id, attempt.seed) == (summary.corpus_id, summary.seed) and attempt.status is Status.COMPLETED
    ]
    lacking = [(one, name) for one in passes for name in names if one.telemetry.get(name) is None]
    found = dict.fromkeys(one.telemetry_reasons.get(name, "not measured") for one, name in lacking)
    return list(found) or (["no accepted pass"] if names else [])


def _rate(value: str | None, speaker: Speaker) -> str:
    """Texts per second, to three significant digits at least."""
    if not value:
        return NOTHING
    exact = Decimal(value)
    places = max(0, _RATE_DIGITS - 1 - exact.adjusted()) if exact else 1
    return speaker.fmt.decimal(value, places)


def _count(value: int | None, speaker: Speaker) -> str:
    return NOTHING if value is None else speaker.fmt.integer(value)
