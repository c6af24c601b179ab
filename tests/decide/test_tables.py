"""Tables: exact for machines, formula-safe for people (NO-03)."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

from runner.decide.tables import BALANCE_COLUMNS, Row, balance_rows, csv_bytes, formula_safe
from runner.evidence.attempt import Status
from tests.decide.worlds import World

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
