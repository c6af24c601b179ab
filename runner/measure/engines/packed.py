"""Engine `packed`: no padding at all, and the last layer only where the classifier looks.

The texts of a batch lie one after another in one long row of tokens. Everything but attention works
on single tokens, so it runs on the whole row at once; attention runs per text. Of the last layer only
the first token of each text is computed, because the classifier reads nothing else. It is another
organisation of the work (a declared variant), the same arithmetic up to rounding: at loading it is
compared with the model itself, and a model that this file does not know is unsupported.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from runner.measure.engines.batched import BatchedEngine
from runner.measure.engines.loading import LoadedModel, first_line, load_model, quantized
from runner.measure.engines.packed_attention import Attend, Pack, per_text, variable_length, varlen_kernel
from runner.measure.engines.tokenizing import Tokens
from runner.measure.job import Job, Unsupported
from runner.measure.oom import memory_evidence
from runner.measure.passes import Work

# model type -> where the positions start: RoBERTa's follow the padding id.
_FAMILIES = {"bert": "bert", "roberta": "roberta", "xlm-roberta": "roberta", "camembert": "roberta"}
# Of the outputs, relative to the largest of them where that is above 1.
_TOLERANCE = {"fp32": 2e-4, "bf16": 0.1, "fp16": 0.02}
_PROBE_LENGTHS = (3, 17, 6, 1)


def packed_engine(job: Job, torch_module: Any) -> BatchedEngine:
    """Load the model, rebuild it without padding, compare both. Raises `Unsupported`."""
    settings = job.settings
    if settings["padding"] != "none":
        raise Unsupported('engine packed pads nothing: declare padding = "none"')
    if settings["compile"] != "none":
        raise Unsupported("engine packed does not use torch.compile")
    attend, name = _attention(settings, job.device)
    loaded = load_model(job.model, settings | {"quantization": "none", "attention": "sdpa"}, job.device, torch_module)
    forward = PackedForward(loaded, settings, job.device, attend)
    forward.effective["attention"] = name
    return BatchedEngine(job, torch_module, forward.described(loaded), forward)


def _attention(settings: dict[str, Any], device: str) -> tuple[Attend, str]:
    """Per text on the CPU; on a card one kernel of variable length, which computes in half precision only."""
    wanted = "sdpa" if device == "cpu" else "varlen"
    if settings["attention"] != wanted:
        where = "on the CPU" if device == "cpu" else "on a card"
        raise Unsupported(f'engine packed {where} computes attention with {wanted}: declare attention = "{wanted}"')
    if device == "cpu":
        return per_text, wanted
    if settings["precision"] == "fp32":
        raise Unsupported("attention of variable length computes in fp16 or bf16 only, not in fp32")
    return variable_length(varlen_kernel()), wanted


class PackedForward:
    """The rebuilt model; `described` is what the record says about it."""

    def __init__(self, loaded: LoadedModel, settings: dict[str, Any], device: str, attend: Attend) -> None:
        family = _FAMILIES.get(loaded.model.config.model_type)
        if family is None:
            known = ", ".join(sorted(_FAMILIES))
            raise Unsupported(f"engine packed does not know {loaded.model.config.model_type!r} (it knows {known})")
        self._module = PackedClassifier(loaded.model, family, attend).eval()
        self._device = device
        self._with_numbers = attend is not per_text
        kernel = getattr(attend, "kernel", None)
        self._kernels = loaded.kernels if kernel is None else {"attention_kernel": str(kernel)}
        self._first_position = 0 if family == "bert" else loaded.model.config.pad_token_id + 1
        try:
            _compare(self, loaded.model, settings["precision"])
        except RuntimeError as error:  # the kernel is not for this card (before compute capability 8.0) or these heads
            if attend is per_text or memory_evidence(error) is not None:
                raise
            raise Unsupported(f"attention of variable length is not possible here: {first_line(error)}") from error
        self._module = quantized(self._module, settings["quantization"], device, torch)
        self.effective: dict[str, Any] = {"engine": "packed", "padding": "none"}
        self.first_token_only = True

    def described(self, loaded: LoadedModel) -> LoadedModel:
        """The same model, with the rebuilt module in place of the original."""
        self._module.config = loaded.model.config
        return LoadedModel(self._module, loaded.tokenising, loaded.notes, loaded.parameters, self._kernels)

    def inputs(self, tokens: Tokens, work: Work) -> Pack:
        if tokens.type_ids is not None:
            raise Unsupported("engine packed knows texts of one segment only")
        lengths = [len(ids) for ids in tokens.ids]
        work.computed_tokens += sum(lengths)
        work.rectangles.extend((1, length) for length in lengths)
        return self.pack(tokens.ids, lengths)

    def pack(self, rows: Sequence[Sequence[int]], lengths: Sequence[int]) -> Pack:
        tokens, texts = sum(lengths), len(lengths)
        bounds = [0, *itertools.accumulate(lengths)]
        # One block for everything of a batch: one copy to a card.
        on_card = self._device != "cpu"
        block = torch.empty(2 * tokens + 2 * (texts + 1), dtype=torch.int64, pin_memory=on_card)
        array = block.numpy()
        array[:tokens] = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=tokens)
        first = self._first_position
        np.concatenate([np.arange(first, first + length) for length in lengths], out=array[tokens : 2 * tokens])
        array[2 * tokens : -(texts + 1)] = bounds
        array[-(texts + 1) :] = range(texts + 1)
        if on_card:
            block = block.to(self._device, non_blocking=True)
        starts, numbers = block[2 * tokens : -(texts + 1)], block[-(texts + 1) :]
        return Pack(
            block[:tokens], block[tokens : 2 * tokens], starts[:-1], bounds,
            starts.int() if self._with_numbers else None, numbers.int() if self._with_numbers else None,
        )  # fmt: skip

    def shape(self, inputs: Pack) -> tuple[object, ...]:
        """Number of texts: nothing is made for the number of tokens, in which every batch differs."""
        return (len(inputs.bounds) - 1, "packed")

    @property
    def device(self) -> str:
        """Where the packs lie."""
        return self._device

    def logits(self, inputs: Pack) -> Tensor:
        result: Tensor = self._module(inputs)
        return result


class PackedClassifier(nn.Module):
    """Encoder and head of a BERT-like classifier over packs; weights are shared with the original."""

    def __init__(self, model: Any, family: str, attend: Attend) -> None:
        super().__init__()
        base = getattr(model, model.base_model_prefix)
        config = model.config
        if config.hidden_act != "gelu":
            raise Unsupported(f"engine packed knows the activation gelu, not {config.hidden_act!r}")
        if getattr(config, "is_decoder", False) or getattr(config, "position_embedding_type", "absolute") != "absolute":
            raise Unsupported("engine packed knows encoders with absolute positions only")
        embeddings = base.embeddings
        self.words = embeddings.word_embeddings
        # Every text is segment 0: its vector is added to the positions once and for all.
        segment: Tensor = embeddings.token_type_embeddings.weight[0]
        self.positions = nn.Parameter(embeddings.position_embeddings.weight + segment, requires_grad=False)
        self.norm = embeddings.LayerNorm
        heads: int = config.num_attention_heads
        self.layers = nn.ModuleList(PackedLayer(layer, heads, attend) for layer in base.encoder.layer)
        if family == "bert":
            self.dense, self.out = base.pooler.dense, model.classifier
        else:
            self.dense, self.out = model.classifier.dense, model.classifier.out_proj

    def forward(self, pack: Pack) -> Tensor:
        hidden = self.norm(self.words(pack.ids) + functional.embedding(pack.positions, self.positions))
        for layer in self.layers[:-1]:
            hidden = layer(hidden, pack)
        last = self.layers[-1]
        assert isinstance(last, PackedLayer)
        first = last.first_tokens(hidden, pack)
        logits: Tensor = self.out(torch.tanh(self.dense(first)))
        return logits


class PackedLayer(nn.Module):
    """One encoder layer. Query, key and value are one matrix product."""

    def __init__(self, layer: Any, heads: int, attend: Attend) -> None:
        super().__init__()
        self.attend = attend
        parts = (layer.attention.self.query, layer.attention.self.key, layer.attention.self.value)
        width = parts[0].in_features
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, dtype=parts[0].weight.dtype, device=parts[0].weight.device)
        self.qkv.weight = nn.Parameter(torch.cat([part.weight for part in parts]), requires_grad=False)
        self.qkv.bias = nn.Parameter(torch.cat([part.bias for part in parts]), requires_grad=False)
        self.attended = layer.attention.output.dense
        self.norm_attended = layer.attention.output.LayerNorm
        self.wide = layer.intermediate.dense
        self.narrow = layer.output.dense
        self.norm = layer.output.LayerNorm

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        return self._rest(hidden, self.attend(self._heads(hidden), pack, False))

    def first_tokens(self, hidden: Tensor, pack: Pack) -> Tensor:
        """Only the first token of each text: it looks at all tokens of its text, nothing looks at the others."""
        return self._rest(hidden[pack.starts], self.attend(self._heads(hidden), pack, True))

    def _heads(self, hidden: Tensor) -> Tensor:
        """Query, key, value of shape (tokens, 3, heads, width of a head)."""
        tokens, width = hidden.shape
        heads: Tensor = self.qkv(hidden).view(tokens, 3, self.heads, width // self.heads)
        return heads

    def _rest(self, hidden: Tensor, context: Tensor) -> Tensor:
        attended = self.norm_attended(self.attended(context) + hidden)
        result: Tensor = self.norm(self.narrow(functional.gelu(self.wide(attended))) + attended)
        return result


def _compare(forward: PackedForward, model: Any, precision: str) -> None:
    """Packed against the model itself on a few made-up texts: a rebuilt model that differs is not used."""
    generator = np.random.default_rng(0)
    vocabulary = model.config.vocab_size
    rows = [(generator.integers(5, vocabulary, length)).tolist() for length in _PROBE_LENGTHS]
    with torch.inference_mode():
        packed = forward.logits(forward.pack(rows, [len(row) for row in rows])).float()
        wanted = torch.cat([model(input_ids=torch.tensor([row], device=forward.device)).logits for row in rows]).float()
    difference = float((packed - wanted).abs().max())
    # Rounding grows with the outputs: heads of trained models give 10 and more.
    if not difference <= _TOLERANCE[precision] * max(1.0, float(wanted.abs().max())):
        raise Unsupported(f"engine packed differs from this model by {difference:.2g} in its outputs: not used")
