"""What the attempt's own row says, before any prediction is looked at (M3, M11, M16, M18, M23)."""

from __future__ import annotations

from datetime import timedelta

from runner.catalogue.devices import check_pattern
from runner.errors import InputRefused
from runner.evidence.attempt import Attempt, Status
from runner.evidence.verdict import Check
from runner.protocol.inputs import frozen_corpus_sha256, frozen_model_sha256
from runner.protocol.schema import Lock
from runner.protocol.variants import variant_of
from runner.units import parse_utc


def record_checks(attempt: Attempt, lock: Lock) -> tuple[Check, ...]:
    """Status, lock, inputs (where the row has them), coverage, settings, same work, recompilation, device."""
    return (
        _status(attempt),
        _lock(attempt, lock),
        *_inputs(attempt, lock),
        _coverage(attempt, lock),
        _settings(attempt, lock),
        _same_work(attempt, lock),
        _recompilation(attempt),
        _device(attempt),
        *_process(attempt, lock),
    )


def clock_warnings(attempt: Attempt, lock: Lock) -> tuple[str, ...]:
    """Wall clocks that cannot be right. Order is proved by the nonce, durations are monotonic (TI-03, TI-11)."""
    found = []
    behind = parse_utc(lock.frozen_at_utc) - parse_utc(attempt.started_at_utc)
    if behind > timedelta(0) and attempt.nonce == lock.nonce:
        found.append(
            f"clock of {attempt.chain.machine_id} is at least {_seconds(behind)} s behind {lock.frozen_on}: "
            "the attempt carries the nonce of the freeze, so it came after it"
        )
    moved = attempt.wall_clock_moved_seconds
    if moved is not None and abs(moved) >= 1:
        found.append(f"wall clock moved by {moved:+.0f} s during the pass; the duration is from the monotonic clock")
    return tuple(found)


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g}"


def _status(attempt: Attempt) -> Check:
    done = attempt.status is Status.COMPLETED
    if done and not attempt.pass_seconds:  # null or 0: nothing was measured, so nothing can be accepted (M22, M11)
        reason = "completed, yet without a duration of the pass"
        return _check("status", False, attempt.status.value, "completed", reason)
    reason = "completed" if done else f"status {attempt.status.value}"
    if not done and attempt.error is not None:
        reason += f": {attempt.error.kind}: {attempt.error.message}"
    return _check("status", done, attempt.status.value, "completed", reason)


def _lock(attempt: Attempt, lock: Lock) -> Check:
    """The lock's fingerprint could be computed before the freeze; the nonce could not."""
    problems = []
    if attempt.lock_sha256 != lock.lock_sha256:
        other = f"{attempt.lock_sha256[:12]}, revision {attempt.protocol_revision}"
        problems.append(f"measured under another lock ({other})")
    if attempt.nonce != lock.nonce:
        problems.append("does not carry the nonce of the freeze" + _before(attempt, lock))
    if attempt.corpus_id not in {corpus.id for corpus in lock.judgement.corpora}:
        problems.append(f"the corpus '{attempt.corpus_id}' is not frozen")
    if attempt.seed not in lock.protocol.measurement.seeds:
        problems.append(f"the seed {attempt.seed} is not frozen")
    reason = "; ".join(problems) or "lock and nonce are those of the freeze"
    return _check("lock", not problems, attempt.lock_sha256[:12], lock.lock_sha256[:12], reason)


def _before(attempt: Attempt, lock: Lock) -> str:
    behind = parse_utc(lock.frozen_at_utc) - parse_utc(attempt.started_at_utc)
    return f": run {attempt.attempt_id} starts {_seconds(behind)} s before the freeze" if behind > timedelta(0) else ""


def _inputs(attempt: Attempt, lock: Lock) -> tuple[Check, ...]:
    """Corpus and model as frozen before the attempt, and untouched until its end (M2, M3, M8, M29).

    No check for a row without them: of an attempt that had not begun, or made before rows had them.
    """
    found = attempt.inputs
    if found is None:
        return ()
    problems = list(found.changed)
    records = {corpus.id: corpus.records_sha256 for corpus in lock.judgement.corpora}.get(attempt.corpus_id)
    same_records = found.corpus_records_sha256 is not None and found.corpus_records_sha256 == records
    if found.corpus_sha256 != frozen_corpus_sha256(lock, attempt.corpus_id) and not same_records:
        problems.append(f"the corpus '{attempt.corpus_id}' that was read is not the frozen one")
    if found.model_sha256 != frozen_model_sha256(lock):
        problems.append("the model that was loaded is not the frozen one")
    reason = "; ".join(problems) or "corpus and model are the frozen ones, untouched during the attempt"
    return (_check("inputs", not problems, None, None, reason),)


def _coverage(attempt: Attempt, lock: Lock) -> Check:
    frozen = {corpus.id: corpus.documents for corpus in lock.judgement.corpora}
    expected = frozen.get(attempt.corpus_id, attempt.expected_documents)
    completed = attempt.completed_documents
    limit = str(expected)
    if attempt.expected_documents != expected:
        reason = f"the row expects {attempt.expected_documents} documents, the frozen corpus has {expected}"
        return _check("coverage", False, str(attempt.expected_documents), limit, reason)
    if completed is None:
        return Check(name="coverage", status="not assessable", found=None, limit=limit, reason="completed is unknown")
    return _check("coverage", completed == expected, str(completed), limit, f"completed {completed} of {expected}")


def _settings(attempt: Attempt, lock: Lock) -> Check:
    """Requested as frozen for this variant, and in effect as requested (MO-15)."""
    variant = variant_of(lock.variants, attempt.variant_id)
    if variant is None:
        return _check("settings", False, attempt.variant_id, None, f"the variant '{attempt.variant_id}' is not frozen")
    asked = variant.settings.differences(attempt.requested)
    if asked:
        return _check("settings", False, None, None, "not the frozen settings: " + "; ".join(asked))
    if attempt.effective is None:
        reason = attempt.effective_reason or "not read"
        return Check(
            name="settings",
            status="not assessable",
            found=None,
            limit=None,
            reason=f"effective settings are unknown: {reason}",
        )
    different = attempt.requested.differences(attempt.effective)
    reason = "configuration mismatch: " + "; ".join(different) if different else "in effect as requested"
    return _check("settings", not different, None, None, reason)


def _same_work(attempt: Attempt, lock: Lock) -> Check:
    """Texts cut elsewhere are other work (M29, MO-17)."""
    frozen, truncation = lock.judgement.max_length, lock.protocol.model.truncation
    if attempt.effective is None:
        return Check(
            name="same work",
            status="not assessable",
            found=None,
            limit=str(frozen),
            reason="effective settings are unknown",
        )
    used = attempt.effective
    same = used.max_length == frozen and used.truncation == truncation
    reason = (
        "cut at the frozen length"
        if same
        else (f"max_length {used.max_length} against {frozen}, truncation {used.truncation} against {truncation}")
    )
    return _check("same work", same, str(used.max_length), str(frozen), reason)


def _recompilation(attempt: Attempt) -> Check:
    count = attempt.recompilations
    if count is None:
        reason = attempt.recompilations_reason or "unknown"
        if attempt.requested.compile in (None, "none"):
            return _check("recompilation", True, None, "0", f"nothing is compiled ({reason})")
        return Check(name="recompilation", status="not assessable", found=None, limit="0", reason=reason)
    word = "compilation" if count == 1 else "compilations"
    shapes = [note for note in attempt.notes if "shape" in note]
    reason = "no compilation in the timed part"
    if count:
        reason = ", ".join([f"not clean: {count} {word} in the timed part", *shapes])
    return _check("recompilation", count == 0, str(count), "0", reason)


def _device(attempt: Attempt) -> Check:
    """Another process on a rented device spoils the pass; on a CPU sharing is normal, hence a warning.

    A completed pass on another device than the declared one is none of the declared one (M11).
    """
    if attempt.status is Status.COMPLETED and not _declared_device(attempt):
        found = ", ".join(attempt.devices_found) or "no card"
        return _check("device", False, found, attempt.gpu_declared, f"declared {attempt.gpu_declared}, found {found}")
    own_machine = attempt.gpu_declared == "cpu"
    shared = attempt.device_shared
    if shared is None:
        reason = f"whether others used the device is unknown: {attempt.device_shared_reason or 'not observed'}"
        return Check(name="device", status="warning", found=None, limit=None, reason=reason)
    if not shared:
        return _check("device", True, None, None, "not shared")
    reason = "other processes used the device during the pass"
    return Check(
        name="device", status="warning" if own_machine else "failed", found="shared", limit="not shared", reason=reason
    )


def _declared_device(attempt: Attempt) -> bool:
    """By what the row says decided it when it was measured: tariffs may have changed since. Old rows do not say."""
    match, found = attempt.device_match, attempt.devices_found
    if match is None:
        return True
    if match.pattern is None:
        fits = set(found) <= set(match.fitting)
    else:
        try:
            pattern = check_pattern(match.pattern)
        except InputRefused:  # measure writes none that is refused
            return False
        fits = all(pattern.fullmatch(name) for name in found)
    return match.code == "fits" and bool(found) and fits


def _process(attempt: Attempt, lock: Lock) -> tuple[Check, ...]:
    """A process by the frozen policy (M21). No check where both say that every attempt has its own."""
    used = "fresh" if attempt.process is None else attempt.process.policy
    frozen = lock.process_policy
    if used == frozen == "fresh" or attempt.status is Status.UNAVAILABLE:
        return ()
    reason = f"process policy as frozen: {used}" if used == frozen else f"process policy {used}, frozen is {frozen}"
    return (_check("process", used == frozen, used, frozen, reason),)


def _check(name: str, passed: bool, found: str | None, limit: str | None, reason: str) -> Check:
    return Check(name=name, status="passed" if passed else "failed", found=found, limit=limit, reason=reason)
