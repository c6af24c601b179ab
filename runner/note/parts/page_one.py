"""Page 1: the decision, why, what was excluded, what is uncertain, how to check it again (M44)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from runner.decide.model import BalanceRow, Excluded, WindowFacts
from runner.note.evidence import Evidence
from runner.note.parts.options import cost_words
from runner.note.words import NOTHING, Speaker
from runner.pricing.times import parse_instant
from runner.units import utc_text

_MOST_LISTED = 4
_MOST_OPTIONS = 6


def page_one(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Headline, answer box and the four lists."""
    decision, row = evidence.decision, evidence.chosen_row
    return {
        "question": decision.question,
        "outcome": decision.outcome,
        "headline": _headline(evidence, row, speaker),
        "facts": _facts(evidence, row, speaker),
        "reasons": [speaker.sentence(reason) for reason in decision.reasons],
        "rule": speaker.sentence(decision.rule),
        "no_comparison": decision.no_comparison,
        "excluded": _capped([_named(item, speaker) for item in decision.excluded]),
        "unmeasured": _unmeasured(evidence),
        "uncertain": _capped([speaker.sentence(reason) for reason in decision.uncertain]),
        "would_help": _capped([speaker.sentence(reason) for reason in decision.would_help]),
        "warnings": _capped([speaker.sentence(reason) for reason in decision.warnings]),
        "own_machine": row is not None and row.own_machine,
        "glance": _glance(evidence, speaker),
        "what_if": [speaker.sentence(reason) for reason in decision.what_if],
    }


def _headline(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    t = speaker.catalogue
    if row is None:
        names = evidence.decision.tied
        if not names or len(names) > _MOST_LISTED:
            return t.gettext("Undecided: nothing can be chosen yet")
        return t.gettext("Undecided between %(names)s", names=", ".join(names))
    if row.package is None:
        return t.gettext("Use %(name)s on the own machine", name=row.configuration_id)
    package = row.package
    lots = t.ngettext("%(count)s lot of %(gpu)s", "%(count)s lots of %(gpu)s", package.lots, gpu=package.gpu)
    price = speaker.fmt.money(package.total, package.currency)
    if package.days is None:
        return t.gettext("Rent %(lots)s by the hour for %(price)s", lots=lots, price=price)
    days = t.ngettext("%(count)s day", "%(count)s days", package.days)
    return t.gettext("Rent %(lots)s for %(days)s: %(price)s", lots=lots, days=days, price=price)


def _facts(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> list[dict[str, str]]:
    """Six cells of the answer box; each has a label, a value and a line below."""
    t, fmt = speaker.catalogue, speaker.fmt
    package = row.package if row is not None else None
    configuration = {
        "label": t.gettext("Configuration"),
        "value": row.configuration_id if row else t.gettext("undecided"),
        "below": speaker.settings(row.settings) if row else _tied(evidence, speaker),
    }
    cost = {
        "label": t.gettext("Committed cost"),
        "value": _cost(evidence, row, speaker),
        "below": _cost_reason(row, speaker),
    }
    return [
        configuration,
        cost,
        {
            "label": t.gettext("Package"),
            "value": _package(evidence, row, speaker),
            "below": speaker.sentence(package.reason) if package else _package_reason(row, speaker),
        },
        _window_fact(evidence, row, speaker),
        _deadline_fact(evidence, row, speaker),
        {
            "label": t.gettext("Covered load"),
            "value": t.ngettext(
                "%(count)s document",
                "%(count)s documents",
                _documents(evidence),
                count=fmt.integer(_documents(evidence)),
            ),
            "below": ", ".join(evidence.lock.judgement.deliverables),
        },
    ]


def _glance(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """The measured options in one small table: the chosen one first, then admissible ones by cost."""
    rows = sorted(evidence.measured_rows, key=lambda row: _glance_order(row, evidence))
    return {
        "rows": [_glance_row(row, evidence, speaker) for row in rows[:_MOST_OPTIONS]],
        "more": max(0, len(rows) - _MOST_OPTIONS),
    }


def _glance_order(row: BalanceRow, evidence: Evidence) -> tuple[bool, bool, Decimal, Decimal]:
    median = next((summary.median_seconds for summary in row.summaries if summary.median_seconds), None)
    return (
        row.configuration_id != evidence.decision.chosen,
        not row.admissible,
        Decimal(row.committed_cost or 0),
        Decimal(median or "Infinity"),
    )


def _glance_row(row: BalanceRow, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    t, fmt = speaker.catalogue, speaker.fmt
    if row.configuration_id == evidence.decision.chosen:
        kind, word = "badge", t.gettext("chosen")
    elif row.admissible:
        kind, word = "none", t.gettext("admissible")
    else:
        kind, word = "not-met", t.gettext("not admissible")
    medians = [fmt.duration(s.median_seconds) for s in row.summaries if s.median_seconds is not None]
    return {
        "name": row.configuration_id,
        "kind": kind,
        "word": word,
        "accepted": t.gettext("%(accepted)s of %(all)s", accepted=str(row.accepted), all=str(row.attempts)),
        "median": ", ".join(medians) or NOTHING,
        "window": fmt.hours(row.window.window_seconds) if row.window else NOTHING,
        "slack": fmt.hours(row.window.deadline_slack_seconds) if row.window else NOTHING,
        "cost": cost_words(row, speaker),
    }


def _documents(evidence: Evidence) -> int:
    wanted = evidence.lock.judgement.deliverables
    return sum(corpus.documents for corpus in evidence.lock.judgement.corpora if corpus.id in wanted)


def _windows(evidence: Evidence, row: BalanceRow | None) -> list[WindowFacts]:
    """The chosen one's window; undecided: those of all measured options."""
    rows = evidence.measured_rows if row is None else (row,)
    return [found.window for found in rows if found.window is not None]


def _window_fact(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> dict[str, str]:
    t, fmt, windows = speaker.catalogue, speaker.fmt, _windows(evidence, row)
    sizes = sorted({Decimal(window.window_seconds) for window in windows})
    if not sizes:
        return {"label": t.gettext("Access window"), "value": NOTHING, "below": _window_reason(row, speaker)}
    value = " – ".join(dict.fromkeys((fmt.hours(sizes[0]), fmt.hours(sizes[-1]))))
    below = t.gettext("of the measured options")
    if row is not None:
        busy, waiting = fmt.hours(windows[0].busy_seconds), fmt.hours(windows[0].waiting_seconds)
        below = t.gettext("%(busy)s busy, %(waiting)s waiting", busy=busy, waiting=waiting)
    return {"label": t.gettext("Access window"), "value": value, "below": below}


def _deadline_fact(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> dict[str, str]:
    t, fmt, plan = speaker.catalogue, speaker.fmt, evidence.plan
    deadline = utc_text(parse_instant(plan.deadline, plan.zone, name="deadline"))
    below = NOTHING
    if row is not None and row.window is not None:
        slack = Decimal(row.window.deadline_slack_seconds)
        if slack < 0:
            below = t.gettext("missed by %(late)s", late=fmt.hours(-slack))
        else:
            below = t.gettext("%(slack)s to spare", slack=fmt.hours(slack))
    return {"label": t.gettext("Deadline"), "value": fmt.local_instant(deadline, plan.zone), "below": below}


def _tied(evidence: Evidence, speaker: Speaker) -> str:
    if not evidence.decision.tied:
        return speaker.catalogue.gettext("no configuration is named")
    return speaker.catalogue.gettext("between %(names)s", names=", ".join(evidence.decision.tied))


def _only_own(evidence: Evidence) -> bool:
    """Whether all that was measured is the user's own: then no cost applies to any of it."""
    return bool(evidence.measured_rows) and all(row.own_machine for row in evidence.measured_rows)


def _cost(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    if row is None:
        return speaker.catalogue.gettext("not applicable") if _only_own(evidence) else NOTHING
    if row.committed_cost is None:
        return speaker.catalogue.gettext("not applicable") if row.own_machine else NOTHING
    return speaker.fmt.money(row.committed_cost, row.currency or "")


def _cost_reason(row: BalanceRow | None, speaker: Speaker) -> str:
    if row is None:
        return speaker.catalogue.gettext("nothing is committed")
    if row.committed_cost_reason is not None:
        return speaker.sentence(row.committed_cost_reason)
    if row.package is None:
        return NOTHING
    each = speaker.fmt.money(row.package.price_per_lot, row.package.currency)
    return speaker.catalogue.gettext("%(price)s per lot, unused time is not refunded", price=each)


def _package(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    t = speaker.catalogue
    if row is None:
        return t.gettext("not applicable") if _only_own(evidence) else NOTHING
    if row.package is None:
        return t.gettext("not applicable") if row.own_machine else NOTHING
    package = row.package
    if package.days is None:
        days = t.gettext("by the hour")
    else:
        days = t.ngettext("%(count)s day", "%(count)s days", package.days)
    lots = t.ngettext("%(count)s lot", "%(count)s lots", package.lots)
    cards = t.ngettext("%(count)s GPU", "%(count)s GPUs", package.cards)
    return f"{days}, {lots} ({cards})"


def _package_reason(row: BalanceRow | None, speaker: Speaker) -> str:
    if row is None or row.package_reason is None:
        return NOTHING
    return speaker.sentence(row.package_reason)


def _window_reason(row: BalanceRow | None, speaker: Speaker) -> str:
    if row is None or row.window_reason is None:
        return NOTHING
    return speaker.sentence(row.window_reason)


def _named(item: Excluded, speaker: Speaker) -> dict[str, str]:
    return {"name": item.configuration_id, "reason": speaker.sentence(item.reason)}


def _unmeasured(evidence: Evidence) -> list[str]:
    """GPUs of which no configuration was measured."""
    measured = {row.gpu for row in evidence.measured_rows}
    return sorted({row.gpu for row in evidence.balance.rows if row.gpu not in measured})


def _capped(items: Sequence[Any]) -> dict[str, Any]:
    """The first few for page 1; how many more there are stands in a later section."""
    more = len(items) - _MOST_LISTED
    return {"shown": list(items[:_MOST_LISTED]), "all": list(items), "more": max(0, more)}
