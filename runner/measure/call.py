"""One call of `measure`: what was asked for, what is shown meanwhile, what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

from runner.evidence.attempt import Attempt
from runner.measure.nodes import Nodes
from runner.measure.schedule import Planned


class Progress(Interface):
    """What the command line shows meanwhile."""

    def begin(self, planned: Sequence[Planned], slots: int, earlier: Sequence[Attempt]) -> None:
        """`planned` are left of all `slots` asked for; `earlier` attempts tell how long one takes."""

    def notice(self, text: str) -> None:
        """What the user may want to stop for, said before the first pass."""

    def not_here(self, problem: str, rows: int) -> None:
        """The declared device is missing; `rows` will say so."""

    def started(self, planned: Planned) -> None: ...
    def tick(self) -> None: ...
    def ended(self, attempt: Attempt) -> None: ...

    live: bool


@dataclass(frozen=True)
class Request:
    """What the user asked for; empty tuples and None mean: as the lock says."""

    gpu: str
    batches: tuple[int, ...] = ()
    series: str | None = None
    passes: int | None = None
    nodes: Nodes | None = None


@dataclass(frozen=True)
class Outcome:
    """Rows written now, slots asked for, how many of them have completed and are still to be run, warnings."""

    written: tuple[Attempt, ...]
    wanted: int
    completed: int
    left: int
    stopped_by: str | None
    warnings: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every slot has a completed pass."""
        return self.stopped_by is None and self.completed == self.wanted
