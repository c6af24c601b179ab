"""Exclusions (M31): a signed statement beside a row, for an external reason, by a rule that hits all alike.

The row and its verdict stay; the balance counts the attempt as excluded, not as a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.files import write_atomic
from runner.evidence.model import Record, SafeName, Sha256, UtcText
from runner.evidence.signing import Purpose, check_signature, sign, signing_key
from runner.evidence.store import read_attempts
from runner.judge.rules import parse_rule
from runner.protocol.freeze import load_lock

_STATE_AGAIN = "remove this statement with its signature, then state it again: runner exclude"


class Exclusion(Record):
    """`records/exclusions/<attempt-id>.json`, signed beside it."""

    schema_version: Literal["exclusion/1"] = "exclusion/1"
    attempt_id: SafeName
    attempt_sha256: Sha256 = Field(description="the row as it was, so that a statement stays with its row")
    lock_sha256: Sha256
    reason: str = Field(min_length=1, description="the documented external reason")
    rule: str = Field(description="comparison of external facts; every attempt that it hits is excluded")
    named_attempt: SafeName = Field(description="the attempt for which the rule was made")
    stated_at_utc: UtcText


@dataclass(frozen=True)
class Excluded:
    """What an exclusion did, or (`written` false) would do. `also_hit`: the other attempts of the rule."""

    named: str
    also_hit: tuple[str, ...]
    written: bool


def exclusions_dir(campaign: Campaign) -> Path:
    """Where the statements are."""
    return campaign.records / "exclusions"


def exclude(campaign: Campaign, attempt_id: str, *, reason: str, rule: str, dry_run: bool = False) -> Excluded:
    """State that this attempt, and every other one that the rule hits, does not count.

    Refused: an unknown attempt, an empty reason, a rule that does not hit the attempt itself, an
    attempt that is excluded already. The same reason and rule again state what an interrupted call left out, or what
    was measured since.
    """
    lock = load_lock(campaign)
    if not reason.strip():
        raise InputRefused(
            "an exclusion needs a documented external reason",
            column="--reason",
            next_step="say what happened outside the configuration, such as a power cut, and where it is documented",
        )
    parsed = parse_rule(rule)
    attempts = [attempt for attempt in read_attempts(campaign) if attempt.lock_sha256 == lock.lock_sha256]
    named = next((attempt for attempt in attempts if attempt.attempt_id == attempt_id), None)
    if named is None:
        raise InputRefused(
            "there is no such attempt under this lock", value=attempt_id, next_step="runner validate lists them"
        )
    hit = [attempt for attempt in attempts if parsed.hits(attempt)]
    if named not in hit:
        raise InputRefused(
            f"the rule does not hit {show_value(attempt_id)} itself, so it is not why this attempt would be excluded",
            column="--rule",
            value=rule,
            next_step="write a rule that is true for this attempt; --dry-run shows which ones it hits",
        )
    known = {exclusion.attempt_id: exclusion for exclusion in _statements(campaign)}
    fresh = [attempt for attempt in hit if attempt.attempt_id not in known]
    goes_on = attempt_id in known and (known[attempt_id].reason, known[attempt_id].rule) == (reason, rule)
    if named not in fresh and not (fresh and goes_on):
        raise InputRefused(
            f"this attempt is excluded already: {known[attempt_id].reason}",
            file=exclusions_dir(campaign),
            value=attempt_id,
            next_step="nothing is left to do; runner validate takes it into account",
        )
    also_hit = tuple(attempt.attempt_id for attempt in hit if attempt is not named)
    if not dry_run:
        _write(campaign, fresh, reason=reason, rule=rule, named=attempt_id, lock_sha256=lock.lock_sha256)
    return Excluded(attempt_id, also_hit, not dry_run)


def _write(
    campaign: Campaign, attempts: list[Attempt], *, reason: str, rule: str, named: str, lock_sha256: str
) -> None:
    key = signing_key(campaign)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for attempt in attempts:
        statement = Exclusion(
            attempt_id=attempt.attempt_id,
            attempt_sha256=sha256_file(campaign.attempts / f"{attempt.attempt_id}.json"),
            lock_sha256=lock_sha256,
            reason=reason,
            rule=rule,
            named_attempt=named,
            stated_at_utc=now,
        )
        data = statement.dump()
        path = exclusions_dir(campaign) / f"{attempt.attempt_id}.json"
        # The signature first: a statement without one would be refused, a signature alone says nothing.
        write_atomic(path.with_name(path.name + ".sig"), sign(data, key, Purpose.STATEMENT))
        write_atomic(path, data)


def read_exclusions(campaign: Campaign, attempts: Iterable[Attempt]) -> tuple[Exclusion, ...]:
    """All statements, by attempt id. Refused: unsigned or changed ones, and those whose row is another now.

    `attempts`: the rows that are judged. A rule must hit its attempt, and every one that it hits must be excluded.
    """
    found = _statements(campaign)
    if found:
        _check_reach(campaign, found, tuple(attempts))
    return found


def _check_reach(campaign: Campaign, found: tuple[Exclusion, ...], attempts: tuple[Attempt, ...]) -> None:
    """One rule for all: half of its statements (interrupted, removed, never made) would be a choice among results."""
    excluded = {exclusion.attempt_id for exclusion in found}
    for rule, lock_sha256 in sorted({(exclusion.rule, exclusion.lock_sha256) for exclusion in found}):
        parsed = parse_rule(rule)
        alike = [item for item in found if (item.rule, item.lock_sha256) == (rule, lock_sha256)]
        mine = [attempt for attempt in attempts if attempt.lock_sha256 == lock_sha256]
        hit = {attempt.attempt_id for attempt in mine if parsed.hits(attempt)}
        wrong = sorted({item.attempt_id for item in alike} & {attempt.attempt_id for attempt in mine} - hit)
        if wrong:
            raise InputRefused(
                "the rule of this exclusion does not hit its attempt",
                file=exclusions_dir(campaign) / f"{wrong[0]}.json",
                value=rule,
                next_step=_STATE_AGAIN,
            )
        if hit - excluded:
            raise InputRefused(
                f"the rule of {alike[0].attempt_id} hits further attempts that are not excluded",
                file=exclusions_dir(campaign),
                value=rule,
                details=tuple(f"{name}: hit by the rule, no statement" for name in sorted(hit - excluded)),
                next_step=f"runner exclude {alike[0].attempt_id} with the same --reason and --rule states them too",
            )


def _statements(campaign: Campaign) -> tuple[Exclusion, ...]:
    found = []
    for path in sorted(exclusions_dir(campaign).glob("[!.]*.json")):
        data = path.read_bytes()
        exclusion = Exclusion.loads(data, file=path)
        signature = path.with_name(path.name + ".sig")
        if not signature.is_file():
            raise InputRefused("the exclusion is not signed", file=path, next_step="runner exclude writes signed ones")
        check = check_signature(data, signature.read_bytes(), Purpose.STATEMENT)
        if not check.valid:
            raise InputRefused(
                f"the signature of the exclusion is not good: {check.reason}", file=signature, next_step=_STATE_AGAIN
            )
        row = campaign.attempts / f"{exclusion.attempt_id}.json"
        if path.stem != exclusion.attempt_id or not row.is_file() or sha256_file(row) != exclusion.attempt_sha256:
            raise InputRefused("the exclusion does not belong to a row as it is now", file=path, next_step=_STATE_AGAIN)
        _check_rule(exclusion, path)
        found.append(exclusion)
    return tuple(found)


def _check_rule(exclusion: Exclusion, path: Path) -> None:
    """A signature does not make a rule external: a statement written by other means is held to the same list."""
    try:
        parse_rule(exclusion.rule)
    except InputRefused as error:
        raise InputRefused(
            f"the exclusion rests on no external fact: {error.what}",
            file=path,
            value=exclusion.rule,
            next_step="remove this statement and its signature; runner exclude writes what a rule may name",
        ) from None
