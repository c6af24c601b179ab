"""Why a cell of the table of attempts is empty: a reason for each, in words (M22, TI-07).

`unknown: ...` is a value that exists and was not measured or could not be read; `not applicable: ...` is one that this
attempt cannot have. The exact table keeps the cell empty and carries the reasons in its column `missing`; the table
for people has the words in the cell itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runner.evidence.attempt import Attempt, PhaseName, TokenCounts
from runner.evidence.verdict import Verdict

# Phases that an attempt may do without; recorded without seconds, their reason says that there was nothing to do.
_OPTIONAL = (PhaseName.DOWNLOAD, PhaseName.COMPILE)
NOT_SAID = "unknown: not recorded, and no reason either"


def missing_cells(
    empty: Iterable[str], attempt: Attempt, verdict: Verdict | None, phases: Mapping[str, PhaseName]
) -> dict[str, str]:
    """Reason of every empty column, in the order given. `phases`: columns that hold the seconds of a phase."""
    known = _recorded(attempt) | _joined(attempt, verdict)
    for column, name in phases.items():
        known[column] = _phase(attempt, name)
    return {column: known.get(column) or NOT_SAID for column in empty}


def _unknown(reason: str | None) -> str:
    return f"unknown: {reason}" if reason else NOT_SAID


def _does_not_apply(reason: str) -> str:
    return f"not applicable: {reason}"


def _recorded(attempt: Attempt) -> dict[str, str]:
    """Reasons that the row itself holds, or that follow from it."""
    no_error = _does_not_apply("no error") if attempt.error is None else _unknown("the error came without text")
    shares = {
        column: _unknown(attempt.telemetry_reasons.get(column, "not measured"))
        for column in ("utilisation_real", "utilisation_executed")
    }
    no_file = _does_not_apply(f"no predictions were written (status {attempt.status.value})")
    return shares | {
        "devices_found": _unknown("no device was found or named"),
        "series": _does_not_apply("the variant belongs to no series"),
        "retry_of": _does_not_apply("not a retry of another attempt"),
        "error_kind": no_error,
        "error_message": no_error,
        "ended_at_utc": _unknown(f"no end was recorded (status {attempt.status.value})"),
        "pass_seconds": _unknown(attempt.pass_seconds_reason),
        "completed_documents": _unknown(f"no number was recorded (status {attempt.status.value})"),
        **dict.fromkeys(TokenCounts.model_fields, _unknown(attempt.tokens_reason)),
        "memory_peaks": _unknown(attempt.memory_reason),
        "device_shared": _unknown(attempt.device_shared_reason),
        "recompilations": _unknown(attempt.recompilations_reason),
        "effective": _unknown(attempt.effective_reason),
        "predictions_path": no_file,
        "predictions_sha256": no_file,
        "manifest_sha256": _unknown(f"no description of the machine was recorded (status {attempt.status.value})"),
        "notes": _does_not_apply("no notes"),
    }


def _joined(attempt: Attempt, verdict: Verdict | None) -> dict[str, str]:
    """What the verdict says; without one nothing was judged."""
    if verdict is None:
        no_verdict = _unknown(f"no verdict (status {attempt.status.value})")
        return dict.fromkeys(("observed_ids", "ids_match", "corpus_accepted", "verdict_reasons"), no_verdict)
    unread = [check.reason for check in verdict.checks if check.name == "predictions" and check.status != "passed"]
    because = "; ".join(unread or verdict.reasons) or "the verdict holds no counts"
    return {
        "observed_ids": _unknown(because),
        "ids_match": _unknown(because),
        "verdict_reasons": _does_not_apply("accepted") if verdict.accepted else _unknown("the verdict names none"),
    }


def _phase(attempt: Attempt, name: PhaseName) -> str:
    """A phase without seconds says why; one that is not in the row may have taken place, so it is unknown."""
    for phase in attempt.phases:
        if phase.name is name and not phase.inside_pass and phase.seconds is None:
            return _does_not_apply(phase.reason) if phase.reason and name in _OPTIONAL else _unknown(phase.reason)
    return _unknown(f"the row holds no such phase (status {attempt.status.value})")
