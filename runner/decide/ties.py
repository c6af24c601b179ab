"""Undecided between admissible configurations, in words: who is tied, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from runner.decide.model import Balance, Reason, Summary
from runner.decide.options import Option, Times, gap_and_spread, times
from runner.decide.sentences import say
from runner.decide.summaries import decimal_text
from runner.decide.words import money_text
from runner.units import exact_seconds


def reasons_for_tie(tied: Sequence[Option], deliverables: Sequence[str]) -> tuple[Reason, ...]:
    """Who is tied, and by how much the medians are apart against the ranges."""
    names = ", ".join(option.id for option in tied)
    reasons = [
        say("undecided.tie-cost", names=names, cost_money=money_text(tied[0].cost, tied[0]))
        if tied[0].cost is not None
        else say("undecided.tie-time", names=names)
    ]
    measured = [(option, times(option.row, deliverables)) for option in tied]
    ordered = sorted(measured, key=lambda item: (item[1].median, item[0].id))
    for option, found in ordered[1:]:
        reasons.append(_gap_sentence(ordered[0][0].id, ordered[0][1], option.id, found))
    return tuple(reasons)


def _gap_sentence(one: str, fast: Times, other: str, slow: Times) -> Reason:
    gap, spread = gap_and_spread(fast, slow)
    code = "undecided.gap" if gap <= spread else "undecided.gap-clear"
    return say(code, one=one, other=other, gap_seconds=decimal_text(gap), range_seconds=decimal_text(spread))


def help_for_tie(balance: Balance, tied: Sequence[Option]) -> tuple[Reason, ...]:
    """More passes move medians but never narrow a range: name the widest one and its outermost pass."""
    found = []
    run = max((s.accepted + s.failures for option in tied for s in option.row.summaries), default=0)
    left = balance.passes_most - run
    if left > 0:
        for gpu in dict.fromkeys(option.row.gpu for option in tied):
            found.append(say("help.more-passes", more_count=str(left), gpu=gpu, most_count=str(balance.passes_most)))
    widest = max(
        (summary for option in tied for summary in option.row.summaries if summary.range_seconds is not None),
        key=lambda summary: (Decimal(summary.range_seconds or "0"), summary.configuration_id),
        default=None,
    )
    if widest is not None and widest.median_seconds is not None and Decimal(widest.range_seconds or "0"):
        found.append(_spread(widest, Decimal(widest.median_seconds)))
    shared = [option for option in tied if any(q.code == "question.shared" for q in option.row.open_questions)]
    likely = [option.id for option in shared if any(slowed_by_others(summary) for summary in option.row.summaries)]
    unknown = [option.id for option in shared if option.id not in likely]
    if likely:
        found.append(say("help.shared", names=", ".join(likely)))
    if unknown:
        found.append(say("help.shared-unknown", names=", ".join(unknown)))
    return tuple(found)


def _spread(widest: Summary, middle: Decimal) -> Reason:
    """The outermost pass of the widest range; or how many lie nearer to it than to the median."""
    raw = [exact_seconds(value) for value in widest.raw_seconds]
    outermost = max(raw, key=lambda value: (abs(value - middle), value))
    there = sum(abs(value - outermost) < abs(value - middle) for value in raw)
    values = {
        "name": widest.configuration_id,
        "range_seconds": widest.range_seconds or "0",
        "outermost_seconds": decimal_text(outermost),
        "median_seconds": decimal_text(middle),
    }
    if there == 1:
        return say("help.spread", **values)
    return say("help.spread-several", several_count=str(there), n_count=str(len(raw)), **values)


def slowed_by_others(summary: Summary) -> bool:
    """Whether the records support that others on the device caused the spread.

    Only where at least two passes were undisturbed, all of these were faster than every disturbed one, and they are
    closer together than the two groups are apart. A pass of which it is not known supports nothing.
    """
    if None in summary.shared:
        return False
    passes = [
        (exact_seconds(seconds), others) for seconds, others in zip(summary.raw_seconds, summary.shared, strict=True)
    ]
    quiet = [seconds for seconds, others in passes if not others]
    disturbed = [seconds for seconds, others in passes if others]
    return len(quiet) > 1 and bool(disturbed) and max(quiet) - min(quiet) < min(disturbed) - max(quiet)
