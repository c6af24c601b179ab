"""NO-01 through the chain: the case's corpus.csv is frozen, judged, decided and rendered; no id or text is markup."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

from runner.cli.main import run
from runner.note.build import build_note
from runner.protocol.freeze import freeze
from tests.support.small_campaign import PROTOCOL, ROWS, make_attempt, make_campaign, store_attempt, write_predictions

CASE = Path(__file__).resolve().parents[1] / "cases" / "NO-01"
TARIFFS = Path(__file__).resolve().parents[2] / "tariffs.csv"


class Elements(HTMLParser):
    """Names and addresses of the elements, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_case_no_01_ids_and_texts_of_the_corpus_are_literal_in_the_note(tmp_path: Path) -> None:
    """NO-01: `<i>h2</i>` is missing in the predictions and named; the other row's text is a subgroup's value."""
    with (CASE / "corpus.csv").open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    text, name = first["text"], second["id"]
    assert (text, name) == ("<a href='http://example.invalid'>text</a>", "<i>h2</i>")
    rows = [*ROWS, (first["id"], text, first["label"], text), (name, second["text"], second["label"], "long")]
    protocol = PROTOCOL.replace('value = "long"', f'value = "{text}"')
    made = make_campaign(tmp_path / "c", rows=rows, protocol=protocol)
    shutil.copyfile(TARIFFS, made.tariffs)
    lock = freeze(made)
    right = [(row[0], row[2]) for row in rows]
    for number, given in enumerate((right, right, right[:-1])):
        path = write_predictions(made.predictions / f"a{number:03d}.parquet", given)
        notes = (f"example: {name} {text}",) if number == 2 else ()
        store_attempt(made, make_attempt(made, lock, path, number=number, notes=notes))
    assert run(["--campaign", str(made.root), "validate"]) == 3, "one attempt lacks an id"
    run(["--campaign", str(made.root), "decide"])
    note = build_note(made, "en")

    html = note.html.read_text(encoding="utf-8")
    page = Elements()
    page.feed(html)
    assert "&lt;i&gt;h2&lt;/i&gt;" in html and "<i>h2</i>" not in html
    assert page.names.count("script") == 0 and page.names.count("img") == 0
    assert not [address for address in page.addresses if "example.invalid" in address]
    printed = subprocess.run(["pdftotext", str(note.pdf), "-"], capture_output=True, check=True).stdout.decode("utf-8")
    for shown in (squeezed(page.text), squeezed(printed)):
        assert squeezed(name) in shown and squeezed(text) in shown
