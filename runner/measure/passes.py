"""The measured pass: read the corpus, tokenise, transfer, infer, materialise on the host (M19).

The same function times every engine and every device. What comes out are the predictions of the
timed pass itself, with their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from runner.measure.clocks import Device, Parts, PassClock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Outputs = NDArray[np.float32]

T = TypeVar("T")


@dataclass
class Work:
    """Tokens of a pass, counted by the engine while it works.

    `rectangles`: (texts, width in tokens) as really computed. `device_seconds`: sum of the spans of all batches on
    the device, from before the first to after the last kernel of each, by its events; None on a host. `overlapping`:
    parts of the pass that ran beside others, so that busy seconds must not be added up.
    """

    lengths: list[int] = field(default_factory=list)
    computed_tokens: int = 0
    largest_batch: int = 0
    rectangles: list[tuple[int, int]] = field(default_factory=list)
    device_seconds: float | None = None
    batches: int = 0
    overlapping: tuple[str, ...] = ()


class Ledger(Protocol):
    """Takes finished documents: positions in the corpus, outputs of shape (documents, outputs)."""

    def add(self, positions: Sequence[int], outputs: Outputs) -> None: ...


class Engine(Protocol):
    """Turns texts into the model's outputs. Everything it does in `classify` is inside the pass."""

    def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
        """Every text exactly once, in any order. Counts tokens into `work`."""


@dataclass(frozen=True)
class Texts:
    """What is read from the corpus inside the pass, in file order."""

    ids: list[str]
    texts: list[str]


class Collector:
    """Ledger of a pass: keeps the outputs and appends them to the spool that survives a kill."""

    def __init__(self, spool: Ledger | None) -> None:
        self._spool = spool
        self._positions: list[int] = []
        self._outputs: list[Outputs] = []

    def add(self, positions: Sequence[int], outputs: Outputs) -> None:
        if self._spool is not None:
            self._spool.add(positions, outputs)
        self._positions.extend(positions)
        self._outputs.append(outputs)

    @property
    def completed(self) -> int:
        return len(self._positions)

    def in_order(self, documents: int) -> Outputs:
        """Outputs in corpus order; every document must have come exactly once."""
        import numpy as np

        positions = np.asarray(self._positions)
        if len(positions) != documents or not np.array_equal(np.sort(positions), np.arange(documents)):
            raise RuntimeError(f"the engine returned {len(positions)} results for {documents} documents")
        stacked = np.concatenate(self._outputs)
        ordered = np.empty_like(stacked)
        ordered[positions] = stacked
        return ordered


@dataclass(frozen=True)
class PassResult(Generic[T]):
    """Seconds of the whole pass and of its parts, its work in tokens, and what it predicted."""

    seconds: float
    part_seconds: dict[str, float]
    work: Work
    ids: list[str]
    predictions: T


def run_pass(
    read: Callable[[], Texts],
    engine: Engine,
    device: Device,
    materialise: Callable[[Outputs], T],
    spool: Ledger | None = None,
) -> PassResult[T]:
    """One complete pass, synchronised before start and stop. Errors of the engine pass through."""
    collector = Collector(spool)
    work = Work()
    parts = Parts(device.now_ns)
    clock = PassClock(device)
    with parts.busy("read"):
        corpus = read()
    engine.classify(corpus.texts, collector, parts, work)
    with parts.busy("materialise"):
        predictions = materialise(collector.in_order(len(corpus.ids)))
    seconds = clock.stop()
    return PassResult(seconds, parts.seconds(), work, corpus.ids, predictions)
