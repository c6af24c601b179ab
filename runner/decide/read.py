"""Everything the decision rests on, read from a campaign folder and checked to belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.decide.model import LeftOut, Reason
from runner.decide.sentences import say
from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.manifest import Manifest
from runner.evidence.repricing import read_repricing
from runner.evidence.store import AttemptStore
from runner.evidence.verdict import Verdict
from runner.judge.campaign import read_verdicts
from runner.judge.exclusions import read_exclusions
from runner.pricing.core import Catalogue
from runner.pricing.planfile import check_plan_file
from runner.pricing.tariffs import load_catalogue
from runner.protocol.freeze import earlier_locks, load_lock
from runner.protocol.inputs import frozen_corpus_sha256, frozen_model_sha256
from runner.protocol.read import read_protocol
from runner.protocol.schema import Lock, Plan, Protocol


@dataclass(frozen=True, slots=True)
class Evidence:
    """Inputs of the balance. `attempts` are those of the lock; the others are in `left_out`."""

    protocol: Protocol
    lock: Lock
    plan: Plan
    catalogue: Catalogue
    attempts: tuple[Attempt, ...]
    verdicts: tuple[Verdict, ...]
    manifests: Mapping[str, Manifest]
    exclusions: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    warnings: tuple[Reason, ...]


def read_evidence(campaign: Campaign, *, leave_out_other_locks: bool = False) -> Evidence:
    """Read a campaign. Attempts under an unknown lock are refused, unless they are to be left out (RE-07).

    Attempts under an earlier revision of this campaign's own lock are always left out and listed (M3).
    """
    lock = load_lock(campaign)
    plan = check_plan_file(campaign.plan, [variant.id for variant in lock.variants])
    store = AttemptStore(campaign)
    mine, left_out = _of_this_lock(store.read_all(), lock, campaign, leave_out_other_locks)
    verdicts = {verdict.attempt_id: verdict for verdict in read_verdicts(campaign)}
    for attempt in mine:
        _check_verdict(attempt, verdicts.get(attempt.attempt_id), campaign)
    return Evidence(
        protocol=read_protocol(campaign.protocol),
        lock=lock,
        plan=plan,
        catalogue=load_catalogue(campaign.tariffs),
        attempts=mine,
        verdicts=tuple(verdicts[a.attempt_id] for a in mine if a.attempt_id in verdicts),
        manifests=_manifests(campaign),
        exclusions={item.attempt_id: item.reason for item in read_exclusions(campaign, mine)},
        left_out=left_out,
        warnings=(
            *_repricing(campaign),
            *(say("records.warning", text=text) for text in store.scan().warnings),
        ),
    )


def _repricing(campaign: Campaign) -> Iterator[Reason]:
    link = read_repricing(campaign)
    if link is not None:
        yield say("reprice.from", note=link.note_id, tariffs=link.tariffs_sha256[:12])


def _of_this_lock(
    attempts: tuple[Attempt, ...], lock: Lock, campaign: Campaign, leave_out: bool
) -> tuple[tuple[Attempt, ...], tuple[LeftOut, ...]]:
    identity = (lock.lock_sha256, lock.nonce)
    mine = tuple(attempt for attempt in attempts if (attempt.lock_sha256, attempt.nonce) == identity)
    others = [attempt for attempt in attempts if (attempt.lock_sha256, attempt.nonce) != identity]
    known = {earlier.lock_sha256: earlier for earlier in earlier_locks(campaign)}
    foreign = [(attempt, _why_foreign(attempt, lock, known)) for attempt in others]
    strangers = [(attempt, why) for attempt, why in foreign if attempt.lock_sha256 not in known]
    if strangers and not leave_out:
        raise InputRefused(
            f"{len(strangers)} of {len(attempts)} attempts belong to another lock; nothing is computed from a mixture",
            file=campaign.attempts,
            details=tuple(f"{attempt.attempt_id}: {why}" for attempt, why in strangers),
            next_step="remove these records, or leave them out explicitly: runner decide --leave-out-other-locks",
        )
    listed = [LeftOut(attempt_id=a.attempt_id, reason=say("left-out.other-lock", why=why)) for a, why in foreign]
    return mine, tuple(sorted(listed, key=lambda item: item.attempt_id))


def _why_foreign(attempt: Attempt, lock: Lock, known: Mapping[str, Lock]) -> str:
    if attempt.lock_sha256 == lock.lock_sha256:
        return "it does not carry the nonce of the freeze"
    found = f"{attempt.protocol_name} revision {attempt.protocol_revision}, lock {attempt.lock_sha256[:12]}"
    earlier = known.get(attempt.lock_sha256)
    if earlier is None:
        differs = _seen_to_differ(attempt, lock)
        other = f"; other {' and '.join(differs)}" if differs else ""
        return f"unknown lock ({found}, this one is {lock.lock_sha256[:12]}{other})"
    differs = []
    if earlier.judgement.protocol_sha256 != lock.judgement.protocol_sha256:
        differs.append("protocol")
    if earlier.judgement.corpora != lock.judgement.corpora:
        differs.append("corpus")
    return f"earlier freeze ({found}; other {' and '.join(differs) or 'judgement'})"


def _seen_to_differ(attempt: Attempt, lock: Lock) -> list[str]:
    """What a row of a lock that nobody has here shows by itself: its protocol's name, the files that it read."""
    differs = []
    question, inputs = lock.protocol.question, attempt.inputs
    if (attempt.protocol_name, attempt.protocol_revision) != (question.name, question.revision):
        differs.append("protocol")
    records = {corpus.id: corpus.records_sha256 for corpus in lock.judgement.corpora}
    if attempt.corpus_id not in records:
        differs.append("corpus")
    elif inputs is not None:
        same_bytes = inputs.corpus_sha256 == frozen_corpus_sha256(lock, attempt.corpus_id)
        if not same_bytes and inputs.corpus_records_sha256 != records[attempt.corpus_id]:
            differs.append("corpus")
    if inputs is not None and inputs.model_sha256 != frozen_model_sha256(lock):
        differs.append("model")
    return differs


def _check_verdict(attempt: Attempt, verdict: Verdict | None, campaign: Campaign) -> None:
    """A completed attempt needs a verdict on exactly its predictions, under the attempt's lock."""
    again = "run `runner validate`, then decide again"
    if attempt.status is not Status.COMPLETED:
        return
    if verdict is None:
        raise InputRefused(
            f"{attempt.attempt_id} is completed but has no verdict", file=campaign.verdicts, next_step=again
        )
    written = None if attempt.predictions is None else attempt.predictions.sha256
    stale = verdict.predictions_sha256 is not None and verdict.predictions_sha256 != written
    if verdict.lock_sha256 != attempt.lock_sha256 or stale:
        raise InputRefused(
            f"the verdict on {attempt.attempt_id} is about other predictions or another lock",
            file=campaign.verdicts / f"{attempt.attempt_id}.json",
            next_step=again,
        )


def _manifests(campaign: Campaign) -> dict[str, Manifest]:
    """Manifests by the fingerprint that is their file name."""
    return {path.stem: Manifest.load(path) for path in sorted(campaign.manifests.glob("*.json"))}
