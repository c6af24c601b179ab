"""Outputs on their way from a card: fetched when their copy is done, never waited for in between (M20).

Device events around every batch give the span from the first to the last of its kernels. Recording an
event waits for nothing; a span is read when the batch is fetched, and its events serve again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.measure.clocks import Parts
from runner.measure.passes import Ledger

if TYPE_CHECKING:
    from runner.measure.passes import Outputs


@dataclass(frozen=True)
class _Events:
    """Marks of one batch on the card: before its first kernel, after its last, after its outputs were copied."""

    begin: Any
    end: Any
    copied: Any


class Fetch:
    """Queue of batches whose outputs are being copied to pinned host memory.

    `device_seconds`: sum of the spans of all fetched batches. While the host is slower than the card, gaps between
    kernels lie inside a span: it is the time that the card needed for a batch, not the time that it was busy.
    """

    def __init__(self, torch: Any, ledger: Ledger, parts: Parts) -> None:
        self._torch = torch
        self._ledger = ledger
        self._parts = parts
        self._waiting: deque[tuple[Sequence[int], Any, _Events]] = deque()
        self._spare: list[_Events] = []
        self._refused = False  # the ledger did not take a batch: nothing more is given to it
        self.device_seconds = 0.0

    def run(self, positions: Sequence[int], forward: Callable[[Any], Any], inputs: Any) -> None:
        """Hand one batch to the card and take whatever has arrived meanwhile."""
        events = self._spare.pop() if self._spare else self._new_events()
        with self._parts.busy("inference"):
            events.begin.record()
            logits = forward(inputs)
            events.end.record()
        with self._parts.busy("transfer"):
            host = self._torch.empty(logits.shape, dtype=self._torch.float32, pin_memory=True)
            host.copy_(logits.float(), non_blocking=True)
            events.copied.record()
            self._waiting.append((positions, host, events))
        while self._waiting and self._waiting[0][2].copied.query():
            self._take()

    def drain(self) -> None:
        """Wait for what is still on its way."""
        while self._waiting:
            with self._parts.busy("materialise"):
                self._waiting[0][2].copied.synchronize()
            self._take()

    def rescue(self) -> None:
        """After an error: the batches that the card had finished before it are done and count (RE-09).

        A card that is itself in error gives nothing any more; the error that is under way says why.
        """
        if not self._refused:
            with contextlib.suppress(Exception):
                self.drain()

    def _new_events(self) -> _Events:
        event = self._torch.cuda.Event
        return _Events(event(enable_timing=True), event(enable_timing=True), event())

    def _take(self) -> None:
        positions, host, events = self._waiting.popleft()
        with self._parts.busy("materialise"):
            self.device_seconds += float(events.begin.elapsed_time(events.end)) / 1000
            self._spare.append(events)
            # A copy of its own: a pinned block that stayed in use would cost the next batch a new one, and
            # pinning memory makes the host wait for the card.
            outputs = host.numpy().copy()
            self._refused = True
            self._ledger.add(positions, outputs)
            self._refused = False


class Nowhere:
    """Ledger of a warm-up."""

    def add(self, positions: Sequence[int], outputs: Outputs) -> None:
        return None
