"""Colours that stand for different things in one figure stay apart for every kind of colour vision (issue 5.1).

Simulation: the matrices for complete protanopia, deuteranopia and tritanopia of Machado, Oliveira and Fernandes,
"A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 15 (6), 2009, on linear RGB.
Difference: CIEDE2000 after Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", Color Research and
Application 30 (1), 2005, checked against pairs of its table of test data. Contrast: WCAG 2.2.
"""

from __future__ import annotations

import math
import re
import sys
from itertools import combinations
from pathlib import Path

import pytest

from runner.note.figures.style import Pen

style = sys.modules[Pen.__module__]  # the package has a function of this name

Triple = tuple[float, float, float]

MACHADO: dict[str, tuple[Triple, Triple, Triple]] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
    ),
}  # fmt: skip
TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
D65 = (0.95047, 1.0, 1.08883)

# Which colours meet in which figure, by their names in `style`.
TOGETHER = {
    "durations": "BLUE INK FAINT RED",
    "quality": "BLUE INK RED",
    "memory": "BLUE ORANGE GREEN INK",
    "padding": "BLUE SAND",
    "calendar": "BLUE STEEL SKY ORANGE GREEN RED",
    "cost-time": "BLUE ORANGE RED",
    "what-if": "BLUE ORANGE GREEN INK SAND",
}
APART = 12.0  # CIEDE2000; about 1 is just noticeable, 10 is seen at a glance
TEXT, GRAPHIC = 4.5, 3.0  # WCAG 1.4.3 and 1.4.11
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def linear(colour: str) -> Triple:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))

    def one(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return one(red), one(green), one(blue)


def times(matrix: tuple[Triple, Triple, Triple], value: Triple) -> Triple:
    first, second, third = (sum(a * b for a, b in zip(row, value, strict=True)) for row in matrix)
    return first, second, third


def lab(rgb: Triple) -> Triple:
    def curve(value: float) -> float:
        return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116

    x, y, z = (curve(part / white) for part, white in zip(times(TO_XYZ, rgb), D65, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, vision: str) -> Triple:
    """CIELAB of a colour as somebody with that vision sees it."""
    red, green, blue = (min(1.0, max(0.0, part)) for part in times(MACHADO[vision], linear(colour)))
    return lab((red, green, blue))


def ciede2000(one: Triple, two: Triple) -> float:
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(a1 * stretch, b1), math.hypot(a2 * stretch, b2)
    h1, h2 = (math.degrees(math.atan2(b, a * stretch)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = h1 + turn / 2 if c1 * c2 else h1 + h2
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    weight = (
        1 - 0.17 * math.cos(math.radians(hue - 30)) + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6)) - 0.20 * math.cos(math.radians(4 * hue - 63))
    )  # fmt: skip
    d_l = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2))
    d_c = (c2 - c1) / (1 + 0.045 * chroma)
    d_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * weight)
    bend = math.radians(60 * math.exp(-(((hue % 360 - 275) / 25) ** 2)))
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7)) * math.sin(bend)
    return math.sqrt(d_l**2 + d_c**2 + d_h**2 + rotation * d_c * d_h)


def contrast(one: str, two: str) -> float:
    low, high = sorted(sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(x), strict=True)) for x in (one, two))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.4900, -0.0010), (50.0, -2.4900, 0.0009), 7.1792),
        ((50.0, 2.5000, 0.0000), (73.0, 25.0000, -18.0000), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_formula_gives_the_published_differences(one: Triple, two: Triple, expected: float) -> None:
    assert ciede2000(one, two) == pytest.approx(expected, abs=1e-4)
    assert ciede2000(two, one) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("vision", MACHADO)
@pytest.mark.parametrize("figure", TOGETHER)
def test_colours_of_one_figure_stay_apart(figure: str, vision: str) -> None:
    """Issue 5.1: a palette that is safe for the colour-blind, measured and not only said."""
    for one, two in combinations(TOGETHER[figure].split(), 2):
        difference = ciede2000(seen(getattr(style, one), vision), seen(getattr(style, two), vision))
        assert difference >= APART, f"{one} and {two}: {difference:.1f}"


def test_every_colour_that_a_figure_uses_is_compared() -> None:
    """A colour that a figure takes from `style` and that is missing above would be compared with nothing."""
    folder = Path(str(style.__file__)).parent
    for name, known in TOGETHER.items():
        text = (folder / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
        used = set(re.findall(r"\b(BLUE|STEEL|SKY|ORANGE|SAND|GREEN|RED)\b", text))
        assert used <= set(known.split()), name
        assert not re.search(r'"#[0-9a-f]{6}"', text), f"{name} has a colour of its own"


def test_marks_and_words_of_figures_stand_out_from_their_paper() -> None:
    """Figures keep their white paper in dark mode too. FAINT, SAND and SKY only fill areas that are outlined."""
    for name in ("INK", "QUIET", "BLUE", "ORANGE", "GREEN", "RED"):
        assert contrast(getattr(style, name), style.WHITE) >= TEXT, name
    assert contrast(style.STEEL, style.WHITE) >= GRAPHIC


def variables(name: str) -> dict[str, str]:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    root = re.search(r":root \{(.*?)\}", text, re.DOTALL)
    assert root is not None
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", root[1]))


@pytest.mark.parametrize("sheet", ["style.css", "screen.css"])
def test_words_stand_out_from_every_background_of_the_note(sheet: str) -> None:
    """Light (style.css) and dark (screen.css): every text colour on page, table wash, answer box and callouts."""
    colours = variables(sheet)
    for paper in ("paper", "wash", "accent-wash", "warn-wash"):
        for ink in ("ink", "soft", "accent"):
            assert contrast(colours[ink], colours[paper]) >= TEXT, (ink, paper)
    for ink in ("good", "bad", "open"):
        assert contrast(colours[ink], colours["paper"]) >= TEXT, ink
    assert colours["figure-paper"] == style.WHITE


@pytest.mark.parametrize("sheet", ["style.css", "screen.css"])
def test_met_and_not_met_differ_for_everybody(sheet: str) -> None:
    """They are words too; the colours must not contradict them for anybody."""
    colours = variables(sheet)
    for vision in MACHADO:
        assert ciede2000(seen(colours["good"], vision), seen(colours["bad"], vision)) >= APART, vision
