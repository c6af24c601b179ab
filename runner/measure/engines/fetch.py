"""Outputs on their way from a card: fetched when their copy is done, never waited for in between (M20).

Device events around every batch give the time that the card was really busy. Recording an event
waits for nothing; the times are read after the last batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from runner.measure.clocks import Parts
from runner.measure.passes import Ledger


class Fetch:
    """Queue of batches whose outputs are being copied to pinned host memory."""

    def __init__(self, torch: Any, ledger: Ledger, parts: Parts) -> None:
        self._torch = torch
        self._ledger = ledger
        self._parts = parts
        self._waiting: deque[tuple[list[int], Any, Any]] = deque()
        self._spans: list[tuple[Any, Any]] = []

    def run(self, positions: list[int], forward: Callable[[Any], Any], inputs: Any) -> None:
        """Hand one batch to the card and take whatever has arrived meanwhile."""
        with self._parts.busy("inference"):
            begin = self._event()
            logits = forward(inputs)
            self._spans.append((begin, self._event()))
        with self._parts.busy("transfer"):
            host = self._torch.empty(logits.shape, dtype=self._torch.float32, pin_memory=True)
            host.copy_(logits.float(), non_blocking=True)
            self._waiting.append((positions, host, self._event()))
        while self._waiting and self._waiting[0][2].query():
            self._take()

    def drain(self) -> None:
        """Wait for what is still on its way."""
        while self._waiting:
            with self._parts.busy("materialise"):
                self._waiting[0][2].synchronize()
            self._take()

    @property
    def device_seconds(self) -> float:
        """Sum of the spans of all batches; call after `drain`."""
        return float(sum(begin.elapsed_time(end) for begin, end in self._spans)) / 1000

    def _event(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _take(self) -> None:
        positions, host, _ = self._waiting.popleft()
        with self._parts.busy("materialise"):
            self._ledger.add(positions, host.numpy())
