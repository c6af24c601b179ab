"""Balance and attempts as tables: exact CSV for machines, formula-safe CSV for people (M22, NO-03).

In the exact tables a text is exactly the text. In the table for people a text cell that a spreadsheet
would run as a formula starts with an apostrophe, and numbers and separators are those of the note's language:
a German spreadsheet reads `1.849` as one thousand eight hundred and forty-nine.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from runner.decide.fairness import hold_back_surplus
from runner.decide.fates import judge_fates
from runner.decide.missing import missing_cells
from runner.decide.model import Balance, BalanceRow, Reason, Summary
from runner.evidence.attempt import Attempt, PhaseName
from runner.evidence.canonical import canonical_json
from runner.evidence.utilisation import with_fastest_rates
from runner.evidence.verdict import Verdict
from runner.units import exact_seconds

Cell = str | int | Decimal | bool | None
Row = dict[str, Cell]
# Languages that write decimals with a point, and part cells by commas; all others `1,5` and semicolons.
_DECIMAL_POINT = frozenset({"en", "he", "ja", "ko", "th", "zh"})
_BYTE_ORDER_MARK = "\ufeff"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(rows: Sequence[Row], columns: Sequence[str], *, for_people: bool = False) -> bytes:
    """UTF-8 CSV with LF; None is an empty cell, booleans are true and false."""
    return _csv([[_text(row.get(column), for_people) for column in columns] for row in rows], columns).encode("utf-8")


def spreadsheet_bytes(rows: Sequence[Row], columns: Sequence[str], language: str = "en") -> bytes:
    """The same for the spreadsheet of people who read this language: it opens with a double click.

    With a byte order mark (without one, Excel reads no UTF-8), the separator and the decimal mark that a spreadsheet
    of the language expects, and no cell that it would run as a formula.
    """
    point = language in _DECIMAL_POINT
    cells = [[_for_sheet(row.get(column), point) for column in columns] for row in rows]
    return (_BYTE_ORDER_MARK + _csv(cells, columns, "," if point else ";")).encode("utf-8")


def _csv(cells: Sequence[Sequence[str]], columns: Sequence[str], separator: str = ",") -> str:
    import pandas as pd

    frame = pd.DataFrame(cells, columns=list(columns), dtype=object)
    # Everything is quoted: a lone carriage return in an error message would end an unquoted cell.
    return str(frame.to_csv(index=False, sep=separator, lineterminator="\n", quoting=csv.QUOTE_ALL))


def _for_sheet(cell: Cell, point: bool) -> str:
    text = _text(cell, True)
    return text if point or not isinstance(cell, Decimal) else text.replace(".", ",")


def formula_safe(text: str) -> str:
    """The text with a leading apostrophe where a spreadsheet would read a formula."""
    return "'" + text if text.startswith(_FORMULA_STARTS) else text


def _text(cell: Cell, for_people: bool) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case Decimal():
            return format(cell, "f")
        case int():
            return str(cell)
        case _:
            return formula_safe(cell) if for_people else cell


# ---- attempts ------------------------------------------------------------------------------------

_PHASES = (PhaseName.DOWNLOAD, PhaseName.PROCESS_START, PhaseName.IMPORTS, PhaseName.LOAD, PhaseName.COMPILE,
           PhaseName.WARM_UP, PhaseName.EVALUATION, PhaseName.WRITING)  # fmt: skip
_PHASE_COLUMNS = {f"{phase.value}_seconds": phase for phase in _PHASES}
ATTEMPT_COLUMNS = (
    "attempt_id", "machine_id", "chain_index", "protocol_name", "protocol_revision", "lock_sha256",
    "gpu_declared", "devices_found", "variant_id", "series", "added_later", "corpus_id", "seed", "pass_index",
    "position", "retry_of", "status", "counts_as", "error_kind", "error_message", "started_at_utc",
    "ended_at_utc", "pass_seconds", *_PHASE_COLUMNS,
    "expected_ids", "observed_ids", "ids_match", "corpus_accepted", "verdict_reasons", "completed_documents",
    "real_tokens", "computed_tokens", "truncated_documents", "cut_tokens",
    "utilisation_real", "utilisation_executed", "memory_peaks", "device_shared", "recompilations", "requested",
    "effective", "predictions_path", "predictions_sha256", "manifest_sha256", "notes", "missing",
)  # fmt: skip
# For people the reason stands in the empty cell itself.
PEOPLE_COLUMNS = tuple(column for column in ATTEMPT_COLUMNS if column != "missing")


def attempt_rows(
    attempts: Sequence[Attempt],
    verdicts: Mapping[str, Verdict],
    excluded: Mapping[str, str],
    passes_planned: int | None = None,
) -> list[Row]:
    """One row per attempted pass, in schedule order, joined to its verdict; `missing` says why a cell is empty.

    `passes_planned`: passes beyond it that not every variant has count as nothing here too (M3).
    """
    rows = []
    judged = judge_fates(with_fastest_rates(attempts), verdicts, excluded)
    if passes_planned is not None:
        judged, _ = hold_back_surplus(judged, passes_planned)
    for item in judged:
        attempt, verdict = item.attempt, item.verdict
        ids = None if verdict is None else verdict.ids
        phases = {phase.name: phase.seconds for phase in attempt.phases if not phase.inside_pass}
        row: Row = {
            "attempt_id": attempt.attempt_id,
            "machine_id": attempt.chain.machine_id,
            "chain_index": attempt.chain.index,
            "protocol_name": attempt.protocol_name,
            "protocol_revision": attempt.protocol_revision,
            "lock_sha256": attempt.lock_sha256,
            "gpu_declared": attempt.gpu_declared,
            "devices_found": "; ".join(attempt.devices_found),
            "variant_id": attempt.variant_id,
            "series": attempt.series,
            "added_later": attempt.added_later,
            "corpus_id": attempt.corpus_id,
            "seed": attempt.seed,
            "pass_index": attempt.slot.pass_index,
            "position": attempt.slot.position,
            "retry_of": attempt.retry_of,
            "status": attempt.status.value,
            "counts_as": "excluded" if attempt.attempt_id in excluded else item.fate.value,
            "error_kind": None if attempt.error is None else attempt.error.kind,
            "error_message": None if attempt.error is None else attempt.error.message,
            "started_at_utc": attempt.started_at_utc,
            "ended_at_utc": attempt.ended_at_utc,
            "pass_seconds": _seconds(attempt.pass_seconds),
            **{column: _seconds(phases.get(phase)) for column, phase in _PHASE_COLUMNS.items()},
            "expected_ids": attempt.expected_documents if ids is None else ids.expected_ids,
            "observed_ids": None if ids is None else ids.observed_ids,
            "ids_match": None if ids is None else ids.ids_match,
            "corpus_accepted": None if verdict is None else verdict.accepted,
            "verdict_reasons": _verdict_words(verdict),
            "completed_documents": attempt.completed_documents,
            "memory_peaks": _json([peak.as_json() for peak in attempt.memory]) if attempt.memory else None,
            "device_shared": attempt.device_shared,
            "recompilations": attempt.recompilations,
            "requested": _json(attempt.requested.as_json()),
            "effective": None if attempt.effective is None else _json(attempt.effective.as_json()),
            "predictions_path": None if attempt.predictions is None else attempt.predictions.path,
            "predictions_sha256": None if attempt.predictions is None else attempt.predictions.sha256,
            "manifest_sha256": attempt.manifest_sha256,
            "notes": "; ".join(attempt.notes),
        }
        row |= _utilisation(attempt)
        if attempt.tokens is not None:
            row |= attempt.tokens.as_json()
        empty = [column for column in PEOPLE_COLUMNS if row.get(column) in (None, "")]
        row["missing"] = _json(missing_cells(empty, attempt, verdict, _PHASE_COLUMNS))
        rows.append(row)
    return rows


def rows_for_people(rows: Sequence[Row]) -> list[Row]:
    """Rows of attempts in which an empty cell says why it is empty."""
    return [row | json.loads(str(row["missing"])) for row in rows]


def _utilisation(attempt: Attempt) -> Row:
    """Share of the device's own matrix rate: of the texts' operations, and of those really executed."""
    row: Row = {}
    for kind in ("utilisation_real", "utilisation_executed"):
        value = attempt.telemetry.get(kind)
        row[kind] = _seconds(value) if isinstance(value, float) else None
    return row


def _seconds(value: float | None) -> Decimal | None:
    return None if value is None else exact_seconds(value)


def _verdict_words(verdict: Verdict | None) -> str:
    return "no verdict" if verdict is None else "; ".join(verdict.reasons)


def _json(value: object) -> str:
    return canonical_json(value).decode("utf-8")


# ---- balance -------------------------------------------------------------------------------------

BALANCE_COLUMNS = (
    "configuration_id", "gpu", "variant_id", "series", "added_later", "measured", "own_machine", "admissible",
    "first_failed", "all_failed", "corpus_id", "seed", "attempts", "accepted", "failures", "not_counted",
    "raw_seconds", "median_seconds", "minimum_seconds", "maximum_seconds", "range_seconds", "documents_per_second",
    "real_tokens", "computed_tokens", "truncated_documents", "window_seconds", "deadline_slack_seconds", "package_days",
    "lots", "cards", "committed_cost", "currency", "may_be_cheaper", "deliverables_accepted",
    "cost_per_validated_corpus",
)  # fmt: skip


def balance_rows(balance: Balance) -> list[Row]:
    """One row per configuration, corpus and seed; a value that does not exist is said in words, never left empty."""
    rows: list[Row] = []
    for row in balance.rows:
        shared = _configuration_cells(row)
        if not row.summaries:
            blank = str(row.window_reason or "not measured")
            rows.append({column: shared.get(column, blank) for column in BALANCE_COLUMNS})
        rows.extend(shared | _summary_cells(summary) for summary in row.summaries)
    return rows


def _configuration_cells(row: BalanceRow) -> Row:
    package, window = row.package, row.window
    no_package = _words(row.package_reason)
    failed = [c.name for c in row.constraints if c.status in ("not met", "not assessable")]
    return {
        "configuration_id": row.configuration_id,
        "gpu": row.gpu,
        "variant_id": row.variant_id,
        "series": row.series or "none",
        "added_later": row.added_later,
        "measured": row.measured,
        "own_machine": row.own_machine,
        "admissible": row.admissible,
        "first_failed": row.first_failed or "none",
        "all_failed": "; ".join(failed) or "none",
        "window_seconds": _words(row.window_reason) if window is None else Decimal(window.window_seconds),
        "deadline_slack_seconds": _words(row.window_reason)
        if window is None
        else Decimal(window.deadline_slack_seconds),
        "package_days": no_package if package is None else (package.days or package.billing),
        "lots": no_package if package is None else package.lots,
        "cards": no_package if package is None else package.cards,
        "committed_cost": _words(row.committed_cost_reason)
        if row.committed_cost is None
        else Decimal(row.committed_cost),
        "currency": row.currency or no_package,
        "may_be_cheaper": no_package if package is None else package.may_be_cheaper,
        "deliverables_accepted": "; ".join(row.deliverables_accepted) or "none",
        "cost_per_validated_corpus": (
            _words(row.cost_per_validated_corpus_reason)
            if row.cost_per_validated_corpus is None
            else Decimal(row.cost_per_validated_corpus)
        ),
    }


def _summary_cells(summary: Summary) -> Row:
    none = "no accepted pass"

    def number(text: str | None, otherwise: str = none) -> Cell:
        return otherwise if text is None else Decimal(text)

    def count(value: int | None) -> Cell:
        return "not known" if value is None else value

    return {
        "corpus_id": summary.corpus_id,
        "seed": summary.seed,
        "attempts": summary.attempts,
        "accepted": summary.accepted,
        "failures": summary.failures,
        "not_counted": summary.not_counted,
        "raw_seconds": "; ".join(format(exact_seconds(value), "f") for value in summary.raw_seconds) or none,
        "median_seconds": number(summary.median_seconds),
        "minimum_seconds": number(summary.minimum_seconds),
        "maximum_seconds": number(summary.maximum_seconds),
        "range_seconds": number(summary.range_seconds, _words(summary.range_reason)),
        "documents_per_second": number(summary.documents_per_second),
        "real_tokens": count(summary.real_tokens),
        "computed_tokens": count(summary.computed_tokens),
        "truncated_documents": count(summary.truncated_documents),
    }


def _words(reason: Reason | None) -> str:
    return "not applicable" if reason is None else reason.text
