"""A drawing with its words, and how it becomes an SVG file that is the same everywhere."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

WIDTH_INCHES = 6.7
NARROW_INCHES = 3.75  # what a phone of 390 px shows beside its margins: words keep their size, nothing scrolls
_MOST_INCHES = 5.9  # what style.css lets a figure take of a page: a higher one would be made smaller, its words too
_NARROW_LETTERS = 46  # of a line of a phone
_SVG_DPI = 72  # what matplotlib sets for this format


@dataclass(frozen=True)
class Drawing:
    """Canvas with what a reader gets who cannot see it (`description`) and what to read from it (`caption`)."""

    id: str
    canvas: Canvas
    title: str
    description: str
    caption: str


@dataclass(frozen=True)
class Figure:
    """A figure of the note. `id` such as `fig-durations`; `description` is the alternative text."""

    id: str
    path: Path
    title: str
    description: str
    caption: str


def blank(height_inches: float, *, narrow: bool = False) -> Canvas:
    """Empty canvas of the text width, at most as high as a page with its caption; or as wide as a phone."""
    size = (NARROW_INCHES, height_inches) if narrow else (WIDTH_INCHES, min(height_inches, _MOST_INCHES))
    canvas = Canvas(figsize=size, layout="constrained")
    FigureCanvasSVG(canvas)
    return canvas


def without_data(message: str, *, narrow: bool = False) -> Canvas:
    """A figure that says that there is nothing to show; it is never an empty frame."""
    canvas = blank(0.7, narrow=narrow)
    words = textwrap.fill(message, _NARROW_LETTERS) if narrow else message
    canvas.text(0.5, 0.5, words, ha="center", va="center", color="#4a5560", fontsize=9)
    return canvas


def finish(drawing: Drawing, folder: Path | None) -> Figure:
    """Write `<folder>/<name>.svg`, if there is a folder: own salt for its ids, no date, no program version."""
    name = f"{drawing.id.removeprefix('fig-')}.svg"
    path = Path(name) if folder is None else folder / name
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        _save(drawing, path)
    drawing.canvas.clear()  # its parts hold each other, and through their labels the whole evidence
    return Figure(drawing.id, path, drawing.title, drawing.description, drawing.caption)


def _save(drawing: Drawing, path: Path) -> None:
    canvas = drawing.canvas
    with mpl.rc_context({"svg.hashsalt": drawing.id}):
        layout = canvas.get_layout_engine()
        if layout is not None and canvas.axes:  # saving would draw everything once more, to arrange it
            canvas.dpi = _SVG_DPI
            layout.execute(canvas)
            canvas.set_layout_engine("none")
        canvas.savefig(
            path,
            format="svg",
            transparent=True,  # the page shows through: its own colour, and the mark of an example note
            metadata={
                "Date": None,
                "Creator": None,
                "Title": drawing.title,
                "Description": drawing.description,
            },
        )
