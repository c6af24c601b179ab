"""Default engine: any Hugging Face sequence classifier, batches and padding exactly as declared.

What pays: the Rust tokenizer in chunks, batches filled in numpy, no attention mask where nothing is
padded (the model would make nothing else of a mask of ones).
"""

from __future__ import annotations

from typing import Any

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
        self._ready = self._takes_ready_mask(job.settings["attention"])

    def _takes_ready_mask(self, attention: str) -> bool:
        """Whether the model gives the same outputs with a mask that is made here, one row per text.

        The model would build one for every query and, on a card, wait for it (`mask.all()`) in every batch.
        Only for encoders, tried here: outputs that differ in one bit leave the library's own way in use.
        """
        pad = self._tokenising.pad_token_id
        if attention != "sdpa" or pad is None or self._model.config.model_type not in _ENCODERS:
            return False
        ids = self._torch.full((2, 6), 5, device=self._device)
        ids[1, 2:] = pad
        plain = (ids != pad).long()
        with self._torch.inference_mode():
            wanted = self._model(input_ids=ids, attention_mask=plain).logits
            found = self._model(input_ids=ids, attention_mask=self._ready_mask(plain)).logits
        return bool(self._torch.equal(wanted, found))

    def _ready_mask(self, mask: Any) -> Any:
        """Added to the scores on the CPU (where it was measured); on a card as the library makes it itself."""
        rows, width = mask.shape
        if self._device != "cpu":
            return mask.bool()[:, None, None, :].expand(rows, 1, width, width)
        return (1 - mask)[:, None, None, :].to(self._model.dtype) * self._torch.finfo(self._model.dtype).min

    def inputs(self, tokens: Tokens, work: Work) -> dict[str, Any]:
        rows = tokens.ids
        longest, shortest = max(map(len, rows)), min(map(len, rows))
        width = padded_width(longest, self._padding, self._tokenising.max_length)
        work.computed_tokens += width * len(rows)
        work.rectangles.append((len(rows), width))
        names = ["input_ids"]
        names += [] if shortest == width else ["attention_mask"]
        names += [] if tokens.type_ids is None else ["token_type_ids"]
        # One block of memory for all inputs of a batch: one copy to a card.
        shape = (len(names), len(rows), width)
        on_card = self._device != "cpu"
        block = self._torch.empty(shape, dtype=self._torch.int64, pin_memory=on_card)
        fill(dict(zip(names, block.numpy(), strict=True)), tokens, width, self._tokenising, self._padding)
        if on_card:
            host, block = block, self._torch.empty(shape, dtype=self._torch.int64, device=self._device)
            block.copy_(host, non_blocking=True)
        inputs = dict(zip(names, block, strict=True))
        if self._ready and "attention_mask" in inputs:
            inputs["attention_mask"] = self._ready_mask(inputs["attention_mask"])
        return inputs

    def logits(self, inputs: dict[str, Any]) -> Any:
        return self._model(**inputs).logits

    def shape(self, inputs: dict[str, Any]) -> tuple[object, ...]:
        """Number of texts, width, masked or not: plans of attention are made for these."""
        return (*inputs["input_ids"].shape, "attention_mask" in inputs)


def fill(arrays: dict[str, Any], tokens: Tokens, width: int, tokenising: Tokenising, padding: str) -> None:
    """Token ids, and where batches are padded the padding around them, into arrays of shape (texts, width).

    Names: `input_ids`; `attention_mask` unless no text is shorter; `token_type_ids` where the model needs them.
    """
    ids, mask, types = arrays["input_ids"], arrays.get("attention_mask"), arrays.get("token_type_ids")
    if min(map(len, tokens.ids)) == width:
        ids[:] = tokens.ids
        if mask is not None:
            mask[:] = 1
        if types is not None:
            types[:] = tokens.type_ids
        return
    if padding == "none":
        raise Unsupported("padding none needs texts of equal length in every batch: use batch 1 or engine packed")
    assert mask is not None
    ids[:] = tokenising.pad_token_id
    mask[:] = 0
    if types is not None:
        types[:] = 0
    left = tokenising.padding_side == "left"
    for row, own in enumerate(tokens.ids):
        place = slice(width - len(own), width) if left else slice(0, len(own))
        ids[row, place] = own
        mask[row, place] = 1
        if types is not None and tokens.type_ids is not None:
            types[row, place] = tokens.type_ids[row]
