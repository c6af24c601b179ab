"""Freeze the protocol, check that it still holds, append variants (M3, M4).

The judgement is strict: once an attempt stands under it, a change needs a new revision *and* a new
final corpus. The list of variants only grows.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from runner.corpus.overlap import find_overlap
from runner.corpus.read import Corpus
from runner.errors import InputRefused, gathered
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.machine import machine_id
from runner.protocol.changes import Change, content_changes, judgement_changes, without_place
from runner.protocol.judgement import Collected, collect, frozen_deadline, protocol_content, read_final
from runner.protocol.lockfile import (
    earlier_locks,
    has_attempts,
    keep_lock,
    name,
    other_signer,
    read_lock,
    revision,
    sign_again,
    write_lock,
)
from runner.protocol.procedure import procedure_changes
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import CorpusFiles, Lock, LockedCorpus, LockedVariant, Plan, Protocol
from runner.protocol.shipped import refuse_example
from runner.protocol.variants import expand

__all__ = [
    "Frozen",
    "append_variants",
    "current_changes",
    "earlier_locks",
    "freeze",
    "load_lock",
    "read_lock",
    "with_variants",
]

Outcome = Literal["frozen", "unchanged", "frozen again", "variants changed", "new revision"]
_NEW_REVISION = (
    "a change after an attempt needs a new revision of the protocol AND a new independent final corpus: "
    "runner protocol revise --corpus <new file>"
)


@dataclass(frozen=True)
class Frozen:
    """What a freeze did. `changes` are those against the lock before it."""

    lock: Lock
    outcome: Outcome
    changes: tuple[Change, ...]
    added_variants: tuple[str, ...]
    warnings: tuple[str, ...]


def freeze(campaign: Campaign) -> Lock:
    """Freeze, or keep the lock if nothing changed."""
    return make_freeze(campaign).lock


def make_freeze(campaign: Campaign, *checks: Callable[[], object]) -> Frozen:
    """Collect, compare with the lock that is there, write a new one where that is allowed.

    `checks`: further ones of rooms above; what they refuse is said together with everything else.
    """
    protocol, plan = read_protocol(campaign.protocol), read_plan(campaign.plan)
    with _staging_folder(campaign) as staging:
        before = read_lock(campaign) if campaign.lock.is_file() else None
        collected = _collected(campaign, protocol, plan, staging, checks, first=before is None)
        variants = expand(protocol, max_length=collected.judgement.max_length)
        changes = () if before is None else judgement_changes(before.judgement, collected.judgement)
        if before is not None and not changes:
            return _keep(campaign, before, variants, collected, staging)
        refuse_example(protocol, plan, campaign.protocol, campaign.plan)
        outcome: Outcome = "frozen"
        warnings = collected.warnings
        if before is not None:
            outcome = "frozen again"
            if has_attempts(campaign, before):
                warnings += _check_new_revision(campaign, before, protocol, collected, changes)
                keep_lock(campaign, before)
                outcome = "new revision"
        lock = _new_lock(collected, variants)
        _move_references(campaign, lock, staging)
        write_lock(campaign, lock)
    return Frozen(lock, outcome, changes, (), warnings)


def _collected(
    campaign: Campaign,
    protocol: Protocol,
    plan: Plan,
    staging: Path,
    checks: tuple[Callable[[], object], ...] = (),
    *,
    first: bool,
) -> Collected:
    """The judgement; at a first freeze what is left as shipped is refused together with what does not fit."""
    found: list[Collected] = []

    def collecting() -> None:
        found.append(collect(campaign, protocol, plan, staging))

    def as_shipped() -> None:
        if first:
            refuse_example(protocol, plan, campaign.protocol, campaign.plan)

    gathered(as_shipped, *checks, collecting)
    return found[0]


def load_lock(campaign: Campaign) -> Lock:
    """The lock, if protocol, plan, corpora and baseline are still what was frozen (QU-08).

    Model files are checked by `modelfiles.check_model` where a model is used. A copy without the
    texts is fine as long as the reference (ids and labels) is there.
    """
    lock = read_lock(campaign)
    changes = current_changes(campaign, lock)
    if changes:
        started = has_attempts(campaign, lock)
        raise InputRefused(
            f"{len(changes)} frozen field{'s' * (len(changes) > 1)} changed since the freeze "
            f"({'attempts' if started else 'no attempt'} measured under it)",
            file=campaign.protocol,
            details=tuple(str(change) for change in changes),
            next_step=f"put the old values back, or: {_NEW_REVISION}" if started else "runner freeze",
        )
    return lock


def current_changes(campaign: Campaign, lock: Lock) -> tuple[Change, ...]:
    """What in protocol, plan, corpora and baseline differs from the lock; no model is looked at."""
    protocol, plan = read_protocol(campaign.protocol), read_plan(campaign.plan)
    judgement = lock.judgement
    frozen, now = judgement.protocol, protocol_content(protocol)
    if judgement.model_revision is None:
        frozen, now = without_place(frozen), without_place(now)
    changes = [*content_changes(frozen, now)]
    changes += content_changes(
        {"deliverables": list(judgement.deliverables), "deadline": judgement.deadline},
        {"deliverables": list(plan.deliverables), "deadline": frozen_deadline(plan)},
    )
    by_id = {files.id: files for files in protocol.corpus}
    for corpus in judgement.corpora:
        if corpus.id in by_id:
            changes += _corpus_changes(campaign, corpus, by_id[corpus.id])
    changes += procedure_changes(judgement.evaluation_files, lock.protocol.procedures(), campaign.protocol_dir)
    return tuple(changes)


def with_variants(campaign: Campaign, lock: Lock, variants: Iterable[LockedVariant]) -> Lock:
    """The lock with these variants too, not written; those added after an attempt are marked `added_later` (M3)."""
    appended = _appended(lock, tuple(variants), later=has_attempts(campaign, lock))
    return lock if appended == lock.variants else lock.model_copy(update={"variants": appended})


def append_variants(campaign: Campaign, lock: Lock) -> tuple[str, ...]:
    """Write the lock if it has variants that the one in the folder lacks (`with_variants`); warnings in words."""
    before = load_lock(campaign)
    if lock == before:
        return ()
    frozen = {variant.id for variant in before.variants}
    added = [variant for variant in lock.variants if variant.id not in frozen]
    later = " for good, marked as added later" if any(variant.added_later for variant in added) else ""
    said = (
        f"{', '.join(variant.id for variant in added)}: not among the frozen variants; added to the lock{later}, "
        "lock signed again",
    )
    warning = other_signer(campaign)
    write_lock(campaign, lock)
    return said if warning is None else (*said, warning)


def _appended(lock: Lock, wanted: tuple[LockedVariant, ...], *, later: bool) -> tuple[LockedVariant, ...]:
    """Old variants as they are, then the new ones. An old id with other settings is refused (M16)."""
    found = {variant.id: variant for variant in lock.variants}
    for variant in wanted:
        known = found.get(variant.id)
        if known is None:
            found[variant.id] = variant.model_copy(update={"added_later": later})
        elif known.settings != variant.settings:
            changes = content_changes(known.settings.as_json(), variant.settings.as_json())
            raise InputRefused(
                f"the variant '{variant.id}' is frozen with other settings",
                details=tuple(str(change) for change in changes),
                next_step="give the new settings an id of their own: variants are only added, never changed",
            )
    return tuple(found.values())


def _keep(
    campaign: Campaign, lock: Lock, variants: tuple[LockedVariant, ...], collected: Collected, staging: Path
) -> Frozen:
    """Nothing frozen changed: only variants may be new. Missing references and signature come back."""
    started = has_attempts(campaign, lock)
    wanted = _appended(lock, variants, later=True) if started else variants
    added = tuple(variant.id for variant in wanted if variant.id not in {old.id for old in lock.variants})
    _move_references(campaign, lock, staging)
    if wanted == lock.variants and campaign.lock_signature.is_file():
        sign_again(campaign)
        return Frozen(lock, "unchanged", (), (), collected.warnings)
    outcome: Outcome = "unchanged" if wanted == lock.variants else "variants changed"
    lock = lock.model_copy(update={"variants": wanted})
    write_lock(campaign, lock)
    return Frozen(lock, outcome, (), added, collected.warnings)


def _new_lock(collected: Collected, variants: tuple[LockedVariant, ...]) -> Lock:
    """The nonce cannot be known before this moment: an attempt that carries it came after (TI-11)."""
    return Lock(
        judgement=collected.judgement,
        nonce=secrets.token_hex(32),
        frozen_at_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        frozen_on=machine_id(),
        variants=variants,
    )


def _check_new_revision(
    campaign: Campaign, before: Lock, protocol: Protocol, collected: Collected, changes: tuple[Change, ...]
) -> tuple[str, ...]:
    """After an attempt only a new revision on new final corpora may replace the lock (M4)."""
    question = protocol.question
    lacking = []
    if question.name == name(before) and question.revision <= revision(before):
        lacking.append(f"question.revision must be above {revision(before)}")
    warnings: list[str] = []
    locks = (*earlier_locks(campaign), before)
    for corpus in collected.judgement.corpora:
        for lock in locks:
            for old in lock.judgement.corpora:
                problem, warning = _independence(campaign, corpus, collected.corpora[corpus.id], old, lock)
                lacking += problem
                warnings += warning
    if lacking:
        raise InputRefused(
            f"{len(changes)} frozen field{'s' * (len(changes) > 1)} changed although attempts exist",
            file=campaign.protocol,
            details=(*(str(change) for change in changes), *(f"needed: {text}" for text in dict.fromkeys(lacking))),
            next_step=f"put the old values back; {_NEW_REVISION}",
        )
    return tuple(dict.fromkeys(warnings))


def _independence(
    campaign: Campaign, locked: LockedCorpus, corpus: Corpus, old: LockedCorpus, lock: Lock
) -> tuple[list[str], list[str]]:
    """Problems and warnings of a new final corpus against one that was judged before."""
    before = f"the final corpus '{old.id}' of revision {revision(lock)}"
    if locked.records_sha256 == old.records_sha256:
        return [f"a new independent final corpus: '{locked.id}' has the records of {before}"], []
    files = [campaign.inside(file.path) for file in old.final]
    same = all(path.is_file() and sha256_file(path) == file.sha256 for path, file in zip(files, old.final, strict=True))
    if not same:
        return [], [f"whether '{locked.id}' shares texts with {before} could not be checked: its file is gone"]
    description = next(files for files in lock.protocol.corpus if files.id == old.id)
    earlier = read_final(campaign, description)
    shared = find_overlap(earlier.documents, corpus.documents).shared_texts
    if shared:
        pairs = ", ".join(f"{pair.tuning_id} = {pair.final_id}" for pair in shared[:5])
        count = len({pair.final_id for pair in shared})
        return [f"new texts: {count} texts of '{locked.id}' stand in {before} too ({pairs})"], []
    return [], []


def _corpus_changes(campaign: Campaign, corpus: LockedCorpus, files: CorpusFiles) -> Iterator[Change]:
    """Changed bytes of a corpus or baseline; equal records with other line ends are no change."""
    for locked in (*corpus.final, *corpus.tuning, *([corpus.baseline] if corpus.baseline else [])):
        path = campaign.inside(locked.path)
        if not path.is_file():
            if locked == corpus.baseline or _reference_missing(campaign, corpus):
                yield Change(f"file {locked.path}", locked.sha256, None)
            continue
        found = sha256_file(path)
        if found == locked.sha256:
            continue
        if locked in corpus.final and read_final(campaign, files).records_sha256 == corpus.records_sha256:
            continue
        yield Change(f"file {locked.path}", locked.sha256, found)


def _reference_missing(campaign: Campaign, corpus: LockedCorpus) -> bool:
    return corpus.reference is None or not campaign.inside(corpus.reference.path).is_file()


def _move_references(campaign: Campaign, lock: Lock, staging: Path) -> None:
    """Durably rename the new reference files to their names; those already there stay."""
    for corpus in lock.judgement.corpora:
        if corpus.reference is None:
            continue
        target = campaign.inside(corpus.reference.path)
        source = staging / target.name
        if target.is_file() and sha256_file(target) == corpus.reference.sha256:
            continue
        if not source.is_file() or sha256_file(source) != corpus.reference.sha256:
            raise InputRefused(
                "the frozen reference is missing or changed and cannot be made again",
                file=target,
                next_step="copy protocol/ again from where it was frozen, or bring back the frozen corpus",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as stream:
            os.fsync(stream.fileno())
        source.replace(target)


@contextmanager
def _staging_folder(campaign: Campaign) -> Iterator[Path]:
    """A temporary folder on the campaign's own file system, so that files can be renamed into place."""
    with tempfile.TemporaryDirectory(prefix=".freeze-", dir=campaign.protocol_dir) as folder:
        yield Path(folder)
