"""Manifest of one configuration: what was really there (M9). One file per distinct content."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from runner.evidence.canonical import content_sha256
from runner.evidence.model import Bytes, Record, Scalar, UtcText


class Gpu(Record):
    """One device as the driver names it. The UUID is hashed: it proves sameness, not identity."""

    index: int
    name: str
    memory_bytes: Bytes | None
    uuid_sha256: str | None
    compute_capability: str | None = None
    multiprocessors: int | None = Field(default=None, description="compute units that torch sees")


class Compatibility(Record):
    """AMD only (M10): looked up in a dated table; a page or a name never proves an installation."""

    verdict: Literal["listed", "not listed", "unknown", "not applicable"]
    table_date: str | None
    source: str | None
    detail: str


class Node(Record):
    """One machine of an attempt that several took part in; node 0 is the manifest's own machine."""

    node: int
    machine_id: str
    host: dict[str, Scalar]
    packages: dict[str, str]
    gpus: tuple[Gpu, ...]


class Manifest(Record):
    """Sections hold what was read; a `null` has its reason in `reasons` under `section.key`."""

    schema_version: Literal["manifest/1"] = "manifest/1"
    machine_id: str
    collected_at_utc: UtcText
    gpus: tuple[Gpu, ...]
    driver: dict[str, Scalar]
    runtime: dict[str, Scalar] = Field(description="CUDA or ROCm, cuDNN, NCCL")
    host: dict[str, Scalar] = Field(description="CPU, memory, OS, container hints")
    packages: dict[str, str]
    python: dict[str, Scalar]
    code: dict[str, Scalar] = Field(description="git commit and whether the tree was dirty, version")
    environment: dict[str, str] = Field(description="allow-listed variables only")
    determinism: dict[str, Scalar]
    model: dict[str, Scalar]
    tokenizer: dict[str, Scalar]
    rocm: Compatibility
    installation: dict[str, Scalar] = Field(default_factory=dict)
    nodes: tuple[Node, ...] = Field(default=(), description="every machine, where several took part in one attempt")
    reasons: dict[str, str] = Field(default_factory=dict)

    @property
    def stack(self) -> dict[str, Any]:
        """The part that makes two configurations different stacks (M12)."""
        return {
            "gpus": [gpu.name for gpu in self.gpus],
            **({"nodes": [_stack_of(node) for node in self.nodes]} if self.nodes else {}),
            "driver": dict(self.driver),
            "runtime": dict(self.runtime),
            "packages": dict(self.packages),
            "python": dict(self.python),
            "cpu": self.host.get("cpu"),
            "os": self.host.get("os"),
        }

    @property
    def stack_sha256(self) -> str:
        return content_sha256(self.stack)


def _stack_of(node: Node) -> str:
    """A node's part of the stack as one word: nodes that differ make another configuration."""
    parts = {"cpu": node.host.get("cpu"), "os": node.host.get("os"), "packages": node.packages}
    return f"{content_sha256(parts)[:16]}, {len(node.gpus)} cards"
