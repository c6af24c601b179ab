"""The protocol: what was fixed before any time was looked at (M1-M5, M18, M19, M21, M27)."""

from __future__ import annotations

from typing import Any

from runner.note.evidence import Evidence
from runner.note.words import NOTHING, Speaker
from runner.pricing.times import parse_instant
from runner.units import utc_text

_PROCESSOR = "cpu"


def frozen(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Thresholds, rules and corpora as rows of (what, value)."""
    protocol, fmt, t = evidence.protocol, speaker.fmt, speaker.catalogue
    quality, measurement = protocol.quality, protocol.measurement
    rows = [
        (t.gettext("Scenario"), t.gettext("offline: the corpus is processed as a whole")),
        (t.gettext("Metric"), protocol.metric_name()),
        (t.gettext("Minimum"), fmt.plain(quality.threshold)),
        (t.gettext("Largest drop to the baseline"), fmt.plain(quality.max_drop)),
        (t.gettext("Minimum agreement with the baseline"), fmt.plain(quality.min_agreement)),
        *_most_flips(evidence, speaker),
        *(
            (
                t.gettext("Subgroup %(name)s", name=f"{group.column} = {group.value}"),
                t.gettext(
                    "at least %(minimum)s (%(metric)s)",
                    minimum=fmt.plain(group.minimum),
                    metric=protocol.metric_name(group.metric),
                ),
            )
            for group in quality.subgroup
        ),
        (
            t.gettext("Passes"),
            t.gettext(
                "%(planned)s planned, at least %(least)s accepted, at most %(most)s",
                planned=str(measurement.passes_planned),
                least=str(measurement.min_accepted),
                most=str(measurement.passes_most),
            ),
        ),
        (t.gettext("Order"), t.gettext("rotated, so that no variant is always first")),
        (t.gettext("Inside the pass"), t.gettext("reading, tokenising, transfer, inference, predictions on the host")),
        (t.gettext("Process"), _process(evidence, speaker)),
        *_padding_token(evidence, speaker),
        (t.gettext("Warm-up"), _warm_up(evidence, speaker)),
        *_of_cards(evidence, speaker),
        (t.gettext("Seeds"), ", ".join(str(seed) for seed in measurement.seeds)),
        (t.gettext("To be reproduced"), reproduction_words(evidence, speaker)),
        (t.gettext("Exclusion rule"), speaker.campaign_text(speaker.long_text(protocol.rules.exclusion))),
        (t.gettext("Separation rule"), t.gettext("gap of the medians larger than the largest range of the two")),
    ]
    lock = evidence.lock
    return {
        "rows": [{"what": what, "value": speaker.long_text(value)} for what, value in rows],
        "corpora": [
            {
                "id": corpus.id,
                "documents": fmt.integer(corpus.documents),
                "use": t.gettext("deliverable") if corpus.id in lock.judgement.deliverables else t.gettext("other"),
                "seen": t.gettext("corpus seen before") if corpus.seen_before else t.gettext("not seen before"),
            }
            for corpus in lock.judgement.corpora
        ],
        "seen_before": any(corpus.seen_before for corpus in lock.judgement.corpora),
        "frozen_at": fmt.instant(lock.frozen_at_utc),
        "frozen_on": lock.frozen_on,
        "name": protocol.question.name,
        "revision": str(protocol.question.revision),
        "added_later": ", ".join(variant.id for variant in lock.variants if variant.added_later),
    }


def drivers(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """What an option had to satisfy to be chosen, as (name, text): from the lock and the plan, no result in it."""
    protocol, plan, fmt, t = evidence.protocol, evidence.plan, speaker.fmt, speaker.catalogue
    quality, measurement = protocol.quality, protocol.measurement
    wanted = [c for c in evidence.lock.judgement.corpora if c.id in evidence.lock.judgement.deliverables]
    documents = sum(corpus.documents for corpus in wanted)
    deadline = utc_text(parse_instant(plan.deadline, plan.zone, name="deadline"))
    groups = [
        t.gettext("%(group)s at least %(minimum)s", group=f"{g.column} = {g.value}", minimum=fmt.plain(g.minimum))
        for g in quality.subgroup
    ]
    good = t.gettext(
        "At least %(minimum)s by the metric %(metric)s and at most %(drop)s below the baseline; at least %(agreement)s "
        "of the labels as in the baseline.",
        metric=protocol.metric_name(),
        minimum=fmt.plain(quality.threshold),
        drop=fmt.plain(quality.max_drop),
        agreement=fmt.percent(quality.min_agreement),
    )
    if groups:
        good += " " + t.gettext("Subgroups: %(groups)s.", groups=", ".join(groups))
    rows = [
        (
            t.gettext("All documents"),
            t.ngettext(
                "%(count)s document of %(corpora)s, whole; a single missing one refuses the pass.",
                "%(count)s documents of %(corpora)s, whole; a single missing one refuses the pass.",
                documents,
                count=fmt.integer(documents),
                corpora=fmt.listed([corpus.id for corpus in wanted]),
            ),
        ),
        (t.gettext("Good enough"), good),
        (
            t.gettext("Repeatable"),
            t.gettext(
                "At least %(least)s accepted passes, %(planned)s planned.",
                least=str(measurement.min_accepted),
                planned=str(measurement.passes_planned),
            ),
        ),
        (
            t.gettext("In time"),
            t.gettext("Delivered by %(deadline)s.", deadline=fmt.local_instant(deadline, plan.zone)),
        ),
        (
            t.gettext("Smallest committed cost"),
            t.gettext(
                "Among the options that satisfy all of this. Ties: fewer failures, then a median that is faster by "
                "more than the larger range of the two, then fewer open questions."
            ),
        ),
    ]
    return [{"name": name, "text": text} for name, text in rows]


def _most_flips(evidence: Evidence, speaker: Speaker) -> tuple[tuple[str, str], ...]:
    most = evidence.protocol.quality.max_flips
    return () if most is None else ((speaker.catalogue.gettext("Most changed labels"), speaker.fmt.integer(most)),)


def _process(evidence: Evidence, speaker: Speaker) -> str:
    """Which attempts share a process: the same for all variants (M21)."""
    t = speaker.catalogue
    if evidence.lock.process_policy == "fresh":
        return t.gettext("a fresh process for every attempt")
    return t.gettext(
        "one process serves attempts in turn, each with the model loaded anew; "
        "a fresh one after every attempt that was not completed"
    )


def _padding_token(evidence: Evidence, speaker: Speaker) -> tuple[tuple[str, str], ...]:
    """The declared choice for a model without one; it is a decision of the protocol, never of the tool (MO-06)."""
    token, t = evidence.protocol.model.pad_token, speaker.catalogue
    if token is None:
        return ()
    shown = t.gettext("the end-of-text token (eos)") if token == "eos" else speaker.quoted(token)
    return ((t.gettext("Padding token"), t.gettext("%(token)s, chosen in the protocol", token=shown)),)


def _warm_up(evidence: Evidence, speaker: Speaker) -> str:
    rule, t = evidence.protocol.warm_up, speaker.catalogue
    if rule.inputs == "none" or rule.passes == 0:
        return t.gettext("none")
    return t.ngettext(
        "%(count)s pass over the first and the longest documents",
        "%(count)s passes over the first and the longest documents",
        rule.passes,
    )


def _of_cards(evidence: Evidence, speaker: Speaker) -> tuple[tuple[str, str], ...]:
    """What the warm-up does on a card beside that; left out where none was measured."""
    rule, t = evidence.protocol.warm_up, speaker.catalogue
    on_cards = any(attempt.gpu_declared != _PROCESSOR for attempt in evidence.counted_attempts)
    if not on_cards or rule.inputs == "none" or rule.passes == 0:
        return ()
    seconds = speaker.fmt.plain(rule.card_least_seconds)
    words = (
        t.gettext("one batch of every size first, then at least %(seconds)s s", seconds=seconds)
        if rule.card_shapes == "all"
        else t.gettext("at least %(seconds)s s", seconds=seconds)
    )
    return ((t.gettext("Warm-up of cards"), words),)


def reproduction_words(evidence: Evidence, speaker: Speaker) -> str:
    """What is to be reproduced (M27), in words."""
    rule, t = evidence.protocol.reproduction, speaker.catalogue
    match rule.goal:
        case "identical":
            return t.gettext("identical predictions")
        case "bounded":
            most = rule.max_score_difference
            return t.gettext(
                "scores within %(most)s of the baseline", most=speaker.fmt.plain(most) if most else NOTHING
            )
        case _:
            return t.gettext("acceptable task quality")
