"""torch.compile around the padded forward: compiled before the pass, recompilations inside it counted (M18).

Two modes replay CUDA graphs (HIP graphs on ROCm): one is recorded for every shape, with two waits for
the card, and dynamo counts none of that. So every shape runs until its graph is replayed before the pass, and
a shape that was not there counts like a recompilation.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runner.measure.engines.transformers import PaddedForward
from runner.measure.job import Job, Unsupported

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# Modes with graphs of the card, and what is left of them where none is recorded.
_WITHOUT_GRAPHS = {"reduce-overhead": "default", "max-autotune": "max-autotune-no-cudagraphs"}
_RUNS_TO_REPLAY = 3  # warm up, record, replay
_GRAPHS_PER_SIGNATURE, _GRAPHS_TO_SPARE = 2, 8


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
        self._replays = mode in _WITHOUT_GRAPHS
        if self._replays and job.device == "cpu":
            instead = _WITHOUT_GRAPHS[mode]
            raise Unsupported(f"compile {mode!r} replays graphs of a card: on the CPU declare {instead!r}")
        _own_cache(job)
        # Lengths differ from batch to batch: one graph for all lengths unless the variant says otherwise.
        self._dynamic = bool(job.settings["extra"].get("dynamic_shapes", True))
        self._mode: str = mode
        self._recordings = _Recordings() if self._replays else None
        self._model = torch.compile(model, mode=None if mode == "default" else mode, dynamic=self._dynamic)
        self._graphs_at_first = self._graphs_before = self._graphs()
        self._shapes: set[tuple[object, ...]] = set()  # each has its graph of the card, or gets it now
        self._counting = False  # after everything known is compiled
        self._new_shapes = self._recorded_before = 0
        self.runs_per_shape = _RUNS_TO_REPLAY if self._replays else 1
        # A graph for all widths is tried with a second one before the pass.
        self.shapes_per_signature = 2 if self._dynamic and not self._replays else 1
        self.recompiled_shapes: list[str] = []
        self.effective |= {"compile": mode, "extra": {"dynamic_shapes": self._dynamic}}

    def logits(self, inputs: dict[str, Any]) -> Any:
        before = self._graphs() + self._recorded()
        result = super().logits(inputs)
        first = self._first_of_its_shape(inputs)
        if self._graphs() + self._recorded() != before or first:
            rows, width = inputs["input_ids"].shape
            self.recompiled_shapes.append(f"{rows}×{width}")
        return result

    def _first_of_its_shape(self, inputs: dict[str, Any]) -> bool:
        """Whether a graph of the card has to be made for this batch, after all known shapes have theirs."""
        shape = self.signature(inputs)
        if not self._replays or shape in self._shapes:
            return False
        self._shapes.add(shape)
        self._new_shapes += self._counting
        return self._counting

    def signature(self, inputs: dict[str, Any]) -> tuple[object, ...]:
        """What a graph is made for: number of texts, masked or not, and the width if static or replayed."""
        rows, width = inputs["input_ids"].shape
        fixed = self._replays or not self._dynamic or width <= 1
        return (rows, "attention_mask" in inputs, width if fixed else None)

    def expect(self, signatures: int) -> None:
        """From its 9th graph on dynamo would run a model as it is, and say so in a log only (M16)."""
        import torch._dynamo

        config: Any = torch._dynamo.config
        graphs = _GRAPHS_PER_SIGNATURE * signatures + _GRAPHS_TO_SPARE
        config.recompile_limit = max(config.recompile_limit, graphs)
        config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, graphs)
        config.fail_on_recompile_limit_hit = True

    def compiled(self) -> str:
        """Everything known is compiled: from now on a compilation is one too many. The mode in effect."""
        self._graphs_before = self._graphs()
        self._counting = True
        self._new_shapes = 0
        self._recorded_before = self._recorded()
        self.recompiled_shapes.clear()
        if self._graphs_before == self._graphs_at_first:
            return "none"  # nothing was compiled: the model runs as it is
        if self._recordings is not None and not self._recordings.made():
            return _WITHOUT_GRAPHS[self._mode]
        return self._mode

    def recompilations(self) -> int:
        # A new shape is recorded at its second call only; a known one again where torch could not replay its graph.
        recorded = self._recorded() - self._recorded_before
        return self._graphs() - self._graphs_before + max(self._new_shapes, recorded)

    def _recorded(self) -> int:
        """Graphs of the card so far; 0 where there are none, or torch does not tell."""
        return 0 if self._recordings is None else self._recordings.count or 0

    def _graphs(self) -> int:
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])


class _Recordings:
    """Graphs of the card that torch recorded: it skips them, with no more than a log line, where they do not fit."""

    def __init__(self) -> None:
        self.count: int | None = 0
        try:
            from torch._dynamo.callback import CallbackTrigger, callback_handler
        except ImportError:  # an older torch tells nobody
            self.count = None
            return
        self._trigger = CallbackTrigger.CUDAGRAPH_RECORDING
        callback_handler.register_start_callback(self._started)

    def _started(self, event: Any) -> None:
        if self.count is not None and event.callback_trigger is self._trigger:
            self.count += 1

    def made(self) -> bool:
        """Whether any was recorded, and none skipped where torch does not tell of recordings."""
        if self.count is not None:
            return self.count > 0
        from torch._dynamo.utils import counters

        return not counters["inductor"]["cudagraph_skips"]
