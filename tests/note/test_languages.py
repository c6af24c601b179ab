"""Four languages: complete catalogues, one formatter, golden notes."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from babel.messages.plurals import get_plural

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.signing import DATA_VARIABLE
from runner.note.build import note_markdown
from runner.note.format import Formatter
from runner.note.i18n import Catalogue, load_catalogue, read_catalogue
from runner.note.messages import update, wanted
from tests.note.sample import ALL_FAILED, PRICED, UNDECIDED, Sample, make_campaign

GOLDEN = Path(__file__).parent / "golden"
LANGUAGES = ("de", "tr", "fr")
HASHES = re.compile(r"\b[0-9a-f]{64}\b|(?<=-r1-)[0-9a-f]{12}\b")
PLACES = re.compile(r"%\(\w+\)s|\{\w+\}|@(?:sec|tbl|fig)-[\w-]+|`[^`]+`|\*\*")


def forms(message: Message, field: str) -> list[str]:
    value = getattr(message, field)
    return list(value) if isinstance(value, tuple | list) else [value or ""]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_translated_and_keeps_its_places(templates: Path, language: str) -> None:
    catalogue = read_catalogue(templates / "locale" / f"{language}.po")
    there = {str(message.id): message for message in catalogue if message.id}
    needed = {str(message.id) for message in wanted(templates) if message.id}
    assert set(there) == needed, "run python -m runner.note.messages"
    assert catalogue.num_plurals == get_plural(language).num_plurals
    for message in there.values():
        assert not message.fuzzy and not message.flags & {"fuzzy"}
        strings = forms(message, "string")
        assert all(strings), message.id
        if isinstance(message.id, tuple):
            assert len(strings) == catalogue.num_plurals
        wanted_places = sorted(PLACES.findall(forms(message, "id")[-1]))
        for string in strings:
            assert sorted(PLACES.findall(string)) == wanted_places, message.id


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ("1,234.57", "88.7%", "2,071.00~USD", "9~October 2026, 12:00~Europe/Berlin", "12~min~05~s")),
        ("de", ("1.234,57", "88,7~%", "2.071,00~USD", "9.~Oktober 2026, 12:00~Europe/Berlin", "12~min~05~s")),
        ("tr", ("1.234,57", "%88,7", "2.071,00~USD", "9~Ekim 2026, 12:00~Europe/Berlin", "12~min~05~s")),
        ("fr", ("1\u202f234,57", "88,7~%", "2\u202f071,00~USD", "9~octobre 2026, 12:00~Europe/Berlin", "12~min~05~s")),
    ],
)
def test_numbers_money_dates_and_durations(language: str, expected: tuple[str, ...]) -> None:
    fmt = Formatter(language)
    found = (fmt.decimal("1234.565", 2), fmt.percent("0.8865"), fmt.money("2071", "USD"),
             fmt.local_instant("2026-10-09T10:00:00Z", "Europe/Berlin"), fmt.duration(725))  # fmt: skip
    assert found == tuple(text.replace("~", "\u00a0") for text in expected)


@pytest.mark.parametrize(
    ("language", "expected"),
    [("en", ("Mon 4 Oct, 09:00", "4 Oct, 07:00:00")), ("de", ("Mo. 4. Okt., 09:00", "4. Okt., 07:00:00")),
     ("tr", ("4 Eki Pzt, 09:00", "4 Eki, 07:00:00")), ("fr", ("lun. 4 oct., 09:00", "4 oct., 07:00:00"))],
)  # fmt: skip
def test_short_dates_are_written_as_each_language_does(language: str, expected: tuple[str, str]) -> None:
    """Issue 5.4: dates of tables and of the calendar figure."""
    fmt, instant = Formatter(language), "2027-10-04T07:00:00Z"
    assert (fmt.calendar_time(instant, "Europe/Berlin"), fmt.short_instant(instant)) == expected


def test_half_up_small_prices_and_bytes() -> None:
    fmt = Formatter("en")
    assert (fmt.decimal("0.125", 2), fmt.decimal("-0.004", 2), fmt.plain("0.90")) == ("0.13", "0.00", "0.90")
    assert fmt.money("0.0125", "USD") == "0.0125\u00a0USD"
    assert (fmt.bytes(1023), fmt.bytes(1536 << 20), fmt.bytes(24 << 30)) == (
        "1,023\u00a0B", "1.50\u00a0GiB", "24.0\u00a0GiB")  # fmt: skip
    assert (fmt.hours(345600), fmt.hours(253800), fmt.duration("0.512")) == ("96\u00a0h", "70.5\u00a0h", "0.51\u00a0s")


@pytest.mark.parametrize(("language", "point"), [("en", "."), ("de", ","), ("tr", ","), ("fr", ",")])
def test_a_window_of_seconds_is_never_said_to_be_zero_hours(language: str, point: str) -> None:
    """M34: the demo's window of 12 s reads `12 s`, not `0 h`; nothing is still `0 h`, and a whole hour `1 h`."""
    found = [Formatter(language).hours(size) for size in ("12", "12.34", "-0.5", "270", "-1800", "3599.7", "3600", "0")]
    shown = ["12 s", f"12{point}3 s", f"\u22120{point}5 s", "4 min 30 s", "\u221230 min", "1 h", "1 h", "0 h"]
    assert found == [text.replace(" ", "\u00a0") for text in shown]


def test_m35_no_rounding_makes_a_window_fit_a_package() -> None:
    """M35: 72 h and a second do not fit 3 days, and slack of 20 s less than a day is no day: neither reads whole."""
    fmt = Formatter("en")
    found = [fmt.hours(size) for size in ("259200", "259201", "259199.6", "259200.0004", "86380", "-259201", "253845")]
    wanted = ["72 h", "72 h 1 s", "71 h 59 min 59.6 s", "72 h", "23 h 59 min 40 s", "\u221272 h 1 s", "70.5 h"]
    assert found == [text.replace(" ", "\u00a0") for text in wanted]


@pytest.mark.parametrize("language", ("en", *LANGUAGES))
@pytest.mark.parametrize(("name", "sample"), [("priced", PRICED), ("undecided", UNDECIDED), ("all-failed", ALL_FAILED)])
def test_golden_note(tmp_path: Path, language: str, name: str, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole Markdown, word by word. `UPDATE_GOLDEN=1` writes it again: read the difference before committing."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "no keys yet"))
    text = HASHES.sub("...", note_markdown(make_campaign(tmp_path / "c", sample), language))
    path = GOLDEN / f"{name}.{language}.qmd"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8")
    assert text == expected, "\n".join(difflib.unified_diff(expected.split("\n"), text.split("\n"), lineterm="", n=0))


def test_an_unknown_language_is_refused_with_the_list(campaign: Campaign, templates: Path) -> None:
    with pytest.raises(InputRefused, match="no catalogue") as refused:
        note_markdown(campaign, "it")
    assert "de, en, fr, tr" in str(refused.value)
    with pytest.raises(InputRefused, match="not a language code"):
        load_catalogue(templates, "../../etc/passwd")


def test_a_new_language_starts_from_an_empty_file(tmp_path: Path, templates: Path) -> None:
    """docs/templates.md, `Languages`."""
    path = tmp_path / "it.po"
    path.write_text("", encoding="utf-8")
    count, missing = update(path, templates)
    assert count == missing > 400
    assert "Plural-Forms" in path.read_text(encoding="utf-8")


def test_what_is_missing_is_shown_in_english_and_listed() -> None:
    catalogue = Catalogue("it")
    assert catalogue.gettext("%(count)s cards", count="2") == "2 cards"
    assert catalogue.missing == {"%(count)s cards"}


def test_a_broken_catalogue_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "de.po"
    path.write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(InputRefused, match="PO catalogue"):
        read_catalogue(path)
