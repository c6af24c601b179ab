"""Several devices and worker processes in one pass, really run with gloo (M24, M26, M22; RE-01, ME-06)."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.corpus.read import iter_table  # noqa: E402
from runner.errors import InputRefused  # noqa: E402
from runner.evidence.attempt import Settings, Status  # noqa: E402
from runner.evidence.campaign import Campaign  # noqa: E402
from runner.evidence.manifest import Manifest  # noqa: E402
from runner.evidence.store import AttemptStore  # noqa: E402
from runner.measure.devices import Lookout  # noqa: E402
from runner.measure.environment import worker_environment  # noqa: E402
from runner.measure.job import Job, Unsupported  # noqa: E402
from runner.measure.journal import read_journal  # noqa: E402
from runner.measure.launch import ranks_per_node  # noqa: E402
from runner.measure.nodes import Conductor, Nodes, connect, parse_nodes  # noqa: E402
from runner.measure.passes import Work  # noqa: E402
from runner.measure.probe import FoundDevices  # noqa: E402
from runner.measure.run import Request, measure  # noqa: E402
from runner.measure.sources import corpus_files, read_ids  # noqa: E402
from runner.measure.supervisor import ChildEnd, StopRequest, run_worker  # noqa: E402
from runner.measure.team import Team, share  # noqa: E402
from runner.measure.team_report import RankReport, joined_facts, joined_work  # noqa: E402
from runner.protocol.freeze import freeze, load_lock  # noqa: E402
from tests.measure.light import Quiet  # noqa: E402
from tests.measure.test_engines import ROOT, TEXTS, differences, job_for, rows, work  # noqa: E402
from tests.support.small_campaign import write_predictions  # noqa: E402

pytestmark = pytest.mark.timeout(300)


def corpus_of(folder: Path, copies: int = 1) -> Path:
    path = folder / "corpus.jsonl"
    lines = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(TEXTS * copies)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def supervised(job: Job, tick: Callable[[], None] | None = None) -> ChildEnd:
    with StopRequest().listening() as stop:
        return run_worker(
            replace(job, parent_pid=os.getpid()), environment=worker_environment(os.environ, 1), timeout_seconds=200,
            stop=stop, tick=tick,
        )  # fmt: skip


def test_m26_every_document_is_in_exactly_one_share_and_batches_stay_whole() -> None:
    shares = [share(23, 4, rank, 3) for rank in range(3)]
    assert sorted(position for own in shares for position in own) == list(range(23))
    assert shares[0] == [0, 1, 2, 3, 12, 13, 14, 15]
    assert shares[2] == [8, 9, 10, 11, 20, 21, 22]


def test_m26_two_processes_give_the_ids_labels_and_batches_of_one(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path)
    alone = job_for(corpus, batch_size=2)
    wanted = work(alone)
    expected = rows(alone)
    job = job_for(corpus, batch_size=2, devices=2)
    end = supervised(job)
    assert end.result is not None, end.stderr_tail
    result: dict[str, Any] = dict(end.result)
    assert result["status"] == "completed", result["error"]
    assert rows(job) == expected
    assert result["tokens"] == wanted["tokens"], "the same batches, so the same padding"
    assert differences(job, result) == ()
    effective = result["facts"]["effective"]
    assert (effective["devices"], effective["workers"]) == (2, 1)
    assert effective["extra"]["distributed_backend"] == "gloo"
    peaks = [peak for peak in result["facts"]["memory"] if peak["counter"] == "VmHWM"]  # loading stands apart (ME-01)
    assert [("rank 0" in peak["scope"], "rank 1" in peak["scope"]) for peak in peaks] == [(True, False), (False, True)]
    assert all(peak["bytes"] > 100 << 20 for peak in peaks)
    counters = {name for _, values in result["facts"]["timeline"]["samples"] for name in values}
    assert counters == {"resident", "resident:1"}
    assert any("says nothing about several cards" in note for note in result["notes"])
    assert end.cpu_seconds > 2 * result["phases"]["pass"], "processor time of all ranks counts as the attempt's own"


class Killer(Quiet):
    """Progress of a terminal; its tick kills rank 1 once it has results."""

    live = True

    def __init__(self, campaign: Campaign) -> None:
        super().__init__()
        self._campaign = campaign
        self.killed: list[int] = []

    def tick(self) -> None:
        for spool in self._campaign.journals.glob(".*.results.1"):
            if not self.killed and spool.stat().st_size > 1000:
                journal = self._campaign.journals / (spool.name.removeprefix(".").removesuffix(".results.1") + ".jsonl")
                self.killed = [event["pid"] for event in read_journal(journal).events if event.get("rank") == 1]
                os.kill(self.killed[0], signal.SIGKILL)


def demo_campaign(root: Path, variants: str) -> Campaign:
    """The embedded corpus and model, the labels as baseline, other variants."""
    protocol = root / "protocol"
    shutil.copytree(ROOT / "protocol", protocol, ignore=shutil.ignore_patterns("*.lock.json*", "baseline", "locks"))
    shutil.copy(ROOT / "tariffs.csv", root)
    campaign = Campaign(root)
    with (protocol / "corpus/final.csv").open(encoding="utf-8", newline="") as stream:
        write_predictions(protocol / "labels.parquet", [(row["id"], row["label"]) for row in csv.DictReader(stream)])
    head, _, _ = campaign.protocol.read_text(encoding="utf-8").partition("# Series:")
    baseline = '[baseline.settings]\nbatch_size = 1\nprecision = "fp32"'
    head = head.replace(baseline, '[baseline]\nfile = "labels.parquet"')
    campaign.protocol.write_text(head + variants, encoding="utf-8")
    freeze(campaign)
    return campaign


def test_re01_one_rank_killed_fails_the_attempt_once_and_keeps_what_was_finished(tmp_path: Path) -> None:
    variant = '[[variant]]\nid = "two"\nsettings = { workers = 2, threads = 1, padding = "max-length" }\n'
    campaign = demo_campaign(tmp_path, variant)
    progress = Killer(campaign)
    outcome = measure(campaign, Request(gpu="cpu", passes=1), progress)
    assert progress.killed, "rank 1 had begun its share"
    (row,) = AttemptStore(campaign).read_all()
    assert outcome.written == (row,)
    assert row.status is Status.KILLED
    assert row.error is not None
    assert row.error.message == "rank 1 of 2 was ended by SIGKILL, cause unknown"
    assert row.pass_seconds is None
    assert row.predictions is not None
    assert row.predictions_partial
    kept = [cells[0] for _, cells in iter_table(campaign.root / row.predictions.path, ("id",))]
    assert len(kept) == len(set(kept)) == row.completed_documents == row.predictions.rows
    assert 0 < len(kept) < 1000
    expected = read_ids(campaign, corpus_files(load_lock(campaign), row.corpus_id))
    assert {expected.index(name or "") % 2 for name in kept} == {0, 1}, "results of both ranks are kept"
    assert not list(campaign.journals.glob(".*")), "no file of a rank is left over"
    with pytest.raises(ProcessLookupError):
        os.kill(progress.killed[0], 0)


def test_m26_the_launcher_killed_leaves_no_rank_behind(tmp_path: Path) -> None:
    job = job_for(corpus_of(tmp_path, 400), workers=2, padding="max-length")
    pids: dict[int, int] = {}

    def kill_launcher() -> None:
        if not pids and Path(f"{job.results}.1").exists():
            events = read_journal(Path(job.journal)).events
            pids.update({event["rank"]: event["pid"] for event in events if event["event"] == "rank"})
            os.kill(next(event["pid"] for event in events if event["event"] == "start"), signal.SIGKILL)

    end = supervised(job, kill_launcher)
    assert end.signal_name == "SIGKILL"
    assert len(pids) == 2
    time.sleep(1)
    for pid in pids.values():
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(encoding="ascii")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"engine": "command", "workers": 2}, "engine command starts one program"),
        ({"devices": 3, "nodes": 2}, "3 processes cannot be spread evenly over 2 nodes"),
    ],
)
def test_m16_what_cannot_be_spread_is_unsupported(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    nodes = settings.pop("nodes", None)
    job = job_for(corpus_of(tmp_path), **settings)
    with pytest.raises(Unsupported, match=words):
        ranks_per_node(replace(job, launch=None if nodes is None else {"nnodes": nodes}))


def test_m26_a_rank_without_work_is_not_pretended() -> None:
    with pytest.raises(Unsupported, match="fewer batches than the 3 processes"):
        Team(0, 3, 0, 0, 1).positions(8, 4)


def report(rank: int, node: int = 0, **effective: Any) -> RankReport:
    lengths = [10 + position for position in share(5, 1, rank, 2)]
    facts = {
        "effective": Settings(**effective).as_json(),
        "memory": [{"device": "cuda:1", "scope": "tensors, this worker process only", "bytes": 5}],
        "timeline": {"interval_seconds": 0.05, "samples": [[0.1 * rank, {"resident": 1, "allocated:1": rank}]]},
        "cards": {"values": {"card0.power_watts_most": 100.0 + rank}, "reasons": {}, "shared": rank == 1},
        "gpus": [{"name": f"card of node {node}"}],
    }
    done = Work(lengths=lengths, computed_tokens=sum(lengths), largest_batch=1, batches=len(lengths), device_seconds=1)
    return RankReport(
        rank, node, f"cuda:{rank}", done, {"inference": 1.0}, facts, 0, None, 1e9, {"machine_id": f"m{node}"}
    )


def test_m26_lengths_return_to_corpus_order_and_settings_must_agree() -> None:
    team = Team(0, 2, 0, 0, 1, backend="nccl")
    whole = joined_work([report(0), report(1)], 5, 1)
    assert whole.lengths == [10, 11, 12, 13, 14]
    assert whole.computed_tokens == 60
    assert whole.device_seconds == 1
    facts = joined_facts([report(0, threads=1), report(1, threads=2)], team, {"devices": 2, "workers": 1})
    assert facts["effective"]["threads"] is None, "ranks that differ have no one value"
    assert facts["effective"]["devices"] == 2
    assert facts["cards"]["values"] == {"card0.power_watts_most": 100.0, "card1.power_watts_most": 101.0}
    assert facts["cards"]["shared"] is True
    assert facts["timeline"]["samples"][1][1] == {"resident:1": 1, "allocated:1": 1}
    assert "nodes" not in facts


def test_m9_the_report_holds_every_node() -> None:
    team = Team(0, 2, 0, 0, 2, backend="nccl")
    facts = joined_facts([report(0), report(1, node=1)], team, {"devices": 2, "workers": 1})
    assert [(node["node"], node["machine_id"]) for node in facts["nodes"]] == [(0, "m0"), (1, "m1")]
    assert [gpu["name"] for gpu in facts["gpus"]] == ["card of node 0", "card of node 1"]
    assert [peak["device"] for peak in facts["memory"]] == ["node0 cuda:1", "node1 cuda:1"]
    assert facts["effective"]["extra"]["nodes"] == 2


def test_m26_two_nodes_share_an_attempt_and_the_manifest_holds_both(tmp_path: Path) -> None:
    """Two `runner measure` of two folders on this machine, torchrun's static rendezvous between them."""
    variant = '[[variant]]\nid = "two"\nsettings = { batch_size = 4, workers = 2, threads = 1 }\n'
    campaign = demo_campaign(tmp_path / "zero", variant)
    shutil.copytree(campaign.root, tmp_path / "one")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "runner", "--campaign"]
    options = ["measure", "--gpu", "cpu", "--passes", "1", "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    folders = [tmp_path / "zero", tmp_path / "one"]
    started = [
        subprocess.Popen([*command, str(folder), *options, "--node-rank", str(rank)], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for rank, folder in enumerate(folders)
    ]  # fmt: skip
    said = [process.communicate(timeout=200) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert "took part in 1 attempts" in said[1][0]
    (row,) = AttemptStore(campaign).read_all()
    assert (row.status, row.completed_documents) == (Status.COMPLETED, 1000)
    assert not AttemptStore(Campaign(tmp_path / "one")).read_all(), "only node 0 writes rows"
    assert row.effective is not None
    assert row.effective.extra["nodes"] == 2
    assert row.requested.differences(row.effective) == ()
    manifest = Manifest.from_json(json.loads((campaign.manifests / f"{row.manifest_sha256}.json").read_bytes()))
    assert [node.node for node in manifest.nodes] == [0, 1]
    assert all(node.packages["torch"] for node in manifest.nodes)
    timed = [peak.device for peak in row.memory if peak.counter == "VmHWM"]
    assert timed == ["node0 cpu", "node1 cpu"], "each node's pass; loading stands apart (ME-01)"


def test_m4_a_node_with_another_lock_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    zero, one = Nodes(2, 0, "127.0.0.1", port), Nodes(2, 1, "127.0.0.1", port)
    refused: list[BaseException | None] = []

    def come() -> None:
        with pytest.raises(InputRefused, match="the node's campaign has another lock"):
            connect(one, "b" * 64, 10)
        refused.append(None)
        connect(one, "a" * 64, 10).close()

    thread = threading.Thread(target=come)
    thread.start()
    conductor = Conductor(zero, "a" * 64, 20)
    thread.join()
    assert refused == [None]
    job = conductor.spread(job_for(corpus_of(tmp_path), workers=2), "c", 10)
    job = conductor.spread(job, "c", 10)
    assert job.launch is not None
    assert job.launch["problem"] == "node 1 is gone"
    conductor.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((2, 2, "h:1", "static"), "from 0 to nnodes - 1"),
        ((2, 0, None, "static"), "need the address of node 0"),
        ((2, 0, "h:port", "static"), "need the address of node 0"),
        ((2, 0, "h:1", "etcd"), "one of static, c10d"),
    ],
)
def test_bad_node_options_are_refused(given: tuple[int, int, str | None, str], words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        parse_nodes(*given, "id")


def test_m26_a_variant_for_two_cards_does_not_hinder_those_for_one(tmp_path: Path) -> None:
    asked: list[None] = []

    def one_card() -> FoundDevices:
        asked.append(None)
        return FoundDevices(("NVIDIA B200",), ("a" * 64,), None)

    tariffs = tmp_path / "tariffs.csv"
    tariffs.write_text("gpu,device_pattern\nb200,NVIDIA B200\n", encoding="utf-8")
    here = Lookout("b200", tariffs, find=one_card)
    assert here.presence(1).torch_device == here.presence(None).torch_device == "cuda"
    assert here.presence(2).torch_device is None
    assert here.presence(2).problem == "declared 2 x b200, found NVIDIA B200"
    assert Lookout("b200", tariffs, nodes=2, find=one_card).presence(2).torch_device == "cuda"
    assert len(asked) == 2, "each look-out asks the machine once"
