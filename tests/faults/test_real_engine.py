"""The real engine killed at random moments, from loading to writing: rows = attempts (M22, M23, M50, RE-01).

`FAULT_REAL_KILLS=10 pytest tests/faults` is the long form; a short one runs with every test run.
"""

from __future__ import annotations

import csv
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import AttemptStore, read_attempts
from runner.measure.journal import read_journal
from runner.protocol.freeze import freeze
from tests.support.small_campaign import PROTOCOL, make_campaign

pytest.importorskip("torch")
KILLS = int(os.environ.get("FAULT_REAL_KILLS", "2"))
ROOT = Path(__file__).parents[2]
DOCUMENTS = 200
SLOTS = 12 * KILLS + 12  # attempts of a kept process are shorter: more of them between two kills
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture(params=["fresh", "kept"])
def campaign(tmp_path: Path, request: pytest.FixtureRequest) -> Campaign:
    """The embedded model on some texts of the embedded corpus, frozen for enough passes of batch 4, by each policy."""
    with (ROOT / "protocol/corpus/final.csv").open(encoding="utf-8", newline="") as stream:
        rows = [(row["id"], row["text"], row["label"], row["stratum"]) for row in csv.DictReader(stream)]
    chosen = [*rows[: DOCUMENTS - 20], *[row for row in rows if row[3] == "long"][:20]]
    rows = list({row[0]: row for row in chosen}.values())
    head, _, _ = PROTOCOL.partition("[[series]]")
    protocol = head.replace("max_length = 128", "max_length = 512") + (
        '[[variant]]\nid = "b4"\n[variant.settings]\nbatch_size = 4\nthreads = 1\n'
        f"[measurement]\npasses_planned = {SLOTS}\npasses_most = {SLOTS}\nmin_accepted = 2\n"
        f'process = "{request.param}"\n'
    )
    made = make_campaign(tmp_path, rows=rows, protocol=protocol)
    shutil.rmtree(made.protocol_dir / "model")
    shutil.copytree(ROOT / "protocol" / "model", made.protocol_dir / "model")
    made.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    freeze(made)
    return made


def start(campaign: Campaign) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "runner", "--campaign", str(campaign.root), "measure", "--gpu", "cpu"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def running_attempt(campaign: Campaign) -> tuple[str, int] | None:
    """Journal of the attempt that runs, and its worker: a kept one has served others before."""
    journals = sorted(campaign.journals.glob("[!.]*.jsonl")) if campaign.journals.exists() else []
    state = read_journal(journals[-1]) if journals else None
    return None if state is None or state.ended or not state.events else (journals[-1].name, state.events[0]["pid"])


def length_of_the_first_attempt(campaign: Campaign) -> float:
    """Seconds from its worker's start to the next attempt: how long kills may wait on this machine."""
    first = None
    while first is None:
        time.sleep(0.02)
        first = running_attempt(campaign)
    begun = time.monotonic()
    while running_attempt(campaign) in (None, first):
        time.sleep(0.02)
    return time.monotonic() - begun


def kill(pid: int) -> bool:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return False
    return True


def test_random_kills_of_the_real_engine(campaign: Campaign) -> None:
    rng = random.Random(20261130)
    kills: Counter[str] = Counter()
    parent = start(campaign)
    longest = length_of_the_first_attempt(campaign)
    attempt = None
    while sum(kills.values()) < KILLS:
        if parent.poll() is not None:
            assert len(read_attempts(campaign)) < SLOTS, f"{kills} kills, and no slot is left to kill in"
            parent = start(campaign)
        running = running_attempt(campaign)
        if running is None or running == attempt:
            time.sleep(0.05)
            continue
        attempt = running
        time.sleep(rng.uniform(0.0, 0.9 * longest))
        if sum(kills.values()) % 3 == 2:
            parent.kill()
            parent.wait()
            kills["parent"] += 1
        elif kill(attempt[1]):
            kills["worker"] += 1
    parent.kill()
    parent.wait()
    time.sleep(0.5)
    attempt = running_attempt(campaign) or attempt  # the parent may have begun another one before it was killed
    done = start(campaign)  # recovers; what is left is stopped, it is not the point here
    while running_attempt(campaign) in (None, attempt) and done.poll() is None:
        time.sleep(0.1)
    done.terminate()
    assert done.wait(60) in (0, 3)

    rows = read_attempts(campaign)  # the chain holds
    statuses = Counter(row.status for row in rows)
    assert sum(kills.values()) == KILLS
    assert set(statuses) <= {Status.COMPLETED, Status.KILLED, Status.LOST, Status.INTERRUPTED}
    assert statuses[Status.KILLED] <= kills["worker"]
    assert statuses[Status.KILLED] + statuses[Status.LOST] >= 1
    final = Counter(row.slot.pass_index for row in rows if row.status is not Status.INTERRUPTED)
    assert set(final.values()) == {1} and set(final) == set(range(len(final))), "each slot once, none skipped"
    for row in rows:
        assert row.completed_documents is not None
        if row.status is Status.COMPLETED:
            assert row.completed_documents == row.expected_documents
        if row.predictions is not None:
            table = pq.read_table(campaign.inside(row.predictions.path))
            assert table.num_rows == row.completed_documents
            assert len(set(table.column("id").to_pylist())) == table.num_rows
    if rows[0].process is not None:
        assert max(row.process.served_before for row in rows if row.process is not None) > 0, "some process was kept"
    assert AttemptStore(campaign).faults() == ()
    assert not [path.name for path in campaign.records.rglob(".*")], "no leftovers, no lock"
