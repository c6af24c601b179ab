"""Before something is signed: do the files in `verdicts/` still follow from the records and predictions (M2, M28)?

A verdict can be edited, and predictions can be replaced after `validate`: whoever signs a note vouches for neither
having happened. So everything is judged again by the judge's own function, as `verify` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.errors import NotAccepted, RunnerError
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import loads_strict
from runner.evidence.store import read_attempts
from runner.judge.campaign import PAIRED, Judged, judge_rows
from runner.protocol.freeze import earlier_locks, load_lock
from runner.protocol.schema import Lock

_SHOWN = 20
_NOT_FACTS = ("reasons", "warnings")


def judge_again(campaign: Campaign, lock: Lock, attempts: Iterable[Attempt]) -> Judged:
    """Every row under the freeze that it was measured under; writes nothing."""
    rows = tuple(attempts)
    earlier = {old.lock_sha256: old for old in earlier_locks(campaign)}
    judged = [judge_rows(campaign, lock, [row for row in rows if row.lock_sha256 not in earlier])]
    judged += [
        judge_rows(campaign, old, [row for row in rows if row.lock_sha256 == old.lock_sha256])
        for old in earlier.values()
    ]
    return Judged(
        tuple(verdict for part in judged for verdict in part.verdicts),
        tuple(pairs for part in judged for pairs in part.paired),
    )


def refuse_other_verdicts(campaign: Campaign) -> None:
    """NotAccepted if a file in `verdicts/` is not what the records give: which attempt, what it says, what follows.

    Rows of an earlier revision keep the words in which they were judged; what was found must be the same.
    """
    lock = load_lock(campaign)
    judged = judge_again(campaign, lock, read_attempts(campaign))
    wanted = judged.files()
    there = {path.name: path.read_bytes() for path in campaign.verdicts.glob("*.json")}
    there |= {f"{PAIRED}/{path.name}": path.read_bytes() for path in campaign.paired.glob("*.json")}
    if not campaign.paired.is_dir():  # judged before paired comparisons were made: nothing says what they were
        wanted = {name: data for name, data in wanted.items() if "/" not in name}
    current = {f"{verdict.attempt_id}.json" for verdict in judged.verdicts if verdict.lock_sha256 == lock.lock_sha256}
    current |= {f"{PAIRED}/{item.corpus_id}.json" for item in judged.paired if item.lock_sha256 == lock.lock_sha256}
    findings = {
        name: found
        for name in sorted(wanted.keys() | there.keys())
        if wanted.get(name) != there.get(name)
        and (found := _finding(name, wanted.get(name), there.get(name), words=name in current)) is not None
    }
    if not findings:
        return
    count = len(findings)
    more = (f"and {count - _SHOWN} more",) if count > _SHOWN else ()
    extra = [name for name in findings if name not in wanted]
    aside = f"move {', '.join(f'verdicts/{name}' for name in extra[:3])} away, then " if extra else ""
    raise NotAccepted(
        f"{count} verdict{'s' * (count != 1)} {'does' if count == 1 else 'do'} not follow from the records and "
        "predictions, so nothing is decided or signed with them",
        file=campaign.verdicts / next(iter(findings)),
        details=(*list(findings.values())[:_SHOWN], *more),
        next_step=f"{aside}runner validate judges again; then run the same command again",
    )


def _finding(name: str, wanted: bytes | None, there: bytes | None, *, words: bool) -> str | None:
    """What the file says and what follows from the records; None where only words of an earlier revision differ."""
    what = name.removesuffix(".json")
    if wanted is None:
        return f"{what}: no attempt gives this verdict"
    if there is None:
        return f"{what}: has no verdict" if words else None  # `validate` leaves rows of earlier revisions alone
    says, follows = _read(name, there), _read(name, wanted)
    if says is None:
        return f"{what}: cannot be read"
    facts = says.keys() | follows.keys() if follows is not None else set()
    differ = sorted(key for key in facts if says.get(key) != (follows or {}).get(key))
    if not words and all(key in _NOT_FACTS for key in differ):
        return None
    if name.startswith(f"{PAIRED}/"):
        return f"{what}: the comparison of configurations in pairs is another one"
    return f"{what}: its verdict says {_said(says)}; from the records follows: {_said(follows or {})}" + (
        f" (other: {', '.join(differ)})" if differ else " (written otherwise)"
    )


def _read(name: str, data: bytes) -> Mapping[str, Any] | None:
    try:
        found = loads_strict(data, file=f"verdicts/{name}")
    except RunnerError:
        return None
    return found if isinstance(found, dict) else None


def _said(verdict: Mapping[str, Any]) -> str:
    return "".join(_words(verdict))


def _words(verdict: Mapping[str, Any]) -> Iterator[str]:
    yield "accepted" if verdict.get("accepted") is True else "rejected"
    reasons = verdict.get("reasons")
    if isinstance(reasons, list) and reasons:
        yield f", {reasons[0]}"
