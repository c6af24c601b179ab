"""Paired comparisons in the note (M29, issue 3 line 6): shown as information, in every language."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.evidence.verdict import PairedComparisons, PairedTest
from runner.note.build import note_markdown
from runner.note.parts.paired import MOST_ROWS
from runner.protocol.schema import Lock
from tests.note.sample import PRICED, make_campaign


def pair(first: str, second: str, only_first: int, only_second: int, p: str) -> PairedTest:
    return PairedTest(
        first=first,
        second=second,
        seed=0,
        first_attempt="a0",
        second_attempt="a1",
        documents=1000,
        both_right=900 - only_first - only_second,
        only_first_right=only_first,
        only_second_right=only_second,
        both_wrong=100,
        p_value=p,
    )


@pytest.mark.parametrize(
    ("language", "p", "words"),
    [
        ("en", "0.453", "Only the first is right"),
        ("de", "0,453", "Nur die erste richtig"),
        ("tr", "0,453", "Yalnızca birincisi doğru"),
        ("fr", "0,453", "Seule la première a raison"),
    ],
)
def test_m29_pairs_that_differ_are_shown_with_their_p(tmp_path: Path, language: str, p: str, words: str) -> None:
    campaign = make_campaign(tmp_path / "c", PRICED)
    lock = Lock.load(campaign.lock)
    tests = (
        pair("x.b1", "x.b4", 3, 5, "0.453125"),
        pair("x.b1", "x.b8", 0, 0, "1.000000"),
        pair("x.b4", "x.b8", 40, 1, "0.000000"),
    )
    item = PairedComparisons(lock_sha256=lock.lock_sha256, corpus_id="mails", method="McNemar", tests=tests)
    campaign.paired.mkdir(parents=True)
    (campaign.paired / "mails.json").write_bytes(item.dump())
    text = note_markdown(campaign, language)
    assert words in text
    smallest = "\\< 0.001" if language == "en" else "\\< 0,001"
    assert f"| x.b4 | x.b8 | mails | 0 | 40 | 1 | {smallest} |\n| x.b1 | x.b4 | mails | 0 | 3 | 5 | {p} |" in text
    assert "| x.b1 | x.b8 | mails |" not in text, "nothing differs there"
    assert "McNemar" in text


def test_m29_where_nothing_differs_one_sentence_says_so(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path / "c", PRICED)
    assert "in pairs" not in note_markdown(campaign)
    lock = Lock.load(campaign.lock)
    campaign.paired.mkdir(parents=True)
    same = PairedComparisons(
        lock_sha256=lock.lock_sha256,
        corpus_id="mails",
        method="McNemar",
        tests=(pair("x.b1", "x.b4", 0, 0, "1.000000"),),
    )
    (campaign.paired / "mails.json").write_bytes(same.dump())
    assert "all configurations are right on the same ones" in note_markdown(campaign)
    many = tuple(pair(f"x.v{number}", "x.b1", number, 0, "0.500000") for number in range(1, 31))
    (campaign.paired / "mails.json").write_bytes(same.model_copy(update={"tests": many}).dump())
    text = note_markdown(campaign)
    assert text.count(" | x.b1 | mails | 0 |") == MOST_ROWS and "| x.v30 |" in text and "| x.v1 |" not in text
    other = same.model_copy(update={"lock_sha256": "0" * 64, "tests": many})
    (campaign.paired / "mails.json").write_bytes(other.dump())
    assert "in pairs" not in note_markdown(campaign), "an earlier freeze is not mixed in"
