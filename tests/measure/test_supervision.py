"""Exactly one row per attempt, whatever becomes of its process (M16, M22, M23, RE-01, RE-09, MO-10)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from runner.cli.main import run as runner
from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import AttemptStore, read_attempts
from runner.evidence.verdict import Verdict
from runner.measure.journal import Journal, ResultSpool, read_journal, read_results
from runner.measure.oom import OomCounters
from runner.measure.rows import WorkFiles, verdict_on_end
from runner.measure.supervisor import ChildEnd
from tests.measure.light import light_campaign, run

CASES = Path(__file__).parents[1] / "cases"


def test_m22_completed_passes_have_rows_predictions_and_no_leftovers(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 4), passes=2)
    outcome = run(campaign)
    assert outcome.complete
    rows = read_attempts(campaign)
    assert [(row.variant_id, row.slot.pass_index) for row in rows] == [("b1", 0), ("b4", 0), ("b4", 1), ("b1", 1)]
    for row in rows:
        assert row.status is Status.COMPLETED
        assert row.pass_seconds is not None and row.pass_seconds > 0
        assert row.predictions is not None
        table = pq.read_table(campaign.inside(row.predictions.path))
        assert table.column("id").to_pylist() == [f"d{number:03d}" for number in range(10)]
        assert table.column("label").to_pylist() == ["neg", "pos"] * 5
        assert row.manifest_sha256 is not None
        assert (campaign.manifests / f"{row.manifest_sha256}.json").exists()
    assert not [path.name for path in campaign.journals.iterdir() if path.name.startswith(".")]
    assert run(campaign).written == ()


@pytest.mark.parametrize(
    ("do", "status", "completed", "words"),
    [
        ("kill", Status.KILLED, 37, "killed, cause unknown"),
        ("segfault", Status.FAILED, 37, "SIGSEGV"),
        ("exit", Status.FAILED, 37, "without a result"),
        ("raise", Status.FAILED, 37, "device-side assert"),
        ("memory", Status.OUT_OF_MEMORY, 37, "CUDA out of memory"),
        ("skip", Status.FAILED, 0, "results for"),
    ],
)
def test_re01_every_end_leaves_one_row_with_its_completed_documents(
    tmp_path: Path, do: str, status: Status, completed: int, words: str
) -> None:
    campaign = light_campaign(tmp_path, documents=100, do=do, at=37)
    outcome = run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert not outcome.complete
    assert row.status is status
    assert row.error is not None and words in row.error.message
    assert (row.expected_documents, row.pass_seconds) == (100, None)
    assert row.pass_seconds_reason
    if do != "skip":
        assert row.completed_documents == completed
        assert row.predictions is not None and row.predictions_partial and row.predictions.rows == completed
        assert pq.read_table(campaign.inside(row.predictions.path)).column("id").to_pylist()[-1] == "d036"


def test_re01_a_killed_attempt_counts_and_is_not_run_again(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=100, do="kill", at=37)
    assert len(run(campaign).written) == 2
    assert run(campaign).written == ()
    assert "out of memory" not in read_attempts(campaign)[0].dump().decode()


def test_re09_out_of_memory_in_the_sixth_batch_of_eight_leaves_forty(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, batches=(8,), documents=100, do="memory", at=40)
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert (row.status, row.completed_documents, row.pass_seconds) == (Status.OUT_OF_MEMORY, 40, None)
    assert row.requested.batch_size == 8
    assert row.predictions_partial
    assert row.error is not None and row.error.evidence == "torch raised OutOfMemoryError"


def test_re09_a_retry_with_a_smaller_batch_is_an_attempt_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RE-09: numbers of the case's file; `validate` gives 3; batch 4 is asked for by name and has its own row."""
    events = json.loads((CASES / "RE-09" / "events.json").read_text(encoding="utf-8"))
    total, batch, done = events["total"], events["batch"], events["batches_done"]
    assert events["event"] == {"batch_index": done + 1, "type": "out of memory"}
    campaign = light_campaign(tmp_path, batches=(batch, batch // 2), documents=total, do="memory", at=done * batch)
    run(campaign, passes=1, batches=(batch,))
    (row,) = read_attempts(campaign)
    assert (row.status, row.completed_documents, row.expected_documents) == (Status.OUT_OF_MEMORY, done * batch, total)
    assert row.pass_seconds is None and row.requested.batch_size == batch and row.predictions_partial
    assert row.predictions is None or row.predictions.rows == done * batch
    assert runner(["--campaign", str(campaign.root), "validate"]) == 3
    assert "0 of 1 attempts accepted" in capsys.readouterr().out
    first = row.dump()
    run(campaign, passes=1, batches=(batch // 2,))
    rows = {item.requested.batch_size: item for item in read_attempts(campaign)}
    assert set(rows) == {batch, batch // 2} and rows[batch].dump() == first
    assert rows[batch // 2].attempt_id != row.attempt_id


def test_mo10_non_finite_logits_fail_the_pass_and_name_the_ids(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=10, do="nan", at=8)
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert row.status is Status.FAILED
    assert row.error is not None and row.error.kind == "non-finite logits"
    assert "2 documents: d008, d009" in row.error.message
    assert row.completed_documents == 8
    assert row.predictions is not None and row.predictions.rows == 8
    assert pq.read_table(campaign.inside(row.predictions.path)).column("id").to_pylist()[-1] == "d007"
    assert runner(["--campaign", str(campaign.root), "validate"]) == 3
    for path in (AttemptStore(campaign).path(row.attempt_id), campaign.verdicts / f"{row.attempt_id}.json"):
        json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda word: pytest.fail(word))
    assert Verdict.load(campaign.verdicts / f"{row.attempt_id}.json").metrics == (), "no accuracy of a part"


def test_a_hanging_worker_is_ended_in_time(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, do="hang", at=4, timeout=3)
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    assert (row.status, row.completed_documents) == (Status.TIMED_OUT, 4)


def test_a_process_left_behind_by_the_worker_is_ended(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, do="fork", at=4, timeout=30)
    start = time.monotonic()
    run(campaign, passes=1)
    assert time.monotonic() - start < 20
    (row,) = read_attempts(campaign)
    assert (row.status, row.completed_documents) == (Status.FAILED, 4)
    assert row.error is not None and row.error.evidence == "exit status 8"


# ---- the parent ---------------------------------------------------------------------------------


def _measure_in_a_process(campaign: Campaign) -> subprocess.Popen[bytes]:
    code = (
        "import sys, pathlib\n"
        "from runner.evidence.campaign import Campaign\n"
        "from tests.measure.light import run\n"
        "outcome = run(Campaign(pathlib.Path(sys.argv[1])))\n"
        "sys.exit(0 if outcome.complete else 3)\n"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(campaign.root)], cwd=Path(__file__).parents[2])


def _wait_for_progress(campaign: Campaign, at_least: int = 3) -> int:
    """Process id of the worker once it has finished some documents."""
    for _ in range(400):
        for path in campaign.journals.glob(".*.results") if campaign.journals.exists() else ():
            if path.stat().st_size > 17 + 16 * at_least:
                journal = campaign.journals / (path.name[1:].removesuffix(".results") + ".jsonl")
                return int(read_journal(journal).events[0]["pid"])
        time.sleep(0.05)
    raise AssertionError("the worker made no progress")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_leaves_interrupted_and_its_slot_is_run_again(tmp_path: Path, number: signal.Signals) -> None:
    campaign = light_campaign(tmp_path, documents=60, passes=2, sleep=0.02)
    parent = _measure_in_a_process(campaign)
    worker = _wait_for_progress(campaign)
    parent.send_signal(number)
    assert parent.wait(30) == 3
    (row,) = read_attempts(campaign)
    assert row.status is Status.INTERRUPTED
    assert row.completed_documents is not None and 3 <= row.completed_documents < 60
    assert row.predictions_partial
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert run(campaign).complete
    rows = read_attempts(campaign)
    assert [item.status for item in rows] == [Status.INTERRUPTED, Status.COMPLETED, Status.COMPLETED]
    assert (rows[1].slot, rows[1].retry_of) == (row.slot, row.attempt_id)


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """`nohup runner measure` has to survive the end of the connection to a rental."""
    campaign = light_campaign(tmp_path, documents=40, passes=2, sleep=0.02)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        parent = _measure_in_a_process(campaign)
    finally:
        signal.signal(signal.SIGHUP, before)
    _wait_for_progress(campaign)
    parent.send_signal(signal.SIGHUP)
    assert parent.wait(60) == 0
    assert [row.status for row in read_attempts(campaign)] == [Status.COMPLETED, Status.COMPLETED]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_to_the_worker_leaves_killed_and_the_series_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    campaign = light_campaign(tmp_path, documents=40, passes=2, sleep=0.02)
    parent = _measure_in_a_process(campaign)
    os.kill(_wait_for_progress(campaign), number)
    assert parent.wait(60) == 3, "one slot is not completed"
    first, second = read_attempts(campaign)
    assert (first.status, second.status) == (Status.KILLED, Status.COMPLETED)
    assert first.completed_documents is not None and 3 <= first.completed_documents < 40
    assert first.error is not None and number.name in f"{first.error.message} {first.error.evidence}"
    assert run(campaign).written == (), "a killed slot is done: its row stays (M23)"


def test_a_second_measurement_at_the_same_time_is_refused_and_disturbs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = light_campaign(tmp_path, documents=40, passes=2, sleep=0.02)
    parent = _measure_in_a_process(campaign)
    _wait_for_progress(campaign)
    assert runner(["--campaign", str(tmp_path), "measure", "--gpu", "cpu"]) == 2
    assert f"another measurement is running in this campaign (process {parent.pid})" in capsys.readouterr().err
    assert parent.wait(60) == 0
    assert [row.status for row in read_attempts(campaign)] == [Status.COMPLETED, Status.COMPLETED]
    assert not (campaign.records / ".lock").exists()


def test_a_terminal_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    """The progress writes to a pipe whose reader is gone; the rows are what counts."""
    campaign = light_campaign(tmp_path, documents=10, passes=2)
    code = (
        "import sys, pathlib\nfrom runner.cli.progress import Bar\nfrom runner.evidence.campaign import Campaign\n"
        "from runner.measure.run import Request, measure\nfrom tests.measure.light import WORKER\n"
        "sys.stderr.close()\n"
        "outcome = measure(Campaign(pathlib.Path(sys.argv[1])), Request('cpu'), Bar(), WORKER)\n"
        "sys.exit(0 if outcome.complete else 3)\n"
    )
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2], stderr=write_end, check=False
    )
    os.close(write_end)
    assert done.returncode == 0
    assert len(read_attempts(campaign)) == 2


def test_re01_a_killed_parent_leaves_a_lost_row_and_no_orphan(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=60, passes=2, sleep=0.02)
    parent = _measure_in_a_process(campaign)
    worker = _wait_for_progress(campaign)
    parent.kill()
    parent.wait(30)
    for _ in range(100):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, 0)
            time.sleep(0.05)
            continue
        break
    else:
        raise AssertionError("the worker outlived its parent")
    assert read_attempts(campaign)[0].status is Status.STARTED
    run(campaign)
    rows = read_attempts(campaign)
    assert [row.status for row in rows] == [Status.LOST, Status.COMPLETED]
    assert rows[0].completed_documents is not None and 3 <= rows[0].completed_documents < 60
    assert rows[0].error is not None and "lost: no end event" in rows[0].error.message
    assert rows[0].predictions is not None and rows[0].predictions_partial
    assert len(read_attempts(campaign)) == 2


def test_re01_a_journal_without_end_is_recovered_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RE-01, offline: the case's own journal, progress 37 of 100 and no end; by the command too, exit 3."""
    campaign = light_campaign(tmp_path, documents=100)
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    store = AttemptStore(campaign)
    started = row.model_copy(
        update={
            "attempt_id": "k1",
            "chain": store.next_link(row.chain.machine_id),
            "status": Status.STARTED,
            "slot": row.slot.model_copy(update={"pass_index": 1}),
            "predictions": None,
            "journal": None,
        }
    )
    store.start(started)
    shutil.copy(CASES / "RE-01" / "journal.jsonl", WorkFiles(campaign, "k1").journal)
    for _ in range(2):
        run(campaign)
        found = {item.attempt_id: item for item in read_attempts(campaign)}
        assert len(found) == 2
        row = found["k1"]
        assert (row.status, row.completed_documents, row.expected_documents) == (Status.LOST, 37, 100)
        assert row.pass_seconds is None and row.pass_seconds_reason == "lost: no end event"
        assert row.error is not None and "out of memory" not in f"{row.error.kind} {row.error.message}"
    before = {path.name: path.read_bytes() for path in campaign.attempts.iterdir()}
    capsys.readouterr()
    assert runner(["--campaign", str(tmp_path), "measure", "--gpu", "cpu"]) == 3, "one slot has no completed pass"
    assert "Traceback" not in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in campaign.attempts.iterdir()} == before


def _lost(campaign: Campaign) -> Attempt:
    """A `started` row as a parent that was lost leaves it; its files are the caller's."""
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    store = AttemptStore(campaign)
    started = row.model_copy(
        update={
            "attempt_id": "k2",
            "chain": store.next_link(row.chain.machine_id),
            "status": Status.STARTED,
            "slot": row.slot.model_copy(update={"pass_index": 1}),
            "predictions": None,
            "journal": None,
        }
    )
    store.start(started)
    return started


def test_what_a_parent_lost_after_its_row_left_behind_is_removed(tmp_path: Path) -> None:
    """Found by killing parents 200 times: the row was final, its working files were still there."""
    campaign = light_campaign(tmp_path)
    run(campaign, passes=1)
    (row,) = read_attempts(campaign)
    files = WorkFiles(campaign, row.attempt_id)
    left = [files.results, files.result.with_suffix(".job"), files.results.with_name(f"{files.results.name}.1")]
    for path in left:
        path.write_bytes(b"left")
    run(campaign, passes=1)
    assert not [path for path in left if path.exists()]
    assert read_attempts(campaign) == (row,)


def test_re01_zeros_of_a_power_cut_are_no_finished_documents(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=10)
    files = WorkFiles(campaign, _lost(campaign).attempt_id)
    spool = ResultSpool(files.results)
    spool.add([0, 1, 2], np.array([[2, -2], [-2, 2], [2, -2]], dtype=np.float32))
    spool.close()
    with files.results.open("ab") as stream:
        stream.write(bytes(16 * 4 + 3))
    files.journal.write_bytes(b'{"event": "start", "total": 10}\n' + bytes(40) + b"\n")
    run(campaign)
    row = {item.attempt_id: item for item in read_attempts(campaign)}["k2"]
    assert (row.status, row.completed_documents) == (Status.LOST, 3)
    assert row.predictions is not None and row.predictions.rows == 3
    assert "the journal cannot be read from line 2 on" in row.notes


def test_a_worker_that_had_ended_before_its_parent_was_lost_is_not_said_to_have_no_end(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=10)
    files = WorkFiles(campaign, _lost(campaign).attempt_id)
    with contextlib.closing(Journal(files.journal)) as journal:
        journal.event("start", total=10)
        journal.event("end", status="completed", completed=10)
    run(campaign)
    row = {item.attempt_id: item for item in read_attempts(campaign)}["k2"]
    assert (row.status, row.completed_documents) == (Status.LOST, 10)
    assert row.error is not None and "its row was not written" in row.error.message


def test_a_record_that_does_not_fit_on_the_disk_leaves_no_half(tmp_path: Path) -> None:
    """A file size limit cuts a write in two, as a full disk does: what came before stays readable."""
    code = (
        "import resource, signal, sys, pathlib\nimport numpy as np\n"
        "from runner.measure.journal import Journal, ResultSpool\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "spool, journal = ResultSpool(pathlib.Path(sys.argv[1])), Journal(pathlib.Path(sys.argv[2]))\n"
        "spool.add([0], np.zeros((1, 2), np.float32))\njournal.event('start', text='x' * 20)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (120, 120))\n"
        "for write in (lambda: spool.add(range(1, 9), np.zeros((8, 2), np.float32)),\n"
        "              lambda: journal.event('more', text='y' * 200)):\n"
        "    try:\n        write()\n    except OSError as error:\n        print(error.errno)\n"
        "spool.add([1], np.ones((1, 2), np.float32))\n"
    )
    results, journal = tmp_path / "results", tmp_path / "journal.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", code, str(results), str(journal)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["27", "27"]
    positions, outputs = read_results(results)
    assert positions == [0, 1] and outputs[1].tolist() == [1.0, 1.0]
    state = read_journal(journal)
    assert [event["event"] for event in state.events] == ["start"] and state.torn_bytes == 0


# ---- evidence ------------------------------------------------------------------------------------


def _end(**changes: object) -> ChildEnd:
    values: dict[str, object] = {
        "exit_code": None,
        "signal_number": 9,
        "timed_out": False,
        "stopped_by": None,
        "elapsed_seconds": 1.0,
        "cpu_seconds": 1.0,
        "peak_rss_bytes": 1,
        "oom_evidence": None,
        "result": None,
        "stderr_tail": "",
    }
    return ChildEnd(**(values | changes))  # type: ignore[arg-type]


def test_re01_out_of_memory_needs_evidence() -> None:
    status, error = verdict_on_end(_end())
    assert (status, error.message if error else "") == (Status.KILLED, "killed, cause unknown")
    before = OomCounters(group=2, machine=5)
    evidence = OomCounters(group=3, machine=6).evidence_since(before)
    status, error = verdict_on_end(_end(oom_evidence=evidence))
    assert status is Status.OUT_OF_MEMORY
    assert error is not None and error.evidence == "the control group's counter oom_kill rose by 1 while the worker ran"
    assert OomCounters(group=2, machine=5).evidence_since(before) is None
    assert OomCounters(group=None, machine=None).evidence_since(before) is None


def test_m11_a_missing_device_gives_rows_with_both_names_and_no_numbers(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 4, 8))
    outcome = run(campaign, gpu="b200")
    assert not outcome.complete
    rows = read_attempts(campaign)
    assert [row.variant_id for row in rows] == ["b1", "b4", "b8"]
    for row in rows:
        assert row.status is Status.UNAVAILABLE
        assert row.gpu_declared == "b200"
        assert row.error is not None and "b200" in row.error.message and row.error.evidence
        assert row.device_match is not None
        assert (row.device_match.code, row.device_match.pattern) == ("no device", "NVIDIA B200")
        assert (row.pass_seconds, row.memory, row.completed_documents, row.effective) == (None, (), None, None)


def test_the_parent_uses_no_processor_while_a_worker_runs(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=50, passes=2, sleep=0.04)
    run(campaign, passes=1)
    before = time.process_time()
    outcome = run(campaign)
    used = time.process_time() - before
    assert isinstance(outcome.written[0], Attempt)
    assert used < 0.6, "waiting must block: this is setup and writing only"
