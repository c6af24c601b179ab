"""One line per rental for a ledger (CSV): what was paid, and what it was paid for."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from runner.decide.model import Balance, BalanceRow, Decision
from runner.decide.tables import Row, csv_bytes
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import file_lock, write_atomic
from runner.evidence.rental import Rental

_NEW_LEDGER = "name a new file with --ledger: it is begun with the header line; or mend this one by hand"
COLUMNS = (
    "starts_at",
    "ends_at",
    "provider",
    "order",
    "gpu",
    "lots",
    "days",
    "amount",
    "currency",
    "protocol",
    "revision",
    "outcome",
    "configuration",
    "accepted_results",
    "cost_per_validated_corpus",
    "lock_sha256",
    "notes",
)


def ledger_row(campaign: Campaign, rental: Rental) -> Row:
    """The rental beside the decision that it belongs to. Unknown stays empty, undefined is a word."""
    decision, balance = Decision.load(campaign.decision), Balance.load(campaign.balance)
    row = next((one for one in balance.rows if one.configuration_id == decision.chosen), None)
    return {
        "starts_at": rental.starts_at,
        "ends_at": rental.ends_at,
        "provider": rental.provider,
        "order": rental.order,
        "gpu": rental.gpu,
        "lots": rental.lots,
        "days": rental.days,
        "amount": rental.amount,
        "currency": rental.currency,
        "protocol": decision.protocol_name,
        "revision": decision.protocol_revision,
        "outcome": decision.outcome,
        "configuration": decision.chosen or "",
        "accepted_results": None if row is None else len(row.deliverables_accepted),
        "cost_per_validated_corpus": _per_corpus(row),
        "lock_sha256": decision.lock_sha256,
        "notes": rental.notes,
    }


def _per_corpus(row: BalanceRow | None) -> str | None:
    if row is None:
        return None
    reason = row.cost_per_validated_corpus_reason
    return row.cost_per_validated_corpus or (None if reason is None else str(reason))


def add_to_ledger(path: Path, row: Row) -> bool:
    """Add the line; False if exactly it is there already. Another line for the same order is refused.

    The whole file is read and written: a second writer waits for the first, so that no line is lost.
    """
    with file_lock(path):
        return _add(path, row)


def _add(path: Path, row: Row) -> bool:
    line = _parsed(csv_bytes([row], COLUMNS, for_people=True))[1]
    lines = _parsed(path.read_bytes(), path) if path.is_file() else [list(COLUMNS)]
    if lines[0] != list(COLUMNS):
        raise InputRefused(
            "the ledger has other columns",
            file=path,
            line=1,
            value=", ".join(lines[0]),
            next_step="choose another file: only a ledger of this command is added to",
        )
    if line in lines:
        return False
    provider, order = COLUMNS.index("provider"), COLUMNS.index("order")
    for number, known in enumerate(lines[1:], start=2):
        if (known[provider], known[order]) == (line[provider], line[order]):
            raise InputRefused(
                "the ledger already has another line for this order",
                file=path,
                line=number,
                column="order",
                value=line[order],
                next_step="correct that line by hand",
            )
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([*lines, line])
    write_atomic(path, stream.getvalue().encode("utf-8"))
    return True


def _parsed(data: bytes, path: Path | None = None) -> list[list[str]]:
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputRefused(f"the ledger cannot be read: {error}", file=path, next_step=_NEW_LEDGER) from None
    ragged = [number for number, line in enumerate(lines, start=1) if len(line) != len(COLUMNS)]
    if not lines or ragged:
        raise InputRefused(
            "the ledger is empty or has a line with other columns",
            file=path,
            line=(ragged or [1])[0],
            next_step=_NEW_LEDGER,
        )
    return lines
