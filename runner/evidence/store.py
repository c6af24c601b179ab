"""Rows of attempts on disk: atomic, crash-safe, chained per machine (M22, M23, M50).

A row is written as `started` before its child runs and replaced once by its final form. The chain
holds the content hash of the row before; a head file per machine names the last row, so that a
deleted last row is seen as well. Unreadable files are reported and kept, never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.errors import InputRefused, NotAccepted, show_value
from runner.evidence.attempt import Attempt, ChainLink, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, loads_strict, sha256_bytes
from runner.evidence.files import campaign_lock, write_atomic
from runner.evidence.model import Count, Record, SafeName, Sha256

__all__ = ["AttemptStore", "Rows", "StoredRow", "TornFile", "campaign_lock", "read_attempts", "write_atomic"]


_MOST_READS = 20  # passes last longer than reading their rows; who always finds another state is told what is there


class ChainHead(Record):
    """`records/chain/<machine-id>.json`: the last row. `sha256` is null while that row is `started`."""

    schema_version: Literal["chain-head/1"] = "chain-head/1"
    machine_id: SafeName
    rows: Count
    last_attempt_id: SafeName
    last_sha256: Sha256 | None


@dataclass(frozen=True)
class StoredRow:
    """A row with the hash of its content (key order and blanks do not matter)."""

    attempt: Attempt
    sha256: str
    path: Path


@dataclass(frozen=True)
class TornFile:
    """A file that is not a whole row: half written or damaged. It counts as an attempt without result."""

    path: Path
    bytes: int
    sha256: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path.name}: incomplete, {self.bytes} bytes, kept; an attempt without result ({self.reason})"


@dataclass(frozen=True)
class Rows:
    """What the folder holds: rows in chain order, torn files, and what was ignored, in words."""

    rows: tuple[StoredRow, ...]
    torn: tuple[TornFile, ...]
    ignored_copies: tuple[str, ...]

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(row.attempt for row in self.rows)

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*(str(torn) for torn in self.torn), *self.ignored_copies)


def read_rows(files: Iterable[Path]) -> Rows:
    """Read row files; exact copies are ignored and named, two different rows with one id refused (RE-05).

    A file with valid JSON that is no attempt (NaN, unknown field, newer schema) is refused: only a
    file whose JSON stops half-way is torn.
    """
    found: dict[str, list[StoredRow]] = {}
    torn = []
    for path in sorted(files):
        data = path.read_bytes()
        if _is_torn(data):
            torn.append(TornFile(path, len(data), sha256_bytes(data), "not complete JSON"))
            continue
        value = loads_strict(data, file=path)
        row = StoredRow(Attempt.from_json(value, file=path), content_sha256(value), path)
        found.setdefault(row.attempt.attempt_id, []).append(row)
    copies = []
    for attempt_id, rows in found.items():
        places = ", ".join(str(row.path) for row in rows)
        if len({row.sha256 for row in rows}) > 1:
            raise InputRefused(
                f"two different rows have the id {show_value(attempt_id)}",
                file=rows[1].path,
                details=tuple(f"{row.path}: {row.sha256}" for row in rows),
                next_step="keep the file that its own machine's chain confirms, and remove the other",
            )
        if len(rows) > 1:
            count = len(rows) - 1
            copies.append(f"{attempt_id}: {count} exact {'copy' if count == 1 else 'copies'} ignored ({places})")
    unique = sorted((rows[0] for rows in found.values()), key=_chain_order)
    return Rows(tuple(unique), tuple(torn), tuple(copies))


def _chain_order(row: StoredRow) -> tuple[str, int, str]:
    chain = row.attempt.chain
    return (chain.machine_id, chain.index, row.attempt.attempt_id)


def _is_torn(data: bytes) -> bool:
    """Whether the bytes stop before the row's end: every row ends with `}` and a line feed at most."""
    return not data.rstrip().endswith(b"}")


def chain_faults(rows: Rows, heads: Mapping[str, ChainHead]) -> tuple[str, ...]:
    """What is wrong with the chains, in words; empty when every row stands where it was written."""
    faults = []
    torn = list(rows.torn)  # each stands for one row at most, of one machine
    by_machine: dict[str, list[StoredRow]] = {machine: [] for machine in heads}
    for row in rows.rows:
        by_machine.setdefault(row.attempt.chain.machine_id, []).append(row)
    for machine, chain in sorted(by_machine.items()):
        previous: StoredRow | None = None
        expected_index = 0
        for row in chain:
            link = row.attempt.chain
            name = row.attempt.attempt_id
            wanted = None if previous is None else previous.sha256
            before = next((file for file in torn if file.sha256 == link.previous_sha256), None)
            if before is not None and link.index == expected_index + 1:
                torn.remove(before)
            elif link.index > expected_index:
                faults.append(f"{machine}: {_rows(link.index - expected_index)} missing before {name}")
            elif link.index < expected_index:
                faults.append(f"{machine}: {name} has the place {link.index}, which another row holds")
            elif link.previous_sha256 != wanted:
                changed = "the first row" if previous is None else previous.attempt.attempt_id
                faults.append(f"{machine}: {changed} was changed after {name} was written, or rows were reordered")
            previous, expected_index = row, max(expected_index, link.index) + 1
        head = heads.get(machine)
        if head is None:
            if expected_index > 1 or previous is None or previous.attempt.status is not Status.STARTED:
                faults.append(f"{machine}: its head file is missing (records/chain/{machine}.json)")
        else:
            faults.extend(_head_faults(head, previous, expected_index, torn))
    return tuple(faults)


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _head_faults(head: ChainHead, last: StoredRow | None, rows: int, torn: list[TornFile]) -> list[str]:
    machine = head.machine_id
    if head.rows > rows:
        # Only the last row can be torn here, as it lay there when its writer was lost: it hides no other one.
        ends = [file for file in torn if file.path.stem == head.last_attempt_id and head.rows == rows + 1]
        if not ends:
            return [f"{machine}: {_rows(head.rows - rows)} missing at the end, the last was {head.last_attempt_id}"]
        torn.remove(ends[0])
        if head.last_sha256 in (None, ends[0].sha256):
            return []
        return [f"{machine}: the last row {head.last_attempt_id} was changed after it was written"]
    if head.rows < rows and not (head.rows == rows - 1 and last and last.attempt.status is Status.STARTED):
        return [f"{machine}: more rows ({rows}) than its head file names ({head.rows})"]
    if last and head.rows == rows and head.last_sha256 not in (None, last.sha256):
        return [f"{machine}: the last row {last.attempt.attempt_id} was changed after it was written"]
    return []


class AttemptStore:
    """Rows of one campaign. Writers hold `campaign_lock`; readers need nothing."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign

    @property
    def chain_dir(self) -> Path:
        return self.campaign.records / "chain"

    def path(self, attempt_id: str) -> Path:
        return self.campaign.attempts / f"{attempt_id}.json"

    # ---- reading ----

    def scan(self) -> Rows:
        """All rows and what is wrong with single files; the chain is not judged."""
        return read_rows(self.campaign.attempts.glob("[!.]*.json"))

    def heads(self) -> dict[str, ChainHead]:
        """Head file of every machine's chain, by machine id; one of another machine's name is refused."""
        heads = {}
        for path in sorted(self.chain_dir.glob("[!.]*.json")):
            head = ChainHead.load(path)
            if head.machine_id != path.stem:
                raise InputRefused(
                    "the head file of a chain has another machine's name",
                    file=path,
                    value=head.machine_id,
                    next_step="copy records/ whole from the machine that measured",
                )
            heads[head.machine_id] = head
        return heads

    def faults(self) -> tuple[str, ...]:
        """Faults of the chains, in words (M50)."""
        return chain_faults(*self._rows_and_heads())

    def read_all(self) -> tuple[Attempt, ...]:
        """All rows, by machine and place in its chain. A broken chain is not accepted (exit 3)."""
        rows, heads = self._rows_and_heads()
        faults = chain_faults(rows, heads)
        if faults:
            raise NotAccepted(
                "the chain of attempts is broken: rows were deleted, changed or reordered",
                file=self.campaign.attempts,
                details=faults,
                next_step="restore the records from the machine that measured; "
                "if runner collect was interrupted, run the same command again",
            )
        return rows.attempts

    def _rows_and_heads(self) -> tuple[Rows, dict[str, ChainHead]]:
        """Of one moment: while somebody measures here, a row may come between reading the rows and the heads."""
        heads = self.heads()
        for _ in range(_MOST_READS):
            rows, after = self.scan(), self.heads()
            if after == heads:
                break
            heads = after
        return rows, heads

    # ---- writing ----

    def next_link(self, machine_id: str) -> ChainLink:
        """Place of the next row of this machine. The row before must be final (`recover` sees to it)."""
        head = self._head(machine_id)
        if head is None:
            return ChainLink(machine_id=machine_id, index=0, previous_sha256=None)
        if head.last_sha256 is None:
            raise NotAccepted(
                f"the attempt {head.last_attempt_id} has not ended",
                file=self.path(head.last_attempt_id),
                next_step="runner measure closes what was interrupted, then goes on",
            )
        return ChainLink(machine_id=machine_id, index=head.rows, previous_sha256=head.last_sha256)

    def start(self, attempt: Attempt) -> None:
        """Write a `started` row, durable before this returns. The id must be new."""
        path = self.path(attempt.attempt_id)
        if attempt.status is not Status.STARTED or path.exists():
            raise ValueError(f"{attempt.attempt_id} cannot be started")
        write_atomic(path, attempt.dump())
        self._write_head(attempt, None)

    def finish(self, attempt: Attempt) -> None:
        """Replace the `started` row by its final form; a row that has ended never changes again."""
        before = Attempt.load(self.path(attempt.attempt_id))
        if before.status is not Status.STARTED or attempt.status is Status.STARTED or before.chain != attempt.chain:
            raise ValueError(f"{attempt.attempt_id} cannot be finished")
        write_atomic(self.path(attempt.attempt_id), attempt.dump())
        self._write_head(attempt, content_sha256(attempt.as_json()))

    def unfinished(self, machine_id: str) -> tuple[Attempt, ...]:
        """Rows of this machine whose writer was lost: call with the campaign lock held."""
        return tuple(
            row.attempt
            for row in self.scan().rows
            if row.attempt.status is Status.STARTED and row.attempt.chain.machine_id == machine_id
        )

    def recover(self, machine_id: str) -> tuple[str, ...]:
        """Bring this machine's head file up to the rows after a crash between two writes; warnings in words.

        Call with the campaign lock held and after the `unfinished` rows were finished.
        """
        rows = self.scan()
        head = self._head(machine_id)
        mine = [row for row in rows.rows if row.attempt.chain.machine_id == machine_id]
        torn = {row.path.stem: row for row in rows.torn}
        head_rows = 0 if head is None else head.rows
        last = mine[-1] if mine else None
        if last is not None and last.attempt.chain.index == head_rows and last.attempt.chain.index == len(mine) - 1:
            self._write_head(last.attempt, last.sha256)  # the row was written, its head was not
        elif head is not None and head.last_sha256 is None:
            if last is not None and last.attempt.attempt_id == head.last_attempt_id:
                self._write_head(last.attempt, last.sha256)
            elif head.last_attempt_id in torn:
                closed = head.model_copy(update={"last_sha256": torn[head.last_attempt_id].sha256})
                write_atomic(self._head_path(machine_id), closed.dump())
        return rows.warnings

    def _head_path(self, machine_id: str) -> Path:
        return self.chain_dir / f"{machine_id}.json"

    def _head(self, machine_id: str) -> ChainHead | None:
        path = self._head_path(machine_id)
        return ChainHead.load(path) if path.exists() else None

    def _write_head(self, attempt: Attempt, sha256: str | None) -> None:
        link = attempt.chain
        head = ChainHead(
            machine_id=link.machine_id,
            rows=link.index + 1,
            last_attempt_id=attempt.attempt_id,
            last_sha256=sha256,
        )
        write_atomic(self._head_path(link.machine_id), head.dump())


def read_attempts(campaign: Campaign) -> tuple[Attempt, ...]:
    """All rows of a campaign, chain checked; none is an empty tuple."""
    return AttemptStore(campaign).read_all()
