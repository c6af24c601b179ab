"""Page 1: the decision, why, what was excluded, what is uncertain, how to check it again (M44)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from runner.decide.model import BalanceRow, Excluded, WindowFacts
from runner.note.evidence import Evidence
from runner.note.parts.options import accepted_words, cost_words, length_words
from runner.note.parts.purchase import price_date
from runner.note.words import NOTHING, Speaker
from runner.pricing.times import parse_instant
from runner.pricing.window import access_window
from runner.units import utc_text

_MOST_LISTED = 4
_MOST_OF_ALL = 24
_MOST_OPTIONS = 6
_MOST_GPUS = 8


def page_one(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Headline, answer box and the four lists."""
    decision, row = evidence.decision, evidence.chosen_row
    return {
        "question": speaker.campaign_text(decision.question),
        "outcome": decision.outcome,
        "headline": _headline(evidence, row, speaker),
        "facts": _facts(evidence, row, speaker),
        "reasons": [speaker.sentence(reason) for reason in decision.reasons],
        "rule": speaker.sentence(decision.rule),
        "walk": [speaker.sentence(reason) for reason in decision.walk],
        "excluded": _capped(_excluded(decision.excluded, speaker)),
        "unmeasured": _unmeasured(evidence),
        "uncertain": _capped([speaker.sentence(reason) for reason in decision.uncertain]),
        "would_help": _capped([speaker.sentence(reason) for reason in decision.would_help]),
        "warnings": _capped([speaker.sentence(reason) for reason in decision.warnings]),
        "own_machine": row is not None and row.own_machine,
        "only_own": _only_own(evidence),
        "glance": _glance(evidence, speaker),
        "what_if": [speaker.sentence(reason) for reason in decision.what_if],
    }


def _headline(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    t = speaker.catalogue
    if row is None:
        names = evidence.decision.tied
        if not evidence.measured_rows:
            return t.gettext("Undecided: nothing is measured yet")
        if not names or len(names) > _MOST_LISTED:
            return t.gettext("Undecided: nothing can be chosen yet")
        return t.gettext("Undecided between %(names)s", names=speaker.fmt.listed(names))
    if row.package is None:
        return t.gettext("Use %(name)s on the own machine", name=row.configuration_id)
    package = row.package
    lots = t.ngettext("%(count)s lot of %(gpu)s", "%(count)s lots of %(gpu)s", package.lots, gpu=package.gpu)
    price = speaker.fmt.money(package.total, package.currency)
    if package.days is None:
        return t.gettext("Rent %(lots)s by the hour for %(price)s", lots=lots, price=price)
    days = length_words(package, speaker)
    return t.gettext("Rent %(lots)s for %(days)s: %(price)s", lots=lots, days=days, price=price)


def _facts(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> list[dict[str, str]]:
    """Six cells of the answer box; each has a label, a value and a line below."""
    t, fmt = speaker.catalogue, speaker.fmt
    configuration = {
        "label": t.gettext("Configuration"),
        "value": row.configuration_id if row else t.gettext("undecided"),
        "below": speaker.settings(row.settings) if row else _tied(evidence, speaker),
    }
    cost = {
        "label": t.gettext("Committed cost"),
        "value": _cost(evidence, row, speaker),
        "below": _cost_reason(evidence, row, speaker),
    }
    return [
        configuration,
        cost,
        {
            "label": t.gettext("Package"),
            "value": _package(evidence, row, speaker),
            "below": _package_reason(evidence, row, speaker),
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
    rows = evidence.ranked_rows
    return {
        "rows": [_glance_row(row, evidence, speaker) for row in rows[:_MOST_OPTIONS]],
        "more": max(0, len(rows) - _MOST_OPTIONS),
        "settings": _settings(rows[:_MOST_OPTIONS], speaker),
    }


def _settings(rows: Sequence[BalanceRow], speaker: Speaker) -> str:
    """What the names in the table stand for: `b1: batch size 1; b4: batch size 4; all of them: fp32`, each once."""
    found = {row.variant_id: speaker.settings(row.settings).split(", ") for row in rows}
    if len(found) == 1:
        return speaker.parted([speaker.labelled(name, ", ".join(said)) for name, said in found.items()])
    common = [part for part in next(iter(found.values()), []) if all(part in said for said in found.values())]
    own = {name: ", ".join(part for part in said if part not in common) for name, said in found.items()}
    shown = [speaker.labelled(name, said) for name, said in own.items() if said]
    if common:
        shown.append(speaker.labelled(speaker.catalogue.gettext("all of them"), ", ".join(common)))
    return speaker.parted(shown)


def _glance_row(row: BalanceRow, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    t, fmt = speaker.catalogue, speaker.fmt
    if row.configuration_id == evidence.decision.chosen:
        kind, word = "badge", t.gettext("chosen")
    elif row.admissible:
        kind, word = "none", t.gettext("admissible")
    else:
        kind, word = "not-met", t.gettext("not admissible")
    medians = [fmt.duration(s.median_seconds) for s in row.summaries if s.median_seconds is not None]
    window = row.window if row in evidence.timed_rows and not row.own_machine else None
    return {
        "name": row.configuration_id,
        "kind": kind,
        "word": word,
        "accepted": accepted_words(row, speaker),
        "median": ", ".join(medians) or NOTHING,
        "window": fmt.hours(window.window_seconds) if window else NOTHING,
        "slack": fmt.hours(row.window.deadline_slack_seconds) if row.window and row in evidence.timed_rows else NOTHING,
        "cost": cost_words(row, speaker),
    }


def _documents(evidence: Evidence) -> int:
    """Documents of the deliverables that an accepted pass has covered: none without one."""
    wanted = evidence.lock.judgement.deliverables
    covered = {s.corpus_id for row in evidence.measured_rows for s in row.summaries if s.accepted}
    corpora = evidence.lock.judgement.corpora
    return sum(corpus.documents for corpus in corpora if corpus.id in wanted and corpus.id in covered)


def _windows(evidence: Evidence, row: BalanceRow | None) -> list[WindowFacts]:
    """The chosen one's window; undecided: those of all options with an accepted pass. Others have the plan's only."""
    rows = evidence.timed_rows if row is None else (row,)
    return [found.window for found in rows if found.window is not None and found in evidence.timed_rows]


def _window_fact(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> dict[str, str]:
    t, fmt, windows = speaker.catalogue, speaker.fmt, _windows(evidence, row)
    if _only_own(evidence) or (row is not None and row.own_machine):
        below = t.gettext("own machine: nothing is rented")
        return {"label": t.gettext("Access window"), "value": t.gettext("not applicable"), "below": below}
    sizes = sorted({Decimal(window.window_seconds) for window in windows})
    if not sizes:
        return _planned_window_fact(evidence, row, speaker)
    value = " – ".join(dict.fromkeys((fmt.hours(sizes[0]), fmt.hours(sizes[-1]))))
    below = t.gettext("of the options with an accepted pass")
    if row is not None:
        busy, waiting = fmt.parts_of(windows[0].window_seconds, windows[0].busy_seconds)
        below = t.gettext("%(busy)s busy, %(waiting)s waiting", busy=busy, waiting=waiting)
    return {"label": t.gettext("Access window"), "value": value, "below": below}


def _planned_window_fact(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> dict[str, str]:
    """Nothing was measured: the window of the plan, called so."""
    t = speaker.catalogue
    planned = access_window(evidence.plan)
    below = speaker.sentence(row.window_reason) if row is not None and row.window_reason is not None else ""
    return {
        "label": t.gettext("Access window"),
        "value": speaker.fmt.hours(planned.window_seconds),
        "below": below or _unknown(evidence, t.gettext("as planned, nothing measured"), speaker),
    }


def _deadline_fact(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> dict[str, str]:
    t, fmt, plan = speaker.catalogue, speaker.fmt, evidence.plan
    deadline = utc_text(parse_instant(plan.deadline, plan.zone, name="deadline"))
    slacks = [Decimal(window.deadline_slack_seconds) for window in _windows(evidence, row)]
    below = "" if slacks else _unknown(evidence, "", speaker)
    if slacks and min(slacks) < 0:
        below = t.gettext("missed by %(late)s", late=fmt.hours(-min(slacks)))
        if row is None:
            below = t.gettext("missed by up to %(late)s", late=fmt.hours(-min(slacks)))
    elif slacks:
        below = t.gettext("%(slack)s to spare", slack=fmt.hours(min(slacks)))
        if row is None:
            below = t.gettext("at least %(slack)s to spare", slack=fmt.hours(min(slacks)))
        if row.own_machine if row is not None else _only_own(evidence):  # nobody waits for a rental to begin
            below = t.gettext("%(spare)s by the plan’s calendar, if it starts as planned", spare=below)
    return {"label": t.gettext("Deadline"), "value": fmt.local_instant(deadline, plan.zone), "below": below}


def _unknown(evidence: Evidence, unmeasured: str, speaker: Speaker) -> str:
    """Why neither window nor delivery is known: nothing was measured, or nothing of it was accepted."""
    if not evidence.measured_rows:
        return unmeasured
    return speaker.catalogue.gettext("as planned: no accepted pass shows it")


def _tied(evidence: Evidence, speaker: Speaker) -> str:
    if not evidence.decision.tied:
        return speaker.catalogue.gettext("no configuration is named")
    return speaker.catalogue.gettext("between %(names)s", names=speaker.joined(evidence.decision.tied))


def _only_own(evidence: Evidence) -> bool:
    """Whether all that was measured is the user's own: then no cost applies to any of it."""
    return bool(evidence.measured_rows) and all(row.own_machine for row in evidence.measured_rows)


def _cost(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    if row is None:
        row = _same_package(evidence)
        return cost_words(row, speaker) if row is not None else _open(evidence, speaker)
    if row.committed_cost is None:
        return speaker.catalogue.gettext("not applicable") if row.own_machine else NOTHING
    return speaker.fmt.money(row.committed_cost, row.currency or "")


def _open(evidence: Evidence, speaker: Speaker) -> str:
    t = speaker.catalogue
    return t.gettext("not applicable") if _only_own(evidence) else t.gettext("open")


def _same_package(evidence: Evidence) -> BalanceRow | None:
    """Undecided between configurations that commit the same money for the same package: one of them."""
    tied = [row for row in evidence.measured_rows if row.configuration_id in evidence.decision.tied]
    offers = {(row.package.gpu, row.package.days, row.package.lots) if row.package else None for row in tied}
    same = len(offers) == 1 and None not in offers and len({row.committed_cost for row in tied}) == 1
    return tied[0] if same else None


def _cost_reason(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    t = speaker.catalogue
    if row is None:
        same = t.gettext("the same whichever of them is chosen")
        return same if _same_package(evidence) else _own_or(evidence, t.gettext("nothing is committed"), speaker)
    if row.committed_cost_reason is not None:
        return speaker.sentence(row.committed_cost_reason)
    if row.package is None:
        return ""
    each = speaker.fmt.money(row.package.price_per_lot, row.package.currency)
    date = price_date(evidence, row.package, speaker)
    return t.gettext("%(price)s per lot, price of %(date)s; unused time is not refunded", price=each, date=date)


def _own_or(evidence: Evidence, text: str, speaker: Speaker) -> str:
    """Why there is no price: only the own machine was measured; else `text`."""
    return speaker.catalogue.gettext("own machine: nothing is rented") if _only_own(evidence) else text


def _package(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    t = speaker.catalogue
    row = row or _same_package(evidence)
    if row is None:
        return _open(evidence, speaker)
    if row.package is None:
        return t.gettext("not applicable") if row.own_machine else NOTHING
    package = row.package
    days = length_words(package, speaker)
    lots = t.ngettext("%(count)s lot", "%(count)s lots", package.lots)
    cards = t.ngettext("%(count)s GPU", "%(count)s GPUs", package.cards)
    return f"{days}, {lots} ({cards})"


def _package_reason(evidence: Evidence, row: BalanceRow | None, speaker: Speaker) -> str:
    row = row or _same_package(evidence)
    if row is None:
        return _own_or(evidence, "", speaker)
    if row.package is not None:
        covers = speaker.sentence(row.package.reason)
        idle, cards = row.package.unused_cards, row.package.cards
        if not idle:
            return covers
        unused = speaker.catalogue.ngettext(
            "%(count)s of %(all)s GPUs stays unused", "%(count)s of %(all)s GPUs stay unused", idle, all=str(cards)
        )
        return f"{covers}; {unused}"
    return speaker.sentence(row.package_reason) if row.package_reason is not None else ""


def _excluded(items: Sequence[Excluded], speaker: Speaker) -> list[dict[str, str]]:
    """Configurations that are out for the same reason stand in one line."""
    names: dict[str, list[str]] = {}
    for item in items:
        names.setdefault(speaker.sentence(item.reason), []).append(item.configuration_id)
    return [{"name": speaker.listed(found), "reason": reason} for reason, found in names.items()]


def _unmeasured(evidence: Evidence) -> dict[str, Any]:
    """GPUs of which no configuration was measured: the first few by name, and how many there are."""
    measured = {row.gpu for row in evidence.measured_rows}
    names = sorted({row.gpu for row in evidence.balance.rows if row.gpu not in measured})
    shown = ", ".join(names[:_MOST_GPUS]) + (" …" if len(names) > _MOST_GPUS else "")
    return {"names": shown, "count": len(names)}


def _capped(items: Sequence[Any]) -> dict[str, Any]:
    """The first few for page 1; how many more there are stands in a later section."""
    more = len(items) - _MOST_LISTED
    return {
        "shown": list(items[:_MOST_LISTED]),
        "rest": list(items[_MOST_LISTED:_MOST_OF_ALL]),
        "unsaid": max(0, len(items) - _MOST_OF_ALL),
        "all": list(items),
        "more": max(0, more),
    }
