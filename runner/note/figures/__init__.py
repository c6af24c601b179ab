"""All figures of the note, drawn from its evidence (no figure computes a result of its own)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runner.note.evidence import Evidence
from runner.note.figures import artists as artists
from runner.note.figures.calendar import calendar
from runner.note.figures.canvas import Drawing, Figure, finish
from runner.note.figures.cost_time import cost_time
from runner.note.figures.durations import durations
from runner.note.figures.memory import memory
from runner.note.figures.padding import padding
from runner.note.figures.quality import quality
from runner.note.figures.style import Pen, style
from runner.note.figures.what_if import what_if
from runner.note.format import Formatter
from runner.note.i18n import Catalogue

__all__ = ["Figure", "make_figures"]

_DRAWINGS: tuple[Callable[[Pen], Drawing | None], ...] = (
    durations,
    quality,
    memory,
    padding,
    calendar,
    cost_time,
    what_if,
)


def make_figures(
    evidence: Evidence, fmt: Formatter, catalogue: Catalogue, folder: Path | None, *, narrow: bool = False
) -> tuple[Figure, ...]:
    """Draw every figure that has something to show as SVG into `folder`. Same evidence and language, same bytes.

    Durations and quality of what was measured are drawn without data too: they say so. Without a folder
    only the words are made, which is much faster: the note's text needs no more. `narrow`: for a phone.
    """
    pen = Pen(evidence, fmt, catalogue, narrow)
    with style(pen.fonts):
        drawings = [draw(pen) for draw in _DRAWINGS]
        return tuple(finish(drawing, folder) for drawing in drawings if drawing is not None)
