"""What makes the report fast changes nothing in it (issue 5: speed to reach; NO-08)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.evidence.campaign import Campaign
from runner.note.build import NoteFiles
from runner.note.fonts import FACES, _coverage, _load
from runner.note.layout import pdf_operators
from runner.note.svg import _in_steps, as_image, compact

ROOT = Path(__file__).resolve().parents[2]
LETTER = "M 12.5 3 Q 4 5.25 -6 7 L 8 9 10 11 C 1 2 3 4 5.5 -6 Z M 0 0 L 1 0 z L 2 2"


class Page:
    """Takes what WeasyPrint draws and keeps it as numbers and operators."""

    def __init__(self) -> None:
        self.drawn: list[tuple[str, tuple[float, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        operator = {"move_to": "m", "line_to": "l", "curve_to": "c", "close": "h"}[name]
        return lambda *numbers: self.drawn.append((operator, numbers))


def drawn_by_weasyprint(data: str) -> list[tuple[str, tuple[float, ...]]]:
    from weasyprint.svg.path import path  # type: ignore[import-untyped]

    class Drawing:
        def __init__(self) -> None:
            self.stream = Page()
            self.vertices: list[object] = []

        def get(self, name: str, default: str = "") -> str:
            return data

        def point(self, x: str, y: str, _: float) -> tuple[float, float]:
            return float(x), float(y)

    drawing = Drawing()
    path(drawing, drawing, 12.0)
    assert drawing.stream.drawn[0] == ("m", (0, 0)), "WeasyPrint's own start, which draws nothing"
    return drawing.stream.drawn[1:]


def drawn_by_us(data: str) -> list[tuple[str, tuple[float, ...]]]:
    operators = pdf_operators(data)
    assert operators is not None
    lines = [line.split() for line in operators.decode("ascii").splitlines()]
    return [(line[-1], tuple(map(float, line[:-1]))) for line in lines]


def test_every_outline_of_the_note_is_drawn_as_weasyprint_draws_it(campaign: Campaign, note: NoteFiles) -> None:
    outlines = [LETTER]
    for figure in sorted((campaign.note / "figures").iterdir()):
        image = as_image(compact(figure.read_bytes(), name=figure.name)).decode("utf-8")
        outlines += re.findall(r' d="([^"]+)"', image)
    assert len(outlines) > 200
    for data in outlines:
        ours, theirs = drawn_by_us(data), drawn_by_weasyprint(data)
        assert [name for name, _ in ours] == [name for name, _ in theirs], data[:200]
        for (_, here), (_, there) in zip(ours, theirs, strict=True):
            assert here == pytest.approx(there, abs=0.000_6)


def test_steps_of_the_screen_draw_what_the_places_of_the_paper_draw(campaign: Campaign, note: NoteFiles) -> None:
    """The HTML holds every figure twice (issue 5.3): its outlines are shorter, and the same."""
    outlines = ["M1 2 L1 5 L4 5 Q-6 7 8.5 -0.5 C1 2 3 4 5.5 -6 zM7 7 L7 7 L2 2 z"]
    for figure in sorted((campaign.note / "figures").iterdir()):
        outlines += re.findall(r'<path d="([^"]+)" />', as_image(compact(figure.read_bytes(), name="x")).decode())
    shorter = [(data, _in_steps(data)) for data in outlines if _in_steps(data) != data]
    assert len(shorter) > 80 and sum(len(new) for _, new in shorter) < 0.75 * sum(len(old) for old, _ in shorter)
    for data, steps in shorter:
        ours, theirs = drawn_by_weasyprint(steps), drawn_by_weasyprint(data)
        assert [name for name, _ in ours] == [name for name, _ in theirs], data[:200]
        for (_, here), (_, there) in zip(ours, theirs, strict=True):
            assert here == pytest.approx(there, abs=1e-6)


@pytest.mark.parametrize(
    "data", ["m 1 1 l 2 2", "M 0 0 A 1 1 0 0 0 2 2", "M 1,1 L 2,2", "M 1e-5 0", "M 1", "L", "1 1", "M 1 1 L 2 Z", "x"]
)
def test_what_is_not_plain_goes_weasyprints_own_way(data: str) -> None:
    assert pdf_operators(data) is None


def test_no_program_searches_for_libraries() -> None:
    """On Linux, `ctypes` would start a compiler for each of eight libraries."""
    code = """
import ctypes.util, sys
def search(name):
    sys.exit(f"searched for {name}")
ctypes.util.find_library = search
from runner.note.layout import layout_library
layout_library()
assert ctypes.util.find_library is search, "the search is there again for everybody else"
"""
    if sys.platform == "linux":
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_letters_that_a_font_has_are_the_same_without_their_names(templates: Path) -> None:
    for face in FACES:
        path = templates / "fonts" / face.file
        assert _coverage(path) == frozenset(_load(path).getBestCmap())
