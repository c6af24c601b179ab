"""Two hosts for one attempt: two network namespaces joined by one cable (M26, M22, M4; issue 6, several machines).

Each has its own interfaces, addresses and loopback, so nothing that a node says about `localhost` or finds by the
host's name reaches the other. It is one kernel and one machine all the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("torch")

from runner.corpus.read import iter_table
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.manifest import Manifest
from runner.evidence.store import AttemptStore
from runner.measure.sources import corpus_files, read_ids
from runner.protocol.freeze import load_lock
from tests.measure.test_engines import ROOT
from tests.measure.test_several_processes import demo_campaign

pytestmark = pytest.mark.timeout(300)

_ADDRESSES = ("10.213.7.1", "10.213.7.2")
_PORT = 29510


@dataclass(frozen=True)
class Hosts:
    """Names of the two namespaces; `command` runs in one of them."""

    names: tuple[str, str]

    def command(self, host: int, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.names[host], *arguments]

    def cut(self) -> None:
        """The cable is pulled out on the side of host 1."""
        _ip("-n", self.names[1], "link", "set", "cable", "down")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    names = (f"rn-{os.getpid()}-0", f"rn-{os.getpid()}-1")
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, _ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                _ip("-n", name, "link", "set", link, "up")
        yield Hosts(names)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        pytest.skip(f"needs the right to make network namespaces: {said.strip()}")
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _measure(hosts: Hosts, folder: Path, rank: int) -> subprocess.Popen[str]:
    command = hosts.command(
        rank, sys.executable, "-m", "runner", "--campaign", str(folder), "measure", "--gpu", "cpu", "--passes", "1",
        "--nnodes", "2", "--node-rank", str(rank), "--rdzv-endpoint", f"{_ADDRESSES[0]}:{_PORT}",
    )  # fmt: skip
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _two_folders(root: Path, variant: str) -> list[Path]:
    campaign = demo_campaign(root / "zero", variant)
    shutil.copytree(campaign.root, root / "one")
    return [root / "zero", root / "one"]


def test_m26_two_hosts_share_an_attempt_over_their_own_addresses(tmp_path: Path, hosts: Hosts) -> None:
    variant = '[[variant]]\nid = "two"\nsettings = { batch_size = 4, workers = 2, threads = 1 }\n'
    folders = _two_folders(tmp_path, variant)
    started = [_measure(hosts, folder, rank) for rank, folder in enumerate(folders)]
    said = [process.communicate(timeout=250) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    campaign = Campaign(folders[0])
    (row,) = AttemptStore(campaign).read_all()
    assert (row.status, row.completed_documents) == (Status.COMPLETED, 1000)
    assert row.predictions is not None
    found = [cells[0] for _, cells in iter_table(campaign.inside(row.predictions.path), ("id",))]
    assert found == list(read_ids(campaign, corpus_files(load_lock(campaign), row.corpus_id)))
    manifest = Manifest.from_json(json.loads((campaign.manifests / f"{row.manifest_sha256}.json").read_bytes()))
    assert [node.node for node in manifest.nodes] == [0, 1]
    assert not AttemptStore(Campaign(folders[1])).read_all(), "only node 0 writes rows"


def test_m4_a_host_with_another_lock_is_refused_over_the_wire(tmp_path: Path, hosts: Hosts) -> None:
    folders = _two_folders(tmp_path, '[[variant]]\nid = "two"\nsettings = { workers = 2, threads = 1 }\n')
    other = demo_campaign(tmp_path / "other", '[[variant]]\nid = "two"\nsettings = { workers = 2, threads = 1 }\n')
    first = _measure(hosts, folders[0], 0)
    try:
        refused = _measure(hosts, other.root, 1)
        said = refused.communicate(timeout=120)
        assert refused.returncode == 2, said
        assert "the node's campaign has another lock" in said[1]
    finally:
        first.terminate()
        first.communicate(timeout=60)  # whoever waits for the others can be stopped
    assert not AttemptStore(Campaign(folders[0])).read_all(), "no attempt began"


def test_re01_a_link_that_is_lost_ends_the_attempt_in_bounded_time_with_one_row(tmp_path: Path, hosts: Hosts) -> None:
    variant = '[[variant]]\nid = "two"\nsettings = { workers = 2, threads = 1, padding = "max-length" }\n'
    folders = _two_folders(tmp_path, variant)
    started = [_measure(hosts, folder, rank) for rank, folder in enumerate(folders)]
    campaign = Campaign(folders[0])
    deadline = time.monotonic() + 120
    while not any(spool.stat().st_size > 500 for spool in campaign.journals.glob(".*.results.0")):
        assert time.monotonic() < deadline and all(process.poll() is None for process in started), [
            process.communicate(timeout=5) for process in started if process.poll() is not None
        ]
        time.sleep(0.1)
    hosts.cut()
    cut = time.monotonic()
    said = [process.communicate(timeout=250) for process in started]
    assert time.monotonic() - cut < 120, "half a minute to notice, seconds to end"
    assert [process.returncode for process in started] == [3, 3], said
    (row,) = AttemptStore(campaign).read_all()
    assert (row.status, row.pass_seconds) == (Status.FAILED, None)
    assert row.error is not None
    assert row.error.message == "the connection to node 1 was lost"
    assert row.predictions is not None and row.predictions_partial
    assert row.completed_documents == row.predictions.rows and 0 < (row.completed_documents or 0) < 1000
    assert "no further attempt is made: node 1 is gone" in said[0][1]
    assert "node 0 is gone" in said[1][1]
    assert not list(campaign.journals.glob(".*"))
