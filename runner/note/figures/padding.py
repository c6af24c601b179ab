"""Padding: tokens of the texts against tokens that were computed."""

from __future__ import annotations

from collections.abc import Sequence

from runner.decide.model import BalanceRow, Summary
from runner.note.figures.canvas import Drawing, blank
from runner.note.figures.style import BLUE, INK, SAND, WHITE, Pen, name_axis, value_axis

_ROW_INCHES = 0.23


def padding(pen: Pen) -> Drawing | None:
    """One bar per configuration and corpus: real tokens, then padding, with its share."""
    t = pen.t
    title = t.gettext("Tokens of the texts and padding computed with them")
    shown = [
        (row, summary)
        for row in pen.evidence.shown_rows
        for summary in row.summaries
        if summary.real_tokens is not None and summary.computed_tokens
    ]
    if not shown:
        return None
    canvas = blank(0.85 + _ROW_INCHES * len(shown), narrow=pen.narrow)
    axes = canvas.subplots()
    most = max(summary.computed_tokens or 0 for _, summary in shown)
    for place, (_, summary) in enumerate(shown):
        real, computed = summary.real_tokens or 0, summary.computed_tokens or 0
        extra = max(computed - real, 0)
        first = t.gettext("tokens of the texts") if place == 0 else None
        second = t.gettext("padding") if place == 0 else None
        axes.barh(place, real, height=0.56, color=BLUE, edgecolor=WHITE, linewidth=0.4, label=first)
        axes.barh(
            place, extra, left=real, height=0.56, color=SAND, edgecolor=INK, linewidth=0.3, hatch="////", label=second
        )
        axes.annotate(
            t.gettext("%(share)s padding", share=pen.fmt.percent(_share(summary), 0)),
            (max(computed, real), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontweight=600,
        )
    axes.set_xlim(0, most * (1.6 if pen.narrow else 1.25))
    value_axis(axes, pen, t.gettext("Tokens per pass"), most_ticks=4 if pen.narrow else 7)
    name_axis(axes, [pen.at_axis(name) for name in _names(pen, shown)])
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1.0),
        ncols=min(2, pen.legend_columns),
        borderaxespad=0.2,
        handlelength=1.4,
    )
    parts = " ".join(
        t.gettext(
            "%(name)s: %(real)s tokens of the texts, %(computed)s computed.",
            name=name,
            real=pen.fmt.integer(summary.real_tokens or 0),
            computed=pen.fmt.integer(summary.computed_tokens or 0),
        )
        for name, (_, summary) in zip(_names(pen, shown), shown, strict=True)
    )
    caption = t.gettext(
        "Padding is computed like text and thrown away. It depends on the batch size and the grouping of the texts; it "
        "explains durations and is no result of its own."
    )
    return Drawing("fig-padding", canvas, title, t.gettext("Stacked bars.") + " " + parts, caption + pen.cut())


def _share(summary: Summary) -> str:
    """Padding over computed tokens, 6 places."""
    real, computed = summary.real_tokens or 0, summary.computed_tokens or 1
    return f"{max(computed - real, 0) / computed:.6f}"


def _names(pen: Pen, shown: Sequence[tuple[BalanceRow, Summary]]) -> list[str]:
    corpora = {summary.corpus_id for _, summary in shown}
    return [
        pen.row_name(row) + (f", {pen.name(summary.corpus_id)}" if len(corpora) > 1 else "") for row, summary in shown
    ]
