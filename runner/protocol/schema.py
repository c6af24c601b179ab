"""The quality protocol and the plan: what is decided before any measurement (M1-M5).

`runner.protocol.read` turns TOML into these models with line numbers; this module says what may
stand there. Thresholds and money are decimal strings: a TOML float is refused.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.evidence.attempt import Settings
from runner.evidence.model import Bytes, DecimalText, Record, SafeName, Scalar, Sha256, UtcText

MetricName = Literal["accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "quadratic_kappa"]


class Question(Record):
    """What is asked. The only scenario is `offline`: a corpus processed as a whole."""

    name: SafeName
    revision: int = Field(ge=1)
    text: str
    scenario: Literal["offline"]
    synthetic: bool = Field(default=False, description="true for made-up data: said wherever it is shown")


class CorpusFiles(Record):
    """One deliverable corpus: file or folder below `protocol/`, and its columns."""

    id: SafeName
    final: str
    tuning: str | None = None
    id_column: str = "id"
    text_column: str = "text"
    label_column: str = "label"
    group_columns: tuple[str, ...] = ("stratum",)
    allow_case_twins: bool = False
    allow_empty_texts: bool = False
    seen_before: bool = False
    licence: str = ""
    permission: str = ""


class SingleLogit(Record):
    """Rule for a model with one output: sigmoid, then a cut (MO-04)."""

    positive: str
    negative: str
    cut: DecimalText = "0.5"
    at_cut: Literal["positive", "negative"] = "positive"


class Model(Record):
    """A Hugging Face sequence classifier: local folder below `protocol/`, absolute path, or hub id + commit."""

    source: str
    revision: str | None = Field(default=None, description="commit hash; needed for a hub id")
    allow_custom_code: bool = False
    allow_pickle: bool = False
    max_length: int | None = Field(default=None, ge=1)
    truncation: bool = True
    pad_token: str | None = None
    label_map: dict[str, str] = Field(default_factory=dict, description="corpus label -> model label")
    single_logit: SingleLogit | None = None


class Baseline(Record):
    """Reference predictions, made untimed before the freeze (M2), or given as a file."""

    settings: Settings = Settings()
    file: str | None = None


class Subgroup(Record):
    """A planned subgroup with its own minimum, such as stratum = long."""

    column: str
    value: str
    minimum: DecimalText
    metric: MetricName | None = None


class Quality(Record):
    """Minimum quality. Compared as exact fractions; equal passes."""

    metric: MetricName
    threshold: DecimalText
    max_drop: DecimalText
    min_agreement: DecimalText
    max_flips: int | None = Field(default=None, ge=0)
    subgroup: tuple[Subgroup, ...] = ()


class Reproduction(Record):
    """What is to be reproduced (M27), checked against the baseline."""

    goal: Literal["identical", "bounded", "task_quality"] = "task_quality"
    max_score_difference: DecimalText | None = None


class WarmUp(Record):
    """Same rule for all variants (M18)."""

    inputs: Literal["longest_and_first", "none"] = "longest_and_first"
    passes: int = Field(default=1, ge=0)
    recompilation: Literal["reject"] = "reject"


class Measurement(Record):
    """Passes, order, boundaries and limits of every attempt."""

    passes_planned: int = Field(default=5, ge=2)
    min_accepted: int = Field(default=3, ge=2)
    passes_most: int = Field(default=10, ge=2)
    order: Literal["rotate"] = "rotate"
    boundaries: Literal["read-tokenise-transfer-inference-materialise"] = (
        "read-tokenise-transfer-inference-materialise"
    )
    process: Literal["fresh"] = "fresh"
    timeout_seconds: int = Field(default=3600, ge=1)
    sample_interval_seconds: DecimalText = "0.05"
    seeds: tuple[int, ...] = (0,)


class Rules(Record):
    """Rules that must be fixed before times are seen."""

    exclusion: str = "Only a documented external reason; the same rule is applied to all variants."
    separation: Literal["gap_over_largest_range"] = "gap_over_largest_range"
    lone_survivor: Literal["chosen_without_comparison"] = "chosen_without_comparison"


class Series(Record):
    """Changes one declared variable (M14): `values` of `variable`, everything else from `base`."""

    name: SafeName
    variable: str
    values: tuple[Scalar, ...]
    base: Settings = Settings()


class Variant(Record):
    """A setting of its own, outside a series."""

    id: SafeName
    settings: Settings


class Protocol(Record):
    """`protocol/quality-protocol.toml` as a whole."""

    schema_version: Literal["protocol/1"] = "protocol/1"
    question: Question
    corpus: tuple[CorpusFiles, ...] = Field(min_length=1)
    model: Model
    baseline: Baseline = Baseline()
    quality: Quality
    reproduction: Reproduction = Reproduction()
    warm_up: WarmUp = WarmUp()
    measurement: Measurement = Measurement()
    rules: Rules = Rules()
    series: tuple[Series, ...] = ()
    variant: tuple[Variant, ...] = ()


# ---- plan.toml -----------------------------------------------------------------------------------


class Task(Record):
    """One entry of the rental's calendar. Either start and end, or duration (and `after`)."""

    id: SafeName
    title: str
    kind: Literal[
        "preparation", "installation", "check", "warm_up", "measurement", "retry", "evaluation", "export", "wait",
        "collection",
    ]
    start: str | None = Field(default=None, description="2026-10-05T09:00 in the plan's zone, or with an offset")
    end: str | None = None
    duration: str | None = Field(default=None, description="elapsed hours as H:MM:SS")
    after: tuple[str, ...] = ()
    delivery: bool = Field(default=False, description="the deadline applies to the end of this task")
    lots: int = Field(default=1, ge=1)
    configuration: str | None = Field(default=None, description="variant id; only for this configuration")
    corpus: SafeName | None = Field(default=None, description="measurement: whose duration; default: the deliverable")
    passes: int = Field(default=1, ge=1, description="measurement: lasts this many largest accepted durations")


class Expense(Record):
    """Other expense (M39): listed apart, with its reason, for all variants alike."""

    name: str
    amount: DecimalText
    currency: str
    reason: str
    configuration: str | None = None


class Plan(Record):
    """`protocol/plan.toml`: deliverables and deadline are frozen, the calendar may still move."""

    schema_version: Literal["plan/1"] = "plan/1"
    zone: str = Field(description="IANA zone of the local times, such as Europe/Berlin")
    deadline: str
    deliverables: tuple[SafeName, ...] = Field(description="corpus ids, each counted once", min_length=1)
    billing: tuple[Literal["package", "hourly"], ...] = ("package",)
    extra_periods: int = Field(default=0, ge=0, description="further periods, only if asked for here (M35)")
    lots: int | None = Field(default=None, ge=1)
    task: tuple[Task, ...] = Field(min_length=1)
    expense: tuple[Expense, ...] = ()


# ---- protocol.lock.json --------------------------------------------------------------------------


class LockedFile(Record):
    """A file that the judgement rests on."""

    path: str
    sha256: Sha256
    bytes: Bytes
    records_sha256: Sha256 | None = None


class LockedCorpus(Record):
    """Fingerprints of one corpus: bytes and records; ids in order."""

    id: SafeName
    documents: int
    final: tuple[LockedFile, ...]
    records_sha256: Sha256
    ids_sha256: Sha256
    labels_sha256: Sha256
    tuning: tuple[LockedFile, ...] = ()
    baseline: LockedFile | None = None
    reference: LockedFile | None = Field(
        default=None, description="ids, labels and groups as Parquet, without texts: what judging needs"
    )
    seen_before: bool = False


class LockedVariant(Record):
    """Append-only: a variant added after the first attempt is marked `added_later` (M3)."""

    id: SafeName
    series: str | None
    also_in: tuple[SafeName, ...] = Field(default=(), description="further series that name the same settings")
    settings: Settings
    added_later: bool = False


class Judgement(Record):
    """What is strict: any change after an attempt needs a new revision and a new final corpus (M4)."""

    protocol: dict[str, object] = Field(description="the protocol's content without series and variants")
    protocol_sha256: Sha256
    corpora: tuple[LockedCorpus, ...]
    model_files: tuple[LockedFile, ...]
    model_revision: str | None
    label_table: tuple[str, ...] = Field(description="model label by output index, mapped to corpus labels")
    max_length: int
    deliverables: tuple[SafeName, ...]
    deadline: str = Field(description="as in the plan; a local time is followed by its zone in brackets")


class Lock(Record):
    """`protocol/protocol.lock.json`. Its fingerprint is over the judgement and the nonce, not the variants."""

    schema_version: Literal["lock/1"] = "lock/1"
    judgement: Judgement
    nonce: str = Field(pattern=r"^[0-9a-f]{64}$")
    frozen_at_utc: UtcText
    frozen_on: str = Field(description="machine id, so that clocks of two machines are not mistaken")
    variants: tuple[LockedVariant, ...]

    @property
    def lock_sha256(self) -> str:
        """What every attempt carries: judgement and nonce, so that appended variants keep it."""
        from runner.evidence.canonical import content_sha256

        return content_sha256({"judgement": self.judgement.as_json(), "nonce": self.nonce})

    @property
    def protocol(self) -> Protocol:
        """The frozen protocol; its series and variants are empty: the lock holds the list of variants."""
        return Protocol.from_json({**self.judgement.protocol, "series": [], "variant": []})
