"""The attempt record: one row per attempted pass, whatever became of it (M22, M23).

Written first as `started`, before the child process runs, then replaced by its final form.
Unknown is `null` plus a reason, never 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator

from runner.evidence.model import Bytes, Count, Record, SafeName, Scalar, Seconds, Sha256, UtcText
from runner.units import parse_utc


class Status(StrEnum):
    """What became of an attempt. Only `completed` can be accepted."""

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"


class PhaseName(StrEnum):
    """Phases of an attempt (M17) and, from `read` on, busy parts inside the pass (M19)."""

    PROCESS_START = "process_start"
    IMPORTS = "imports"
    DOWNLOAD = "download"
    LOAD = "load"
    COMPILE = "compile"
    WARM_UP = "warm_up"
    PASS = "pass"
    EVALUATION = "evaluation"
    WRITING = "writing"
    READ = "read"
    TOKENISE = "tokenise"
    TRANSFER = "transfer"
    INFERENCE = "inference"
    MATERIALISE = "materialise"


class Phase(Record):
    """Duration of one phase. `overlapping` parts run beside others and must not be added up."""

    name: PhaseName
    seconds: Seconds | None
    inside_pass: bool = False
    overlapping: bool = False
    reason: str | None = Field(default=None, description="why seconds is null")


class ErrorInfo(Record):
    """Why an attempt has no accepted pass. `evidence` says what the kind was concluded from."""

    kind: str
    message: str
    evidence: str | None = None


class MemoryPeak(Record):
    """One peak of one counter on one device; peaks of different counters are never added (M24)."""

    device: str
    counter: str = Field(description="name of the counter, such as torch.cuda.max_memory_allocated or VmHWM")
    scope: str = Field(description="in words: what is counted, since when, which processes")
    bytes: Bytes | None
    at_seconds: Seconds | None = Field(description="seconds since the pass started; null with a reason")
    capacity_bytes: Bytes | None = None
    reason: str | None = None


class TokenCounts(Record):
    """Work of a pass in tokens: of the texts, really computed (with padding), cut away."""

    real_tokens: Count
    computed_tokens: Count
    truncated_documents: Count
    cut_tokens: Count


class FileReference(Record):
    """A file of the campaign: path relative to the campaign folder, fingerprint of its bytes."""

    path: str
    sha256: Sha256
    rows: Count | None = None
    records_sha256: Sha256 | None = Field(default=None, description="fingerprint of the parsed content")


class ChainLink(Record):
    """Place of a row among the rows of one machine (M50). The first has no row before it."""

    machine_id: SafeName
    index: Count
    previous_sha256: Sha256 | None


class Slot(Record):
    """Place in the frozen schedule: pass 0..n-1, position inside the rotated block."""

    pass_index: Count
    position: Count


class Settings(Record):
    """What a variant asks for, or what was really in effect. `null` in effect: could not be read."""

    engine: str | None = Field(
        default="transformers", description="what runs the model: transformers, packed, onnxruntime or command"
    )
    batch_size: int | None = Field(default=1, ge=1, description="texts per batch")
    precision: str | None = Field(default="fp32", description="fp32, fp16 or bf16")
    quantization: str | None = Field(default="none", description="none, int8-dynamic or int8-torchao")
    compile: str | None = Field(
        default="none", description="none, or a mode of torch.compile: default, reduce-overhead, max-autotune"
    )
    attention: str | None = Field(
        default="sdpa", description="eager, sdpa, flash_attention_2, flash_attention_3, flex_attention or varlen"
    )
    padding: str | None = Field(
        default="longest", description="what batches are padded to: longest, multiple-of:N, max-length or none"
    )
    padding_side: str | None = Field(default="right", description="right or left")
    max_length: int | None = Field(default=None, ge=1, description="tokens per text; default: as frozen for all")
    truncation: bool | None = Field(default=True, description="cut longer texts")
    grouping: str | None = Field(default="none", description="none, length-sorted or token-budget:N")
    threads: int | None = Field(default=None, ge=1, description="CPU threads; default: left to the machine")
    workers: int | None = Field(default=1, ge=1, description="processes per device that share the corpus")
    devices: int | None = Field(default=1, ge=0, description="cards used at once, on all machines together")
    extra: dict[str, Scalar] = Field(default_factory=dict, description="further settings of an engine, by name")

    def differences(self, effective: Settings) -> tuple[str, ...]:
        """`attention requested flash_attention_2, used eager`, one line per difference (M16).

        A setting requested as `null` is left to the machine and differs from nothing.
        """
        wanted, used = self.as_json(), effective.as_json()
        pairs = {key: (wanted[key], used[key]) for key in wanted if key != "extra"}
        pairs |= {key: (value, used["extra"].get(key)) for key, value in wanted["extra"].items()}
        return tuple(
            f"{key} requested {want}, used {'unknown' if got is None else got}"
            for key, (want, got) in sorted(pairs.items())
            if want is not None and want != got
        )


class Inputs(Record):
    """What the attempt worked on: fingerprints taken right before it, and what changed until its end (M2, M8).

    Each is over names and SHA-256 of all files, comparable with the lock.
    """

    corpus_sha256: Sha256
    corpus_records_sha256: Sha256 | None = Field(
        default=None, description="of the content, where the bytes are not those of the freeze (other line ends)"
    )
    model_sha256: Sha256
    changed: tuple[str, ...] = Field(default=(), description="files replaced or written to while it ran, in words")


class WorkerProcess(Record):
    """Which process an attempt ran in where one may serve several (policy `kept`)."""

    policy: Literal["kept"] = "kept"
    first_attempt: SafeName = Field(description="the attempt that the process was started for; names the process")
    started_at_utc: UtcText
    served_before: Count = Field(description="attempts that this process had completed before this one")
    resident_at_start_bytes: Bytes | None = Field(
        default=None, description="its resident memory when the attempt began: what libraries and earlier ones left"
    )


class DeviceMatch(Record):
    """What decided, when it was measured, whether the devices found are the declared one (M11)."""

    code: Literal["fits", "other device", "no device"]
    pattern: str | None = Field(
        description="device_pattern of tariffs.csv; null: hardware without tariff, known by the words of its name"
    )
    fitting: tuple[str, ...] = Field(description="names of those found that counted as the declared one")
    reason: str | None = Field(default=None, description="why no device was found")


class Attempt(Record):
    """One attempted pass. Joined to verdict by `attempt_id`, to the manifest by its SHA-256."""

    schema_version: Literal["attempt/1"] = "attempt/1"
    attempt_id: SafeName
    chain: ChainLink
    protocol_name: str
    protocol_revision: int
    lock_sha256: Sha256
    nonce: str
    gpu_declared: SafeName = Field(description="what was rented, such as b200; cpu is the user's own machine")
    devices_found: tuple[str, ...]
    device_uuid_hashes: tuple[str, ...] = ()
    device_match: DeviceMatch | None = Field(default=None, description="absent: cpu, or a row older than this field")
    variant_id: SafeName
    series: str | None
    added_later: bool = False
    corpus_id: SafeName
    seed: int
    slot: Slot
    retry_of: str | None = None
    status: Status
    error: ErrorInfo | None = None
    started_at_utc: UtcText
    ended_at_utc: UtcText | None = None
    wall_clock_moved_seconds: float | None = Field(
        default=None, description="wall clock against monotonic clock over the attempt; 0 is undisturbed"
    )
    pass_seconds: Seconds | None = None
    pass_seconds_reason: str | None = "not measured yet"
    phases: tuple[Phase, ...] = ()
    expected_documents: Count
    completed_documents: Count | None = None
    tokens: TokenCounts | None = None
    tokens_reason: str | None = "not measured yet"
    memory: tuple[MemoryPeak, ...] = ()
    memory_reason: str | None = "not measured yet"
    memory_timeline: FileReference | None = None
    requested: Settings
    effective: Settings | None = None
    effective_reason: str | None = "not measured yet"
    inputs: Inputs | None = None
    inputs_reason: str | None = "not recorded"
    recompilations: Count | None = None
    recompilations_reason: str | None = "not measured yet"
    device_shared: bool | None = None
    device_shared_reason: str | None = "not observed"
    telemetry: dict[str, Scalar] = Field(default_factory=dict)
    telemetry_reasons: dict[str, str] = Field(default_factory=dict)
    predictions: FileReference | None = None
    predictions_partial: bool = False
    journal: FileReference | None = None
    manifest_sha256: Sha256 | None = None
    process: WorkerProcess | None = Field(default=None, description="absent: a process of its own (policy fresh)")
    notes: tuple[str, ...] = ()

    @field_validator("memory")
    @classmethod
    def _tensors_lie_in_what_is_reserved(cls, peaks: tuple[MemoryPeak, ...]) -> tuple[MemoryPeak, ...]:
        """Of one device and process the allocator's peak is never below that of its tensors (ME-02)."""
        found: dict[tuple[str, str], tuple[list[int | None], list[int | None]]] = {}
        for peak in peaks:
            for place, kind in enumerate(("allocated", "reserved")):
                if f"max_memory_{kind}" in peak.counter:  # several processes of one card follow each other
                    found.setdefault((peak.device, peak.counter.replace(kind, "")), ([], []))[place].append(peak.bytes)
        for (device, _), (allocated, reserved) in found.items():
            for tensors, held in zip(allocated, reserved, strict=False):
                if tensors is not None and held is not None and tensors > held:
                    raise ValueError(f"{device}: allocated {tensors} bytes is larger than reserved {held} bytes")
        return peaks

    def as_json(self) -> dict[str, Any]:
        """Without `process` and `device_match` where there is none: such rows are as they always were."""
        content = super().as_json()
        for name in ("process", "device_match"):
            if content[name] is None:
                del content[name]
        return content

    @property
    def wall_clock_moved(self) -> bool:
        """Whether its times of day must not be subtracted: the wall clock was set by a second or more (TI-03)."""
        moved, ended = self.wall_clock_moved_seconds, self.ended_at_utc
        backwards = ended is not None and parse_utc(ended) < parse_utc(self.started_at_utc)
        return backwards or (moved is not None and abs(moved) >= 1)
