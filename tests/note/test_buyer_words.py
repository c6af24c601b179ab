"""What a buyer asks of a note: why the time decides, who sells, what a file is for (M36, M37, M44, rule 11)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.evidence.campaign import Campaign
from runner.note.build import note_markdown
from runner.note.format import Formatter
from tests.note.sample import PRICED, Measured, Sample, make_campaign
from tests.note.test_true_tables import rows_before

MIXED = replace(
    PRICED, configurations=(Measured("rtx-4090", 1, 9000.0), Measured("cpu", 4, 8900.0, spread=0.1)), unavailable=()
)


def written(tmp_path: Path, made: Sample, language: str = "en") -> str:
    return note_markdown(make_campaign(tmp_path / "campaign", made), language)


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return make_campaign(tmp_path_factory.mktemp("priced") / "campaign", PRICED)


def test_m37_an_inadmissible_configuration_has_no_cost_per_corpus(priced: Campaign) -> None:
    """Two passes of five are no option: its corpora could not be bought at that price (M24, M42)."""
    note = note_markdown(priced)
    rows = {row[0]: row for row in rows_before(note, "tbl-balance")}
    assert [rows["rtx-4090.b8"][place] for place in (6, 7, 8)] == ["110.00\u00a0USD", "–", "no"]
    assert rows["rtx-4090.b1"][7] == "110.00\u00a0USD"
    assert "a dash stands where a condition is not met" in note


def test_rule_11_an_own_machine_beside_rentals_has_no_window(tmp_path: Path) -> None:
    note = written(tmp_path, MIXED)
    glance = {row[0]: row for row in rows_before(note, "tbl-glance")}
    assert (glance["cpu.b4"][4], glance["cpu.b4"][6]) == ("–", "not applicable")
    assert glance["rtx-4090.b1"][4] == "96\u00a0h"
    assert {row[0]: row[4] for row in rows_before(note, "tbl-balance")}["cpu.b4"] == "–"


def test_m36_what_nobody_stated_of_the_offer_is_said_and_never_invented(priced: Campaign, tmp_path: Path) -> None:
    found = dict(rows_before(note_markdown(priced), "tbl-purchase"))
    assert [found[name] for name in ("Provider", "Order number", "Price valid until")] == ["not stated"] * 3
    assert found["Tax"].startswith("not stated")
    price = "110.00\u00a0USD per lot, catalogue of 24\u00a0September 2026, source: “catalogue”"
    assert found["Price of rtx-4090 for 7 days"] == price
    assert (
        "110.00\u00a0USD per lot, price of 24\u00a0September 2026" in note_markdown(priced).partition("# Question")[0]
    )
    named = make_campaign(tmp_path / "named", PRICED)
    plan = named.plan.read_text(encoding="utf-8").replace('zone = "', 'provider = "Example Cloud"\nzone = "', 1)
    named.plan.write_text(plan, encoding="utf-8")
    assert dict(rows_before(note_markdown(named), "tbl-purchase"))["Provider"] == "“Example Cloud”"


def test_m36_nothing_is_bought_where_nothing_is_rented(campaign: Campaign) -> None:
    """The rental record of an own machine's archive is explained, and its days are not confirmed (AU 20)."""
    note = note_markdown(campaign)
    assert "tbl-purchase" not in note and "whatever somebody" not in note
    assert "An archive of this note holds a rental record all the same" in note and "its amount must be 0" in note


@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_rule_11_the_calendar_of_an_own_machine_is_said_to_be_the_plans(campaign: Campaign, language: str) -> None:
    """Deadline and reserve beside `not applicable` windows come from the plan, not from a rental (AU 18)."""
    words = {
        "en": "calendar of the plan",
        "de": "Kalender des Plans",
        "fr": "calendrier du plan",
        "tr": "planın takvim",
    }
    note = note_markdown(campaign, language).casefold()
    assert note.count(words[language].casefold()) >= 3, "reasons, what would change, section on the window"


def test_m35_a_headline_of_two_periods_names_both(tmp_path: Path) -> None:
    """2 x 7 days cost 220.00: `for 7 days: 220.00 USD` would be a price that nobody asks."""
    longer = MIXED.plan.replace('start = "2026-10-09T08:00"', 'start = "2026-10-13T08:00"')
    plan = longer.replace('zone = "', 'extra_periods = 1\nzone = "', 1)
    note = written(tmp_path, replace(MIXED, plan=plan, deadline="2026-10-20T12:00"))
    assert "# Rent 1 lot of rtx-4090 for 2 × 7 days: 220.00\u00a0USD" in note
    assert "[2 × 7 days, 1 lot (1 GPU)]{.fact-value}" in note


@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_issue_5_every_file_that_comes_with_the_note_is_explained(campaign: Campaign, language: str) -> None:
    rows = rows_before(note_markdown(campaign, language), "tbl-files")
    told = " ".join(row[0] for row in rows)
    for name in ("attempts-spreadsheet.csv", "calculator.html", "signer.json", "plan.ics", "SHA256SUMS.sig"):
        assert f"note/{name}" in told
    assert all(what and whom for _, what, whom in rows)


def test_a_subgroup_is_explained_once(campaign: Campaign) -> None:
    said = "stratum = short are the documents that have short in the column [stratum]{.code} of the corpus."
    assert note_markdown(campaign).count(said) == 1


@pytest.mark.parametrize(("language", "three", "either"), [
    ("en", "a, b and c", "a or b"), ("de", "a, b und c", "a oder b"),
    ("fr", "a, b et c", "a ou b"), ("tr", "a, b ve c", "a veya b"),
])  # fmt: skip
def test_names_in_a_sentence_are_joined_as_the_language_does(language: str, three: str, either: str) -> None:
    fmt = Formatter(language)
    assert fmt.listed(["a", "b", "c"]) == three and fmt.listed(["a", "b"], "or") == either and fmt.listed(["a"]) == "a"
