"""`plan`: the sheet of planned attempts, its performance cells empty before any run (M48)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.measure.schedule import Planned, schedule
from runner.measure.sources import frozen_protocol
from runner.protocol.freeze import load_lock

PLANNED_COLUMNS = (
    "order",
    "pass",
    "position",
    "variant",
    "series",
    "corpus",
    "seed",
    "batch_size",
    "precision",
    "padding",
    "grouping",
    "engine",
    "expected_ids",
)
# Empty until measured: nothing is estimated, copied or invented here.
BLANK_COLUMNS = (
    "gpu",
    "attempt_id",
    "status",
    "observed_ids",
    "ids_match",
    "pass_seconds",
    "peak_memory_bytes",
    "corpus_accepted",
    "notes",
)


def sheet_rows(planned: Sequence[Planned], documents: dict[str, int]) -> list[dict[str, str]]:
    """One row per planned attempt, in the frozen order."""
    rows = []
    for order, item in enumerate(planned, 1):
        settings = item.variant.settings
        values = (
            order,
            item.slot.pass_index + 1,
            item.slot.position + 1,
            item.variant.id,
            item.variant.series or "",
            item.corpus_id,
            item.seed,
            settings.batch_size,
            settings.precision,
            settings.padding,
            settings.grouping,
            settings.engine,
            documents[item.corpus_id],
        )
        filled = dict(zip(PLANNED_COLUMNS, map(str, values), strict=True))
        rows.append(filled | dict.fromkeys(BLANK_COLUMNS, ""))
    return rows


def write_plan_sheet(campaign: Campaign) -> tuple[Path, list[dict[str, str]]]:
    """Write `records/plan-sheet.csv` from the lock; where a signed note stands without this sheet, nothing is written.

    Every file of `records/` is evidence: one that comes later would make a genuine note fail its check.
    """
    lock = load_lock(campaign)
    protocol = frozen_protocol(lock)
    documents = {corpus.id: corpus.documents for corpus in lock.judgement.corpora}
    rule = protocol.measurement
    planned = list(schedule(lock.variants, list(documents), rule.seeds, rule.passes_planned))
    rows = sheet_rows(planned, documents)
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, (*PLANNED_COLUMNS, *BLANK_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = campaign.records / "plan-sheet.csv"
    data = stream.getvalue().encode("utf-8")
    if not (campaign.note / "SHA256SUMS").is_file():
        write_atomic(path, data)
    elif not path.is_file() or path.read_bytes() != data:
        raise InputRefused(
            "a signed note stands here that does not cover this blank sheet: written now, it would make the note fail",
            file=path,
            next_step="to have the sheet, move note/ away, then runner plan, then runner report",
        )
    return path, rows
