"""Durations: every accepted pass of every configuration, failures beside them (M23, M30)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from matplotlib.axes import Axes

from runner.decide.model import BalanceRow, Summary
from runner.note.figures.canvas import Drawing, blank, without_data
from runner.note.figures.style import BLUE, FAINT, INK, QUIET, RED, WHITE, Pen, name_axis, value_axis

_ROW_INCHES = 0.3
_LEGEND_INCHES = 0.3  # more for one entry below the other
_MANY = 40
_MOST_SAID = 30  # durations of a row in the words for those who cannot see it: the table is read, not heard
_EMPTY_ROW_INCHES = 0.24  # of a figure without any accepted pass
_SPREAD = 0.56  # share of a row over which its passes are laid out


def durations(pen: Pen) -> Drawing | None:
    """One panel per corpus, one row per configuration, one dot per pass in the order of the passes."""
    rows = pen.evidence.shown_rows
    if not rows:
        return None
    corpora = list(dict.fromkeys(summary.corpus_id for row in rows for summary in row.summaries))
    title = pen.t.gettext("Duration of every pass")
    if not any(summary.accepted or summary.failures for row in rows for summary in row.summaries):
        message = pen.t.gettext("No pass was measured: there are no durations to show.")
        return Drawing("fig-durations", without_data(message, narrow=pen.narrow), title, message, message)
    lines = sum(_count(rows, corpus) for corpus in corpora)
    some = any(summary.raw_seconds for row in rows for summary in row.summaries)
    room = 0.75 * len(corpora) + 0.25 if some else 0.4 * len(corpora)
    room += _LEGEND_INCHES if pen.narrow and some else 0
    canvas = blank(room + (_ROW_INCHES if some else _EMPTY_ROW_INCHES) * lines, narrow=pen.narrow)
    panels = canvas.subplots(
        len(corpora),
        1,
        squeeze=False,
        gridspec_kw={"height_ratios": [_count(rows, corpus) + 0.8 for corpus in corpora]},
    )
    for axes, corpus in zip(panels[:, 0], corpora, strict=True):
        _panel(axes, pen, rows, corpus, named=len(corpora) > 1)
    if some:
        _legend(panels[0, 0], pen)
    return Drawing("fig-durations", canvas, title, _description(pen, rows), _caption(pen, rows))


def _count(rows: Sequence[BalanceRow], corpus: str) -> int:
    return sum(summary.corpus_id == corpus for row in rows for summary in row.summaries)


def _panel(axes: Axes, pen: Pen, rows: Sequence[BalanceRow], corpus: str, *, named: bool) -> None:
    shown = [(row, summary) for row in rows for summary in row.summaries if summary.corpus_id == corpus]
    names = []
    largest = max((value for _, summary in shown for value in summary.raw_seconds), default=0.0)
    for place, (row, summary) in enumerate(shown):
        several = sum(other.corpus_id == corpus for other in row.summaries) > 1
        names.append(pen.at_axis(pen.row_name(row) + (f" ({summary.seed})" if several else "")))
        _passes(axes, place, summary)
        _words(axes, pen, place, summary)
    name_axis(axes, names)
    if largest:
        failed = any(summary.failures for _, summary in shown)
        axes.set_xlim(0, largest * ((2.3 if failed else 1.5) if pen.narrow else 1.32))  # room for the words
        value_axis(axes, pen, pen.t.gettext("Seconds per pass"), most_ticks=5 if pen.narrow else 7)
    else:
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
    if named:
        axes.set_title(pen.name(corpus))


def _passes(axes: Axes, place: int, summary: Summary) -> None:
    """Dots from the first pass on top to the last below; the median is the tall line."""
    count = len(summary.raw_seconds)
    if not count:
        return
    heights = [place + _SPREAD * ((index + 0.5) / count - 0.5) for index in range(count)]
    smallest, largest = min(summary.raw_seconds), max(summary.raw_seconds)
    axes.plot([smallest, largest], [place, place], color=FAINT, linewidth=5, solid_capstyle="butt", zorder=1)
    middle = float(Decimal(summary.median_seconds or "0"))
    axes.plot([middle, middle], [place - 0.36, place + 0.36], color=INK, linewidth=1.4, zorder=2)
    size, rim = (19, 0.6) if count <= _MANY else (3, 0.0)  # rims of many dots would hide the dots
    axes.scatter(
        summary.raw_seconds, heights, s=size, facecolor=BLUE, edgecolor=WHITE, linewidth=rim, zorder=3, clip_on=False
    )


def _words(axes: Axes, pen: Pen, place: int, summary: Summary) -> None:
    """Median beside the dots; failures in red behind it, because they have no duration to stand at."""
    if summary.median_seconds is not None:
        text = pen.fmt.duration(summary.median_seconds)
        start = max(summary.raw_seconds)
        note = axes.annotate(
            text, (start, place), xytext=(9, 0), textcoords="offset points", va="center", fontweight=600, color=INK
        )
    else:
        note = axes.annotate(
            pen.t.gettext("no accepted pass"),
            (0, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=QUIET,
        )
    if summary.failures:
        named = pen.t.gettext("%(name)s: %(value)s", name=pen.t.gettext("Failures"), value=str(summary.failures))
        mark = f"× {named}"
        axes.annotate(
            mark,
            (1, 0.5),
            xycoords=note,
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=RED,
            fontweight=600,
        )


def _legend(axes: Axes, pen: Pen) -> None:
    t = pen.t
    axes.scatter([], [], s=19, color=BLUE, label=t.gettext("accepted pass"))
    axes.plot([], [], color=INK, linewidth=1.4, label=t.gettext("median"))
    axes.plot([], [], color=FAINT, linewidth=5, label=t.gettext("smallest to largest"))
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1.0),
        ncols=pen.legend_columns,
        borderaxespad=0.2,
        handlelength=1.2,
        columnspacing=1.4,
    )


def _description(pen: Pen, rows: Sequence[BalanceRow]) -> str:
    """All numbers of the figure in words."""
    t, fmt = pen.t, pen.fmt
    parts = []
    for row in rows:
        for summary in row.summaries:
            name = f"{pen.row_name(row)}, {pen.name(summary.corpus_id)}"
            if summary.median_seconds is None:
                parts.append(
                    t.gettext(
                        "%(name)s: no accepted pass; failures: %(failures)s.", name=name, failures=str(summary.failures)
                    )
                )
                continue
            values = t.gettext("; ").join(fmt.duration(str(value)) for value in summary.raw_seconds[:_MOST_SAID])
            more = len(summary.raw_seconds) - _MOST_SAID
            if more > 0:
                count = fmt.integer(more)
                values = t.ngettext(
                    "%(names)s and %(count)s more", "%(names)s and %(count)s more", more, names=values, count=count
                )
            parts.append(
                t.gettext(
                    "%(name)s: passes of %(values)s; median %(median)s; failures: %(failures)s.",
                    name=name,
                    values=values,
                    median=fmt.duration(summary.median_seconds),
                    failures=str(summary.failures),
                )
            )
    return t.gettext("Dot plot of pass durations.") + " " + " ".join(parts)


def _caption(pen: Pen, rows: Sequence[BalanceRow]) -> str:
    if not any(summary.raw_seconds for row in rows for summary in row.summaries):
        return pen.t.gettext("No pass was accepted, so no duration stands here; failures are counted.") + pen.cut()
    text = pen.t.gettext(
        "Every accepted pass is one dot, from the first (top) to the last; further left is faster. Where the grey bars "
        "of two configurations overlap, their medians say little. Failed passes have no duration: they are counted."
    )
    return text + pen.cut()
