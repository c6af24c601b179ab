"""Quality: the judged metric with its interval against the threshold, for all documents and each subgroup (M29)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from decimal import Decimal

from matplotlib.axes import Axes

from runner.decide.model import BalanceRow
from runner.evidence.verdict import MetricValue
from runner.note.figures.canvas import Drawing, blank, without_data
from runner.note.figures.style import BLUE, INK, RED, WHITE, Pen, name_axis, value_axis
from runner.note.recorded import translated

_ROW_INCHES = 0.22
_LEAST_ROW_INCHES = 0.16
_MOST_INCHES = 4.3
_NARROW_TITLE = 44  # letters of a line above a panel
_LABEL_ROOM = 0.2  # of the axis, right of 1, for the values


def quality(pen: Pen) -> Drawing | None:
    """One panel per group; one row per configuration; the dashed line is the minimum."""
    t = pen.t
    if not pen.evidence.measured_rows:
        return None
    title = t.gettext("Quality against the minimum")
    values = [(row, _worst(pen, row)) for row in pen.evidence.shown_rows]
    values = [(row, metrics) for row, metrics in values if metrics]
    if not values:
        message = t.gettext("No predictions could be judged: there is no quality to show.")
        return Drawing("fig-quality", without_data(message, narrow=pen.narrow), title, message, message)
    groups = list(dict.fromkeys(name for _, metrics in values for name in metrics))
    columns = 2 if len(groups) > 1 and not pen.narrow else 1
    lines = -(-len(groups) // columns)
    most = max(_MOST_INCHES, lines * _LEAST_ROW_INCHES * len(values))
    height = 0.45 + lines * (0.36 + _ROW_INCHES * len(values))
    canvas = blank(height if pen.narrow else min(height, most), narrow=pen.narrow)
    grid = canvas.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    panels = list(grid.flat)
    for axes, group in zip(panels, groups, strict=False):
        _panel(axes, pen, values, group)
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    low = min(_left_end(metric) for _, metrics in values for metric in metrics.values())
    left = max(0.0, low - 0.05)
    panels[0].set_xlim(left, 1 + _LABEL_ROOM * (1 - left))
    for axes in panels[: len(groups)]:
        value_axis(axes, pen, "", most_ticks=5)
        axes.set_xticks([tick for tick in axes.get_xticks() if left <= tick <= 1])
    for axes in panels[max(0, len(groups) - columns) : len(groups)]:
        axes.set_xlabel(_metric_name(values))
        axes.tick_params(axis="x", labelbottom=True)
    return Drawing("fig-quality", canvas, title, _description(pen, values), _caption(pen, values))


def _worst(pen: Pen, row: BalanceRow) -> dict[str, MetricValue]:
    """Smallest value per corpus and group among the judged passes of a row; accepted ones if there are some."""
    accepted: dict[str, list[MetricValue]] = {}
    judged: dict[str, list[MetricValue]] = {}
    several = len(pen.evidence.balance.deliverables) > 1
    for attempt in pen.evidence.counted_attempts:
        verdict = pen.evidence.verdicts.get(attempt.attempt_id)
        if verdict is None or not _of(attempt.gpu_declared, attempt.variant_id, attempt.manifest_sha256, row, pen):
            continue
        for metric in verdict.metrics:
            if metric.value is not None and metric.documents:
                group = metric.group.replace("=", " = ", 1) if metric.group != "all" else pen.t.gettext("all documents")
                name = f"{attempt.corpus_id}: {group}" if several else group
                (accepted if verdict.accepted else judged).setdefault(name, []).append(metric)
    chosen = accepted or judged
    return {name: min(found, key=lambda metric: Decimal(metric.value or "0")) for name, found in chosen.items()}


def _of(gpu: str, variant: str, manifest: str | None, row: BalanceRow, pen: Pen) -> bool:
    """Whether an attempt belongs to this row (several stacks of one GPU and variant are several rows)."""
    if (gpu, variant) != (row.gpu, row.variant_id):
        return False
    found = pen.evidence.manifests.get(manifest or "")
    return found is None or row.stack_sha256 is None or found.stack_sha256 == row.stack_sha256


def _panel(axes: Axes, pen: Pen, values: Sequence[tuple[BalanceRow, dict[str, MetricValue]]], group: str) -> None:
    minimum = None
    documents = 0
    for place, (_, metrics) in enumerate(values):
        metric = metrics.get(group)
        if metric is None:
            continue
        documents = metric.documents
        minimum = metric.minimum or minimum
        value = float(Decimal(metric.value or "0"))
        colour = RED if metric.met is False else BLUE
        if metric.interval_low is not None and metric.interval_high is not None:
            axes.plot(
                [float(metric.interval_low), float(metric.interval_high)],
                [place, place],
                color=colour,
                linewidth=1.6,
                solid_capstyle="butt",
            )
        marker = "X" if metric.met is False else "o"
        axes.scatter([value], [place], s=26, marker=marker, facecolor=colour, edgecolor=WHITE, linewidth=0.6, zorder=3)
        axes.annotate(
            pen.fmt.decimal(metric.value or "0", 3),
            (max(value, float(metric.interval_high or 0)), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=INK,
            zorder=4,
            bbox={"facecolor": WHITE, "edgecolor": "none", "pad": 0.8},
        )
    size = pen.t.gettext("n = %(count)s", count=pen.fmt.integer(documents))
    title = f"{pen.name(group)} ({size})"
    if minimum is not None:
        axes.axvline(float(minimum), color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        title += pen.t.gettext(", minimum %(value)s", value=pen.fmt.plain(minimum))
    name_axis(axes, [pen.at_axis(pen.row_name(row)) for row, _ in values])
    axes.set_title(textwrap.fill(title, _NARROW_TITLE) if pen.narrow else title)


def _left_end(metric: MetricValue) -> float:
    values = [metric.value or "1", metric.interval_low, metric.minimum]
    return min(float(value) for value in values if value is not None)


def _metric_name(values: Sequence[tuple[BalanceRow, dict[str, MetricValue]]]) -> str:
    return next(metric.metric for _, metrics in values for metric in metrics.values()).replace("_", " ")


def _description(pen: Pen, values: Sequence[tuple[BalanceRow, dict[str, MetricValue]]]) -> str:
    t, parts = pen.t, []
    for row, metrics in values:
        for group, metric in metrics.items():
            value = pen.fmt.decimal(metric.value or "0", 3)
            minimum = pen.fmt.plain(metric.minimum) if metric.minimum is not None else t.gettext("none")
            parts.append(
                t.gettext(
                    "%(name)s, %(group)s: %(value)s, minimum %(minimum)s.",
                    name=pen.row_name(row),
                    group=pen.name(group),
                    value=value,
                    minimum=minimum,
                )
            )
    return t.gettext("Dot plot of the metric with intervals.") + " " + " ".join(parts)


def _caption(pen: Pen, values: Sequence[tuple[BalanceRow, dict[str, MetricValue]]]) -> str:
    methods = sorted({m.interval_method for _, metrics in values for m in metrics.values() if m.interval_method})
    text = pen.t.gettext(
        "Each dot is the lowest judged value of a configuration. Only the dot is compared with the dashed minimum; the "
        "line shows how uncertain the value is on so many documents."
    )
    names = [translated(method, pen.t.gettext, lambda _, value: value, str) for method in methods]
    if names:
        text += " " + pen.t.gettext("Line: %(methods)s.", methods=", ".join(names))
    return text + pen.cut()
