"""Rules of PDF/A-3 and PDF/UA-1 on fonts and on every letter that is set: ISO 19005-3 6.2.11, ISO 14289-1 7.21.

The programs of the fonts are opened: what is said of a letter must be what its font draws.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pikepdf
from fontTools.ttLib import TTFont, TTLibError
from pikepdf import Array, Dictionary, Name, Stream

_DESCRIBED = ("/FontName", "/Flags", "/FontBBox", "/ItalicAngle", "/Ascent", "/Descent", "/CapHeight", "/StemV")


@dataclass
class Used:
    """Codes of one font that are set anywhere; `replaced`: those that stand only inside of an ActualText."""

    font: Any
    codes: set[int] = field(default_factory=set)
    unreplaced: set[int] = field(default_factory=set)
    odd: bool = False


def used_codes(pdf: pikepdf.Pdf) -> list[Used]:
    """Every code set by any operator in pages, forms and patterns, in whatever rendering mode."""
    found: dict[Any, Used] = {}
    holders = [page.obj for page in pdf.pages]
    holders += [
        item for item in pdf.objects
        if isinstance(item, Stream) and (item.get("/Subtype") == Name.Form or item.get("/PatternType") == 1)
    ]  # fmt: skip
    for holder in holders:
        fonts = holder.get("/Resources", Dictionary()).get("/Font", Dictionary())
        now: Used | None = None
        states: list[Used | None] = []
        marks: list[bool] = []
        for operands, operator in pikepdf.parse_content_stream(holder):
            word = str(operator)
            if word == "q":
                states.append(now)
            elif word == "Q" and states:
                now = states.pop()
            elif word == "Tf":
                font = fonts.get(str(operands[0]))
                now = None if font is None else found.setdefault(font.objgen, Used(font))
            elif word in ("BDC", "BMC"):
                properties = operands[1] if word == "BDC" else None
                marks.append(isinstance(properties, Dictionary) and "/ActualText" in properties)
            elif word == "EMC" and marks:
                marks.pop()
            elif word in ("Tj", "TJ", "'", '"') and now is not None:
                shown = operands[-1]
                parts = list(shown) if isinstance(shown, Array) else [shown]
                for part in parts:
                    if isinstance(part, pikepdf.String):
                        _count(now, bytes(part), replaced=any(marks))
    return list(found.values())


def _count(used: Used, text: bytes, *, replaced: bool) -> None:
    used.odd |= len(text) % 2 == 1
    codes = {int.from_bytes(text[place : place + 2]) for place in range(0, len(text) - 1, 2)}
    used.codes |= codes
    if not replaced:
        used.unreplaced |= codes


def glyphs(pdf: pikepdf.Pdf, _: bytes) -> Iterator[str]:
    for used in used_codes(pdf):
        name = str(used.font.get("/BaseFont", "?"))
        if used.font.get("/Subtype") != Name.Type0:
            yield f"a font of an unexpected kind: {used.font.get('/Subtype')}"
            continue
        (cid,) = used.font.DescendantFonts
        yield from dictionaries_6_2_11_2(used.font, cid, name)
        yield from composite_6_2_11_3(used.font, cid, name)
        program = _program(cid)
        if program is None:
            yield f"A 6.2.11.4.1 {name} is not embedded, or its program cannot be read"
            continue
        if used.odd:
            yield f"ISO 32000 9.7.6 {name}: half a code"
        glyph_of = _gids(cid)
        yield from present_6_2_11_4(used, program, glyph_of, name)
        yield from widths_6_2_11_5(used, cid, program, glyph_of, name)
        yield from unicode_6_2_11_7(used, name)
        yield from notdef_6_2_11_8(used, glyph_of, name)


def dictionaries_6_2_11_2(font: Any, cid: Any, name: str) -> Iterator[str]:
    for item, kinds in ((font, {"/Type0"}), (cid, {"/CIDFontType0", "/CIDFontType2"})):
        if item.get("/Type") != Name.Font or str(item.get("/Subtype")) not in kinds or "/BaseFont" not in item:
            yield f"A 6.2.11.2 {name}: Type, Subtype or BaseFont"
    descriptor = cid.get("/FontDescriptor", Dictionary())
    missing = [key for key in _DESCRIBED if key not in descriptor]
    if missing or descriptor.get("/Type") != Name.FontDescriptor:
        yield f"A 6.2.11.2 {name}: the descriptor has no {', '.join(missing) or 'type'}"
    names = {str(item) for item in (font.get("/BaseFont"), cid.get("/BaseFont"), descriptor.get("/FontName"))}
    if len(names) != 1:
        yield f"ISO 32000 9.7.6.2 one font, several names: {sorted(names)}"
    if not re.match(r"/[A-Z]{6}\+", name):
        yield f"ISO 32000 9.6.4 {name} is a part of a font without a tag"
    kind = descriptor.get("/FontFile3", Dictionary()).get("/Subtype")
    if kind is not None and str(kind) not in ("/Type1C", "/CIDFontType0C", "/OpenType"):
        yield f"A 6.2.11.2 {name}: a program of kind {kind}"
    if "/FontFile2" in descriptor and descriptor.FontFile2.get("/Length1") != len(descriptor.FontFile2.read_bytes()):
        yield f"ISO 32000 9.9 {name}: Length1 is not the length of the program"


def composite_6_2_11_3(font: Any, cid: Any, name: str) -> Iterator[str]:
    if font.get("/Encoding") not in (Name("/Identity-H"), Name("/Identity-V")):
        yield f"A 6.2.11.3.3 {name}: encoding"
    info = cid.get("/CIDSystemInfo", Dictionary())
    if not all(key in info for key in ("/Registry", "/Ordering", "/Supplement")):
        yield f"A 6.2.11.3.1 {name}: CIDSystemInfo"
    mapped = cid.get("/CIDToGIDMap")
    if cid.get("/Subtype") == Name.CIDFontType2 and not (isinstance(mapped, Stream) or mapped == Name.Identity):
        yield f"A 6.2.11.3.2 {name} has no map to its letters"
    if "/CIDSet" in cid.get("/FontDescriptor", Dictionary()):
        yield f"A 6.2.11.4.2 {name} lists its letters, which must be complete then"


def _program(cid: Any) -> TTFont | None:
    descriptor = cid.get("/FontDescriptor", Dictionary())
    file = descriptor.get("/FontFile2", descriptor.get("/FontFile3"))
    if not isinstance(file, Stream):
        return None
    try:
        program = TTFont(io.BytesIO(file.read_bytes()), lazy=False)
        program.setGlyphOrder([f"glyph{number}" for number in range(program["maxp"].numGlyphs)])
        for table in ("head", "hhea", "hmtx", "loca", "glyf"):
            program[table]
    except (TTLibError, KeyError, AssertionError):
        return None
    return program


def _gids(cid: Any) -> Any:
    """CID to number of the glyph."""
    mapped = cid.get("/CIDToGIDMap")
    if not isinstance(mapped, Stream):
        return lambda code: code
    table = mapped.read_bytes()
    return lambda code: int.from_bytes(table[2 * code : 2 * code + 2])


def present_6_2_11_4(used: Used, program: TTFont, glyph_of: Any, name: str) -> Iterator[str]:
    """A letter is there, and not emptied by the subsetting: only blanks have no outline."""
    outlines, blanks = program["glyf"], _targets(used.font)
    for code in sorted(used.codes):
        glyph = glyph_of(code)
        if glyph >= program["maxp"].numGlyphs:
            yield f"A 6.2.11.4.1, UA 7.21.4.1 {name} has no glyph {glyph}"
        elif not outlines[f"glyph{glyph}"].numberOfContours and blanks.get(code, "x").strip(
            " \u00a0\u202f\u2009\u200b"
        ):
            yield f"A 6.2.11.4.1 (advice) {name}: glyph {glyph} for {blanks.get(code)!r} draws nothing"


def widths_6_2_11_5(used: Used, cid: Any, program: TTFont, glyph_of: Any, name: str) -> Iterator[str]:
    widths, default = _widths(cid), float(cid.get("/DW", 1000))
    unit = 1000 / program["head"].unitsPerEm
    for code in sorted(used.codes):
        glyph = f"glyph{glyph_of(code)}"
        if glyph not in program["hmtx"].metrics:
            continue
        drawn = program["hmtx"][glyph][0] * unit
        if abs(widths.get(code, default) - drawn) > 1:
            yield f"A 6.2.11.5, UA 7.21.5 {name}: code {code} is {widths.get(code, default)} wide, drawn {drawn:.1f}"


def _widths(cid: Any) -> dict[int, float]:
    found: dict[int, float] = {}
    parts = list(cid.get("/W", []))
    while parts:
        first, second = int(parts.pop(0)), parts.pop(0)
        if isinstance(second, Array):
            found |= {first + place: float(width) for place, width in enumerate(second)}
        else:
            width = float(parts.pop(0))
            found |= dict.fromkeys(range(first, int(second) + 1), width)
    return found


def unicode_6_2_11_7(used: Used, name: str) -> Iterator[str]:
    if "/ToUnicode" not in used.font:
        yield f"A 6.2.11.7.2 {name} has no ToUnicode"
        return
    cmap = used.font.ToUnicode.read_bytes()
    if not re.search(rb"begincodespacerange\s*<0000>\s*<ffff>\s*endcodespacerange", cmap, re.IGNORECASE):
        yield f"ISO 32000 9.10.3 {name}: the space of codes of ToUnicode"
    for count, body in re.findall(rb"(\d+)\s+beginbfchar(.*?)endbfchar", cmap, re.DOTALL):
        lines = len(re.findall(rb"<[0-9A-Fa-f]+>\s*<[0-9A-Fa-f]*>", body))
        if int(count) != lines or lines > 100:
            yield f"ISO 32000 9.10.3 {name}: {int(count)} promised, {lines} written, at most 100"
    targets = _targets(used.font)
    for code in sorted(used.codes):
        text = targets.get(code)
        if not text:
            yield f"A 6.2.11.7.2, UA 7.21.7 {name}: no letter for code {code}"
        elif set(text) & {"\0", "\ufeff", "\ufffe"} or "\ufffd" in text:
            yield f"A 6.2.11.7.2, UA 7.21.7 {name}: code {code} means a forbidden letter"
        elif code in used.unreplaced and any(_private(letter) for letter in text):
            yield f"A 6.2.11.7.3 {name}: code {code} is a private letter without ActualText"


def _private(letter: str) -> bool:
    return 0xE000 <= ord(letter) <= 0xF8FF or ord(letter) >= 0xF0000


def _targets(font: Any) -> dict[int, str]:
    """Code to text, from `bfchar` and `bfrange`."""
    found: dict[int, str] = {}
    cmap = font.ToUnicode.read_bytes() if "/ToUnicode" in font else b""
    for body in re.findall(rb"beginbfchar(.*?)endbfchar", cmap, re.DOTALL):
        for code, text in re.findall(rb"<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]*)>", body):
            found[int(code, 16)] = _utf16(text)
    for body in re.findall(rb"beginbfrange(.*?)endbfrange", cmap, re.DOTALL):
        for first, last, text in re.findall(rb"<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>", body):
            begin = _utf16(text)
            for step in range(int(last, 16) - int(first, 16) + 1):
                found[int(first, 16) + step] = begin[:-1] + chr(ord(begin[-1]) + step)
    return found


def _utf16(text: bytes) -> str:
    return bytes.fromhex(text.decode()).decode("utf-16-be", errors="replace")


def notdef_6_2_11_8(used: Used, glyph_of: Any, name: str) -> Iterator[str]:
    for code in sorted(used.codes):
        if glyph_of(code) == 0:
            yield f"A 6.2.11.8, UA 7.21.8 {name}: code {code} is .notdef"
