"""The note's own fonts: one family, in `templates/fonts/`. No font of the machine is ever used.

A character that the fonts do not have is written as `U+XXXX` where it stands, and a warning lists it.
"""

from __future__ import annotations

import base64
import functools
import io
import unicodedata
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from runner.errors import InputRefused
from runner.evidence.files import write_atomic
from runner.note.i18n import SHIPPED_TEMPLATES

_FEATURES = ("kern", "tnum", "locl", "ccmp", "mark", "mkmk", "case")


@dataclass(frozen=True)
class Face:
    """A file of `templates/fonts/` and how CSS names it."""

    file: str
    family: str
    weight: int = 400
    style: str = "normal"


TEXT_FAMILY = "Note Sans"
FACES = (
    Face("Inter-Regular.ttf", TEXT_FAMILY),
    Face("Inter-SemiBold.ttf", TEXT_FAMILY, 600),
    Face("Inter-Italic.ttf", TEXT_FAMILY, 400, "italic"),
    Face("JetBrainsMonoNL-Regular.ttf", "Note Mono"),
)


WEB_CHARACTERS = frozenset(
    code
    for first, last in (
        (0x20, 0x7E), (0xA0, 0x17F), (0x218, 0x21B), (0x2010, 0x2027), (0x202F, 0x2030), (0x2032, 0x2033),
        (0x2039, 0x203A), (0x20AC, 0x20AC), (0x20BA, 0x20BA), (0x2122, 0x2122), (0x2190, 0x2193), (0x2212, 0x2212),
        (0x2248, 0x2248), (0x2260, 0x2265), (0x25A0, 0x25A1), (0x25CB, 0x25CF), (0x2713, 0x2717),
    )
    for code in range(first, last + 1)
)  # fmt: skip


def covered_characters(templates: Path) -> frozenset[int]:
    """Code points that every face of the text family has; the fixed-width face falls back on that family.

    Without control and private letters, although the fonts have some: they mean nothing to a reader, and
    PDF/A allows them only with a text in their place (ISO 19005-3, 6.2.11.7.3).
    """
    faces = [face for face in FACES if face.family == TEXT_FAMILY]
    covered = frozenset.intersection(*(_coverage(templates / "fonts" / face.file) for face in faces))
    return frozenset(code for code in covered if unicodedata.category(chr(code)) not in ("Cc", "Co"))


def show_uncovered(text: str, covered: frozenset[int]) -> tuple[str, tuple[str, ...]]:
    """The text with every uncovered character as `U+XXXX`, and the list of them."""
    missing = sorted({c for c in text if ord(c) not in covered and c not in "\n"})
    table = str.maketrans({character: f"U+{ord(character):04X}" for character in missing})
    return text.translate(table), tuple(f"U+{ord(character):04X}" for character in missing)


def font_faces(templates: Path, used: frozenset[int]) -> str:
    """`@font-face` rules with the fonts inside (WOFF2).

    `templates/fonts/web/` holds the faces cut down to the letters of European languages; a page with
    other characters gets faces cut to its own.
    """
    return "\n".join(_rule(face, _web_font(templates, face, used)) for face in FACES)


def _web_font(templates: Path, face: Face, used: frozenset[int]) -> bytes:
    whole = templates / "fonts" / face.file
    ready = templates / "fonts" / "web" / (whole.stem + ".woff2")
    if ready.exists() and used & _coverage(whole) <= _coverage(ready):
        return _read(ready)
    return subset_woff2(whole, used)


def _rule(face: Face, data: bytes) -> str:
    source = base64.b64encode(data).decode("ascii")
    return (
        f'@font-face{{font-family:"{face.family}";font-weight:{face.weight};font-style:{face.style};'
        f'font-display:block;src:url("data:font/woff2;base64,{source}") format("woff2")}}'
    )


def linked_font_faces(templates: Path) -> tuple[str, dict[str, bytes]]:
    """`@font-face` rules that name `note:` addresses, and the whole font files behind them (for the PDF)."""
    files = {f"note:fonts/{face.file}": _read(templates / "fonts" / face.file) for face in FACES}
    rules = "\n".join(
        f'@font-face{{font-family:"{face.family}";font-weight:{face.weight};font-style:{face.style};'
        f'src:url("note:fonts/{face.file}") format("truetype")}}'
        for face in FACES
    )
    return rules, files


def subset_woff2(path: Path, used: frozenset[int]) -> bytes:
    """The font with these code points only; the same input gives the same bytes."""
    tools: Any = import_module("fontTools.subset")
    font = _load(path)
    options = tools.Options(
        layout_features=list(_FEATURES), hinting=False, notdef_outline=True, name_IDs=[0, 1, 2, 13, 14]
    )
    subsetter = tools.Subsetter(options)
    subsetter.populate(unicodes=sorted(used))
    subsetter.subset(font)
    font.flavor = "woff2"
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def _load(path: Path) -> Any:
    from fontTools.ttLib import TTFont, TTLibError

    try:
        return TTFont(io.BytesIO(_read(path)), recalcTimestamp=False)
    except TTLibError as error:
        raise InputRefused(f"not a usable font: {error}", file=path, next_step=SHIPPED_TEMPLATES) from None


@functools.cache
def _coverage(path: Path) -> frozenset[int]:
    font = _load(path)
    # Names of glyphs are not needed, and to work them out takes longer than all the rest.
    font.setGlyphOrder([f"glyph{number}" for number in range(font["maxp"].numGlyphs)])
    return frozenset(font.getBestCmap())


def cut_web_fonts(templates: Path) -> None:
    """Make `templates/fonts/web/` again: letters of European languages, signs that the note uses."""
    for face in FACES:
        data = subset_woff2(templates / "fonts" / face.file, WEB_CHARACTERS)
        write_atomic(templates / "fonts" / "web" / (Path(face.file).stem + ".woff2"), data)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputRefused(
            f"a font of the note cannot be read: {error.strerror}", file=path, next_step=SHIPPED_TEMPLATES
        ) from None
