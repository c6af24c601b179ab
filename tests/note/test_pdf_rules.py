"""PDF/A-3a and PDF/UA-1 by the rules of `pdf_rules`, before and after the signature (M44, issue 5 point 3)."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pikepdf
import pytest
from pikepdf import Name

from runner.evidence.campaign import Campaign
from runner.note.build import OWN_TEMPLATES, NoteFiles, build_note
from runner.seal.pdf import check_pdf, sign_pdf
from runner.seal.pdfkey import pdf_key
from tests.note.pdf_rules import findings
from tests.note.sample import PRICED, make_campaign, rewrite_attempts
from tests.note.test_pdf import LOGO, PIXELS


def check(data: bytes) -> list[str]:
    with pikepdf.open(io.BytesIO(data)) as pdf:
        return findings(pdf, data)


@pytest.fixture(scope="module")
def signed(campaign: Campaign, note: NoteFiles) -> bytes:
    return sign_pdf(note.pdf.read_bytes(), pdf_key(campaign, {}), reason="Decision note n-1")


def test_the_unsigned_note_keeps_every_rule(note: NoteFiles) -> None:
    assert check(note.pdf.read_bytes()) == []


def test_the_signed_note_keeps_every_rule(signed: bytes) -> None:
    """The incremental update adds the signature, and neither a second producer nor an untagged field."""
    assert check(signed) == []
    assert check_pdf(signed).good


def test_the_signature_fills_the_one_field_and_leaves_the_metadata(note: NoteFiles, signed: bytes) -> None:
    with pikepdf.open(note.pdf) as before, pikepdf.open(io.BytesIO(signed)) as after:
        assert after.Root.Metadata.read_bytes() == before.Root.Metadata.read_bytes()
        (empty,), (filled,) = before.Root.AcroForm.Fields, after.Root.AcroForm.Fields
        assert "/V" not in empty and filled.V.SubFilter == Name("/ETSI.CAdES.detached")
        assert str(filled.T) == "Signature" and [float(x) for x in filled.Rect] == [0, 0, 0, 0]


@pytest.mark.parametrize("language", ["de", "tr", "fr"])
def test_other_languages_and_prices_keep_every_rule(tmp_path: Path, language: str) -> None:
    made = build_note(make_campaign(tmp_path / "c", PRICED), language)
    assert check(made.pdf.read_bytes()) == []
    with pikepdf.open(made.pdf) as pdf:
        assert str(pdf.Root.Lang) == language
        english = "Signature of this decision note"
        assert str(pdf.Root.AcroForm.Fields[0].TU) not in ("", english), "the field is named in the note's language"


STRANGE = (
    "emoji 😀 👩\u200d👧", "中文", "עברית العربية", "ctrl \x01\x1b", "\u200bzero\u200d\u00ad", "\ufeffbom \ue000",
    "e\u0301 q\u0323\u0308", "ﬁ ﬀ office", "\u202eover\u202c \u2028", "½ → ✓ ₺ Ωμέγα Привет", "<b>&amp;</b> {% x %}",
    "x" * 300,
)  # fmt: skip


def _hostile(root: Path) -> Campaign:
    campaign = make_campaign(root, replace(PRICED, text="Which 😀 中 עב \ue000 q\u0308 ﬁ <b> ?"))
    rewrite_attempts(campaign, lambda attempt: attempt.model_copy(update={"notes": STRANGE if attempt.error else ()}))
    return campaign


def _blank_with_a_logo(root: Path) -> Campaign:
    campaign = make_campaign(root, replace(PRICED, passes=0, unavailable=()))
    shutil.copytree(OWN_TEMPLATES, campaign.templates)
    style = campaign.templates / "style.css"
    pixels = f'h1 {{ background: url("data:image/png;base64,{PIXELS}") no-repeat right }}'
    drawing = f'h2 {{ background: url("data:image/svg+xml;base64,{LOGO}") no-repeat right }}'
    style.write_text(f"{style.read_text(encoding='utf-8')}\n{pixels}\n{drawing}\n", encoding="utf-8")
    return campaign


@pytest.mark.parametrize(("make", "language"), [(_hostile, "tr"), (_blank_with_a_logo, "fr")])
def test_strange_letters_blank_sheets_and_logos_keep_every_rule(
    tmp_path: Path, make: Callable[[Path], Campaign], language: str
) -> None:
    """NO-01, NO-04, M48, docs/templates.md: signed, as they are handed on."""
    campaign = make(tmp_path / "c")
    made = build_note(campaign, language).pdf.read_bytes()
    assert check(sign_pdf(made, pdf_key(campaign, {}), reason="Decision note n-1")) == []


def test_a_link_is_one_annotation_that_says_where_it_leads(note: NoteFiles) -> None:
    with pikepdf.open(note.pdf) as pdf:
        links = [a for page in pdf.pages for a in page.obj.get("/Annots", []) if a.Subtype == Name.Link]
        inside = [link for link in links if "/Dest" in link]
        assert len({(str(link.P) if "/P" in link else "", str(link.Rect)) for link in links}) == len(links)
        assert inside and not any(str(link.Contents) == str(link.Dest) for link in inside)
        assert any(re.fullmatch(r"\d+ Durations", str(link.Contents)) for link in inside)


def test_dots_and_running_lines_are_artifacts(note: NoteFiles) -> None:
    """A screen reader reads neither the dots of the contents nor the page's header and number on every page."""
    with pikepdf.open(note.pdf) as pdf:
        for page in pdf.pages:
            tagged, shown, artifact = [], [], False
            for operands, operator in pikepdf.parse_content_stream(page):
                if str(operator) in ("BMC", "BDC"):
                    artifact = str(operands[0]) == "/Artifact"
                elif str(operator) == "TJ":
                    (shown if artifact else tagged).append(str(operands))
            assert shown, "the running lines"
        second = [str(operator) for _, operator in pikepdf.parse_content_stream(pdf.pages[1])]
        assert second.count("BMC") > 200, "the dots of the contents"


def test_types_of_attachments_come_from_us_not_from_the_machine(note: NoteFiles) -> None:
    with pikepdf.open(note.pdf) as pdf:
        types = {name[name.rfind(".") :]: str(spec.obj.EF.F.Subtype) for name, spec in pdf.attachments.items()}
    assert types[".qmd"] == "/text/markdown" and types[".toml"] == "/application/toml"
    assert types[".json"] == "/application/json" and types[".csv"] == "/text/csv"


def test_the_search_of_other_programs_types_has_no_part(tmp_path: Path) -> None:
    """NO-08: a machine with other file types of its own makes the same PDF."""
    code = """
import mimetypes, sys
if sys.argv[1] == "other":
    mimetypes.init()
    mimetypes.add_type("application/x-other", ".qmd")
    mimetypes.add_type("application/x-other", ".parquet")
from datetime import datetime, UTC
from hashlib import sha256
from runner.note.attachments import Attached
from runner.note.pdf import render_pdf
page = '<html lang="en"><title>x</title><p>x</p></html>'
files = [Attached("note/x.qmd", b"x"), Attached("records/x.parquet", b"y")]
print(sha256(render_pdf(page, "", {}, files, dated=datetime(2026, 1, 1, tzinfo=UTC), identifier=b"x")).hexdigest())
"""
    made = {
        subprocess.run([sys.executable, "-c", code, kind], capture_output=True, text=True, check=True).stdout
        for kind in ("own", "other")
    }
    assert len(made) == 1
