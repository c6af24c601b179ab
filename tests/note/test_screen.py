"""The HTML in a real browser: WCAG AA by axe, phone and desktop, light and dark, no script, nothing fetched."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.evidence.campaign import Campaign
from runner.note.build import NoteFiles, note_pages
from runner.note.calculator import calculator_of
from tests.note.phone import FIGURES, OFF_SCREEN, UNNAMED
from tests.note.sample import PRICED, make_campaign

AXE = Path(__file__).parent / "data" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_it_holds_everything_it_needs_and_no_script(note: NoteFiles) -> None:
    html = note.html.read_text(encoding="utf-8")
    assert "<script" not in html and "javascript:" not in html
    assert not re.search(r'(src|href)="(?!#|data:)', html), "nothing is loaded from elsewhere"
    assert re.findall(r"url\(\"(?!data:)", html) == []
    assert '<html lang="en">' in html and 'name="viewport"' in html
    assert "default-src 'none'" in html and "script-src" not in html, "nor could anything in it load or run"
    assert html.count("<h1") == 1
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids)), "every id stands once"
    targets = set(re.findall(r'href="#([^"]+)"', html)) | set(re.findall(r"url\(#([^)]+)\)", html))
    assert targets <= set(ids)
    assert len(html.encode()) < 1_500_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
MODES: dict[str, dict[str, Any]] = {
    "phone": {"width": 390},
    "phone, dark": {"width": 390, "color_scheme": "dark"},
    "desktop": {"width": 1280},
    "desktop, dark": {"width": 1280, "color_scheme": "dark"},
    "desktop at 200 %": {"width": 640},
    "smallest width of WCAG 1.4.10": {"width": 320},
    "colours of the reader's own": {"width": 1280, "forced_colors": "active"},
    "printed": {"width": 1280, "media": "print"},
}


def opened(browser: Any, page: Path, *, width: int, media: str | None = None, **options: str) -> Any:
    """The page in a window; fails on any request, message or error of the browser, a breach of its policy too."""
    # `bypass_csp` lets axe in; the tests without axe leave the policy on.
    window = browser.new_page(viewport={"width": width, "height": 900}, **options)
    said: list[str] = []
    window.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else said.append(asked.url))
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.goto(page.as_uri())
    if media:
        window.emulate_media(media=media)
    assert said == []
    return window


def barriers(window: Any) -> list[tuple[str, str]]:
    """What axe finds: the rule and the first element."""
    window.add_script_tag(path=str(AXE))
    found = window.evaluate(f"axe.run({{runOnly: {AXE_TAGS}}})")
    return [(item["id"], item["nodes"][0]["html"][:160]) for item in found["violations"]]


@pytest.mark.browser
@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_no_barrier_and_nothing_runs_out_of_the_page(browser: Any, note: NoteFiles, mode: str) -> None:
    window = opened(browser, note.html, bypass_csp=True, **MODES[mode])
    assert window.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
    assert window.evaluate("document.fonts.check('16px \"Note Sans\"')")
    assert barriers(window) == []
    window.close()


def _pages(campaign: Campaign, root: Path) -> dict[str, str]:
    """HTML of the note in the other languages, of blank sheets, and of the calculator."""
    priced = make_campaign(root / "priced", PRICED)
    empty = make_campaign(root / "empty", replace(PRICED, passes=0, unavailable=()))
    made = {f"note {language}": _html(priced, language) for language in ("de", "tr", "fr")}
    made |= {f"blank {language}": _html(empty, language) for language in ("en", "tr")}
    return made | {f"calculator {language}": calculator_of(priced, language) for language in ("en", "de", "tr", "fr")}


def _html(campaign: Campaign, language: str) -> str:
    return note_pages(campaign, language)["decision-note.html"].decode("utf-8")


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_axe_finds_no_barrier_in_other_languages_blank_sheets_and_the_calculator(
    browser: Any, campaign: Campaign, tmp_path: Path
) -> None:
    found: dict[str, Any] = {}
    for name, html in _pages(campaign, tmp_path).items():
        path = tmp_path / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        for width in (320, 1280):
            window = opened(browser, path, width=width, bypass_csp=True)
            if not window.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth"):
                found[f"{name} {width}"] = "runs out of the page"
            if width == 1280 and (barrier := barriers(window)):
                found[name] = barrier
            window.close()
    assert found == {}


@pytest.mark.browser
@pytest.mark.parametrize("forced", ["none", "active"])
def test_the_keyboard_is_seen_where_it_stands(browser: Any, note: NoteFiles, forced: str) -> None:
    """WCAG 2.4.1, 2.4.7: the first stop skips to the content; every stop has a line around it and is on the screen."""
    window = opened(browser, note.html, width=1280, forced_colors=forced)
    stops = window.evaluate("document.querySelectorAll('a[href], [tabindex=\"0\"]').length")
    seen = []
    for _ in range(stops):
        window.keyboard.press("Tab")
        seen.append(window.evaluate(FOCUSED))
    assert seen[0]["to"] == "#note"
    assert len({item["at"] for item in seen}) == stops > 20
    assert [item for item in seen if item["line"] == "none" or not item["shown"]] == []
    window.close()


FOCUSED = """(() => {
  const here = document.activeElement, box = here.getBoundingClientRect(), style = getComputedStyle(here);
  return {at: [...document.querySelectorAll('*')].indexOf(here), to: here.getAttribute('href'),
    line: style.outlineStyle, shown: box.bottom > 0 && box.top < innerHeight && box.width > 0};
})()"""


@pytest.mark.browser
def test_on_a_phone_every_value_stands_on_the_screen_beside_the_head_of_its_column(
    browser: Any, note: NoteFiles
) -> None:
    """M44: no column is off the screen of 390 px, no caption is cut, and each value says what it is."""
    page = opened(browser, note.html, width=390)
    assert page.locator("td").count() > 50
    assert page.evaluate(OFF_SCREEN) == []
    assert page.evaluate(UNNAMED) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate("getComputedStyle(document.querySelector('td')).display") == "table-cell"
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("language", ["en", "de", "fr", "tr"])
def test_on_a_phone_every_figure_is_seen_as_a_whole_in_words_that_can_be_read(
    browser: Any, tmp_path: Path, language: str
) -> None:
    """Issue 5.3: the drawing for a phone takes the place of the wide one; nothing scrolls, nothing runs out of it."""
    path = tmp_path / "note.html"
    path.write_text(_html(make_campaign(tmp_path / "campaign", PRICED), language), encoding="utf-8")
    page = opened(browser, path, width=390)
    seen = page.evaluate(FIGURES)
    assert len(seen) == 7, "durations, quality, memory, padding, calendar, cost and time, other windows"
    for figure in seen:
        assert figure["drawings"] == 1 and figure["narrow"], figure
        assert figure["left"] >= 0 and figure["right"] <= 390 and not figure["scrolls"], figure
        assert figure["pixels"] >= 1.2, "a point has a pixel and more, so the smallest letters have 8"
        assert figure["outside"] == 0, figure
    page.set_viewport_size({"width": 1280, "height": 900})
    assert not any(figure["narrow"] for figure in page.evaluate(FIGURES))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 390, "height": 900})
    assert all(figure["drawings"] == 1 and not figure["narrow"] for figure in page.evaluate(FIGURES))
    page.close()
