"""Start the ranks of one attempt with torchrun's own agent, and say what became of them (M26).

The worker of the attempt becomes the launcher. If one rank ends without completing its share, the agent
ends the others and the attempt has failed: one row, the finished documents of all ranks kept.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.measure.job import AttemptFailed, Job, Unsupported
from runner.measure.network import interface_of, own_address
from runner.measure.oom import OomCounters
from runner.measure.team import rank_count

LAUNCHER_PID = "RUNNER_LAUNCHER_PID"
_SIGTERM, _SIGKILL = 15, 9
_CHECK_SECONDS = 0.5
_JOIN_SECONDS = 900


def rank_file(path: str | Path, rank: int) -> Path:
    """A rank's own file beside the attempt's."""
    return Path(f"{path}.{rank}")


def launch(job: Job) -> dict[str, Any]:
    """Outcome of rank 0 with its phases, facts and notes. Raises `Unsupported`, `AttemptFailed`."""
    per_node = ranks_per_node(job)
    if job.launch is not None and job.launch.get("problem"):
        raise AttemptFailed("failed", "launch", job.launch["problem"])
    import torch.distributed as distributed

    if not distributed.is_available():
        raise Unsupported("this build of torch has no torch.distributed")
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher.api import elastic_launch

    os.environ[LAUNCHER_PID] = str(os.getpid())
    job_file = Path(job.result).with_suffix(".job")
    before = OomCounters.read()
    try:
        elastic_launch(_config(job, per_node), sys.executable)("-m", "runner.measure.rank", str(job_file))
    except ChildFailedError as error:
        raise _cause(job, error.failures, OomCounters.read().evidence_since(before)) from None
    except (RendezvousError, distributed.DistNetworkError, distributed.DistStoreError) as error:
        raise AttemptFailed("failed", "launch", f"the nodes did not come together: {error}") from None
    outcome = _outcome(job, 0)
    if outcome is None:
        if job.launch and job.launch["node_rank"]:
            return {"status": "completed", "error": None, "completed": 0}
        raise AttemptFailed("failed", "launch", "rank 0 ended without a result")
    return outcome


def ranks_per_node(job: Job) -> int:
    """Processes of this node; refuses what cannot be spread evenly."""
    ranks = rank_count(job)
    if job.settings["engine"] == "command":
        raise Unsupported("engine command starts one program: it may use several processes by itself")
    nodes = 1 if job.launch is None else int(job.launch["nnodes"])
    if ranks % nodes:
        raise Unsupported(f"{ranks} processes cannot be spread evenly over {nodes} nodes")
    return ranks // nodes


def _config(job: Job, per_node: int) -> Any:
    """torchrun's configuration: one node on its own, or the static rendezvous of several."""
    from torch.distributed.launcher.api import LaunchConfig

    common: dict[str, Any] = {"nproc_per_node": per_node, "max_restarts": 0, "monitor_interval": _CHECK_SECONDS}
    if job.launch is None:
        # Nothing of a single node needs the network.
        if sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return LaunchConfig(
            1, 1, run_id=uuid.uuid4().hex, rdzv_backend="c10d", rdzv_endpoint="localhost:0", local_addr="127.0.0.1",
            **common,
        )  # fmt: skip
    node = job.launch
    host, _, port = node["rdzv_endpoint"].rpartition(":")
    address = own_address(host, int(port))
    name = None if address is None else interface_of(address)
    if name is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    configs: dict[str, Any] = {"timeout": _JOIN_SECONDS}
    if node["rdzv_backend"] == "static":
        configs["rank"] = node["node_rank"]
    return LaunchConfig(
        node["nnodes"], node["nnodes"], run_id=node["run_id"], rdzv_backend=node["rdzv_backend"],
        rdzv_endpoint=node["rdzv_endpoint"], rdzv_configs=configs, local_addr=address,
        **common,
    )  # fmt: skip


def _cause(job: Job, failures: Mapping[int, Any], oom_evidence: str | None) -> Exception:
    """Why the ranks ended: a signal explains the errors of those that lost a partner, not the other way round."""
    for rank, failure in sorted(failures.items(), key=lambda item: item[1].timestamp):
        number = -failure.exitcode
        if number <= 0 or number == _SIGTERM:
            continue
        if number == _SIGKILL and oom_evidence:
            message = f"rank {rank} was killed by the kernel"
            return AttemptFailed("out_of_memory", "out of memory", message, oom_evidence)
        kind = "killed" if number == _SIGKILL else "crash"
        message = f"rank {rank} of {rank_count(job)} was ended by {failure.signal_name()}, cause unknown"
        evidence = f"torchrun's agent saw signal {number} and ended the other ranks"
        return AttemptFailed("killed" if number == _SIGKILL else "failed", kind, message, evidence)
    written = []
    for rank in range(rank_count(job)):
        outcome = _outcome(job, rank)
        if outcome is not None and outcome["status"] != "completed":
            # Those who say why come before those who only lost their partners.
            unclear = outcome["status"] == "failed"
            written.append((unclear, rank_file(job.result, rank).stat().st_mtime_ns, rank, outcome))
    if written:
        _, _, rank, outcome = min(written, key=lambda item: item[:3])
        error = outcome["error"]
        if outcome["status"] == "unsupported":
            return Unsupported(error["message"])
        completed = outcome["completed"] if error["kind"] == "non-finite logits" else None
        message = f"rank {rank}: {error['message']}"
        return AttemptFailed(outcome["status"], error["kind"], message, error["evidence"], completed)
    codes = ", ".join(f"rank {rank}: exit status {failure.exitcode}" for rank, failure in sorted(failures.items()))
    return AttemptFailed("failed", "crash", f"a rank ended without a result ({codes})")


def _outcome(job: Job, rank: int) -> dict[str, Any] | None:
    try:
        value = json.loads(rank_file(job.result, rank).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
