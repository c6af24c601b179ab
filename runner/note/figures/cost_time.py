"""Committed cost against the time of delivery, with the deadline (M43)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from runner.decide.model import BalanceRow, WindowFacts
from runner.note.figures.canvas import Drawing, blank
from runner.note.figures.style import BLUE, FAINT, INK, ORANGE, QUIET, RED, WHITE, Pen, value_axis
from runner.units import parse_utc

_HEIGHT_INCHES = 2.2
_MOST_NAMES = 4
_RIGHT_PART = 0.5
_FROM_ZERO = 0.3
"""An axis begins at 0 unless the first mark's room begins later than this share of it."""
_LEAST_SPAN = 0.1
_POINTS = 72
_AXIS_WORDS = 45  # points beside and below the axes
_LETTER_POINTS, _LINE_POINTS = 3.9, 9.5
_LEVELS = (-4, 10, 22, 34, 46)  # points above a mark


@dataclass(frozen=True)
class _Box:
    """Place of words in a drawing, in points."""

    x: float
    y: float
    width: float
    height: float

    def shared(self, other: _Box) -> float:
        """Area that both cover."""
        wide = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        high = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        return max(0.0, wide) * max(0.0, high)


def cost_time(pen: Pen) -> Drawing | None:
    """One mark per priced configuration with an accepted pass: left is earlier, lower is cheaper.

    Of any other only the plan says when it would deliver: no point of a figure of what was found.
    """
    t = pen.t
    title = t.gettext("Committed cost and time of delivery")
    timed = pen.evidence.timed_rows
    rows = [row for row in pen.evidence.shown_rows if row.committed_cost is not None and row in timed]
    if not rows:
        return None
    canvas = blank(_HEIGHT_INCHES, narrow=pen.narrow)
    axes = canvas.subplots()
    _limits(axes, pen, rows)
    places = sorted(_places(rows).items())
    taken = [_Box(x - 4, y - 4, 8, 8) for x, y in (_points(axes, place, pen) for place, _ in places)]
    width, height = axes.figure.get_size_inches() * _POINTS  # type: ignore[union-attr]
    taken.append(_Box(width - _AXIS_WORDS, -height, width, 3 * height))  # right of the axes
    for place, same in places:
        _mark(axes, place, same, pen)
        _label(axes, place, same, pen, taken)
    caption = t.gettext(
        "Lower is cheaper, left is earlier; right of the dashed line is too late. Crosses are not admissible, whatever "
        "they cost; the filled mark is the chosen one."
    )
    if axes.get_xlim()[0] > 0:
        caption += " " + t.gettext("The time axis does not begin at 0.")
    return Drawing("fig-cost-time", canvas, title, _description(pen, rows), caption + pen.cut())


def _hours(row: BalanceRow) -> float:
    """Hours from the start of the window to the end of the delivery."""
    assert row.window is not None
    return _since_start(row.window, row.window.delivered_at_utc)


def _since_start(window: WindowFacts, utc: str) -> float:
    return (parse_utc(utc) - parse_utc(window.starts_at_utc)).total_seconds() / 3600


def _cost(row: BalanceRow) -> float:
    return float(Decimal(row.committed_cost or "0"))


def _places(rows: Sequence[BalanceRow]) -> dict[tuple[float, float], list[BalanceRow]]:
    """Rows by (hours, cost): configurations at the same place share mark and label."""
    places: dict[tuple[float, float], list[BalanceRow]] = {}
    for row in rows:
        places.setdefault((round(_hours(row), 1), _cost(row)), []).append(row)
    return places


def _mark(axes: Axes, place: tuple[float, float], rows: Sequence[BalanceRow], pen: Pen) -> None:
    """Filled: chosen; open: admissible; a cross: not admissible, its arms longer where it lies under a point."""
    if any(row.admissible for row in rows):
        chosen = any(row.configuration_id == pen.evidence.decision.chosen for row in rows)
        axes.scatter(*place, s=46, facecolor=BLUE if chosen else WHITE, edgecolor=BLUE, linewidth=1.3, zorder=3)
    if not all(row.admissible for row in rows):
        size = 170 if any(row.admissible for row in rows) else 40
        axes.scatter(*place, s=size, marker="x", color=RED, linewidth=1.4, zorder=2)


def _label(axes: Axes, place: tuple[float, float], rows: Sequence[BalanceRow], pen: Pen, taken: list[_Box]) -> None:
    """Names beside the mark, where they cover no mark and no other names."""
    names = [_names(pen, [row for row in rows if row.admissible])]
    failed = [row for row in rows if not row.admissible]
    if failed:
        names.append(pen.t.gettext("not admissible: %(names)s", names=_names(pen, failed)))
    money = pen.fmt.money(rows[0].committed_cost or "0", rows[0].currency or "")
    lines = [*(pen.at_axis(line) for line in names if line), money]
    text = "\n".join(lines)
    width = max(map(len, text.split("\n"))) * _LETTER_POINTS
    height = len(text.split("\n")) * _LINE_POINTS
    x, y = _points(axes, place, pen)
    sides = [(side, level) for level in _LEVELS for side in ("left", "right")]
    if place[0] - axes.get_xlim()[0] > _RIGHT_PART * (axes.get_xlim()[1] - axes.get_xlim()[0]):
        sides = [(side, level) for level in _LEVELS for side in ("right", "left")]
    boxes = {
        (side, level): _Box(x + 8 if side == "left" else x - 8 - width, y + level, width, height)
        for side, level in sides
    }
    side, level = min(boxes, key=lambda key: sum(boxes[key].shared(other) for other in taken))
    taken.append(boxes[side, level])
    axes.annotate(
        text,
        place,
        xytext=(8 if side == "left" else -8, level),
        textcoords="offset points",
        ha=side,
        va="bottom",
        fontsize=7,
        color=INK,
        linespacing=1.3,
        bbox={"facecolor": WHITE, "edgecolor": "none", "pad": 1.0},
    )


def _points(axes: Axes, place: tuple[float, float], pen: Pen) -> tuple[float, float]:
    """About where a place lies in the drawing, in points: the axes are arranged later."""
    width, height = axes.figure.get_size_inches() * _POINTS  # type: ignore[union-attr]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return (
        (place[0] - left) / (right - left) * (width - _AXIS_WORDS),
        (place[1] - low) / (high - low) * (height - _AXIS_WORDS),
    )


def _names(pen: Pen, rows: Sequence[BalanceRow]) -> str:
    """Names at one place, at most four of them."""
    names = [pen.row_name(row) for row in rows]
    return ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")


def _limits(axes: Axes, pen: Pen, rows: Sequence[BalanceRow]) -> None:
    assert rows[0].window is not None
    deadline = min(_since_start(row.window, row.window.deadline_utc) for row in rows if row.window is not None)
    first, last = min(_hours(row) for row in rows), max(_hours(row) for row in rows)
    shown = deadline <= 3 * last
    left, right = (min(first, deadline), max(last, deadline)) if shown else (first, last)
    span = max(right - left, _LEAST_SPAN * right)
    begin = left - 0.6 * span
    axes.set_xlim(begin if begin > _FROM_ZERO * right else 0, right + 0.5 * span)
    axes.set_ylim(0, max(_cost(row) for row in rows) * 1.35)
    if shown:
        axes.axvline(deadline, color=ORANGE, linewidth=1.3, linestyle=(0, (5, 2)))
        axes.annotate(
            pen.t.gettext("deadline"),
            (deadline, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -8),
            textcoords="offset points",
            color=ORANGE,
            fontweight=600,
            fontsize=7.5,
        )
    value_axis(
        axes, pen, pen.t.gettext("Hours from the start of the rental to delivery"), most_ticks=5 if pen.narrow else 7
    )
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: pen.number(value)))
    axes.grid(visible=True, axis="y", color=FAINT)
    axes.set_ylabel(pen.t.gettext("Committed cost, %(currency)s", currency=rows[0].currency or ""))
    axes.tick_params(axis="y", labelcolor=QUIET, labelsize=7.5)


def _description(pen: Pen, rows: Sequence[BalanceRow]) -> str:
    t, fmt = pen.t, pen.fmt
    parts = []
    for row in rows:
        assert row.window is not None
        parts.append(
            t.gettext(
                "%(name)s: %(cost)s, delivered at %(time)s, %(state)s.",
                name=pen.row_name(row),
                cost=fmt.money(row.committed_cost or "0", row.currency or ""),
                time=fmt.local_instant(row.window.delivered_at_utc, pen.evidence.plan.zone),
                state=t.gettext("admissible") if row.admissible else t.gettext("not admissible"),
            )
        )
    return t.gettext("Scatter plot of cost against time.") + " " + " ".join(parts)
