"""A further node of a campaign: starts its ranks when node 0 says so, writes no rows (M26)."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.errors import NotAccepted
from runner.evidence.attempt import Settings
from runner.evidence.campaign import Campaign
from runner.measure.devices import look_for
from runner.measure.environment import worker_environment
from runner.measure.job import Job
from runner.measure.nodes import Listener, Nodes, connect
from runner.measure.rows import verdict_on_end
from runner.measure.sources import corpus_files, corpus_source, model_source, read_ids
from runner.measure.supervisor import StopRequest, refuse_beside, run_worker
from runner.protocol.freeze import load_lock
from runner.protocol.modelfiles import check_model


def assist(campaign: Campaign, gpu: str, nodes: Nodes) -> int:
    """Take part until node 0 has finished; number of attempts. Refuses another lock or device before it joins."""
    lock = load_lock(campaign)
    model = model_source(lock, check_model(campaign, lock))
    presence = look_for(gpu, 1, campaign.tariffs)
    if presence.torch_device is None:
        raise NotAccepted(f"this node cannot take part: {presence.problem}", next_step="runner doctor")
    line = connect(nodes, lock.lock_sha256)
    attempts = 0
    with StopRequest().listening() as stop, tempfile.TemporaryDirectory(prefix="runner-node-") as folder:
        try:
            while stop.name is None:
                said = line.receive(None)
                if said.get("end"):
                    break
                if "attempt" not in said:  # the end of an attempt that had ended here already
                    continue
                attempt: Mapping[str, Any] = said["attempt"]
                files = corpus_files(lock, attempt["corpus_id"])
                documents = len(read_ids(campaign, files))
                settings = Settings.model_validate(attempt["settings"])
                name = str(Path(folder) / f"{nodes.node_rank}-{said['number']}")
                job = Job(
                    attempt_id=attempt["attempt_id"], corpus=corpus_source(campaign, files, documents), model=model,
                    settings=settings.as_json(), seed=attempt["seed"], device=presence.torch_device,
                    warm_up_inputs=attempt["warm_up_inputs"], warm_up_passes=attempt["warm_up_passes"],
                    warm_up_card_shapes=attempt["warm_up_card_shapes"],
                    warm_up_card_seconds=attempt["warm_up_card_seconds"],
                    sample_interval_seconds=attempt["sample_interval_seconds"], timed=True,
                    matrix_rate=attempt["matrix_rate"], journal=f"{name}.jsonl", results=f"{name}.results",
                    result=f"{name}.result", predictions=f"{name}.parquet", spawned_mono_ns=time.monotonic_ns(),
                    parent_pid=os.getpid(), launch=nodes.launch(said["number"]),
                )  # fmt: skip
                listener = Listener(line, said["number"])
                end = run_worker(
                    job, environment=worker_environment(os.environ, settings.threads),
                    timeout_seconds=attempt["timeout_seconds"], stop=stop, watch=listener,
                )  # fmt: skip
                if listener.gone is not None:
                    raise ConnectionError(listener.gone)
                _, error = verdict_on_end(end)
                line.send({"error": None if error is None else error.message})
                attempts += 1
                refuse_beside(end.stuck or end.left)
        except OSError as error:
            raise NotAccepted(
                f"node 0 is gone: {error}",
                next_step="look at node 0; when it measures again, start the same command here too",
            ) from None
        finally:
            line.close()
    return attempts
