"""The verdict on one attempt: every check, and one bottom line (M2, M28, M29)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.verdict import Check, Verdict
from runner.judge.predictions import Examined, compare, examine, no_predictions
from runner.judge.quality import QualityResult, judge_quality
from runner.judge.record import clock_warnings, record_checks
from runner.protocol.predictions import read_predictions
from runner.protocol.procedure import Procedure, frozen_procedure
from runner.protocol.reference import BaselineValues, Reference, load_baseline, load_reference
from runner.protocol.schema import Lock, Protocol

_GOOD = ("passed", "warning")
_SeenKey = tuple[str, str, str]


@dataclass(frozen=True)
class _Answers:
    """What one prediction file is worth, whoever wrote it. `right`: shape (documents,), None if it is not usable."""

    examined: Examined
    quality: QualityResult | None
    right: npt.NDArray[np.bool_] | None


class References:
    """References and baselines of the frozen corpora, each read once; of equal prediction files the first one."""

    def __init__(self, campaign: Campaign, lock: Lock) -> None:
        self._campaign = campaign
        self._lock = lock
        self._loaded: dict[str, tuple[Reference, BaselineValues | None]] = {}
        self._procedure: Procedure | None = None
        self._seen: dict[_SeenKey, _Answers] = {}

    def answers(self, attempt: Attempt, path: Path) -> _Answers | None:
        """What an equal file of an earlier row was worth: passes of one configuration often write the same bytes."""
        found = self._seen.get(_seen_key(attempt, path))
        return found if found is not None and sha256_file(path) == found.examined.sha256 else None

    def remember(self, attempt: Attempt, path: Path, answers: _Answers) -> None:
        """Only a file that was read and is the one of its row: what was said of others names their place."""
        if answers.examined.ids is not None:
            self._seen[_seen_key(attempt, path)] = answers

    def procedure(self) -> Procedure | None:
        """The evaluation procedure, if the protocol has one; refused if its source is not the frozen one."""
        evaluation = self._lock.protocol.evaluation
        if self._procedure is None and evaluation is not None:
            frozen = self._lock.judgement.evaluation_files
            self._procedure = frozen_procedure(frozen, evaluation, self._campaign.protocol_dir)
        return self._procedure

    def get(self, corpus_id: str) -> tuple[Reference, BaselineValues | None]:
        """Refused: a corpus that is not frozen, a changed or missing file."""
        if corpus_id not in self._loaded:
            reference = load_reference(self._campaign, self._lock, corpus_id)
            self._loaded[corpus_id] = (reference, load_baseline(self._campaign, self._lock, reference))
        return self._loaded[corpus_id]


def judge_attempt(campaign: Campaign, lock: Lock, attempt: Attempt, *, references: References | None = None) -> Verdict:
    """Judge one row and its predictions; pure: same files, same verdict.

    The metric is computed for every complete and valid set of predictions, also when the row itself
    is not acceptable, so that the note can say how good they were.
    """
    return judge_with_answers(campaign, lock, attempt, references=references)[0]


def judge_with_answers(
    campaign: Campaign, lock: Lock, attempt: Attempt, *, references: References | None = None
) -> tuple[Verdict, npt.NDArray[np.bool_] | None]:
    """The verdict, and which documents were labelled right in corpus order; None unless accepted."""
    references = references or References(campaign, lock)
    checks = list(record_checks(attempt, lock))
    right = None
    lock_fits = next(check.status for check in checks if check.name == "lock") == "passed"
    if not lock_fits:
        examined, quality = no_predictions("not looked at: the attempt belongs to another freeze"), None
    else:
        answers = _answers(campaign, lock, attempt, references)
        examined, quality, right = answers.examined, answers.quality, answers.right
    checks += examined.checks
    checks += quality.checks if quality else _unjudged(lock.protocol)
    verdict = _verdict(attempt.attempt_id, lock, examined, quality, checks, clock_warnings(attempt, lock))
    return verdict, right if verdict.accepted else None


def judge_file(path: Path, lock: Lock, name: str, corpus_id: str, references: References) -> Verdict:
    """Judge a prediction file of another engine: there is no row, so only ids, format and quality count.

    A file that cannot be read is refused as its reader says it: file, line, column, value, next step.
    """
    reference, baseline = references.get(corpus_id)
    examined = compare(read_predictions(path), reference)
    quality = _quality(examined, reference, baseline, lock.protocol, references)
    checks = [*examined.checks, *(quality.checks if quality else _unjudged(lock.protocol))]
    return _verdict(name, lock, examined, quality, checks, ())


def _seen_key(attempt: Attempt, path: Path) -> _SeenKey:
    """Kind of file, corpus, fingerprint as the row has it."""
    sha256 = "" if attempt.predictions is None else attempt.predictions.sha256
    return path.suffix.lower(), attempt.corpus_id, sha256


def _answers(campaign: Campaign, lock: Lock, attempt: Attempt, references: References) -> _Answers:
    reference, baseline = references.get(attempt.corpus_id)
    if attempt.predictions is None:
        reason = f"the attempt has no prediction file (status {attempt.status.value})"
        return _Answers(no_predictions(reason), None, None)
    if attempt.predictions_partial or attempt.status is not Status.COMPLETED:
        return _Answers(no_predictions("the predictions are partial: the pass did not end"), None, None)
    path = campaign.inside(attempt.predictions.path)
    if not path.is_file():
        return _Answers(no_predictions("the prediction file is missing"), None, None)
    known = references.answers(attempt, path)
    if known is not None:
        return known
    examined = examine(path, reference, sha256=attempt.predictions.sha256)
    quality = _quality(examined, reference, baseline, lock.protocol, references)
    right = None if examined.usable is None else examined.usable.codes == reference.truth
    answers = _Answers(replace(examined, usable=None), quality, right)
    references.remember(attempt, path, answers)
    return answers


def _quality(
    examined: Examined,
    reference: Reference,
    baseline: BaselineValues | None,
    protocol: Protocol,
    references: References,
) -> QualityResult | None:
    usable = examined.usable
    if usable is None:
        return None
    return judge_quality(usable.codes, usable.score, reference, baseline, protocol, references.procedure())


def _unjudged(protocol: Protocol) -> Iterator[Check]:
    """The quality checks that could not be made, so that every verdict names the same checks."""
    groups = [f"subgroup {group.column}={group.value}" for group in protocol.quality.subgroup]
    for name in ("metric", "drop", "agreement", "flips", *groups, "reproduction"):
        yield Check(
            name=name,
            status="not assessable",
            found=None,
            limit=None,
            reason="not computed: the predictions are not complete and valid",
        )


def _verdict(
    name: str,
    lock: Lock,
    examined: Examined,
    quality: QualityResult | None,
    checks: Iterable[Check],
    warnings: tuple[str, ...],
) -> Verdict:
    checks = tuple(checks)
    failed = [check for check in checks if check.status == "failed"]
    unknown = [check for check in checks if check.status == "not assessable"]
    # What could not be assessed because an earlier check failed adds nothing to the reasons.
    reasons = failed or unknown
    return Verdict(
        attempt_id=name,
        lock_sha256=lock.lock_sha256,
        predictions_sha256=examined.sha256,
        accepted=all(check.status in _GOOD for check in checks),
        reasons=tuple(f"{check.name}: {check.reason}" for check in reasons),
        warnings=(*warnings, *(f"{check.name}: {check.reason}" for check in checks if check.status == "warning")),
        checks=checks,
        ids=examined.ids,
        metrics=quality.metrics if quality else (),
        baseline_metric=quality.baseline_metric if quality else None,
        drop=quality.drop if quality else None,
        agreement=quality.agreement if quality else None,
        flips=quality.flips if quality else None,
        flips_listed=quality.flips_listed if quality else (),
    )
