"""What was measured: durations, memory, work in tokens (M24, M30). No percentiles exist here."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runner.decide.model import BalanceRow, Summary
from runner.note.evidence import Evidence
from runner.note.parts.tables import attempts_of
from runner.note.words import NOTHING, Speaker
from runner.units import exact_seconds

_MOST_RAW = 30


def durations(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """One row per configuration, corpus and seed, with every raw duration."""
    several = len(evidence.lock.judgement.corpora) > 1 or len(evidence.protocol.measurement.seeds) > 1
    pairs = [(row, summary) for row in evidence.measured_rows for summary in row.summaries]
    return {"rows": [_duration_row(row, summary, several, speaker) for row, summary in pairs]}


def _duration_row(row: BalanceRow, summary: Summary, several: bool, speaker: Speaker) -> dict[str, str]:
    fmt = speaker.fmt
    raw = [exact_seconds(value) for value in summary.raw_seconds]
    places = places_of(max(raw, default=Decimal(1)))
    name = row.configuration_id + (f" · {summary.corpus_id} · seed {summary.seed}" if several else "")

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
        "rate": fmt.decimal(summary.documents_per_second, 1) if summary.documents_per_second else NOTHING,
    }


def _raw(raw: list[Decimal], places: int, speaker: Speaker) -> str:
    """Every duration; of very many the first ones, and how many more the attached table holds."""
    shown = " · ".join(speaker.fmt.decimal(value, places) for value in raw[:_MOST_RAW]) or NOTHING
    more = len(raw) - _MOST_RAW
    if more <= 0:
        return shown
    rest = speaker.catalogue.ngettext("%(count)s more in the record", "%(count)s more in the record", more)
    return f"{shown} … {rest}"


def places_of(largest: Decimal) -> int:
    """Decimals so that durations keep about four figures: 0.512, 12.35, 754.2."""
    return 3 if largest < 10 else 2 if largest < 100 else 1


def memory(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Largest peak per device and counter; counters are never added."""
    fmt = speaker.fmt
    rows: list[dict[str, str]] = []
    scopes: dict[tuple[str, str], None] = {}
    for row in evidence.measured_rows:
        peaks = [peak for summary in row.summaries for peak in summary.peak_memory]
        capacity = {
            peak.device: peak.capacity_bytes
            for attempt in attempts_of(evidence, row)
            for peak in attempt.memory
            if peak.capacity_bytes is not None
        }
        for device, counter, scope, count in peaks:
            limit = capacity.get(device)
            scopes[counter, scope] = None
            rows.append(
                {
                    "name": row.configuration_id,
                    "device": device,
                    "counter": counter,
                    "peak": fmt.bytes(count),
                    "capacity": fmt.bytes(limit) if limit else speaker.catalogue.gettext("not known"),
                    "share": fmt.percent(Decimal(count) / Decimal(limit)) if limit else NOTHING,
                }
            )
    return {
        "rows": rows,
        "scopes": [{"counter": name, "scope": speaker.recorded(scope)} for name, scope in sorted(scopes)],
    }


def waste(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Tokens of the texts against tokens computed: the difference is padding."""
    fmt = speaker.fmt
    rows = []
    for row in evidence.measured_rows:
        for summary in row.summaries:
            real, computed = summary.real_tokens, summary.computed_tokens
            padding = None if real is None or not computed else Decimal(computed - real) / Decimal(computed)
            rows.append(
                {
                    "name": row.configuration_id,
                    "real": NOTHING if real is None else fmt.integer(real),
                    "computed": NOTHING if computed is None else fmt.integer(computed),
                    "padding": NOTHING if padding is None else fmt.percent(padding),
                    "truncated": _count(summary.truncated_documents, speaker),
                    "cut": _count(summary.cut_tokens, speaker),
                }
            )
    return {"rows": rows}


def _count(value: int | None, speaker: Speaker) -> str:
    return NOTHING if value is None else speaker.fmt.integer(value)
