"""The calculator page (M41): the same figures as the command, in a real browser, without network or mouse."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.cli.main import run
from runner.errors import InputRefused
from runner.note.calculator import calculator_page
from runner.pricing.tariffs import load_catalogue
from tests.pricing import golden

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "templates" / "calculator.html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def page_of(tariffs: Path) -> str:
    return calculator_page(load_catalogue(tariffs), TEMPLATE)


# ---- without a browser ---------------------------------------------------------------------------


def test_the_golden_vectors_are_what_the_command_says() -> None:
    """One source of figures; a change of them must be written again on purpose."""
    assert golden.vectors() == golden.stored()
    assert len(golden.stored()) > 300


def test_the_page_loads_nothing_and_is_the_same_at_every_writing() -> None:
    page = page_of(golden.TARIFFS)
    assert page == page_of(golden.TARIFFS)
    assert not re.search(r"https?://|src=|@import|url\(|fetch\(|XMLHttpRequest|WebSocket", page)
    assert "default-src 'none'" in page
    assert "made up &lt;b&gt;&amp;amp; &quot;quoted&quot; &lt;/script&gt;" in page, "sources are text, never markup"


def test_the_command_writes_the_page_below_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(ROOT / "tariffs.csv", tmp_path)
    assert run(["--campaign", str(tmp_path), "calculator", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "note/calculator.html"}
    assert "2,071.00 USD" in (tmp_path / "note" / "calculator.html").read_text(encoding="utf-8")


def test_a_template_without_its_marks_is_refused(tmp_path: Path) -> None:
    template = tmp_path / "calculator.html"
    with pytest.raises(InputRefused, match="cannot be read"):
        calculator_page(load_catalogue(ROOT / "tariffs.csv"), template)
    template.write_text("<p>", encoding="utf-8")
    with pytest.raises(InputRefused, match="exactly once"):
        calculator_page(load_catalogue(ROOT / "tariffs.csv"), template)


# ---- in Chromium ---------------------------------------------------------------------------------

browser_test = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of the golden tariffs, opened from a file; any request to a network fails the test."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    file = tmp_path_factory.mktemp("calculator") / "calculator.html"
    file.write_text(page_of(golden.TARIFFS), encoding="utf-8")
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.on("request", lambda request: None if request.url.startswith("file:") else problems.append(request.url))
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        opened.goto(file.as_uri())
        yield opened
        browser.close()
    assert problems == []


ASK = """(vectors) => vectors.map(({question}) => {
  const set = (id, value) => { document.getElementById(id).value = value ?? ""; };
  set("gpu", question.gpu); set("lots", question.lots); set("days", question.days);
  set("hours", question.window_hours); set("accepted", question.accepted);
  document.getElementById("checked").checked = true;
  document.getElementById("question").dispatchEvent(new Event("input"));
  const text = (id) => document.getElementById(id).textContent;
  if (text("error")) return {refused: true};
  return {
    refused: false, headline: text("headline"), cheaper: text("cheaper"),
    per_corpus: text("perCorpus").replace("Cost per validated corpus: ", ""),
    packages: [...document.querySelectorAll("#packages tbody tr")].map(
      (row) => [...row.children].map((cell) => cell.textContent)),
  };
})"""


@browser_test
def test_the_page_gives_the_figures_of_the_command(page: Page) -> None:
    """Every golden vector, asked in Chromium."""
    vectors = golden.stored()
    found: list[dict[str, Any]] = page.evaluate(ASK, vectors)
    different = [(v["question"], v["answer"], f) for v, f in zip(vectors, found, strict=True) if v["answer"] != f]
    assert different == []


@browser_test
def test_it_works_by_keyboard_and_counts_results_only_with_the_box_ticked(page: Page) -> None:
    """M41: the user confirms the quality check."""
    page.reload()
    page.locator("#gpu").focus()
    for keys in ("pair", "Tab", "2", "Tab", "7", "Tab", "Tab", "3"):
        page.keyboard.press("Tab") if keys == "Tab" else page.keyboard.type(keys)
    assert page.locator("#headline").inner_text() == "pair, 7 days, 2 lots: 4,142.14 EUR, 4 GPUs"
    assert "tick the box" in page.locator("#perCorpus").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator("#perCorpus").inner_text() == (
        "Cost per validated corpus: 1,380.71 EUR (rounded half up from 1380.713333)"
    )


@browser_test
@pytest.mark.parametrize(("field", "value"), [("lots", "0"), ("lots", "1.5"), ("hours", "1e3"), ("accepted", "-1")])
def test_a_wrong_entry_is_marked_and_said(page: Page, field: str, value: str) -> None:
    page.reload()
    page.locator(f"#{field}").fill(value)
    assert page.locator("#error").inner_text() != "" and page.locator("#headline").inner_text() == ""
    assert page.locator(f"#{field}").get_attribute("aria-invalid") == "true"


@browser_test
def test_every_control_has_a_name_and_the_answer_is_announced(page: Page) -> None:
    """Screen readers: labels, live region, captions, header cells."""
    page.reload()
    tree = page.locator("main").aria_snapshot()
    for name in (
        'combobox "GPU"',
        'textbox "Lots"',
        'combobox "Package"',
        'textbox "Window in hours"',
        'textbox "Number of different corpora, optional"',
        'checkbox "I confirm',
        'region "Answer"',
    ):
        assert name in tree, tree
    assert page.locator("[aria-live=polite] #headline").count() == 1
    assert page.locator("table caption").count() == page.locator("table").count() == 2
    assert page.locator("th:not([scope])").count() == 0


@browser_test
def test_it_fits_a_narrow_screen_and_is_readable(page: Page) -> None:
    """No sideways scrolling of the page at 320 CSS pixels; text contrast at least 4.5 to 1 in both schemes."""
    page.reload()
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= 320")
    page.set_viewport_size({"width": 1200, "height": 900})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        colours = page.evaluate("""() => {
          const style = getComputedStyle(document.documentElement);
          return ["--ink", "--quiet", "--bad", "--paper", "--soft"].map((name) => style.getPropertyValue(name).trim());
        }""")
        *texts, paper, soft = colours
        assert min(contrast(text, ground) for text in texts for ground in (paper, soft)) >= 4.5
    page.emulate_media(color_scheme="light")


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two `#rrggbb` colours as WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
