"""Names, groups, notes and titles that look like markup, from corpus to note through the command line (issue 5)."""

from __future__ import annotations

import csv
import html
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.cli.main import run
from runner.evidence.campaign import Campaign
from runner.protocol.freeze import load_lock
from tests.support.small_campaign import (
    PLAN,
    PROTOCOL,
    make_attempt,
    make_campaign,
    store_attempt,
    write_csv,
    write_predictions,
)

PROJECT = Path(__file__).parents[2]
HOSTILE = (
    "<script>alert(1)</script>", "=cmd()", "{{7*7}}", "{#sec-x}", ":::", "a|b", "x" * 300, "\U0001f600", "\u202eabc",
    "a\x07b", "`code` *b* [l](http://x)", "-5", "@sum", "a\tb", "$x^2$", "--", "]]>&amp;", "{% raw %}", "line\nbreak",
)  # fmt: skip
TITLE = "<script>alert(1)</script> {{7*7}} {# | ::: =cmd() \u202eabc \U0001f600 }"
COLUMN = "region <b>|"


@dataclass(frozen=True)
class Note:
    campaign: Campaign
    html: str
    pdf: str


@pytest.fixture(scope="module")
def note(tmp_path_factory: pytest.TempPathFactory) -> Note:
    """The real chain; only the passes are made up."""
    root = tmp_path_factory.mktemp("hostile") / "camp <b> | {{x}}"
    rows = [
        (f"{text}-{index}-{copy}" if copy else text, f"words {text} {index}", HOSTILE[(index + copy) % 2 * 5],
         HOSTILE[index % 3])
        for index, text in enumerate(HOSTILE) for copy in range(2)
    ]  # fmt: skip
    protocol = PROTOCOL.replace("Which batch size costs least?", TITLE.replace("\u202e", "\\u202e"))
    protocol = protocol.replace('"stratum"', f'"{COLUMN}"').replace('"long"', '"{{7*7}}"')
    protocol = protocol.replace("corpus/final.csv", "corpus/small-final/final.csv")
    campaign = make_campaign(
        root, rows=rows, labels={"0": HOSTILE[0], "1": HOSTILE[5]}, protocol=protocol,
        plan=PLAN.replace("Measuring", TITLE.replace("\u202e", "\\u202e")),
    )  # fmt: skip
    shutil.copyfile(PROJECT / "tariffs.csv", campaign.tariffs)
    source = write_csv(root.parent / "data.csv", ("id", "text", "label", COLUMN), rows)

    def command(*words: str) -> None:
        assert run(["--campaign", str(root), *words]) == 0, words

    command("corpus", "--from", str(source), "--name", "small-final", "--all", "--tokenizer", "words",
            "--group-column", COLUMN, "--licence", "=<b>{{1}}", "--permission", "| ::: {#")  # fmt: skip
    command("freeze")
    command("plan")
    lock = load_lock(campaign)
    for number in range(9):
        variant = ("b1", "b4", "b8")[number % 3]
        predictions = write_predictions(campaign.predictions / f"a{number}.parquet", [(row[0], row[2]) for row in rows])
        attempt = make_attempt(
            campaign, lock, predictions, number=number, variant=variant, notes=HOSTILE[number:] if number < 3 else (),
            pass_seconds={"b1": 3.0, "b4": 2.0, "b8": 1.0}[variant] + number / 1000,
        )  # fmt: skip
        store_attempt(campaign, attempt)
    for words in ("validate", "decide", "report", "verify", "lab", "window"):
        command(words)
    pdf = campaign.note / "decision-note.pdf"
    text = subprocess.run(["pdftotext", "-layout", str(pdf), "-"], capture_output=True, check=True, timeout=60).stdout
    page = (campaign.note / "decision-note.html").read_text(encoding="utf-8")
    return Note(campaign, page, text.decode("utf-8"))


def test_issue_5_html_and_pdf_show_the_texts_as_they_are(note: Note) -> None:
    shown = html.unescape(re.sub(r"<[^>]+>", "", note.html))
    for text in (shown, re.sub(r"\s+", " ", note.pdf)):
        assert "<script>alert(1)</script> {{7*7}} {# | ::: =cmd() U+202Eabc U+1F600 }" in text
        assert "region <b>| = {{7*7}}" in text
    assert "\u202e" not in note.html + note.pdf and "\x07" not in note.html + note.pdf


def test_issue_5_nothing_of_them_acts(note: Note) -> None:
    """No element of theirs in the page, and what stands in words for a drawing is the drawing's."""
    assert not re.search(r"<script|<b>", note.html)
    assert "region &lt;b&gt;| = {{7*7}}" in note.html.split('aria-label="Dot plot of the metric', 1)[1].split('"', 1)[0]


def test_issue_5_no_cell_of_the_spreadsheet_is_a_formula(note: Note) -> None:
    for name in ("attempts-spreadsheet.csv", "balance.csv"):
        with (note.campaign.note / name).open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert cells and not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r", "-c"))], name
