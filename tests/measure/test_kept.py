"""Process policy `kept`: one process serves attempts in turn, and nothing of one reaches the next (issue 6, M17, M21).

Issue 6: "other process policies are declared and the same for all. A device-side assert or OOM never taints
the next attempt." Real processes around an engine without torch; with torch: `test_kept_engines.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, PhaseName, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import AttemptStore, read_attempts
from runner.flows.contradictions import contradictions
from runner.judge.campaign import judge_campaign
from runner.judge.record import record_checks
from runner.measure import kept, supervisor
from runner.measure.journal import read_journal
from runner.protocol.freeze import freeze, load_lock
from runner.protocol.process import refuse_unkeepable
from tests.measure.light import light_campaign, run

ROOT = Path(__file__).parents[2]


def pids(campaign: Campaign) -> list[int]:
    """The process of each attempt, in the order of the rows, by its journal."""
    found = []
    for row in read_attempts(campaign):
        assert row.journal is not None
        found.append(int(read_journal(campaign.inside(row.journal.path)).events[0]["pid"]))
    return found


def served(campaign: Campaign) -> list[int]:
    return [row.process.served_before for row in read_attempts(campaign) if row.process is not None]


def running(group: int) -> list[str]:
    """Processes of this group that have not ended (one that nobody has waited for yet has)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of_group = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
            found += [path.parent.name] if int(of_group) == group and state not in "ZX" else []
    return found


def phase(row: Attempt, name: PhaseName) -> tuple[float | None, str | None]:
    (found,) = [item for item in row.phases if item.name is name]
    return found.seconds, found.reason


def test_m17_one_process_serves_all_and_each_row_says_which(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 4), passes=2, process="kept")
    assert run(campaign).complete
    first, *later = rows = read_attempts(campaign)
    assert len(set(pids(campaign))) == 1, "one process"
    assert served(campaign) == [0, 1, 2, 3]
    assert {row.process.first_attempt for row in rows if row.process} == {first.attempt_id}
    assert {row.process.started_at_utc for row in rows if row.process} == {first.started_at_utc}
    for name in (PhaseName.PROCESS_START, PhaseName.IMPORTS):
        seconds, reason = phase(first, name)
        assert seconds is not None and seconds > 0 and reason is None
        for row in later:
            assert phase(row, name) == (None, f"in the process of attempt {first.attempt_id}"), "never 0"
    for row in rows:
        assert phase(row, PhaseName.LOAD)[0] is not None and phase(row, PhaseName.WARM_UP)[0] is not None
        assert phase(row, PhaseName.COMPILE) == (None, "nothing is compiled")
        assert row.process is not None and (row.process.resident_at_start_bytes or 0) > 1 << 20
    assert AttemptStore(campaign).faults() == ()
    assert all(verdict.accepted for verdict in judge_campaign(campaign))


def test_m21_the_default_stays_fresh_and_its_rows_say_nothing_new(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2)
    run(campaign)
    assert len(set(pids(campaign))) == 2
    for path in campaign.attempts.glob("*.json"):
        assert b'"process"' not in path.read_bytes()


ENDS: dict[str, dict[str, Any]] = {
    "kill": {"do": "kill", "at": 4},
    "segfault": {"do": "segfault", "at": 4},
    "exit": {"do": "exit", "at": 4},
    "device-side assert": {"do": "raise", "at": 4},
    "out of memory": {"do": "memory", "at": 4},
    "incomplete": {"do": "skip", "at": 4},
    "unsupported": {"do": "emulated-bf16"},
    "non-finite": {"do": "nan", "at": 4},
}


@pytest.mark.parametrize("how", ENDS)
def test_re01_after_any_attempt_that_was_not_completed_the_next_gets_a_new_process(tmp_path: Path, how: str) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 4, 8), passes=2, process="kept", own={4: ENDS[how]})
    run(campaign)
    rows = read_attempts(campaign)
    # The order is 1-4-8, 4-8-1: attempts 2 and 4 fail.
    assert [row.variant_id for row in rows] == ["b1", "b4", "b8", "b4", "b8", "b1"]
    assert [row.status is Status.COMPLETED for row in rows] == [True, False, True, False, True, True]
    assert served(campaign) == [0, 1, 0, 1, 0, 1]
    used = pids(campaign)
    assert used[0] == used[1] and used[2] == used[3] and used[4] == used[5] and len(set(used)) == 3
    failed, after = rows[1], rows[2]
    assert failed.process is not None and failed.process.first_attempt == rows[0].attempt_id
    assert failed.error is not None
    assert phase(after, PhaseName.PROCESS_START)[0] is not None
    if how != "unsupported":
        assert failed.predictions_partial == (failed.predictions is not None)


def test_re01_a_timeout_ends_the_process_and_only_it(tmp_path: Path) -> None:
    campaign = light_campaign(
        tmp_path, batches=(1, 4), passes=2, process="kept", timeout=3, own={4: ENDS["kill"] | {"do": "hang"}}
    )
    run(campaign, passes=1)
    first, hung = read_attempts(campaign)
    assert (first.status, hung.status, hung.completed_documents) == (Status.COMPLETED, Status.TIMED_OUT, 4)
    assert not running(pids(campaign)[1])


@pytest.mark.parametrize(
    ("leave", "named"),
    [("folder", "working folder"), ("child", "processes"), ("thread", "threads"), ("limit", "limits")],
)
def test_m21_a_process_that_is_not_as_it_was_is_not_used_again_and_the_row_says_why(
    tmp_path: Path, leave: str, named: str
) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 4), passes=2, process="kept", own={1: {"leave": leave}})
    assert run(campaign).complete
    rows = read_attempts(campaign)  # 1-4, 4-1
    assert served(campaign) == [0, 0, 1, 2]
    assert [note for row in rows for note in row.notes if "process was ended" in note] == 2 * [
        f"the process was ended after this attempt: not as it was before: {named}"
    ]
    assert not any(running(pid) for pid in set(pids(campaign)))


@pytest.mark.parametrize("there", ["", "own "])
def test_m21_variables_that_an_attempt_sets_are_taken_back_and_its_words_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    """Each attempt adds an x to a variable, new or there already: none sees that of another.

    What the third prints stands in its row.
    """
    if there:
        monkeypatch.setenv("LEFT_BEHIND", there)
    own = {4: {"do": "exit", "at": 0}}
    campaign = light_campaign(tmp_path, batches=(1, 2, 4), passes=2, process="kept", leave="variable", own=own)
    run(campaign, passes=1)
    first, second, third = read_attempts(campaign)
    assert first.notes == second.notes == (f"variable: {there}x",)
    assert third.process is not None and third.process.served_before == 2
    assert third.notes == ("last line of the worker: giving up",)


def test_re01_a_worker_ends_itself_after_an_attempt_that_was_not_completed(tmp_path: Path) -> None:
    """Unasked, with an order still waiting; that attempt is not reported as one to go on from."""
    code = (
        "import sys\nfrom types import SimpleNamespace\nfrom runner.measure import kept\n"
        "kept.Job = SimpleNamespace(load=lambda path: SimpleNamespace(result=str(path)))\n"
        "statuses = iter(sys.argv[1:])\nkept.serve(None, lambda job, kit, life: next(statuses))\n"
    )
    read_end, write_end = os.pipe()
    worker = subprocess.Popen(
        [sys.executable, "-c", code, "completed", "failed", "completed"],
        cwd=ROOT, stdin=subprocess.PIPE, pass_fds=(write_end,),
    )  # fmt: skip
    os.close(write_end)
    assert worker.stdin is not None
    for number in range(3):
        worker.stdin.write(json.dumps({"job": str(tmp_path / str(number)), "reports": write_end}).encode() + b"\n")
    worker.stdin.close()
    with os.fdopen(read_end, "rb") as reports:  # to its end: the worker is gone
        found = reports.read()
    assert worker.wait(30) == 0
    assert found.count(b"problem") == 1


def test_me01_peaks_of_earlier_attempts_are_not_those_of_a_later_one(tmp_path: Path) -> None:
    """300 MiB while the first attempt loads and after its pass: in its own peaks, not in the second's."""
    campaign = light_campaign(
        tmp_path, batches=(1, 4), passes=2, process="kept", own={1: {"largest": 300, "later": 400}}
    )
    from_a_small_parent(campaign)
    first, second = read_attempts(campaign)
    mib = 1 << 20
    peaks = [{peak.counter: peak for peak in row.memory} for row in (first, second)]
    before = [found["VmHWM before the pass"] for found in peaks]
    assert (before[0].bytes or 0) > 300 * mib > 200 * mib > (before[1].bytes or 0) > mib
    assert "(attempts served before: 1)" in before[1].scope
    assert "(attempts served before: 1)" in peaks[1]["VmHWM"].scope
    assert (peaks[0]["ru_maxrss"].bytes or 0) > 400 * mib
    assert peaks[1]["ru_maxrss"].bytes is None
    assert peaks[1]["ru_maxrss"].reason == "it holds that of earlier attempts too: 1"


def from_a_small_parent(campaign: Campaign, before: str = "") -> None:
    """One pass, started by a process as small as the runner; this one may have held more than any light worker."""
    code = (
        f"{before}import pathlib, sys; from runner.evidence.campaign import Campaign; "
        "from tests.measure.light import run; run(Campaign(pathlib.Path(sys.argv[1])), passes=1)"
    )
    subprocess.run([sys.executable, "-c", code, str(campaign.root)], cwd=ROOT, check=True, timeout=120)


def test_me01_the_whole_life_holds_loading_although_the_mark_was_set_back(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2, largest=300)
    from_a_small_parent(campaign)
    (row,) = read_attempts(campaign)
    peaks = {peak.counter: peak for peak in row.memory}
    assert (peaks["VmHWM"].bytes or 0) < 300 << 20 < (peaks["ru_maxrss"].bytes or 0) < 800 << 20
    assert "its whole life (loading included)" in peaks["ru_maxrss"].scope


@pytest.mark.parametrize("process", ["fresh", "kept"])
def test_m24_a_whole_life_that_may_be_the_starters_own_is_null_with_its_reason(tmp_path: Path, process: str) -> None:
    """The kernel counts into a child's `ru_maxrss` what the process that started it had held until then."""
    campaign = light_campaign(tmp_path, passes=2, largest=100, process=process)
    from_a_small_parent(campaign, before="held = bytearray(b'x') * (600 << 20); del held; ")
    (row,) = read_attempts(campaign)
    (whole,) = [peak for peak in row.memory if peak.counter == "ru_maxrss"]
    assert (whole.bytes, whole.reason) == (None, supervisor.NOT_ITS_OWN)
    (timed,) = [peak for peak in row.memory if peak.counter == "VmHWM"]
    assert 0 < (timed.bytes or 0) < 600 << 20, "the pass's own peak is the worker's, and is kept"


def test_me01_where_the_mark_cannot_be_set_back_the_peak_before_is_null_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = kept.Life()
    peak = {"counter": "VmHWM before the pass", "scope": "resident memory, this worker process only", "bytes": 5}
    monkeypatch.setattr(
        kept, "reset_peak_resident", lambda: "the high-water mark could not be reset (Permission denied)"
    )
    life.begin()
    assert life.peaks([peak]) == [peak], "the first attempt has the process to itself"
    life.served = 2
    life.begin()
    (found,) = life.peaks([peak])
    assert (found["bytes"], found["reason"]) == (None, "the high-water mark could not be reset (Permission denied)")


def test_me01_a_killed_attempt_claims_no_whole_life(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, passes=2, largest=300, do="kill", at=4)
    from_a_small_parent(campaign)
    (row,) = read_attempts(campaign)
    (peak,) = row.memory
    assert peak.counter == "ru_maxrss" and "from the pass on" in peak.scope and (peak.bytes or 0) < 300 << 20


def test_m23_ctrl_c_ends_the_kept_process_and_the_slot_is_run_again(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, documents=20, passes=3, sleep=0.05, process="kept")
    code = (
        "import pathlib, sys; from runner.evidence.campaign import Campaign; from tests.measure.light import run; "
        "run(Campaign(pathlib.Path(sys.argv[1])))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(campaign.root)], cwd=ROOT)
    while len(list(campaign.attempts.glob("[!.]*.json")) if campaign.attempts.exists() else []) < 2:
        time.sleep(0.05)
    time.sleep(0.4)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(30) == 0
    interrupted = read_attempts(campaign)[-1]
    assert interrupted.status is Status.INTERRUPTED
    assert not running(pids(campaign)[-1])
    assert run(campaign).complete
    again = next(row for row in read_attempts(campaign) if row.retry_of == interrupted.attempt_id)
    assert again.process is not None and again.process.served_before == 0


def test_m22_a_process_killed_between_two_attempts_costs_none_of_them(tmp_path: Path) -> None:
    """The kept process is idle while the parent checks and writes: killed there, the next attempt gets a new one."""
    campaign = light_campaign(tmp_path, passes=2, process="kept")
    code = (
        "import os, pathlib, sys, time\n"
        "from runner.evidence.campaign import Campaign\n"
        "from runner.measure.journal import read_journal\n"
        "from runner.measure.run import Request, measure\n"
        "from tests.measure.light import WORKER, Quiet\n"
        "campaign = Campaign(pathlib.Path(sys.argv[1]))\n"
        "class Killing(Quiet):\n"
        "    def ended(self, attempt):\n"
        "        os.kill(read_journal(campaign.inside(attempt.journal.path)).events[0]['pid'], 9)\n"
        "        time.sleep(0.3)\n"
        "measure(campaign, Request(gpu='cpu'), Killing(), WORKER)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(campaign.root)], cwd=ROOT, check=True, timeout=120)
    assert [row.status for row in read_attempts(campaign)] == [Status.COMPLETED] * 2
    assert served(campaign) == [0, 0]


def test_m9_processor_seconds_are_those_of_the_attempt_alone(tmp_path: Path) -> None:
    """A busy first attempt is not taken for others' work in it, nor its seconds for the second's own."""
    campaign = light_campaign(tmp_path, passes=3, process="kept", documents=20, sleep=0.02)
    run(campaign)
    for row in read_attempts(campaign):
        cores = row.telemetry["other_cpu_cores"]
        assert isinstance(cores, float) and 0 <= cores <= (os.cpu_count() or 1) + 0.5


def test_m50_rows_of_a_process_that_contradict_each_other_are_found(tmp_path: Path) -> None:
    """A row that was dropped, a failure that was touched up, an invented first attempt: each is named."""
    campaign = light_campaign(tmp_path, passes=3, process="kept")
    run(campaign)
    rows = AttemptStore(campaign).scan()
    first, second, third = rows.attempts
    assert contradictions(campaign, rows) == ()

    def words(*attempts: Attempt) -> str:
        stored = tuple(replace(row, attempt=attempt) for row, attempt in zip(rows.rows, attempts, strict=False))
        return " | ".join(text for _, text in contradictions(campaign, replace(rows, rows=stored)))

    assert "its process had served 2 attempts, the rows show 1" in words(first, third)
    assert "which was not completed" in words(first, second.model_copy(update={"status": Status.KILLED}), third)
    assert second.process is not None
    alone = second.process.model_copy(update={"served_before": 0})
    assert "no row before it" in words(second.model_copy(update={"process": alone}))
    assert "yet it says how long that took" in words(first, second.model_copy(update={"phases": first.phases}), third)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('engine = "command"', "engine command starts its program anew"),
        ("devices = 2", "several processes are started anew"),
        ("workers = 2", "several processes are started anew"),
        ("extra = { memory_margin_mib = 100 }", "on top of what earlier attempts have left"),
        ("threads = 2", "the variants differ in threads"),
    ],
)
def test_m21_what_a_kept_process_cannot_serve_is_refused_at_the_freeze(
    tmp_path: Path, settings: str, words: str
) -> None:
    campaign = light_campaign(tmp_path, process="kept")
    lock = campaign.lock.read_bytes()
    text = campaign.protocol.read_text(encoding="utf-8")
    more = f'[[variant]]\nid = "other"\n[variant.settings]\nbatch_size = 2\n{settings}\n'
    campaign.protocol.write_text(text + more, encoding="utf-8")
    with pytest.raises(InputRefused, match=words) as refused:
        freeze(campaign)
    assert refused.value.next_step is not None and "fresh" in refused.value.next_step
    assert campaign.lock.read_bytes() == lock
    campaign.protocol.write_text((text + more).replace('"kept"', '"fresh"'), encoding="utf-8")
    assert freeze(campaign).process_policy == "fresh"


def test_m21_code_of_the_models_folder_is_refused(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, process="kept")
    text = campaign.protocol.read_text(encoding="utf-8")
    campaign.protocol.write_text(text.replace("[model]\n", "[model]\nallow_custom_code = true\n"), encoding="utf-8")
    with pytest.raises(InputRefused, match="allow_custom_code"):
        freeze(campaign)


def test_m3_variants_that_are_added_later_are_bound_by_the_policy_too(tmp_path: Path) -> None:
    """BATCHES adds variants to a frozen lock: with another number of threads they would need another process."""
    campaign = light_campaign(tmp_path, process="kept")
    lock = load_lock(campaign)
    other = lock.variants[0].model_copy(
        update={"id": "other", "settings": lock.variants[0].settings.model_copy(update={"threads": 2})}
    )
    refuse_unkeepable(lock.protocol, lock.variants)
    with pytest.raises(InputRefused, match="differ in threads"):
        refuse_unkeepable(lock.protocol, (*lock.variants, other))


def test_m3_attempts_of_two_policies_stand_under_two_locks_and_never_mix(tmp_path: Path) -> None:
    kept_campaign = light_campaign(tmp_path / "kept", passes=2, process="kept")
    fresh_campaign = light_campaign(tmp_path / "fresh", passes=2)
    run(kept_campaign)
    run(fresh_campaign)
    locks = [load_lock(campaign) for campaign in (kept_campaign, fresh_campaign)]
    assert locks[0].judgement.protocol_sha256 != locks[1].judgement.protocol_sha256
    moved = read_attempts(kept_campaign)[0]
    failed = [check.name for check in record_checks(moved, locks[1]) if check.status == "failed"]
    assert "lock" in failed and "process" in failed
    # The policy cannot be changed under attempts either (M4).
    text = fresh_campaign.protocol.read_text(encoding="utf-8")
    fresh_campaign.protocol.write_text(text.replace('process = "fresh"', 'process = "kept"'), encoding="utf-8")
    with pytest.raises(InputRefused, match=r"frozen field"):
        freeze(fresh_campaign)
