"""WeasyPrint as this note needs it: loaded without starting a compiler, outlines written in one go.

Both are matters of speed only: the PDF has the same content with and without them.
"""

from __future__ import annotations

import ctypes.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_TOKEN = re.compile(r"-?\d+(?:\.\d+)?|\S")
_NUMBERS = {"M": 2, "L": 2, "Q": 4, "C": 6}


def layout_library() -> Any:
    """The module `weasyprint`, ready to lay out our pages."""
    if "weasyprint" not in sys.modules:
        try:
            with _no_search_for_libraries():
                import_module("weasyprint")
        except OSError:  # not where the loader looks: let it search everywhere
            for name in [name for name in sys.modules if name.partition(".")[0] == "weasyprint"]:
                del sys.modules[name]
    weasyprint: Any = import_module("weasyprint")
    _draw_outlines_fast()
    return weasyprint


@contextmanager
def _no_search_for_libraries() -> Iterator[None]:
    """On Linux the loader finds libraries by their full name.

    WeasyPrint tries other systems' names first, and for each `ctypes` starts `ldconfig`, a compiler
    and a linker, which takes a third of a second in all.
    """
    if sys.platform != "linux":
        yield
        return
    search = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None
    try:
        yield
    finally:
        ctypes.util.find_library = search


def _draw_outlines_fast() -> None:
    """Let plain paths of a drawing go straight into the page; every other path goes WeasyPrint's own way."""
    tags: dict[str, Callable[[Any, Any, float], None]] = import_module("weasyprint.svg").TAGS
    general = tags["path"]
    if getattr(general, "for_plain_paths", False):
        return

    def path(svg: Any, node: Any, font_size: float) -> None:
        operators = None if _has_markers(node) else pdf_operators(node.get("d", ""))
        if operators is None:
            general(svg, node, font_size)
        else:
            svg.stream.stream.append(operators)

    path.for_plain_paths = True  # type: ignore[attr-defined]
    tags["path"] = path


def _has_markers(node: Any) -> bool:
    return any(node.get(name) for name in ("marker", "marker-start", "marker-mid", "marker-end"))


def pdf_operators(data: str) -> bytes | None:
    """The PDF's path operators for SVG path data; None if it is more than `M`, `L`, `Q`, `C`, `Z` and plain numbers.

    Numbers stay as they are written. Quadratic curves become the cubic ones that PDF knows, to a
    thousandth of a unit.
    """
    out: list[str] = []
    tokens = _TOKEN.findall(data)
    command = ""
    x = y = start_x = start_y = 0.0
    place, end = 0, len(tokens)
    try:
        while place < end:
            if tokens[place] in "Zz":
                out.append("h")
                x, y, command = start_x, start_y, ""
                place += 1
                continue
            if tokens[place] in _NUMBERS:
                command = tokens[place]
                place += 1
            values = tokens[place : place + _NUMBERS[command]]
            place += _NUMBERS[command]
            if command == "Q":
                middle_x, middle_y, to_x, to_y = map(float, values)
                out.append(
                    f"{(x + 2 * middle_x) / 3:.3f} {(y + 2 * middle_y) / 3:.3f} "
                    f"{(to_x + 2 * middle_x) / 3:.3f} {(to_y + 2 * middle_y) / 3:.3f} {values[2]} {values[3]} c"
                )
            elif command == "C":
                *_, to_x, to_y = map(float, values[:6] if len(values) == 6 else ())
                out.append(" ".join(values) + " c")
            else:
                to_x, to_y = map(float, values)
                out.append(f"{values[0]} {values[1]} {'m' if command == 'M' else 'l'}")
                if command == "M":
                    start_x, start_y, command = to_x, to_y, "L"
            x, y = to_x, to_y
    except (KeyError, ValueError):
        return None
    return "\n".join(out).encode("ascii")
