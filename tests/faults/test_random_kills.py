"""Workers and parents killed at random moments: rows = attempts, nothing lost, nothing twice (M22, M23, M50).

`FAULT_KILLS=200 pytest tests/faults` is the long form; a short one runs with every test run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import AttemptStore, read_attempts
from runner.measure.journal import read_journal
from tests.measure.light import light_campaign, run

KILLS = int(os.environ.get("FAULT_KILLS", "6"))
ROOT = Path(__file__).parents[2]
PARENT = """
import pathlib, sys
from runner.evidence.campaign import Campaign
from tests.measure.light import run
run(Campaign(pathlib.Path(sys.argv[1])))
"""


def _worker(campaign: Campaign) -> int | None:
    """Process id of the running worker, from the newest journal without an end."""
    journals = sorted(campaign.journals.glob("[!.]*.jsonl")) if campaign.journals.exists() else []
    if not journals:
        return None
    state = read_journal(journals[-1])
    return None if state.ended or not state.events else int(state.events[0]["pid"])


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return False
    return True


def _check_processes(rows: Sequence[Attempt]) -> None:
    """Each process: its first attempt names it, it counts on, and nothing runs in it after a failure (issue 6)."""
    assert all(row.process is not None for row in rows)
    for before, row in pairwise(sorted(rows, key=lambda row: row.chain.index)):
        assert row.process is not None and before.process is not None
        if row.process.served_before == 0:
            assert row.process.first_attempt == row.attempt_id
        else:
            assert before.status is Status.COMPLETED
            assert row.process.first_attempt == before.process.first_attempt
            assert row.process.served_before == before.process.served_before + 1
    assert max(row.process.served_before for row in rows if row.process) > 0, "some process was used again"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("process", "wanted"), [("fresh", KILLS), ("kept", max(4, KILLS // 3))])
def test_random_kills_lose_nothing_and_double_nothing(tmp_path: Path, process: str, wanted: int) -> None:
    """Of a process for each attempt, and of one that serves them in turn (a third of the kills more)."""
    rng = random.Random(20261130)
    # A kept process has to live long enough to serve some: kills further apart, more slots.
    kept = process == "kept"
    passes, sleep, longest = (min(1000, 14 * wanted), 0.01, 5.0) if kept else (4 * wanted, 0.01, 0.8)
    campaign = light_campaign(tmp_path, documents=40, passes=passes, sleep=sleep, process=process)
    kills: Counter[str] = Counter()
    parent: subprocess.Popen[bytes] | None = None
    while sum(kills.values()) < wanted:
        if parent is None or parent.poll() is not None:
            parent = subprocess.Popen([sys.executable, "-c", PARENT, str(campaign.root)], cwd=ROOT)
            time.sleep(rng.uniform(0.3, 1.0))
        time.sleep(rng.uniform(0.0, longest))
        if rng.random() < 0.4:
            parent.kill()
            parent.wait()
            kills["parent"] += 1
        elif (worker := _worker(campaign)) is not None and _kill(worker):
            kills["worker"] += 1
    if parent is not None and parent.poll() is None:
        parent.kill()
        parent.wait()
    run(campaign, passes=1)  # nothing of the first pass is left to do: this only recovers

    rows = read_attempts(campaign)  # the chain holds
    slots = Counter(row.slot.pass_index for row in rows)
    assert set(slots.values()) == {1} and set(slots) == set(range(len(rows))), "each slot exactly once, none skipped"
    started = [
        read_journal(path).events[0]["attempt_id"] for path in campaign.journals.glob("*.jsonl") if path.stat().st_size
    ]
    assert set(started) <= {row.attempt_id for row in rows}, "every worker that ran has a row"
    statuses = Counter(row.status for row in rows)
    assert set(statuses) <= {Status.COMPLETED, Status.KILLED, Status.LOST}
    assert statuses[Status.KILLED] <= kills["worker"] and statuses[Status.LOST] <= kills["parent"] + kills["worker"] + 1
    for row in rows:
        if row.status is Status.COMPLETED:
            assert (row.completed_documents, row.predictions_partial) == (40, False)
        if row.predictions is not None:
            table = pq.read_table(campaign.inside(row.predictions.path))
            assert table.num_rows == row.completed_documents
            assert table.column("id").to_pylist() == [f"d{number:03d}" for number in range(table.num_rows)]
        else:
            assert not row.completed_documents
    if kept:
        _check_processes(rows)
    assert not [path.name for path in campaign.journals.iterdir() if path.name.startswith(".")], "no leftovers"
    assert not list(campaign.attempts.glob(".*")), "no half-written rows"
    assert AttemptStore(campaign).faults() == ()
