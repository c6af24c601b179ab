"""Parquet files that no reader expects: a failed check of their row, never a fault of ours (RE-08, M28).

Whatever one file holds, `validate` writes the verdicts of all rows; numbers that are not finite are found in
every form in which Parquet can nest them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.protocol.freeze import freeze
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

IDS = pa.array([row[0] for row in ROWS])
LABELS = pa.array([row[2] for row in ROWS])
SCORES = pa.array([0.9] * len(ROWS))
NAN, INF = float("nan"), float("inf")
Write = Callable[[Path], None]


def each(value: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([value] * len(ROWS), kind)


def with_column(name: str, column: pa.Array) -> Write:
    def write(path: Path) -> None:
        columns = {"id": IDS, "label": LABELS, "score": SCORES} | {name: column}
        pq.write_table(pa.table(columns), path)

    return write


def twice(name: str, column: pa.Array) -> Write:
    def write(path: Path) -> None:
        table = pa.Table.from_arrays([IDS, LABELS, column, column], names=["id", "label", name, name])
        pq.write_table(table, path)

    return write


def name_is_no_text(path: Path) -> None:
    """A footer whose column name is no UTF-8."""
    with_column("extra", SCORES)(path)
    path.write_bytes(path.read_bytes().replace(b"extra", b"\xff\xfetra"))


NESTED: dict[str, pa.Array] = {
    "list": each([0.5, NAN]),
    "large list": each([0.5, INF], pa.large_list(pa.float64())),
    "fixed list": each([NAN, INF], pa.list_(pa.float64(), 2)),
    "list of lists": each([[0.5], [-INF]]),
    "struct": each({"neg": 0.5, "pos": NAN}),
    "struct of lists": each({"neg": [0.5, NAN]}),
    "list of structs": each([{"neg": INF}]),
    "map": each([("neg", NAN)], pa.map_(pa.string(), pa.float64())),
    "float32": each([NAN], pa.list_(pa.float32())),
    "plain number": each(NAN),
}
FINITE: dict[str, pa.Array] = {
    "list": each([0.5, 0.5]),
    "fixed list": each([0.5, 0.5], pa.list_(pa.float64(), 2)),
    "struct": each({"neg": 0.5, "pos": 0.5}),
    "map": each([("neg", 0.5)], pa.map_(pa.string(), pa.float64())),
    "whole numbers": each([0, 1]),
    "exact numbers": each([Decimal("0.5")]),
    "a struct that is missing in some rows": pa.array([{"neg": 0.5}, None] * (len(ROWS) // 2)),
    "none": pa.nulls(len(ROWS)),
}
NO_NUMBERS: dict[str, pa.Array] = {
    "texts": each(["x"]),
    "bytes": each([b"\xff"]),
    "instants": each([datetime(2020, 1, 1, tzinfo=UTC)]),
    "truth values": each([True]),
    "one text": each("x"),
}
UNREADABLE: dict[str, tuple[Write, str]] = {
    "int64 beyond 2^53": (with_column("score", each(2**62 + 1, pa.int64())), "scores"),
    "uint64 beyond 2^53": (with_column("score", each(2**64 - 1, pa.uint64())), "scores"),
    "score twice": (twice("score", SCORES), "predictions"),
    "scores twice": (twice("scores", each([0.1])), "predictions"),
    "label twice": (twice("label", LABELS), "predictions"),
    "name is no text": (name_is_no_text, "predictions"),
    **{f"scores of {name}": (with_column("scores", column), "predictions") for name, column in NO_NUMBERS.items()},
    **{f"not finite: {name}": (with_column("scores", column), "scores") for name, column in NESTED.items()},
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_one_odd_file_is_a_failed_check_of_its_row_and_all_others_keep_their_verdicts(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M28, DESIGN 4: exit 3, the check named in that row's verdict; the verdicts of the other rows are written."""
    write, check = UNREADABLE[kind]
    campaign = make_campaign(tmp_path / "campaign")
    lock = freeze(campaign)
    for number, variant in enumerate(("b1", "b4", "b8")):
        path = campaign.predictions / f"a{number:03d}.parquet"
        write_predictions(path, [(row[0], row[2]) for row in ROWS])
        if number == 1:
            write(path)
        store_attempt(campaign, make_attempt(campaign, lock, path, number=number, variant=variant))
    assert run(["--campaign", str(campaign.root), "validate"]) == 3, capsys.readouterr()
    verdicts = {path.stem: json.loads(path.read_bytes()) for path in campaign.verdicts.glob("a*.json")}
    assert {name: verdict["accepted"] for name, verdict in verdicts.items()} == {
        "a000": True,
        "a001": False,
        "a002": True,
    }
    assert check in [item["name"] for item in verdicts["a001"]["checks"] if item["status"] == "failed"]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_odd_file_of_another_engine_is_refused_or_rejected(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 4: `validate --predictions` ends with 2 for what cannot be read, 3 for what is no score; never with 1."""
    write, check = UNREADABLE[kind]
    campaign = make_campaign(tmp_path / "campaign")
    freeze(campaign)
    write(tmp_path / "p.parquet")
    arguments = ["--campaign", str(campaign.root), "validate", "--predictions", str(tmp_path / "p.parquet")]
    assert run(arguments) == (2 if check == "predictions" else 3), capsys.readouterr()


@pytest.mark.parametrize("kind", FINITE)
def test_finite_scores_in_every_form_are_accepted(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M29 rule 1: only what is not finite is a fault."""
    campaign: Campaign = make_campaign(tmp_path / "campaign")
    freeze(campaign)
    with_column("scores", FINITE[kind])(tmp_path / "p.parquet")
    arguments = ["--campaign", str(campaign.root), "validate", "--predictions", str(tmp_path / "p.parquet")]
    assert run(arguments) == 0, capsys.readouterr()
