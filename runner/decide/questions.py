"""What remains uncertain about one configuration, and what the reader should know beside its figures."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from runner.decide.fates import Fate, Judged
from runner.decide.model import PackageChoice, Reason, Summary
from runner.decide.sentences import say
from runner.evidence.attempt import Attempt
from runner.protocol.schema import Protocol

_PROCESSOR = "cpu"


def _card_memory_unknown(attempt: Attempt) -> bool:
    """On a card, a peak of the host's memory says nothing about the card's (engine `command`: its own affair)."""
    of_cards = [peak for peak in attempt.memory if not peak.device.endswith(_PROCESSOR)]
    return attempt.gpu_declared != _PROCESSOR and all(peak.bytes is None for peak in of_cards)


def open_questions(
    judged: Sequence[Judged], summaries: Sequence[Summary], protocol: Protocol, package: PackageChoice | None
) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """(open questions, notes). Questions are compared by their codes when everything else is tied."""
    accepted = [item for item in judged if item.fate is Fate.ACCEPTED]
    questions = []
    if package is not None and package.may_be_cheaper:
        questions.append(say("question.unpriced", gpu=package.gpu))
    if any(item.attempt.added_later for item in judged):
        questions.append(say("question.added-later"))
    if accepted and any(item.attempt.device_shared is None for item in accepted):
        questions.append(say("question.shared-unknown"))
    if accepted and any(item.attempt.device_shared for item in accepted):
        questions.append(say("question.shared"))
    if accepted and all(peak.bytes is None for item in accepted for peak in item.attempt.memory):
        questions.append(say("question.memory-unknown"))
    elif any(_card_memory_unknown(item.attempt) for item in accepted):
        questions.append(say("question.card-memory-unknown"))
    if any(item.verdict is not None and _interval_crosses(item, protocol) for item in accepted):
        questions.append(say("question.interval", threshold=protocol.quality.threshold))
    fewer = [s for s in summaries if 0 < s.accepted < protocol.measurement.passes_planned]
    if fewer:
        planned = str(protocol.measurement.passes_planned)
        questions.append(say("question.fewer", accepted_count=str(fewer[0].accepted), planned_count=planned))
    if any(s.accepted and s.computed_tokens is None for s in summaries):
        questions.append(say("question.tokens"))
    return tuple(questions), _failure_notes(judged)


def _interval_crosses(item: Judged, protocol: Protocol) -> bool:
    """Whether the metric's interval reaches below the threshold: accepted, with little in hand."""
    assert item.verdict is not None
    return any(
        metric.group == "all"
        and metric.interval_low is not None
        and Decimal(metric.interval_low) < Decimal(protocol.quality.threshold)
        for metric in item.verdict.metrics
    )


def _failure_notes(judged: Sequence[Judged]) -> tuple[Reason, ...]:
    """One sentence per attempt that was not accepted: failures stay in sight (M23)."""
    notes = []
    for item in judged:
        if item.fate is Fate.ACCEPTED:
            continue
        attempt = item.attempt
        why = attempt.status.value
        if attempt.error is not None:
            why = f"{why}: {attempt.error.message}"
        elif item.verdict is not None and item.verdict.reasons:
            why = "; ".join(item.verdict.reasons)
        done = "unknown" if attempt.completed_documents is None else str(attempt.completed_documents)
        notes.append(
            say(
                "attempt.not-accepted",
                attempt=attempt.attempt_id,
                why=why,
                done=done,
                expected_count=str(attempt.expected_documents),
            )
        )
    return tuple(notes)
