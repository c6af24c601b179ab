"""Default engine: any Hugging Face sequence classifier, batches and padding exactly as declared.

What pays: the Rust tokenizer in chunks, batches filled in numpy, no attention mask where nothing is
padded (the model would build the same one from ones). On a card nothing waits per batch: outputs
are copied back asynchronously and fetched when their copy has finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from runner.measure.batches import plan_batches
from runner.measure.clocks import Parts
from runner.measure.engines.base import Loaded
from runner.measure.engines.loading import (
    LoadedModel,
    effective_attention,
    effective_precision,
    effective_quantization,
    load_model,
)
from runner.measure.engines.tokenizing import CHUNK_DOCUMENTS, Tokens, padded_width
from runner.measure.job import Job, Unsupported
from runner.measure.passes import Ledger, Work


class TransformersEngine:
    """Loaded model with its plan of work. Not thread-safe; one per worker."""

    def __init__(self, job: Job, torch: Any) -> None:
        self._torch = torch
        self._settings = job.settings
        self._device = job.device
        if job.settings["compile"] != "none":
            raise Unsupported("torch.compile is not offered by this engine yet")
        loaded: LoadedModel = load_model(job.model, job.settings, job.device, torch)
        self._model = loaded.model
        self._tokenising = loaded.tokenising
        self._batch_size: int = job.settings["batch_size"]
        self._padding: str = job.settings["padding"]
        padded_width(1, self._padding, 1)  # an unknown padding is refused before any work
        plan_batches([1], 1, job.settings["grouping"])
        self.loaded = Loaded(self._effective(), *self._facts(), notes=loaded.notes)

    # ---- inside the pass ----

    def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
        fetch = _Fetch(self._torch, ledger, parts) if self._device != "cpu" else None
        with self._torch.inference_mode():
            for positions, tokens in self._batches(texts, parts, work):
                with parts.busy("transfer"):
                    inputs = self._inputs(tokens, work)
                with parts.busy("inference"):
                    logits = self._model(**inputs).logits
                if fetch is not None:
                    fetch.put(positions, logits)
                    continue
                with parts.busy("materialise"):
                    ledger.add(positions, logits.float().numpy())
            if fetch is not None:
                fetch.drain()

    def _batches(self, texts: Sequence[str], parts: Parts, work: Work) -> Any:
        """`(positions, tokens)` per batch; in corpus order only some texts are tokenised ahead."""
        grouping = self._settings["grouping"]
        ahead = len(texts)
        if grouping == "none":
            ahead = max(1, CHUNK_DOCUMENTS // self._batch_size) * self._batch_size
        for start in range(0, len(texts), ahead):
            with parts.busy("tokenise"):
                tokens = self._tokenising.encode(texts[start : start + ahead])
                lengths = [len(ids) for ids in tokens.ids]
                plan = plan_batches(lengths, self._batch_size, grouping)
            work.lengths.extend(lengths)
            for batch in plan:
                types = None if tokens.type_ids is None else [tokens.type_ids[at] for at in batch]
                yield [start + at for at in batch], Tokens([tokens.ids[at] for at in batch], types)

    def _inputs(self, tokens: Tokens, work: Work) -> dict[str, Any]:
        """Tensors of one batch on the device; the mask only where something is padded."""
        rows = tokens.ids
        longest, shortest = max(map(len, rows)), min(map(len, rows))
        width = padded_width(longest, self._padding, self._tokenising.max_length)
        work.batches += 1
        work.largest_batch = max(work.largest_batch, len(rows))
        work.computed_tokens += width * len(rows)
        if shortest == width:
            arrays = {"input_ids": np.array(rows, dtype=np.int64)}
            if tokens.type_ids is not None:
                arrays["token_type_ids"] = np.array(tokens.type_ids, dtype=np.int64)
        else:
            arrays = self._padded(tokens, width)
        return {name: self._to_device(array) for name, array in arrays.items()}

    def _padded(self, tokens: Tokens, width: int) -> dict[str, Any]:
        if self._padding == "none":
            raise Unsupported("padding none needs texts of equal length in every batch: use batch 1 or engine packed")
        shape = (len(tokens.ids), width)
        arrays = {
            "input_ids": np.full(shape, self._tokenising.pad_token_id, dtype=np.int64),
            "attention_mask": np.zeros(shape, dtype=np.int64),
        }
        if tokens.type_ids is not None:
            arrays["token_type_ids"] = np.zeros(shape, dtype=np.int64)
        left = self._tokenising.padding_side == "left"
        for row, ids in enumerate(tokens.ids):
            place = slice(width - len(ids), width) if left else slice(0, len(ids))
            arrays["input_ids"][row, place] = ids
            arrays["attention_mask"][row, place] = 1
            if tokens.type_ids is not None:
                arrays["token_type_ids"][row, place] = tokens.type_ids[row]
        return arrays

    def _to_device(self, array: Any) -> Any:
        tensor = self._torch.from_numpy(array)
        if self._device == "cpu":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)

    # ---- outside the pass ----

    def warm_up(self, texts: Sequence[str], inputs: str, passes: int) -> None:
        if inputs == "none" or passes == 0:
            return
        plan = list(self._batches(texts, Parts(lambda: 0), Work()))
        longest = max(plan, key=lambda item: max(map(len, item[1].ids)))
        with self._torch.inference_mode():
            for _ in range(passes):
                for _, tokens in (longest, plan[0]):
                    self._model(**self._inputs(tokens, Work())).logits.float().cpu()

    def recompilations(self) -> tuple[int | None, str | None]:
        return 0, None

    def cut_tokens(self, texts: Sequence[str], lengths: Sequence[int]) -> tuple[int, int]:
        return self._tokenising.cut_tokens(texts, lengths)

    def _effective(self) -> dict[str, Any]:
        quantization, modules = effective_quantization(self._model)
        facts = dict(self._settings) | {
            "engine": "transformers",
            "precision": effective_precision(self._model),
            "quantization": quantization,
            "attention": effective_attention(self._model),
            "padding_side": self._tokenising.padding_side,
            "max_length": self._tokenising.max_length,
            "truncation": self._tokenising.truncation,
            "threads": self._torch.get_num_threads(),
            "compile": "none",
            "workers": 1,
            "devices": 1,
        }
        facts["extra"] = dict(self._settings["extra"]) | ({"quantized_modules": modules} if modules else {})
        return facts

    def _facts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config = self._model.config
        model = {
            "architecture": type(self._model).__name__,
            "model_type": config.model_type,
            "parameters": sum(parameter.numel() for parameter in self._model.parameters()),
            "pad_token_id": config.pad_token_id,
        }
        tokenizer = {
            "class": type(self._tokenising._tokenizer).__name__,
            "rust": self._tokenising._fast is not None,
            "pad_token_id": self._tokenising.pad_token_id,
            "padding_side_of_files": self._tokenising.default_side,
        }
        return model, tokenizer


class _Fetch:
    """Outputs on their way from the card: fetched when their copy is done, never waited for in between."""

    def __init__(self, torch: Any, ledger: Ledger, parts: Parts) -> None:
        self._torch = torch
        self._ledger = ledger
        self._parts = parts
        self._waiting: deque[tuple[list[int], Any, Any]] = deque()

    def put(self, positions: list[int], logits: Any) -> None:
        with self._parts.busy("transfer"):
            host = self._torch.empty(logits.shape, dtype=self._torch.float32, pin_memory=True)
            host.copy_(logits.float(), non_blocking=True)
            done = self._torch.cuda.Event()
            done.record()
            self._waiting.append((positions, host, done))
        while self._waiting and self._waiting[0][2].query():
            self._take()

    def drain(self) -> None:
        while self._waiting:
            with self._parts.busy("materialise"):
                self._waiting[0][2].synchronize()
            self._take()

    def _take(self) -> None:
        positions, host, _ = self._waiting.popleft()
        with self._parts.busy("materialise"):
            self._ledger.add(positions, host.numpy())
