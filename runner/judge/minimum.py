"""Whether the baseline itself reaches the frozen minimum: known before anything is timed (M2, M29, M52).

Nothing of it is a verdict. It saves paid hours: a variant that answers as the baseline does is judged as
the baseline would be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.verdict import Check
from runner.judge.metrics import confusion
from runner.judge.quality import judge_quality
from runner.judge.verdict import References
from runner.protocol.judgement import current_references
from runner.protocol.lockfile import read_lock
from runner.protocol.predictions import Codes
from runner.protocol.procedure import Procedure, find_procedure
from runner.protocol.read import read_protocol
from runner.protocol.reference import BaselineValues, Reference
from runner.protocol.schema import Lock, Protocol

PUT_RIGHT = "put another model, or a minimum that you can answer for, into the protocol ([model], [quality])"
_SIGNIFICANT = 4
_LONG = re.compile(r"(?<![\d./])\d+\.\d{5,}(?![\d/])")
_CONSEQUENCE = "a variant that answers like it will be rejected, on any hardware"
_EXCHANGED = (
    "they would reach it: look at [model.label_map] of the protocol first, then at id2label of the model's config.json"
)
_PAIRS = 6


@dataclass(frozen=True)
class BaselineQuality:
    """One corpus' baseline against the protocol's minimum: the main metric, then each planned subgroup."""

    corpus_id: str
    checks: tuple[Check, ...]
    exchanged: tuple[tuple[str, str], ...] = ()
    """(answer of the model, label that it would have to mean) where names read so would reach the main minimum."""

    @property
    def missed(self) -> tuple[Check, ...]:
        """Minimums that the baseline is below, or that cannot be assessed (then no pass is accepted either)."""
        return tuple(check for check in self.checks if check.status != "passed")

    @property
    def warning(self) -> str | None:
        """What a missed minimum means, in one sentence; None where all are reached."""
        if not self.missed:
            return None
        reasons = "; ".join(spoken(check) for check in self.missed)
        said = f"the baseline itself misses the minimum on {self.corpus_id}: {reasons}; {_CONSEQUENCE}"
        if not self.exchanged:
            return said
        pairs = [f"{show_value(answer)} for {show_value(meant)}" for answer, meant in self.exchanged[:_PAIRS]]
        pairs += ["..."] * (len(self.exchanged) > _PAIRS)
        return f"{said}; its answers look exchanged: it says {', '.join(pairs)}, and read so {_EXCHANGED}"

    def as_json(self) -> dict[str, object]:
        return {
            "corpus": self.corpus_id,
            "reached": not self.missed,
            "checks": [{"name": check.name, "status": check.status, "found": check.found, "limit": check.limit,
                        "reason": check.reason} for check in self.checks],
        }  # fmt: skip


def current_baselines(campaign: Campaign) -> tuple[BaselineQuality, ...]:
    """Before the freeze: protocol, corpora and reference predictions as their files are now. No model is loaded."""
    protocol = read_protocol(campaign.protocol)
    procedure = None if protocol.evaluation is None else find_procedure(protocol.evaluation, campaign.protocol_dir)
    pairs = current_references(campaign, protocol)
    return tuple(_judged(protocol, reference, baseline, procedure) for reference, baseline in pairs)


def frozen_baselines(campaign: Campaign, lock: Lock) -> tuple[BaselineQuality, ...]:
    """After the freeze: what the lock holds. Refused: a changed or missing reference or baseline."""
    references = References(campaign, lock)
    found = ((corpus.id, *references.get(corpus.id)) for corpus in lock.judgement.corpora)
    return tuple(
        _judged(lock.protocol, reference, baseline, references.procedure())
        for _, reference, baseline in found if baseline is not None
    )  # fmt: skip


def baseline_warnings(campaign: Campaign) -> tuple[str, ...]:
    """What a missed minimum means, one sentence per corpus; none where it cannot be told (the caller refuses that)."""
    try:
        return warnings_of(frozen_baselines(campaign, read_lock(campaign)))
    except InputRefused:
        return ()


def warnings_of(baselines: Iterable[BaselineQuality]) -> tuple[str, ...]:
    """The warnings of those that miss their minimum."""
    return tuple(item.warning for item in baselines if item.warning is not None)


def spoken(check: Check) -> str:
    """The check's sentence with figures for people: 4 significant digits, more where they would touch the limit."""

    def rounded(match: re.Match[str]) -> str:
        if match[0] == check.limit:  # as somebody wrote it
            return match[0]
        value = Decimal(match[0])
        for digits in range(_SIGNIFICANT, len(match[0])):
            near = Decimal(f"{value:.{digits}g}")
            if check.limit is None or near != Decimal(check.limit) or value == near:
                return format(near, "f")
        return match[0]

    return _LONG.sub(rounded, check.reason)


def _judged(
    protocol: Protocol, reference: Reference, baseline: BaselineValues, procedure: Procedure | None
) -> BaselineQuality:
    """The very code that judges passes; only what compares with a baseline is left out."""
    checks = _minimums(baseline.codes, reference, baseline, protocol, procedure)
    exchanged: tuple[tuple[str, str], ...] = ()
    if any(check.name == "metric" and check.status == "failed" for check in checks):
        exchanged = _exchanged(protocol, reference, baseline, procedure)
    return BaselineQuality(reference.corpus_id, checks, exchanged)


def _minimums(
    codes: Codes, reference: Reference, baseline: BaselineValues, protocol: Protocol, procedure: Procedure | None
) -> tuple[Check, ...]:
    result = judge_quality(codes, baseline.score, reference, None, protocol, procedure)
    return tuple(check for check in result.checks if check.name == "metric" or check.name.startswith("subgroup "))


def _exchanged(
    protocol: Protocol, reference: Reference, baseline: BaselineValues, procedure: Procedure | None
) -> tuple[tuple[str, str], ...]:
    """What the answers would have to mean, where most of each right answer's documents got one and the same other name.

    Only a reading that gives every answer a meaning of its own and reaches the main minimum is told.
    """
    labels = reference.table.labels
    counts = confusion(reference.truth, baseline.codes, len(labels))
    meant = list(range(len(labels)))
    for right, row in enumerate(counts):
        if sum(row):
            answer = max(range(len(labels)), key=lambda place: row[place])
            meant[answer] = right
    if sorted(meant) != list(range(len(labels))) or meant == list(range(len(labels))):
        return ()
    read = np.array(meant, dtype=baseline.codes.dtype)[baseline.codes]
    main = next(check for check in _minimums(read, reference, baseline, protocol, procedure) if check.name == "metric")
    if main.status != "passed":
        return ()
    return tuple((labels[answer], labels[right]) for answer, right in enumerate(meant) if answer != right)
