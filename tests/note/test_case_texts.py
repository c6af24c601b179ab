"""NO-01, NO-04, NO-06: whatever stands in a note or an id is shown literally, in the HTML and in the PDF."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from runner.note.build import NoteFiles, build_note
from tests.note.sample import OWN_MACHINE, make_campaign, rewrite_attempts

CASES = Path(__file__).resolve().parents[1] / "cases"


class Elements(HTMLParser):
    """Names of the elements, their text, and whether every table is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.open_tables = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.open_tables += tag == "table"

    def handle_endtag(self, tag: str) -> None:
        self.open_tables -= tag == "table"
        assert self.open_tables >= 0

    def handle_data(self, data: str) -> None:
        self.text += data


def elements(html: str) -> Elements:
    found = Elements()
    found.feed(html)
    return found


def pdf_text(pdf: Path) -> str:
    done = subprocess.run(["pdftotext", str(pdf), "-"], capture_output=True, check=True)
    return done.stdout.decode("utf-8")


def squeezed(text: str) -> str:
    """Without any blank: line breaks inside of cells do not matter."""
    return re.sub(r"\s+", "", text)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used while rendering")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_markup_in_notes_is_shown_literally(tmp_path: Path, note: NoteFiles) -> None:
    """NO-01: tags, crossed tags, a script, a closing table, a remote picture, and our own markup."""
    lines = (CASES / "NO-01" / "notes.txt").read_text(encoding="utf-8").splitlines()
    ours = ["{{ decision }} {% raw %}", "| a | b |", "`code` **bold** _it_ [x](http://e.invalid)", "@fig-x {#y} ::: \\"]
    built = with_notes(tmp_path / "strange", "en", *lines, *ours)

    html = built.html.read_text(encoding="utf-8")
    page, plain_page = elements(html), elements(note.html.read_text(encoding="utf-8"))
    assert "&lt;script&gt;" in html
    assert page.names.count("script") == 0 and page.names.count("img") == 0
    assert page.names == plain_page.names, "the page keeps its structure"
    shown, printed = squeezed(page.text), squeezed(pdf_text(built.pdf))
    for line in (*lines, *ours):
        assert squeezed(line) in shown
        assert squeezed(line) in printed
    assert "<title>X</title>" not in html


def with_notes(root: Path, language: str, *notes: str) -> NoteFiles:
    """A note in which the failed attempt carries these notes."""
    campaign = make_campaign(root, OWN_MACHINE)
    rewrite_attempts(campaign, lambda a: a.model_copy(update={"notes": notes if a.error else ()}))
    return build_note(campaign, language)


TURKISH = (CASES / "NO-04" / "notes.txt").read_text(encoding="utf-8").splitlines()
LONG_NOTE = (CASES / "NO-06" / "notes.txt").read_text(encoding="utf-8").strip()
LONG_ROW = next(
    row.split(",")
    for row in (CASES / "NO-06" / "corpus.csv").read_text(encoding="utf-8").splitlines()
    if row.startswith("AAA")
)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> NoteFiles:
    """A Turkish note with letters, signs and lengths that break other tools."""
    root = tmp_path_factory.mktemp("strange") / "c"
    return with_notes(root, "tr", *TURKISH, "Chinese 中 and emoji 😀", LONG_NOTE, LONG_ROW[0], LONG_ROW[1])


def test_turkish_letters_and_the_lira_sign_are_in_our_fonts(strange: NoteFiles) -> None:
    """NO-04: shown by embedded fonts; what no font has is shown by its number, with a warning."""
    printed, html = squeezed(pdf_text(strange.pdf)), strange.html.read_text(encoding="utf-8")
    for line in TURKISH:
        assert squeezed(line) in printed
        assert line in html
    assert '<html lang="tr">' in html
    assert "ChineseU+4E2DandemojiU+1F600" in printed
    assert "\ufffd" not in printed and "\u25a0" not in printed
    assert strange.warnings == ("not in the note's fonts, shown by number: U+4E2D, U+1F600",)


def test_long_tokens_stay_on_the_page(strange: NoteFiles) -> None:
    """NO-06: a 256-digit hex string complete, an id of 300 letters complete, a long text shortened by rule."""
    identifier, text = LONG_ROW[0], LONG_ROW[1]
    assert len(identifier) == 300 and len(text) == 5000
    printed = squeezed(pdf_text(strange.pdf))
    assert LONG_NOTE in printed
    assert identifier in printed
    assert "x" * 400 + "…(5000karakter)" in printed
    assert right_margin(strange.pdf) >= RIGHT_MARGIN_POINTS - 0.5, "inside the text column, not only on the sheet"


RIGHT_MARGIN_POINTS = 18 / 25.4 * 72  # templates/style.css, @page


def right_margin(pdf: Path) -> float:
    """Points between the rightmost word of any page and the page's edge; below 0 it runs out."""
    done = subprocess.run(["pdftotext", "-bbox", str(pdf), "-"], capture_output=True, text=True, check=True)
    width = min(float(found) for found in re.findall(r'<page width="([\d.]+)"', done.stdout))
    return width - max(float(found) for found in re.findall(r'xMax="([\d.]+)"', done.stdout))
