"""Several machines in one attempt: torchrun's multi-node options, and who tells whom what to run (M26).

Node 0 has the schedule and writes the rows. The others hold a copy of the campaign under the same lock;
they connect to the port after the rendezvous port, get one line of JSON per attempt, start their part of
the ranks, and report when it has ended. The lines hold settings and names, no texts and no secrets.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.errors import InputRefused, NotAccepted
from runner.measure.job import Job
from runner.measure.network import keep_watch
from runner.measure.team import rank_count

_JOIN_SECONDS = 900.0
_RETRY_SECONDS = 1.0
_END_SECONDS = 120.0
_SAY_SECONDS = 10.0
_LONGEST_LINE = 1 << 20
_TOLD = (
    "attempt_id",
    "settings",
    "seed",
    "warm_up_inputs",
    "warm_up_passes",
    "warm_up_card_shapes",
    "warm_up_card_seconds",
    "sample_interval_seconds",
    "matrix_rate",
)
BACKENDS = ("static", "c10d")


@dataclass(frozen=True)
class Nodes:
    """torchrun's `--nnodes`, `--node-rank`, `--rdzv-endpoint`, `--rdzv-backend` and `--rdzv-id`."""

    nnodes: int
    node_rank: int
    host: str
    port: int
    backend: str = "static"
    run_id: str = "runner"

    @property
    def control_port(self) -> int:
        return self.port + 1

    def launch(self, number: int) -> dict[str, Any]:
        """What the launcher of one attempt needs; `number` keeps the rendezvous of two attempts apart."""
        return {
            "nnodes": self.nnodes, "node_rank": self.node_rank, "rdzv_endpoint": f"{self.host}:{self.port}",
            "rdzv_backend": self.backend, "run_id": f"{self.run_id}-{number}",
        }  # fmt: skip


def parse_nodes(nnodes: int, node_rank: int, endpoint: str | None, backend: str, run_id: str) -> Nodes | None:
    """None for one node; refuses what torchrun would refuse later."""
    if nnodes == 1 and node_rank == 0:
        return None
    if not 0 <= node_rank < nnodes:
        raise InputRefused(
            "the node's rank goes from 0 to nnodes - 1",
            column="--node-rank",
            value=node_rank,
            next_step="number the nodes 0, 1, ...: the first one is 0",
        )
    if backend not in BACKENDS:
        raise InputRefused(
            f"the rendezvous is one of {', '.join(BACKENDS)}",
            column="--rdzv-backend",
            value=backend,
            next_step=f"--rdzv-backend {BACKENDS[0]}",
        )
    host, _, port = (endpoint or "").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65535:
        raise InputRefused(
            "several nodes need the address of node 0",
            column="--rdzv-endpoint",
            value=endpoint or "",
            next_step="--rdzv-endpoint HOST:PORT, the same on every node",
        )
    return Nodes(nnodes, node_rank, host, int(port), backend, run_id)


class _Line:
    """One connection: a JSON object per line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = bytearray()
        keep_watch(connection)

    @property
    def descriptor(self) -> int:
        """Readable when the other side has said something, or is gone."""
        return self._connection.fileno()

    @property
    def waiting(self) -> bool:
        """Whether something that it has said is here already."""
        return b"\n" in self._read

    def send(self, value: Mapping[str, Any]) -> None:
        self._connection.sendall(json.dumps(value, allow_nan=False).encode() + b"\n")

    def receive(self, seconds: float | None) -> dict[str, Any]:
        """Raises OSError when the other side is gone or too late."""
        self._connection.settimeout(seconds)
        while not self.waiting:
            more = self._connection.recv(_LONGEST_LINE)
            if not more or len(self._read) > _LONGEST_LINE:
                raise ConnectionError("the connection ended")
            self._read += more
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        try:
            value = json.loads(line)
        except ValueError:
            raise ConnectionError("no message of this program") from None
        if not isinstance(value, dict):
            raise ConnectionError("no message of this program")
        return value

    def close(self) -> None:
        self._connection.close()


class Conductor:
    """Node 0: waits for the others once, then announces every attempt that needs them."""

    def __init__(
        self,
        nodes: Nodes,
        lock_sha256: str,
        join_seconds: float = _JOIN_SECONDS,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._nodes = nodes
        self._number = 0
        self._others: dict[int, _Line] = {}
        self._said: dict[int, dict[str, Any]] = {}  # ends that were reported while the own ranks were still running
        self.gone: dict[int, str] = {}
        try:
            server = socket.create_server((nodes.host, nodes.control_port), reuse_port=False)
        except OSError as error:
            raise NotAccepted(
                f"the nodes cannot meet at {nodes.host}:{nodes.control_port}: {error.strerror}",
                next_step="give --rdzv-endpoint an address of node 0 with two free ports: this one and the next",
            ) from None
        deadline = time.monotonic() + join_seconds
        with server:
            while len(self._others) < nodes.nnodes - 1 and not stopped():
                server.settimeout(_RETRY_SECONDS)
                try:
                    self._welcome(_Line(server.accept()[0]), lock_sha256)
                except TimeoutError:
                    if time.monotonic() < deadline:
                        continue
                    self.close()
                    raise NotAccepted(
                        f"{len(self._others) + 1} of {nodes.nnodes} nodes came",
                        next_step="start the others, then again",
                    ) from None
                except OSError:
                    continue  # whoever that was, it was no node

    def _welcome(self, line: _Line, lock_sha256: str) -> None:
        hello = line.receive(10)
        rank = hello.get("node_rank")
        problem = None
        if hello.get("lock_sha256") != lock_sha256:
            problem = "the node's campaign has another lock"
        elif not isinstance(rank, int) or not 0 < rank < self._nodes.nnodes or rank in self._others:
            problem = f"there is no place for a node of rank {rank}"
        line.send({"problem": problem})
        if problem is None and isinstance(rank, int):
            self._others[rank] = line
        else:
            line.close()

    def spread(self, job: Job, corpus_id: str, timeout_seconds: float) -> Job:
        """Tell the others to start their ranks; the job for the own launcher. One process stays on node 0."""
        if rank_count(job) == 1:
            return job
        self._number += 1
        attempt = {name: getattr(job, name) for name in _TOLD} | {
            "corpus_id": corpus_id, "timeout_seconds": timeout_seconds,
        }  # fmt: skip
        launch = self._nodes.launch(self._number)
        self._said = {}
        for rank, line in self._others.items():
            try:
                line.send({"number": self._number, "attempt": attempt})
            except OSError as error:
                launch["problem"] = f"node {rank} is gone"
                self.gone[rank] = str(error)
        return replace(job, launch=launch)

    # ---- while the own ranks run ----

    def descriptors(self) -> Sequence[int]:
        return [line.descriptor for rank, line in self._others.items() if rank not in self._said | self.gone]

    def heard(self) -> str | None:
        """Takes what the others have said; in words if one of them has failed or is gone."""
        for rank, line in self._others.items():
            if rank in self._said | self.gone or not (line.waiting or _readable(line)):
                continue
            try:
                self._said[rank] = line.receive(_SAY_SECONDS)
            except OSError as error:
                self.gone[rank] = str(error)
                return f"the connection to node {rank} was lost"
            if self._said[rank].get("error"):
                return f"node {rank} could not go on"
        return None

    # ---- after that ----

    def ended(self, job: Job, *, completed: bool) -> tuple[str, ...]:
        """Wait until the others' ranks have ended, and end them if the own part has failed; what went wrong there."""
        problems: list[str] = []
        if job.launch is None:
            return ()
        for rank, line in self._others.items():
            try:
                if rank in self.gone:
                    raise ConnectionError(self.gone[rank])
                if not completed and rank not in self._said:
                    line.send({"stop": self._number})
                said = self._said.get(rank) or line.receive(_END_SECONDS)
            except OSError as error:
                problems.append(f"node {rank} did not report its end: {error}")
                self.gone[rank] = str(error)
                continue
            if said.get("error"):
                problems.append(f"node {rank}: {str(said['error'])[:300]}")
        return tuple(problems)

    def refuse_if_gone(self) -> None:
        """Without all its nodes no further attempt is possible: its slots stay open, no row is made of it."""
        if self.gone:
            raise NotAccepted(
                f"no further attempt is made: node {min(self.gone)} is gone",
                details=tuple(f"node {rank}: {why}" for rank, why in sorted(self.gone.items())),
                next_step="start the same command again on every node: it goes on with what is missing",
            )

    def close(self) -> None:
        for line in self._others.values():
            with contextlib.suppress(OSError):
                line.send({"end": True})
            line.close()


class Listener:
    """A further node's ear for node 0 while its own ranks run."""

    def __init__(self, line: _Line, number: int) -> None:
        self._line, self._number = line, number
        self.gone: str | None = None

    def descriptors(self) -> Sequence[int]:
        return [] if self.gone else [self._line.descriptor]

    def heard(self) -> str | None:
        """In words when node 0 has ended the attempt or is gone."""
        while self.gone is None and (self._line.waiting or _readable(self._line)):
            try:
                said = self._line.receive(_SAY_SECONDS)
            except OSError as error:
                self.gone = str(error)
                return "the connection to node 0 was lost"
            if said.get("stop") == self._number:
                return "node 0 could not go on"
        return None


def _readable(line: _Line) -> bool:
    return bool(select.select([line.descriptor], [], [], 0)[0])


@contextlib.contextmanager
def conducting(
    nodes: Nodes | None, lock_sha256: str, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Conductor | None]:
    """The meeting of several nodes for the length of a `measure`; None on one node. `stopped`: it need not be waited
    for any longer."""
    conductor = None if nodes is None else Conductor(nodes, lock_sha256, stopped=stopped)
    try:
        yield conductor
    finally:
        if conductor is not None:
            conductor.close()


def connect(nodes: Nodes, lock_sha256: str, join_seconds: float = _JOIN_SECONDS) -> _Line:
    """A further node's way to node 0; tries until it is there."""
    deadline = time.monotonic() + join_seconds
    while True:
        try:
            line = _Line(socket.create_connection((nodes.host, nodes.control_port), timeout=10))
            break
        except OSError as error:
            if time.monotonic() > deadline:
                raise NotAccepted(
                    f"node 0 does not answer at {nodes.host}:{nodes.control_port}: {error}",
                    next_step="start runner measure with --node-rank 0 there",
                ) from None
            time.sleep(_RETRY_SECONDS)
    line.send({"lock_sha256": lock_sha256, "node_rank": nodes.node_rank})
    problem = line.receive(join_seconds).get("problem")
    if problem:
        line.close()
        raise InputRefused(
            f"node 0 refuses this node: {problem}",
            column="--node-rank",
            value=nodes.node_rank,
            next_step="use the same campaign folder and --nnodes on every node, and each --node-rank once",
        )
    return line
