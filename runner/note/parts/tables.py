"""Small helpers that the parts share: configurations of attempts, capped lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from runner.decide.model import BalanceRow
from runner.evidence.attempt import Attempt
from runner.note.evidence import Evidence
from runner.note.words import Speaker

T = TypeVar("T")
MOST_ROWS = 60


def configuration_of(evidence: Evidence, attempt: Attempt) -> str:
    """Name of the configuration that an attempt belongs to: GPU, variant and, if there are several, the stack."""
    rows = [row for row in evidence.balance.rows if (row.gpu, row.variant_id) == key(attempt)]
    if len(rows) > 1:
        manifest = evidence.manifests.get(attempt.manifest_sha256 or "")
        stack = manifest.stack_sha256 if manifest else None
        rows = [row for row in rows if row.stack_sha256 == stack] or rows
    return rows[0].configuration_id if rows else f"{attempt.gpu_declared}.{attempt.variant_id}"


def key(attempt: Attempt) -> tuple[str, str]:
    return (attempt.gpu_declared, attempt.variant_id)


def attempts_of(evidence: Evidence, row: BalanceRow) -> list[Attempt]:
    """Attempts of one configuration, in schedule order."""
    mine = [attempt for attempt in evidence.counted_attempts if key(attempt) == (row.gpu, row.variant_id)]
    return [attempt for attempt in mine if configuration_of(evidence, attempt) == row.configuration_id]


def capped(items: Sequence[T], most: int = MOST_ROWS) -> tuple[list[T], int]:
    """The first rows for the note, and how many there are in all; the whole is attached."""
    return list(items[:most]), len(items)


def left_out_of_tables(evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    """Where the configurations stand that tables and figures leave out; empty texts if none is."""
    more, t = len(evidence.measured_rows) - len(evidence.shown_rows), speaker.catalogue
    files = {"balance": "note/balance.csv", "attempts": "note/attempts.csv"}
    if more <= 0:
        return dict.fromkeys(files, "")
    return {
        name: t.ngettext(
            "%(count)s more configuration is in %(file)s. Shown are the chosen one, then the admissible ones by cost "
            "and median, then others.",
            "%(count)s more configurations are in %(file)s. Shown are the chosen one, then the admissible ones by "
            "cost and median, then others.",
            more,
            file=file,
        )
        for name, file in files.items()
    }
