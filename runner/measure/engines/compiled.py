"""torch.compile around the padded forward: compiled before the pass, recompilations inside it counted (M18)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runner.measure.engines.transformers import PaddedForward
from runner.measure.job import Job, Unsupported

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _own_cache(job: Job) -> None:
    """Compiled code of this attempt alone: one that was killed while it compiled leaves broken files behind."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(Path(f"{job.result}.compiled") / name.partition("_")[0].lower())


class CompiledForward(PaddedForward):
    """Counts the graphs that dynamo compiles; the shape that caused one is kept in words."""

    def __init__(self, model: Any, tokenising: Any, job: Job, torch: Any) -> None:
        super().__init__(model, tokenising, job, torch)
        mode = job.settings["compile"]
        if mode not in MODES:
            raise Unsupported(f"compile {mode!r} is not known: use none, {', '.join(MODES)}")
        _own_cache(job)
        # Lengths differ from batch to batch: one graph for all lengths unless the variant says otherwise.
        self._dynamic = bool(job.settings["extra"].get("dynamic_shapes", True))
        self._model = torch.compile(model, mode=None if mode == "default" else mode, dynamic=self._dynamic)
        self._graphs_at_first = self._graphs_before = self._graphs()
        self.recompiled_shapes: list[str] = []
        self.effective |= {"compile": mode, "extra": {"dynamic_shapes": self._dynamic}}

    def logits(self, inputs: dict[str, Any]) -> Any:
        before = self._graphs()
        result = super().logits(inputs)
        if self._graphs() != before:
            rows, width = inputs["input_ids"].shape
            self.recompiled_shapes.append(f"{rows}×{width}")
        return result

    def signature(self, inputs: dict[str, Any]) -> tuple[object, ...]:
        """What dynamo compiles a graph for: number of texts, masked or not, and the width if static."""
        rows, width = inputs["input_ids"].shape
        return (rows, "attention_mask" in inputs, None if self._dynamic and width > 1 else width)

    def compiled(self) -> int:
        """Everything known is compiled: from now on a compilation is one too many. Number of graphs."""
        self._graphs_before = self._graphs()
        self.recompiled_shapes.clear()
        return self._graphs_before - self._graphs_at_first

    def recompilations(self) -> int:
        return self._graphs() - self._graphs_before

    def _graphs(self) -> int:
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])
