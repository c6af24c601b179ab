"""`protocol.lock.json` on disk: reading, signing, earlier ones, and which attempts stand under it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.evidence.signing import KEY_VARIABLE, Purpose, check_signature, sign, signing_key
from runner.evidence.sshsig import parse_signature
from runner.protocol.schema import Lock


def read_lock(campaign: Campaign) -> Lock:
    """The lock, its signature checked if there is one. Nothing else of the campaign is looked at."""
    if not campaign.lock.is_file():
        raise InputRefused(
            "the protocol is not frozen", file=campaign.lock, next_step="runner baseline, then runner freeze"
        )
    data = campaign.lock.read_bytes()
    lock = Lock.loads(data, file=campaign.lock)
    _check_signature(campaign, data)
    return lock


def _check_signature(campaign: Campaign, data: bytes) -> None:
    """A signature that does not fit means that somebody edited the lock.

    A missing one is no refusal: attempts carry the lock's fingerprint, so a changed lock loses them.
    A rented image may lack ssh-keygen; `runner verify` checks again elsewhere.
    """
    if not campaign.lock_signature.is_file() or shutil.which("ssh-keygen") is None:
        return
    found = check_signature(data, campaign.lock_signature.read_bytes(), Purpose.LOCK)
    if not found.valid:
        raise InputRefused(
            f"the signature of the lock is not good: {found.reason}",
            file=campaign.lock_signature,
            next_step="put back the lock and its signature as they were frozen",
        )


def write_lock(campaign: Campaign, lock: Lock) -> None:
    """Write and sign. In between the lock stands unsigned, never with a signature of another content."""
    key = signing_key(campaign)
    data = lock.dump()
    signature = sign(data, key, Purpose.LOCK)
    campaign.lock_signature.unlink(missing_ok=True)
    write_atomic(campaign.lock, data)
    write_atomic(campaign.lock_signature, signature)


def sign_again(campaign: Campaign) -> None:
    """Sign an unchanged lock with the key of the user's own, where another one (a local test key) did."""
    if not os.environ.get(KEY_VARIABLE):
        return
    key = signing_key(campaign)
    found = parse_signature(campaign.lock_signature.read_bytes())
    if found.fingerprint != key.fingerprint:
        write_atomic(campaign.lock_signature, sign(campaign.lock.read_bytes(), key, Purpose.LOCK))


def other_signer(campaign: Campaign) -> str | None:
    """A warning in words where the next signature of the lock will be by another key than the one it has."""
    if not campaign.lock_signature.is_file():
        return None
    before, now = parse_signature(campaign.lock_signature.read_bytes()).fingerprint, signing_key(campaign).fingerprint
    if before == now:
        return None
    return (
        f"the lock with the added variants is signed with the key that is here ({now}), no longer with that of the "
        f"freeze ({before}): where that key is, {KEY_VARIABLE}=<its file> runner freeze signs it again"
    )


def locks_dir(campaign: Campaign) -> Path:
    """Where the locks of earlier revisions stay."""
    return campaign.protocol_dir / "locks"


def keep_lock(campaign: Campaign, lock: Lock) -> None:
    """Copy a lock that attempts stand under, with its signature, before a new revision replaces it."""
    stem = f"r{revision(lock)}-{lock.lock_sha256[:12]}.lock.json"
    write_atomic(locks_dir(campaign) / stem, campaign.lock.read_bytes())
    if campaign.lock_signature.is_file():
        write_atomic(locks_dir(campaign) / f"{stem}.sig", campaign.lock_signature.read_bytes())


def earlier_locks(campaign: Campaign) -> tuple[Lock, ...]:
    """Locks of earlier revisions, oldest revision first."""
    found = [Lock.load(path) for path in sorted(locks_dir(campaign).glob("*.lock.json"))]
    return tuple(sorted(found, key=lambda lock: (revision(lock), lock.frozen_at_utc)))


def revision(lock: Lock) -> int:
    """Revision of the frozen protocol."""
    return lock.protocol.question.revision


def name(lock: Lock) -> str:
    """Name of the frozen protocol."""
    return lock.protocol.question.name


def has_attempts(campaign: Campaign, lock: Lock) -> bool:
    """Does any row stand under this lock? A row that cannot be read counts as one."""
    return any(_stands_under(path, lock.lock_sha256) for path in sorted(campaign.attempts.glob("*.json")))


def _stands_under(path: Path, lock_sha256: str) -> bool:
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return True
    return not isinstance(content, dict) or content.get("lock_sha256", lock_sha256) == lock_sha256
