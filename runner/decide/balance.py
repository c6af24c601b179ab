"""The balance: every configuration with its verdicts, durations, window, package, cost and failures (M42)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from runner.decide.calendar import clock_warnings, phases_of, what_happened
from runner.decide.constraints import ORDER, evidence_constraints
from runner.decide.fairness import (
    expense_warnings,
    expenses_of,
    hold_back_surplus,
    passes_warnings,
    rotation_warnings,
    search_costs,
)
from runner.decide.fates import Fate, Judged, judge_fates
from runner.decide.margins import quality_margins
from runner.decide.model import Balance, BalanceRow, Constraint, ConstraintName, LeftOut, Outlook, Reason, Summary
from runner.decide.outlook import outlook
from runner.decide.questions import open_questions
from runner.decide.sentences import say
from runner.decide.series import series_warnings
from runner.decide.stacks import by_stack, stack_differences, stackless_warnings
from runner.decide.summaries import decimal_text, summarise
from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Status
from runner.evidence.manifest import Manifest
from runner.evidence.utilisation import with_fastest_rates
from runner.evidence.verdict import Verdict
from runner.pricing.core import Catalogue, cost_per_corpus
from runner.pricing.happened import replaced_seconds
from runner.protocol.schema import Lock, LockedVariant, Plan, Protocol
from runner.units import exact_seconds, parse_utc, round_half_up

_COST_PLACES = 12
_STACK_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Configuration:
    """A variant on declared hardware with one software stack, and its judged attempts in schedule order."""

    id: str
    gpu: str
    variant: LockedVariant
    stack: str | None
    judged: tuple[Judged, ...]

    @property
    def measured(self) -> bool:
        """Whether anything was tried on the device that was declared (M11)."""
        return any(i.attempt.status not in (Status.UNAVAILABLE, Status.UNSUPPORTED) for i in self.judged)


def build_balance(
    protocol: Protocol,
    lock: Lock,
    plan: Plan,
    catalogue: Catalogue,
    attempts: Sequence[Attempt],
    verdicts: Iterable[Verdict],
    manifests: Mapping[str, Manifest],
    *,
    exclusions: Mapping[str, str] | None = None,
    left_out: Sequence[LeftOut] = (),
    warnings: Sequence[Reason] = (),
) -> Balance:
    """Balance of the attempts of one lock; their order never matters.

    `manifests` by the fingerprint that attempts carry; `exclusions`: attempt id -> documented reason.
    `left_out` lists attempts of other locks that are not in `attempts`.
    """
    excluded = dict(exclusions or {})
    _check_attempts(lock, attempts)
    attempts = with_fastest_rates(attempts)
    judged = judge_fates(attempts, {verdict.attempt_id: verdict for verdict in verdicts}, excluded.keys())
    judged, surplus = hold_back_surplus(judged, protocol.measurement.passes_planned)
    documents = {corpus.id: corpus.documents for corpus in lock.judgement.corpora}
    configurations = _configurations(lock, catalogue, judged, manifests)
    moved = tuple(attempt for attempt in attempts if attempt.wall_clock_moved)
    rows = tuple(_row(c, protocol, lock, plan, catalogue, documents, manifests, moved) for c in configurations)
    excluded_here = [
        LeftOut(attempt_id=attempt.attempt_id, reason=say("left-out.excluded", why=excluded[attempt.attempt_id]))
        for attempt in attempts
        if attempt.attempt_id in excluded
    ]
    excluded_here += [
        LeftOut(attempt_id=name, reason=say("left-out.surplus")) for name in surplus if name not in excluded
    ]
    unfinished = [
        say("attempt.unfinished", attempt=i.attempt.attempt_id) for i in judged if i.attempt.status is Status.STARTED
    ]
    return Balance(
        lock_sha256=lock.lock_sha256,
        deliverables=lock.judgement.deliverables,
        min_accepted=protocol.measurement.min_accepted,
        passes_planned=protocol.measurement.passes_planned,
        passes_most=protocol.measurement.passes_most,
        rows=rows,
        stack_differences=stack_differences({c.id: _manifests_of(c, manifests) for c in configurations if c.measured}),
        search_costs=search_costs(rows),
        left_out=tuple(sorted([*left_out, *excluded_here], key=lambda item: item.attempt_id)),
        warnings=(
            *warnings,
            *unfinished,
            *rotation_warnings(judged, lock.variants),
            *passes_warnings(judged),
            *stackless_warnings({c.id: c.judged for c in configurations if c.stack is not None}, manifests),
            *series_warnings(judged, protocol.series),
            *_past_calendar(rows, lock),
            *clock_warnings(judged, lock),
            *expense_warnings(plan, [variant.id for variant in lock.variants]),
        ),
    )


def _past_calendar(rows: Sequence[BalanceRow], lock: Lock) -> tuple[Reason, ...]:
    """A deadline that lay in the past at the freeze cannot be kept or missed: said, never hidden."""
    deadlines = sorted({row.window.deadline_utc for row in rows if row.window is not None}, key=parse_utc)
    if not deadlines or parse_utc(deadlines[0]) >= parse_utc(lock.frozen_at_utc):
        return ()
    return (say("calendar.past", deadline_utc=deadlines[0], frozen_utc=lock.frozen_at_utc),)


def _check_attempts(lock: Lock, attempts: Sequence[Attempt]) -> None:
    known, fingerprint = {variant.id for variant in lock.variants}, lock.lock_sha256
    for attempt in attempts:
        if attempt.lock_sha256 != fingerprint:
            raise InputRefused(
                "an attempt of another lock is never compared with those of this one",
                value=attempt.attempt_id,
                next_step="runner decide --leave-out-other-locks",
            )
        if attempt.variant_id not in known:
            raise InputRefused(
                f"{attempt.attempt_id} names a variant that the lock does not know",
                value=attempt.variant_id,
                next_step="append the variant to the protocol and run `runner freeze`",
            )


def _configurations(
    lock: Lock, catalogue: Catalogue, judged: Sequence[Judged], manifests: Mapping[str, Manifest]
) -> tuple[Configuration, ...]:
    """Measured hardware first, then the catalogue's GPUs that nobody measured; variants in the lock's order."""
    stack_of = {name: manifest.stack_sha256 for name, manifest in manifests.items()}
    declared = sorted({item.attempt.gpu_declared for item in judged})
    gpus = [*declared, *(gpu.name for gpu in catalogue.gpus if gpu.name not in declared)]
    found = []
    for gpu in gpus:
        for variant in lock.variants:
            mine = [i for i in judged if (i.attempt.gpu_declared, i.attempt.variant_id) == (gpu, variant.id)]
            stacks = by_stack(mine, stack_of)
            for stack, items in stacks.items():
                name = f"{gpu}.{variant.id}"
                if len(stacks) > 1:
                    name += f".{stack[:_STACK_DIGITS] if stack else 'no-stack'}"
                found.append(Configuration(name, gpu, variant, stack, tuple(items)))
    return tuple(found)


def _manifests_of(configuration: Configuration, manifests: Mapping[str, Manifest]) -> Manifest | None:
    names = sorted({item.attempt.manifest_sha256 or "" for item in configuration.judged} & manifests.keys())
    return manifests[names[0]] if names else None


def _row(
    configuration: Configuration,
    protocol: Protocol,
    lock: Lock,
    plan: Plan,
    catalogue: Catalogue,
    documents: Mapping[str, int],
    manifests: Mapping[str, Manifest],
    moved: Sequence[Attempt],
) -> BalanceRow:
    """`moved`: attempts of the campaign during which a wall clock moved."""
    summaries = _summaries(configuration, lock, documents)
    by_corpus: dict[str, list[Judged]] = {}
    for item in configuration.judged:
        by_corpus.setdefault(item.attempt.corpus_id, []).append(item)
    own = not catalogue.has(configuration.gpu)
    accepted = tuple(
        corpus
        for corpus in lock.judgement.deliverables
        if any(item.fate is Fate.ACCEPTED for item in by_corpus.get(corpus, ()))
    )
    complete = len(accepted) == len(lock.judgement.deliverables)
    attempts = [item.attempt for item in configuration.judged]
    totals = phases_of(attempts, manifests) if configuration.measured else {}
    happened = what_happened(plan, configuration.variant.id, attempts, totals, moved) if configuration.measured else ()
    largest = smallest = None
    if configuration.measured:
        largest, smallest = (
            _outlook(configuration, plan, catalogue, by_corpus, totals, accepted=complete, largest=end)
            for end in (True, False)
        )
    constraints: tuple[Constraint, ...] = ()
    if largest is not None:
        evidence = evidence_constraints(lock.judgement.deliverables, by_corpus, summaries, protocol.measurement)
        constraints = tuple(sorted((*evidence, *largest.constraints), key=lambda c: ORDER.index(c.name)))
    package = None if largest is None else largest.package
    cost = None if package is None else Decimal(package.total)
    per_corpus = cost_per_corpus(cost, len(accepted))
    not_measured = None if configuration.measured else _why_not_measured(configuration)
    cost_reason = not_measured or (None if largest is None else largest.package_reason)
    questions, notes = open_questions(configuration.judged, summaries, protocol, package)
    return BalanceRow(
        configuration_id=configuration.id,
        gpu=configuration.gpu,
        variant_id=configuration.variant.id,
        series=configuration.variant.series,
        added_later=configuration.variant.added_later,
        settings=configuration.variant.settings,
        stack_sha256=configuration.stack,
        devices=tuple(sorted({name for item in configuration.judged for name in item.attempt.devices_found})),
        measured=configuration.measured,
        own_machine=own,
        summaries=summaries,
        attempts=len(configuration.judged),
        accepted=_count(configuration, Fate.ACCEPTED),
        failures=_count(configuration, Fate.FAILURE),
        not_counted=_count(configuration, Fate.NOT_COUNTED),
        deliverables_accepted=accepted,
        window=None if largest is None else largest.window,
        window_reason=not_measured,
        package=package,
        package_reason=cost_reason,
        unpriced_days=() if largest is None else largest.unpriced_days,
        lots=None if largest is None else largest.lots,
        packages=() if largest is None else largest.packages,
        quality=quality_margins(configuration.judged),
        committed_cost=None if cost is None else decimal_text(cost),
        currency=None if package is None else package.currency,
        committed_cost_reason=cost_reason,
        cost_per_validated_corpus=None if per_corpus.value is None else _fraction_text(per_corpus.value),
        cost_per_validated_corpus_reason=_per_corpus_reason(per_corpus.status, cost_reason),
        at_smallest=smallest,
        expenses=expenses_of(plan, configuration.variant.id),
        phase_seconds={name: decimal_text(seconds) for name, seconds in totals.items()},
        happened=happened,
        constraints=constraints,
        admissible=bool(constraints) and all(c.status in ("met", "not applicable") for c in constraints),
        first_failed=_first_failed(constraints),
        open_questions=questions,
        notes=notes,
    )


def _summaries(configuration: Configuration, lock: Lock, documents: Mapping[str, int]) -> tuple[Summary, ...]:
    """One per corpus and seed that was attempted; deliverables first, in their order."""
    rank = {corpus: place for place, corpus in enumerate(lock.judgement.deliverables)}
    keys = sorted(
        {(item.attempt.corpus_id, item.attempt.seed) for item in configuration.judged},
        key=lambda key: (rank.get(key[0], len(rank)), key),
    )
    return tuple(
        summarise(
            configuration.id,
            corpus,
            seed,
            [i for i in configuration.judged if (i.attempt.corpus_id, i.attempt.seed) == (corpus, seed)],
            documents=documents.get(corpus, 0),
        )
        for corpus, seed in keys
    )


def _outlook(
    configuration: Configuration,
    plan: Plan,
    catalogue: Catalogue,
    by_corpus: Mapping[str, Sequence[Judged]],
    phases: Mapping[str, Decimal],
    *,
    accepted: bool,
    largest: bool,
) -> Outlook:
    """Outlook at the largest or smallest accepted durations; `accepted`: every deliverable is."""
    durations = {
        corpus: [
            exact_seconds(item.attempt.pass_seconds)
            for item in items
            if item.fate is Fate.ACCEPTED and item.attempt.pass_seconds is not None
        ]
        for corpus, items in by_corpus.items()
    }
    pick = max if largest else min
    seconds = {corpus: pick(values) for corpus, values in durations.items() if values}
    replaced = replaced_seconds(plan, phases, configuration.variant.id)
    return outlook(plan, catalogue, configuration.gpu, configuration.variant, seconds, replaced, accepted=accepted)


def _why_not_measured(configuration: Configuration) -> Reason:
    if not configuration.judged:
        return say("not-measured")
    attempt = configuration.judged[-1].attempt
    found = ", ".join(attempt.devices_found) or "no device"
    why = attempt.error.message if attempt.error is not None else attempt.status.value
    match = attempt.device_match
    if match is not None:
        if match.code == "other device" or match.reason is None:
            return say("not-measured.other-device", gpu=configuration.gpu, found=found)
        return say("not-measured.unavailable", gpu=configuration.gpu, found=found, why=match.reason)
    # Older rows say it in words alone, which name both devices again: what they say beside that is kept.
    named, _, rest = why.partition(f", found {found if attempt.devices_found else 'no card'}")
    if named.startswith("declared ") and rest.strip() in ("", "(none)"):
        return say("not-measured.other-device", gpu=configuration.gpu, found=found)
    if named.startswith("declared ") and rest.startswith(" (") and rest.endswith(")"):
        why = rest[2:-1]
    return say("not-measured.unavailable", gpu=configuration.gpu, found=found, why=why)


def _per_corpus_reason(status: str, cost_reason: Reason | None) -> Reason | None:
    match status:
        case "calculated":
            return None
        case "undefined":
            return say("per-corpus.undefined")
        case _:
            return cost_reason or say("per-corpus.not-calculated")


def _fraction_text(value: Fraction) -> str:
    """Exact where 12 places hold it, else rounded half up there; comparisons use cost and count."""
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    text = decimal_text(round_half_up(exact, _COST_PLACES)).rstrip("0")
    whole, _, places = text.partition(".")
    return f"{whole}.{places.ljust(2, '0')}"


def _count(configuration: Configuration, fate: Fate) -> int:
    return sum(item.fate is fate for item in configuration.judged)


def _first_failed(constraints: Sequence[Constraint]) -> ConstraintName | None:
    """First constraint that is not met, else the first that could not be assessed."""
    for status in ("not met", "not assessable"):
        for constraint in constraints:
            if constraint.status == status:
                return constraint.name
    return None
