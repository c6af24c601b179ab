"""Results from an asynchronous card: no wait per batch, all results right (M19, M20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.measure.clocks import Parts  # noqa: E402
from runner.measure.engines.fetch import Fetch  # noqa: E402


class FakeStream:
    """A card with its own clock: work finishes in order, `step` makes time go by on the card."""

    def __init__(self) -> None:
        self.done = 0
        self.queued = 0
        self.waits = 0

    class _Event:
        def __init__(self, stream: FakeStream) -> None:
            self._stream = stream
            self._at = 0

        def record(self) -> None:
            self._stream.queued += 1
            self._at = self._stream.queued

        def query(self) -> bool:
            return self._stream.done >= self._at

        def synchronize(self) -> None:
            self._stream.waits += 1
            self._stream.done = max(self._stream.done, self._at)

        def elapsed_time(self, other: FakeStream._Event) -> float:
            return float(other._at - self._at) * 500.0

    def module(self) -> Any:
        stream = self

        class Cuda:
            @staticmethod
            def Event(enable_timing: bool = False) -> FakeStream._Event:
                return FakeStream._Event(stream)

        class Torch:
            cuda = Cuda
            float32 = torch.float32

            @staticmethod
            def empty(shape: Any, dtype: Any, pin_memory: bool) -> Any:
                assert pin_memory
                return torch.empty(shape, dtype=dtype)

        return Torch


class Remember:
    def __init__(self) -> None:
        self.positions: list[int] = []
        self.rows: list[list[float]] = []

    def add(self, positions: Sequence[int], outputs: Any) -> None:
        self.positions.extend(positions)
        self.rows.extend(outputs.tolist())


def test_m20_nothing_waits_per_batch_and_the_rest_is_waited_for_once_at_the_end() -> None:
    stream, ledger = FakeStream(), Remember()
    fetch = Fetch(stream.module(), ledger, Parts(lambda: 0))
    for batch in range(4):
        fetch.run([batch], lambda inputs: inputs * 2, torch.tensor([[float(batch), 1.0]]))
        if batch == 1:
            stream.done = 3  # the first batch and its copy are ready, the second is not
    assert (stream.waits, ledger.positions) == (0, [0])
    fetch.drain()
    assert ledger.positions == [0, 1, 2, 3]
    assert ledger.rows == [[0.0, 2.0], [2.0, 2.0], [4.0, 2.0], [6.0, 2.0]]
    assert stream.waits == 3
    assert fetch.device_seconds == pytest.approx(4 * 0.5)
