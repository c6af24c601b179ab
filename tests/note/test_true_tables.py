"""Words and numbers of the note's tables that an auditor once found untrue (M22, M23, M30, M44; issue 5.10)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Verdict
from runner.judge.metrics import wilson_interval
from runner.measure.memory import BEFORE
from runner.note.build import build_note, note_markdown
from tests.note import sample
from tests.note.sample import OWN_MACHINE, PRICED, UNDECIDED, Measured, make_campaign, rewrite_attempts

INTERRUPTED = replace(
    OWN_MACHINE,
    configurations=(Measured("cpu", 1, 1.13), Measured("cpu", 4, 0.63, mishaps={2: Status.INTERRUPTED})),
)


@pytest.fixture
def own(tmp_path: Path) -> Campaign:
    return make_campaign(tmp_path / "campaign", OWN_MACHINE)


def rows_before(note: str, label: str) -> list[list[str]]:
    """Cells of the table that ends with `label`, without its header."""
    lines = note.partition(f"{{#{label}")[0].rpartition("|:---")[2].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| ")]


def test_m23_an_interrupted_pass_is_told_with_one_word_and_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 of 4 (1 not counted) beside 0 failures; `not counted` among the failures and among all attempts."""
    monkeypatch.setitem(sample._MISHAPS, Status.INTERRUPTED, "ended by a person")
    monkeypatch.setitem(sample._KINDS, Status.INTERRUPTED, "interrupted")
    note = note_markdown(make_campaign(tmp_path / "campaign", INTERRUPTED))
    glance = {row[0]: row[2] for row in rows_before(note, "tbl-glance")}
    assert glance == {"cpu.b1": "5 of 5", "cpu.b4": "4 of 4 (1 not counted)"}
    balance = {row[0]: row[1:3] for row in rows_before(note, "tbl-balance")}
    assert balance["cpu.b4"] == ["4 of 4 (1 not counted)", "0"]
    (missed,) = rows_before(note, "tbl-failures")
    (same,) = [row for row in rows_before(note, "tbl-attempts") if row[3] == missed[2]]
    assert "not counted" in missed and same[6] == "[not counted]{.none}"


def test_m21_a_disturbed_pass_is_marked_in_the_table_of_attempts(own: Campaign) -> None:
    """Each one, and what the word means stands under the table; without one, no such word."""
    assert "disturbed" not in note_markdown(own)

    def change(attempt: Attempt) -> Attempt:
        return attempt.model_copy(update={"device_shared": attempt.slot.pass_index == 1})

    rewrite_attempts(own, change)
    note = note_markdown(own)
    marked = {row[0].partition(".")[0] for row in rows_before(note, "tbl-attempts") if row[3].endswith(", disturbed")}
    others = [row[3] for row in rows_before(note, "tbl-attempts") if not row[0].startswith("2.")]
    assert marked == {"2"} and not [word for word in others if "disturbed" in word]
    assert "Disturbed: other processes used the device during the attempt." in note


def test_a_share_that_only_some_passes_have_is_shown_with_their_number(own: Campaign) -> None:
    """63.9 % of three passes is no dash; the passes without one keep their reason."""
    shares = iter([0.605, None, 0.639, None, 0.601])

    def change(attempt: Attempt) -> Attempt:
        if attempt.variant_id != "b4" or attempt.tokens is None:
            return attempt
        share = next(shares)
        reasons = {} if share else dict.fromkeys(("utilisation_real", "utilisation_executed"), "not measured")
        values = {"utilisation_real": share and share / 2, "utilisation_executed": share}
        return attempt.model_copy(update={"telemetry": values, "telemetry_reasons": reasons})

    rewrite_attempts(own, change)
    found = {row[0]: row[1:] for row in rows_before(note_markdown(own), "tbl-utilisation")}
    assert found["cpu.b4"][1:] == ["60.5% (3 of 5 passes)", "not measured"]
    assert found["cpu.b1"][1] == "31.0%", "where all passes have one, no number stands beside it"


def test_m44_page_1_of_an_undecided_note_says_what_the_names_stand_for(tmp_path: Path) -> None:
    page = note_markdown(make_campaign(tmp_path / "campaign", UNDECIDED)).partition("{.recheck}")[0]
    common = "fp32, attention sdpa, padding longest, at most 512 tokens"
    assert f"[b1: batch size 1; b4: batch size 4; all of them: {common}]{{.small-print}}" in page


def test_m44_cards_that_stay_unused_are_said_where_the_lot_is_priced(tmp_path: Path) -> None:
    """A lot of b200 has two cards, and one was measured."""
    only = replace(PRICED, configurations=tuple(m for m in PRICED.configurations if m.gpu == "b200"), unavailable=())
    page = note_markdown(make_campaign(tmp_path / "campaign", only)).partition("{.recheck}")[0]
    assert "; 1 of 2 GPUs stays unused]{.fact-below}" in page
    assert "stays unused" not in note_markdown(make_campaign(tmp_path / "other", PRICED))


def test_issue_5_10_the_example_offers_no_check_that_cannot_work(tmp_path: Path) -> None:
    """Nobody signed it: no command, and the words for it; a real note has the commands."""
    campaign = make_campaign(tmp_path / "campaign", UNDECIDED)
    example = build_note(campaign, example=True).qmd.read_text(encoding="utf-8")
    assert not re.search("sha256sum -c|ssh-keygen|pdfsig", example)
    assert "local test key" not in example and example.count("Nobody signed this example") == 2
    assert "sha256sum -c" in note_markdown(campaign)


def test_issue_5_10_the_made_up_verdicts_add_up(own: Campaign) -> None:
    """Right answers per stratum make the total; the intervals called Wilson's are Wilson's."""
    for path in own.verdicts.glob("*.json"):
        whole, *strata = Verdict.load(path).metrics
        hits = [int(metric.fraction.partition("/")[0]) for metric in (whole, *strata)]
        assert hits[0] == sum(hits[1:])
        for metric, right in zip((whole, *strata), hits, strict=True):
            low, high = wilson_interval(right, metric.documents)
            assert (float(metric.interval_low or 0), float(metric.interval_high or 0)) == (float(low), float(high))


def test_m24_our_words_behind_a_counter_are_in_the_language_of_the_note(own: Campaign) -> None:
    def change(attempt: Attempt) -> Attempt:
        peaks = tuple(peak.model_copy(update={"counter": f"VmHWM {BEFORE}"}) for peak in attempt.memory)
        return attempt.model_copy(update={"memory": peaks})

    rewrite_attempts(own, change)
    note = note_markdown(own, "de")
    assert {row[2] for row in rows_before(note, "tbl-memory")} == {"VmHWM vor dem Durchlauf"}
    assert BEFORE not in note
