"""Recomputation: raw records -> verdicts -> balance and decision -> text of the note, compared byte by byte."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runner.decide.write import other_locks_were_left_out, render_decision
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import THIS_CODE, read_signer
from runner.evidence.store import AttemptStore
from runner.flows.verification import Step
from runner.judge.verdict import References, judge_attempt
from runner.note.build import note_markdown
from runner.protocol.freeze import load_lock

_LANGUAGE = re.compile(rb"^lang: *\"?([a-z]{2})\"? *$", re.MULTILINE)


def recompute_verdicts(campaign: Campaign) -> Step:
    """Judge every attempt again from its row and its predictions."""
    lock = load_lock(campaign)
    references = References(campaign, lock)
    attempts = AttemptStore(campaign).scan().attempts
    wanted = {attempt.attempt_id: judge_attempt(campaign, lock, attempt, references=references) for attempt in attempts}
    findings = _differences(
        {f"verdicts/{name}.json": verdict.dump() for name, verdict in wanted.items()},
        {f"verdicts/{path.name}": path.read_bytes() for path in sorted(campaign.verdicts.glob("*.json"))},
    )
    if findings:
        return Step("verdicts", "failed", "judged again from the raw records, they differ", findings)
    accepted = sum(verdict.accepted for verdict in wanted.values())
    finding = f"{len(wanted)} attempts judged again from the raw records, {accepted} accepted, as the note says"
    return Step("verdicts", "passed", finding)


def recompute_decision(campaign: Campaign) -> Step:
    """Decide again from records, verdicts, plan and tariffs."""
    left_out = other_locks_were_left_out(campaign.decision)
    made = render_decision(campaign, leave_out_other_locks=left_out).files
    there = {name: (campaign.note / name).read_bytes() for name in made if (campaign.note / name).is_file()}
    findings = _differences({f"note/{k}": v for k, v in made.items()}, {f"note/{k}": v for k, v in there.items()})
    if findings:
        return Step("decision", "failed", "decided again from the records, it differs", findings)
    return Step("decision", "passed", "balance and decision follow from the records, plan and tariffs")


def recompute_text(campaign: Campaign) -> Step:
    """Render the note's text again and compare it with `decision-note.qmd`."""
    data = (campaign.note / "decision-note.qmd").read_bytes()
    language = _LANGUAGE.search(data)
    if language is None:
        raise InputRefused("the note does not say its language", file="note/decision-note.qmd")
    signer = read_signer(campaign)
    key = None if signer is None else signer.as_key()
    if note_markdown(campaign, language.group(1).decode("ascii"), key=key).encode("utf-8") != data:
        if signer is not None and signer.made_by != THIS_CODE:
            reason = f"{THIS_CODE} words it otherwise than {signer.made_by}, which made it: check with that version"
            return Step("text of the note", "not checked", reason)
        return Step("text of the note", "failed", "note/decision-note.qmd is not what the evidence gives")
    return Step("text of the note", "passed", "note/decision-note.qmd follows from the evidence, byte by byte")


def _differences(wanted: Mapping[str, bytes], found: Mapping[str, bytes]) -> tuple[str, ...]:
    findings = [f"{name}: missing" for name in sorted(wanted.keys() - found.keys())]
    findings += [f"{name}: nothing gives this file" for name in sorted(found.keys() - wanted.keys())]
    both = sorted(wanted.keys() & found.keys())
    return (*findings, *(f"{name}: differs" for name in both if wanted[name] != found[name]))
