"""The quality protocol and the plan: what is decided before any measurement (M1-M5).

`runner.protocol.read` turns TOML into these models with line numbers; this module says what may
stand there (of the plan: `calendar`). Thresholds and money are decimal strings: a TOML float is refused.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from runner.evidence.attempt import Settings
from runner.evidence.model import Bytes, DecimalText, LanguageTag, Record, SafeName, Scalar, Sha256, UtcText
from runner.protocol.calendar import Expense as Expense
from runner.protocol.calendar import Plan as Plan
from runner.protocol.calendar import RecordedPhase as RecordedPhase
from runner.protocol.calendar import Task as Task

BuiltInMetric = Literal["accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "quadratic_kappa"]
MetricName = Literal["accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "mcc", "quadratic_kappa", "own"]
OWN: Final = "own"
"""The metric of the protocol's own evaluation procedure."""


def _without(content: dict[str, object], key: str) -> dict[str, object]:
    """Left out where empty: locks that were made before there was such a key keep their fingerprint."""
    return {name: value for name, value in content.items() if name != key or value}


class Question(Record):
    """What is asked. The only scenario is `offline`: a corpus processed as a whole."""

    name: SafeName = Field(description="short name of the campaign; becomes part of file names")
    revision: int = Field(ge=1, description="raised with every change after an attempt")
    text: str = Field(description="the decision question in one sentence; the note begins with it")
    scenario: Literal["offline"] = Field(description="a corpus processed as a whole; nothing else can be asked")
    synthetic: bool = Field(default=False, description="true for made-up data: said wherever it is shown")
    language: LanguageTag | None = Field(
        default=None,
        description="language of your own texts in the note, such as de or pt-BR (BCP 47), for screen readers; "
        "not frozen",
    )

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return _without(handler(self), "language")


class Contact(Record):
    """Who answers for the note. Shown in it, judged by nothing, and not frozen: people change, measurements stay."""

    issued_by: str = Field(default="", description="who issues the note: a person, a team or a company")
    issued_for: str = Field(default="", description="whom it is written for")
    reach: str = Field(default="", description="where questions about it go: a mail address, a telephone number")


class CorpusFiles(Record):
    """One deliverable corpus: file or folder below `protocol/`, and its columns."""

    id: SafeName = Field(description="name of the corpus; the plan names it as a deliverable")
    final: str = Field(description="the compared texts: CSV, JSON Lines or Parquet, a file or a folder of them")
    tuning: str | None = Field(
        default=None, description="texts used for setting up; share no id and no text with final"
    )
    id_column: str = Field(default="id", description="column of the ids; text, exactly as given")
    text_column: str = Field(default="text", description="column of the texts")
    label_column: str = Field(default="label", description="column of the right answers")
    group_columns: tuple[str, ...] = Field(default=("stratum",), description="columns that subgroups may name")
    allow_case_twins: bool = Field(default=False, description="allow ids that differ by letter case only")
    allow_empty_texts: bool = Field(default=False, description="allow texts without any character")
    seen_before: bool = Field(default=False, description="the corpus was used in an earlier campaign: the note says so")
    answers: str | None = Field(
        default=None,
        description="instead of a label column: a function that gives the right answers at the freeze",
    )
    licence: str = Field(default="", description="terms of the texts, filled in by you")
    permission: str = Field(default="", description="why you may use the texts for this, filled in by you")

    @property
    def labels_from(self) -> str | None:
        """Column of the right answers; None where a procedure gives them."""
        return self.label_column if self.answers is None else None

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return _without(handler(self), "answers")


class SingleLogit(Record):
    """Rule for a model with one output: sigmoid, then a cut (MO-04)."""

    positive: str = Field(description="label of a score above the cut")
    negative: str = Field(description="label of a score below the cut")
    cut: DecimalText = Field(default="0.5", description="compared with the sigmoid of the output")
    at_cut: Literal["positive", "negative"] = Field(default="positive", description="label exactly at the cut")


class Model(Record):
    """A Hugging Face sequence classifier: local folder below `protocol/`, absolute path, or hub id + commit."""

    source: str = Field(
        description="folder below protocol/, absolute path, or name on the Hugging Face hub; after the freeze another "
        "place of the same files, such as on the rental, is no change",
        examples=["model", "/data/models/my-classifier", "distilbert/distilbert-base-uncased-finetuned-sst-2-english"],
    )
    revision: str | None = Field(
        default=None, description="for a hub name: the commit; a branch or tag is resolved to its commit at the freeze"
    )
    allow_custom_code: bool = Field(default=False, description="let the folder's own Python code run (it is hashed)")
    allow_pickle: bool = Field(default=False, description="load pickled weights, which may run any code")
    max_length: int | None = Field(
        default=None, ge=1, description="tokens per text, special ones included; default: the model's limit"
    )
    truncation: bool = Field(default=True, description="cut longer texts at max_length (and count the cuts)")
    pad_token: str | None = Field(default=None, description="for models without one: 'eos', or the token's text")
    label_map: dict[str, str] = Field(default_factory=dict, description="corpus label -> model label")
    single_logit: SingleLogit | None = Field(default=None, description="rule for a model with one output")


class Baseline(Record):
    """Reference predictions, made untimed before the freeze (M2), or given as a file."""

    settings: Settings = Field(default=Settings(), description="settings of `runner baseline`")
    file: str | None = Field(
        default=None, description="given instead: a prediction file, or a folder with one per corpus id"
    )


class Subgroup(Record):
    """A planned subgroup with its own minimum, such as stratum = long."""

    column: str = Field(description="one of the group_columns")
    value: str = Field(description="value of that column, compared exactly")
    minimum: DecimalText = Field(description="least value of the metric within the subgroup")
    metric: MetricName | None = Field(default=None, description="default: the main metric")


class Quality(Record):
    """Minimum quality. Compared as exact fractions; equal passes."""

    metric: MetricName = Field(
        description="main metric; averages run over the classes of the labels; 'own': the one of [evaluation]"
    )
    threshold: DecimalText = Field(description="least value on the whole final corpus")
    max_drop: DecimalText = Field(description="largest fall of the metric below the baseline")
    min_agreement: DecimalText = Field(description="least share of labels equal to the baseline's")
    max_flips: int | None = Field(default=None, ge=0, description="most labels that may differ from the baseline's")
    subgroup: tuple[Subgroup, ...] = Field(default=(), description="planned subgroups, each with its own minimum")


class Evaluation(Record):
    """An evaluation procedure of your own (M2), for the metric 'own'; its source is hashed at the freeze."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,59}$", description="what verdicts and note call the metric, such as cost_saved"
    )
    function: str = Field(
        description="folder/file.py:function below protocol/, package.module:function, or an entry point's name"
    )


class Reproduction(Record):
    """What is to be reproduced (M27), checked against the baseline."""

    goal: Literal["identical", "bounded", "task_quality"] = Field(
        default="task_quality", description="equal labels and scores, scores within a bound, or good enough"
    )
    max_score_difference: DecimalText | None = Field(default=None, description="the bound, for the goal 'bounded'")


_CARD_LEAST_SECONDS = "1"


class WarmUp(Record):
    """Same rule for all variants (M18)."""

    inputs: Literal["longest_and_first", "none"] = Field(
        default="longest_and_first", description="which texts warm up: the longest batch and the first"
    )
    passes: int = Field(default=1, ge=0, description="how often they are run")
    card_shapes: Literal["all", "inputs"] = Field(
        default="all", description="on a card, before them: one batch of every size of the plan, or no others"
    )
    card_least_seconds: DecimalText = Field(
        default=_CARD_LEAST_SECONDS, description="on a card they are run again until it has worked for so long"
    )
    recompilation: Literal["reject"] = Field(
        default="reject", description="a compilation inside the measured pass rejects it"
    )

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Locks that were made when cards had no rule of their own keep their fingerprint."""
        content: dict[str, object] = handler(self)
        usual = {"card_shapes": "all", "card_least_seconds": _CARD_LEAST_SECONDS}
        return {name: value for name, value in content.items() if usual.get(name) != value}


class Measurement(Record):
    """Passes, order, boundaries and limits of every attempt."""

    passes_planned: int = Field(default=5, ge=2, description="complete passes per variant")
    min_accepted: int = Field(default=3, ge=2, description="fewer accepted passes decide nothing")
    passes_most: int = Field(default=10, ge=2, description="more than planned only for all variants alike")
    order: Literal["rotate"] = Field(default="rotate", description="1-4-8, 4-8-1, 8-1-4: none is always first")
    boundaries: Literal["read-tokenise-transfer-inference-materialise"] = Field(
        default="read-tokenise-transfer-inference-materialise", description="what the measured pass covers"
    )
    process: Literal["fresh", "kept"] = Field(
        default="fresh",
        description="every attempt in a new process, or one process that serves attempts in turn",
    )
    timeout_seconds: int = Field(default=3600, ge=1, description="an attempt that takes longer is ended")
    sample_interval_seconds: DecimalText = Field(default="0.05", description="of memory and telemetry")
    seeds: tuple[int, ...] = Field(default=(0,), description="each is measured for all variants, results apart")


_SHARED_FROM_CPU_CORES = "0.25"


class Rules(Record):
    """Rules that must be fixed before times are seen."""

    exclusion: str = Field(
        default="Only a documented external reason; the same rule is applied to all variants.",
        description="when an attempt may be left out",
    )
    separation: Literal["gap_over_largest_range"] = Field(
        default="gap_over_largest_range",
        description="two medians are apart if their gap is larger than the larger range of the two",
    )
    lone_survivor: Literal["chosen_without_comparison"] = Field(
        default="chosen_without_comparison", description="the only admissible configuration is chosen, and marked so"
    )
    shared_from_cpu_cores: DecimalText = Field(
        default=_SHARED_FROM_CPU_CORES,
        description="a CPU attempt is marked as shared when others used more cores than this on average",
    )

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Locks that were made when this limit could not be chosen keep their fingerprint."""
        content: dict[str, object] = handler(self)
        if content["shared_from_cpu_cores"] == _SHARED_FROM_CPU_CORES:
            del content["shared_from_cpu_cores"]
        return content


class Series(Record):
    """Changes one declared variable (M14): `values` of `variable`, everything else from `base`."""

    name: SafeName = Field(description="name of the series; begins the ids of its variants")
    variable: str = Field(description="the one setting that changes, such as batch_size")
    values: tuple[Scalar, ...] = Field(description="its values; one variant each")
    base: Settings = Field(default=Settings(), description="all other settings")


class Variant(Record):
    """A setting of its own, outside a series."""

    id: SafeName = Field(description="id of the variant")
    settings: Settings = Field(description="what it asks for")


class Protocol(Record):
    """`protocol/quality-protocol.toml` as a whole."""

    schema_version: Literal["protocol/1"] = Field(default="protocol/1", description="version of this file's layout")
    question: Question = Field(description="what is asked")
    contact: Contact | None = Field(default=None, description="who answers for the note")
    corpus: tuple[CorpusFiles, ...] = Field(min_length=1, description="what is processed; one table per corpus")
    model: Model = Field(description="what processes it")
    baseline: Baseline = Field(default=Baseline(), description="the reference predictions")
    quality: Quality = Field(description="the minimum quality")
    evaluation: Evaluation | None = Field(default=None, description="a metric of your own")
    reproduction: Reproduction = Field(default=Reproduction(), description="what is to be reproduced")
    warm_up: WarmUp = Field(default=WarmUp(), description="before every measured pass, the same for all variants")
    measurement: Measurement = Field(default=Measurement(), description="passes, order, limits")
    rules: Rules = Field(default=Rules(), description="rules that are fixed before times are seen")
    series: tuple[Series, ...] = Field(default=(), description="variants that differ in one setting")
    variant: tuple[Variant, ...] = Field(default=(), description="variants of their own")

    def metric_name(self, metric: MetricName | None = None) -> str:
        """What verdicts call this metric (default: the main one)."""
        wanted = metric or self.quality.metric
        return self.evaluation.name if wanted == OWN and self.evaluation is not None else wanted

    def procedures(self) -> tuple[Evaluation, ...]:
        """Every procedure of the user's own: the metric, and the right answers of corpora without labels."""
        answers = (Evaluation(name="answers", function=files.answers) for files in self.corpus if files.answers)
        return (*([self.evaluation] if self.evaluation else []), *answers)

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return _without(_without(handler(self), "evaluation"), "contact")


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
    evaluation_files: tuple[LockedFile, ...] = Field(default=(), description="source of the evaluation procedure")

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return _without(handler(self), "evaluation_files")


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
    def process_policy(self) -> str:
        """`fresh` or `kept`, without reading the whole protocol."""
        measurement = self.judgement.protocol["measurement"]
        return str(measurement["process"]) if isinstance(measurement, dict) else "fresh"

    @property
    def protocol(self) -> Protocol:
        """The frozen protocol; its series and variants are empty: the lock holds the list of variants."""
        return Protocol.from_json({**self.judgement.protocol, "series": [], "variant": []})
