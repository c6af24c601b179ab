"""One look for all figures: the note's font, few lines, colours that the colour-blind can tell apart."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from runner.decide.model import BalanceRow
from runner.evidence.canonical import sha256_file
from runner.note.evidence import Evidence
from runner.note.fonts import covered_characters, show_uncovered
from runner.note.format import Formatter
from runner.note.i18n import Catalogue

INK = "#1d2733"
QUIET = "#5b6672"
FAINT = "#d5dae0"
# Held apart for all kinds of colour vision by tests/note/test_palette.py.
BLUE = "#19409a"
STEEL = "#5f93c7"
SKY = "#b4d4f2"
ORANGE = "#b95a08"
SAND = "#f0c48a"
GREEN = "#1e775d"
RED = "#95000a"
WHITE = "#ffffff"

_FACES = ("Inter-Regular.ttf", "Inter-SemiBold.ttf")
_OWN_TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
_LONGEST_NAME = 44
_NARROW_NAME = 18  # letters of a line

_LOOK: dict[str, Any] = {
    "svg.fonttype": "path",
    "text.parse_math": False,
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.titleweight": 600,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.0,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "axes.unicode_minus": True,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "hatch.linewidth": 0.5,
    "figure.facecolor": WHITE,
    "savefig.facecolor": WHITE,
    "figure.constrained_layout.h_pad": 0.04,
    "figure.constrained_layout.w_pad": 0.04,
}


@dataclass(frozen=True)
class Pen:
    """What every drawing needs: the evidence, formatted values, translated words (`t.gettext("literal")`)."""

    evidence: Evidence
    fmt: Formatter
    t: Catalogue
    narrow: bool = False
    """Whether to draw for the width of a phone: one panel beside the other becomes one below the other."""

    @property
    def fonts(self) -> Path:
        """Folder of the fonts: the campaign's own templates, else those of the installation."""
        own = self.evidence.campaign.templates / "fonts"
        return own if (own / _FACES[0]).exists() else _OWN_TEMPLATES / "fonts"

    @cached_property
    def _covered(self) -> frozenset[int]:
        return covered_characters(self.fonts.parent)

    def name(self, text: str, most: int = _LONGEST_NAME) -> str:
        """A name of the user's, with what the font cannot show as `U+XXXX`, shortened if it is long."""
        shown, _ = show_uncovered(text.replace("\n", " "), self._covered)
        return shown if len(shown) <= most else shown[: most - 1] + "…"

    def number(self, value: float) -> str:
        """A tick of an axis, without trailing zeros."""
        exact = Decimal(f"{value:.6g}")
        places = max(0, -int(exact.normalize().as_tuple().exponent))
        return self.fmt.decimal(exact, places)

    def cut(self) -> str:
        """How many configurations a figure shows, if these are not all: a sentence for its caption."""
        shown, count = len(self.evidence.shown_rows), len(self.evidence.measured_rows)
        if shown == count:
            return ""
        return " " + self.t.gettext("Shown: %(shown)s of %(count)s configurations.", shown=str(shown), count=str(count))

    def row_name(self, row: BalanceRow) -> str:
        return self.name(row.configuration_id)

    def at_axis(self, name: str) -> str:
        """A name at an axis: on a phone broken into lines, so that the drawing keeps its room."""
        return textwrap.fill(name, _NARROW_NAME) if self.narrow else name

    @property
    def legend_columns(self) -> int:
        return 1 if self.narrow else 3


@contextmanager
def style(fonts: Path) -> Iterator[None]:
    """The look, from matplotlib's own defaults: no settings of the user or the machine have a part in it."""
    family = _register(fonts)
    settings: Any = mpl.rcParams
    with mpl.rc_context():
        mpl.rcdefaults()
        settings.update(_LOOK | {"font.family": [family]})
        yield


def _register(fonts: Path) -> str:
    """Name these font files by their content, so that a system font of the same name is never taken."""
    paths = [fonts / face for face in _FACES]
    family = "note-" + sha256_file(paths[0])[:12]
    manager = font_manager.fontManager
    if not any(entry.name == family for entry in manager.ttflist):
        for path in paths:
            entry = font_manager.ttfFontProperty(font_manager.get_font(str(path)))
            manager.ttflist.append(dataclasses.replace(entry, name=family))
    return family


def value_axis(axes: Axes, pen: Pen, label: str, *, most_ticks: int = 7, integer: bool = False) -> None:
    """Horizontal axis of values with quiet vertical lines behind the marks."""
    axes.xaxis.set_major_locator(MaxNLocator(most_ticks, integer=integer, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: pen.number(value)))
    axes.grid(visible=True, axis="x")
    axes.set_xlabel(label)


def name_axis(axes: Axes, names: Sequence[str]) -> None:
    """Vertical axis of names, the first on top, without a line."""
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
