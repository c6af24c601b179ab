"""The options side by side: constraint by constraint, and the balance (M42, M43)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from runner.decide.model import BalanceRow, PackageChoice
from runner.note.evidence import Evidence
from runner.note.format import NO_BREAK
from runner.note.parts.tables import capped
from runner.note.words import CONSTRAINT_WORDS, MET_WORDS, NOTHING, Speaker
from runner.pricing.packages import distinct_texts

_MOST_PROBLEMS = 24
_CLASSES = {"met": "met", "not met": "not-met", "not assessable": "open", "not applicable": "none"}


def options(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Constraint matrix, the reasons behind every `not met`, the balance, and what was not measured."""
    rows = evidence.shown_rows
    problems, count = capped(_problems(evidence, speaker), _MOST_PROBLEMS)
    return {
        "heads": [speaker.say(word) for word in CONSTRAINT_WORDS.values()],
        "matrix": [_matrix_row(row, evidence, speaker) for row in rows],
        "problems": problems,
        "problems_more": _more(count - len(problems), speaker),
        "balance": [_balance_row(row, evidence, speaker, _places(rows)) for row in rows],
        "rented": any(not row.own_machine for row in evidence.measured_rows),
        "unmeasured": _unmeasured(evidence, speaker),
    }


def _problems(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """Every condition that is not met or open; configurations that miss one for the same reason share a line."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in evidence.measured_rows:
        for constraint in row.constraints:
            if constraint.status in ("not met", "not assessable"):
                key = (speaker.say(CONSTRAINT_WORDS[constraint.name]), speaker.sentence(constraint.reason))
                found.setdefault(key, []).append(row.configuration_id)
    return [
        {"configuration": speaker.listed(names), "constraint": constraint, "reason": reason}
        for (constraint, reason), names in found.items()
    ]


def _more(count: int, speaker: Speaker) -> str:
    """How many lines a capped table leaves to the attached balance."""
    if count <= 0:
        return ""
    return speaker.catalogue.ngettext(
        "%(count)s more line is in note/balance.json.", "%(count)s more lines are in note/balance.json.", count
    )


def _unmeasured(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """Configurations of one GPU that were not measured for the same reason share a line."""
    gpus = {row.configuration_id: row.gpu for row in evidence.balance.rows}
    found: dict[tuple[str, str], list[str]] = {}
    for item in evidence.decision.unmeasured:
        key = (gpus.get(item.configuration_id, item.configuration_id), speaker.sentence(item.reason))
        found.setdefault(key, []).append(item.configuration_id)
    return [{"gpu": gpu, "names": speaker.listed(names), "reason": reason} for (gpu, reason), names in found.items()]


def _matrix_row(row: BalanceRow, evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    found = {constraint.name: constraint.status for constraint in row.constraints}
    cells = [
        {"kind": _CLASSES[status], "word": speaker.say(MET_WORDS[status])}
        for status in (found.get(name, "not applicable") for name in CONSTRAINT_WORDS)  # type: ignore[call-overload]
    ]
    chosen = row.configuration_id == evidence.decision.chosen
    return {"name": row.configuration_id, "cells": cells, "chosen": chosen}


def _places(rows: Sequence[BalanceRow]) -> int:
    """Decimals of the costs per corpus: two, more where unequal ones would read the same (PR-10)."""
    known = [Decimal(row.cost_per_validated_corpus) for row in rows if row.cost_per_validated_corpus is not None]
    texts = distinct_texts(known)
    return len(texts[0].partition(".")[2]) if texts else 2


def _balance_row(row: BalanceRow, evidence: Evidence, speaker: Speaker, places: int) -> dict[str, str]:
    fmt, t = speaker.fmt, speaker.catalogue
    medians = [summary.median_seconds for summary in row.summaries]
    return {
        "name": row.configuration_id,
        "settings": speaker.settings(row.settings),
        "accepted": accepted_words(row, speaker),
        "failures": str(row.failures),
        "median": ", ".join(fmt.duration(value) if value else NOTHING for value in medians) or NOTHING,
        "window": _window(row, evidence, speaker),
        "package": package_words(row, speaker),
        "cost": cost_words(row, speaker),
        "per_corpus": _per_corpus(row, speaker, places),
        "admissible": t.gettext("yes") if row.admissible else t.gettext("no"),
        "note": t.gettext("added later") if row.added_later else "",
    }


def _window(row: BalanceRow, evidence: Evidence, speaker: Speaker) -> str:
    """Access window of a rental; an own machine has none, however long its calendar (rule 11)."""
    if row.window is None or row.own_machine or row not in evidence.timed_rows:
        return NOTHING
    return speaker.fmt.hours(row.window.window_seconds)


def accepted_words(row: BalanceRow, speaker: Speaker) -> str:
    """`5 of 6`: of the attempts that count; those that do not are said beside it, for they are no failures."""
    t = speaker.catalogue
    shown = t.gettext("%(accepted)s of %(all)s", accepted=str(row.accepted), all=str(row.attempts - row.not_counted))
    if not row.not_counted:
        return shown
    return t.gettext("%(accepted)s (%(count)s not counted)", accepted=shown, count=str(row.not_counted))


def package_words(row: BalanceRow, speaker: Speaker) -> str:
    """`7 days × 2 lots`, or why there is none."""
    t = speaker.catalogue
    if row.package is None:
        return t.gettext("not applicable") if row.own_machine else t.gettext("none")
    package = row.package
    days = length_words(package, speaker)
    lots = t.ngettext("%(count)s lot", "%(count)s lots", package.lots)
    return " × ".join(text.replace(" ", NO_BREAK) for text in (days, lots))


def length_words(package: PackageChoice, speaker: Speaker) -> str:
    """`7 days`, `2 × 7 days` or `by the hour`."""
    t = speaker.catalogue
    if package.days is None:
        return t.gettext("by the hour")
    days = t.ngettext("%(count)s day", "%(count)s days", package.days)
    return days if package.periods == 1 else f"{package.periods} × {days}"


def cost_words(row: BalanceRow, speaker: Speaker) -> str:
    """Committed cost, or the word for its absence; never 0."""
    if row.committed_cost is None:
        return speaker.catalogue.gettext("not applicable") if row.own_machine else NOTHING
    cost = speaker.fmt.money(row.committed_cost, row.currency or "")
    if row.package is not None and row.package.may_be_cheaper:
        return speaker.catalogue.gettext("%(cost)s, may be cheaper", cost=cost)
    return cost


def _per_corpus(row: BalanceRow, speaker: Speaker, places: int) -> str:
    """Committed cost over accepted corpora; without one undefined, and of an inadmissible configuration a dash.

    What misses a condition could not be rented for its corpora, whatever it costs: its cost does not count (M24, M42).
    """
    if row.deliverables_accepted and not row.admissible:
        return NOTHING
    if row.cost_per_validated_corpus is not None:
        rounded = speaker.fmt.decimal(row.cost_per_validated_corpus, places)
        return f"{rounded}\u00a0{row.currency or ''}".rstrip()
    if row.own_machine:
        return speaker.catalogue.gettext("not applicable")
    return speaker.catalogue.gettext("undefined") if not row.deliverables_accepted else NOTHING
