"""Attention over packed texts: per text on the CPU, one variable-length kernel on a card.

Both take query, key and value of all tokens of a batch in a row, shape (tokens, 3, heads, width of a head),
and give one row per token, or with `first` one row per text: its first token, which looks at all tokens of
its text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from runner.measure.job import Unsupported


@dataclass(frozen=True)
class Pack:
    """One batch: ids and positions of all tokens in a row, and where each text begins (and the last ends).

    `starts`: shape (texts,), on the device. `cumulative`: (texts + 1,), int32, and `texts`: 0, 1, ... texts, int32,
    both on the card (None on the CPU). `bounds` are the same numbers on the host.
    """

    ids: Tensor
    positions: Tensor
    starts: Tensor
    bounds: list[int]
    cumulative: Tensor | None = None
    texts: Tensor | None = None

    @property
    def longest(self) -> int:
        return max(stop - start for start, stop in zip(self.bounds, self.bounds[1:], strict=False))


Attend = Callable[[Tensor, Pack, bool], Tensor]


def per_text(qkv: Tensor, pack: Pack, first: bool) -> Tensor:
    """torch's scaled dot product attention, text by text."""
    query, key, value = qkv.permute(1, 2, 0, 3).unsqueeze(1)
    parts = [
        functional.scaled_dot_product_attention(
            query[:, :, start : start + 1 if first else stop], key[:, :, start:stop], value[:, :, start:stop]
        )
        for start, stop in zip(pack.bounds, pack.bounds[1:], strict=False)
    ]
    context = torch.cat(parts, dim=2)[0].transpose(0, 1)
    return context.reshape(len(context), -1)


def variable_length(kernel: Callable[..., Any]) -> Attend:
    """Attention by one kernel for all texts: `kernel(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k)`."""

    def attend(qkv: Tensor, pack: Pack, first: bool) -> Tensor:
        query, key, value = qkv.unbind(1)
        assert pack.cumulative is not None
        if first:
            assert pack.texts is not None
            context: Tensor = kernel(query[pack.starts], key, value, pack.texts, pack.cumulative, 1, pack.longest)
        else:
            context = kernel(query, key, value, pack.cumulative, pack.cumulative, pack.longest, pack.longest)
        return context.reshape(len(context), -1)

    attend.kernel = f"{kernel.__module__}.{kernel.__name__}"  # type: ignore[attr-defined] # for the manifest
    return attend


def varlen_kernel() -> Callable[..., Any]:
    """torch's own kernel (2.10 and newer), or that of the package flash-attn. Raises `Unsupported`."""
    for module, name in (("torch.nn.attention.varlen", "varlen_attn"), ("flash_attn", "flash_attn_varlen_func")):
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        return found
    raise Unsupported("packed texts on a card need torch 2.10 or newer, or the package flash-attn")
