"""Pages are well filled (issue 5.1 and 5.3): no half empty page before a figure, no heading alone at a foot.

Seen from outside, in the PDF: rows of pixels with ink, and lines of text.
"""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import runner.note.pdf
from runner.evidence.campaign import Campaign
from runner.evidence.signing import signing_key
from runner.note import pages
from runner.note.build import build_note
from tests.note.sample import OWN_MACHINE, PRICED, make_campaign

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example"
LANGUAGES = ("en", "de", "tr", "fr")
MOST_WHITE = 0.20
LEAST_OF_THE_LAST = 0.25
_TOP, _FOOT, _SHEET = 17, 17.5, 297  # mm: margins of the page, and its height
_DPI = 40
_DARK = 200  # the mark behind an example is lighter


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    made = make_campaign(tmp_path_factory.mktemp("pages") / "campaign", OWN_MACHINE)
    signing_key(made, {})
    return made


def white_feet(pdf: Path) -> list[float]:
    """Share of the height between the margins that is white at the foot, per page."""
    done = subprocess.run(["pdftoppm", "-r", str(_DPI), "-gray", str(pdf)], capture_output=True, check=True)
    found, data = [], done.stdout
    while data:
        head = re.match(rb"P5\s+(\d+)\s+(\d+)\s+255\s", data)
        assert head is not None
        width, height = int(head[1]), int(head[2])
        picture, data = data[head.end() : head.end() + width * height], data[head.end() + width * height :]
        top, foot = round(height * _TOP / _SHEET), round(height * (_SHEET - _FOOT) / _SHEET)
        row = foot
        while row > top and min(picture[row * width : (row + 1) * width]) >= _DARK:
            row -= 1
        found.append((foot - row) / (foot - top))
    return found


def lines_of_pages(pdf: Path) -> list[list[str]]:
    """Lines of text of every page without its running head and foot."""
    done = subprocess.run(["pdftotext", "-layout", str(pdf), "-"], capture_output=True, check=True, encoding="utf-8")
    found = [[" ".join(line.split()) for line in page.splitlines()] for page in done.stdout.split("\f")[:-1]]
    return [[line for line in page if line][1:-1] for page in found]


def headings(html: Path) -> set[str]:
    """Numbered headings as a line of text has them."""
    found = re.findall(r"<h[23][^>]*>(.*?)</h[23]>", html.read_text(encoding="utf-8"), re.DOTALL)
    plain = {" ".join(re.sub(r"<[^>]+>", "", text).split()) for text in found}
    return {text for text in plain if re.match(r"\d", text)}


def check(pdf: Path, html: Path) -> None:
    whites, known = white_feet(pdf), headings(html)
    assert len(known) > 15
    assert [(number, round(white, 3)) for number, white in enumerate(whites[:-1], 1) if white >= MOST_WHITE] == []
    assert 1 - whites[-1] >= LEAST_OF_THE_LAST, "the last page is nearly empty"
    for number, lines in enumerate(lines_of_pages(pdf)[1:-1], 2):
        assert not known & set(lines[-2:]), f"page {number} ends with a heading: {lines[-2:]}"


def test_the_pages_of_the_example_are_well_filled() -> None:
    """Issue 5.10: as shipped."""
    check(EXAMPLE / "decision-note.pdf", EXAMPLE / "decision-note.html")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pages_of_the_own_machine_are_well_filled(own: Campaign, language: str) -> None:
    """Issue 5.4: in every language, whose words are of other lengths."""
    note = build_note(own, language)
    check(note.pdf, note.html)


def test_heights_add_up_to_the_pages_that_weasyprint_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arithmetic knows every page before and after figures moved, to a hundredth of its height."""
    seen: list[tuple[list[float], list[float]]] = []

    def compare(laid_out: Any) -> None:
        blocks, room = pages._measured(laid_out)
        real = [pages._white(page) for page in laid_out[1:]]
        seen.append(([white / room for white in pages._whites(blocks, room)], real))

    def arranged(laid_out: Any) -> pages.Arrangement | None:
        compare(laid_out)
        return pages.arranged(laid_out)

    def cost(laid_out: Any) -> float:
        compare(laid_out)
        return pages.cost(laid_out)

    monkeypatch.setattr(runner.note.pdf, "arranged", arranged)
    monkeypatch.setattr(runner.note.pdf, "cost", cost)
    campaign = make_campaign(tmp_path / "campaign", PRICED)
    signing_key(campaign, {})
    build_note(campaign, "de")
    assert len(seen) == 3, "laid out, arranged, and both compared"
    for reckoned, real in seen:
        assert len(reckoned) == len(real) > 10
        for one, other in zip(reckoned, real, strict=True):
            # A block that goes on over the page's end fills its page, whatever its last line leaves free.
            assert other == 0 or one == pytest.approx(other, abs=0.01)


def test_figures_stay_in_order_and_in_their_section() -> None:
    """A figure may pass words and tables of its section on paper, never a section or another figure."""
    html = (EXAMPLE / "decision-note.html").read_text(encoding="utf-8")
    wanted = re.findall(r'<h2 id="(sec-[^"]+)"|<figure id="(fig-[^"]+)"', html)
    order = [section or figure for section, figure in wanted]
    numbers = dict(re.findall(r'<h2 id="(sec-[^"]+)"><span class="section-number">(\d+)</span>', html))
    captions = dict(re.findall(r'<figure id="([^"]+)">.*?<span class="label">([^<]+)</span>', html, re.DOTALL))
    text = "\n".join(line for page in lines_of_pages(EXAMPLE / "decision-note.pdf")[1:] for line in page)
    text = text[text.index("\n1 ", text.index("16 Fingerprints")) :]  # behind the contents
    places = []
    for name in order:
        pattern = rf"^{numbers[name]} \D" if name in numbers else rf"^{captions[name]} "
        found = re.search(pattern, text[places[-1] if places else 0 :], re.MULTILINE)
        assert found is not None, f"{name} does not follow what stands before it in the text"
        places.append((places[-1] if places else 0) + found.start() + 1)
    assert all(a < b for a, b in pairwise(places)) and len(places) > 20
