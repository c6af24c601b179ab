"""Commands around the frozen protocol: `freeze`, `protocol new|diff|revise|use-corpus|schema|fields`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from runner.cli.output import Output, Session, runner_command
from runner.cli.values import parse_batches
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign

_SHOWS = (
    "The signature shows who froze this; the nonce, that an attempt which carries it came after the freeze.",
    "Neither proves when: only an outside time stamp of protocol.lock.json would (RFC 3161, or a public commit).",
)


def _labels(table: Sequence[str], label_map: Mapping[str, str]) -> list[str]:
    """The labels as the corpora have them; where the model calls one otherwise, its name beside it."""
    own = {model: [corpus for corpus, named in label_map.items() if named == model] for model in table}
    return [f"{' and '.join(own[model])} (model: {model})" if own[model] else model for model in table]


@runner_command("freeze", short_help="Fix protocol, corpora, baseline and model before times are seen.")
def freeze(session: Session) -> Output:
    """Fix protocol, corpora, labels, baseline and model files before times are seen (M3).

    Writes protocol/protocol.lock.json with fingerprints and a random nonce, and signs it. Nothing
    changed: the lock stays as it is. After the first attempt only variants may be added.
    """
    from runner.flows.plan_check import check_plan, plan_warnings
    from runner.flows.standing import lock_signer
    from runner.judge.minimum import PUT_RIGHT, frozen_baselines, spoken, warnings_of
    from runner.protocol.freeze import make_freeze
    from runner.protocol.lockfile import has_attempts

    campaign = Campaign(session.root)
    frozen = make_freeze(campaign, lambda: check_plan(campaign))
    lock, judgement = frozen.lock, frozen.lock.judgement
    quality = lock.protocol.quality
    lines = [
        f"{frozen.outcome}: {lock.protocol.question.name}, revision {lock.protocol.question.revision}, "
        f"lock {lock.lock_sha256[:12]}"
    ]
    for corpus in judgement.corpora:
        lines.append(f"  corpus {corpus.id}: {corpus.documents:,} documents")
    labels = ", ".join(_labels(judgement.label_table, lock.protocol.model.label_map))
    lines.append(f"  labels: {labels}; texts are cut at {judgement.max_length} tokens")
    lines.append(
        f"  minimum: {lock.protocol.metric_name()} {quality.threshold}, drop at most {quality.max_drop}, "
        f"agreement {quality.min_agreement}, planned subgroups: {len(quality.subgroup)}"
    )
    lines.append(
        f"  model: {len(judgement.model_files)} files hashed"
        + (f", commit {judgement.model_revision}" if judgement.model_revision else "")
    )
    if judgement.evaluation_files:
        names = [item.function for item in lock.protocol.procedures()]
        sources = ", ".join(file.path for file in judgement.evaluation_files[:3])
        lines.append(
            f"  procedures of your own: {', '.join(names)}; {len(judgement.evaluation_files)} source files "
            f"hashed ({sources}); run twice, with the same result"
        )
    later = [variant.id for variant in lock.variants if variant.added_later]
    lines.append(
        f"  variants: {', '.join(variant.id for variant in lock.variants) or 'none yet'}"
        + (f" (added later: {', '.join(later)})" if later else "")
    )
    lines += [f"  changed: {change}" for change in frozen.changes]
    baselines = frozen_baselines(campaign, lock)
    missed = warnings_of(baselines)
    warnings = (*plan_warnings(campaign), *frozen.warnings, *missed)
    lines += [f"  baseline: {spoken(check)}" for item in baselines for check in item.checks if check not in item.missed]
    lines += [f"  warning: {warning}" for warning in warnings]
    lines.append(f"  signed: {campaign.lock_signature} ({lock_signer(campaign)})")
    if frozen.outcome != "unchanged":
        lines += _SHOWS
    if missed and not has_attempts(campaign, lock):
        lines.append(f"next: {PUT_RIGHT}, then runner baseline and runner freeze, as long as nothing was measured")
    else:
        lines.append("next: runner plan, runner rehearse --gpu NAME, runner measure --gpu NAME")
    data = {
        "outcome": frozen.outcome,
        "lock_sha256": lock.lock_sha256,
        "variants": [variant.id for variant in lock.variants],
        "added_variants": list(frozen.added_variants),
        "changes": [{"field": change.field, "old": change.old, "new": change.new} for change in frozen.changes],
        "baseline": [item.as_json() for item in baselines],
        "warnings": list(warnings),
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
            if started
            else "no attempt stands under this lock: runner freeze takes the new values"
        )
    data = {
        "changes": [{"field": change.field, "old": change.old, "new": change.new} for change in changes],
        "attempts_exist": started,
    }
    return Output(lines, data, exit_code=3 if changes else 0)


@runner_command("new", short_help="Start a protocol from flags; what is missing is asked for.")
@click.option("--name", prompt="Short name of the campaign", help="Short name; becomes part of file names.")
@click.option("--text", prompt="The decision question, in one sentence", help="The decision question.")
@click.option("--corpus", prompt="Final corpus, relative to protocol/", help="CSV, JSONL or Parquet below protocol/.")
@click.option("--tuning", default=None, help="Texts used for setting up, below protocol/.")
@click.option("--model", prompt="Model (folder below protocol/ or hub name)", help="Folder or hub name.")
@click.option("--model-revision", default=None, help="Commit, branch or tag of a hub name.")
@click.option("--metric", prompt="Metric", default="accuracy", help="Main metric, such as accuracy or macro_f1.")
@click.option("--threshold", prompt="Least value of the metric, such as 0.85", help="Least value of the metric.")
@click.option("--max-drop", prompt="Largest drop below the baseline", default="0.01", help="Largest allowed drop.")
@click.option("--min-agreement", prompt="Least agreement with the baseline", default="0.98", help="Least agreement.")
@click.option("--batches", default="1 4 8", help="Batch sizes of the first series.")
@click.option("--group-column", "group_columns", multiple=True, help="Column that subgroups may name (repeatable).")
@click.option("--id-column", default="id", help="Column of the ids.")
@click.option("--text-column", default="text", help="Column of the texts.")
@click.option("--label-column", default="label", help="Column of the right answers.")
@click.option("--licence", default=None, help="Terms of the texts.")
@click.option("--permission", default=None, help="Why you may use the texts for this.")
@click.option("--zone", default="UTC", help="For plan.toml: IANA zone of the times, such as Europe/Berlin.")
@click.option("--start", default=None, help="For plan.toml: start of the rental, such as 2027-10-04T09:00.")
@click.option("--deadline", default=None, help="For plan.toml: when the results are needed.")
def new(
    session: Session,
    batches: str,
    group_columns: tuple[str, ...],
    zone: str,
    start: str | None,
    deadline: str | None,
    **answers: Any,
) -> Output:
    """Write protocol/quality-protocol.toml, and with --start and --deadline a plan.toml to go on from.

    Existing files are never replaced.
    """
    from runner.pricing.times import parse_instant
    from runner.protocol.start import Answers, Calendar, start_protocol

    campaign = Campaign(session.root)
    if (start is None) != (deadline is None):
        missing = "--start" if start is None else "--deadline"
        raise InputRefused(
            "--start and --deadline belong together",
            column=missing,
            next_step="give both, such as --start 2027-10-04T09:00 --deadline 2027-10-09T12:00, or neither",
        )
    calendar = None
    if start is not None and deadline is not None:
        if parse_instant(deadline, zone, name="--deadline") <= parse_instant(start, zone, name="--start"):
            raise InputRefused(
                "the deadline is not after the start",
                column="--deadline",
                value=deadline,
                next_step="give a --deadline after --start",
            )
        calendar = Calendar(zone, start, deadline)
    sizes = parse_batches(batches)
    started = start_protocol(campaign, Answers(batches=sizes, group_columns=group_columns, **answers), calendar)
    lines = [f"written: {campaign.protocol}"]
    if calendar is not None:
        lines.append(f"written: {campaign.plan} (24 hours for measuring: put your own durations there)")
    lines.append("next: fill in what says FILL IN, add subgroups, read every line: docs/protocol.md explains them")
    if not campaign.plan.exists():
        lines.append("      write protocol/plan.toml (docs/pricing.md), or begin again with --start and --deadline")
    lines.append("      then runner baseline, runner freeze")
    return Output(lines, {"protocol": str(campaign.protocol), "name": started.question.name})


@runner_command("revise", short_help="Set up the next revision on new final corpora.")
@click.option(
    "--corpus",
    "corpora",
    multiple=True,
    required=True,
    help="New final corpus below protocol/: FILE, or ID=FILE for each of several.",
)
def revise(session: Session, corpora: tuple[str, ...]) -> Output:
    """Raise the revision and put new independent final corpora in place of the old ones (M4).

    The old lock and its attempts stay. Change thresholds afterwards, then freeze again.
    """
    from runner.protocol.read import read_protocol
    from runner.protocol.start import parse_corpus_options
    from runner.protocol.start import revise as set_up

    campaign = Campaign(session.root)
    wanted = parse_corpus_options(corpora, read_protocol(campaign.protocol))
    revised = set_up(campaign, wanted)
    lines = [f"revision {revised.revision} is set up in {campaign.protocol} and {campaign.plan}"]
    lines += [f"  corpus {old} -> {fresh}: {wanted[old]}" for old, fresh in revised.corpora.items()]
    lines += [
        "next: change what you want to change; then runner baseline, runner freeze",
        "the old lock moves to protocol/locks/ at the freeze; its attempts stay and are never compared",
    ]
    return Output(lines, {"revision": revised.revision, "corpora": dict(revised.corpora)})


@runner_command("use-corpus", short_help="Put a corpus that `runner corpus` built into protocol and plan.")
@click.argument("name")
@click.option("--in-place-of", "replace", default=None, help="Corpus id that it replaces (default: the only one).")
def use_corpus(session: Session, name: str, replace: str | None) -> Output:
    """Put the built corpus NAME into quality-protocol.toml and plan.toml; everything else in them stays.

    NAME is its folder below protocol/corpus/. Only before the freeze; afterwards `protocol revise`.
    """
    from runner.protocol.adopt import adopt_corpus

    campaign = Campaign(session.root)
    adopted = adopt_corpus(campaign, name, replace)
    lines = [*adopted.changed, f"yours to decide, in {campaign.protocol}:"]
    lines += [*(f"  {item}" for item in adopted.still_open), "next: runner baseline, runner freeze"]
    return Output(lines, {"old": adopted.old_id, "new": adopted.new_id, "open": list(adopted.still_open)})


@runner_command("schema", short_help="JSON Schema of the protocol, for editors.")
def schema(session: Session) -> Output:
    """Print the JSON Schema; protocol/quality-protocol.schema.json holds the same."""
    import json

    from runner.protocol.describe import schema_json

    data = schema_json()
    return Output(data.decode("utf-8").rstrip("\n").split("\n"), json.loads(data), document=True)


@runner_command("fields", short_help="Reference of all protocol fields, as Markdown.")
def fields(session: Session) -> Output:
    """Print the reference that docs/protocol.md holds."""
    from runner.protocol.describe import field_reference

    text = field_reference()
    return Output(text.split("\n"), {"markdown": text}, document=True)


for command in (new, diff, revise, use_corpus, schema, fields):
    protocol.add_command(command)
