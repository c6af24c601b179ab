"""The page around the document: self-contained HTML for screens, and the HTML that WeasyPrint lays out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from runner.errors import InputRefused
from runner.note.i18n import Catalogue
from runner.note.quarto.document import Picture, Words, render_document

_ID = re.compile(r'\b(id="|href="#|url\(#|xlink:href="#)')
_SVG_OPEN = re.compile(r"<svg\b([^>]*)>", re.DOTALL)
_SVG_JUNK = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL)
_SVG_TEXTS = re.compile(r"<(title|desc)\b[^>]*>.*?</\1>", re.DOTALL)


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


def screen_page(markdown: str, templates: Path, catalogue: Catalogue, figures: Mapping[str, bytes],
                faces: Callable[[frozenset[int]], str]) -> str:  # fmt: skip
    """Self-contained HTML: styles, fonts and figures inside, no script."""

    def draw(picture: Picture) -> str:
        return inline_svg(_figure(figures, picture).decode("utf-8"), picture)

    document = render_document(markdown, quarto_words(catalogue), draw)
    used = frozenset(map(ord, document.html + document.meta["title"])) | frozenset(range(0x20, 0x7F))
    return _fill(templates, document.html, document.meta, catalogue, faces(used) + print_style(templates) + _read(templates / "screen.css"))


def print_page(markdown: str, templates: Path, catalogue: Catalogue, figures: Mapping[str, bytes]) -> str:
    """HTML for the PDF: figures as image elements, so that their alternative text is in the tags."""

    def draw(picture: Picture) -> str:
        _figure(figures, picture)
        return f'<img src="note:{escape(picture.source)}" alt="{escape(picture.alternative)}">'

    document = render_document(markdown, quarto_words(catalogue), draw)
    return _fill(templates, document.html, document.meta, catalogue, "")


def print_style(templates: Path) -> str:
    """The part of the style that paper and screens share, and the page."""
    return _read(templates / "style.css")


def inline_svg(svg: str, picture: Picture) -> str:
    """An SVG that may stand in HTML: ids made unique, named for screen readers, no fixed size."""
    text = _SVG_TEXTS.sub("", _SVG_JUNK.sub("", svg)).strip()
    prefix = picture.label + "-"
    text = _ID.sub(lambda found: found.group(1) + prefix, text)
    opening = _SVG_OPEN.search(text)
    if opening is None:
        raise InputRefused("a figure is not SVG", value=picture.label)
    attributes = re.sub(r'\s(width|height|role|aria-labelledby|aria-label)="[^"]*"', "", opening.group(1))
    head = f'<svg{attributes} role="img" aria-label="{escape(picture.alternative)}">'
    return text[: opening.start()] + head + text[opening.end() :]


def _figure(figures: Mapping[str, bytes], picture: Picture) -> bytes:
    try:
        return figures[picture.source]
    except KeyError:
        raise InputRefused(
            "the note shows a figure that was not drawn", value=picture.source, next_step="remove it from the template"
        ) from None


def _fill(templates: Path, body: str, meta: Mapping[str, str], catalogue: Catalogue, style: str) -> str:
    environment = Environment(
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
            language=catalogue.language,
            skip=catalogue.gettext("Skip to the content"),
        )
    except TemplateError as error:
        raise InputRefused(f"the page cannot be filled: {error}", file=templates / "page.html") from None


class _Safe(str):
    """Markup of ours that Jinja must not escape again."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(f"a part of the note's design cannot be read: {error}", file=path) from None
