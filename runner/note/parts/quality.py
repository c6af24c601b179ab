"""Quality of every configuration, whole corpus and subgroups, with interval and limit (M29)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runner.decide.model import BalanceRow
from runner.evidence.verdict import MetricValue, Verdict
from runner.note.evidence import Evidence
from runner.note.format import exact_fraction
from runner.note.parts.frozen import reproduction_words
from runner.note.parts.paired import paired
from runner.note.parts.tables import attempts_of
from runner.note.words import NOTHING, Speaker

_PLACES = 3
Rows = list[dict[str, str]]


def quality(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """The lowest value of each configuration over its judged passes: the one that must still be good enough.

    Configurations whose rows would be equal in every cell share them.
    """
    values: list[tuple[str, Rows]] = []
    comparisons: list[tuple[str, Rows]] = []
    methods: set[str] = set()
    for row in evidence.shown_rows:
        verdicts = _judged(evidence, row)
        lowest = _lowest(verdicts)
        methods |= {speaker.recorded(metric.interval_method) for metric in lowest if metric.interval_method}
        values.append((row.configuration_id, [_metric_row(metric, speaker) for metric in lowest]))
        comparisons.append((row.configuration_id, [_comparison(verdicts, speaker)] if verdicts else []))
    return {
        "rows": _shared(values, speaker),
        "all_equal": _all_equal(values),
        **_group_example(evidence),
        "methods_text": ", ".join(sorted(methods)) or NOTHING,
        "comparisons": _shared(comparisons, speaker),
        "comparisons_equal": _all_equal(comparisons),
        "reproduction": _reproduction(evidence, speaker),
        "paired": paired(evidence, speaker),
    }


def _group_example(evidence: Evidence) -> dict[str, str]:
    """The first planned subgroup, to say once what `stratum = short` means; empty without one."""
    group = next(iter(evidence.protocol.quality.subgroup), None)
    if group is None:
        return {"group_example": "", "group_column": "", "group_value": ""}
    example = f"{group.column} = {group.value}"
    return {"group_example": example, "group_column": group.column, "group_value": group.value}


def _shared(tables: list[tuple[str, Rows]], speaker: Speaker) -> Rows:
    """The rows of all configurations; equal tables stand once, with all their names in the first row."""
    judged = [(name, rows) for name, rows in tables if rows]
    groups: list[tuple[list[str], Rows]] = []
    for name, rows in judged:
        names = next((names for names, known in groups if known == rows), None)
        if names is None:
            groups.append(([name], rows))
        else:
            names.append(name)
    return [
        {"name": speaker.listed(names) if place == 0 else speaker.listed(names, 1), **row}
        for names, rows in groups
        for place, row in enumerate(rows)
    ]


def _all_equal(tables: list[tuple[str, Rows]]) -> bool:
    """Whether several judged configurations have the same rows: then no table has to name them."""
    judged = [rows for _, rows in tables if rows]
    return len(judged) > 1 and all(rows == judged[0] for rows in judged)


def _reproduction(evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    """The goal of M27, and how many of the passes whose predictions were judged reach it; `` if none was."""
    # Task quality has no check of its own: it is reached where all checks of quality are.
    task_quality = evidence.lock.protocol.reproduction.goal == "task_quality"
    found = [
        check.status if not task_quality else "passed" if _quality_reached(verdict) else "failed"
        for row in evidence.measured_rows
        for attempt in attempts_of(evidence, row)
        if (verdict := evidence.verdicts.get(attempt.attempt_id)) is not None
        for check in verdict.checks
        if check.name == "reproduction" and verdict.metrics
    ]
    return {
        "goal": reproduction_words(evidence, speaker),
        "met": speaker.fmt.integer(sum(status == "passed" for status in found)),
        "judged": speaker.fmt.integer(len(found)) if found else "",
    }


def _quality_reached(verdict: Verdict) -> bool:
    names = ("metric", "drop", "agreement", "flips")
    checks = [check for check in verdict.checks if check.name in names or check.name.startswith("subgroup ")]
    return all(check.status == "passed" for check in checks)


def _judged(evidence: Evidence, row: BalanceRow) -> list[Verdict]:
    found = (evidence.verdicts.get(attempt.attempt_id) for attempt in attempts_of(evidence, row))
    judged = [verdict for verdict in found if verdict is not None and verdict.metrics]
    return [verdict for verdict in judged if verdict.accepted] or judged


def _lowest(verdicts: list[Verdict]) -> list[MetricValue]:
    """Per metric and group, in the order of the verdicts; a value that is not known comes first."""
    groups: dict[tuple[str, str], list[MetricValue]] = {}
    for verdict in verdicts:
        for metric in verdict.metrics:
            groups.setdefault((metric.metric, metric.group), []).append(metric)
    return [min(items, key=lambda m: (m.value is not None, Decimal(m.value or 0))) for items in groups.values()]


def _metric_row(metric: MetricValue, speaker: Speaker) -> dict[str, str]:
    fmt, t = speaker.fmt, speaker.catalogue
    interval = NOTHING
    if metric.interval_low is not None and metric.interval_high is not None:
        interval = f"{fmt.decimal(metric.interval_low, _PLACES)} – {fmt.decimal(metric.interval_high, _PLACES)}"
    verdict = {True: ("met", t.gettext("met")), False: ("not-met", t.gettext("not met"))}.get(
        metric.met if metric.met is not None else None,  # type: ignore[arg-type]
        ("none", NOTHING),
    )
    return {
        "group": t.gettext("all documents") if metric.group == "all" else metric.group.replace("=", " = ", 1),
        "metric": metric.metric,
        "documents": fmt.integer(metric.documents),
        "value": NOTHING if metric.value is None else fmt.decimal(metric.value, _PLACES),
        "fraction": metric.fraction or NOTHING,
        "interval": interval,
        "minimum": NOTHING if metric.minimum is None else fmt.plain(metric.minimum),
        "kind": verdict[0],
        "word": verdict[1],
    }


def _comparison(verdicts: list[Verdict], speaker: Speaker) -> dict[str, str]:
    """Drop and agreement against the baseline: the worst of the judged passes."""
    fmt = speaker.fmt
    drops = [exact_fraction(v.drop) for v in verdicts if v.drop is not None]
    agreements = [exact_fraction(v.agreement) for v in verdicts if v.agreement is not None]
    flips = [v.flips for v in verdicts if v.flips is not None]
    return {
        "drop": fmt.decimal(max(drops), _PLACES) if drops else NOTHING,
        "agreement": fmt.percent(min(agreements)) if agreements else NOTHING,
        "flips": fmt.integer(max(flips)) if flips else NOTHING,
    }
