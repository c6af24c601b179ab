"""What a longer or shorter window would cost: the steps of the packages, and where the configurations stand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from runner.decide.model import BalanceRow, PackageOption
from runner.note.figures.canvas import Drawing, blank
from runner.note.figures.style import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, SAND, WHITE, Pen, value_axis

_HEIGHT_INCHES = 2.0
_COLOURS = (BLUE, ORANGE, GREEN, INK, SAND)
_DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (8, 2, 2, 2)), "-")
_MOST_LINES = 5
_WEEK_HOURS = 168.0
_MONTH_HOURS = 720.0

Step = tuple[float, float, Decimal]
"""From and to (hours), cost."""


def what_if(pen: Pen) -> Drawing | None:
    """Cheapest known cost by the length of the window, one line per GPU and number of lots."""
    t = pen.t
    rows = [row for row in pen.evidence.measured_rows if row.window is not None and not row.own_machine]
    lines = {(row.gpu, row.lots or 1): steps(row.packages) for row in rows}
    lines = {key: found for key, found in sorted(lines.items()) if found}
    if not lines:
        return None
    canvas = blank(_HEIGHT_INCHES + (0.15 * len(lines) if pen.narrow else 0), narrow=pen.narrow)
    axes = canvas.subplots()
    longest = max(_hours(row) for row in rows)
    right = _MONTH_HOURS if longest > _WEEK_HOURS else _WEEK_HOURS
    axes.set_xlim(0, right * 1.06)
    axes.set_ylim(0, float(max(cost for found in lines.values() for _, _, cost in found)) * 1.28)
    for number, ((gpu, lots), found) in enumerate(list(lines.items())[:_MOST_LINES]):
        _line(axes, pen, found, gpu, lots, number)
    _package_marks(axes, pen, rows, right)
    for row in (row for row in rows if row in pen.evidence.timed_rows):
        _mark(axes, row, chosen=row.configuration_id == pen.evidence.decision.chosen)
    value_axis(axes, pen, t.gettext("Access window, hours"))
    axes.xaxis.set_major_locator(MultipleLocator((24 if right == _WEEK_HOURS else 120) * (2 if pen.narrow else 1)))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: pen.number(value)))
    axes.grid(visible=False, axis="x")
    axes.grid(visible=True, axis="y", color=FAINT)
    axes.tick_params(axis="y", labelcolor=QUIET, labelsize=7.5)
    axes.set_ylabel(t.gettext("Committed cost, %(currency)s", currency=_currency(rows)))
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1.0), ncols=pen.legend_columns, borderaxespad=0.2, handlelength=2.4
    )
    caption = t.gettext(
        "A line is the cheapest known price for a window of that length; it jumps where the next package is needed and "
        "ends where no price is known. Circles are the configurations with an accepted pass, the filled one is chosen."
    )
    return Drawing("fig-what-if", canvas, t.gettext("What another window would cost"), _words(pen, lines), caption)


def steps(packages: Sequence[PackageOption]) -> list[Step]:
    """Cheapest known cost by window: from where to where, and how much. Hourly offers are no packages."""
    priced = sorted(
        (float(Decimal(p.seconds) / 3600), Decimal(p.total))
        for p in packages
        if p.total is not None and p.days is not None and p.available is not False
    )
    found = []
    start = 0.0
    for number, (hours, _) in enumerate(priced):
        found.append((start, hours, min(total for _, total in priced[number:])))
        start = hours
    return found


def _line(axes: Axes, pen: Pen, found: Sequence[Step], gpu: str, lots: int, number: int) -> None:
    xs: list[float] = []
    ys: list[float] = []
    right = axes.get_xlim()[1]
    for start, end, cost in found:
        if start >= right:
            break
        xs += [start, min(end, right)]
        ys += [float(cost), float(cost)]
    label = pen.t.gettext("%(gpu)s, lots: %(lots)s", gpu=pen.name(gpu), lots=str(lots))
    axes.plot(xs, ys, color=_COLOURS[number], linestyle=_DASHES[number], linewidth=1.6, label=label, zorder=2)
    if xs[-1] < right:
        axes.plot([xs[-1]], [ys[-1]], marker="|", markersize=9, markeredgewidth=1.6, color=_COLOURS[number], zorder=3)


def _mark(axes: Axes, row: BalanceRow, *, chosen: bool) -> None:
    """A circle where a configuration stands: filled if chosen, blue if admissible; those lie on top."""
    if row.committed_cost is None:
        return
    axes.scatter(
        [_hours(row)],
        [float(row.committed_cost)],
        s=42,
        facecolor=BLUE if chosen else WHITE,
        edgecolor=BLUE if row.admissible else QUIET,
        linewidth=1.3,
        zorder=6 if chosen else 5 if row.admissible else 4,
    )


def _package_marks(axes: Axes, pen: Pen, rows: Sequence[BalanceRow], right: float) -> None:
    """Vertical lines where packages end."""
    ends = sorted(
        {(float(Decimal(p.seconds) / 3600), p.days) for row in rows for p in row.packages if p.days is not None}
    )
    for hours, days in ends:
        if hours <= right:
            axes.axvline(hours, color=FAINT, linewidth=1.0, zorder=0)
            axes.annotate(
                pen.t.gettext("%(days)s days", days=str(days)),
                (hours, 1),
                xycoords=("data", "axes fraction"),
                xytext=(-3, -3),
                textcoords="offset points",
                ha="right",
                va="top",
                fontsize=7,
                color=QUIET,
            )


def _hours(row: BalanceRow) -> float:
    assert row.window is not None
    return float(Decimal(row.window.window_seconds) / 3600)


def _currency(rows: Sequence[BalanceRow]) -> str:
    return next((row.currency for row in rows if row.currency), "")


def _words(pen: Pen, lines: dict[tuple[str, int], list[Step]]) -> str:
    t, fmt = pen.t, pen.fmt
    currency = _currency(pen.evidence.measured_rows)
    parts = [
        t.gettext(
            "%(gpu)s, lots: %(lots)s: up to %(hours)s %(cost)s.",
            gpu=pen.name(gpu),
            lots=str(lots),
            hours=fmt.hours(str(end * 3600)),
            cost=fmt.money(cost, currency),
        )
        for (gpu, lots), found in lines.items()
        for _, end, cost in found
    ]
    return t.gettext("Step lines of cost by the length of the window.") + " " + " ".join(parts)
