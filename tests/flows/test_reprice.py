"""`runner reprice`: new prices, nothing measured again, a linked note (issue: what would change the answer)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.decide.model import Decision
from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.evidence.checks import note_id
from runner.evidence.repricing import read_repricing
from runner.flows.report import make_report
from runner.flows.reprice import reprice
from runner.flows.verify import verify
from runner.judge.campaign import judge_campaign
from runner.protocol.freeze import freeze
from tests.decide.worlds import TARIFF_HEADER
from tests.support.small_campaign import ROWS, make_attempt, make_campaign, store_attempt, write_predictions


def tariffs_file(path: Path, **prices: str) -> Path:
    """Tariffs with a price of all three packages per GPU."""
    rows = [
        f"{gpu},{gpu} card,1,24,{days},{price},EUR,2026-09-24,test,"
        for gpu, price in prices.items()
        for days in (3, 7, 30)
    ]
    path.write_text("\n".join([TARIFF_HEADER, *rows, ""]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed note: A and B measured with three accepted passes each, A chosen at 300.00 EUR."""
    campaign = make_campaign(tmp_path_factory.mktemp("source") / "campaign")
    tariffs_file(campaign.tariffs, A="300.00", B="310.00")
    lock = freeze(campaign)
    right = [(row[0], row[2]) for row in ROWS]
    for number in range(6):
        predictions = write_predictions(campaign.predictions / f"a{number:03d}.parquet", right)
        gpu = "AB"[number % 2]
        store_attempt(
            campaign,
            make_attempt(campaign, lock, predictions, number=number, gpu_declared=gpu, devices_found=(f"{gpu} card",)),
        )
    judge_campaign(campaign)
    assert make_report(campaign, environ={}).decision.chosen == "A.b1"
    return campaign.root


def records(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for part in ("records", "verdicts")
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def repriced(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same measurements under prices that make B the cheaper one, by the command."""
    place = tmp_path_factory.mktemp("repriced")
    new = tariffs_file(place / "new.csv", A="400.00", B="310.00")
    assert run(["reprice", str(source), str(place / "campaign"), "--tariffs", str(new)]) == 0
    return place / "campaign"


def test_new_prices_may_name_another_winner_and_nothing_is_measured_again(source: Path, repriced: Path) -> None:
    """The new note passes its own check, names the old one, and rests on the same records, byte by byte."""
    link, decision = read_repricing(Campaign(repriced)), Decision.load(Campaign(repriced).decision)
    assert link is not None and (link.chosen, link.committed_cost, link.currency) == ("A.b1", "300.00", "EUR")
    assert decision.chosen == "B.b1" and "310.00 EUR" in str(decision.reasons[0])
    assert link.note_id == note_id(Campaign(source)) != note_id(Campaign(repriced))
    assert records(repriced) == records(source)
    assert verify(source).accepted and verify(repriced).accepted
    assert verify(repriced / "note" / "decision-note.pdf").accepted, "the link is among the attachments"
    text = (repriced / "note" / "decision-note.qmd").read_text(encoding="utf-8")
    assert "nothing was measured again" in text and link.note_id in text


def test_compare_says_that_one_note_prices_the_other_again(
    source: Path, repriced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M47: equal durations of a repriced note are no second measurement, and compare says so before any figure."""
    assert run(["compare", str(source), str(repriced)]) == 0
    lines = capsys.readouterr().out.splitlines()
    link = f"   B prices the measurements of A, note {note_id(Campaign(source))} again: nothing was measured for it"
    assert lines.index(link) < lines.index(next(line for line in lines if "B/A" in line))
    assert run(["compare", str(source), str(repriced), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["a"]["repriced_from"], found["b"]["repriced_from"]) == (None, note_id(Campaign(source)))


def test_repriced_twice_all_notes_before_are_named(
    source: Path, repriced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third, new = tmp_path / "third", tariffs_file(tmp_path / "new.csv", A="1.00", B="2.00")
    assert run(["reprice", str(repriced), str(third), "--tariffs", str(new), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["chosen"], found["committed_cost"], found["repriced_from"]["chosen"]) == ("A.b1", "1.00", "B.b1")
    assert found["repriced_from"]["note_id"] == note_id(Campaign(repriced))
    assert found["repriced_from"]["earlier_note_ids"] == [note_id(Campaign(source))]


def test_a_link_that_was_changed_is_found(repriced: Path, tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "campaign")
    shutil.copytree(repriced, campaign.root)
    campaign.repricing.write_bytes(campaign.repricing.read_bytes().replace(b'"300.00"', b'"299.99"'))
    assert not verify(campaign.root).accepted


def test_what_is_refused_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    with pytest.raises(InputRefused, match="already"):
        reprice(source, source / "tariffs.csv", place / "new")
    (tmp_path / "bad.csv").write_text("gpu\n", encoding="utf-8")
    with pytest.raises(InputRefused):
        reprice(source, tmp_path / "bad.csv", place / "new")
    new = tariffs_file(tmp_path / "new.csv", A="1.00")
    with pytest.raises(InputRefused, match="empty or a new folder"):
        reprice(source, new, tmp_path)
    with pytest.raises(InputRefused):
        reprice(tmp_path / "nowhere", new, place / "new")
    assert not place.exists() or list(place.iterdir()) == []


def test_a_note_that_does_not_pass_its_check_is_not_repriced(source: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt"
    shutil.copytree(source, spoilt)
    row = next((spoilt / "records" / "attempts").glob("*.json"))
    row.write_bytes(row.read_bytes().replace(b'"pass_seconds": 1.5', b'"pass_seconds": 0.5'))
    with pytest.raises(NotAccepted, match="does not pass"):
        reprice(spoilt, tariffs_file(tmp_path / "new.csv", A="1.00"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
