"""Several processes of one attempt: who does what, together from the start mark to the stop mark (M26).

`torchrun`'s contract: RANK, WORLD_SIZE, LOCAL_RANK, GROUP_RANK (number of the node) and the address of the store
stand in the environment. The corpus is dealt out in blocks of one batch, so that batches are those of
one process; every rank reads, tokenises and infers its share, and rank 0 collects the outputs. The
barriers are part of the clock: a pass starts when the last rank is ready and ends when rank 0 has
every document on its host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from runner.measure.clocks import Device, Parts, PassClock
from runner.measure.job import AttemptFailed, Job, Unsupported, ZeroTokens
from runner.measure.oom import memory_evidence
from runner.measure.passes import Engine, Ledger, PassResult, Texts, Work, run_pass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
# The parent ends an attempt that takes too long; a barrier of its own clock would only blur the cause.
_PATIENCE = timedelta(days=7)


def rank_count(job: Job) -> int:
    """Processes that the variant asks for: workers per device times devices."""
    return (job.settings["devices"] or 1) * (job.settings["workers"] or 1)


def share(documents: int, batch_size: int, rank: int, size: int) -> list[int]:
    """Positions of one rank: every `size`-th block of one batch, in corpus order."""
    return [position for position in range(documents) if position // batch_size % size == rank]


@dataclass
class Team:
    """One rank among the others. `join` opens the process group; everything else needs it."""

    rank: int
    size: int
    local_rank: int
    node: int
    nodes: int
    backend: str = "gloo"
    pids: frozenset[int] = frozenset()
    _torch: Any = field(default=None, repr=False)
    _device_index: int | None = None

    @classmethod
    def of_environment(cls) -> Team:
        """As torchrun says it."""
        number = {name: int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
        nodes = number["WORLD_SIZE"] // number["LOCAL_WORLD_SIZE"]
        return cls(
            number["RANK"], number["WORLD_SIZE"], number["LOCAL_RANK"], int(os.environ.get("GROUP_RANK", "0")), nodes
        )

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def device(self, job: Job) -> str:
        """`cpu`, or the card of this rank: ranks of one card follow one another."""
        if job.device == "cpu":
            return "cpu"
        return f"cuda:{self.local_rank // (job.settings['workers'] or 1)}"

    def join(self, job: Job) -> None:
        """Open the group: NCCL between cards, gloo on hosts (and where ranks share a card: NCCL refuses that)."""
        import torch
        import torch.distributed

        on_cards = job.device != "cpu"
        if on_cards and (job.settings["workers"] or 1) == 1:
            self.backend = "nccl"
            self._device_index = int(self.device(job).partition(":")[2])
        # Outputs are collected on the host in any case, so there is always a gloo part.
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if self.backend == "nccl" else "gloo", timeout=_PATIENCE
        )
        self._torch = torch
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, (self.node, os.getpid()))
        self.pids = frozenset(pid for node, pid in found if node == self.node)
        self._connect()

    def _connect(self) -> None:
        """NCCL connects the cards when it is first used: now, as part of loading."""
        try:
            self.barrier()
        except self._torch.distributed.DistBackendError as error:
            if self._device_index is None or memory_evidence(error) is not None:
                raise
            last = [line.strip() for line in str(error).splitlines() if line.strip()][-1:]
            raise AttemptFailed(
                "failed", "launch",
                "the cards could not be connected (NCCL). In a container it is often the shared memory, 64 MiB with "
                f"Docker: start it with --shm-size=1g or --ipc=host. NCCL: {' '.join(last)[:300] or 'says nothing'}",
            ) from error  # fmt: skip

    def barrier(self) -> None:
        """Wait for every rank."""
        if self._device_index is None:
            self._torch.distributed.barrier()
        else:
            self._torch.distributed.barrier(device_ids=[self._device_index])
            self._torch.cuda.synchronize(self._device_index)

    def gather(self, value: Any) -> list[Any] | None:
        """Values of all ranks in order, on rank 0; None elsewhere."""
        found: list[Any] | None = [None] * self.size if self.leads else None
        self._torch.distributed.gather_object(value, found, dst=0)
        return found

    def positions(self, documents: int, batch_size: int) -> list[int]:
        """This rank's share; a rank without work would only be pretended."""
        if -(-documents // batch_size) < self.size:
            raise Unsupported(
                f"{documents} documents in batches of {batch_size} are fewer batches than the {self.size} processes"
            )
        return share(documents, batch_size, self.rank, self.size)


class TeamDevice:
    """A device whose synchronisation waits for the devices of all ranks: start and stop are barriers."""

    def __init__(self, device: Device, team: Team) -> None:
        self._device, self._team = device, team
        self.name = device.name

    def synchronize(self) -> None:
        self._device.synchronize()
        self._team.barrier()

    def now_ns(self) -> int:
        return self._device.now_ns()


class _ShareLedger:
    """Own results under their positions in the whole corpus; spooled before they count."""

    def __init__(self, positions: Sequence[int], spool: Ledger | None) -> None:
        self._positions, self._spool = positions, spool
        self.positions: list[int] = []
        self.outputs: list[NDArray[np.float32]] = []

    def add(self, positions: Sequence[int], outputs: NDArray[np.float32]) -> None:
        whole = [self._positions[at] for at in positions]
        if self._spool is not None:
            self._spool.add(whole, outputs)
        self.positions.extend(whole)
        self.outputs.append(outputs)


class _ShareEngine:
    """Classifies the share of this rank, then brings the outputs of all ranks to rank 0."""

    def __init__(self, engine: Engine, team: Team, batch_size: int, spool: Ledger | None) -> None:
        self._engine, self._team, self._batch_size, self._spool = engine, team, batch_size, spool

    def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
        import numpy as np

        positions = self._team.positions(len(texts), self._batch_size)
        own = _ShareLedger(positions, self._spool)
        try:
            self._engine.classify([texts[at] for at in positions], own, parts, work)
        except ZeroTokens as error:
            raise ZeroTokens([positions[at] for at in error.positions]) from None
        with parts.busy("materialise"):
            found = self._team.gather((own.positions, np.concatenate(own.outputs)))
            for places, outputs in found or ():
                ledger.add(places, outputs)


class _Nothing:
    """Ledger of the ranks that only send."""

    def add(self, positions: Sequence[int], outputs: NDArray[np.float32]) -> None:
        return None


def run_share(
    read: Callable[[], Texts],
    engine: Engine,
    device: Device,
    team: Team,
    batch_size: int,
    materialise: Callable[[NDArray[np.float32]], T],
    spool: Ledger | None,
) -> tuple[PassResult[T] | None, Work, dict[str, float]]:
    """One pass of all ranks: on rank 0 with the whole result; everywhere own work and busy seconds."""
    sharing = _ShareEngine(engine, team, batch_size, spool)
    together = TeamDevice(device, team)
    if team.leads:
        done = run_pass(read, sharing, together, materialise)
        return done, done.work, done.part_seconds
    work, parts = Work(), Parts(device.now_ns)
    clock = PassClock(together)
    with parts.busy("read"):
        corpus = read()
    sharing.classify(corpus.texts, _Nothing(), parts, work)
    clock.stop()
    return None, work, parts.seconds()
