"""HTML to a tagged PDF: PDF/A-3a and PDF/UA-1 together, evidence attached, same bytes every time.

Nothing is fetched: every address that is not in memory is refused.
"""

from __future__ import annotations

import base64
import io
import logging
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any

from runner.errors import InputRefused
from runner.note.attachments import Attached
from runner.note.layout import layout_library
from runner.note.pages import arrange, arranged, cost
from runner.note.quarto.document import CONTENTS_ANCHOR
from runner.note.tags import finish_tags, name_pdf_ua, spans_keep_their_language

_MIME = {".ttf": "font/ttf", ".svg": "image/svg+xml"}


_PICTURE = re.compile(r"data:(image/svg\+xml|image/png);base64,([A-Za-z0-9+/]+=*)")


_FACE = re.compile(r'@font-face\s*\{[^}]*?font-family:\s*"([^"]+)"')
_LETTERS = re.compile(rb"<[0-9a-f]{4}> <([0-9a-f]+)>")
_ALL_CODES = b"<0000> <ffff>"  # the range of codes at the head of every such map


class PageRefused(InputRefused):
    """The page asked for something outside of memory, or could not be laid out: a fault in the templates."""


def render_pdf(
    html: str,
    stylesheet: str,
    files: Mapping[str, bytes],
    attachments: Sequence[Attached],
    *,
    dated: datetime,
    identifier: bytes,
    tighter: Sequence[str] = (),
    field_name: str = "Signature",
) -> bytes:
    """PDF bytes. `files` maps `note:` addresses to their content; `dated` stamps document and attachments.

    `tighter` are the same page set tighter and tighter: taken in turn while what stands before the
    contents needs more than the first page. `field_name` is what people read of the signature field.
    """
    weasyprint = layout_library()
    refused: list[str] = []
    fetch = _fetcher(files, refused)
    attached = [
        weasyprint.Attachment(
            string=file.data,
            url_fetcher=fetch,
            name=file.name,
            description=file.path,
            created=dated,
            modified=dated,
            relationship="Source" if file.path.startswith("note/") else "Data",
        )
        for file in attachments
    ]
    options: dict[str, Any] = dict(
        weasyprint.DEFAULT_OPTIONS, pdf_variant="pdf/a-3a", pdf_identifier=identifier, pdf_tags=True,
        attachments=attached, custom_metadata=False, uncompressed_pdf=True,
    )  # fmt: skip

    families = frozenset(_FACE.findall(stylesheet))

    def finish(_: Any, pdf: Any) -> None:
        finish_tags(pdf, html, field_name)
        name_pdf_ua(pdf)
        refused.extend(_foreign_letters(pdf, families))

    with _WarningsKept() as log, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # WeasyPrint leaves its colour profile open

        def lay_out(text: str) -> Any:
            log.problems.clear()
            fonts = import_module("weasyprint.text.fonts").FontConfiguration()
            style = weasyprint.CSS(string=stylesheet, font_config=fonts, url_fetcher=fetch, base_url="note:page")
            page = weasyprint.HTML(string=text, base_url="note:page", url_fetcher=fetch)
            return page.render(font_config=fonts, **(options | {"stylesheets": [style]}))

        for version in (html, *tighter):
            document = lay_out(version)
            if _first_page_holds(document.pages):
                break
        document = _well_filled(document, lay_out)
        with spans_keep_their_language():
            data = document.write_pdf(finisher=finish, **options)
    problems = [*refused, *log.problems]
    if problems:
        raise PageRefused(
            "the PDF could not be made as it should be", details=tuple(problems[:10]),
            next_step="correct templates/style.css (docs/templates.md)",
        )  # fmt: skip
    return _packed(data)


def _first_page_holds(pages: Sequence[Any]) -> bool:
    """Do the contents begin on page 2, or is there none (a template of the user's own)?"""
    return not any(CONTENTS_ANCHOR in page.anchors for page in pages[2:])


def _well_filled(document: Any, lay_out: Callable[[str], Any]) -> Any:
    """The document with its figures where they leave the least white, if another layout shows that it helps."""
    found = arranged(document.pages)
    if found is None:
        return document
    again = lay_out(arrange(document.pages, found))
    better = _first_page_holds(again.pages) and cost(again.pages) < cost(document.pages)
    return again if better else document


def _foreign_letters(pdf: Any, families: frozenset[str]) -> list[str]:
    """Letters set in a font of this machine, and private ones.

    On another machine they would look otherwise, or be missing. The note's text has none
    (`runner.note.fonts`); a style sheet or a logo can bring some in. Without any font of its own a page
    is set in what there is.
    """
    found = []
    for font in pdf.objects if families else ():
        if not isinstance(font, dict) or font.get("Subtype") not in ("/Type0", "/Type3"):
            continue
        texts = pdf.objects[int(font["ToUnicode"].split()[0])].stream
        written = (text for part in texts if part != _ALL_CODES for text in _LETTERS.findall(part))
        letters = sorted({letter for text in written for letter in _decoded(text) if letter != " "})
        family = _family(pdf, font)
        if family not in families:
            found.append(f"set in {family} of this machine, not in the note's own fonts: {_numbers(letters)}")
        elif private := [letter for letter in letters if unicodedata.category(letter) == "Co"]:
            found.append(f"letters of private use, which mean nothing to a reader: {_numbers(private)}")
    return found


def _family(pdf: Any, font: Any) -> str:
    if font["Subtype"] == "/Type3":
        return str(font["BaseFont"])
    inside = pdf.objects[int(font["DescendantFonts"][0].split()[0])]
    return str(pdf.objects[int(inside["FontDescriptor"].split()[0])]["FontFamily"].string)


def _numbers(letters: Sequence[str]) -> str:
    return ", ".join(f"U+{ord(letter):04X}" for letter in letters[:10]) + (" ..." if len(letters) > 10 else "")


def _decoded(text: bytes) -> str:
    return bytes.fromhex(text.decode("ascii")).decode("utf-16-be")


def _fetcher(files: Mapping[str, bytes], refused: list[str]) -> Any:
    urls: Any = import_module("weasyprint.urls")

    class MemoryOnly(urls.URLFetcher):  # type: ignore[misc]
        """Answers from memory and refuses the rest, network included."""

        _fail_on_errors = False

        def __init__(self) -> None:
            """Not the parent's: it loads certificates for connections that are never made."""

        def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Any:
            data = files.get(url)
            picture = _PICTURE.fullmatch(url)
            if picture is not None:  # a logo inside of the style sheet: there is nothing to fetch
                content = base64.b64decode(picture[2])
                return urls.URLFetcherResponse(url, content, {"Content-Type": picture[1]})
            if data is None:
                refused.append(f"address outside of the note: {url[:120]}")
                raise ValueError("nothing but the note's own files is read")
            suffix = url[url.rfind(".") :]
            return urls.URLFetcherResponse(url, data, {"Content-Type": _MIME.get(suffix, "application/octet-stream")})

    return MemoryOnly()


class _WarningsKept:
    """WeasyPrint reports through logging; here a warning is a finding, not noise on the terminal."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def __enter__(self) -> _WarningsKept:
        self._logger = logging.getLogger("weasyprint")
        self._before = (self._logger.handlers[:], self._logger.propagate, self._logger.level)
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: self.problems.append(record.getMessage())  # type: ignore[method-assign]
        self._logger.handlers, self._logger.propagate = [handler], False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.handlers, self._logger.propagate, level = self._before
        self._logger.setLevel(level)


def _packed(data: bytes) -> bytes:
    """The same objects, compressed by the library that comes with pikepdf: the same bytes on every machine."""
    import pikepdf

    with pikepdf.open(io.BytesIO(data)) as document:
        out = io.BytesIO()
        document.save(out, static_id=False, deterministic_id=True, fix_metadata_version=False,
                      object_stream_mode=pikepdf.ObjectStreamMode.disable)  # fmt: skip
    return out.getvalue()
