"""Default engine: any Hugging Face sequence classifier, batches and padding exactly as declared.

What pays: the Rust tokenizer in chunks, batches filled in numpy, no attention mask where nothing is
padded (the model would make nothing else of a mask of ones).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runner.measure.engines.batched import BatchedEngine
from runner.measure.engines.loading import load_model
from runner.measure.engines.tokenizing import Tokenising, Tokens, padded_width
from runner.measure.job import Job, Unsupported
from runner.measure.passes import Work


def transformers_engine(job: Job, torch: Any) -> BatchedEngine:
    """Load model and tokenizer as the variant asks. Raises `Unsupported`, `AttemptFailed`."""
    loaded = load_model(job.model, job.settings, job.device, torch)
    kind = PaddedForward
    if job.settings["compile"] != "none":
        from runner.measure.engines.compiled import CompiledForward

        kind = CompiledForward
    return BatchedEngine(job, torch, loaded, kind(loaded.model, loaded.tokenising, job, torch))


# Encoders that look both ways: what is masked depends on the key alone.
_ENCODERS = frozenset({"bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "mpnet"})


class PaddedForward:
    """One rectangle of token ids per batch, filled up with the padding token."""

    def __init__(self, model: Any, tokenising: Tokenising, job: Job, torch: Any) -> None:
        self._model = model
        self._tokenising = tokenising
        self._torch = torch
        self._device = job.device
        self._padding: str = job.settings["padding"]
        padded_width(1, self._padding, 1)  # an unknown padding is refused before any work
        self.effective: dict[str, Any] = {"engine": "transformers"}
        self.first_token_only = False
        self._lowest = self._lowest_if_additive(job.settings["attention"])

    def _lowest_if_additive(self, attention: str) -> float | None:
        """The number that masks a token, if the model takes a ready mask of one row per text.

        Such a mask is the same for all queries, so it is not built and copied for each of them. Only
        for encoders whose outputs are the same with it, tried here; on the CPU, where it was measured.
        """
        pad = self._tokenising.pad_token_id
        if self._device != "cpu" or attention != "sdpa" or pad is None:
            return None
        if self._model.config.model_type not in _ENCODERS:
            return None
        lowest = float(self._torch.finfo(self._model.dtype).min)
        ids = self._torch.full((2, 6), 5)
        ids[1, 2:] = pad
        plain = (ids != pad).long()
        ready = ((1 - plain) * lowest)[:, None, None, :].to(self._model.dtype)
        with self._torch.inference_mode():
            wanted = self._model(input_ids=ids, attention_mask=plain).logits
            found = self._model(input_ids=ids, attention_mask=ready).logits
        return lowest if self._torch.equal(wanted, found) else None

    def inputs(self, tokens: Tokens, work: Work) -> dict[str, Any]:
        rows = tokens.ids
        longest, shortest = max(map(len, rows)), min(map(len, rows))
        width = padded_width(longest, self._padding, self._tokenising.max_length)
        work.computed_tokens += width * len(rows)
        work.rectangles.append((len(rows), width))
        if shortest == width:
            arrays = {"input_ids": np.array(rows, dtype=np.int64)}
            if tokens.type_ids is not None:
                arrays["token_type_ids"] = np.array(tokens.type_ids, dtype=np.int64)
        else:
            arrays = self._padded(tokens, width)
        inputs = {name: self._to_device(array) for name, array in arrays.items()}
        if self._lowest is not None and "attention_mask" in inputs:
            padded = (1 - inputs["attention_mask"])[:, None, None, :]
            inputs["attention_mask"] = padded.to(self._model.dtype) * self._lowest
        return inputs

    def logits(self, inputs: dict[str, Any]) -> Any:
        return self._model(**inputs).logits

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
