"""The HTML in a real browser: WCAG AA by axe, phone and desktop, light and dark, no script, nothing fetched."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.note.build import NoteFiles
from tests.note.phone import OFF_SCREEN, UNNAMED

AXE = Path(__file__).parent / "data" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_it_holds_everything_it_needs_and_no_script(note: NoteFiles) -> None:
    html = note.html.read_text(encoding="utf-8")
    assert "<script" not in html and "javascript:" not in html
    assert not re.search(r'(src|href)="(?!#|data:)', html), "nothing is loaded from elsewhere"
    assert re.findall(r"url\(\"(?!data:)", html) == []
    assert '<html lang="en">' in html and 'name="viewport"' in html
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


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "light"), (1280, "dark")])
def test_axe_finds_no_barrier_and_nothing_runs_out_of_the_page(
    browser: Any, note: NoteFiles, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(note.html.as_uri())
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})")
    assert [(item["id"], item["nodes"][0]["html"][:160]) for item in found["violations"]] == []
    assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("document.fonts.check('16px \"Note Sans\"')")
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.close()


@pytest.mark.browser
def test_on_a_phone_every_value_stands_on_the_screen_beside_the_head_of_its_column(
    browser: Any, note: NoteFiles
) -> None:
    """M44: no column is off the screen of 390 px, no caption is cut, and each value says what it is."""
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(note.html.as_uri())
    assert page.locator("td").count() > 50
    assert page.evaluate(OFF_SCREEN) == []
    assert page.evaluate(UNNAMED) == []
    wide = "document.querySelectorAll('.picture')"
    assert page.evaluate(f"[...{wide}].every(one => getComputedStyle(one).overflowX === 'scroll')"), "its bar is seen"
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate("getComputedStyle(document.querySelector('td')).display") == "table-cell"
    page.close()
