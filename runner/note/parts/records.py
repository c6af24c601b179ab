"""All attempts, and those that were not accepted (M22, M23, M31, M48)."""

from __future__ import annotations

from typing import Any

from runner.evidence.attempt import Attempt, Status
from runner.measure.schedule import schedule
from runner.note.evidence import Evidence
from runner.note.markdown import Markdown, code, escape
from runner.note.parts.measured import places_of
from runner.note.parts.tables import capped, configuration_of
from runner.note.words import NOTHING, Speaker
from runner.units import exact_seconds, parse_utc

_MOST_TEXTS = 12
_MOST_IDS = 4
_NAMES = "\0"  # stands in a sentence for names that are marked up
_NOT_FAILURES = frozenset({Status.UNAVAILABLE, Status.UNSUPPORTED, Status.INTERRUPTED})


def failures(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Every attempt under this lock that gave no accepted pass, with what happened."""
    missed = [attempt for attempt in evidence.counted_attempts if not evidence.accepted(attempt)]
    shown, count = capped(missed)
    return {
        "rows": [_failure(attempt, evidence, speaker) for attempt in shown],
        "count": count,
        "shown": len(shown),
        "left_out": [
            {"id": item.attempt_id, "reason": speaker.sentence(item.reason)} for item in evidence.balance.left_out
        ],
    }


def attempts(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """The first attempts in schedule order (the whole table is attached); before any is measured: the blank sheet."""
    shown, count = capped(evidence.counted_attempts)
    planned, planned_count = ([], 0) if evidence.measured_rows else _planned(evidence, speaker)
    return {
        "rows": [_attempt(attempt, evidence, speaker) for attempt in shown],
        "count": count,
        "shown": len(shown),
        "disturbed": any(attempt.device_shared for attempt in shown),
        "warnings": _warnings(evidence, speaker),
        "clocks": _clocks(evidence, speaker),
        "planned": planned,
        "planned_count": planned_count,
        "planned_shown": len(planned),
    }


def _warnings(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """Warnings of the verdicts, each once with the attempts that have it; they refuse nothing."""
    found: dict[str, list[str]] = {}
    for attempt in evidence.counted_attempts:
        verdict = evidence.verdicts.get(attempt.attempt_id)
        for text in verdict.warnings if verdict is not None else ():
            found.setdefault(text, []).append(attempt.attempt_id)
    shown, count = capped(list(found.items()), _MOST_TEXTS)
    rows = [
        {"text": speaker.recorded(text), "count": speaker.fmt.integer(len(ids)), "attempts": _ids(ids, speaker)}
        for text, ids in shown
    ]
    if count > len(shown):
        more = speaker.catalogue.ngettext("%(count)s more in the record", "%(count)s more in the record",
                                          count - len(shown))  # fmt: skip
        rows.append({"text": more, "count": NOTHING, "attempts": NOTHING})
    return rows


def _ids(ids: list[str], speaker: Speaker) -> Markdown:
    """The first names, each on one line, and where all of them stand."""
    shown = ", ".join(map(code, ids[:_MOST_IDS]))
    if len(ids) <= _MOST_IDS:
        return Markdown(shown)
    more = speaker.fmt.integer(len(ids) - _MOST_IDS)
    text = speaker.catalogue.gettext("%(names)s and %(count)s more: all in verdicts/", names=_NAMES, count=more)
    before, _, after = text.partition(_NAMES)
    return Markdown(f"{escape(before) if before else ''}{shown}{escape(after)}")


def _clocks(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """Both wall times of attempts whose clock moved or is behind the freeze; nothing is computed from them (TI-03)."""
    frozen = parse_utc(evidence.lock.frozen_at_utc)
    wrong = [
        attempt
        for attempt in evidence.counted_attempts
        if attempt.wall_clock_moved or parse_utc(attempt.started_at_utc) < frozen
    ]
    return [
        {
            "id": attempt.attempt_id,
            "started": speaker.fmt.short_instant(attempt.started_at_utc),
            "ended": NOTHING if attempt.ended_at_utc is None else speaker.fmt.short_instant(attempt.ended_at_utc),
            "moved": NOTHING
            if attempt.wall_clock_moved_seconds is None
            else speaker.fmt.seconds(exact_seconds(attempt.wall_clock_moved_seconds), 0),
        }
        for attempt in capped(wrong)[0]
    ]


def _planned(evidence: Evidence, speaker: Speaker) -> tuple[list[dict[str, str]], int]:
    """The blank sheet: every frozen slot, nothing in its cells."""
    lock, rule = evidence.lock, evidence.protocol.measurement
    documents = {corpus.id: corpus.documents for corpus in lock.judgement.corpora}
    planned, count = capped(list(schedule(lock.variants, list(documents), rule.seeds, rule.passes_planned)))
    rows = [
        {
            "slot": f"{item.slot.pass_index + 1}.{item.slot.position + 1}",
            "variant": item.variant.id,
            "corpus": item.corpus_id,
            "documents": speaker.fmt.integer(documents[item.corpus_id]),
        }
        for item in planned
    ]
    return rows, count


def _done(attempt: Attempt, speaker: Speaker) -> str:
    done = NOTHING if attempt.completed_documents is None else speaker.fmt.integer(attempt.completed_documents)
    return f"{done} / {speaker.fmt.integer(attempt.expected_documents)}"


def _failure(attempt: Attempt, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    t = speaker.catalogue
    verdict = evidence.verdicts.get(attempt.attempt_id)
    parts = []
    if attempt.error is not None:
        parts.append(speaker.error(attempt.error.kind, attempt.error.message))
    if attempt.status is Status.COMPLETED and verdict is not None:
        parts += [speaker.recorded(reason) for reason in verdict.reasons[:_MOST_TEXTS]]
    parts += [speaker.recorded(note) for note in attempt.notes[:_MOST_TEXTS]]
    count = len(attempt.notes) + bool(attempt.error)
    if attempt.status is Status.COMPLETED and verdict is not None:
        count += len(verdict.reasons)
    counts = _uncounted(attempt, evidence, speaker) or t.gettext("failure")
    return {
        "id": attempt.attempt_id,
        "name": configuration_of(evidence, attempt),
        "status": speaker.status(attempt.status),
        "documents": _done(attempt, speaker),
        "why": _joined(parts, count, speaker),
        "counts": counts,
    }


def _uncounted(attempt: Attempt, evidence: Evidence, speaker: Speaker) -> str:
    """The word for an attempt that is neither accepted nor a failure; empty for all others."""
    if attempt.attempt_id in evidence.left_out:
        return speaker.catalogue.gettext("excluded")
    return speaker.catalogue.gettext("not counted") if attempt.status in _NOT_FAILURES else ""


def _joined(parts: list[str], count: int, speaker: Speaker) -> str:
    """The first texts of a record; how many more of its `count` there are is said."""
    shown = parts[:_MOST_TEXTS]
    if count > len(shown):
        more = count - len(shown)
        shown.append(speaker.catalogue.ngettext("%(count)s more in the record", "%(count)s more in the record", more))
    return speaker.parted(shown) or NOTHING


def _attempt(attempt: Attempt, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    fmt, t = speaker.fmt, speaker.catalogue
    verdict = evidence.verdicts.get(attempt.attempt_id)
    uncounted = _uncounted(attempt, evidence, speaker)
    if uncounted or verdict is None:
        kind, word = "none", uncounted or NOTHING
    elif verdict.accepted:
        kind, word = "met", t.gettext("accepted")
    else:
        kind, word = "not-met", t.gettext("rejected")
    seconds = attempt.pass_seconds
    return {
        "id": attempt.attempt_id,
        "slot": f"{attempt.slot.pass_index + 1}.{attempt.slot.position + 1}",
        "name": configuration_of(evidence, attempt),
        "started": fmt.short_instant(attempt.started_at_utc),
        "status": _with_others(speaker.status(attempt.status), attempt, speaker),
        "documents": _done(attempt, speaker),
        "seconds": NOTHING if seconds is None else fmt.decimal(repr(seconds), places_of(exact_seconds(seconds))),
        "kind": kind,
        "word": word,
    }


def _with_others(status: str, attempt: Attempt, speaker: Speaker) -> str:
    """The status, with a word where other processes used the device."""
    if not attempt.device_shared:
        return status
    return speaker.catalogue.gettext("%(status)s, disturbed", status=status)
