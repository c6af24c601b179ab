"""The example note that is shown to people (issue 5.10): several GPUs, made-up records, never taken for results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pikepdf

from tests.note.pdf_rules import findings

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example"
MARK = "Synthetic example: nothing was measured"


def test_every_page_of_the_example_says_that_nothing_was_measured() -> None:
    """Looked at as shipped, not as made again: this file is what somebody may print or pass on."""
    pdf = EXAMPLE / "decision-note.pdf"
    done = subprocess.run(["pdftotext", str(pdf), "-"], capture_output=True, check=True, encoding="utf-8")
    with pikepdf.open(pdf) as opened:
        pages = done.stdout.split("\f")[: len(opened.pages)]
        assert len(pages) >= 10
        assert "/Sig" not in {str(field.get("/FT")) for field in opened.Root.get("/AcroForm", {}).get("/Fields", [])
                              if "/V" in field}, "an example is never signed"  # fmt: skip
    assert [number for number, page in enumerate(pages, 1) if MARK not in page] == []
    assert MARK in (EXAMPLE / "decision-note.html").read_text(encoding="utf-8")


def test_the_example_is_pdf_a_3a_and_pdf_ua_1() -> None:
    """Issue 5 points 3 and 10: by every rule, as shipped."""
    pdf = EXAMPLE / "decision-note.pdf"
    with pikepdf.open(pdf) as opened:
        assert findings(opened, pdf.read_bytes()) == []


def test_the_example_shows_several_gpus_and_what_failed() -> None:
    text = (EXAMPLE / "decision-note.qmd").read_text(encoding="utf-8")
    assert MARK in text
    assert "Nobody signed this example" in text and "SHA256:" not in text, "no key of the machine that made it is named"
    for wanted in ("gpu-24g.b4", "gpu-180g.b8", "gpu-48g", "out of memory", "unavailable"):
        assert wanted in text, wanted
