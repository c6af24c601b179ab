"""What every engine of the worker offers: load, warm up, classify, and say what was really in effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from runner.measure.passes import Engine, Work


@dataclass(frozen=True)
class Loaded:
    """What loading found out: facts for the manifest, settings in effect, why some are unknown."""

    effective: dict[str, Any]
    model: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    tokenizer: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class LoadedEngine(Engine, Protocol):
    """An engine after loading."""

    loaded: Loaded

    def compile(self, texts: Sequence[str]) -> None:
        """Compile for every shape that the plan of work has; nothing where the variant compiles nothing."""

    def warm_up(self, texts: Sequence[str], inputs: str, passes: int) -> None:
        """The frozen rule (M18): `longest_and_first` runs the longest batch of the plan and its first."""

    def recompilations(self) -> tuple[int | None, str | None]:
        """Compilations since the warm-up ended (shapes in words), or None with the reason."""

    def efficiency(self, work: Work, *, matrix_rate: bool) -> dict[str, float | str | None]:
        """Operations of the pass, and the device's matrix rate if wanted; None with `..._reason` where unknown."""

    def cut_tokens(self, texts: Sequence[str], lengths: Sequence[int]) -> tuple[int, int]:
        """Documents that were cut and tokens cut away, counted after the pass."""


@runtime_checkable
class ChecksShapes(Protocol):
    """An engine that compiles for shapes and knows which of the plan's it has not compiled."""

    def missing_shapes(self, texts: Sequence[str]) -> tuple[str, ...]:
        """`8×384` (texts × tokens) per shape of the plan of work that nothing was compiled for, each once (TI-02)."""
