"""From a prediction file to classes in corpus order, or to the reasons why it cannot be judged (M28)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.errors import InputRefused
from runner.evidence.verdict import Check, IdCounts
from runner.protocol.identity import describe, details, match_ids
from runner.protocol.predictions import Predictions, label_codes, label_faults, read_predictions, score_faults
from runner.protocol.reference import Reference


@dataclass(frozen=True)
class Usable:
    """Predictions with the exact ids, in corpus order: classes and scores, shape (documents,)."""

    codes: npt.NDArray[np.int32]
    score: npt.NDArray[np.float64] | None


@dataclass(frozen=True)
class Examined:
    """What a prediction file turned out to be. `usable` only if every check passed."""

    sha256: str | None
    ids: IdCounts | None
    checks: tuple[Check, ...]
    usable: Usable | None


def examine(path: Path, reference: Reference, *, sha256: str | None = None) -> Examined:
    """What the file of an attempt is worth; one that cannot be read is a failed check, not a refusal.

    `sha256`: what the attempt's row says about the file; None: it says nothing.
    """
    try:
        predictions = read_predictions(path)
        if sha256 is None or predictions.sha256 == sha256:
            return compare(predictions, reference)
    except InputRefused as error:  # ids are read while they are compared: they may turn out unreadable there
        if error.file != str(path):
            raise
        return Examined(None, None, (_check("predictions", False, error.in_one_line()), *_unassessed("ids")), None)
    reason = f"the file is not the one that the attempt wrote (sha256 {predictions.sha256[:12]}, row {sha256[:12]})"
    failed = _check("predictions", False, reason)
    return Examined(predictions.sha256, None, (failed, *_unassessed("ids")), None)


def compare(predictions: Predictions, reference: Reference) -> Examined:
    """Compare the ids exactly, then labels, then scores; a check after a failed one is not assessable."""
    checks = [_check("predictions", True, f"{len(predictions)} rows read")]
    match = match_ids(reference.ids, predictions)
    checks.append(_ids(match.counts))
    if not match.counts.ids_match:
        return Examined(predictions.sha256, match.counts, (*checks, *_unassessed("labels")), None)
    codes = label_codes(predictions.labels, reference.table.labels)
    wrong_labels = label_faults(predictions, codes, reference.table.labels)
    wrong_scores = score_faults(predictions)
    checks.append(_faults("labels", wrong_labels, "every label is in the frozen table"))
    checks.append(_faults("scores", wrong_scores, "every score is finite and within 0 to 1"))
    if wrong_labels or wrong_scores:
        return Examined(predictions.sha256, match.counts, tuple(checks), None)
    score = None if predictions.score is None else match.in_corpus_order(predictions.score)
    return Examined(predictions.sha256, match.counts, tuple(checks), Usable(match.in_corpus_order(codes), score))


def no_predictions(reason: str) -> Examined:
    """For an attempt without a prediction file."""
    return Examined(None, None, (_check("predictions", False, reason), *_unassessed("ids")), None)


def _ids(counts: IdCounts) -> Check:
    summary = f"{counts.observed_ids} rows, {describe(counts)}"
    reason = "exactly the expected ids" if counts.ids_match else "; ".join((summary, *details(counts)))
    return Check(
        name="ids",
        status="passed" if counts.ids_match else "failed",
        found=summary,
        limit=f"{counts.expected_ids} expected ids, each once",
        reason=reason,
    )


def _faults(name: str, faults: tuple[str, ...], good: str) -> Check:
    return _check(name, not faults, "; ".join(faults) or good)


def _check(name: str, passed: bool, reason: str) -> Check:
    return Check(name=name, status="passed" if passed else "failed", found=None, limit=None, reason=reason)


def _unassessed(first: str) -> tuple[Check, ...]:
    names = ("ids", "labels", "scores")
    return tuple(
        Check(name=name, status="not assessable", found=None, limit=None, reason="an earlier check failed")
        for name in names[names.index(first) :]
    )
