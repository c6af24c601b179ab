"""Commands that judge: `validate`, `exclude`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from runner.cli.output import Output, Session, runner_command
from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import PairedComparisons, Verdict
from runner.units import share_text

# Not a failure of the configuration (DESIGN 6.4): such rows do not turn the exit status.
_PAIRS_SHOWN = 6
_NO_FAILURE = (Status.UNAVAILABLE, Status.UNSUPPORTED, Status.INTERRUPTED)


@runner_command("validate", short_help="Judge every attempt, or a prediction file of another engine.")
@click.option(
    "--predictions",
    type=click.Path(path_type=Path),
    default=None,
    help="Judge this file instead (CSV, JSONL or Parquet with columns id, label and optionally score).",
)
@click.option("--corpus", "corpus_id", default=None, help="Corpus id for --predictions (default: the only one).")
def validate(session: Session, predictions: Path | None, corpus_id: str | None) -> Output:
    """Judge every attempt against the frozen protocol and write verdicts/.

    Exit 3 if an attempt was rejected. With --predictions, one file of any engine is judged; nothing
    is written.
    """
    campaign = Campaign(session.root)
    if predictions is None and corpus_id is not None:
        raise InputRefused(
            "--corpus belongs to --predictions: attempts are judged on every corpus",
            column="--corpus",
            value=corpus_id,
            next_step=f"runner validate, or runner validate --predictions FILE --corpus {corpus_id}",
        )
    if predictions is not None:
        return _one_file(campaign, predictions, corpus_id)
    return _all_attempts(campaign)


@runner_command("exclude", short_help="Leave an attempt out for an external reason, by a rule for all.")
@click.argument("attempt")
@click.option("--reason", required=True, help="The documented external reason, such as a power cut with its ticket.")
@click.option(
    "--rule",
    required=True,
    help="External facts that decide, such as 'started_at_utc >= 2026-11-30T07:00:00Z and machine_id = m-1'.",
)
@click.option("--dry-run", is_flag=True, help="Only list which attempts the rule hits.")
def exclude(session: Session, attempt: str, reason: str, rule: str, dry_run: bool) -> Output:
    """Leave an attempt out for an external reason; the row and its verdict stay.

    The same rule is applied to all variants: every attempt that it hits is excluded and listed. A
    signed statement is written beside each row, in records/exclusions/.
    """
    from runner.judge.exclusions import exclude as state

    done = state(Campaign(session.root), attempt, reason=reason, rule=rule, dry_run=dry_run)
    word = "excluded" if done.written else "would be excluded"
    lines = [f"{word}: {done.named}"]
    lines += [f"{word} too, by the same rule: {name}" for name in done.also_hit]
    if not done.also_hit:
        lines.append("the rule hits no other attempt")
    if done.written:
        lines.append("next: runner validate, then decide and report (make validate decide report): until then verify")
        lines.append("      fails, because the new statements are not in the signed note")
    data = {"excluded": done.named, "also_hit": list(done.also_hit), "written": done.written, "rule": rule}
    return Output(lines, data)


def _all_attempts(campaign: Campaign) -> Output:
    from runner.evidence.store import AttemptStore, read_attempts
    from runner.judge.campaign import judge_and_compare

    judged = judge_and_compare(campaign)
    verdicts = judged.verdicts
    rows = AttemptStore(campaign).scan()
    warnings = [f"warning: {warning}" for warning in rows.warnings]
    if not verdicts and not warnings:
        return Output(["no attempt to judge yet", "next: runner measure"], {"verdicts": []})
    attempts = {attempt.attempt_id: attempt for attempt in read_attempts(campaign)}
    lines = warnings
    rejected = 0
    judged_rows = [attempts[one.attempt_id] for one in verdicts]
    several = len({attempt.gpu_declared for attempt in judged_rows}) > 1
    common = _common_warnings([one for one in verdicts if attempts[one.attempt_id].status is Status.COMPLETED])
    for verdict in verdicts:
        attempt = attempts[verdict.attempt_id]
        if not verdict.accepted and attempt.status not in _NO_FAILURE:
            rejected += 1
        name = f"{attempt.variant_id:<12} pass {attempt.slot.pass_index + 1}"
        name += f" {attempt.gpu_declared:<10}" if several else ""
        if attempt.status is Status.COMPLETED:
            lines += [f"{name}  {_bottom_line(verdict)}", *_more(verdict, indent="    ", but=common)]
        else:
            lines += [f"{name}  {_why_not_completed(attempt)}", *_beside_the_end(verdict)]
    accepted = sum(verdict.accepted for verdict in verdicts)
    every = len(verdicts) + len(rows.torn)
    lines += [f"warning for every completed pass: {text}" for text in sorted(common)]
    lines.append(f"{accepted} of {every} attempts accepted; verdicts in {campaign.verdicts}")
    lines += _pairs(judged.paired)
    running = sum(attempt.status is Status.STARTED for attempt in judged_rows)
    if running:
        lines.append(
            f"{running} of them not ended: being measured now, or cut off (runner measure then closes the row)"
        )
    if rejected:
        lines.append(f"exit status 3: {rejected} not accepted, for the reasons at their lines")
    if running:
        lines.append("next: wait until measuring has ended, then runner validate again")
    else:
        lines.append("next: runner decide")
    data = {
        "verdicts": [verdict.as_json() for verdict in verdicts],
        "paired": [item.as_json() for item in judged.paired],
        "accepted": accepted,
        "rejected": rejected,
        "warnings": list(rows.warnings),
    }
    return Output(lines, data, exit_code=3 if rejected else 0)


def _common_warnings(verdicts: Sequence[Verdict]) -> frozenset[str]:
    """What every completed pass is warned of is said once; of a single one it stands at its own line."""
    if len(verdicts) < 2:
        return frozenset()
    return frozenset.intersection(*(frozenset(verdict.warnings) for verdict in verdicts))


def _why_not_completed(attempt: Attempt) -> str:
    """`out of memory  CUDA out of memory ...`: the verdict of such a row has nothing to add to it."""
    message = "" if attempt.error is None else " ".join(attempt.error.message.split())
    return f"{attempt.status.value.replace('_', ' '):<9} {message}".rstrip()


def _beside_the_end(verdict: Verdict) -> list[str]:
    """Reasons that do not just follow from the end of the pass, such as another lock; warnings about clocks."""
    unknown = "settings: effective settings are unknown"
    follows = ("status: ", "coverage: ", unknown, "predictions: ", "recompilation: ", "device: ")
    found = [f"    {reason}" for reason in verdict.reasons if not reason.startswith(follows)]
    return found + [f"    warning: {text}" for text in verdict.warnings if not text.startswith(follows)]


def _pairs(paired: tuple[PairedComparisons, ...]) -> list[str]:
    """Where two configurations are right on different documents; the rest is in the files."""
    lines = []
    for item in paired:
        for test in item.tests:
            if test.only_first_right or test.only_second_right:
                lines.append(
                    f"  {item.corpus_id}, seed {test.seed}: only {test.first} is right on {test.only_first_right} "
                    f"documents, only {test.second} on {test.only_second_right}; p {test.p_value}"
                )
    if not paired:
        return []
    pairs = sum(len(item.tests) for item in paired)
    shown = lines[:_PAIRS_SHOWN] + ([f"  and {len(lines) - _PAIRS_SHOWN} more"] if len(lines) > _PAIRS_SHOWN else [])
    word = "pair" if pairs == 1 else "pairs"
    head = f"{pairs} {word} of configurations compared on the same documents (McNemar; information, no criterion)"
    return [head + ("" if lines else ": all of them are right on the same documents"), *shown]


def _one_file(campaign: Campaign, path: Path, corpus_id: str | None) -> Output:
    from runner.judge.campaign import judge_predictions

    verdict = judge_predictions(campaign, path, corpus_id)
    lines = [f"{path.name}: {_bottom_line(verdict)}", *_more(verdict, indent="  ")]
    if verdict.flips_listed:
        lines.append("  label flips against the baseline:")
        lines += [
            f"    {show_value(flip.document_id)}: {show_value(flip.baseline_label)} -> {show_value(flip.label)}"
            for flip in verdict.flips_listed
        ]
    return Output(lines, {"verdict": verdict.as_json()}, exit_code=0 if verdict.accepted else 3)


def _bottom_line(verdict: Verdict) -> str:
    shown = []
    for value in verdict.metrics[:1]:
        figure = value.fraction or value.value
        shown.append(f"{value.metric} {'undefined' if figure is None else share_text(figure)}")
    if verdict.drop is not None:
        shown.append(f"drop {share_text(verdict.drop)}")
    if verdict.flips is not None:
        shown.append(f"flips {verdict.flips}")
    word = "accepted" if verdict.accepted else "rejected"
    return f"{word:<9} {', '.join(shown)}".rstrip()


def _more(verdict: Verdict, indent: str, but: frozenset[str] = frozenset()) -> list[str]:
    reasons = [f"\n{indent}  ".join(reason.split("; ")) for reason in verdict.reasons]
    return [f"{indent}{reason}" for reason in reasons] + [
        f"{indent}warning: {text}" for text in verdict.warnings if text not in but
    ]
