"""The pass of every torch engine: tokenise in chunks, form the declared batches, infer, fetch.

On a card nothing waits per batch: outputs are copied back asynchronously and fetched when their
copy has finished. How a batch becomes tensors and logits is the `Forward` of the engine.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from runner.measure.batches import plan_batches
from runner.measure.clocks import Parts
from runner.measure.engines.ahead import Ahead
from runner.measure.engines.base import Loaded
from runner.measure.engines.fetch import Fetch, Nowhere
from runner.measure.engines.loading import (
    LoadedModel,
    effective_attention,
    effective_precision,
    effective_quantization,
)
from runner.measure.engines.tokenizing import CHUNK_DOCUMENTS, Tokens
from runner.measure.flops import EncoderShape, executed_flops, real_flops
from runner.measure.flops import matrix_rate as measured_rate
from runner.measure.job import Job, Unsupported, ZeroTokens
from runner.measure.oom import memory_evidence
from runner.measure.passes import Ledger, Work

# Settings below `extra` that engines of this kind read.
_EXTRA = frozenset({"memory_margin_mib", "tokenise_ahead", "dynamic_shapes"})
_FIRST_DOCUMENTS = 32
_FEW_ROWS = "needs to be greater than 16"
_COMPILER = ("torch._inductor", "torch._dynamo", "triton")


class Forward(Protocol):
    """How one batch is computed. `effective` are settings that only this engine knows.

    `first_token_only`: of the last layer only the classifier's token is computed.
    """

    effective: dict[str, Any]
    first_token_only: bool

    def inputs(self, tokens: Tokens, work: Work) -> Any:
        """Tensors of one batch on the device; counts the tokens that will be computed."""

    def logits(self, inputs: Any) -> Any:
        """Tensor of shape (documents, outputs), rows in the order of the tokens."""

    def shape(self, inputs: Any) -> tuple[object, ...]:
        """The size of a batch: what a card's libraries prepare once for all batches that are alike in it."""


@runtime_checkable
class Compiles(Protocol):
    """A forward that is compiled for signatures of its inputs."""

    recompiled_shapes: list[str]
    runs_per_shape: int
    shapes_per_signature: int

    def signature(self, inputs: Any) -> tuple[object, ...]: ...
    def expect(self, signatures: int) -> None:
        """So many signatures will be compiled for; the compiler must not give up before."""

    def compiled(self) -> str:
        """The compiling is over; the mode that is in effect, `none` where nothing was compiled."""

    def recompilations(self) -> int: ...


def compiled_graphs() -> int:
    """Graphs that dynamo has compiled in this process, by whose order ever; its modules are not loaded for that."""
    utilities = sys.modules.get("torch._dynamo.utils")
    return 0 if utilities is None else int(utilities.counters["stats"]["unique_graphs"])


class BatchedEngine:
    """Loaded model with its plan of work. Not thread-safe; one per worker."""

    def __init__(self, job: Job, torch: Any, loaded: LoadedModel, forward: Forward) -> None:
        self._torch = torch
        self._settings = job.settings
        self._on_cpu = job.device == "cpu"
        self._tokenising = loaded.tokenising
        self._forward = forward
        self._model = loaded.model
        self._batch_size: int = job.settings["batch_size"]
        self._ahead = bool(self._extra(job).get("tokenise_ahead", not self._on_cpu))
        self._signatures: set[tuple[object, ...]] = set()  # compiled for
        self._all_shapes = job.warm_up_card_shapes == "all" and not self._on_cpu
        self._least_seconds = 0.0 if self._on_cpu else job.warm_up_card_seconds
        self._shapes: set[tuple[object, ...]] | None = None  # that the card has seen, if it was shown all
        self._unseen: dict[tuple[object, ...], str] = {}
        self._graphs = compiled_graphs()
        plan_batches([1], 1, job.settings["grouping"])  # an unknown grouping is refused before any work
        self.loaded = Loaded(self._effective(loaded.model), *self._facts(loaded), notes=loaded.notes)

    @staticmethod
    def _extra(job: Job) -> dict[str, Any]:
        """Further settings; one that no engine of this kind knows would only seem to be in effect."""
        extra: dict[str, Any] = job.settings["extra"]
        unknown = sorted(set(extra) - _EXTRA)
        if unknown:
            known = ", ".join(sorted(_EXTRA))
            raise Unsupported(f"extra setting {unknown[0]!r} is not known to this engine (it knows {known})")
        return extra

    # ---- inside the pass ----

    def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
        fetch = None if self._on_cpu else Fetch(self._torch, ledger, parts)
        try:
            with self._torch.inference_mode():
                for positions, tokens in self._batches(texts, parts, work):
                    work.batches += 1
                    work.largest_batch = max(work.largest_batch, len(positions))
                    with parts.busy("transfer"):
                        inputs = self._forward.inputs(tokens, work)
                    if self._shapes is not None and (shape := self._forward.shape(inputs)) not in self._shapes:
                        self._unseen[shape] = "×".join(map(str, shape[:2]))
                    if fetch is not None:
                        fetch.run(positions, self._forward.logits, inputs)
                        continue
                    with parts.busy("inference"):
                        logits = self._forward.logits(inputs)
                    with parts.busy("materialise"):
                        # Nothing of this batch is kept while the next one is computed: the C library would give its
                        # memory back in between and take it anew, page by page (1 to 4 % of a pass on a large model).
                        outputs = logits.float().numpy().copy()
                        del inputs, logits
                        ledger.add(positions, outputs)
                if fetch is not None:
                    fetch.drain()
                    work.device_seconds = fetch.device_seconds
        except Exception:
            if fetch is not None:
                fetch.rescue()
            raise

    def _batches(self, texts: Sequence[str], parts: Parts, work: Work) -> Iterator[tuple[list[int], Tokens]]:
        """`(positions, tokens)` per batch; in corpus order only some texts are tokenised ahead."""
        grouping = self._settings["grouping"]
        ahead = len(texts)
        if grouping == "none":
            ahead = max(1, CHUNK_DOCUMENTS // self._batch_size) * self._batch_size
        chunks = self._chunks(texts, ahead, parts)
        if self._ahead and ahead < len(texts):
            work.overlapping = ("tokenise",)
            chunks = iter(Ahead(chunks))
        for start, tokens, lengths in chunks:
            plan = plan_batches(lengths, self._batch_size, grouping)
            work.lengths.extend(lengths)
            for batch in plan:
                yield [start + at for at in batch], tokens.take(batch)

    def _chunks(self, texts: Sequence[str], size: int, parts: Parts) -> Iterator[tuple[int, Tokens, list[int]]]:
        """`(first position, tokens, lengths)` of `size` texts each; a card gets a small first one and starts early."""
        start = 0
        while start < len(texts):
            first = self._ahead and start == 0 and size < len(texts)
            stop = start + (min(size, -(-_FIRST_DOCUMENTS // self._batch_size) * self._batch_size) if first else size)
            with parts.busy("tokenise"):
                tokens = self._tokenising.encode(texts[start:stop])
                lengths = [len(ids) for ids in tokens.ids]
            if 0 in lengths:
                raise ZeroTokens([start + at for at, length in enumerate(lengths) if not length])
            yield start, tokens, lengths
            start = stop

    # ---- outside the pass ----

    def warm_up(self, texts: Sequence[str], inputs: str, passes: int) -> None:
        if not self._on_cpu:
            # What loading and compiling left in the allocator's cache is no need of the pass. Before the warm-up: what
            # that takes, the pass finds again. A model that was rebuilt is a cycle of objects until it is collected.
            gc.collect()
            self._torch.cuda.empty_cache()
        tunable: Any = None if self._on_cpu else getattr(self._torch.cuda, "tunable", None)
        tunes = tunable is not None and tunable.is_enabled()
        if tunes:  # as at the start of the process
            tunable.tuning_enable(os.environ.get("PYTORCH_TUNABLEOP_TUNING", "1") != "0")
        if inputs != "none" and passes > 0:
            self._warm_up(texts, passes)
        if tunes:  # what was tuned for the sizes of the plan is used; nothing is tuned in the pass
            tunable.tuning_enable(False)
        # Attention or code of a model may compile on its own (`flex_attention` does, for every shape anew).
        before, self._graphs = self._graphs, compiled_graphs()
        if isinstance(self._forward, Compiles):
            if self._forward.recompilations():  # for a size that only the warm-up has shown
                self.loaded.effective["compile"] = self._forward.compiled()
        elif self._graphs > before:
            self.loaded.effective["extra"]["compiled_by_the_model"] = self._graphs - before

    def _warm_up(self, texts: Sequence[str], passes: int) -> None:
        plan = list(self._batches(texts, Parts(lambda: 0), Work()))
        longest = max(plan, key=lambda item: max(map(len, item[1].ids)))
        # The way of the pass: its pinned blocks and events are there before it begins.
        fetch = None if self._on_cpu else Fetch(self._torch, Nowhere(), Parts(lambda: 0))

        def run(positions: list[int], inputs: Any) -> None:
            if fetch is None:
                self._forward.logits(inputs).float()
                return
            try:
                fetch.run(positions, self._forward.logits, inputs)
            except RuntimeError as error:
                self._refuse_few_rows(error)
                raise

        with self._torch.inference_mode():
            if self._all_shapes:
                self._show_all_shapes(plan, run)
            begin = time.monotonic()
            while True:
                for _ in range(passes):
                    for positions, tokens in (longest, plan[0]):
                        run(positions, self._forward.inputs(tokens, Work()))
                if fetch is not None:
                    fetch.drain()
                if time.monotonic() - begin >= self._least_seconds:
                    break

    def _show_all_shapes(self, plan: Sequence[tuple[list[int], Tokens]], run: Callable[[list[int], Any], None]) -> None:
        """Every size of batch once: a card's libraries plan, load and tune for each when it comes first (M18).

        cuDNN's attention builds a plan for every width, tens of milliseconds of the host, and no counter tells of it.
        """
        seen = self._shapes = set()
        for positions, tokens in plan:
            inputs = self._forward.inputs(tokens, Work())
            if (shape := self._forward.shape(inputs)) not in seen:
                seen.add(shape)
                run(positions, inputs)

    def compile(self, texts: Sequence[str]) -> None:
        """For every signature of the plan; a build that cannot compile is found here, not in the pass.

        A graph for all widths is made from one that differs from the number of texts (the compiler takes equal sizes
        for one and the same) and tried with a second.
        """
        if not isinstance(self._forward, Compiles):
            return
        plan: dict[tuple[object, ...], dict[tuple[object, ...], Tokens]] = {}
        for _, tokens in self._batches(texts, Parts(lambda: 0), Work()):
            inputs = self._forward.inputs(tokens, Work())
            plan.setdefault(self._forward.signature(inputs), {}).setdefault(self._forward.shape(inputs), tokens)
        self._forward.expect(len(plan))
        with self._torch.inference_mode():
            for signature, shapes in plan.items():
                self._signatures.add(signature)
                apart = sorted(shapes, key=lambda shape: shape[0] == shape[1])  # stable: else in the plan's order
                for shape in apart[: self._forward.shapes_per_signature]:
                    for _ in range(self._forward.runs_per_shape):
                        self._try_to_compile(self._forward.inputs(shapes[shape], Work()))
        self.loaded.effective["compile"] = self._forward.compiled()

    def missing_shapes(self, texts: Sequence[str]) -> tuple[str, ...]:
        if not isinstance(self._forward, Compiles):
            return ()
        missing: dict[tuple[object, ...], str] = {}
        for _, tokens in self._batches(texts, Parts(lambda: 0), Work()):
            signature = self._forward.signature(inputs := self._forward.inputs(tokens, Work()))
            if signature not in self._signatures:
                missing.setdefault(signature, "×".join(map(str, inputs["input_ids"].shape)))
        return tuple(missing.values())

    def _try_to_compile(self, inputs: Any) -> None:
        try:
            self._forward.logits(inputs)
        except Exception as error:
            self._refuse_few_rows(error)
            # Memory that ran out while compiling is no verdict on the build.
            if memory_evidence(error) is None and type(error).__module__.startswith(_COMPILER):
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                cause = next((line for line in lines if "rror" in line), lines[0] if lines else "no message")
                what = f"{type(error).__name__}: {cause[:300]}"
                raise Unsupported(f"torch.compile is not possible here: {what}") from error
            raise

    def _refuse_few_rows(self, error: Exception) -> None:
        """torch's int8 product of a card (`_int_mm`) takes more than 16 rows, which are the tokens of a batch."""
        if self._settings["quantization"] == "int8-torchao" and _FEW_ROWS in str(error):
            raise Unsupported(
                "int8-torchao on a card needs more than 16 tokens in every batch: declare a larger batch, or a grouping"
            ) from error

    def recompilations(self) -> tuple[int | None, str | None]:
        """A size of batch that the card had not seen counts like a compilation."""
        shapes = list(self._unseen.values())
        if isinstance(self._forward, Compiles):
            count = max(self._forward.recompilations(), len(shapes))
            shapes = self._forward.recompiled_shapes or shapes
        else:
            count = compiled_graphs() - self._graphs + len(shapes)
        named = f", shape {', '.join(shapes)}" if shapes else ""
        return count, f"not clean: {count} compilation(s) in the timed part{named}" if count else None

    def efficiency(self, work: Work, *, matrix_rate: bool) -> dict[str, float | str | None]:
        shape = EncoderShape.of(self._model.config)
        found: dict[str, float | str | None] = {"flops_real": None, "flops_executed": None, "matrix_flops_rate": None}
        if shape is None:
            found["flops_reason"] = f"operations of a {self._model.config.model_type} are not known here"
        else:
            found["flops_real"] = real_flops(shape, work.lengths)
            found["flops_executed"] = executed_flops(
                shape, work.rectangles, first_token_only=self._forward.first_token_only
            )
        if matrix_rate:
            dtype = next((p.dtype for p in self._model.parameters() if p.is_floating_point()), self._torch.float32)
            try:
                with self._torch.inference_mode():
                    found["matrix_flops_rate"] = measured_rate(self._torch, "cpu" if self._on_cpu else "cuda", dtype)
            except Exception as error:  # the pass is over and complete: this says less about the device, no more
                found["matrix_rate_reason"] = f"not measurable here: {type(error).__name__}"
        return found

    def cut_tokens(self, texts: Sequence[str], lengths: Sequence[int]) -> tuple[int, int]:
        return self._tokenising.cut_tokens(texts, lengths)

    def _effective(self, model: Any) -> dict[str, Any]:
        quantization, modules = effective_quantization(model)
        facts = self._settings | {
            "precision": effective_precision(model, self._torch),
            "quantization": quantization,
            "attention": effective_attention(model),
            "padding_side": self._tokenising.padding_side,
            "max_length": self._tokenising.max_length,
            "truncation": self._tokenising.truncation,
            "threads": self._torch.get_num_threads(),
            "compile": "none",
            "workers": 1,
            "devices": 1,
        }
        asked = self._settings["extra"]
        facts["extra"] = {"tokenise_ahead": self._ahead} if self._ahead or "tokenise_ahead" in asked else {}
        if "memory_margin_mib" in asked:
            facts["extra"]["memory_margin_mib"] = asked["memory_margin_mib"]  # the worker sets the limit
        if modules:
            facts["extra"]["quantized_modules"] = modules
        own = dict(self._forward.effective)
        facts["extra"] |= own.pop("extra", {})
        return facts | own

    def _facts(self, loaded: LoadedModel) -> tuple[dict[str, Any], dict[str, Any]]:
        config = loaded.model.config
        model = {
            "architecture": type(loaded.model).__name__,
            "model_type": config.model_type,
            "parameters": loaded.parameters,
            "pad_token_id": config.pad_token_id,
            **loaded.kernels,
        }
        return model, self._tokenising.facts()
