"""Quality of one complete set of predictions: metric, drop, agreement, flips, subgroups (M29)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from runner.evidence.verdict import Check, CheckStatus, Flip, MetricValue
from runner.judge.metrics import (
    Counts,
    Undefined,
    at_least,
    confusion,
    correct,
    decimal_text,
    fraction_text,
    is_exact,
    metric_value,
    short,
    wilson_interval,
)
from runner.protocol.reference import BaselineValues, Reference
from runner.protocol.schema import MetricName, Protocol, Quality

Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
_LISTED_FLIPS = 100
_ALL = "all"


@dataclass(frozen=True)
class QualityResult:
    """The quality part of a verdict; checks in the order of judgement."""

    checks: tuple[Check, ...]
    metrics: tuple[MetricValue, ...]
    baseline_metric: MetricValue | None
    drop: str | None
    agreement: str | None
    flips: int | None
    flips_listed: tuple[Flip, ...]


def judge_quality(
    codes: Codes, score: Floats | None, reference: Reference, baseline: BaselineValues | None, protocol: Protocol
) -> QualityResult:
    """Judge predictions that are complete and valid: classes in corpus order, shape (documents,)."""
    quality = protocol.quality
    counts = confusion(reference.truth, codes, len(reference.table.labels))
    main = _measured(quality.metric, counts, _ALL, quality.threshold)
    checks = [_metric_check("metric", main)]
    metrics = [main, *([_accuracy(counts)] if quality.metric != "accuracy" else [])]
    baseline_metric = drop = agreement = flips = None
    listed: tuple[Flip, ...] = ()
    if baseline is None:
        checks += [_no_baseline(name) for name in ("drop", "agreement", "flips")]
    else:
        baseline_counts = confusion(reference.truth, baseline.codes, len(reference.table.labels))
        baseline_metric = _measured(quality.metric, baseline_counts, _ALL, None)
        check, drop = _drop(quality, counts, baseline_counts)
        different = np.flatnonzero(codes != baseline.codes)
        flips = len(different)
        agreement_value = Fraction(len(reference) - flips, len(reference))
        agreement = fraction_text(agreement_value, len(reference))
        checks += [check, _agreement(quality, agreement_value, agreement), _flips(quality, flips)]
        listed = tuple(_flip(row, codes, baseline.codes, reference) for row in different[:_LISTED_FLIPS].tolist())
    for value in _subgroups(codes, reference, quality):
        metrics.append(value)
        checks.append(_metric_check(f"subgroup {value.group}", value))
    checks.append(_reproduction(codes, score, baseline, protocol))
    return QualityResult(tuple(checks), tuple(metrics), baseline_metric, drop, agreement, flips, listed)


def _measured(metric: MetricName, counts: Counts, group: str, minimum: str | None) -> MetricValue:
    documents = sum(map(sum, counts))
    value = metric_value(metric, counts)
    low, high = wilson_interval(correct(counts), documents) if metric == "accuracy" and documents else (None, None)
    if isinstance(value, Undefined):
        return MetricValue(
            metric=metric, group=group, documents=documents, fraction=None, value=None, minimum=minimum, met=None,
            reason=value.reason,
        )
    share_of = documents if metric == "accuracy" else None
    return MetricValue(
        metric=metric,
        group=group,
        documents=documents,
        fraction=fraction_text(value, share_of) if is_exact(metric) else None,
        value=decimal_text(value),
        minimum=minimum,
        met=None if minimum is None else at_least(value, _exact(minimum)),
        interval_low=low,
        interval_high=high,
        interval_method="Wilson, 95 %" if low is not None else None,
    )


def _accuracy(counts: Counts) -> MetricValue:
    """Shown beside another main metric, without a minimum."""
    return _measured("accuracy", counts, _ALL, None)


def _exact(text: str) -> Fraction:
    return Fraction(Decimal(text))


def _metric_check(name: str, value: MetricValue) -> Check:
    shown = value.fraction or value.value
    what = f"{value.metric} {shown}" + (f" = {short(value.value)}" if value.fraction and value.value else "")
    where = "" if value.group == _ALL else f" on {value.group} ({value.documents} documents)"
    if value.met is None:
        return Check(name=name, status="not assessable", found=None, limit=value.minimum,
                     reason=f"{value.metric}{where}: {value.reason}")
    relation = "reaches" if value.met else "is below"
    return Check(name=name, status="passed" if value.met else "failed", found=shown, limit=value.minimum,
                 reason=f"{what}{where} {relation} {value.minimum}")


def _drop(quality: Quality, counts: Counts, baseline: Counts) -> tuple[Check, str | None]:
    """Baseline minus this; an improvement is a negative drop. Equal to the limit passes (QU-07)."""
    here, there = metric_value(quality.metric, counts), metric_value(quality.metric, baseline)
    if isinstance(here, Undefined):
        return _no_drop(quality, here.reason), None
    if isinstance(there, Undefined):
        return _no_drop(quality, f"baseline: {there.reason}"), None
    drop = there - here
    within = at_least(_exact(quality.max_drop), drop)
    shown = fraction_text(drop) if is_exact(quality.metric) else decimal_text(drop)
    relation = "within" if within else "above"
    reason = f"{quality.metric} drops by {short(decimal_text(drop))} from the baseline, {relation} {quality.max_drop}"
    status: CheckStatus = "passed" if within else "failed"
    return Check(name="drop", status=status, found=shown, limit=quality.max_drop, reason=reason), shown


def _no_drop(quality: Quality, reason: str) -> Check:
    return Check(name="drop", status="not assessable", found=None, limit=quality.max_drop, reason=reason)


def _agreement(quality: Quality, value: Fraction, shown: str) -> Check:
    enough = value >= _exact(quality.min_agreement)
    relation = "reaches" if enough else "is below"
    return Check(
        name="agreement", status="passed" if enough else "failed", found=shown, limit=quality.min_agreement,
        reason=f"{shown} labels as in the baseline {relation} {quality.min_agreement}",
    )


def _flips(quality: Quality, flips: int) -> Check:
    limit = quality.max_flips
    if limit is None:
        return Check(name="flips", status="passed", found=str(flips), limit=None, reason=f"flips {flips}, not limited")
    return Check(
        name="flips", status="passed" if flips <= limit else "failed", found=str(flips), limit=str(limit),
        reason=f"flips {flips} {'<=' if flips <= limit else '>'} {limit} allowed",
    )


def _flip(row: int, codes: Codes, baseline: Codes, reference: Reference) -> Flip:
    labels = reference.table.labels
    return Flip(document_id=reference.ids[row].as_py(), baseline_label=labels[baseline[row]], label=labels[codes[row]])


def _subgroups(codes: Codes, reference: Reference, quality: Quality) -> Iterator[MetricValue]:
    for group in quality.subgroup:
        mask = reference.groups[group.column].mask(group.value)
        counts = confusion(reference.truth[mask], codes[mask], len(reference.table.labels))
        yield _measured(group.metric or quality.metric, counts, f"{group.column}={group.value}", group.minimum)


def _no_baseline(name: str) -> Check:
    return Check(name=name, status="not assessable", found=None, limit=None, reason="no baseline was frozen")


def _reproduction(codes: Codes, score: Floats | None, baseline: BaselineValues | None, protocol: Protocol) -> Check:
    """What is to be reproduced (M27), against the baseline."""
    goal, limit = protocol.reproduction.goal, protocol.reproduction.max_score_difference
    if goal == "task_quality":
        return Check(name="reproduction", status="passed", found=None, limit=None,
                     reason="the goal is task quality: judged by the checks before")
    if baseline is None or score is None or baseline.score is None or bool(np.isnan(score).any()):
        return Check(name="reproduction", status="not assessable", found=None, limit=limit,
                     reason="scores of the pass or of the baseline are missing")
    flips = int((codes != baseline.codes).sum())
    largest = Fraction(float(np.abs(score - baseline.score).max()))
    allowed = Fraction(0) if limit is None else _exact(limit)
    same = largest <= allowed and (goal == "bounded" or flips == 0)
    reason = f"goal {goal}: largest difference of a score {short(decimal_text(largest))}, {flips} labels differ"
    return Check(name="reproduction", status="passed" if same else "failed", found=decimal_text(largest),
                 limit=limit or "0", reason=reason)
