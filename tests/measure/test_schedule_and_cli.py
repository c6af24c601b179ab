"""Rotated order, resumption, blank sheet, the commands and what they show (M16, M21, M48)."""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
from pathlib import Path

import pytest

from runner.cli.main import run as runner
from runner.cli.measure import _lines
from runner.cli.progress import Bar, Lines, describe
from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, ErrorInfo, Phase, PhaseName, Settings, Slot, Status
from runner.evidence.sshsig import parse_signature
from runner.evidence.store import read_attempts
from runner.measure.batches import plan_batches
from runner.measure.environment import allowed_variables, worker_environment
from runner.measure.plan_sheet import BLANK_COLUMNS
from runner.measure.schedule import Planned, missing, refuse_unequal, schedule
from runner.protocol.freeze import freeze, load_lock
from runner.protocol.schema import LockedVariant
from tests.measure.light import light_campaign, run

VARIANTS = tuple(LockedVariant(id=f"b{size}", series="batch", settings=Settings(batch_size=size)) for size in (1, 4, 8))


def attempt_for(item: Planned, status: Status, gpu: str = "cpu") -> Attempt:
    from tests.evidence.test_attempt_record import attempt

    return attempt(
        attempt_id=f"{item.variant.id}-{item.slot.pass_index}",
        variant_id=item.variant.id,
        corpus_id=item.corpus_id,
        seed=item.seed,
        slot=item.slot,
        status=status,
        gpu_declared=gpu,
        requested=item.variant.settings,
    )


def test_m21_the_order_rotates_so_that_no_variant_is_always_first() -> None:
    planned = list(schedule(VARIANTS, ["c"], [0], 5))
    order = [item.variant.id for item in planned]
    expected = ["b1 b4 b8", "b4 b8 b1", "b8 b1 b4", "b1 b4 b8", "b4 b8 b1"]
    assert [" ".join(order[start : start + 3]) for start in range(0, 15, 3)] == expected
    assert [item.slot for item in planned[3:6]] == [Slot(pass_index=1, position=place) for place in range(3)]


def test_m27_every_seed_and_corpus_is_measured_for_every_variant() -> None:
    planned = list(schedule(VARIANTS, ["c", "d"], [0, 1], 2))
    keys = {(item.variant.id, item.corpus_id, item.seed, item.slot.pass_index) for item in planned}
    assert len(planned) == len(keys) == 3 * 2 * 2 * 2


@pytest.mark.parametrize("status", list(Status))
def test_m16_only_interrupted_and_unavailable_slots_are_run_again(status: Status) -> None:
    planned = list(schedule(VARIANTS, ["c"], [0], 1))
    left = missing(planned, [attempt_for(planned[1], status)], "cpu")
    again = status in (Status.INTERRUPTED, Status.UNAVAILABLE)
    assert [item.variant.id for item in left] == (["b1", "b4", "b8"] if again else ["b1", "b8"])
    retry = "b4-0" if status is Status.INTERRUPTED else None
    assert all(item.retry_of == (retry if item.variant.id == "b4" else None) for item in left)


def test_attempts_on_other_hardware_fill_no_slot() -> None:
    planned = list(schedule(VARIANTS, ["c"], [0], 1))
    assert len(missing(planned, [attempt_for(item, Status.COMPLETED, "b200") for item in planned], "cpu")) == 3


def test_m15_every_document_is_in_exactly_one_batch_of_the_plan() -> None:
    lengths = [5, 900, 3, 3, 40, 41, 2, 7]
    for grouping in ("none", "length-sorted", "token-budget:100"):
        plan = plan_batches(lengths, 3, grouping)
        assert sorted(position for batch in plan for position in batch) == list(range(len(lengths)))
        assert max(map(len, plan)) <= 3
    assert plan_batches(lengths, 3, "none")[0] == [0, 1, 2]
    assert plan_batches(lengths, 3, "length-sorted")[0] == [1, 5, 4]
    assert plan_batches(lengths, 3, "token-budget:100")[:2] == [[1], [5, 4]]


def test_m48_the_sheet_is_blank_until_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 4), passes=3)
    assert runner(["--campaign", str(tmp_path), "plan"]) == 0
    assert "6 planned attempts, nothing measured yet" in capsys.readouterr().out
    with (campaign.records / "plan-sheet.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["variant"] for row in rows] == ["b1", "b4", "b4", "b1", "b1", "b4"]
    assert all(row[column] == "" for row in rows for column in BLANK_COLUMNS)
    run(campaign, series="b1", passes=1)
    assert runner(["--campaign", str(tmp_path), "plan"]) == 0
    again = capsys.readouterr().out
    assert "nothing measured" not in again and "1 attempt recorded under this lock so far" in again
    assert {row["expected_ids"] for row in rows} == {"10"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu", "cpu", "--batches", "1 x"], "batches are whole numbers"),
        (["--gpu", "cpu", "--batches", "1 4", "--series", "b1"], "not both"),
        (["--gpu", "cpu", "--series", "nothing"], "no series or variant"),
        (["--gpu", "cpu", "--passes", "2000"], "allows 1 to 1000 passes"),
        (["--gpu", "../x"], "named as in tariffs.csv"),
        (["--gpu", "cpu", "--batches", "0"], "batches are whole numbers"),
    ],
)
def test_bad_requests_are_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    campaign = light_campaign(tmp_path)
    assert runner(["--campaign", str(tmp_path), "measure", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not campaign.attempts.exists()


def test_measuring_before_the_freeze_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner(["--campaign", str(tmp_path), "measure", "--gpu", "cpu"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_progress_says_what_runs_and_how_long_it_may_take(capsys: pytest.CaptureFixture[str]) -> None:
    planned = list(schedule(VARIANTS, ["c"], [0], 1))
    for progress in (Lines(), Bar()):
        progress.begin(planned, 4, [])
        progress.started(planned[0])
        row = attempt_for(planned[0], Status.COMPLETED).model_copy(
            update={"pass_seconds": 1.25, "completed_documents": 100}
        )
        progress.ended(row)
        progress.started(planned[1])
        error = ErrorInfo(kind="killed", message="killed, cause unknown")
        progress.ended(
            attempt_for(planned[1], Status.KILLED).model_copy(update={"error": error, "completed_documents": 37})
        )
        shown = capsys.readouterr().err
        assert "[1/3] cpu b1 pass 1: 1.250 s, 100 documents" in shown
        assert "1 of 4 passes were run before, 3 are left" in shown
        assert "killed after 37 of 100 documents (killed, cause unknown)" in shown
        assert "100 documents; about 0 s left" in shown, "in a log file too"
        if isinstance(progress, Bar):
            assert "0/3 b1 pass 1 time left: after the first attempt" in shown


def test_m11_a_missing_device_is_said_once_and_calmly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    light_campaign(tmp_path, batches=(1, 4, 8), passes=5)
    for _ in range(2):
        assert runner(["--campaign", str(tmp_path), "measure", "--gpu", "b200"]) == 3
        shown = capsys.readouterr()
        assert shown.err.count("declared b200, found no card") == 1
        assert "[1/3] b200 b1: device unavailable, not measured" in shown.err and "[3/3]" in shown.err
        assert "no measurement: 3 rows recorded as unavailable, 0 of 15 passes completed" in shown.out
        assert "next: the same command on the machine with b200" in shown.out
        assert "'" not in shown.err + shown.out
    assert runner(["--campaign", str(tmp_path), "validate"]) == 0, "nobody's failure"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("b1           pass 1  unavailable declared b200, found no card")
    assert [line[:2] for line in lines[:6]] == ["b1", "b4", "b8"] * 2, "one line each, nothing said twice"


def test_a_failing_run_says_what_failed_and_what_is_left(tmp_path: Path) -> None:
    """M23: one line per variant and status, then what to do; failed slots are not run again."""
    failing = light_campaign(tmp_path / "failing", batches=(1, 4), documents=100, do="memory", at=40)
    lines = _lines(run(failing))
    assert lines == [
        "4 attempts recorded, 0 of 4 passes completed", "  b1: out of memory (2)", "  b4: out of memory (2)",
        "what failed stays as it is and is not run again; the rows say why (records/attempts/)",
        "a further pass of all variants makes up for it: the same command with --passes, one more",
        "  (make: PASSES=...); for a documented external reason: runner exclude",
        "next: runner validate",
    ]  # fmt: skip
    (row, *_) = read_attempts(failing)
    assert describe(row) == (
        "cpu b1 pass 1: out of memory after 40 of 100 documents (CUDA out of memory. Tried to allocate 2.00 GiB)"
    )
    going = light_campaign(tmp_path / "going", batches=(1, 4))
    stopped = dataclasses.replace(run(going, passes=1), stopped_by="SIGINT", left=1, completed=1)
    assert _lines(stopped)[1:] == ["stopped by Ctrl-C, 1 pass left", "next: the same command goes on with what is left"]
    assert _lines(run(going)) == ["2 attempts recorded, 4 of 4 passes completed", "next: runner validate"]


def test_the_bar_never_wraps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    bar = Bar()
    planned = list(schedule(VARIANTS, ["c"], [0], 1))
    bar.begin(planned, 3, [])
    bar.started(planned[0])
    assert max(len(line) for line in capsys.readouterr().err.split("\r\x1b[K")) == 39


def test_a_resumed_run_knows_how_long_an_attempt_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the phases of the attempts before; parts inside the pass are not added twice."""
    monkeypatch.setenv("COLUMNS", "120")
    planned = list(schedule(VARIANTS, ["c"], [0], 1))
    phases = (
        Phase(name=PhaseName.LOAD, seconds=20.0),
        Phase(name=PhaseName.PASS, seconds=40.0),
        Phase(name=PhaseName.INFERENCE, seconds=39.0, inside_pass=True),
    )
    bar = Bar()
    bar.begin(planned, 6, [attempt_for(planned[0], Status.COMPLETED).model_copy(update={"phases": phases})])
    bar.started(planned[0])
    assert "0/3 b1 pass 1 about 3 min left" in capsys.readouterr().err


def test_control_characters_of_an_error_never_reach_the_terminal() -> None:
    (item,) = list(schedule(VARIANTS[:1], ["c"], [0], 1))
    row = attempt_for(item, Status.FAILED).model_copy(update={"error": ErrorInfo(kind="x", message="\x1b[2J boom")})
    assert "\x1b" not in describe(row)


def test_m53_a_token_never_lands_in_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    campaign = light_campaign(tmp_path)
    run(campaign, passes=1)
    (manifest,) = campaign.manifests.iterdir()
    content = json.loads(manifest.read_bytes())
    assert content["environment"]["OMP_NUM_THREADS"] == "1"
    assert all(b"hf_secret" not in path.read_bytes() for path in campaign.records.rglob("*") if path.is_file())
    assert allowed_variables({"AWS_SECRET_ACCESS_KEY": "x", "TZ": "UTC"}) == {"TZ": "UTC"}


def test_declared_threads_reach_every_library_and_workers_stay_offline() -> None:
    environment = worker_environment({"PATH": "/bin", "OMP_WAIT_POLICY": "active"}, 3)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        assert environment[name] == "3"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["OMP_WAIT_POLICY"] == "active", "what the user set stays"
    assert "OMP_NUM_THREADS" not in worker_environment({}, None)


def test_m3_more_passes_for_one_variant_only_are_refused_with_the_right_command(tmp_path: Path) -> None:
    campaign = light_campaign(tmp_path, batches=(1, 8), passes=2)
    assert run(campaign).complete
    rows = sorted(path.name for path in campaign.attempts.iterdir())
    with pytest.raises(InputRefused, match="b1 would have fewer") as refused:
        run(campaign, series="b8", passes=3)
    assert refused.value.next_step == "runner measure --gpu cpu --passes 3"
    assert sorted(path.name for path in campaign.attempts.iterdir()) == rows
    lock = campaign.lock.read_bytes()
    with pytest.raises(InputRefused, match="b1, b8 would have fewer"):
        run(campaign, batches=(16,), passes=3)
    with pytest.raises(InputRefused, match="the protocol allows"):
        run(campaign, batches=(16,), passes=10**6)
    assert campaign.lock.read_bytes() == lock, "a refused call adds no variant"
    assert run(campaign, series="b8", passes=2).written == ()
    # What only completes is allowed: the others have their third pass, an interrupted one of b8 is run again.
    planned = list(schedule(load_lock(campaign).variants, ["small-final"], [0], 3))
    measured = [attempt_for(item, Status.COMPLETED) for item in planned if item.variant.id == "b1"]
    refuse_unequal([item for item in planned if item.variant.id == "b1"], measured, "cpu", 3)
    with pytest.raises(InputRefused, match="b1 would have fewer"):
        refuse_unequal([item for item in planned if item.variant.id == "b1"], measured, "b200", 3)
    assert run(campaign, passes=3).complete
    assert run(campaign, series="b8", passes=3).written == ()


def test_m3_a_variant_that_is_added_where_another_key_signs_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the rental the freeze's key is not there: the lock then carries another signature, and `measure` says so."""
    campaign = light_campaign(tmp_path / "campaign", passes=2)
    added = run(campaign, batches=(4,), passes=1).warnings
    assert added == ("b4: not among the frozen variants; added to the lock, lock signed again",), "the same key"
    keys = {name: tmp_path / name for name in ("own", "rental")}
    for path in keys.values():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    monkeypatch.setenv("SIGNING_KEY", str(keys["own"]))
    freeze(campaign)  # signs again with the user's own key
    frozen = parse_signature(campaign.lock_signature.read_bytes()).fingerprint
    monkeypatch.setenv("SIGNING_KEY", str(keys["rental"]))
    assert not run(campaign, batches=(4,), passes=1).warnings, "nothing added, nothing signed"
    added_later, warning = run(campaign, batches=(8,), passes=1).warnings
    assert added_later.startswith("b8: ") and "for good, marked as added later" in added_later
    other = parse_signature(campaign.lock_signature.read_bytes()).fingerprint
    assert other != frozen and f"with the key that is here ({other})" in warning and f"({frozen})" in warning
    monkeypatch.setenv("SIGNING_KEY", str(keys["own"]))
    freeze(campaign)  # what the warning says to do
    assert parse_signature(campaign.lock_signature.read_bytes()).fingerprint == frozen
