"""Rows on disk: atomic, chained, recovered once; torn and copied files (M22, M23, M50, RE-03, RE-05, RE-08)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import InputRefused, NotAccepted
from runner.evidence.attempt import Attempt, ErrorInfo, Settings, Slot, Status
from runner.evidence.campaign import Campaign
from runner.evidence.files import remove_interrupted_writes
from runner.evidence.store import AttemptStore, Rows, campaign_lock, read_attempts, read_rows, write_atomic

MACHINE = "m-1"
CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture
def store(tmp_path: Path) -> AttemptStore:
    return AttemptStore(Campaign(tmp_path))


def started(store: AttemptStore, name: str, machine: str = MACHINE) -> Attempt:
    row = Attempt(
        attempt_id=name,
        chain=store.next_link(machine),
        protocol_name="demo",
        protocol_revision=1,
        lock_sha256="0" * 64,
        nonce="1" * 64,
        gpu_declared="cpu",
        devices_found=("cpu",),
        variant_id="b1",
        series="batch",
        corpus_id="c",
        seed=0,
        slot=Slot(pass_index=0, position=0),
        status=Status.STARTED,
        started_at_utc="2026-11-30T06:20:52Z",
        expected_documents=100,
        requested=Settings(),
    )
    store.start(row)
    return row


def finished(store: AttemptStore, name: str, machine: str = MACHINE, seconds: float = 1.5) -> Attempt:
    row = started(store, name, machine).model_copy(
        update={
            "status": Status.COMPLETED,
            "pass_seconds": seconds,
            "pass_seconds_reason": None,
            "completed_documents": 100,
        }
    )
    store.finish(row)
    return row


def test_m22_rows_come_back_in_the_order_of_their_chain(store: AttemptStore) -> None:
    rows = [finished(store, name) for name in ("b", "a", "c")]
    assert read_attempts(store.campaign) == tuple(rows)
    assert [row.chain.index for row in rows] == [0, 1, 2]


def test_m23_a_row_is_on_disk_as_started_before_its_child_runs(store: AttemptStore) -> None:
    started(store, "a")
    assert read_attempts(store.campaign)[0].status is Status.STARTED
    with pytest.raises(NotAccepted, match="has not ended"):
        store.next_link(MACHINE)


def test_a_row_that_has_ended_never_changes_again(store: AttemptStore) -> None:
    row = finished(store, "a")
    with pytest.raises(ValueError, match="cannot be finished"):
        store.finish(row.model_copy(update={"pass_seconds": 0.1}))


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_m50_a_deleted_row_is_seen_also_the_last(store: AttemptStore, victim: str) -> None:
    for name in ("a", "b", "c"):
        finished(store, name)
    store.path(victim).unlink()
    with pytest.raises(NotAccepted, match="missing"):
        store.read_all()


@pytest.mark.parametrize("victim", ["a", "c"])
def test_m50_a_changed_row_is_seen_also_the_last(store: AttemptStore, victim: str) -> None:
    for name in ("a", "b", "c"):
        finished(store, name)
    path = store.path(victim)
    path.write_bytes(path.read_bytes().replace(b'"pass_seconds": 1.5', b'"pass_seconds": 1.2'))
    with pytest.raises(NotAccepted, match="was changed"):
        store.read_all()


def test_m50_reordered_rows_are_seen(store: AttemptStore) -> None:
    for name in ("a", "b", "c"):
        finished(store, name)
    for name, index in (("b", 2), ("c", 1)):
        value = json.loads(store.path(name).read_bytes())
        value["chain"]["index"] = index
        store.path(name).write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(NotAccepted, match="reordered"):
        store.read_all()


def test_m50_all_rows_of_a_machine_deleted_is_seen(store: AttemptStore) -> None:
    finished(store, "a")
    finished(store, "z", machine="m-2")
    store.path("z").unlink()
    with pytest.raises(NotAccepted, match=r"m-2: 1 row missing at the end"):
        store.read_all()


def test_m50_key_order_and_line_ends_do_not_break_the_chain(store: AttemptStore) -> None:
    finished(store, "a")
    finished(store, "b")
    value = json.loads(store.path("a").read_bytes())
    store.path("a").write_text(json.dumps(dict(reversed(value.items()))), encoding="utf-8")
    assert len(store.read_all()) == 2


@pytest.mark.parametrize("head_written", [True, False])
@pytest.mark.parametrize("rows_before", [0, 1])
def test_re01_a_lost_parent_is_recovered_once(store: AttemptStore, rows_before: int, head_written: bool) -> None:
    for number in range(rows_before):
        finished(store, f"r{number}")
    heads = {path: path.read_bytes() for path in store.chain_dir.glob("*")}
    started(store, "x")
    if not head_written:  # killed between the row and its head
        for path in store.chain_dir.glob("*"):
            path.unlink() if path not in heads else path.write_bytes(heads[path])
        assert len(store.read_all()) == rows_before + 1
    for _ in range(2):
        for row in store.unfinished(MACHINE):
            store.finish(row.model_copy(update={"status": Status.LOST, "error": ErrorInfo(kind="lost", message="")}))
        assert store.recover(MACHINE) == ()
    assert [row.status for row in store.read_all()][rows_before:] == [Status.LOST]
    finished(store, "next")
    assert len(store.read_all()) == rows_before + 2


def test_re01_killed_between_the_final_row_and_its_head(store: AttemptStore) -> None:
    row = started(store, "x")
    head = {path: path.read_bytes() for path in store.chain_dir.glob("*")}
    store.finish(row.model_copy(update={"status": Status.FAILED}))
    for path, data in head.items():
        path.write_bytes(data)
    assert store.read_all()[0].status is Status.FAILED
    store.recover(MACHINE)
    finished(store, "next")
    assert len(store.read_all()) == 2


def test_recover_does_not_heal_a_deleted_row(store: AttemptStore) -> None:
    for name in ("a", "b"):
        finished(store, name)
    store.path("b").unlink()
    store.recover(MACHINE)
    with pytest.raises(NotAccepted, match="missing"):
        store.read_all()


def test_re03_a_torn_row_is_reported_kept_and_does_not_stop_the_next(store: AttemptStore) -> None:
    """RE-03 with the case's own 48 bytes, then one more record."""
    finished(store, "d1")
    finished(store, "d2")
    started(store, "d3")
    torn = (CASES / "RE-03" / "records.jsonl").read_bytes().rpartition(b"\n")[2]
    assert len(torn) == 48
    store.path("d3").write_bytes(torn)
    rows = store.scan()
    assert len(rows.rows) == 2
    assert rows.warnings == ("d3.json: incomplete, 48 bytes, kept; an attempt without result (not complete JSON)",)
    store.recover(MACHINE)
    finished(store, "d4")
    assert [row.attempt_id for row in store.read_all()] == ["d1", "d2", "d4"], "3 whole records, on their own"
    assert store.path("d3").read_bytes() == torn, "neither deleted nor written into"


@pytest.mark.parametrize("torn", ["x.json", "b.json", "c.json"])
def test_m50_a_torn_file_stands_for_no_row_but_its_own(store: AttemptStore, torn: str) -> None:
    """M50: a half file, of a name of its own or of a row that had ended, does not hide that rows are gone."""
    for name in ("a", "b", "c"):
        finished(store, name)
    for name in ("b", "c"):
        store.path(name).unlink()
    (store.campaign.attempts / torn).write_bytes(b'{"x"')
    with pytest.raises(NotAccepted) as caught:
        store.read_all()
    assert caught.value.details == (f"{MACHINE}: 2 rows missing at the end, the last was c",)


def test_m50_a_row_that_had_ended_and_was_cut_is_a_changed_row(store: AttemptStore) -> None:
    """M50: cutting the last row makes no attempt without result of it: it had one."""
    for name in ("a", "b"):
        finished(store, name)
    store.path("b").write_bytes(store.path("b").read_bytes()[:100])
    assert store.faults() == (f"{MACHINE}: the last row b was changed after it was written",)


def test_re03_empty_torn_rows_of_two_machines_are_two(store: AttemptStore) -> None:
    """RE-03: the same (here: no) bytes in two torn files stand for a row each, at the end and before the end."""
    for machine in ("m-1", "m-2"):
        finished(store, f"{machine}-a", machine)
        started(store, f"{machine}-b", machine)
        store.path(f"{machine}-b").write_bytes(b"")
    assert store.faults() == ()
    for machine in ("m-1", "m-2"):
        store.recover(machine)
        finished(store, f"{machine}-c", machine)
    assert len(store.read_all()) == 4
    store.path("m-2-b").unlink()
    assert len(store.faults()) == 1


def test_re05_exact_copies_are_ignored_and_named(store: AttemptStore, tmp_path: Path) -> None:
    for name, seconds in (("r1", 10.0), ("r2", 30.0), ("r3", 20.0)):
        finished(store, name, seconds=seconds)
    value = json.loads(store.path("r2").read_bytes())
    (store.campaign.attempts / "r2 copy.json").write_bytes(store.path("r2").read_bytes())
    (store.campaign.attempts / "r2-again.json").write_text(json.dumps(dict(reversed(value.items()))), encoding="utf-8")
    rows = store.scan()
    assert [row.pass_seconds for row in rows.attempts] == [10.0, 30.0, 20.0]
    assert rows.ignored_copies[0].startswith("r2: 2 exact copies ignored (")
    assert len(store.read_all()) == 3


def test_re05_two_different_rows_with_one_id_are_refused(store: AttemptStore) -> None:
    finished(store, "r1")
    value = json.loads(store.path("r1").read_bytes()) | {"pass_seconds": 0.5}
    (store.campaign.attempts / "r1-better.json").write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(InputRefused, match="two different rows have the id 'r1'"):
        store.scan()


def test_re08_nan_in_a_row_is_refused_not_torn(store: AttemptStore) -> None:
    finished(store, "h2")
    path = store.path("h2")
    path.write_bytes(path.read_bytes().replace(b'"pass_seconds": 1.5', b'"pass_seconds": NaN'))
    with pytest.raises(InputRefused, match="NaN is not allowed in JSON"):
        read_rows([path])


def test_write_atomic_keeps_the_old_file_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "row.json"
    write_atomic(path, b"old")
    code = (
        "import resource, sys, pathlib, signal\n"
        "from runner.evidence.files import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_atomic(pathlib.Path(sys.argv[1]), b'x' * 5000)\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["row.json"]  # noqa: PTH208


def test_a_second_measurement_at_the_same_time_is_refused(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    refused = pytest.raises(InputRefused, match="another measurement is running")
    with campaign_lock(campaign), refused, campaign_lock(campaign):
        pass
    with campaign_lock(campaign):
        pass


def test_the_rest_of_an_interrupted_write_is_removed_and_named(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    write_atomic(tmp_path / "attempts" / "a.json", b"whole")
    (tmp_path / "attempts" / ".a.json.123.tmp").write_bytes(b"ha")
    assert remove_interrupted_writes(tmp_path) == (
        "removed the rest of an interrupted write, 2 bytes: .a.json.123.tmp",
    )
    assert [path.name for path in tmp_path.rglob("*.json*")] == ["a.json"]


@pytest.mark.parametrize("way", ["read_all", "faults"])
def test_m50_a_row_that_is_written_while_others_read_is_not_taken_for_a_deleted_one(
    store: AttemptStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """M50: `validate` beside a running `measure`: rows are read, the next one is written, then the heads are read."""
    finished(store, "a")
    scan, late = store.scan, iter(("b", "c"))

    def scanned() -> Rows:
        rows = scan()
        for name in late:
            finished(store, name)
            break
        return rows

    monkeypatch.setattr(store, "scan", scanned)
    found = getattr(store, way)()
    assert found == () if way == "faults" else [row.attempt_id for row in found] == ["a", "b", "c"]
