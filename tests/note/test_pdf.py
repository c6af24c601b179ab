"""The PDF: archive and accessibility identifiers, tags, bookmarks, alternative texts, evidence inside (M44, M45)."""

from __future__ import annotations

import io
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.note.attachments import BUNDLE, Attached, _bundled, attached_files
from runner.note.build import NoteFiles, build_note
from runner.note.fonts import covered_characters, linked_font_faces, show_uncovered
from runner.note.pdf import PageRefused, render_pdf
from runner.units import parse_utc
from tests.note.sample import PRICED, make_campaign
from tests.note.test_case_texts import pdf_text, squeezed

WHEN = parse_utc("2026-10-05T08:00:00Z")
PAGE = '<html lang="en"><title>x</title><p>x</p></html>'


@pytest.fixture(scope="module")
def pdf(note: NoteFiles) -> Any:
    with pikepdf.open(note.pdf) as document:
        yield document


def test_qpdf_finds_nothing_wrong(note: NoteFiles) -> None:
    done = subprocess.run(["qpdf", "--check", str(note.pdf)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_names_itself_pdf_a_3a_and_pdf_ua_1(pdf: Any) -> None:
    with pdf.open_metadata() as metadata:
        assert metadata["pdfaid:part"] == "3" and metadata["pdfaid:conformance"] == "A"
        assert metadata["pdfuaid:part"] == "1"
        assert metadata["dc:title"] == "Decision note messages, revision 1"
    assert pdf.Root.MarkInfo.Marked and str(pdf.Root.Lang) == "en"
    assert pdf.Root.ViewerPreferences.DisplayDocTitle
    assert "/OutputIntents" in pdf.Root and not pdf.is_encrypted
    assert "/Metadata" in pdf.Root and "/JavaScript" not in pdf.Root.get("/Names", {})


def tags(node: Any, found: list[Any]) -> list[Any]:
    if isinstance(node, pikepdf.Array):
        for item in node:
            tags(item, found)
    elif isinstance(node, pikepdf.Dictionary) and "/S" in node:
        found.append(node)
        if "/K" in node:
            tags(node.K, found)
    return found


def test_tags_bookmarks_and_alternative_texts(pdf: Any, note: NoteFiles) -> None:
    elements = tags(pdf.Root.StructTreeRoot.K, [])
    names = [str(element.S) for element in elements]
    for wanted in ("/H1", "/H2", "/H3", "/Table", "/TR", "/TH", "/TD", "/L", "/Figure", "/Link"):
        assert wanted in names, wanted
    figures = [element for element in elements if str(element.S) == "/Figure"]
    assert len(figures) >= 4
    assert all(len(str(figure.get("/Alt", ""))) > 20 for figure in figures)
    with pdf.open_outline() as outline:
        titles = [item.title for item in outline.root]
    assert any("Durations" in title for title in titles) and len(titles) > 10


def test_all_fonts_are_embedded_and_ours(pdf: Any) -> None:
    fonts = [o for o in pdf.objects if isinstance(o, pikepdf.Dictionary) and o.get("/Type") == "/FontDescriptor"]
    names = {str(font.FontName).split("+")[-1] for font in fonts}
    assert fonts and all(any(key in font for key in ("/FontFile2", "/FontFile3")) for font in fonts)
    assert all(name.startswith(("Note", "Inter", "JetBrains")) for name in names), names


def test_page_one_is_the_whole_decision(note: NoteFiles) -> None:
    done = subprocess.run(["pdftotext", "-l", "1", str(note.pdf), "-"], capture_output=True, text=True, check=True)
    first = done.stdout
    for wanted in ("cpu.b8", "not applicable", "1,000 documents", "Why this one", "Not chosen, and why", "rtx-4090",
                   "What remains uncertain", "sha256sum -c note/SHA256SUMS", "ssh-keygen -Y", "pdfsig",
                   "local test key", "Synthetic data"):  # fmt: skip
        assert wanted in first, wanted
    assert re.search(r"^1 ?/ ?\d+$", first, re.MULTILINE), "the page number shows that it is all on page 1"


def test_synthetic_data_is_said_on_every_page(pdf: Any, note: NoteFiles) -> None:
    pages = pdf_text(note.pdf).split("\f")[: len(pdf.pages)]
    assert all("Synthetic data" in page for page in pages)


def test_the_evidence_comes_back_from_the_pdf_byte_by_byte(campaign: Campaign, note: NoteFiles) -> None:
    found = attached_files(note.pdf)
    single = (campaign.decision, campaign.balance, campaign.lock, campaign.plan, campaign.protocol, campaign.tariffs)
    records = [*campaign.attempts.iterdir(), *campaign.verdicts.iterdir(), *campaign.manifests.iterdir()]
    for wanted in (*single, campaign.note / "attempts.csv", note.qmd, *records):
        assert found[campaign.relative(wanted)] == wanted.read_bytes()
    assert "protocol/corpus/final.csv" not in found, "texts never travel in the note"


def test_the_note_says_what_is_attached_and_what_it_is_good_for(note: NoteFiles, pdf: Any) -> None:
    """Issue 5 points 3 and 6: whoever has the PDF alone reads that the evidence is in it, and how it is named there."""
    printed = squeezed(pdf_text(note.pdf))
    assert squeezed("carries the evidence as attached files") in printed
    assert squeezed("`~` stands for `/`".replace("`", "")) in printed and "runnerverifyNOTE.pdf" in printed
    assert any("~" in name for name in pdf.attachments)


def test_every_attachment_is_dated_by_the_evidence_and_has_a_relationship(pdf: Any) -> None:
    for name, spec in pdf.attachments.items():
        assert "/" not in name
        assert spec.relationship in (pikepdf.Name.Data, pikepdf.Name.Source)
        assert str(spec.obj.EF.F.Params.ModDate).startswith("D:20261005")
    assert len(pdf.Root.AF) == len(pdf.attachments)


def test_many_records_become_one_zip_with_fixed_times(tmp_path: Path) -> None:
    names = [f"records/attempts/a{n}.json" for n in range(300)] + ["tariffs.csv"]
    files = {name: tmp_path / name for name in names}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    bundled = _bundled(files)
    assert [file.path for file in bundled] == [BUNDLE, "tariffs.csv"]
    for path in files.values():
        os.utime(path, (1, 1))
    assert bundled == _bundled(files)
    (tmp_path / "x.pdf").write_bytes(render_pdf(PAGE, "", {}, bundled, dated=WHEN, identifier=b"x"))
    assert attached_files(tmp_path / "x.pdf") == {name: name.encode() for name in names}


@pytest.mark.parametrize(("lines", "size"), [(20, "20px"), (60, "10px"), (120, "5px"), (400, "5px")])
def test_page_1_is_set_as_tight_as_it_must_be(tmp_path: Path, lines: int, size: str) -> None:
    """The decision stays on page 1 (M44): the first version whose contents begin on page 2 is taken."""
    words = "<p>word</p>" * lines
    loose, tight, tighter = (
        f'<html lang="en"><title>x</title><div class="first" style="font-size: {px}">{words}</div>'
        '<nav id="contents">contents</nav></html>'
        for px in ("20px", "10px", "5px")
    )
    style = "@page { size: A4; margin: 2cm } p { margin: 0; line-height: 1.2 } .first { break-after: page }"
    made = render_pdf(loose, style, {}, [], dated=WHEN, identifier=b"x", tighter=(tight, tighter))
    wanted = {"20px": loose, "10px": tight, "5px": tighter}[size]
    assert made == render_pdf(wanted, style, {}, [], dated=WHEN, identifier=b"x")


@pytest.mark.parametrize("name", ["../outside.json", "/abs.json", "a\\b.json"])
def test_an_attachment_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    data = render_pdf(PAGE, "", {}, [Attached(name, b"x")], dated=WHEN, identifier=b"x")
    (tmp_path / "x.pdf").write_bytes(data)
    with pytest.raises(InputRefused, match="leaves the campaign folder"):
        attached_files(tmp_path / "x.pdf")


@pytest.mark.parametrize(
    "address", ["http://example.invalid/x.png", "file:///etc/passwd", "data:image/png;base64,AA=="]
)
def test_nothing_is_fetched(address: str) -> None:
    with pytest.raises(PageRefused, match="could not be made"):
        render_pdf(PAGE.replace("x</p>", f'<img src="{address}" alt="x"></p>'), "", {}, [], dated=WHEN, identifier=b"x")


LOGO = (
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSIxMjAiIGhlaWdodD0iMzAiPjxyZWN0IHdpZHRoPSIxMjAiIGhl"
    "aWdodD0iMzAiIGZpbGw9IiM2YTFiM2EiLz48L3N2Zz4="
)


def test_a_logo_inside_of_the_style_sheet_is_drawn() -> None:
    """docs/templates.md, `Colours, sizes, logo`: without Python, in the HTML and in the PDF, still PDF/UA."""
    style = f'p {{ background: url("data:image/svg+xml;base64,{LOGO}") no-repeat; padding-top: 30px }}'
    plain = render_pdf(PAGE, "", {}, [], dated=WHEN, identifier=b"x")
    drawn = render_pdf(PAGE, style, {}, [], dated=WHEN, identifier=b"x")
    assert not _painted(plain) and _painted(drawn)


def _painted(data: bytes) -> bool:
    """Whether anything is filled with the logo's colour."""
    with pikepdf.open(io.BytesIO(data)) as pdf:
        streams = b"".join(item.read_bytes() for item in pdf.objects if isinstance(item, pikepdf.Stream))
    return re.search(rb"0?\.4156\d* 0?\.1058\d* 0?\.2274\d* rg", streams) is not None


PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAF0lEQVR4nGP8z8DwnwEImBigAEQDAAAxMgL/bHJ2kQAAAABJRU5ErkJggg=="


def test_the_pixels_of_a_logo_are_not_interpolated() -> None:
    """ISO 19005-3, 6.2.8: a PNG as a logo (docs/templates.md) leaves the PDF a PDF/A."""
    style = f'p {{ background: url("data:image/png;base64,{PIXELS}") no-repeat; padding-top: 30px }}'
    with pikepdf.open(io.BytesIO(render_pdf(PAGE, style, {}, [], dated=WHEN, identifier=b"x"))) as pdf:
        images = [o for o in pdf.objects if isinstance(o, pikepdf.Stream) and o.get("/Subtype") == "/Image"]
        assert images and not any("/Interpolate" in image for image in images)


@pytest.mark.parametrize(
    ("style", "text", "said"),
    [
        ('p::after { content: "中 x" }', "x", "not in the note's own fonts: U\\+4E2D"),
        ('@page { @top-center { content: "😀" } }', "x", "not in the note's own fonts: U\\+1F600"),
        ("p { font-family: sans-serif }", "x", "not in the note's own fonts: U\\+0078"),
        ("", "\ue000", "letters of private use, which mean nothing to a reader: U\\+E000"),
        ("", "\u0378", ".notdef glyph"),
    ],
)
def test_no_letter_comes_from_a_font_of_this_machine(templates: Path, style: str, text: str, said: str) -> None:
    """ISO 19005-3, 6.2.11.7.3 and 8; M45: what the style sheet brings in is refused, with its letters."""
    faces, files = linked_font_faces(templates)
    style = f'{faces} html {{ font-family: "Note Sans" }} {style}'
    page = PAGE.replace(">x</p>", f">{text}</p>")
    with pytest.raises(PageRefused) as refused:
        render_pdf(page, style, files, [], dated=WHEN, identifier=b"x")
    assert any(re.search(said, detail) for detail in refused.value.details), refused.value.details


def test_private_letters_are_shown_by_number_although_the_font_has_some(templates: Path) -> None:
    """ISO 19005-3, 6.2.11.7.3: Inter has private letters; in the words of a template they are written as numbers."""
    covered = covered_characters(templates)
    assert ord("ş") in covered and 0xE000 not in covered and 0 not in covered
    assert show_uncovered("a\ue000", covered) == ("aU+E000", ("U+E000",))


def test_a_mistake_in_the_style_is_no_silence() -> None:
    with pytest.raises(PageRefused, match="could not be made"):
        render_pdf(PAGE, "p { colour: red }", {}, [], dated=WHEN, identifier=b"x")


def test_the_decision_stays_on_page_one_when_the_words_are_many(tmp_path: Path) -> None:
    sample = replace(PRICED, text="Which configuration classifies every message of the whole archive? " * 9)
    built = build_note(make_campaign(tmp_path / "c", sample), "de")
    done = subprocess.run(["pdftotext", "-l", "1", str(built.pdf), "-"], capture_output=True, text=True, check=True)
    assert "pdfsig" in done.stdout and "Ohne unsere Software" in done.stdout
    second = subprocess.run(["pdftotext", "-f", "2", "-l", "2", str(built.pdf), "-"], capture_output=True, text=True)
    assert "Frage und Kriterien" in second.stdout, "the contents begin page 2"
