"""The verdict on one attempt: every check, and one bottom line (M2, M28, M29)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Check, Verdict
from runner.judge.predictions import Examined, compare, examine, no_predictions
from runner.judge.quality import QualityResult, judge_quality
from runner.judge.record import clock_warnings, record_checks
from runner.protocol.predictions import read_predictions
from runner.protocol.procedure import Procedure, frozen_procedure
from runner.protocol.reference import BaselineValues, Reference, load_baseline, load_reference
from runner.protocol.schema import Lock, Protocol

_GOOD = ("passed", "warning")


class References:
    """References and baselines of the frozen corpora, each read once."""

    def __init__(self, campaign: Campaign, lock: Lock) -> None:
        self._campaign = campaign
        self._lock = lock
        self._loaded: dict[str, tuple[Reference, BaselineValues | None]] = {}
        self._procedure: Procedure | None = None

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
        reference, baseline = references.get(attempt.corpus_id)
        examined = _examined(campaign, attempt, reference)
        quality = _quality(examined, reference, baseline, lock.protocol, references)
        right = None if examined.usable is None else examined.usable.codes == reference.truth
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


def _examined(campaign: Campaign, attempt: Attempt, reference: Reference) -> Examined:
    if attempt.predictions is None:
        return no_predictions(f"the attempt has no prediction file (status {attempt.status.value})")
    if attempt.predictions_partial or attempt.status is not Status.COMPLETED:
        return no_predictions("the predictions are partial: the pass did not end")
    path = campaign.inside(attempt.predictions.path)
    if not path.is_file():
        return no_predictions("the prediction file is missing")
    return examine(path, reference, sha256=attempt.predictions.sha256)


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
