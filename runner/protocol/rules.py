"""What must hold between the fields of a protocol or a plan, beyond the type of each (M1-M5, M14, M27)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import get_args

from runner.errors import InputRefused
from runner.evidence.attempt import Settings
from runner.protocol.process import kept_faults
from runner.protocol.schema import OWN, MetricName, Plan, Protocol
from runner.protocol.variants import expand

Place = tuple[str | int, ...]
_BELOW_ZERO = ("mcc", "quadratic_kappa")
_LARGEST_SEED = 2**32 - 1  # what every random generator of an engine takes
_LARGEST_BATCH = 999_999
_MOST = {"timeout_seconds": 366 * 86_400, "passes_planned": 10_000, "passes_most": 10_000}

_MOST_OF_A_PLAN = {"lots": 999_999, "extra_periods": 999, "passes": 10_000}


@dataclass(frozen=True)
class Finding:
    """One fault: where in the file, what is wrong, and what helps if it is special."""

    place: Place
    message: str
    next_step: str | None = None


def protocol_findings(protocol: Protocol) -> list[Finding]:
    """All faults between fields, in no particular order."""
    return [
        *_question(protocol),
        *_measurement(protocol),
        *_corpora(protocol),
        *_quality(protocol),
        *_model(protocol),
        *_series(protocol),
    ]


def plan_findings(plan: Plan) -> list[Finding]:
    """Faults of the frozen part of the plan; the calendar is checked where the window is computed."""
    return [
        *_duplicates(plan.deliverables, ("deliverables",), "deliverable"),
        *_duplicates([task.id for task in plan.task], ("task",), "task id", key="id"),
        *_measured_corpora(plan),
        *_bounds(plan),
    ]


def _bounds(plan: Plan) -> Iterator[Finding]:
    """Numbers that no rental has: better known now than as an overflow after paid hours."""
    found: list[tuple[Place, int | None]] = [(("lots",), plan.lots), (("extra_periods",), plan.extra_periods)]
    for index, task in enumerate(plan.task):
        found += [(("task", index, "lots"), task.lots), (("task", index, "passes"), task.passes)]
    for place, value in found:
        most = _MOST_OF_A_PLAN[str(place[-1])]
        if value is not None and value > most:
            yield Finding(place, f"{place[-1]} must be at most {most:,}")


def _measured_corpora(plan: Plan) -> Iterator[Finding]:
    """With several deliverables every measurement says whose it is: better known now than after paid hours."""
    for index, task in enumerate(plan.task):
        if task.kind == "measurement" and task.corpus is None and len(set(plan.deliverables)) > 1:
            yield Finding(
                ("task", index, "id"),
                f"the measurement '{task.id}' does not say which corpus it processes",
                f"add corpus = one of: {', '.join(plan.deliverables)}; one task for each",
            )


def _duplicates(names: Iterable[object], place: Place, what: str, key: str | None = None) -> Iterator[Finding]:
    seen: set[object] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Finding((*place, index) if key is None else (*place, index, key), f"the {what} '{name}' stands twice")
        seen.add(name)


def _question(protocol: Protocol) -> Iterator[Finding]:
    """The note begins with it: neither nothing nor what cannot be seen (M1)."""
    text = protocol.question.text
    if not text.strip():
        yield Finding(("question", "text"), "the question is empty: the note begins with it")
    hidden = sorted({sign for sign in text if unicodedata.category(sign) == "Cc" and sign not in "\n\t"})
    if hidden:
        named = ", ".join(f"U+{ord(sign):04X}" for sign in hidden)
        yield Finding(("question", "text"), f"the question holds control characters ({named})")


def _measurement(protocol: Protocol) -> Iterator[Finding]:
    limits = protocol.measurement
    if limits.passes_planned < limits.min_accepted:
        yield Finding(
            ("measurement", "passes_planned"),
            f"passes_planned ({limits.passes_planned}) is less than min_accepted ({limits.min_accepted}): "
            "no configuration could ever be admissible",
            "plan more passes, or lower min_accepted (at least 2)",
        )
    if limits.passes_most < limits.passes_planned:
        yield Finding(
            ("measurement", "passes_most"),
            f"passes_most ({limits.passes_most}) is less than passes_planned ({limits.passes_planned})",
        )
    if not limits.seeds:
        yield Finding(("measurement", "seeds"), "at least one seed is needed, such as seeds = [0]")
    yield from _duplicates(limits.seeds, ("measurement", "seeds"), "seed")
    for index, seed in enumerate(limits.seeds):
        if not 0 <= seed <= _LARGEST_SEED:
            yield Finding(("measurement", "seeds", index), f"a seed is a whole number from 0 to {_LARGEST_SEED}")
    for key, most in _MOST.items():
        if getattr(limits, key) > most:
            yield Finding(("measurement", key), f"{key} is at most {most}")
    yield from _batches(protocol)
    if Decimal(limits.sample_interval_seconds) <= 0:
        yield Finding(("measurement", "sample_interval_seconds"), "the sample interval must be greater than 0 seconds")


def _batches(protocol: Protocol) -> Iterator[Finding]:
    """Batch sizes that no device could hold are typing errors: known now, not after paid hours."""
    found: list[tuple[Place, object]] = [
        (("baseline", "settings", "batch_size"), protocol.baseline.settings.batch_size),
        *((("variant", at, "settings", "batch_size"), item.settings.batch_size)
          for at, item in enumerate(protocol.variant)),
        *((("series", at, "base", "batch_size"), item.base.batch_size) for at, item in enumerate(protocol.series)),
        *((("series", at, "values", place), value) for at, item in enumerate(protocol.series)
          if item.variable == "batch_size" for place, value in enumerate(item.values)),
    ]  # fmt: skip
    for place, size in found:
        if isinstance(size, int) and size > _LARGEST_BATCH:
            yield Finding(place, f"a batch holds at most {_LARGEST_BATCH} texts")


def _corpora(protocol: Protocol) -> Iterator[Finding]:
    yield from _duplicates([corpus.id for corpus in protocol.corpus], ("corpus",), "corpus id", key="id")
    for index, corpus in enumerate(protocol.corpus):
        for key in ("final", "tuning"):
            name = getattr(corpus, key)
            if name is not None and _leaves_folder(name):
                yield Finding(
                    ("corpus", index, key),
                    f"{key} must be a file or folder below protocol/, written with '/'",
                    "put the corpus (or a link's target) below protocol/ and name it relative to that folder",
                )
        if corpus.tuning is not None and corpus.tuning == corpus.final:
            yield Finding(
                ("corpus", index, "tuning"),
                "tuning and final are the same file: what is compared must be new to the configurations",
            )
        labels = [] if corpus.labels_from is None else [corpus.labels_from]
        columns = [corpus.id_column, corpus.text_column, *labels, *corpus.group_columns]
        for column in sorted({name for name in columns if columns.count(name) > 1}):
            yield Finding(("corpus", index), f"the column '{column}' has two roles")
        for group in protocol.quality.subgroup:
            if group.column not in corpus.group_columns:
                yield Finding(
                    ("corpus", index, "group_columns"),
                    f"the subgroup column '{group.column}' is not among the group_columns of corpus '{corpus.id}'",
                )


def _leaves_folder(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name


def _quality(protocol: Protocol) -> Iterator[Finding]:
    quality = protocol.quality
    yield from _range(quality.threshold, ("quality", "threshold"), quality.metric)
    yield from _range(quality.min_agreement, ("quality", "min_agreement"), None)
    if Decimal(quality.max_drop) < 0:
        yield Finding(("quality", "max_drop"), "max_drop is a tolerated loss and cannot be negative")
    widest = 2 if quality.metric in _BELOW_ZERO else 1
    if quality.metric != OWN and Decimal(quality.max_drop) > widest:
        yield Finding(
            ("quality", "max_drop"),
            f"{quality.metric} cannot drop by more than {widest}: this limit would never refuse anything "
            "(a share, not a percentage)",
        )
    seen: set[tuple[str, str, str]] = set()
    for index, group in enumerate(quality.subgroup):
        metric = group.metric or quality.metric
        yield from _range(group.minimum, ("quality", "subgroup", index, "minimum"), metric)
        if (group.column, group.value, metric) in seen:
            yield Finding(("quality", "subgroup", index), f"the subgroup {group.column}={group.value} stands twice")
        seen.add((group.column, group.value, metric))
    yield from _evaluation(protocol)
    bounded = protocol.reproduction.goal == "bounded"
    if bounded == (protocol.reproduction.max_score_difference is None):
        yield Finding(
            ("reproduction", "goal" if bounded else "max_score_difference"),
            "the goal 'bounded' and max_score_difference belong together: give both or neither",
        )


def _evaluation(protocol: Protocol) -> Iterator[Finding]:
    wanted = OWN in (protocol.quality.metric, *(group.metric for group in protocol.quality.subgroup))
    if wanted == (protocol.evaluation is None):
        yield Finding(
            ("quality", "metric") if wanted else ("evaluation",),
            "the metric 'own' and the table [evaluation] belong together: give both or neither",
            "docs/protocol.md, section 'A metric of your own', shows one",
        )
    elif protocol.evaluation is not None and protocol.evaluation.name in get_args(MetricName):
        yield Finding(("evaluation", "name"), "this is the name of a built-in metric; give yours another one")


def _range(text: str, place: Place, metric: MetricName | None) -> Iterator[Finding]:
    if metric == OWN:
        return  # only its procedure knows the range
    lowest = -1 if metric in _BELOW_ZERO else 0
    if not lowest <= Decimal(text) <= 1:
        yield Finding(place, f"{place[-1]} lies outside {lowest} to 1 (a share, not a percentage)")


def _model(protocol: Protocol) -> Iterator[Finding]:
    rule = protocol.model.single_logit
    if rule is None:
        return
    if rule.positive == rule.negative:
        yield Finding(("model", "single_logit", "negative"), "positive and negative are the same label")
    if not 0 < Decimal(rule.cut) < 1:
        yield Finding(("model", "single_logit", "cut"), "cut must lie between 0 and 1: it is compared with a sigmoid")


def _series(protocol: Protocol) -> Iterator[Finding]:
    known = [name for name in Settings.model_fields if name != "extra"]
    for index, series in enumerate(protocol.series):
        place: Place = ("series", index)
        if series.variable not in known and not series.variable.startswith("extra."):
            yield Finding(
                (*place, "variable"), f"'{series.variable}' is no setting; known are {', '.join(known)}, extra.<name>"
            )
            return
        if len(series.values) < 2:
            yield Finding((*place, "values"), "a series needs at least two values of its variable")
        yield from _duplicates(series.values, (*place, "values"), "value")
    yield from _duplicates([series.name for series in protocol.series], ("series",), "series name", key="name")
    try:
        variants = expand(protocol)
    except InputRefused as error:
        yield Finding(("series",) if protocol.series else ("variant",), error.what, error.next_step)
        return
    for fault in kept_faults(protocol, variants):
        yield Finding(("measurement", "process"), fault, 'write process = "fresh", or take out what does not fit')
