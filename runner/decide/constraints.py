"""What a configuration must meet before its price counts, from its judged attempts (DESIGN section 6, rule 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from runner.decide.fates import Fate, Judged
from runner.decide.model import Constraint, ConstraintName, Met, Reason, Summary
from runner.decide.sentences import say
from runner.evidence.attempt import Status
from runner.evidence.verdict import Verdict
from runner.protocol.schema import Measurement

ORDER: tuple[ConstraintName, ...] = (
    "quality",
    "completeness",
    "settings",
    "enough passes",
    "memory",
    "window",
    "deadline",
    "price",
    "availability",
)
"""Order in which the first failed constraint is named."""

_COMPLETE = ("status", "coverage", "predictions", "ids")
_SETTINGS = ("inputs", "settings", "same", "recompilation", "device")


def evidence_constraints(
    deliverables: Sequence[str], judged: Mapping[str, Sequence[Judged]], summaries: Iterable[Summary], rule: Measurement
) -> tuple[Constraint, ...]:
    """Quality, completeness, settings, enough passes and memory. `judged`: attempts by corpus id."""
    by_corpus = {corpus: tuple(judged.get(corpus, ())) for corpus in deliverables}
    return (
        _quality(by_corpus),
        _completeness(by_corpus),
        _settings(by_corpus),
        _enough(deliverables, tuple(summaries), rule),
        _memory(by_corpus),
    )


def _complete(item: Judged) -> bool:
    return item.attempt.status is Status.COMPLETED and not item.failed(*_COMPLETE)


def _as_asked(item: Judged) -> bool:
    return _complete(item) and not item.failed(*_SETTINGS)


def _accepted(items: Iterable[Judged]) -> bool:
    return any(item.fate is Fate.ACCEPTED for item in items)


def _make(name: ConstraintName, status: Met, reason: Reason, found: str | None = None) -> Constraint:
    return Constraint(name=name, status=status, found=found, limit=None, reason=reason)


def _quality(by_corpus: Mapping[str, tuple[Judged, ...]]) -> Constraint:
    """Every deliverable has a pass that the verdicts accept."""
    rejected = []
    for corpus, items in by_corpus.items():
        if _accepted(items):
            continue
        judged = [item for item in items if _as_asked(item) and item.verdict is not None]
        if not judged:
            return _make("quality", "not assessable", say("quality.no-pass", corpus=corpus))
        counted = [item for item in judged if item.fate is not Fate.NOT_COUNTED]
        if not counted:
            return _make("quality", "not met", say("quality.excluded", corpus=corpus))
        rejected.append((corpus, counted[-1]))
    if not rejected:
        return _make("quality", "met", say("quality.met"), _metric_found(by_corpus))
    corpus, item = rejected[0]
    assert item.verdict is not None
    why = "; ".join(item.verdict.reasons) or "-"
    code = "quality.baseline" if _answers_as_a_bad_baseline(item.verdict) else "quality.rejected"
    return _make("quality", "not met", say(code, corpus=corpus, why=why))


def _answers_as_a_bad_baseline(verdict: Verdict) -> bool:
    """Every label as in the baseline, and a minimum missed: then the baseline misses it too, on any hardware."""
    missed = any(
        check.status == "failed" and (check.name == "metric" or check.name.startswith("subgroup "))
        for check in verdict.checks
    )
    return verdict.flips == 0 and missed


def _metric_found(by_corpus: Mapping[str, tuple[Judged, ...]]) -> str | None:
    """Smallest main metric among accepted passes, as judged."""
    values = [
        (metric.value, f"{metric.metric} {metric.fraction or metric.value}")
        for items in by_corpus.values()
        for item in items
        if item.fate is Fate.ACCEPTED and item.verdict is not None
        for metric in item.verdict.metrics
        if metric.group == "all" and metric.value is not None
    ]
    return min(values, key=lambda item: Decimal(item[0]))[1] if values else None


def _completeness(by_corpus: Mapping[str, tuple[Judged, ...]]) -> Constraint:
    for corpus, items in by_corpus.items():
        if any(_complete(item) for item in items):
            continue
        most = max((item.attempt.completed_documents or 0 for item in items), default=0)
        expected = max((item.attempt.expected_documents for item in items), default=0)
        return Constraint(
            name="completeness",
            status="not met" if items else "not assessable",
            found=str(most),
            limit=str(expected),
            unit="count",
            reason=say("completeness.none", corpus=corpus, most_count=str(most), expected_count=str(expected)),
        )
    return _make("completeness", "met", say("completeness.met"))


def _settings(by_corpus: Mapping[str, tuple[Judged, ...]]) -> Constraint:
    for corpus, items in by_corpus.items():
        complete = [item for item in items if _complete(item)]
        if not complete:
            return _make("settings", "not assessable", say("settings.no-pass", corpus=corpus))
        if not any(_as_asked(item) for item in complete):
            verdict = complete[-1].verdict
            why = "; ".join(verdict.reasons) if verdict is not None else "-"
            return _make("settings", "not met", say("settings.others", corpus=corpus, why=why or "-"))
        uneven = _cut_differently(items)
        if uneven is not None:
            return _make("settings", "not met", say("settings.cut", corpus=corpus, found=uneven))
    return _make("settings", "met", say("settings.met"))


def _cut_differently(items: Iterable[Judged]) -> str | None:
    """Same texts, tokenizer and limit cut the same: accepted passes that say otherwise did different work (M29).

    Which of them did what was frozen cannot be told. `3 documents, 40 tokens (attempt a)` for the first of each kind.
    """
    found: dict[tuple[int, int], str] = {}
    for item in items:
        tokens = item.attempt.tokens
        if item.fate is Fate.ACCEPTED and tokens is not None:
            found.setdefault((tokens.truncated_documents, tokens.cut_tokens), item.attempt.attempt_id)
    if len(found) < 2:
        return None
    return " against ".join(f"{documents}/{tokens} ({name})" for (documents, tokens), name in found.items())


def _enough(deliverables: Sequence[str], summaries: Sequence[Summary], rule: Measurement) -> Constraint:
    """Least accepted passes, over every deliverable and every frozen seed."""
    accepted = {(summary.corpus_id, summary.seed): summary.accepted for summary in summaries}
    wanted = [(corpus, seed) for corpus in deliverables for seed in rule.seeds]
    fewest = min(wanted, key=lambda key: accepted.get(key, 0))
    least = accepted.get(fewest, 0)
    min_accepted = rule.min_accepted
    enough = least >= min_accepted
    counts = {"accepted_count": str(least), "least_count": str(min_accepted)}
    if not enough and len(wanted) > 1:  # what it has enough of elsewhere is not the number that is short
        reason = say("passes.too-few-of", corpus=fewest[0], seed_count=str(fewest[1]), **counts)
    else:
        reason = say("passes.enough" if enough else "passes.too-few", **counts)
    return Constraint(
        name="enough passes",
        status="met" if enough else "not met",
        found=str(least),
        limit=str(min_accepted),
        unit="count",
        reason=reason,
    )


def _memory(by_corpus: Mapping[str, tuple[Judged, ...]]) -> Constraint:
    """Memory sufficed if a pass over every deliverable, long texts included, came to its end (M24)."""
    for corpus, items in by_corpus.items():
        if any(_complete(item) for item in items):
            continue
        out = [item.attempt for item in items if item.attempt.status is Status.OUT_OF_MEMORY]
        if out:
            most = max(attempt.completed_documents or 0 for attempt in out)
            return _make("memory", "not met", say("memory.out", corpus=corpus, most_count=str(most)))
        return _make("memory", "not assessable", say("memory.no-pass", corpus=corpus))
    return _make("memory", "met", say("memory.met"))
