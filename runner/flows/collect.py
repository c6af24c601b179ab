"""`runner collect DIR...`: records of several rentals under one lock (M51).

Everything is read and compared first; nothing is written unless all of it fits together. Rows keep
their places in their own machine's chain, so a row that was lost on the way is seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, loads_strict, sha256_bytes, sha256_file
from runner.evidence.files import campaign_lock, copy_atomic, remove_interrupted_writes, write_atomic
from runner.evidence.store import AttemptStore, ChainHead, Rows, StoredRow, TornFile, chain_faults
from runner.flows.inventory import named_files, odd_files
from runner.protocol.freeze import earlier_locks, load_lock
from runner.seal.names import name_findings

_CHUNK_BYTES = 1 << 20
_BESIDE_ROWS = ("manifests", "predictions", "memory", "journals", "exclusions")


@dataclass(frozen=True)
class Collected:
    """What was merged. `ignored`: exact copies, with both places. `left_out`: rows of other locks, with the reason."""

    rows: int
    added: tuple[str, ...]
    ignored: tuple[str, ...]
    other_locks: tuple[str, ...]
    machines: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    """A file beside the rows, as it was when it was compared: its first `size` bytes.

    `growing`: it belongs to an attempt that had not ended where it lay.
    """

    path: Path
    size: int
    sha256: str
    growing: bool

    @classmethod
    def of(cls, path: Path, *, growing: bool) -> _Found:
        """Size and hash of one reading, in parts: predictions may be larger than the memory."""
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return cls(path, size, digest.hexdigest(), growing)

    def begins_with(self, other: _Found) -> bool:
        """Whether the other file is a beginning of this one."""
        left = other.size
        with self.path.open("rb") as mine, other.path.open("rb") as its:
            while left:
                part = its.read(min(left, _CHUNK_BYTES))
                if not part or mine.read(len(part)) != part:
                    return False
                left -= len(part)
        return other.size <= self.size


@dataclass
class _Merge:
    rows: dict[str, StoredRow] = field(default_factory=dict)
    torn: dict[str, TornFile] = field(default_factory=dict)
    heads: dict[str, ChainHead] = field(default_factory=dict)
    head_data: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, _Found] = field(default_factory=dict)
    copies: dict[str, list[Path]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def collect(campaign: Campaign, sources: Iterable[Path], *, keep_other_locks: bool = False) -> Collected:
    """Merge the records of other folders into this campaign. Conflicts are refused, all of them named."""
    folders, warnings = _folders(campaign, sources)
    lock = load_lock(campaign)
    with campaign_lock(campaign):
        warnings += remove_interrupted_writes(campaign.records)
        merge = _Merge(warnings=warnings)
        for source in (campaign, *folders):
            _add(merge, source)
        merge.conflicts += name_findings((*merge.files, *(f"attempts/{name}.json" for name in merge.rows)))
        if merge.missing and not merge.conflicts:
            raise InputRefused(
                "files that rows name are not there; nothing was collected",
                details=tuple(merge.missing),
                next_step="copy records/ whole from the machine that measured, and collect again",
            )
        if merge.conflicts:
            raise InputRefused(
                "the records contradict each other; nothing was collected",
                details=(*merge.conflicts, *merge.missing),
                next_step="keep the folder that its own machine's chain confirms, and leave out the other",
            )
        known = {lock.lock_sha256, *(earlier.lock_sha256 for earlier in earlier_locks(campaign))}
        foreign = _foreign([row.attempt for row in merge.rows.values()], known, lock.nonce, lock.lock_sha256)
        if foreign and not keep_other_locks:
            raise InputRefused(
                f"{len(foreign)} rows belong to another lock; nothing was collected",
                details=foreign,
                next_step="leave out that folder, or collect with --keep-other-locks and then "
                "runner decide --leave-out-other-locks",
            )
        twice = _two_series(merge.rows.values())
        if twice:
            raise InputRefused(
                "two folders hold different attempts of one machine at the same place; nothing was collected",
                details=twice,
                next_step="under one lock a machine has one series: name only the folder that was measured first, "
                "and keep the other one beside it",
            )
        # A torn copy of a row that is whole elsewhere is not needed.
        merge.torn = {name: torn for name, torn in merge.torn.items() if torn.path.stem not in merge.rows}
        rows = Rows(tuple(sorted(merge.rows.values(), key=_place)), tuple(merge.torn.values()), ())
        faults = chain_faults(rows, merge.heads)
        if faults:
            raise InputRefused(
                "rows are missing or were changed; nothing was collected",
                details=faults,
                next_step="copy records/ whole from the machine that measured, and collect again",
            )
        added = _write(campaign, merge)
    return Collected(
        rows=len(merge.rows),
        added=added,
        ignored=_ignored(merge),
        other_locks=foreign,
        machines=tuple(sorted(merge.heads)),
        warnings=tuple(merge.warnings),
    )


def _folders(campaign: Campaign, sources: Iterable[Path]) -> tuple[list[Campaign], list[str]]:
    """Every folder once; the campaign itself, and a folder that is named twice, have nothing to add."""
    folders: list[Campaign] = []
    warnings = []
    known = [campaign.root]
    for path in sources:
        source = _source(path)
        same = [place for place in known if place.is_dir() and source.root.samefile(place)]
        if same:
            which = "this campaign itself" if same[0] == campaign.root else "named twice"
            warnings.append(f"{path}: {which}, nothing to collect from it")
            continue
        known.append(source.root)
        folders.append(source)
    return folders, warnings


def _source(path: Path) -> Campaign:
    """A campaign folder or its `records` folder, of plain files: what is copied must lie there."""
    root = path.resolve().parent if path.name == "records" else path
    source = Campaign(root)
    if not source.attempts.is_dir():
        raise InputRefused(
            "no records of attempts in this folder", file=path, next_step="name a campaign folder or its records/"
        )
    odd = odd_files(source, "records")
    if odd:
        raise InputRefused(
            "links, pipes or devices lie among these records; nothing was read or collected",
            file=path,
            details=odd,
            next_step="copy records/ whole from the machine that measured (cp -rL follows links), and collect again",
        )
    return source


def _add(merge: _Merge, source: Campaign) -> None:
    store = AttemptStore(source)
    scanned = store.scan()
    merge.warnings += scanned.warnings
    for row in scanned.rows:
        _add_row(merge, row)
        _check_files(merge, source, row.attempt)
    for torn in scanned.torn:
        known_torn = merge.torn.setdefault(torn.path.name, torn)
        if known_torn.sha256 != torn.sha256:
            merge.conflicts.append(f"two different incomplete rows: {known_torn.path} and {torn.path}")
    for machine, head in store.heads().items():
        data = (store.chain_dir / f"{machine}.json").read_bytes()
        known = merge.heads.get(machine)
        if known is None or _progress(head) > _progress(known):
            merge.heads[machine], merge.head_data[machine] = head, data
    started = tuple(f"{row.attempt_id}." for row in scanned.attempts if row.status is Status.STARTED)
    for name in _BESIDE_ROWS:
        for path in sorted((source.records / name).glob("[!.]*")):
            _add_file(merge, f"{name}/{path.name}", path, growing=path.name.startswith(started))


def _progress(head: ChainHead) -> tuple[int, bool]:
    """How far a chain has come: rows, and whether the last of them has ended."""
    return (head.rows, head.last_sha256 is not None)


def _add_row(merge: _Merge, row: StoredRow) -> None:
    name = row.attempt.attempt_id
    known = merge.rows.get(name)
    if known is None:
        merge.rows[name] = row
    elif known.sha256 == row.sha256:
        merge.copies.setdefault(name, [known.path]).append(row.path)
    elif known.attempt.chain == row.attempt.chain and Status.STARTED in (known.attempt.status, row.attempt.status):
        merge.warnings.append(f"{name}: the row that has ended replaces the one that says started")
        if known.attempt.status is Status.STARTED:
            merge.rows[name] = row
    else:
        merge.conflicts.append(f"two different rows have the id {show_value(name)}: {known.path} and {row.path}")


def _check_files(merge: _Merge, source: Campaign, attempt: Attempt) -> None:
    """Files that a row names are there, are the ones it names, and lie where they are copied from."""
    for name, sha256 in named_files(attempt):
        path = source.inside(name)
        folder, _, _ = name.removeprefix("records/").rpartition("/")
        if not name.startswith("records/") or folder not in _BESIDE_ROWS:
            merge.conflicts.append(f"{attempt.attempt_id} names {show_value(name)}, which is no file of an attempt")
        elif not path.is_file():
            merge.missing.append(f"{attempt.attempt_id}: {path} is missing")
        elif sha256_file(path) != sha256:
            merge.conflicts.append(f"{attempt.attempt_id}: {path} is not the file that the row names")


def _add_file(merge: _Merge, name: str, path: Path, *, growing: bool) -> None:
    """Of two copies of a growing file the one that has ended counts, or the longer one."""
    if not path.is_file():
        merge.conflicts.append(f"{path} is not a plain file")
        return
    found = _Found.of(path, growing=growing)
    known = merge.files.setdefault(name, found)
    if known.sha256 == found.sha256:
        return
    if known.growing and (not growing or found.begins_with(known)):
        merge.files[name] = found
    elif not (growing and (not known.growing or known.begins_with(found))):
        merge.conflicts.append(f"two different files have the name records/{name}: {known.path} and {path}")


def _foreign(rows: list[Attempt], known: set[str], nonce: str, lock_sha256: str) -> tuple[str, ...]:
    reasons = []
    for row in sorted(rows, key=lambda row: row.attempt_id):
        if row.lock_sha256 not in known:
            reasons.append(f"{row.attempt_id}: lock {row.lock_sha256[:12]}, here {lock_sha256[:12]}")
        elif row.lock_sha256 == lock_sha256 and row.nonce != nonce:
            reasons.append(f"{row.attempt_id}: does not carry the nonce of the freeze")
    return tuple(reasons)


def _place(row: StoredRow) -> tuple[str, int, str]:
    chain = row.attempt.chain
    return (chain.machine_id, chain.index, row.attempt.attempt_id)


def _two_series(rows: Iterable[StoredRow]) -> tuple[str, ...]:
    """Places of a machine's chain that rows of different folders claim: one of them would have to be chosen."""
    places: dict[tuple[str, int], list[StoredRow]] = {}
    for row in rows:
        places.setdefault((row.attempt.chain.machine_id, row.attempt.chain.index), []).append(row)
    return tuple(
        f"{machine}, place {index}: {' and '.join(sorted(str(row.path) for row in found))}"
        for (machine, index), found in sorted(places.items())
        if len({row.path.parent for row in found}) > 1
    )


def _ignored(merge: _Merge) -> tuple[str, ...]:
    return tuple(
        f"{name}: {len(paths) - 1} exact {'copy' if len(paths) == 2 else 'copies'} ignored "
        f"({', '.join(str(path) for path in paths)})"
        for name, paths in sorted(merge.copies.items())
    )


def _write(campaign: Campaign, merge: _Merge) -> tuple[str, ...]:
    """Files first, then rows, then heads: an interrupted collection is repeated, never mistaken for a whole one."""
    rows = {name: _unchanged(row.path, row.sha256, _content) for name, row in sorted(merge.rows.items())}
    torn = {name: _unchanged(file.path, file.sha256, sha256_bytes) for name, file in sorted(merge.torn.items())}
    for name, found in sorted(merge.files.items()):
        target = campaign.records / name
        if not (target.is_file() and sha256_file(target) == found.sha256):
            copy_atomic(found.path, target, size=found.size, sha256=found.sha256)
    added = [name for name, data in rows.items() if _put(campaign.attempts / f"{name}.json", data)]
    for name, data in torn.items():
        _put(campaign.attempts / name, data)
    for machine, data in sorted(merge.head_data.items()):
        _put(AttemptStore(campaign).chain_dir / f"{machine}.json", data)
    return tuple(added)


def _unchanged(path: Path, sha256: str, fingerprint: Callable[[bytes], str]) -> bytes:
    """The row that was compared; refused if another one lies there by now, whose files were not looked at."""
    data = path.read_bytes()
    if fingerprint(data) != sha256:
        raise InputRefused(
            "the row changed while it was collected",
            file=path,
            next_step="wait until nobody measures there, then run the same command again",
        )
    return data


def _content(data: bytes) -> str:
    """Fingerprint of a row's content; empty if there is no row any more."""
    try:
        return content_sha256(loads_strict(data))
    except InputRefused:
        return ""


def _put(path: Path, data: bytes) -> bool:
    """Write unless it is there already, byte for byte."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_atomic(path, data)
    return True
