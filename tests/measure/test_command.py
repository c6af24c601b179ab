"""Engine `command`: the user's own program under the same boundaries and id rules (M16, M19, M23, M28)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.judge.record import _device, _recompilation
from runner.measure.engines.command import program
from runner.measure.memory import RSS
from runner.measure.run import Request, measure
from runner.measure.telemetry import Conditions, with_cards
from runner.protocol.freeze import freeze
from tests.measure.light import Quiet
from tests.support.small_campaign import PROTOCOL, make_campaign

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import csv, json, os, sys, time
settings = json.loads(os.environ["RUNNER_SETTINGS"])
own = {key: value for key, value in settings.items() if key not in ("engine", "extra")} | {"threads": 1}
{before}
print(json.dumps({"ready": True, "effective": own}), flush=True)
assert sys.stdin.readline() == "go\\n"
rows = list(csv.DictReader(open(os.environ["RUNNER_CORPUS"], encoding="utf-8", newline="")))
found = [(row["id"], "pos" if number % 2 else "neg", 0.75) for number, row in enumerate(rows)]
time.sleep(0.2)
{after}
with open(os.environ["RUNNER_PREDICTIONS"], "w", encoding="utf-8", newline="") as stream:
    csv.writer(stream).writerows([("id", "label", "score"), *found])
print("done", flush=True)
"""


def frozen_with(tmp_path: Path, before: str = "", after: str = "") -> Campaign:
    program = tmp_path / "mine.py"
    program.write_text(PROGRAM.replace("{before}", before).replace("{after}", after), encoding="utf-8")
    head, _, _ = PROTOCOL.partition("[[series]]")
    command = json.dumps(f"{sys.executable} {program}")
    protocol = head + (
        f'[[variant]]\nid = "mine"\n[variant.settings]\nengine = "command"\nextra = {{ command = {command} }}\n'
    )
    campaign = make_campaign(tmp_path / "campaign", protocol=protocol)
    campaign.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    freeze(campaign)
    return campaign


def attempt_with(tmp_path: Path, before: str = "", after: str = "") -> tuple[Campaign, Attempt]:
    campaign = frozen_with(tmp_path, before, after)
    measure(campaign, Request(gpu="cpu", passes=1), Quiet())
    (row,) = read_attempts(campaign)
    return campaign, row


def test_m19_only_what_lies_between_go_and_done_is_the_pass(tmp_path: Path) -> None:
    campaign, row = attempt_with(tmp_path, before="time.sleep(1.0)  # loading")
    assert row.status is Status.COMPLETED, row.error
    assert row.pass_seconds is not None and 0.2 <= row.pass_seconds < 1.0
    assert row.effective is not None and row.requested.differences(row.effective) == ()
    assert row.predictions is not None
    table = pq.read_table(campaign.inside(row.predictions.path))
    assert table.column("id").to_pylist()[:2] == ["d00", "d01"]
    assert (table.num_rows, row.completed_documents) == (10, 10)
    assert any(peak.bytes and "from outside" in peak.scope for peak in row.memory)
    assert not [path for path in campaign.journals.iterdir() if path.name.startswith(".")]


def test_m24_the_whole_life_of_an_attempt_counts_its_program_and_says_so(tmp_path: Path) -> None:
    """The kernel's `ru_maxrss` of a process that is over is the largest of it and of its children."""
    campaign = frozen_with(tmp_path, before="held = bytearray(b'x') * (900 << 20)")
    code = (  # a process as small as the runner: this one may have held more than the program
        "import pathlib, sys; from runner.evidence.campaign import Campaign; "
        "from runner.measure.run import Request, measure; from tests.measure.light import Quiet; "
        "measure(Campaign(pathlib.Path(sys.argv[1])), Request(gpu='cpu', passes=1), Quiet())"
    )
    subprocess.run([sys.executable, "-c", code, str(campaign.root)], cwd=ROOT, check=True, timeout=120)
    (row,) = read_attempts(campaign)
    (whole,) = [peak for peak in row.memory if peak.counter == "ru_maxrss"]
    assert whole.bytes is not None and whole.bytes > 900 << 20
    assert "the largest of the attempt's processes" in whole.scope and "only" not in whole.scope


def test_m28_wrong_ids_are_kept_for_the_judge(tmp_path: Path) -> None:
    campaign, row = attempt_with(tmp_path, after='found = [*found[:-1], ("stranger", "pos", 0.5)]')
    assert (row.status, row.completed_documents) == (Status.FAILED, 9)
    assert row.predictions is not None and row.predictions_partial
    assert "stranger" in pq.read_table(campaign.inside(row.predictions.path)).column("id").to_pylist()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("sys.exit(4)", "", "before it was ready"),
        ("", "os.kill(os.getpid(), 9)", "before it was done"),
        ("print('hello', flush=True)", "", "first line must be"),
        ("", "print('done', flush=True); sys.exit()", "wrote no predictions"),
    ],
)
def test_m23_a_program_that_breaks_off_leaves_its_row(tmp_path: Path, before: str, after: str, words: str) -> None:
    _, row = attempt_with(tmp_path, before, after)
    assert row.status is Status.FAILED
    assert row.error is not None and words in row.error.message
    assert row.pass_seconds is None


def test_what_the_program_does_not_say_is_unknown_and_so_a_difference(tmp_path: Path) -> None:
    _, row = attempt_with(tmp_path, before="own = {}")
    assert row.status is Status.COMPLETED
    assert row.effective is not None
    assert "precision requested fp32, used unknown" in row.requested.differences(row.effective)


def test_m18_what_a_program_compiles_is_not_observed_and_never_zero(tmp_path: Path) -> None:
    """Without `compile` there is nothing to count; a program that is declared to compile cannot be assessed."""
    _, row = attempt_with(tmp_path)
    assert (row.recompilations, row.recompilations_reason) == (None, "not observed")
    check = _recompilation(row)
    assert (check.status, check.reason) == ("passed", "nothing is compiled (not observed)")
    compiled = row.model_copy(update={"requested": row.requested.model_copy(update={"compile": "default"})})
    assert _recompilation(compiled).status == "not assessable"


def test_m9_the_cards_of_a_program_are_named_and_its_memory_there_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """M11: a manifest without a card would be of another machine; no number is not zero bytes."""
    from runner.evidence.attempt import MemoryPeak
    from runner.evidence.manifest import Gpu
    from runner.measure import command_worker

    card = {"index": 0, "name": "NVIDIA B200", "memory_bytes": 1, "uuid_sha256": "ab", "compute_capability": "10.0"}
    monkeypatch.setattr(command_worker, "ask_torch", lambda: {"gpus": [card], "problem": None})
    assert [Gpu(**gpu).name for gpu in command_worker._facts("cuda")["gpus"]] == ["NVIDIA B200"]
    (peak,) = (MemoryPeak(**peak) for peak in command_worker._unknown_peaks("cuda"))
    assert peak.bytes is None and peak.reason
    monkeypatch.setattr(command_worker, "ask_torch", lambda: "torch could not be started")
    found = command_worker._facts("cuda")
    assert (found["gpus"], found["reasons"]["gpus"]) == ([], "torch could not be started")
    assert command_worker._facts("cpu")["gpus"] == [] and command_worker._unknown_peaks("cpu") == []


def test_m11_whether_others_used_the_card_of_a_program_is_unknown_and_never_called_not_shared(tmp_path: Path) -> None:
    """From the worker's result to the verdict: a warning in words, and the same reason in the row."""
    _, row = attempt_with(tmp_path)
    conditions = with_cards(Conditions({}, {}, None, "not read"), {"facts": {}}, on_card=True)
    assert conditions.shared is None and conditions.shared_reason == "nothing reads the processes of a card here"
    on_card = row.model_copy(
        update={"gpu_declared": "b200", "device_shared": None, "device_shared_reason": conditions.shared_reason}
    )
    check = _device(on_card)
    assert check.status == "warning" and check.reason.startswith("whether others used the device is unknown: nothing")
    assert "not shared" not in check.reason


def test_m24_a_program_that_ends_right_behind_its_answer_keeps_its_largest_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's mark is gone with the process; the counter is named for what it is."""
    from runner.measure.engines.command import Program

    ask = Program._status
    monkeypatch.setattr(Program, "_status", lambda own, name: None if name == "VmHWM" else ask(own, name))
    command = f"{sys.executable} -c \"print('{{}}'); input(); print('done')\"".replace("{}", '{\\"ready\\": true}')
    from tests.measure.test_engines import job_for

    job = job_for(tmp_path, extra={"command": command})
    with program(job, tmp_path / "out.csv") as running:
        running.effective(job.settings)
        done = running.run(0.05)
    assert (done.counter, done.peak_bytes) == (RSS, done.timeline.largest(RSS))
    assert done.peak_bytes is not None and done.peak_bytes > 1 << 20
