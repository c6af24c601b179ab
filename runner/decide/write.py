"""The files of a decision: made as bytes by pure functions, then written atomically."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from runner.decide.balance import build_balance
from runner.decide.choice import decide
from runner.decide.model import Balance, Decision
from runner.decide.read import Evidence, read_evidence
from runner.decide.tables import (
    ATTEMPT_COLUMNS,
    BALANCE_COLUMNS,
    PEOPLE_COLUMNS,
    attempt_rows,
    balance_rows,
    csv_bytes,
    rows_for_people,
    spreadsheet_bytes,
)
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.judge.again import refuse_other_verdicts
from runner.pricing.calendar import plan_calendar

PLAN_CALENDAR = "plan.ics"
OTHER_LOCK = "left-out.other-lock"
_ENGLISH = "en"
_LANGUAGE = re.compile(rb'^lang: *"?([a-z]{2,3})"? *$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DecisionFiles:
    """Balance, decision and the bytes of their files by name (below `note/`)."""

    balance: Balance
    decision: Decision
    files: dict[str, bytes]


def write_decision(
    campaign: Campaign, *, leave_out_other_locks: bool = False, language: str | None = None, verified: bool = False
) -> DecisionFiles:
    """Decide a campaign and write `note/{balance,decision}.json` and the tables; the decision last.

    NotAccepted: verdicts that do not follow from the records. `verified`: the caller has just seen that they do.
    """
    made = render_decision(campaign, leave_out_other_locks=leave_out_other_locks, language=language)
    if not verified:
        refuse_other_verdicts(campaign)
    for name, data in made.files.items():
        write_atomic(campaign.note / name, data)
    return made


def render_decision(
    campaign: Campaign, *, leave_out_other_locks: bool = False, language: str | None = None
) -> DecisionFiles:
    """The same without writing: same evidence, same bytes.

    The table for people is in `language`; without one in that of the note that is there, else in English.
    """
    evidence = read_evidence(campaign, leave_out_other_locks=leave_out_other_locks)
    return decide_evidence(evidence, language or _language_of_note(campaign))


def decide_evidence(evidence: Evidence, language: str = _ENGLISH) -> DecisionFiles:
    """Balance, decision and tables of evidence that is already read."""
    balance = build_balance(
        evidence.protocol, evidence.lock, evidence.plan, evidence.catalogue, evidence.attempts, evidence.verdicts,
        evidence.manifests, exclusions=evidence.exclusions, left_out=evidence.left_out, warnings=evidence.warnings,
    )  # fmt: skip
    decision = decide(balance, evidence.protocol)
    verdicts = {verdict.attempt_id: verdict for verdict in evidence.verdicts}
    attempts = attempt_rows(
        evidence.attempts, verdicts, evidence.exclusions, evidence.protocol.measurement.passes_planned
    )
    files = {
        "attempts.csv": csv_bytes(attempts, ATTEMPT_COLUMNS),
        "attempts-spreadsheet.csv": spreadsheet_bytes(rows_for_people(attempts), PEOPLE_COLUMNS, language),
        "balance.csv": csv_bytes(balance_rows(balance), BALANCE_COLUMNS),
        "balance.json": balance.dump(),
        "decision.json": decision.dump(),
        PLAN_CALENDAR: plan_calendar(evidence.plan, [variant.id for variant in evidence.lock.variants]),
    }
    return DecisionFiles(balance, decision, files)


def _language_of_note(campaign: Campaign) -> str:
    """The language that the text of the note beside the decision says; English where there is no note."""
    text = campaign.note / "decision-note.qmd"
    found = _LANGUAGE.search(text.read_bytes()) if text.is_file() else None
    return _ENGLISH if found is None else found[1].decode("ascii")


def other_locks_were_left_out(decision_file: Path) -> bool:
    """Whether a written decision left out attempts of other locks: a recomputation must do the same."""
    return any(item.reason.code == OTHER_LOCK for item in Decision.load(decision_file).left_out)
