"""A worker that not even SIGKILL ends (issue 6, M22, M23): its row is written, and nothing is measured beside it.

A driver holds a process in the kernel where no signal reaches it. Here a tracer holds it: the kernel then shows its
end to nobody else, so the parent finds the same: a process that was killed and has not ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import NotAccepted
from runner.evidence.attempt import Status
from runner.evidence.store import read_attempts
from runner.measure import supervisor
from runner.measure.journal import read_journal
from tests.measure.light import light_campaign, run


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the light worker says who holds it; let go at the end."""
    monkeypatch.setattr(supervisor, "END_SECONDS", 0.5)
    path = tmp_path / "holder"
    yield path
    if path.exists():
        _let_go(path)


def _let_go(path: Path) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(path.read_text(encoding="ascii").split()[0]), signal.SIGKILL)


@pytest.mark.parametrize("process", ["fresh", "kept"])
def test_m23_a_worker_that_cannot_be_ended_has_its_row_and_nothing_is_measured_beside_it(
    tmp_path: Path, holder: Path, process: str
) -> None:
    own = {4: {"do": "held", "at": 4, "holder": str(holder)}}
    campaign = light_campaign(tmp_path / "c", batches=(1, 4), passes=2, timeout=3, process=process, own=own)
    start = time.monotonic()
    with pytest.raises(NotAccepted) as refused:
        run(campaign)
    if holder.read_text(encoding="ascii").split()[1] != "0":
        pytest.skip("this system lets no process trace another")
    assert time.monotonic() - start < 30
    first, held = read_attempts(campaign)  # the other two slots stay open
    assert (first.status, held.status) == (Status.COMPLETED, Status.TIMED_OUT)
    assert held.error is not None and held.error.evidence is not None
    assert "SIGKILL did not end process" in held.error.evidence and "state Z" in held.error.evidence
    assert held.completed_documents == 4
    whole_life = next(peak for peak in held.memory if peak.counter == "ru_maxrss")
    assert whole_life.bytes is None and whole_life.reason
    assert refused.value.details == (held.error.evidence,)
    assert "restart the machine" in (refused.value.next_step or "")
    assert not [path.name for path in campaign.journals.iterdir() if path.name.startswith(".")]

    assert held.journal is not None
    pid = int(read_journal(campaign.inside(held.journal.path)).events[0]["pid"])
    _let_go(holder)
    os.waitpid(pid, 0)
    with pytest.raises(NotAccepted):
        run(campaign)  # goes on with the slots that are left, until the next one is held
    assert [row.status for row in read_attempts(campaign)][2:] == [Status.TIMED_OUT]


def test_m23_a_worker_that_closed_the_pipe_still_has_its_time_limit(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, timeout=3, do="closes", at=4)
    start = time.monotonic()
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert row.status is Status.TIMED_OUT and row.completed_documents == 4
    assert time.monotonic() - start < 30


_HOLD = """
import ctypes, pathlib, sys, time
said, wait = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1] + ".wait")
while not said.exists():
    time.sleep(0.02)
status = ctypes.CDLL(None, use_errno=True).ptrace(0x4206, int(said.read_text()), 0, 0)  # PTRACE_SEIZE
print(status, flush=True)
wait.unlink()
time.sleep(600)
"""


@pytest.mark.parametrize("then", ["complete", "exit", "hang"])
def test_m23_what_an_attempt_started_does_not_outlive_it(tmp_path: Path, then: str) -> None:
    """A process in a session of its own whose parent is gone (a rank whose launcher was killed, a daemon)."""
    said = tmp_path / "orphan"
    campaign = light_campaign(tmp_path / "c", timeout=3, do="orphan", at=4, orphan=str(said), then=then)
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    wanted = {"complete": Status.COMPLETED, "exit": Status.FAILED, "hang": Status.TIMED_OUT}
    assert row.status is wanted[then]
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.read_text(encoding="ascii")), 0)
    assert not any("SIGKILL" in note for note in row.notes)


@pytest.mark.parametrize(("then", "process"), [("complete", "fresh"), ("hang", "fresh"), ("hang", "kept")])
def test_m23_a_process_of_the_attempt_that_cannot_be_ended_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, process: str
) -> None:
    """Not the worker itself: what a driver holds of a rank or of a program may still hold the card."""
    monkeypatch.setattr(supervisor, "END_SECONDS", 0.5)
    said, wait = tmp_path / "orphan", tmp_path / "orphan.wait"
    wait.touch()
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(said)], stdout=subprocess.PIPE)
    try:
        campaign = light_campaign(
            tmp_path / "c", passes=2, timeout=3, process=process, do="orphan", at=4, orphan=str(said), then=then
        )
        with pytest.raises(NotAccepted) as refused:
            run(campaign)
        assert holder.stdout is not None
        if holder.stdout.readline() != b"0\n":
            pytest.skip("this system lets no process trace another")
    finally:
        holder.kill()
        holder.communicate()
    (row,) = read_attempts(campaign)  # the second slot stays open
    held = f"SIGKILL did not end process {said.read_text(encoding='ascii')} within 0 s (state Z"
    assert row.status is (Status.COMPLETED if then == "complete" else Status.TIMED_OUT)
    assert any(note.startswith(held) for note in row.notes)
    if row.error is not None:
        assert (row.error.evidence or "").startswith(held)
    else:
        assert row.completed_documents == 10 and row.predictions is not None, "the pass itself was whole"
    assert refused.value.details[0].startswith(held)
    whole_life = next(peak for peak in row.memory if peak.counter == "ru_maxrss")
    assert whole_life.reason != supervisor.NOT_TOLD, "the worker itself has ended"
