"""The rental's calendar against the packages and the deadline (M34, M35)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo

from babel.dates import format_datetime
from matplotlib.axes import Axes

from runner.decide.calendar import replaced_in
from runner.decide.model import BalanceRow
from runner.note.figures.canvas import Drawing, blank
from runner.note.figures.style import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, RED, SKY, STEEL, WHITE, Pen
from runner.pricing.core import PACKAGE_DAYS, covers, package_seconds
from runner.pricing.window import TaskTime, Window, access_window
from runner.units import exact_seconds, utc_text

_ROW_INCHES = 0.21
_FULL_ROW_INCHES = 0.25
_NARROW_ROW_INCHES = 0.34
_FULL_NARROW_ROW_INCHES = 0.39
_MOST_TICKS = 8
_NARROW_TICKS = 3
_LINE_LETTERS = 36
_NARROW_LETTERS = 20
_LABEL_POINTS = 6.8  # two lines fit into a row
_LETTER_SHARE = 0.011  # of the axis, for one letter of a duration
_NARROW_LETTER_SHARE = 0.019
_SECONDS_PER_DAY = 86400


def calendar(pen: Pen) -> Drawing:
    """Tasks of the chosen configuration (else of the one with the longest window) as bars in the plan's zone."""
    t = pen.t
    title = t.gettext("Rental calendar, packages and deadline")
    row = pen.evidence.calendar_row
    window = _window(pen, row)
    rows = len(window.tasks) + 1 + len(PACKAGE_DAYS)
    titles = [_wrapped(pen, task.title) for task in window.tasks]
    canvas = blank(0.75 + _row_inches(titles, narrow=pen.narrow) * rows, narrow=pen.narrow)
    axes = canvas.subplots()
    axes.set_axisbelow(True)  # a line of the grid never runs through the words in a bar
    end = _right_end(window)
    for place, task in enumerate(window.tasks):
        _task(axes, pen, place, task, window, end)
    for number, days in enumerate(PACKAGE_DAYS):
        _package(axes, pen, window, len(window.tasks) + 1 + number, days, end)
    _marks(axes, pen, window, rows)
    times = f"{_periods(pen)} × " if _periods(pen) > 1 else ""
    packages = [t.gettext("Package, %(days)s days", days=f"{times}{days}") for days in PACKAGE_DAYS]
    axes.set_yticks(range(rows), labels=[*titles, "", *packages])
    for label in axes.get_yticklabels():
        label.set_linespacing(0.95)
        label.set_fontsize(_LABEL_POINTS)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    start = _number(window.starts_at)
    axes.set_xlim(start - (end - start) * 0.01, end)
    _time_axis(axes, pen, window, end)
    return Drawing("fig-calendar", canvas, title, _description(pen, window), _caption(pen, row))


def _window(pen: Pen, row: BalanceRow | None) -> Window:
    """The window of the balance: every measured task with its largest accepted duration."""
    seconds: dict[str, Decimal] = {}
    for summary in row.summaries if row else ():
        if summary.raw_seconds:
            largest = max(exact_seconds(value) for value in summary.raw_seconds)
            seconds[summary.corpus_id] = max(largest, seconds.get(summary.corpus_id, Decimal(0)))
    return access_window(
        pen.evidence.plan,
        configuration=row.variant_id if row else None,
        pass_seconds=seconds,
        task_seconds=replaced_in(pen.evidence.plan, row),
    )


def _number(instant: datetime) -> float:
    """Days since 1970 in UTC: the axis runs in elapsed time, so a clock change bends nothing."""
    return instant.timestamp() / _SECONDS_PER_DAY


def _right_end(window: Window) -> float:
    """As far as the week after the start, the last task or the deadline; never as far as 30 days for nothing."""
    start = _number(window.starts_at)
    shown = [start + 7, _number(max(task.end for task in window.tasks))]
    if window.window_seconds > package_seconds(7):
        shown.append(start + 30)
    deadline = None if window.deadline is None else _number(window.deadline)
    if deadline is not None and deadline - start < 2 * (max(shown) - start):
        shown.append(deadline)
    return start + (max(shown) - start) * 1.04


def _wrapped(pen: Pen, title: str) -> str:
    """A task's whole title on at most two lines (on a phone three); only a longer one is shortened."""
    letters, most = (_NARROW_LETTERS, 3) if pen.narrow else (_LINE_LETTERS, 2)
    lines = textwrap.wrap(pen.name(title, most * letters), letters) or [""]
    rest = pen.name(" ".join(lines[most - 1 :]), letters)
    return "\n".join(lines if len(lines) <= most else [*lines[: most - 1], rest])


def _row_inches(titles: Sequence[str], *, narrow: bool) -> float:
    """Height of a row: more of it where two titles of the most lines stand one below the other."""
    most = 2 if narrow else 1
    full = any(min(above.count("\n"), below.count("\n")) >= most for above, below in pairwise(titles))
    if narrow:
        return _FULL_NARROW_ROW_INCHES if full else _NARROW_ROW_INCHES
    return _FULL_ROW_INCHES if full else _ROW_INCHES


def _task(axes: Axes, pen: Pen, place: int, task: TaskTime, window: Window, right: float) -> None:
    start, end = _number(task.start), _number(task.end)
    waiting = task.kind == "wait"
    colour = WHITE if waiting else SKY if task.after_rental else BLUE if task.source == "measured" else STEEL
    axes.barh(
        place,
        max(end - start, 0),
        left=start,
        height=0.62,
        color=colour,
        edgecolor=QUIET if waiting else BLUE,
        linewidth=0.6,
        hatch="////" if waiting else None,
    )
    if task.delivery:
        axes.scatter([end], [place], marker="D", s=20, facecolor=ORANGE, edgecolor=WHITE, linewidth=0.5, zorder=4)
    text = pen.fmt.duration(task.seconds)
    if task.source == "measured":
        text = pen.t.gettext("%(time)s, measured", time=text)
    first = _number(window.starts_at)
    needs = len(text) * (_NARROW_LETTER_SHARE if pen.narrow else _LETTER_SHARE) * (right - first)
    deadline = None if window.deadline is None else _number(window.deadline)
    hit = deadline is not None and start <= deadline <= end + needs and start - needs > first
    axes.annotate(
        text,
        (start if hit else end, place),
        xytext=(-4 if hit else 6, 0),
        textcoords="offset points",
        ha="right" if hit else "left",
        va="center",
        fontsize=6.5,
        color=QUIET,
        zorder=5,
        bbox={"facecolor": WHITE, "edgecolor": "none", "pad": 0.6},
    )


def _periods(pen: Pen) -> int:
    """Periods of a package that the plan asks for (M35)."""
    return 1 + pen.evidence.plan.extra_periods


def _package(axes: Axes, pen: Pen, window: Window, place: int, days: int, end: float) -> None:
    start, periods = _number(window.starts_at), _periods(pen)
    length = min(float(days * periods), end - start)
    fits = covers(days, window.window_seconds, periods)
    colour = GREEN if fits else RED
    axes.barh(place, length, left=start, height=0.5, facecolor=WHITE, edgecolor=colour, linewidth=1.0)
    needed = min(float(window.window_seconds) / _SECONDS_PER_DAY, length)
    axes.barh(place, needed, left=start, height=0.5, color=colour, alpha=0.22, linewidth=0)
    slack = Decimal(package_seconds(days) * periods) - window.window_seconds
    text = (
        pen.t.gettext("covers, %(hours)s to spare", hours=pen.fmt.hours(slack))
        if fits
        else pen.t.gettext("too short by %(hours)s", hours=pen.fmt.hours(-slack))
    )
    if days * periods > end - start:
        text += " →"
    axes.annotate(
        text,
        (start, place),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=INK,
        fontweight=600,
    )


def _marks(axes: Axes, pen: Pen, window: Window, rows: int) -> None:
    """End of the window below all tasks, and the deadline through everything."""
    for instant in (window.starts_at, window.ends_at):
        axes.axvline(_number(instant), color=FAINT, linewidth=1.0, zorder=0)
    axes.annotate(
        pen.t.gettext("access window: %(hours)s", hours=pen.fmt.hours(window.window_seconds)),
        (_number(window.starts_at), rows - 1 - len(PACKAGE_DAYS)),
        xytext=(1, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        fontweight=600,
        color=INK,
    )
    if window.deadline is None:
        return
    place = _number(window.deadline)
    end = _right_end(window)
    if place <= end:
        axes.axvline(place, color=ORANGE, linewidth=1.3, linestyle=(0, (5, 2)))
        axes.annotate(
            pen.t.gettext("deadline"),
            (place, -0.6),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=ORANGE,
            fontweight=600,
            fontsize=7.5,
            annotation_clip=False,
        )
    else:
        date = pen.fmt.calendar_time(utc_text(window.deadline), pen.evidence.plan.zone)
        axes.annotate(
            pen.t.gettext("deadline %(date)s →", date=date),
            (1, 1),
            xycoords="axes fraction",
            ha="right",
            va="bottom",
            color=ORANGE,
            fontweight=600,
            fontsize=7.5,
        )


def _time_axis(axes: Axes, pen: Pen, window: Window, end: float) -> None:
    """Ticks at local midnights of the plan's zone."""
    zone = ZoneInfo(pen.evidence.plan.zone)
    start = window.starts_at.astimezone(zone)
    day = datetime(start.year, start.month, start.day, tzinfo=zone)
    span = int(end - _number(window.starts_at)) + 2
    step = -(-span // (_NARROW_TICKS if pen.narrow else _MOST_TICKS))
    ticks = [day + timedelta(days=step * index) for index in range(span // step + 1)]
    ticks = [tick for tick in ticks if _number(window.starts_at) - 0.02 <= _number(tick) <= end]
    labels = [format_datetime(tick, format=pen.fmt.day_pattern, tzinfo=zone, locale=pen.fmt.locale) for tick in ticks]
    axes.set_xticks([_number(tick) for tick in ticks], labels=labels)
    axes.grid(visible=True, axis="x")
    axes.set_xlabel(pen.t.gettext("Midnights in %(zone)s", zone=pen.evidence.plan.zone))


def _description(pen: Pen, window: Window) -> str:
    t, fmt, zone = pen.t, pen.fmt, pen.evidence.plan.zone
    tasks = t.gettext("; ").join(
        t.gettext(
            "%(title)s from %(start)s for %(time)s",
            title=pen.name(task.title, 200),
            start=fmt.calendar_time(utc_text(task.start), zone),
            time=fmt.duration(task.seconds),
        )
        for task in window.tasks
    )
    periods = _periods(pen)
    fit = [days * periods for days in PACKAGE_DAYS if covers(days, window.window_seconds, periods)]
    fitting = ", ".join(map(str, fit)) or t.gettext("none")
    deadline = t.gettext("none") if window.deadline is None else fmt.calendar_time(utc_text(window.deadline), zone)
    return t.gettext(
        "Calendar of tasks: %(tasks)s. Access window %(hours)s; packages that cover it, in days: %(days)s; deadline "
        "%(deadline)s.",
        tasks=tasks,
        hours=fmt.hours(window.window_seconds),
        days=fitting,
        deadline=deadline,
    )


def _caption(pen: Pen, row: BalanceRow | None) -> str:
    t = pen.t
    text = t.gettext(
        "Bars are tasks (hatched: the rental is kept while nothing runs; light: after the rental; diamond: delivery). "
        "A package counts from the first start; fitting a package does not prove finishing in time."
    )
    if row is None:
        return t.gettext("The calendar as planned.") + " " + text
    if row is pen.evidence.chosen_row:
        first = t.gettext("The calendar of the chosen configuration, %(name)s.", name=pen.row_name(row))
    elif len({other.window.window_seconds for other in pen.evidence.timed_rows if other.window is not None}) == 1:
        first = t.gettext(
            "The calendar of %(name)s; every configuration with an accepted pass has a window as long.",
            name=pen.row_name(row),
        )
    else:
        first = t.gettext("The calendar of %(name)s, which has the longest window.", name=pen.row_name(row))
    return f"{first} {text}"
