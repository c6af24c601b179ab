"""Verdict on one attempt: every check with what was found and the limit, and one bottom line."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.evidence.model import Count, DecimalText, Record, SafeName, Sha256

CheckStatus = Literal["passed", "failed", "warning", "not assessable"]


class Check(Record):
    """One check. `found` and `limit` are shown as judged (exact fractions such as 886/1000)."""

    name: str
    status: CheckStatus
    found: str | None
    limit: str | None
    reason: str


class IdCounts(Record):
    """Exact id multiset (M28). Lists are capped at `listed_most`; counts are complete."""

    expected_ids: Count
    observed_ids: Count
    ids_match: bool
    missing: Count
    duplicate: Count
    unexpected: Count
    missing_listed: tuple[str, ...] = ()
    duplicate_listed: tuple[str, ...] = ()
    unexpected_listed: tuple[str, ...] = ()
    listed_most: int = 20
    hints: tuple[str, ...] = ()


class MetricValue(Record):
    """A metric on a group of documents. `fraction` is exact where the metric is a ratio of counts."""

    metric: str
    group: str = Field(description="all, or column=value")
    documents: Count
    fraction: str | None
    value: DecimalText | None = Field(description="unrounded to 12 places; null with a reason")
    minimum: DecimalText | None
    met: bool | None
    interval_low: DecimalText | None = None
    interval_high: DecimalText | None = None
    interval_method: str | None = None
    reason: str | None = None


class Flip(Record):
    """A document whose label differs from the baseline's."""

    document_id: str
    baseline_label: str
    label: str


class Verdict(Record):
    """`accepted` is the bottom line: true only if no check failed and none was not assessable."""

    schema_version: Literal["verdict/1"] = "verdict/1"
    attempt_id: SafeName
    lock_sha256: Sha256
    predictions_sha256: Sha256 | None
    accepted: bool
    reasons: tuple[str, ...] = Field(description="why not accepted, in words; empty when accepted")
    warnings: tuple[str, ...] = ()
    checks: tuple[Check, ...]
    ids: IdCounts | None
    metrics: tuple[MetricValue, ...] = ()
    baseline_metric: MetricValue | None = None
    drop: str | None = Field(default=None, description="baseline minus this, exact fraction")
    agreement: str | None = Field(default=None, description="share of labels equal to the baseline, exact fraction")
    flips: Count | None = None
    flips_listed: tuple[Flip, ...] = ()


class PairedTest(Record):
    """Two configurations on the same documents: where only one of them is right. Information, no criterion."""

    first: str = Field(description="configuration: GPU and variant, as in the balance")
    second: str
    seed: int
    first_attempt: SafeName
    second_attempt: SafeName
    documents: Count
    both_right: Count
    only_first_right: Count
    only_second_right: Count
    both_wrong: Count
    p_value: DecimalText = Field(description="two-sided, to 6 places; several comparisons are not corrected for")


class PairedComparisons(Record):
    """`verdicts/paired/<corpus-id>.json`: accepted attempts of every two configurations, seeds apart."""

    schema_version: Literal["paired/1"] = "paired/1"
    lock_sha256: Sha256
    corpus_id: SafeName
    method: str
    tests: tuple[PairedTest, ...]
