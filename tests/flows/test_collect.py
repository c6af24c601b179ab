"""Records of several rentals under one lock (M51): RE-05 copies, RE-07 other locks, conflicts, chains."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.errors import InputRefused, NotAccepted
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256
from runner.evidence.store import AttemptStore, chain_faults, read_attempts
from runner.flows.collect import collect
from runner.protocol.freeze import freeze
from runner.protocol.schema import Lock
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions

RIGHT = [(row[0], row[2]) for row in ROWS]


@pytest.fixture
def home(tmp_path: Path) -> Campaign:
    campaign = make_campaign(tmp_path / "home")
    freeze(campaign)
    return campaign


def rental(home: Campaign, name: str, *, machine: str, first: int, rows: int = 2) -> Campaign:
    """A copy of the frozen campaign on another machine, with its own measured rows."""
    root = home.root.parent / name
    shutil.copytree(home.root, root, ignore=shutil.ignore_patterns("keys", "records"))
    campaign = Campaign(root)
    lock = Lock.load(campaign.lock)
    for number in range(first, first + rows):
        predictions = write_predictions(campaign.predictions / f"a{number:03d}.parquet", RIGHT)
        attempt = make_attempt(campaign, lock, predictions, number=number)
        store_attempt(
            campaign, attempt.model_copy(update={"chain": attempt.chain.model_copy(update={"machine_id": machine})})
        )
    return campaign


def files(campaign: Campaign) -> dict[str, bytes]:
    found = sorted(path for path in campaign.records.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(campaign.root).as_posix(): path.read_bytes() for path in found}


def test_two_rentals_become_one_campaign(home: Campaign) -> None:
    one, two = rental(home, "one", machine="m1", first=0), rental(home, "two", machine="m2", first=10, rows=3)
    made = collect(home, [one.root, two.records])
    assert made.rows == 5
    assert made.machines == ("m1", "m2")
    assert made.added == ("a000", "a001", "a010", "a011", "a012")
    assert [attempt.attempt_id for attempt in read_attempts(home)] == list(made.added)
    assert files(home) == files(one) | files(two)


def test_collecting_twice_changes_nothing_and_names_the_copies(home: Campaign) -> None:
    one = rental(home, "one", machine="m1", first=0)
    collect(home, [one.root])
    before = files(home)
    again = collect(home, [one.root, one.root])
    assert again.added == ()
    assert again.ignored[0].startswith("a000: 1 exact copy ignored (")
    assert again.warnings == (f"{one.root}: named twice, nothing to collect from it",)
    assert files(home) == before


def test_case_re_05_copies_count_once_whatever_their_key_order(home: Campaign) -> None:
    """RE-05: a row again in the same folder, and again elsewhere with another key order: n stays, both named."""
    one = rental(home, "one", machine="m1", first=0, rows=3)
    row = one.attempts / "a001.json"
    shutil.copy(row, one.attempts / "a001-again.json")
    other = rental(home, "other", machine="m1", first=0, rows=3)
    value = json.loads((other.attempts / "a001.json").read_bytes())
    (other.attempts / "a001.json").write_text(json.dumps(dict(reversed(value.items()))) + "\n", encoding="utf-8")
    made = collect(home, [one.root, other.root])
    assert made.rows == 3
    assert len(read_attempts(home)) == 3
    assert any("a001" in line and "1 exact copy" in line for line in made.warnings)
    assert any(line.startswith("a001: 1 exact copy ignored") for line in made.ignored)


def test_case_re_07_rows_of_another_lock_are_refused_and_named(home: Campaign, tmp_path: Path) -> None:
    """RE-07: nothing is computed, nor collected, from a mixture; an explicit option keeps them."""
    one = rental(home, "one", machine="m1", first=0)
    stranger = make_campaign(tmp_path / "stranger")
    lock = freeze(stranger)
    predictions = write_predictions(stranger.predictions / "z000.parquet", RIGHT)
    attempt = make_attempt(stranger, lock, predictions).model_copy(update={"attempt_id": "z000"})
    store_attempt(stranger, attempt.model_copy(update={"chain": attempt.chain.model_copy(update={"machine_id": "m9"})}))
    with pytest.raises(InputRefused) as caught:
        collect(home, [one.root, stranger.root])
    here = Lock.load(home.lock).lock_sha256
    assert caught.value.details == (f"z000: lock {lock.lock_sha256[:12]}, here {here[:12]}",)
    assert files(home) == {}
    kept = collect(home, [one.root, stranger.root], keep_other_locks=True)
    assert kept.rows == 3
    assert len(kept.other_locks) == 1


def test_two_different_rows_with_one_id_are_refused(home: Campaign) -> None:
    one, two = rental(home, "one", machine="m1", first=0), rental(home, "two", machine="m2", first=0)
    with pytest.raises(InputRefused) as caught:
        collect(home, [one.root, two.root])
    assert any("two different rows have the id 'a000'" in line for line in caught.value.details)
    assert files(home) == {}


def test_two_series_of_one_machine_are_refused_and_never_chosen_from(home: Campaign) -> None:
    """M51: measured twice on one machine, in two folders; taking the better one would be a choice by result."""
    one, two = rental(home, "one", machine="m1", first=0), rental(home, "two", machine="m1", first=10)
    with pytest.raises(InputRefused, match="different attempts of one machine at the same place") as caught:
        collect(home, [one.root, two.root])
    assert caught.value.details == tuple(
        f"m1, place {place}: {one.attempts / f'a00{place}.json'} and {two.attempts / f'a01{place}.json'}"
        for place in (0, 1)
    )
    assert "measured first" in (caught.value.next_step or "")
    assert files(home) == {}


@pytest.mark.parametrize("damage", ["delete the middle row", "delete the last row", "change a row"])
def test_a_broken_chain_is_refused(home: Campaign, damage: str) -> None:
    one = rental(home, "one", machine="m1", first=0, rows=3)
    if damage == "change a row":
        path = one.attempts / "a001.json"
        path.write_bytes(path.read_bytes().replace(b'"pass_seconds": 1.5', b'"pass_seconds": 0.5'))
    else:
        (one.attempts / ("a001.json" if "middle" in damage else "a002.json")).unlink()
    with pytest.raises(InputRefused, match="missing or were changed"):
        collect(home, [one.root])
    assert files(home) == {}


def test_a_changed_or_missing_prediction_file_is_refused(home: Campaign) -> None:
    one = rental(home, "one", machine="m1", first=0)
    (one.predictions / "a000.parquet").unlink()
    (one.predictions / "a001.parquet").write_bytes(b"other")
    with pytest.raises(InputRefused) as caught:
        collect(home, [one.root])
    assert any("is missing" in line for line in caught.value.details)
    assert any("not the file that the row names" in line for line in caught.value.details)


def test_a_longer_chain_of_the_same_machine_takes_over(home: Campaign) -> None:
    """The same rental collected in the middle and again at the end."""
    one = rental(home, "one", machine="m1", first=0, rows=2)
    collect(home, [one.root])
    lock = Lock.load(one.lock)
    store_attempt(one, make_attempt(one, lock, None, number=7, status=Status.FAILED))
    assert collect(home, [one.root]).added == ("a007",)
    assert len(read_attempts(home)) == 3


def test_a_folder_without_records_is_refused(home: Campaign, tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="no records"):
        collect(home, [tmp_path])


def rechained(rental: Campaign, change: Callable[[dict[str, Any]], None]) -> None:
    """Change every row of the only machine as somebody would who knows how rows are chained."""
    previous = None
    for path in sorted(rental.attempts.glob("*.json")):
        row = json.loads(path.read_bytes())
        change(row)
        row["chain"]["previous_sha256"] = previous
        path.write_text(json.dumps(row), encoding="utf-8")
        previous = content_sha256(row)
    (head,) = (rental.records / "chain").glob("*.json")
    head.write_text(json.dumps(json.loads(head.read_bytes()) | {"last_sha256": previous}), encoding="utf-8")


def test_m51_a_partly_copied_folder_is_refused_and_says_what_to_copy(home: Campaign) -> None:
    """M51, M9: predictions, or the manifest that a row names, did not come along."""
    one = rental(home, "one", machine="m1", first=0)
    rechained(one, lambda row: row.update(manifest_sha256="a" * 64))
    (one.predictions / "a001.parquet").unlink()
    with pytest.raises(InputRefused, match="files that rows name are not there") as caught:
        collect(home, [one.root])
    manifest = f"{'a' * 64}.json is missing"
    names = [line.rpartition("/")[2] for line in caught.value.details]
    assert names == [manifest, "a001.parquet is missing", manifest]
    assert (caught.value.next_step or "").startswith("copy records/ whole")
    assert files(home) == {}


def test_m51_a_manifest_that_is_not_its_own_hash_is_refused(home: Campaign) -> None:
    one = rental(home, "one", machine="m1", first=0)
    rechained(one, lambda row: row.update(manifest_sha256="a" * 64))
    one.manifests.mkdir(parents=True)
    (one.manifests / f"{'a' * 64}.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputRefused, match="contradict") as caught:
        collect(home, [one.root])
    assert caught.value.details[0].endswith(f"{'a' * 64}.json is not the file that the row names")


@pytest.mark.parametrize("place", ["records/other", "protocol", "records"])
def test_m51_what_a_row_names_elsewhere_is_refused_since_it_would_not_be_copied(home: Campaign, place: str) -> None:
    one = rental(home, "one", machine="m1", first=0)
    (one.root / place).mkdir(exist_ok=True)
    for path in one.predictions.glob("*.parquet"):
        shutil.copy(path, one.root / place / path.name)
    rechained(one, lambda row: row["predictions"].update(path=f"{place}/{row['attempt_id']}.parquet"))
    with pytest.raises(InputRefused, match="contradict") as caught:
        collect(home, [one.root])
    assert caught.value.details[0] == f"a000 names '{place}/a000.parquet', which is no file of an attempt"
    assert files(home) == {}


@pytest.mark.parametrize("kind", ["pipe", "link", "linked folder"])
def test_m51_pipes_and_links_of_another_machine_are_named_and_never_read(
    home: Campaign, tmp_path: Path, kind: str
) -> None:
    """A pipe would hang the collection; a link lets it copy what somebody else points at."""
    one = rental(home, "one", machine="m1", first=0)
    place = one.attempts / "a001.json"
    if kind == "linked folder":
        place = one.predictions
        shutil.move(place, tmp_path / "elsewhere")
    else:
        shutil.move(place, tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputRefused, match="links, pipes or devices") as caught:
        collect(home, [one.root])
    assert caught.value.details == (
        f"{place.relative_to(one.root)}: a {kind.removeprefix('linked ').replace('folder', 'link')}, no plain file",
    )
    assert files(home) == {}


def test_m50_a_head_file_of_another_name_is_refused(home: Campaign) -> None:
    one = rental(home, "one", machine="m1", first=0)
    (one.records / "chain" / "m1.json").rename(one.records / "chain" / "m2.json")
    with pytest.raises(InputRefused, match="has another machine's name"):
        collect(home, [one.root])


def test_m51_names_that_are_one_on_other_systems_are_refused(home: Campaign) -> None:
    """`a000` and `A000` would be one file on Windows or macOS, and could not be signed or archived."""
    one, two = rental(home, "one", machine="m1", first=0), rental(home, "two", machine="m2", first=5)
    (two.attempts / "a005.json").rename(two.attempts / "A000.json")
    rechained(two, lambda row: row.update(attempt_id=row["attempt_id"].replace("a005", "A000")))
    with pytest.raises(InputRefused, match="contradict") as caught:
        collect(home, [one.root, two.root])
    assert "is the same as" in caught.value.details[0]


def test_m51_two_torn_rows_of_the_same_bytes_are_both_kept(home: Campaign) -> None:
    """M51, RE-03: two machines lost their power; both left an empty row, and both attempts stay known."""
    rentals = [rental(home, name, machine=name, first=number) for name, number in (("one", 0), ("two", 5))]
    for campaign, number in zip(rentals, (2, 7), strict=True):
        attempt = make_attempt(campaign, Lock.load(campaign.lock), None, number=number)
        chain = AttemptStore(campaign).next_link(campaign.root.name)
        AttemptStore(campaign).start(attempt.model_copy(update={"status": Status.STARTED, "chain": chain}))
        (campaign.attempts / f"a{number:03d}.json").write_bytes(b"")
    made = collect(home, [campaign.root for campaign in rentals])
    assert made.rows == 4
    assert len(AttemptStore(home).scan().torn) == 2
    assert files(home) == files(rentals[0]) | files(rentals[1])


def test_m51_the_campaign_itself_and_a_folder_named_twice_add_nothing(home: Campaign) -> None:
    one = rental(home, "one", machine="m1", first=0)
    made = collect(one, [one.root, one.records])
    assert (made.rows, made.added, made.ignored) == (2, (), ())
    assert all(line.endswith("this campaign itself, nothing to collect from it") for line in made.warnings)
    made = collect(home, [one.root, one.root.parent / "." / "one", one.records])
    assert made.ignored == ()
    assert len(made.warnings) == 2


def test_m51_collected_while_an_attempt_runs_then_again_after_its_end(home: Campaign) -> None:
    """The journal had grown since the first collection: that is no contradiction."""
    one = rental(home, "one", machine="m1", first=0)
    lock, store = Lock.load(one.lock), AttemptStore(one)
    running = make_attempt(one, lock, None, number=2).model_copy(update={"chain": store.next_link("m1")})
    store.start(running.model_copy(update={"status": Status.STARTED}))
    journal = one.journals / "a002.jsonl"
    journal.parent.mkdir()
    journal.write_bytes(b'{"event": "start"}\n')
    collect(home, [one.root])
    journal.write_bytes(b'{"event": "start"}\n{"event": "batch"}\n')
    collect(home, [one.root])
    journal.write_bytes(b'{"event": "start"}\n{"event": "batch"}\n{"event": "end"}\n')
    store.finish(running)
    made = collect(home, [one.root])
    assert (made.rows, made.added) == (3, ("a002",))
    assert files(home) == files(one)
    journal.write_bytes(b'{"event": "other"}\n')
    with pytest.raises(InputRefused, match="contradict"):
        collect(home, [one.root])


@pytest.mark.parametrize("start", ["empty", "two rows of the same machine"])
def test_m51_killed_at_any_write_it_is_never_mistaken_for_whole_and_goes_on(home: Campaign, start: str) -> None:
    """Killed before each write in turn: rows are refused until the same command has run again."""
    one, two = (
        rental(home, "one", machine="m1", first=0, rows=3),
        rental(home, "two", machine="m2", first=5, rows=1),
    )
    if start != "empty":
        shutil.copytree(rental(home, "before", machine="m1", first=0).records, home.records)
    before = {path.stem for path in home.attempts.glob("*.json")}
    whole = Campaign(home.root.parent / "whole")
    shutil.copytree(home.root, whole.root)
    collect(whole, [one.root, two.root])
    states = []
    for number in itertools.count():
        shutil.rmtree(home.records, ignore_errors=True)
        if start != "empty":
            shutil.copytree(home.root.parent / "before" / "records", home.records)
        if not killed_at_write(number, home, [one.root, two.root]):
            break
        try:
            states.append({row.attempt_id for row in read_attempts(home)})
        except NotAccepted as error:
            assert "run the same command again" in (error.next_step or "")
        collect(home, [one.root, two.root])
        assert files(home) == files(whole), "nothing half written is left either"
    assert number >= 6, "it was killed before so many writes"
    assert all(state == before for state in states)


def killed_at_write(number: int, home: Campaign, folders: list[Path]) -> bool:
    """Collect in another process that ends without a word before its write of this number; False if it came through."""
    code = f"""
import os, sys
from pathlib import Path
import runner.flows.collect as flow
from runner.evidence.campaign import Campaign
left, write, copy = {number}, flow.write_atomic, flow.copy_atomic
def counting(path, data):
    global left
    if left == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / f".{{path.name}}.1.tmp").write_bytes(data[: len(data) // 2])
        os._exit(9)
    left -= 1
def writing(path, data):
    counting(path, data)
    write(path, data)
def copying(source, path, **facts):
    counting(path, source.read_bytes())
    copy(source, path, **facts)
flow.write_atomic, flow.copy_atomic = writing, copying
flow.collect(Campaign(Path(sys.argv[1])), [Path(name) for name in sys.argv[2:]])
"""
    done = subprocess.run([sys.executable, "-c", code, home.root, *folders], check=False, timeout=60)
    assert done.returncode in (0, 9)
    return done.returncode == 9


def test_m51_files_are_copied_in_parts_whatever_their_size(home: Campaign) -> None:
    """M51: fifteen attempts with ten million predictions each are gigabytes; none of them is held whole."""
    one = rental(home, "one", machine="m1", first=0)
    large = 40 << 20
    with (one.predictions / "a009.parquet").open("wb") as stream:
        stream.truncate(large)
    tracemalloc.start()
    try:
        collect(home, [one.root])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (home.predictions / "a009.parquet").stat().st_size == large
    assert most < large // 2


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("records/attempts/a001.json", b'"seed": 0', b'"seed": 1'),
        ("records/attempts/a001.json", b"{", b""),
        ("records/predictions/a001.parquet", b"a", b"b"),
    ],
)
def test_m51_what_changes_between_comparing_and_copying_is_refused(
    home: Campaign, place: str, old: bytes, new: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M51: compared was another file than the one that would be copied: no row of it is written."""
    one = rental(home, "one", machine="m1", first=0)

    def meanwhile(*found: Any) -> tuple[str, ...]:
        (one.root / place).write_bytes((one.root / place).read_bytes().replace(old, new))
        return chain_faults(*found)

    monkeypatch.setattr("runner.flows.collect.chain_faults", meanwhile)
    with pytest.raises(InputRefused, match="changed while it was collected"):
        collect(home, [one.root])
    assert not [name for name in files(home) if name.startswith(("records/attempts/", "records/chain/"))]


def test_m51_a_journal_that_grows_while_it_is_collected_is_copied_as_it_was_compared(
    home: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M51: of an attempt that runs the beginning is copied, and the rest by collecting again after its end."""
    one = rental(home, "one", machine="m1", first=0, rows=1)
    predictions = write_predictions(one.predictions / "x.parquet", RIGHT)
    attempt = make_attempt(one, Lock.load(one.lock), predictions, number=1)
    store = AttemptStore(one)
    store.start(attempt.model_copy(update={"status": Status.STARTED, "chain": store.next_link("m1")}))
    journal = one.journals / "a001.jsonl"
    journal.parent.mkdir(exist_ok=True)
    journal.write_bytes(b"first\n")

    def meanwhile(*found: Any) -> tuple[str, ...]:
        journal.write_bytes(b"first\nsecond\n")
        return chain_faults(*found)

    monkeypatch.setattr("runner.flows.collect.chain_faults", meanwhile)
    collect(home, [one.root])
    assert (home.journals / "a001.jsonl").read_bytes() == b"first\n"


def test_m51_many_copies_are_counted_and_the_first_shown() -> None:
    """The line that counts is not lost among those of copies; `--json` names every one."""
    from runner.cli.campaigns import _copies

    few = [f"a{number:03d}: 1 exact copy ignored (x, y)" for number in range(3)]
    assert _copies(few) == few
    many = [f"a{number:03d}: 1 exact copy ignored (x, y)" for number in range(22)]
    head, *shown = _copies(many)
    assert head.startswith("22 rows have exact copies") and [line.strip() for line in shown] == many[:3]
