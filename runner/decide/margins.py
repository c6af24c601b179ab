"""How far the accepted quality is from its minimum (what-if of the threshold)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from runner.decide.fates import Fate, Judged
from runner.decide.model import QualityMargin
from runner.decide.summaries import decimal_text
from runner.evidence.verdict import MetricValue


def quality_margins(judged: Sequence[Judged]) -> tuple[QualityMargin, ...]:
    """One margin per corpus, metric and group with a minimum: the lowest value among the accepted passes."""
    lowest: dict[tuple[str, str, str], MetricValue] = {}
    for item in judged:
        if item.fate is not Fate.ACCEPTED or item.verdict is None:
            continue
        for metric in item.verdict.metrics:
            key = (item.attempt.corpus_id, metric.group, metric.metric)
            if metric.value is None or metric.minimum is None:
                continue
            known = lowest.get(key)
            if known is None or Decimal(metric.value) < Decimal(known.value or "0"):
                lowest[key] = metric
    return tuple(_margin(corpus, metric) for (corpus, _, _), metric in sorted(lowest.items(), key=lambda item: item[0]))


def _margin(corpus: str, metric: MetricValue) -> QualityMargin:
    assert metric.value is not None and metric.minimum is not None
    return QualityMargin(
        corpus_id=corpus,
        group=metric.group,
        metric=metric.metric,
        documents=metric.documents,
        value=metric.value,
        minimum=metric.minimum,
        margin=decimal_text(Decimal(metric.value) - Decimal(metric.minimum)),
        spare_documents=_spare(metric),
    )


def _spare(metric: MetricValue) -> int | None:
    """Right answers that could turn wrong with the minimum still met: exact, for accuracy only."""
    if metric.metric != "accuracy" or metric.fraction is None or metric.minimum is None:
        return None
    right = Fraction(metric.fraction) * metric.documents
    needed = Fraction(metric.minimum) * metric.documents
    return int((right - needed) // 1)
