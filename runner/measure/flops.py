"""Floating-point operations of a forward pass, and what share of the device's matrix rate they used.

Only matrix products are counted (two operations per multiply-add), the field's convention. `real` is
the work that the texts need without padding; `executed` is what the engine really computed.
"""

from __future__ import annotations

import timeit
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runner.measure.oom import memory_evidence

_ENCODERS = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert")
_LEAST_SIDE, _MOST_SIDE = 1024, 16384
_LONG_ENOUGH_SECONDS = 0.001
_LEAST_SECONDS = 0.5


@dataclass(frozen=True)
class EncoderShape:
    """Sizes of a BERT-like classifier, as its config names them."""

    layers: int
    width: int
    inner: int
    outputs: int

    @classmethod
    def of(cls, config: Any) -> EncoderShape | None:
        """None for a family whose layers this file does not know."""
        if config.model_type not in _ENCODERS:
            return None
        names = {
            "layers": ("num_hidden_layers", "n_layers"),
            "width": ("hidden_size", "dim"),
            "inner": ("intermediate_size", "hidden_dim"),
        }
        found = {
            key: next((getattr(config, name) for name in options if hasattr(config, name)), None)
            for key, options in names.items()
        }
        if None in found.values():
            return None
        return cls(**{key: int(value) for key, value in found.items() if value is not None}, outputs=config.num_labels)

    def forward(self, rows: int, tokens: int, *, first_token_only: bool = False) -> int:
        """Operations of one layer stack over `rows` texts of `tokens` each, and the head.

        `first_token_only`: of the last layer only keys and values of all tokens, the rest once per text.
        """
        dense = 4 * self.width * self.width + 2 * self.width * self.inner
        layer = rows * tokens * 2 * dense + rows * 4 * tokens * tokens * self.width
        head = rows * 2 * (self.width * self.width + self.width * self.outputs)
        if not first_token_only:
            return self.layers * layer + head
        projections = rows * tokens * 2 * 3 * self.width * self.width
        rest = rows * 2 * (self.width * self.width + 2 * self.width * self.inner) + rows * 4 * tokens * self.width
        return (self.layers - 1) * layer + projections + rest + head


def real_flops(shape: EncoderShape, lengths: Sequence[int]) -> int:
    """Every text by itself, no padding, nothing skipped."""
    return sum(shape.forward(1, length) for length in lengths)


def executed_flops(shape: EncoderShape, rectangles: Iterable[tuple[int, int]], *, first_token_only: bool) -> int:
    """Rectangles of tokens as they were computed: (texts, width); packed texts are rectangles of one row."""
    return sum(shape.forward(rows, width, first_token_only=first_token_only) for rows, width in rectangles)


def matrix_rate(torch: Any, device: str, dtype: Any) -> float:
    """Operations per second of square matrix products on this device, type and number of threads.

    The side doubles until one product lasts long enough that launching it costs nothing beside it (on a large card
    1024 would measure the launch); the best rate counts: it is what the device can do. Values are random: a card
    computes ones with less power, and so faster, than it ever computes data.
    """
    best, side = 0.0, _LEAST_SIDE
    while side <= _MOST_SIDE:
        try:
            seconds = _product_seconds(torch, device, dtype, side)
        except RuntimeError as error:
            if best == 0.0 or memory_evidence(error) is None:
                raise
            break  # no memory left beside the model: the sides before it count
        best = max(best, 2 * side**3 / seconds)
        if seconds >= _LONG_ENOUGH_SECONDS:
            break
        side *= 2
    return best


def _product_seconds(torch: Any, device: str, dtype: Any, side: int) -> float:
    """Seconds of one product in the fastest block; the timer waits for the device before and after each block."""
    from torch.utils.benchmark import Timer

    generator = torch.Generator(device=device).manual_seed(0)
    left, right = (torch.randn((side, side), device=device, dtype=dtype, generator=generator) for _ in range(2))
    # torch's own timer waits for a card; for a product on the CPU it would open one where a machine has it.
    own: dict[str, Any] = {"timer": timeit.default_timer} if device == "cpu" else {}
    timer = Timer(
        "torch.mm(left, right, out=out)",
        globals={"torch": torch, "left": left, "right": right, "out": torch.empty_like(left)},
        num_threads=torch.get_num_threads(),
        **own,
    )
    return float(min(timer.blocked_autorange(min_run_time=_LEAST_SECONDS).times))
