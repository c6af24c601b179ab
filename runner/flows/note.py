"""The whole chain in one call: baseline, freeze, blank sheet, measure, validate, report, verify.

Every stage keeps what is there: after an interruption the same call goes on where it stopped, and
with nothing changed it only checks. Nothing is printed here; `say` gets one line per stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.decide.model import Balance, Decision
from runner.evidence.campaign import Campaign
from runner.flows.collector import collector_paused
from runner.flows.report import make_report
from runner.flows.standing import standing_language
from runner.flows.verification import Verification
from runner.flows.verify import verify
from runner.judge.campaign import judge_campaign
from runner.judge.minimum import frozen_baselines, warnings_of
from runner.measure.baseline import make_baselines
from runner.measure.plan_sheet import write_plan_sheet
from runner.measure.run import Outcome, Progress, Request, measure
from runner.protocol.freeze import make_freeze

Say = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """What the note says, and what a check of all its evidence found."""

    decision: Decision
    balance: Balance
    verification: Verification


@dataclass(frozen=True)
class Chain:
    """How far the chain came. `answer` is None when measuring was stopped or nothing could be measured."""

    measured: Outcome
    answer: Answer | None


def make_note(campaign: Campaign, request: Request, language: str | None, progress: Progress, say: Say) -> Chain:
    """From protocol and corpus to a verified note; raises `RunnerError` where a stage refuses."""
    _freeze(campaign, say)
    measured = measure(campaign, request, progress)
    for warning in measured.warnings:
        say(f"warning: {warning}")
    say(f"measure: {measured.completed} of {measured.wanted} passes completed, {len(measured.written)} of them now")
    if measured.stopped_by or not measured.completed:
        return Chain(measured, None)
    verdicts = judge_campaign(campaign)
    say(f"validate: {sum(verdict.accepted for verdict in verdicts)} of {len(verdicts)} attempts accepted")
    verification = _report(campaign, language, say)
    say(f"verify: {verification.bottom_line}")
    answer = Answer(Decision.load(campaign.decision), Balance.load(campaign.balance), verification)
    return Chain(measured, answer)


def _freeze(campaign: Campaign, say: Say) -> None:
    """Reference predictions and lock. With attempts there, the baseline is what they were frozen with."""
    if not any(campaign.attempts.glob("*.json")):
        for made in make_baselines(campaign):
            how = "made" if made.made else "unchanged"
            say(f"baseline: {made.corpus_id}, {made.documents} reference predictions ({how})")
    frozen = make_freeze(campaign)
    say(f"freeze: {frozen.outcome}, lock {frozen.lock.lock_sha256[:12]}")
    for warning in (*frozen.warnings, *warnings_of(frozen_baselines(campaign, frozen.lock))):
        say(f"warning: {warning}")
    path, rows = write_plan_sheet(campaign)
    say(f"plan: {len(rows)} attempts planned ({campaign.relative(path)})")


@collector_paused()
def _report(campaign: Campaign, language: str | None, say: Say) -> Verification:
    """Write and sign the note, unless the one that is there still follows from its evidence.

    Without a language any note that fits stays, and a new one is in the language of the one before.
    """
    standing = standing_language(campaign)
    if standing is not None and language in (None, standing):
        found = verify(campaign.root)
        if found.accepted:
            say(f"report: the note that is there ({standing}) still fits its evidence")
            return found
    made = make_report(campaign, language)
    for warning in made.warnings:
        say(f"warning: {warning}")
    say(f"report: {made.note_id}, signed with {made.signer.label}")
    return verify(campaign.root)
