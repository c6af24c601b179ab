"""Commands around the frozen protocol: `freeze`, `protocol diff`."""

from __future__ import annotations

import click

from runner.cli.output import Output, Session, runner_command
from runner.evidence.campaign import Campaign

_SHOWS = (
    "The signature shows who froze this; the nonce, that an attempt which carries it came after the freeze.",
    "Neither proves when: only an outside time stamp of protocol.lock.json would (RFC 3161, or a public commit).",
)


@runner_command("freeze", short_help="Fix protocol, corpora, baseline and model before times are seen.")
def freeze(session: Session) -> Output:
    """Fix protocol, corpora, labels, baseline and model files before times are seen (M3).

    Writes protocol/protocol.lock.json with fingerprints and a random nonce, and signs it. Nothing
    changed: the lock stays as it is. After the first attempt only variants may be added.
    """
    from runner.evidence.signing import signing_key
    from runner.protocol.freeze import make_freeze

    campaign = Campaign(session.root)
    frozen = make_freeze(campaign)
    lock, judgement = frozen.lock, frozen.lock.judgement
    quality = lock.protocol.quality
    lines = [f"{frozen.outcome}: {lock.protocol.question.name}, revision {lock.protocol.question.revision}, "
             f"lock {lock.lock_sha256[:12]}"]
    for corpus in judgement.corpora:
        lines.append(f"  corpus {corpus.id}: {corpus.documents} documents")
    lines.append(f"  labels: {', '.join(judgement.label_table)}; texts are cut at {judgement.max_length} tokens")
    lines.append(f"  minimum: {quality.metric} {quality.threshold}, drop at most {quality.max_drop}, "
                 f"agreement {quality.min_agreement}, planned subgroups: {len(quality.subgroup)}")
    lines.append(f"  model: {len(judgement.model_files)} files hashed"
                 + (f", commit {judgement.model_revision}" if judgement.model_revision else ""))
    later = [variant.id for variant in lock.variants if variant.added_later]
    lines.append(f"  variants: {', '.join(variant.id for variant in lock.variants) or 'none yet'}"
                 + (f" (added later: {', '.join(later)})" if later else ""))
    lines += [f"  changed: {change}" for change in frozen.changes]
    lines += [f"  warning: {warning}" for warning in frozen.warnings]
    lines.append(f"  signed: {campaign.lock_signature} ({signing_key(campaign).label})")
    if frozen.outcome != "unchanged":
        lines += _SHOWS
    data = {
        "outcome": frozen.outcome,
        "lock_sha256": lock.lock_sha256,
        "variants": [variant.id for variant in lock.variants],
        "added_variants": list(frozen.added_variants),
        "changes": [{"field": change.field, "old": change.old, "new": change.new} for change in frozen.changes],
        "warnings": list(frozen.warnings),
    }
    return Output(lines, data)


@click.group("protocol")
def protocol() -> None:
    """Start, compare and revise the quality protocol."""


@runner_command("diff", short_help="What changed since the freeze, field by field.")
def diff(session: Session) -> Output:
    """What in protocol, plan, corpora, baseline and model differs from the lock; exit 3 if anything does."""
    from runner.protocol.freeze import current_changes
    from runner.protocol.lockfile import has_attempts, read_lock
    from runner.protocol.modelfiles import model_changes

    campaign = Campaign(session.root)
    lock = read_lock(campaign)
    changes = (*current_changes(campaign, lock), *model_changes(campaign, lock))
    started = has_attempts(campaign, lock)
    lines = [str(change) for change in changes] or ["nothing changed since the freeze"]
    if changes:
        lines.append(
            "attempts stand under this lock: put the old values back, or make a new revision on a new final corpus"
            if started else "no attempt stands under this lock: runner freeze takes the new values"
        )
    data = {
        "changes": [{"field": change.field, "old": change.old, "new": change.new} for change in changes],
        "attempts_exist": started,
    }
    return Output(lines, data, exit_code=3 if changes else 0)


protocol.add_command(diff)
