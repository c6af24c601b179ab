"""Balance and decision: the files that the note shows and `verify` recomputes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.evidence.attempt import Settings
from runner.evidence.model import Count, DecimalText, Record, SafeName, Seconds, UtcText

Outcome = Literal["chosen", "undecided"]
Met = Literal["met", "not met", "not assessable", "not applicable"]


class Summary(Record):
    """Raw durations of one configuration on one corpus and what they show (M30). No percentiles."""

    configuration_id: SafeName
    corpus_id: SafeName
    raw_seconds: tuple[Seconds, ...] = Field(description="accepted passes, in schedule order")
    median_seconds: DecimalText | None
    minimum_seconds: DecimalText | None
    maximum_seconds: DecimalText | None
    range_seconds: DecimalText | None = Field(description="null for n < 2, with a reason")
    range_reason: str | None = None
    attempts: Count
    accepted: Count
    failures: Count
    not_counted: Count = Field(description="unavailable, unsupported, excluded, interrupted")
    documents: Count
    documents_per_second: DecimalText | None
    real_tokens: Count | None
    computed_tokens: Count | None
    truncated_documents: Count | None
    cut_tokens: Count | None
    peak_memory: tuple[tuple[str, str, str, int], ...] = Field(
        default=(), description="largest per (device, counter, scope, bytes) of accepted passes"
    )


class Constraint(Record):
    """One condition of being admissible, with what was found and the limit."""

    name: Literal[
        "quality", "completeness", "enough passes", "memory", "window", "deadline", "price", "availability", "settings"
    ]
    status: Met
    found: str | None
    limit: str | None
    reason: str


class PackageChoice(Record):
    """The package that pays for a configuration's window."""

    gpu: str
    days: int
    lots: int
    cards: int
    price_per_lot: DecimalText
    total: DecimalText
    currency: str
    slack_seconds: DecimalText
    may_be_cheaper: bool = False
    reason: str


class WindowFacts(Record):
    """Access window of a configuration: elapsed hours from first start to last collection."""

    starts_at_utc: UtcText
    ends_at_utc: UtcText
    window_seconds: DecimalText
    busy_seconds: DecimalText
    waiting_seconds: DecimalText
    delivered_at_utc: UtcText
    deadline_utc: UtcText
    deadline_slack_seconds: DecimalText


class BalanceRow(Record):
    """Everything the decision uses for one configuration (M42)."""

    configuration_id: SafeName
    gpu: str
    variant_id: SafeName
    added_later: bool
    settings: Settings
    stack_sha256: str | None
    measured: bool
    own_machine: bool
    summaries: tuple[Summary, ...]
    attempts: Count
    accepted: Count
    failures: Count
    deliverables_accepted: tuple[SafeName, ...]
    window: WindowFacts | None
    window_reason: str | None = None
    package: PackageChoice | None
    package_reason: str | None = None
    committed_cost: DecimalText | None
    committed_cost_reason: str | None = None
    cost_per_validated_corpus: DecimalText | None
    cost_per_validated_corpus_reason: str | None = None
    expenses: tuple[tuple[str, DecimalText, str, str], ...] = ()
    constraints: tuple[Constraint, ...]
    admissible: bool
    first_failed: str | None
    notes: tuple[str, ...] = ()


class Excluded(Record):
    """A configuration that is not chosen, and why."""

    configuration_id: SafeName
    reason: str


class Decision(Record):
    """`note/decision.json`: chosen or undecided, with the reasons in words."""

    schema_version: Literal["decision/1"] = "decision/1"
    question: str
    protocol_name: str
    protocol_revision: int
    lock_sha256: str
    outcome: Outcome
    chosen: SafeName | None
    basis: Literal["committed cost", "time on own machine", "none"]
    reasons: tuple[str, ...]
    rule: str = Field(description="the rule that decided, quoted")
    no_comparison: bool = False
    excluded: tuple[Excluded, ...]
    unmeasured: tuple[Excluded, ...]
    uncertain: tuple[str, ...]
    would_help: tuple[str, ...]
    different_stacks: tuple[str, ...]
    warnings: tuple[str, ...] = ()


class Balance(Record):
    """`note/balance.json`; `note/balance.csv` is the same as a table."""

    schema_version: Literal["balance/1"] = "balance/1"
    lock_sha256: str
    rows: tuple[BalanceRow, ...]
