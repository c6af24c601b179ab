"""Page 1 of an own machine, and without an accepted pass: every cell of the box and of the table (M44, rules 3 and 11).

The cells are read from the note's text, where it is told what they must hold: not compared with a stored note.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runner.evidence.attempt import Status
from runner.note.build import OWN_TEMPLATES, note_markdown
from runner.note.format import Formatter
from runner.note.i18n import Catalogue, load_catalogue
from tests.note.sample import ALL_FAILED, OWN_MACHINE, PRICED, Measured, Sample, make_campaign

LANGUAGES = ["en", "de", "fr", "tr"]
PART = re.compile(r"\[(.*?)\]\{\.fact-(label|value|below)\}")
NO_BREAK = "\u00a0"
RENTED_FAILED = replace(
    PRICED,
    configurations=(
        Measured("rtx-4090", 1, 9120.0, mishaps=dict.fromkeys(range(5), Status.TIMED_OUT)),
        Measured("b200", 4, 2140.0, accuracy=702),
    ),
    unavailable=(),
    memory_samples=False,
)
"""Two priced GPUs: one times out in every attempt, the answers of the other are refused."""

Facts = dict[str, tuple[str, str]]


def page_of(folder: Path, sample: Sample, language: str) -> str:
    return note_markdown(make_campaign(folder / "campaign", sample), language).partition("{.recheck}")[0]


def facts(page: str) -> Facts:
    """Value and line below of every cell of the box, by its label."""
    cells: list[dict[str, str]] = []
    for text, part in PART.findall(page):
        if part == "label":
            cells.append({})
        cells[-1][part] = text.replace("\\", "")  # marks that keep a full stop from making a list
    return {cell["label"]: (cell["value"], cell.get("below", "")) for cell in cells}


def table(page: str) -> tuple[list[str], list[dict[str, str]]]:
    """Heads and rows of the small table; marks around a word are left out."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    plain = [[re.sub(r"^\[(.*)\]\{.*\}$", r"\1", cell) for cell in row] for row in rows]
    return heads, [dict(zip(heads, row, strict=True)) for row in plain]


def words(language: str) -> tuple[Catalogue, Formatter]:
    return load_catalogue(OWN_TEMPLATES, language), Formatter(language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_rule_11_page_one_of_an_own_machine_rents_nothing(tmp_path: Path, language: str) -> None:
    page = page_of(tmp_path, OWN_MACHINE, language)
    t, fmt = words(language)
    found = facts(page)
    none, own = t.gettext("not applicable"), t.gettext("own machine: nothing is rented")
    assert found[t.gettext("Access window")] == (none, own)
    for label in ("Package", "Committed cost"):
        value, why = found[t.gettext(label)]
        assert value == none and why.startswith(own.partition(":")[0].rstrip()), "what does not apply says why"
    value, spare = found[t.gettext("Deadline")]
    assert value == fmt.local_instant("2026-10-09T10:00:00Z", "Europe/Berlin")
    hour = t.gettext("%(slack)s to spare", slack=fmt.hours("3600"))
    assert spare == t.gettext("%(spare)s by the plan’s calendar, if it starts as planned", spare=hour)
    assert found[t.gettext("Covered load")][0] == t.ngettext("%(count)s document", "%(count)s documents", 1000,
                                                             count=fmt.integer(1000))  # fmt: skip
    heads, rows = table(page)
    assert heads == [t.gettext(head) for head in ("Option", "Result", "Accepted passes", "Median")]
    assert [row[t.gettext("Result")] for row in rows].count(t.gettext("chosen")) == 1
    assert "USD" not in page


@pytest.mark.parametrize("language", LANGUAGES)
def test_rule_3_page_one_of_an_own_machine_without_an_accepted_pass(tmp_path: Path, language: str) -> None:
    page = page_of(tmp_path, ALL_FAILED, language)
    t, _ = words(language)
    found = facts(page)
    none = t.gettext("not applicable")
    for label in ("Access window", "Package", "Committed cost"):
        assert found[t.gettext(label)] == (none, t.gettext("own machine: nothing is rented"))
    assert found[t.gettext("Configuration")][0] == t.gettext("undecided")
    assert found[t.gettext("Deadline")][1] == t.gettext("as planned: no accepted pass shows it")
    assert found[t.gettext("Covered load")][0] == t.ngettext("%(count)s document", "%(count)s documents", 0, count="0")
    heads, rows = table(page)
    assert len(heads) == 4 and len(rows) == 2
    for row in rows:
        assert row[t.gettext("Result")] == t.gettext("not admissible")
        assert row[t.gettext("Median")] == "–"
        assert row[t.gettext("Accepted passes")] == t.gettext("%(accepted)s of %(all)s", accepted="0", all="5")


@pytest.mark.parametrize("language", LANGUAGES)
def test_rule_3_page_one_of_rentals_without_an_accepted_pass_has_the_plan_only(tmp_path: Path, language: str) -> None:
    """The planned window is called so; no option shows a window, a spare time or a delivery that nothing showed."""
    page = page_of(tmp_path, RENTED_FAILED, language)
    t, fmt = words(language)
    found = facts(page)
    planned = t.gettext("as planned: no accepted pass shows it")
    assert found[t.gettext("Access window")] == (fmt.hours(96 * 3600), planned)
    assert found[t.gettext("Deadline")][1] == planned
    assert found[t.gettext("Committed cost")] == (t.gettext("open"), t.gettext("nothing is committed"))
    assert found[t.gettext("Package")][0] == t.gettext("open")
    assert found[t.gettext("Covered load")][0] == t.ngettext("%(count)s document", "%(count)s documents", 0, count="0")
    heads, rows = table(page)
    assert heads[4:] == [t.gettext(head) for head in ("Window", "To spare", "Committed cost")]
    for row in rows:
        assert [row[t.gettext(head)] for head in ("Median", "Window", "To spare")] == ["–"] * 3
        assert row[t.gettext("Result")] == t.gettext("not admissible")


def test_the_english_words_of_these_cells(tmp_path: Path) -> None:
    """Once word by word, so that the tests above do not only compare the catalogue with itself."""
    own = facts(page_of(tmp_path / "own", OWN_MACHINE, "en"))
    assert own["Access window"] == ("not applicable", "own machine: nothing is rented")
    spare = f"1{NO_BREAK}h to spare by the plan’s calendar, if it starts as planned"
    assert own["Deadline"] == (f"9{NO_BREAK}October 2026, 12:00{NO_BREAK}Europe/Berlin", spare)
    failed = facts(page_of(tmp_path / "failed", RENTED_FAILED, "en"))
    assert failed["Access window"] == (f"96{NO_BREAK}h", "as planned: no accepted pass shows it")
    assert failed["Committed cost"] == ("open", "nothing is committed")
    assert failed["Covered load"][0] == "0 documents"
