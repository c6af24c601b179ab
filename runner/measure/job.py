"""What the parent hands to a worker, and the result file it gets back: plain JSON, no torch, no pydantic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CorpusSource:
    """Where the texts are; read again inside every pass (M19)."""

    path: str
    id_column: str
    text_column: str
    documents: int


@dataclass(frozen=True)
class ModelSource:
    """Folder of the model, checked against the lock by the parent, and what may be run from it."""

    path: str
    allow_custom_code: bool
    allow_pickle: bool
    pad_token: str | None
    max_length: int
    labels: tuple[str, ...]
    single_logit: dict[str, str] | None


@dataclass(frozen=True)
class Job:
    """One attempt for one worker process. Paths are absolute."""

    attempt_id: str
    corpus: CorpusSource
    model: ModelSource
    settings: dict[str, Any]
    seed: int
    device: str
    warm_up_inputs: str
    warm_up_passes: int
    sample_interval_seconds: float
    timed: bool
    matrix_rate: bool
    journal: str
    results: str
    result: str
    predictions: str
    spawned_mono_ns: int
    parent_pid: int
    warm_up_card_shapes: str = "inputs"
    warm_up_card_seconds: float = 0.0
    launch: dict[str, Any] | None = None  # of several nodes: torchrun's nnodes, node_rank, rdzv_*, run_id

    def dump(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def load(cls, path: Path) -> Job:
        value = json.loads(path.read_bytes())
        value["corpus"] = CorpusSource(**value["corpus"])
        model = value["model"]
        value["model"] = ModelSource(**model | {"labels": tuple(model["labels"])})
        return cls(**value)


ZERO_TOKENS = "zero tokens"


class ZeroTokens(Exception):
    """The tokenizer made nothing of some texts: `positions` in the corpus (CO-13)."""

    def __init__(self, positions: Sequence[int]) -> None:
        super().__init__(ZERO_TOKENS)
        self.positions = tuple(positions)


class Unsupported(Exception):
    """This device, model or build cannot do what the variant asks for; never replaced by something else."""


class AttemptFailed(Exception):
    """The attempt ended in the worker with a cause that is known. `status` is a value of `Status`.

    `completed`: documents with a valid result; None is what the spool holds.
    """

    def __init__(
        self, status: str, kind: str, message: str, evidence: str | None = None, completed: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.evidence = evidence
        self.completed = completed
