"""Page 1 tells all times in one zone; what was done once is told once; no section contradicts another (M44)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.decide.model import BalanceRow, TaskHappened
from runner.decide.sentences import say
from runner.note.format import Formatter
from runner.note.i18n import Catalogue, load_catalogue
from runner.note.parts.rental import _common, _happened
from runner.note.words import Speaker

GOLDEN = Path(__file__).parent / "golden"
TEMPLATES = Path(__file__).parents[2] / "templates"


@pytest.mark.parametrize("situation", ["priced", "undecided", "all-failed"])
@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_m44_page_one_has_one_time_zone(situation: str, language: str) -> None:
    page = (GOLDEN / f"{situation}.{language}.qmd").read_text(encoding="utf-8").partition("{.recheck}")[0]
    assert "Europe/Berlin" in page and "UTC" not in page


def test_a_time_of_the_decision_is_told_in_the_zone_of_the_plan() -> None:
    reason = say(
        "chosen.in-time",
        window_elapsed_seconds="345600",
        delivered_utc="2026-10-09T09:00:00Z",
        slack_elapsed_seconds="3600",
    )
    assert "09:00\u00a0UTC" in Speaker(Catalogue("en"), Formatter("en")).sentence(reason)
    local = Speaker(Catalogue("en"), Formatter("en"), zone="Europe/Berlin").sentence(reason)
    assert "11:00\u00a0Europe/Berlin" in local and "UTC" not in local


def task(kind: str, seconds: str) -> TaskHappened:
    return TaskHappened(
        task_id=kind, title=kind, kind=kind, planned_start_utc="2026-10-05T07:00:00Z",
        planned_end_utc="2026-10-05T08:00:00Z", planned_seconds="3600", actual_seconds=seconds,
    )  # fmt: skip


def test_m17_installing_is_told_once_and_was_before_the_attempts() -> None:
    """One `make setup` served all configurations; warming up was part of the attempts of each."""
    speaker = Speaker(Catalogue("en"), Formatter("en"))
    rows: list[Any] = [
        SimpleNamespace(configuration_id=name, happened=(task("installation", "200"), task("warm_up", seconds)))
        for name, seconds in (("cpu.b1", "30"), ("cpu.b4", "20"))
    ]
    found = _common([line for row in rows for line in _happened(cast(BalanceRow, row), speaker)], speaker)
    assert [(row["name"], row["task"], row["since"]) for row in found] == [
        ("cpu.b1, cpu.b4", "installation", "before the first attempt"),
        ("cpu.b1", "warm_up", "spread over the attempts"),
        ("cpu.b4", "warm_up", "spread over the attempts"),
    ]


def test_m44_a_note_without_a_choice_gives_nothing_to_rent_and_nothing_to_confirm() -> None:
    """Only the own machine was measured: no word about a rental that does not exist in what follows."""
    page = (GOLDEN / "all-failed.en.qmd").read_text(encoding="utf-8")
    follows = page.partition("{#sec-next}")[2].partition("{#sec-limits}")[0]
    assert "nothing follows from this note" in follows and "nothing to confirm yet" in follows
    assert "rent" not in follows.lower()


@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_rule_11_an_own_machine_has_no_access_window_in_any_language(language: str) -> None:
    """The word for the window is that of the catalogue itself: it stands in no reason of an own machine."""
    t = load_catalogue(TEMPLATES, language)
    speaker = Speaker(t, Formatter(language))
    own = speaker.sentence(
        say("chosen.in-time-own", delivered_utc="2026-10-09T09:00:00Z", slack_elapsed_seconds="3600")
    )
    rented = say(
        "chosen.in-time",
        window_elapsed_seconds="345600",
        delivered_utc="2026-10-09T09:00:00Z",
        slack_elapsed_seconds="3600",
    )
    word = t.gettext("window").lower()
    assert word in speaker.sentence(rented).lower() and word not in own.lower()
    assert "2026" in own and "1\u00a0" in own


@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_rule_3_no_configuration_without_an_accepted_pass_meets_a_deadline(language: str) -> None:
    """The matrix of a campaign in which everything failed: the deadline rests on the plan alone, so it is open."""
    t = load_catalogue(TEMPLATES, language)
    note = (GOLDEN / f"all-failed.{language}.qmd").read_text(encoding="utf-8")
    matrix = note.partition("{#tbl-matrix")[0].rpartition("|:---|")[0].rpartition("\n\n")[2]
    heads = [cell.strip() for cell in matrix.splitlines()[0].strip("| ").split("|")]
    rows = note.partition("{#tbl-matrix")[0].rpartition("|:---|")[2].strip().splitlines()
    rows = [row for row in rows if row.startswith("|") and "{." in row]
    place = heads.index(t.gettext("Deadline"))
    found = {row.strip("| ").split("|")[place].strip() for row in rows}
    assert found == {f"[{t.gettext('open')}]{{.open}}"}
    assert speaker_sentence(language) in note


def speaker_sentence(language: str) -> str:
    """Start of the reason for the open deadline, as the note says it."""
    reason = say("deadline.as-planned", slack_elapsed_seconds="0")
    return Speaker(load_catalogue(TEMPLATES, language), Formatter(language)).sentence(reason).partition(";")[0].rstrip()


@pytest.mark.parametrize(
    ("window", "busy", "shown"),
    [
        (345600, "103500", ("28 h 45 min", "67 h 15 min")),
        (345600, "68464", ("19 h 01 min", "76 h 59 min")),
        (345600, "40", ("40 s", "95 h 59 min 20 s")),
        (3600, "3600", ("1 h", "0 h")),
    ],
)
def test_m34_busy_and_waiting_add_up_to_the_window_as_shown(window: int, busy: str, shown: tuple[str, str]) -> None:
    """28.75 h and 67.25 h, each rounded by itself, would add up to more than 96 h."""
    found = Formatter("en").parts_of(str(window), busy)
    assert tuple(text.replace("\u00a0", " ") for text in found) == shown


@pytest.mark.parametrize(("language", "words"), [("en", "drop 0"), ("de", "Abfall 0"), ("fr", "baisse 0")])
def test_a_check_is_called_by_its_word_and_a_minimum_as_it_was_frozen(language: str, words: str) -> None:
    speaker = Speaker(load_catalogue(TEMPLATES, language), Formatter(language))
    drop = {"metric": "drop", "value": "0.000", "minimum": "0.01", "corpus": "final", "name": "cpu.b1"}
    assert words in speaker.sentence(say("what-if.quality-all", **drop))
    group = {"metric": "accuracy", "value": "0.850", "minimum": "0.80", "group": "stratum=long"}
    text = speaker.sentence(say("what-if.quality", corpus="final", name="cpu.b1", **group))
    assert "stratum = long" in text and f"{Formatter(language).plain('0.80')}" in text


def test_m24_no_counter_is_called_unread_where_nothing_was_measured_or_accepted() -> None:
    """And tokens that accepted passes do not report are not told as a want of accepted passes."""
    failed = (GOLDEN / "all-failed.en.qmd").read_text(encoding="utf-8")
    assert "No pass was accepted: no peak of one can be shown." in failed
    assert "could be read in an accepted pass" not in failed
    work = (TEMPLATES / "sections" / "work.qmd").read_text(encoding="utf-8")
    assert work.index("not durations.accepted") < work.index("No pass was accepted: no token is counted")
