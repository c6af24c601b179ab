"""Records of several rentals under one lock (M51): RE-05 copies, RE-07 other locks, conflicts, chains."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.errors import InputRefused
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
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
    assert again.ignored[0].startswith("a000: 2 exact copies ignored (")
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
    assert "is missing" in caught.value.details[0]
    assert "not the file that the row names" in caught.value.details[1]


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
