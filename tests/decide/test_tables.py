"""Tables: exact for machines, formula-safe for people (NO-03); an empty cell has its reason (M22)."""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.decide.missing import NOT_SAID
from runner.decide.tables import (
    ATTEMPT_COLUMNS,
    BALANCE_COLUMNS,
    PEOPLE_COLUMNS,
    Row,
    attempt_rows,
    balance_rows,
    csv_bytes,
    formula_safe,
    rows_for_people,
)
from runner.evidence.attempt import Attempt, ErrorInfo, FileReference, Phase, PhaseName, Status
from runner.evidence.verdict import Verdict
from tests.decide.worlds import World

_PHASES = ("process_start", "imports", "download", "load", "compile", "warm_up", "evaluation", "writing")
CASE = Path(__file__).parents[1] / "cases" / "NO-03"


def _read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))


def test_no_03_six_cells_get_an_apostrophe_and_the_negative_amount_stays_a_number() -> None:
    records = [json.loads(line) for line in (CASE / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    (cost,) = json.loads((CASE / "costs.json").read_text(encoding="utf-8"))
    rows: list[Row] = [{**record, "difference": Decimal(cost["difference"])} for record in records]
    columns = ("id", "label", "note", "difference")
    exact, shown = _read(csv_bytes(rows, columns)), _read(csv_bytes(rows, columns, for_people=True))
    assert [row["id"] for row in exact] == ["=1+1", "+cmd", "-2+3", "ok"]
    assert [row["note"] for row in exact] == [record["note"] for record in records]
    changed = [(row, column) for row in range(4) for column in columns if exact[row][column] != shown[row][column]]
    assert len(changed) == 6
    assert all(shown[row][column] == "'" + exact[row][column] for row, column in changed)
    assert {row["difference"] for row in shown} == {"-5.00"}


@pytest.mark.parametrize("text", ["a\rb", "a\nb", 'a"b', "a,b", "\r", "", " ", "é\u2028x", "NA", "001"])
def test_exact_table_gives_every_text_back(text: str) -> None:
    (row,) = _read(csv_bytes([{"id": text, "other": "x"}], ("id", "other")))
    assert row["id"] == text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_each_formula_start_is_made_text(start: str) -> None:
    assert formula_safe(start + "1") == "'" + start + "1"
    assert formula_safe("1" + start) == "1" + start


def test_an_empty_table_has_its_header() -> None:
    assert csv_bytes([], ("a", "b")) == b'"a","b"\n'


def test_ti_07_undefined_is_a_word() -> None:
    """TI-07: money spent stands, the cost per corpus is undefined, and no cell is empty."""
    world = World()
    world.add("A", "b1", None, status=Status.KILLED, completed=12)
    rows = _read(csv_bytes(balance_rows(world.balance()), BALANCE_COLUMNS))
    assert rows[0]["committed_cost"] == "300.00"
    assert rows[0]["cost_per_validated_corpus"].startswith("undefined")
    assert rows[0]["median_seconds"] == "no accepted pass"
    assert all(cell for row in rows for cell in row.values())


# What a row may lack, whatever became of the attempt; a field that can be null has a reason of its own or follows.
_LACKING: dict[str, object] = {
    "series": None, "retry_of": None, "error": None, "ended_at_utc": None, "pass_seconds": None,
    "completed_documents": None, "tokens": None, "memory": (), "effective": None, "recompilations": None,
    "device_shared": None, "predictions": None, "manifest_sha256": None, "devices_found": (), "notes": (),
    "phases": (), "telemetry": {},
}  # fmt: skip


def _complete(status: Status) -> tuple[Attempt, Verdict]:
    """An attempt that lacks nothing, except that the verdict of an accepted one gives no reasons."""
    world = World()
    made = world.add("A", "b1", "10.5")
    full = made.model_copy(
        update={
            "status": status,
            "retry_of": "a9",
            "error": ErrorInfo(kind="x", message="=what; it: was"),
            "ended_at_utc": "2026-12-01T10:00:00Z",
            "effective": made.requested,
            "recompilations": 0,
            "device_shared": False,
            "predictions": FileReference(path="records/p.parquet", sha256="1" * 64),
            "notes": ("-5.00",),
            "phases": tuple(Phase(name=PhaseName(name), seconds=0.5) for name in _PHASES),
            "telemetry": {"utilisation_real": 0.25, "utilisation_executed": 0.5},
        }
    )
    return full, world.verdicts[0]


@settings(max_examples=100, deadline=None)
@given(
    status=st.sampled_from(Status), lacking=st.sets(st.sampled_from(sorted(_LACKING))), judged=st.booleans(),
    reasons=st.booleans(), unsaid_phases=st.sets(st.sampled_from(_PHASES)),
)  # fmt: skip
def test_m22_ti_07_every_empty_cell_of_every_row_has_its_reason(
    status: Status, lacking: set[str], judged: bool, reasons: bool, unsaid_phases: set[str]
) -> None:
    """M22: an empty cell plus a reason; TI-07: for people no empty cell at all. No reason is left over."""
    attempt, verdict = _complete(status)
    changes = {name: _LACKING[name] for name in lacking}
    if "phases" not in lacking:
        changes["phases"] = tuple(
            Phase(name=item.name, seconds=None, reason="nothing is compiled") if item.name.value in unsaid_phases
            else item for item in attempt.phases
        )  # fmt: skip
    attempt = attempt.model_copy(update=changes)
    if reasons:
        verdict = verdict.model_copy(update={"accepted": False, "ids": None, "reasons": ("predictions: unreadable",)})
    verdicts = {attempt.attempt_id: verdict} if judged or status is Status.COMPLETED else {}
    rows = attempt_rows([attempt], verdicts, {})
    (exact,) = _read(csv_bytes(rows, ATTEMPT_COLUMNS))
    (shown,) = _read(csv_bytes(rows_for_people(rows), PEOPLE_COLUMNS, for_people=True))
    missing = json.loads(exact["missing"])
    assert list(missing) == sorted(column for column, cell in exact.items() if cell == "")
    assert NOT_SAID not in missing.values()
    for column in PEOPLE_COLUMNS:
        if exact[column]:
            assert shown[column].removeprefix("'") == exact[column], "what is known is the same in both"
        else:
            assert shown[column] == missing[column]
            assert re.match(r"(unknown|not applicable): \S", shown[column])
    assert not {cell.lower() for cell in shown.values()} & {"", "nan", "null", "none", "inf"}


def test_m22_the_reasons_are_those_of_the_row() -> None:
    """RE-01: a killed attempt says of every measurement why it is not there; nothing of it is called 0."""
    world = World()
    world.add("A", "b1", None, status=Status.KILLED, completed=12, pass_seconds_reason="killed in entry 13",
              tokens_reason="the worker was killed", memory_reason="no sample was kept",
              recompilations_reason="the worker was killed", device_shared_reason="the counter needs root")  # fmt: skip
    world.attempts[0] = world.attempts[0].model_copy(update={"device_shared": None})
    (row,) = attempt_rows(world.attempts, {verdict.attempt_id: verdict for verdict in world.verdicts}, {})
    missing = json.loads(str(row["missing"]))
    assert missing["pass_seconds"] == "unknown: killed in entry 13"
    assert missing["real_tokens"] == missing["cut_tokens"] == "unknown: the worker was killed"
    assert missing["memory_peaks"] == "unknown: no sample was kept"
    assert missing["recompilations"] == "unknown: the worker was killed"
    assert missing["device_shared"] == "unknown: the counter needs root"
    assert missing["load_seconds"] == "unknown: the row holds no such phase (status killed)"
    assert missing["predictions_path"] == "not applicable: no predictions were written (status killed)"
    assert missing["retry_of"] == "not applicable: not a retry of another attempt"
    assert missing["observed_ids"] == missing["ids_match"] and missing["ids_match"].startswith("unknown: ")
    assert row["completed_documents"] == 12 and "completed_documents" not in missing


def test_m17_a_phase_that_was_not_needed_is_told_from_one_that_is_not_known() -> None:
    attempt, verdict = _complete(Status.COMPLETED)
    phases = (
        Phase(name=PhaseName.COMPILE, seconds=None, reason="nothing is compiled"),
        Phase(name=PhaseName.LOAD, seconds=None, reason="the clock failed"),
        Phase(name=PhaseName.IMPORTS, seconds=0.0),
    )
    rows = attempt_rows([attempt.model_copy(update={"phases": phases})], {attempt.attempt_id: verdict}, {})
    missing = json.loads(str(rows[0]["missing"]))
    assert missing["compile_seconds"] == "not applicable: nothing is compiled"
    assert missing["load_seconds"] == "unknown: the clock failed"
    assert missing["warm_up_seconds"] == "unknown: the row holds no such phase (status completed)"
    assert "imports_seconds" not in missing and rows[0]["imports_seconds"] == 0, "a measured zero is a number"
