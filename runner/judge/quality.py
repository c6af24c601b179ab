"""Quality of one complete set of predictions: metric, drop, agreement, flips, subgroups (M29)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from runner.evidence.verdict import Check, CheckStatus, Flip, MetricValue
from runner.judge.intervals import metric_interval
from runner.judge.metrics import (
    Counts,
    Undefined,
    Value,
    at_least,
    confusion,
    confusions,
    decimal_text,
    fraction_text,
    is_exact,
    metric_value,
    short,
)
from runner.protocol.idcolumn import texts_at
from runner.protocol.predictions import Codes
from runner.protocol.procedure import Procedure, value_of
from runner.protocol.reference import BaselineValues, Reference, answered
from runner.protocol.schema import OWN, MetricName, Protocol, Quality, Subgroup

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


@dataclass(frozen=True)
class _Group:
    """Predictions on some documents of the corpus, counted once; `subgroup` None: all documents."""

    name: str
    counts: Counts
    codes: Codes
    subgroup: Subgroup | None = None


@dataclass(frozen=True)
class _Meter:
    """Built-in metrics from the counts, the protocol's own one by its procedure."""

    reference: Reference
    protocol: Protocol
    procedure: Procedure | None

    def everything(self, codes: Codes) -> _Group:
        return _Group(_ALL, confusion(self.reference.truth, codes, len(self.reference.table.labels)), codes)

    def subgroups(self, codes: Codes) -> Iterator[_Group]:
        """The planned subgroups in the order of the protocol; those of one column are counted in one pass."""
        counted: dict[tuple[str, str], Counts] = {}
        planned = self.protocol.quality.subgroup
        for column in dict.fromkeys(item.column for item in planned):
            values = list(dict.fromkeys(item.value for item in planned if item.column == column))
            parts = self.reference.groups[column].parts(values)
            _, *counts = confusions(self.reference.truth, codes, len(self.reference.table.labels), parts)
            counted.update({(column, value): found for value, found in zip(values, counts, strict=True)})
        for item in planned:
            yield _Group(f"{item.column}={item.value}", counted[item.column, item.value], codes, item)

    def value(self, metric: MetricName, group: _Group) -> Value:
        if metric != OWN:
            return metric_value(metric, group.counts)
        if self.procedure is None:
            raise AssertionError("a protocol with an own metric was judged without its procedure")
        part = group.subgroup
        mask = None if part is None else self.reference.groups[part.column].mask(part.value)
        found = value_of(self.procedure, answered(self.reference, group.codes, mask))
        return Undefined(f"{self.procedure.name} gives no value") if found is None else found


def judge_quality(
    codes: Codes,
    score: Floats | None,
    reference: Reference,
    baseline: BaselineValues | None,
    protocol: Protocol,
    procedure: Procedure | None = None,
) -> QualityResult:
    """Judge predictions that are complete and valid: classes in corpus order, shape (documents,).

    `procedure`: the frozen evaluation procedure, where the protocol has one.
    """
    quality = protocol.quality
    meter = _Meter(reference, protocol, procedure)
    here = meter.everything(codes)
    main = _measured(meter, quality.metric, here, quality.threshold)
    checks = [_metric_check("metric", main)]
    metrics = [main, *([_measured(meter, "accuracy", here, None)] if quality.metric != "accuracy" else [])]
    baseline_metric = drop = agreement = flips = None
    listed: tuple[Flip, ...] = ()
    if baseline is None:
        checks += [_no_baseline(name) for name in ("drop", "agreement", "flips")]
    else:
        there = meter.everything(baseline.codes)
        baseline_metric = _measured(meter, quality.metric, there, None)
        check, drop = _drop(meter, here, there)
        different = np.flatnonzero(codes != baseline.codes)
        flips = len(different)
        agreement_value = Fraction(len(reference) - flips, len(reference))
        agreement = fraction_text(agreement_value, len(reference))
        checks += [check, _agreement(quality, agreement_value, agreement), _flips(quality, flips)]
        listed = _listed_flips(different[:_LISTED_FLIPS].tolist(), codes, baseline.codes, reference)
    for value in _subgroups(meter, codes):
        metrics.append(value)
        checks.append(_metric_check(f"subgroup {value.group}", value))
    checks.append(_reproduction(codes, score, baseline, protocol))
    return QualityResult(tuple(checks), tuple(metrics), baseline_metric, drop, agreement, flips, listed)


def _measured(meter: _Meter, metric: MetricName, group: _Group, minimum: str | None) -> MetricValue:
    documents = sum(map(sum, group.counts))
    value, name = meter.value(metric, group), meter.protocol.metric_name(metric)
    interval = None if metric == OWN else metric_interval(metric, group.counts)
    if isinstance(value, Undefined):
        return MetricValue(
            metric=name,
            group=group.name,
            documents=documents,
            fraction=None,
            value=None,
            minimum=minimum,
            met=None,
            reason=value.reason,
        )
    share_of = documents if metric == "accuracy" else None
    return MetricValue(
        metric=name,
        group=group.name,
        documents=documents,
        fraction=fraction_text(value, share_of) if is_exact(metric) else None,
        value=decimal_text(value),
        minimum=minimum,
        met=None if minimum is None else at_least(value, _exact(minimum)),
        interval_low=interval.low if interval else None,
        interval_high=interval.high if interval else None,
        interval_method=interval.method if interval else None,
    )


def _exact(text: str) -> Fraction:
    return Fraction(Decimal(text))


def _metric_check(name: str, value: MetricValue) -> Check:
    shown = value.fraction or value.value
    what = f"{value.metric} {shown}" + (f" = {short(value.value)}" if value.fraction and value.value else "")
    where = "" if value.group == _ALL else f" on {value.group} ({value.documents} documents)"
    if value.met is None:
        return Check(
            name=name,
            status="not assessable",
            found=None,
            limit=value.minimum,
            reason=f"{value.metric}{where}: {value.reason}",
        )
    relation = "reaches" if value.met else "is below"
    return Check(
        name=name,
        status="passed" if value.met else "failed",
        found=shown,
        limit=value.minimum,
        reason=f"{what}{where} {relation} {value.minimum}",
    )


def _drop(meter: _Meter, now: _Group, baseline: _Group) -> tuple[Check, str | None]:
    """Baseline minus this; an improvement is a negative drop. Equal to the limit passes (QU-07)."""
    quality = meter.protocol.quality
    here, there = meter.value(quality.metric, now), meter.value(quality.metric, baseline)
    if isinstance(here, Undefined):
        return _no_drop(quality, here.reason), None
    if isinstance(there, Undefined):
        return _no_drop(quality, f"baseline: {there.reason}"), None
    drop = there - here
    within = at_least(_exact(quality.max_drop), drop)
    shown = fraction_text(drop) if is_exact(quality.metric) else decimal_text(drop)
    relation = "within" if within else "above"
    name = meter.protocol.metric_name()
    reason = f"{name} drops by {short(decimal_text(drop))} from the baseline, {relation} {quality.max_drop}"
    status: CheckStatus = "passed" if within else "failed"
    return Check(name="drop", status=status, found=shown, limit=quality.max_drop, reason=reason), shown


def _no_drop(quality: Quality, reason: str) -> Check:
    return Check(name="drop", status="not assessable", found=None, limit=quality.max_drop, reason=reason)


def _agreement(quality: Quality, value: Fraction, shown: str) -> Check:
    enough = value >= _exact(quality.min_agreement)
    relation = "reaches" if enough else "is below"
    return Check(
        name="agreement",
        status="passed" if enough else "failed",
        found=shown,
        limit=quality.min_agreement,
        reason=f"{shown} labels as in the baseline {relation} {quality.min_agreement}",
    )


def _flips(quality: Quality, flips: int) -> Check:
    limit = quality.max_flips
    if limit is None:
        return Check(name="flips", status="passed", found=str(flips), limit=None, reason=f"flips {flips}, not limited")
    return Check(
        name="flips",
        status="passed" if flips <= limit else "failed",
        found=str(flips),
        limit=str(limit),
        reason=f"flips {flips} {'<=' if flips <= limit else '>'} {limit} allowed",
    )


def _listed_flips(rows: list[int], codes: Codes, baseline: Codes, reference: Reference) -> tuple[Flip, ...]:
    labels = reference.table.labels
    return tuple(
        Flip(document_id=name or "", baseline_label=labels[baseline[row]], label=labels[codes[row]])
        for row, name in zip(rows, texts_at(reference.ids, rows), strict=True)
    )


def _subgroups(meter: _Meter, codes: Codes) -> Iterator[MetricValue]:
    for group in meter.subgroups(codes):
        planned = group.subgroup
        if planned is not None:
            yield _measured(meter, planned.metric or meter.protocol.quality.metric, group, planned.minimum)


def _no_baseline(name: str) -> Check:
    return Check(name=name, status="not assessable", found=None, limit=None, reason="no baseline was frozen")


def _reproduction(codes: Codes, score: Floats | None, baseline: BaselineValues | None, protocol: Protocol) -> Check:
    """What is to be reproduced (M27), against the baseline."""
    goal, limit = protocol.reproduction.goal, protocol.reproduction.max_score_difference
    if goal == "task_quality":
        return Check(
            name="reproduction",
            status="passed",
            found=None,
            limit=None,
            reason="the goal is task quality: judged by the checks before",
        )
    if baseline is None or score is None or baseline.score is None or bool(np.isnan(score).any()):
        return Check(
            name="reproduction",
            status="not assessable",
            found=None,
            limit=limit,
            reason="scores of the pass or of the baseline are missing",
        )
    flips = int((codes != baseline.codes).sum())
    largest = Fraction(float(np.abs(score - baseline.score).max()))
    allowed = Fraction(0) if limit is None else _exact(limit)
    same = largest <= allowed and (goal == "bounded" or flips == 0)
    reason = f"goal {goal}: largest difference of a score {short(decimal_text(largest))}, {flips} labels differ"
    return Check(
        name="reproduction",
        status="passed" if same else "failed",
        found=decimal_text(largest),
        limit=limit or "0",
        reason=reason,
    )
