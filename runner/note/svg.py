"""Figures as matplotlib writes them, made small: one path per text instead of one element per letter.

WeasyPrint draws every element on its own and a browser keeps every one; a figure has thousands of
letters. Outlines keep a precision of a thousandth of the letter's height.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from xml.etree import ElementTree as ET

from runner.errors import InputRefused

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_HREF = f"{{{_XLINK}}}href"
_SCALE = re.compile(r"scale\((-?[\d.]+)\)")
_MOVE = re.compile(r"translate\((-?[\d.]+)[ ,]+(-?[\d.]+)\)")
_FINER = re.compile(r"\.\d\d|(?<!\d)\.|[^MLQCZz\d. -]")
_NUMBERS = {"M": 2, "L": 2, "Q": 4, "C": 6}
_TOKEN = re.compile(r"[MLQCZz]|-?\d+(?:\.\d+)?(?:e-?\d+)?")
_PATH = re.compile(r'<path d="([^"]{100,})" ?/>')
_REFERENCE = re.compile(r"url\(#([^)]+)\)|^#(.+)$")
_DROPPED = {f"{{{_SVG}}}title", f"{{{_SVG}}}desc", f"{{{_SVG}}}metadata"}

Glyph = tuple[float, list[str]]


def compact(svg: bytes, *, name: str) -> ET.Element:
    """The drawing without metadata, unused ids and fixed size, its texts as single paths."""
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        raise InputRefused(
            f"a figure is not well-formed SVG: {error}",
            value=name,
            next_step="a figure of this kind was not drawn by this tool: runner report draws all of them again",
        ) from None
    if root.tag != f"{{{_SVG}}}svg":
        raise InputRefused(
            "a figure is not SVG",
            value=name,
            next_step="a figure of this kind was not drawn by this tool: runner report draws all of them again",
        )
    glyphs = _glyphs(root)
    for parent in root.iter():
        for child in list(parent):
            if child.tag in _DROPPED:
                parent.remove(child)
    for group in list(root.iter(f"{{{_SVG}}}g")):
        _join_letters(group, glyphs)
    used = _references(root)
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    return root


def as_image(root: ET.Element) -> bytes:
    """A file of its own, for an image element."""
    return _text(root).encode("utf-8")


def as_inline(root: ET.Element, *, label: str, alternative: str) -> str:
    """Markup inside of HTML: ids made unique by the label, one picture for a screen reader."""
    text = re.sub(r'\b(id="|href="#|url\(#)', lambda found: f"{found.group(1)}{label}-", _once(_text(root)))
    head, tail = text.split(">", 1)
    return f'{head} role="img" aria-label="{escape(alternative)}">{tail}'


def _once(text: str) -> str:
    """The same words stand at every axis: their outline once, then by reference."""
    total = Counter(_PATH.findall(text))
    names = {path: f"w{number}" for number, (path, count) in enumerate(total.items()) if count > 1}
    seen: set[str] = set()

    def shown(found: re.Match[str]) -> str:
        path = found.group(1)
        if path not in names:
            return f'<path d="{_in_steps(path)}"/>'
        if path in seen:
            return f'<use href="#{names[path]}"/>'
        seen.add(path)
        return f'<path id="{names[path]}" d="{_in_steps(path)}"/>'

    return _PATH.sub(shown, text)


def _text(root: ET.Element) -> str:
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode")).strip()


def _glyphs(root: ET.Element) -> dict[str, Glyph]:
    """Outlines of letters: paths in `defs` with a scale of their own."""
    found: dict[str, Glyph] = {}
    for defs in root.iter(f"{{{_SVG}}}defs"):
        for path in list(defs):
            scale = _SCALE.fullmatch(path.get("transform", ""))
            if path.tag == f"{{{_SVG}}}path" and scale:
                found[path.get("id", "")] = (float(scale.group(1)), _TOKEN.findall(path.get("d", "")))
                defs.remove(path)
    return found


def _join_letters(group: ET.Element, glyphs: dict[str, Glyph]) -> None:
    parts: list[str] = []
    for child in list(group):
        if child.tag == f"{{{_SVG}}}defs" and not len(child):
            group.remove(child)
        glyph = glyphs.get(child.get(_HREF, "").removeprefix("#"))
        if child.tag == f"{{{_SVG}}}use" and glyph is not None:
            parts.append(_placed(glyph, child.get("transform", "")))
            group.remove(child)
    if parts:
        ET.SubElement(group, f"{{{_SVG}}}path", {"d": "".join(parts)})


def _placed(glyph: Glyph, transform: str) -> str:
    """The outline's path data where the letter stands."""
    move, own = _MOVE.search(transform), _SCALE.search(transform)
    x, y = (float(move.group(1)), float(move.group(2))) if move else (0.0, 0.0)
    scale = glyph[0] * (float(own.group(1)) if own else 1.0)
    out, vertical = [], False
    for token in glyph[1]:
        if token.isalpha():
            out.append(token)
            vertical = False
        else:
            value = round(float(token) * scale + (y if vertical else x), 1)
            out.append(f"{value:g} ")
            vertical = not vertical
    return "".join(out)


def _in_steps(path: str) -> str:
    """Path data in steps from point to point, half as long as places; only a letter's own start is a place.

    For browsers: `runner.note.layout` writes places into the PDF. What is finer than tenths stays as it is.
    """
    if _FINER.search(path):
        return path
    out: list[str] = []
    here, start, numbers, command = (0, 0), (0, 0), list[int](), "M"
    for token in _TOKEN.findall(path):
        if token in "Zz":
            out.append("z")
            here = start
        elif token.isalpha():
            command = token
        else:
            numbers.append(round(float(token) * 10))
            if len(numbers) == _NUMBERS[command]:
                out.append(_step(command, numbers, here))
                here, numbers = (numbers[-2], numbers[-1]), []
                if command == "M":
                    start, command = here, "L"
    return "".join(out)


def _step(command: str, places: list[int], here: tuple[int, int]) -> str:
    """One command of a path in tenths, from `here`; only a letter's own start is a place."""
    if command == "M":
        return f"M{_tenths(places[0])} {_tenths(places[1])}"
    steps = [place - here[index % 2] for index, place in enumerate(places)]
    if command == "L" and 0 in steps:
        return f"v{_tenths(steps[1])}" if steps[0] == 0 else f"h{_tenths(steps[0])}"
    texts = [_tenths(step) for step in steps]
    return command.lower() + texts[0] + "".join(text if text[0] == "-" else f" {text}" for text in texts[1:])


def _tenths(value: int) -> str:
    """`12.3`, `-.5`, `7`."""
    whole, rest = divmod(abs(value), 10)
    digits = (str(whole) if whole or not rest else "") + (f".{rest}" if rest else "")
    return ("-" if value < 0 else "") + digits


def _references(root: ET.Element) -> set[str]:
    found: set[str] = set()
    for element in root.iter():
        for value in element.attrib.values():
            for match in _REFERENCE.finditer(value):
                found.add(match.group(1) or match.group(2))
    return found
