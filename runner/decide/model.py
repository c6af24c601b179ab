"""Balance and decision: the files that the note shows and `verify` recomputes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.evidence.attempt import Settings
from runner.evidence.model import Count, DecimalText, Record, SafeName, Seconds, UtcText

Outcome = Literal["chosen", "undecided"]
Met = Literal["met", "not met", "not assessable", "not applicable"]
ConstraintName = Literal[
    "quality", "completeness", "settings", "enough passes", "memory", "window", "deadline", "price", "availability"
]
Unit = Literal["text", "count", "hours", "utc", "money", "bytes"]


class Reason(Record):
    """A sentence as data: the note translates the template of `code` (`decide/sentences.py`) and fills in `values`."""

    code: str
    values: dict[str, str] = Field(default_factory=dict)
    parts: dict[str, Reason] = Field(default_factory=dict, description="values that are sentences themselves")
    text: str = Field(description="the sentence in English")

    def __str__(self) -> str:
        return self.text


class Summary(Record):
    """Raw durations of one configuration on one corpus with one seed, and what they show (M30). No percentiles."""

    configuration_id: SafeName
    corpus_id: SafeName
    seed: int
    raw_seconds: tuple[Seconds, ...] = Field(description="accepted passes, in schedule order")
    shared: tuple[bool | None, ...] = Field(
        default=(), description="whether others used the device, pass by pass as raw_seconds; null: not known"
    )
    median_seconds: DecimalText | None
    minimum_seconds: DecimalText | None
    maximum_seconds: DecimalText | None
    range_seconds: DecimalText | None = Field(description="null for n < 2, with a reason")
    range_reason: Reason | None = None
    attempts: Count
    accepted: Count
    failures: Count
    not_counted: Count = Field(description="unavailable, unsupported, excluded, interrupted")
    documents: Count
    documents_per_second: DecimalText | None = Field(description="documents / median, 6 places")
    real_tokens: Count | None
    computed_tokens: Count | None
    truncated_documents: Count | None
    cut_tokens: Count | None
    utilisation_real: DecimalText | None = Field(
        default=None,
        description="median share of the device's own matrix rate that the operations of the texts used, "
        "over the passes that have a value",
    )
    utilisation_executed: DecimalText | None = Field(
        default=None, description="the same for the operations really executed: padding included, skipped work not"
    )
    utilisation_passes: tuple[int, int] = Field(
        default=(0, 0), description="accepted passes that have the first share, and the second"
    )
    peak_memory: tuple[tuple[str, str, str, int], ...] = Field(
        default=(), description="largest per (device, counter, scope, bytes) of accepted passes"
    )


class Constraint(Record):
    """One condition of being admissible, with what was found and the limit (both in `unit`)."""

    name: ConstraintName
    status: Met
    found: str | None
    limit: str | None
    unit: Unit = "text"
    reason: Reason


class PackageChoice(Record):
    """The offer that pays for a configuration's window."""

    gpu: str
    billing: Literal["package", "hourly"] = "package"
    days: int | None = Field(description="null for an hourly offer")
    periods: int = Field(default=1, description="of `days` each; more than one only where the plan asks for it")
    lots: int
    cards: int
    unused_cards: Count = 0
    price_per_lot: DecimalText
    total: DecimalText
    currency: str
    slack_seconds: DecimalText
    may_be_cheaper: bool = False
    reason: Reason


class PackageOption(Record):
    """One length of rental for a configuration's lots: what it would cost and whether it holds the window."""

    billing: Literal["package", "hourly"]
    days: int | None = Field(description="null for an hourly offer")
    seconds: DecimalText = Field(description="length of the package, or the started hours of an hourly offer")
    price_per_lot: DecimalText | None = Field(description="null: no price in the catalogue")
    total: DecimalText | None
    covers: bool
    slack_seconds: DecimalText = Field(description="negative: too short by so much")
    available: bool | None
    one_more_lot: bool | None = Field(default=None, description="whether one lot more is left; null: nobody says")


class QualityMargin(Record):
    """Distance of the lowest accepted value of a metric from its minimum."""

    corpus_id: SafeName
    group: str
    metric: str
    documents: Count
    value: DecimalText
    minimum: DecimalText
    margin: DecimalText
    spare_documents: int | None = Field(description="further wrong documents that would still pass; accuracy only")


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


class Outlook(Record):
    """What a configuration needs and costs when every pass takes one end of its measured range."""

    window: WindowFacts
    package: PackageChoice | None
    package_reason: Reason | None = None
    unpriced_days: tuple[int, ...] = Field(
        default=(), description="covering packages without a price that could be cheaper than the priced one"
    )
    lots: Count | None = None
    packages: tuple[PackageOption, ...] = ()
    constraints: tuple[Constraint, ...] = Field(description="window, deadline, price, availability")


class TaskHappened(Record):
    """One task of the plan beside what the records show of it. Null: not recorded, or spread over the attempts."""

    task_id: SafeName
    title: str
    kind: str
    planned_start_utc: UtcText
    planned_end_utc: UtcText
    planned_seconds: DecimalText
    actual_start_utc: UtcText | None = None
    actual_end_utc: UtcText | None = None
    actual_seconds: DecimalText | None = Field(description="from start to end, or the sum of the phases; null: unknown")
    actual_reason: Reason | None = Field(default=None, description="why there is no duration")


class Expense(Record):
    """Other expense of a configuration (M39), listed apart."""

    name: str
    amount: DecimalText
    currency: str
    reason: str


class BalanceRow(Record):
    """Everything the decision uses for one configuration (M42)."""

    configuration_id: SafeName
    gpu: str
    variant_id: SafeName
    series: str | None = None
    added_later: bool
    settings: Settings
    stack_sha256: str | None
    devices: tuple[str, ...] = Field(default=(), description="names of the devices found")
    measured: bool
    own_machine: bool
    summaries: tuple[Summary, ...]
    attempts: Count
    accepted: Count
    failures: Count
    not_counted: Count = 0
    deliverables_accepted: tuple[SafeName, ...]
    window: WindowFacts | None
    window_reason: Reason | None = None
    package: PackageChoice | None
    package_reason: Reason | None = None
    unpriced_days: tuple[int, ...] = ()
    lots: Count | None = Field(default=None, description="lots to rent, also where no package can be chosen")
    packages: tuple[PackageOption, ...] = ()
    quality: tuple[QualityMargin, ...] = ()
    committed_cost: DecimalText | None
    currency: str | None = None
    committed_cost_reason: Reason | None = None
    cost_per_validated_corpus: DecimalText | None
    cost_per_validated_corpus_reason: Reason | None = None
    at_smallest: Outlook | None = Field(
        default=None, description="the same with the smallest accepted durations; window to cost use the largest"
    )
    expenses: tuple[Expense, ...] = ()
    phase_seconds: dict[str, DecimalText] = Field(
        default_factory=dict, description="time outside of the passes by phase, all attempts together"
    )
    happened: tuple[TaskHappened, ...] = Field(default=(), description="the plan against what really happened")
    constraints: tuple[Constraint, ...]
    admissible: bool
    first_failed: ConstraintName | None
    open_questions: tuple[Reason, ...] = Field(default=(), description="what remains uncertain about this one")
    notes: tuple[Reason, ...] = ()


class Excluded(Record):
    """A configuration that is not chosen, and why."""

    configuration_id: SafeName
    constraint: ConstraintName | None = Field(default=None, description="first constraint that failed, if one did")
    reason: Reason


class LeftOut(Record):
    """An attempt that no figure uses: another lock, or excluded for a documented reason."""

    attempt_id: SafeName
    reason: Reason


class Decision(Record):
    """`note/decision.json`: chosen or undecided, with the reasons in words."""

    schema_version: Literal["decision/1"] = "decision/1"
    question: str
    synthetic: bool = Field(default=False, description="made-up data: said wherever the answer is shown")
    protocol_name: str
    protocol_revision: int
    lock_sha256: str
    outcome: Outcome
    chosen: SafeName | None
    tied: tuple[SafeName, ...] = Field(default=(), description="undecided between these, if there are some")
    basis: Literal["committed cost", "time on own machine", "none"]
    reasons: tuple[Reason, ...]
    rule: Reason = Field(description="the rule that decided, quoted")
    walk: tuple[Reason, ...] = Field(
        default=(), description="while tied: what each rule of the ranking found, in order"
    )
    no_comparison: bool = False
    excluded: tuple[Excluded, ...]
    unmeasured: tuple[Excluded, ...]
    uncertain: tuple[Reason, ...]
    would_help: tuple[Reason, ...]
    different_stacks: tuple[Reason, ...]
    what_if: tuple[Reason, ...] = Field(default=(), description="what would change the answer, and by how much")
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[Reason, ...] = ()


class Balance(Record):
    """`note/balance.json`; `note/balance.csv` is the same as a table."""

    schema_version: Literal["balance/1"] = "balance/1"
    lock_sha256: str
    deliverables: tuple[SafeName, ...] = ()
    min_accepted: Count = 0
    passes_planned: Count = 0
    passes_most: Count = 0
    rows: tuple[BalanceRow, ...]
    stack_differences: tuple[Reason, ...] = ()
    search_costs: tuple[Reason, ...] = Field(default=(), description="what the comparison itself commits, per GPU")
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[Reason, ...] = ()
