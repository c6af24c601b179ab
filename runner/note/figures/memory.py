"""Memory over one pass of each configuration: every counter on its own, never added up (M24)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from runner.decide.model import BalanceRow
from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Attempt
from runner.evidence.canonical import load_json_file, sha256_file
from runner.note.figures.canvas import Drawing, blank
from runner.note.figures.style import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, Pen, value_axis

_PANEL_INCHES = 0.95
_MOST_PANELS = 8
_COLOURS = {"resident": BLUE, "allocated": ORANGE, "reserved": GREEN}
_DASHES = {"resident": "-", "allocated": "-", "reserved": (0, (5, 2))}
_NEAR = 0.4  # the capacity line is drawn if memory reaches this share of it
_GIB = 1 << 30
_MIB = 1 << 20


@dataclass(frozen=True)
class Course:
    """Samples of one attempt: seconds since the pass began, bytes per counter. Capacity by counter, if known."""

    row: BalanceRow
    attempt: Attempt
    seconds: tuple[float, ...]
    counters: dict[str, tuple[int | None, ...]]
    capacity: dict[str, int]

    @property
    def largest(self) -> int:
        return max((value for values in self.counters.values() for value in values if value is not None), default=0)


def memory(pen: Pen) -> Drawing | None:
    """One panel per configuration: the accepted pass that needed most, or the failed one if none was accepted."""
    t = pen.t
    title = t.gettext("Memory during a pass")
    courses = [course for row in pen.evidence.shown_rows if (course := _course(pen, row)) is not None]
    left_out = max(0, len(courses) - _MOST_PANELS) + len(pen.evidence.measured_rows) - len(pen.evidence.shown_rows)
    if len(courses) > _MOST_PANELS:
        courses.sort(key=lambda course: course.row.configuration_id != pen.evidence.decision.chosen)
        courses = courses[:_MOST_PANELS]
    if not courses:
        return None
    columns = 1 if pen.narrow else _columns(len(courses))
    lines = -(-len(courses) // columns)
    canvas = blank((1.1 if pen.narrow else 0.75) + _PANEL_INCHES * lines, narrow=pen.narrow)
    panels = canvas.subplots(lines, columns, squeeze=False, sharey=True)
    large = max(course.largest for course in courses) >= _GIB
    unit, name = (_GIB if large else _MIB), pen.fmt.binary_units[3 if large else 2]
    top = max(course.largest for course in courses) / unit
    for axes, course in zip(panels.flat, courses, strict=False):
        _panel(axes, pen, course, unit, top)
    for axes in list(panels.flat)[len(courses) :]:
        axes.set_visible(False)
    canvas.supxlabel(t.gettext("Seconds since the pass began"), fontsize=8, color=QUIET)
    canvas.supylabel(name, fontsize=8, color=QUIET)
    handles = {name: line for axes in panels.flat for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    canvas.legend(
        list(handles.values()), list(handles), loc="outside upper right", ncols=pen.legend_columns, handlelength=2.2
    )
    parts = " ".join(_sentence(pen, course) for course in courses)
    caption = _caption(pen, courses)
    if left_out > 0:
        caption += " " + t.ngettext("%(count)s more configuration is in the records.",
                                    "%(count)s more configurations are in the records.", left_out)  # fmt: skip
    return Drawing("fig-memory", canvas, title, t.gettext("Line plots of memory over time.") + " " + parts, caption)


def _columns(count: int) -> int:
    """Panels side by side, so that no place stays empty if that can be had."""
    return {1: 1, 2: 2, 4: 2}.get(count, 3)


def _caption(pen: Pen, courses: Sequence[Course]) -> str:
    """What to read from it; the allocator is explained only where it was measured."""
    t = pen.t
    kinds = {name.partition(":")[0] for course in courses for name in course.counters}
    text = t.gettext("One pass per configuration, the one that needed most; the top of each curve is its need.")
    if kinds & {"allocated", "reserved"}:
        text += " " + t.gettext(
            "Each counter has its own peak, at its own time: tensors (allocated) are part of what the allocator holds "
            "(reserved), so the two are never added."
        )
    if "resident" in kinds:
        text += " " + t.gettext("Resident memory is what the process holds in the machine's main memory.")
    if any(_near(course) for course in courses):
        text += " " + t.gettext(
            "The dashed black line is the capacity: a pass that reaches it does not fit. Where memory stays far below, "
            "it is only written."
        )
    return text


def _near(course: Course) -> bool:
    """Whether memory came so close to the capacity that the line is drawn."""
    capacity = course.capacity.get("device") or course.capacity.get("host")
    return capacity is not None and course.largest >= _NEAR * capacity


def _course(pen: Pen, row: BalanceRow) -> Course | None:
    """Course of the attempt with the largest peak: accepted passes first."""
    names = [a for a in pen.evidence.counted_attempts if (a.gpu_declared, a.variant_id) == (row.gpu, row.variant_id)]
    with_samples = [attempt for attempt in names if attempt.memory_timeline is not None]
    if not with_samples:
        return None
    verdicts = pen.evidence.verdicts

    def need(attempt: Attempt) -> tuple[bool, int, str]:
        verdict = verdicts.get(attempt.attempt_id)
        largest = max((peak.bytes or 0 for peak in attempt.memory), default=0)
        return (verdict is not None and verdict.accepted, largest, attempt.attempt_id)

    return _read(pen, row, max(with_samples, key=need))


def _read(pen: Pen, row: BalanceRow, attempt: Attempt) -> Course | None:
    """Samples from the attempt's file, which must be the recorded one."""
    assert attempt.memory_timeline is not None
    path = pen.evidence.campaign.inside(attempt.memory_timeline.path)
    if not path.is_file() or sha256_file(path) != attempt.memory_timeline.sha256:
        raise InputRefused(
            "the memory samples are missing or were changed",
            file=path,
            value=attempt.attempt_id,
            next_step="copy records/memory/ again from the machine that measured",
        )
    samples = _samples(path)
    if not samples:
        return None
    names = sorted({name for _, values in samples for name in values})
    return Course(
        row=row,
        attempt=attempt,
        seconds=tuple(at for at, _ in samples),
        counters={name: tuple(values.get(name) for _, values in samples) for name in names},
        capacity=_capacities(attempt),
    )


def _samples(path: Path) -> list[tuple[float, dict[str, int]]]:
    """Seconds and bytes per counter. Row and hash may fit a file of another form: it is refused with what is wrong."""
    content = load_json_file(path)
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list):
        raise _malformed(path, "it has no list 'samples'")
    for number, sample in enumerate(samples, start=1):
        if not (
            isinstance(sample, list) and len(sample) == 2 and _is_number(sample[0]) and isinstance(sample[1], dict)
        ):
            raise _malformed(path, f"sample {number} is not [seconds, counters]", sample)
        for name, value in sample[1].items():
            if not _is_number(value) or value < 0:
                raise _malformed(path, f"counter {show_value(name)} of sample {number} is not a number of bytes", value)
    return [(float(at), values) for at, values in samples]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _malformed(path: Path, what: str, value: object = None) -> InputRefused:
    return InputRefused(
        f"the memory samples are not in the form that measure writes: {what}", file=path, value=value,
        next_step="put the measured file back, or measure again; runner exclude leaves the attempt out with its reason",
    )  # fmt: skip


def _capacities(attempt: Attempt) -> dict[str, int]:
    """Capacity of the host (`host`) and of the device (`device`), as the peaks record them."""
    found = {}
    for peak in attempt.memory:
        if peak.capacity_bytes is not None:
            found["device" if "cuda" in peak.counter or "cuda" in peak.device else "host"] = peak.capacity_bytes
    return found


def _panel(axes: Axes, pen: Pen, course: Course, unit: int, top: float) -> None:
    for name, values in course.counters.items():
        kind, _, device = name.partition(":")
        label = _label(pen, kind) + (f" {device}" if device not in ("", "0") else "")
        heights = [float("nan") if value is None else value / unit for value in values]
        axes.plot(
            course.seconds,
            heights,
            color=_COLOURS.get(kind, QUIET),
            linestyle=_DASHES.get(kind, ":"),
            linewidth=1.3,
            label=label,
        )
    capacity = course.capacity.get("device") or course.capacity.get("host")
    if capacity is not None:
        text = pen.t.gettext("capacity %(size)s", size=pen.fmt.bytes(capacity))
        if _near(course):
            axes.axhline(capacity / unit, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            top = max(top, capacity / unit)
        axes.annotate(
            text, (0, 1), xycoords="axes fraction", xytext=(0, 2), textcoords="offset points", ha="left", va="bottom",
            fontsize=6.5, color=QUIET,
        )  # fmt: skip
    axes.set_ylim(0, top * 1.12)
    axes.set_xlim(0, max(course.seconds[-1], 1e-6))
    axes.set_title(pen.row_name(course.row), pad=12 if capacity is not None else 4)
    value_axis(axes, pen, "", most_ticks=5)
    axes.grid(visible=False, axis="x")
    axes.grid(visible=True, axis="y", color=FAINT)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: pen.number(value)))
    axes.tick_params(axis="y", labelsize=7.5, labelcolor=QUIET)


def _label(pen: Pen, kind: str) -> str:
    t = pen.t
    match kind:
        case "resident":
            return t.gettext("resident memory of the process")
        case "allocated":
            return t.gettext("allocated (tensors)")
        case "reserved":
            return t.gettext("reserved (allocator)")
        case _:
            return kind


def _sentence(pen: Pen, course: Course) -> str:
    parts = []
    for name, values in course.counters.items():
        known = [(value, -at) for value, at in zip(values, course.seconds, strict=True) if value is not None]
        if known:
            largest, at = max(known)
            parts.append(
                pen.t.gettext(
                    "%(counter)s at most %(size)s, after %(time)s",
                    counter=_label(pen, name.partition(":")[0]),
                    size=pen.fmt.bytes(largest),
                    time=pen.fmt.duration(str(-at)),
                )
            )
    return (
        pen.t.gettext("%(name)s: %(value)s", name=pen.row_name(course.row), value=pen.t.gettext("; ").join(parts)) + "."
    )
