"""The page around the document: self-contained HTML for screens, and the HTML that WeasyPrint lays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from xml.etree import ElementTree as ET

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.errors import InputRefused
from runner.note.i18n import SHIPPED_TEMPLATES, Catalogue
from runner.note.quarto.document import Picture, Words, render_document
from runner.note.svg import as_inline

_ASCII = frozenset(range(0x20, 0x7F))


def quarto_words(catalogue: Catalogue) -> Words:
    """Words that the renderer adds."""
    t = catalogue
    return Words(
        figure=t.gettext("Figure"),
        table=t.gettext("Table"),
        section=t.gettext("Section"),
        contents=t.gettext("Contents"),
        callouts={
            "note": t.gettext("Note"),
            "tip": t.gettext("Tip"),
            "important": t.gettext("Important"),
            "warning": t.gettext("Warning"),
            "caution": t.gettext("Caution"),
        },
    )


@dataclass(frozen=True)
class Parsed:
    """The document once parsed; pictures stand as marks until a page says how it shows them."""

    html: str
    meta: dict[str, str]
    pictures: tuple[Picture, ...]


def parse_document(markdown: str, catalogue: Catalogue) -> Parsed:
    """Markdown to HTML with a mark for every picture."""
    pictures: list[Picture] = []

    def mark(picture: Picture) -> str:
        pictures.append(picture)
        return f"<!--{picture.label}-->"

    document = render_document(markdown, quarto_words(catalogue), mark)
    return Parsed(document.html, document.meta, tuple(pictures))


def screen_page(
    document: Parsed,
    templates: Path,
    catalogue: Catalogue,
    figures: Mapping[str, ET.Element],
    narrow: Mapping[str, ET.Element],
    faces: Callable[[frozenset[int]], str],
) -> str:
    """Self-contained HTML: styles, fonts and figures inside, no script. `narrow`: the figures drawn for a phone."""

    def drawing(picture: Picture) -> str:
        wide = as_inline(_figure(figures, picture), label=picture.label, alternative=picture.alternative)
        if picture.source not in narrow:
            return wide
        # Hidden unless screen.css shows it in place of the wide one: never both, for nobody.
        phone = as_inline(narrow[picture.source], label=f"{picture.label}-narrow", alternative=picture.alternative)
        return f'{wide}<div class="narrow" hidden>{phone}</div>'

    body = _with_pictures(document, drawing)
    used = frozenset(map(ord, document.html + document.meta["title"])) | _ASCII
    style = faces(used) + print_style(templates) + _read(templates / "screen.css")
    return _fill(templates, body, document.meta, catalogue, style)


def print_page(document: Parsed, templates: Path, catalogue: Catalogue, figures: Mapping[str, ET.Element]) -> str:
    """HTML for the PDF: figures as image elements, so that their alternative text is in the tags."""

    def image(picture: Picture) -> str:
        _figure(figures, picture)
        return f'<img src="note:{escape(picture.source)}" alt="{escape(picture.alternative)}">'

    return _fill(templates, _with_pictures(document, image), document.meta, catalogue, "")


def _with_pictures(document: Parsed, show: Callable[[Picture], str]) -> str:
    html = document.html
    for picture in document.pictures:
        html = html.replace(f"<!--{picture.label}-->", show(picture), 1)
    return html


def print_style(templates: Path) -> str:
    """The part of the style that paper and screens share, and the page."""
    return _read(templates / "style.css")


def _figure(figures: Mapping[str, ET.Element], picture: Picture) -> ET.Element:
    try:
        return figures[picture.source]
    except KeyError:
        raise InputRefused(
            "the note shows a figure that was not drawn", value=picture.source, next_step="remove it from the template"
        ) from None


def _fill(templates: Path, body: str, meta: Mapping[str, str], catalogue: Catalogue, style: str) -> str:
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(templates, encoding="utf-8"), autoescape=True, undefined=StrictUndefined
    )
    try:
        return environment.get_template("page.html").render(
            body=_Safe(body),
            style=_Safe(style),
            title=meta["title"],
            subtitle=meta.get("subtitle", ""),
            id=meta.get("note-id", ""),
            mark=meta.get("note-mark", ""),
            watermark=meta.get("note-watermark", ""),
            language=catalogue.language,
            skip=catalogue.gettext("Skip to the content"),
        )
    except TemplateError as error:
        raise InputRefused(
            f"the page cannot be filled: {error}", file=templates / "page.html", next_step=SHIPPED_TEMPLATES
        ) from None


class _Safe(str):
    """Markup of ours that Jinja must not escape again."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(
            f"a part of the note's design cannot be read: {error}", file=path, next_step=SHIPPED_TEMPLATES
        ) from None
