"""Judge every attempt of a campaign and keep the verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.evidence.store import read_attempts
from runner.evidence.verdict import PairedComparisons, Verdict
from runner.judge.paired import Answers, compare_pairs
from runner.judge.verdict import References, judge_file, judge_with_answers
from runner.protocol.freeze import earlier_locks, load_lock
from runner.protocol.schema import Lock

PAIRED = "paired"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Judged:
    """Verdicts in the order of the rows, and the paired comparisons of each corpus."""

    verdicts: tuple[Verdict, ...]
    paired: tuple[PairedComparisons, ...]

    def files(self) -> dict[str, bytes]:
        """Content by path below `verdicts/`."""
        found = {f"{verdict.attempt_id}.json": verdict.dump() for verdict in self.verdicts}
        return found | {f"{PAIRED}/{item.corpus_id}.json": item.dump() for item in self.paired}


def judge_rows(campaign: Campaign, lock: Lock, attempts: Iterable[Attempt]) -> Judged:
    """Judge rows and compare their configurations in pairs; writes nothing."""
    references = References(campaign, lock)
    verdicts, answers = [], []
    for attempt in attempts:
        verdict, right = judge_with_answers(campaign, lock, attempt, references=references)
        verdicts.append(verdict)
        if right is not None:
            answers.append(Answers(attempt, right))
    return Judged(tuple(verdicts), compare_pairs(answers, lock.lock_sha256))


def judge_campaign(campaign: Campaign) -> tuple[Verdict, ...]:
    """The verdicts of `judge_and_compare`, in the order of the rows."""
    return judge_and_compare(campaign).verdicts


def judge_and_compare(campaign: Campaign) -> Judged:
    """Verdict on every row and paired comparisons; `verdicts/` is written after all were made.

    Rows of an earlier revision keep the verdicts that they have.
    """
    lock = load_lock(campaign)
    settled = {earlier.lock_sha256 for earlier in earlier_locks(campaign)}
    judged = judge_rows(
        campaign, lock, (attempt for attempt in read_attempts(campaign) if attempt.lock_sha256 not in settled)
    )
    files = judged.files()
    for name, data in files.items():
        path = campaign.verdicts / name
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
    for path in sorted(campaign.paired.glob("*.json")):
        if f"{PAIRED}/{path.name}" not in files and PairedComparisons.load(path).lock_sha256 not in settled:
            path.unlink()  # what it compared is no longer accepted
    return judged


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


def read_paired(campaign: Campaign) -> tuple[PairedComparisons, ...]:
    """The paired comparisons on disk, by corpus id; none before `validate`."""
    return tuple(PairedComparisons.load(path) for path in sorted(campaign.paired.glob("*.json")))
