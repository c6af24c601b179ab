"""How far the accepted quality is from what would refuse it (what-if of the threshold)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from runner.decide.fates import Fate, Judged
from runner.decide.model import QualityMargin
from runner.decide.summaries import decimal_text
from runner.evidence.verdict import Check, MetricValue, Verdict
from runner.units import round_half_up

_PLACES = 12
_BESIDE_THE_METRIC = ("drop", "agreement", "flips", "reproduction")
"""Checks against the baseline: they may refuse a pass that still reaches every minimum."""


def quality_margins(judged: Sequence[Judged]) -> tuple[QualityMargin, ...]:
    """One margin per corpus, group and check that has a limit: the smallest among the accepted passes."""
    least: dict[tuple[str, str, str], QualityMargin] = {}
    for item in judged:
        if item.fate is not Fate.ACCEPTED or item.verdict is None:
            continue
        for margin in _margins(item.attempt.corpus_id, item.verdict):
            key = (margin.corpus_id, margin.group, margin.metric)
            if key not in least or Decimal(margin.margin) < Decimal(least[key].margin):
                least[key] = margin
    return tuple(margin for _, margin in sorted(least.items()))


def _margins(corpus: str, verdict: Verdict) -> Iterator[QualityMargin]:
    for metric in verdict.metrics:
        if metric.value is not None and metric.minimum is not None:
            yield QualityMargin(
                corpus_id=corpus,
                group=metric.group,
                metric=metric.metric,
                documents=metric.documents,
                value=metric.value,
                minimum=metric.minimum,
                margin=decimal_text(Decimal(metric.value) - Decimal(metric.minimum)),
                spare_documents=_spare(metric),
            )
    main = next((metric for metric in verdict.metrics if metric.group == "all"), None)
    for check in verdict.checks:
        if main is not None and check.name in _BESIDE_THE_METRIC and check.found and check.limit:
            yield _beside(corpus, main, check, Fraction(check.found), Fraction(check.limit))


def _spare(metric: MetricValue) -> int | None:
    """Right answers that could turn wrong with the minimum still met: exact, for accuracy only."""
    if metric.metric != "accuracy" or metric.fraction is None or metric.minimum is None:
        return None
    right = Fraction(metric.fraction) * metric.documents
    needed = Fraction(metric.minimum) * metric.documents
    return int((right - needed) // 1)


def _beside(corpus: str, main: MetricValue, check: Check, found: Fraction, limit: Fraction) -> QualityMargin:
    """Margin of a check against the baseline. A further wrong document is at most one more label that differs."""
    distance = found - limit if check.name == "agreement" else limit - found
    if check.name == "flips":
        distance /= main.documents
    counted = check.name in ("agreement", "flips") or (check.name == "drop" and main.metric == "accuracy")
    return QualityMargin(
        corpus_id=corpus,
        group="all",
        metric=check.name,
        documents=main.documents,
        value=_decimal(found),
        minimum=check.limit or "",
        margin=_decimal(distance),
        spare_documents=int(distance * main.documents // 1) if counted else None,
    )


def _decimal(value: Fraction) -> str:
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return decimal_text(round_half_up(exact, _PLACES))
