"""Judge every attempt of a campaign and keep the verdicts."""

from __future__ import annotations

import re
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.evidence.store import read_attempts
from runner.evidence.verdict import Verdict
from runner.judge.verdict import References, judge_attempt, judge_file
from runner.protocol.freeze import earlier_locks, load_lock

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def judge_campaign(campaign: Campaign) -> tuple[Verdict, ...]:
    """One verdict per row, in the order of the rows; `verdicts/` is written after all were made.

    Rows of an earlier revision keep the verdicts that they have.
    """
    lock = load_lock(campaign)
    settled = {earlier.lock_sha256 for earlier in earlier_locks(campaign)}
    attempts = [attempt for attempt in read_attempts(campaign) if attempt.lock_sha256 not in settled]
    references = References(campaign, lock)
    verdicts = tuple(judge_attempt(campaign, lock, attempt, references=references) for attempt in attempts)
    for verdict in verdicts:
        path = campaign.verdicts / f"{verdict.attempt_id}.json"
        data = verdict.dump()
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
    return verdicts


def judge_predictions(campaign: Campaign, path: Path, corpus_id: str | None = None) -> Verdict:
    """Judge a prediction file of any engine against a frozen corpus (default: the only one); writes nothing."""
    lock = load_lock(campaign)
    known = [corpus.id for corpus in lock.judgement.corpora]
    if corpus_id is None:
        if len(known) > 1:
            raise InputRefused(
                f"which corpus? There are {', '.join(known)}", next_step=f"add --corpus {known[0]} (for example)"
            )
        corpus_id = known[0]
    name = _NOT_IN_NAMES.sub("-", path.stem).strip("-.") or "predictions"
    return judge_file(path, lock, name, corpus_id, References(campaign, lock))


def read_verdicts(campaign: Campaign) -> tuple[Verdict, ...]:
    """The verdicts on disk, by attempt id; malformed ones are refused."""
    return tuple(Verdict.load(path) for path in sorted(campaign.verdicts.glob("*.json")))
