"""From what a worker left behind to the final row: one function per way an attempt can end (M22, M23)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.errors import InputRefused
from runner.evidence.attempt import (
    Attempt,
    ErrorInfo,
    FileReference,
    MemoryPeak,
    Phase,
    PhaseName,
    Settings,
    Status,
    TokenCounts,
)
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import pretty_json, sha256_bytes, sha256_file
from runner.evidence.files import write_atomic
from runner.measure.journal import JournalState, count_results, read_journal, read_results
from runner.measure.memory import BEFORE
from runner.measure.predictions import write_predictions
from runner.measure.supervisor import NOT_TOLD, ChildEnd
from runner.protocol.labels import LabelTable, NonFiniteLogits, decode

_STATUS_OF_STOP = "the attempt was stopped by "
_WHOLE_LIFE = "its whole life (loading included)"
_FROM_THE_PASS_ON = "from the pass on (its mark was set back before it)"
_PAID_ONCE = (PhaseName.PROCESS_START, PhaseName.IMPORTS)
_PARTS = (PhaseName.READ, PhaseName.TOKENISE, PhaseName.TRANSFER, PhaseName.INFERENCE, PhaseName.MATERIALISE)


class WorkFiles:
    """Files of one attempt. Hidden ones exist only while its worker runs; the rest is evidence."""

    def __init__(self, campaign: Campaign, attempt_id: str) -> None:
        self.campaign = campaign
        self.journal = campaign.journals / f"{attempt_id}.jsonl"
        self.hidden_journal = campaign.journals / f".{attempt_id}.jsonl"
        self.results = campaign.journals / f".{attempt_id}.results"
        self.result = campaign.journals / f".{attempt_id}.result"
        self.predictions = campaign.predictions / f"{attempt_id}.parquet"
        self.timeline = campaign.memory / f"{attempt_id}.json"

    def remove_temporary(self) -> None:
        suffixes = (".job", ".stderr", ".csv")
        ranks = self.results.parent.glob(f"{self.results.name}.[0-9]*")
        others = self.result.parent.glob(f"{self.result.name}.[0-9]*")
        own = (self.hidden_journal, self.results, self.result, *map(self.result.with_suffix, suffixes))
        for path in (*ranks, *others, *own):
            if path.suffix != ".compiled":
                path.unlink(missing_ok=True)
        for folder in self.result.parent.glob(f"{self.result.name}*.compiled"):
            shutil.rmtree(folder, ignore_errors=True)


def final_row(attempt: Attempt, end: ChildEnd, files: WorkFiles, ids: tuple[str, ...], table: LabelTable) -> Attempt:
    """The row that replaces `started`. Fields of the manifest, clock and telemetry are added by the caller."""
    status, error = verdict_on_end(end)
    result = end.result or {}
    completed = result.get("completed") if end.result else None
    if completed is None:
        completed = count_results(files.results)
    if status is Status.COMPLETED and completed != attempt.expected_documents:
        status = Status.FAILED
        error = ErrorInfo(kind="incomplete", message=f"{completed} of {attempt.expected_documents} documents")
    reason = None if status is Status.COMPLETED else f"the pass was not completed: {status.value}"
    facts = result.get("facts", {})
    row: dict[str, Any] = {
        "status": status,
        "error": error,
        "completed_documents": completed,
        "pass_seconds": result.get("pass_seconds") if status is Status.COMPLETED else None,
        "pass_seconds_reason": reason,
        "phases": _phases(result, status, attempt),
        "tokens": TokenCounts(**result["tokens"]) if "tokens" in result else None,
        "tokens_reason": None if "tokens" in result else reason or "not counted by this engine",
        "recompilations": result.get("recompilations"),
        "recompilations_reason": result.get("recompilations_reason") if "recompilations" in result else reason,
        "notes": (*result.get("notes", ()), *_stderr_note(end, status), *filter(None, (end.note, end.stuck, end.left))),
        "journal": _reference(files, files.journal),
    }
    row |= _effective(facts, status)
    row |= _memory(facts, end, files, status, attempt)
    if attempt.process is not None:
        row["process"] = attempt.process.model_copy(update={"resident_at_start_bytes": facts.get("resident_at_start")})
    row |= _predictions(result, status, files, ids, table)
    return attempt.model_copy(update=row)


def unavailable(problem: str | None, found: Sequence[str]) -> dict[str, object]:
    """No device, no numbers: both names stand in the row (M11)."""
    reason = "nothing was measured: the declared device is not here"
    named = ", ".join(found) or "no card"
    fields = ("pass_seconds", "tokens", "memory", "effective", "recompilations", "device_shared")
    return {
        "status": Status.UNAVAILABLE,
        "error": ErrorInfo(kind="unavailable", message=problem or "", evidence=f"found: {named}"),
        **{f"{name}_reason": reason for name in fields},
    }


def lost_row(attempt: Attempt, files: WorkFiles, ids: tuple[str, ...], table: LabelTable | None) -> Attempt:
    """An attempt whose parent was lost: what the journal tells, and `lost` (RE-01)."""
    notes: list[str] = []
    try:
        journal = read_journal(files.journal)
    except InputRefused as error:  # a power cut may leave zeros where lines should be
        journal = JournalState((), 0)
        notes.append(f"the journal cannot be read from line {error.line} on")
    if journal.torn_bytes:
        notes.append(f"{journal.torn_bytes} torn bytes at the end of the journal")
    positions, _ = read_results(files.results)
    completed = min(max(len(positions), journal.completed or 0), attempt.expected_documents)
    reason = "lost: the worker had ended, its row was not written" if journal.ended else "lost: no end event"
    row: dict[str, Any] = {
        "status": Status.LOST,
        "error": ErrorInfo(
            kind="lost",
            message=f"{reason}; the measuring process ended without a word, cause unknown",
            evidence=f"last event of the journal: {journal.last_event or 'none'}",
        ),
        "completed_documents": completed,
        "pass_seconds": None,  # whatever the started row says: a lost pass has no duration
        "journal": _reference(files, files.journal),
        "notes": tuple(notes),
    }
    row |= dict.fromkeys(
        ("pass_seconds_reason", "tokens_reason", "memory_reason", "effective_reason", "recompilations_reason"), reason
    )
    if table is not None:
        row |= _predictions({}, Status.LOST, files, ids, table)
    return attempt.model_copy(update=row)


def verdict_on_end(end: ChildEnd) -> tuple[Status, ErrorInfo | None]:
    """Status of an attempt from the end of its worker; out of memory only with evidence (RE-01)."""
    if end.stopped_by is not None:
        message = _STATUS_OF_STOP + end.stopped_by
        return Status.INTERRUPTED, ErrorInfo(kind="interrupted", message=message, evidence=end.stuck or end.left)
    if end.timed_out:
        message = f"no end within the time allowed, ended after {end.elapsed_seconds:.0f} s"
        return Status.TIMED_OUT, ErrorInfo(kind="timeout", message=message, evidence=end.stuck or end.left)
    if end.lost is not None:
        return Status.FAILED, ErrorInfo(kind="node", message=end.lost, evidence=end.stuck or end.left)
    if end.stuck is not None and not end.reported:
        return Status.FAILED, ErrorInfo(kind="stuck", message="the worker could not be ended", evidence=end.stuck)
    if end.result is not None and (end.reported or end.exit_code == 0):
        error = end.result.get("error")
        return Status(end.result["status"]), None if error is None else ErrorInfo(**error)
    if end.signal_name == "SIGKILL":
        if end.oom_evidence:
            return Status.OUT_OF_MEMORY, ErrorInfo(
                kind="out of memory", message="killed by the kernel (signal 9)", evidence=end.oom_evidence
            )
        return Status.KILLED, ErrorInfo(
            kind="killed", message="killed, cause unknown", evidence="the worker ended by signal 9 (SIGKILL)"
        )
    if end.signal_name is not None:
        status = Status.KILLED if end.signal_name in ("SIGTERM", "SIGINT", "SIGHUP") else Status.FAILED
        return status, ErrorInfo(
            kind="killed" if status is Status.KILLED else "crash",
            message=f"the worker ended by {end.signal_name}",
            evidence=f"signal {end.signal_number}",
        )
    return Status.FAILED, ErrorInfo(
        kind="crash", message="the worker ended without a result", evidence=f"exit status {end.exit_code}"
    )


def _stderr_note(end: ChildEnd, status: Status) -> tuple[str, ...]:
    """The last line that a failed worker printed: often the only trace of its cause."""
    if status is Status.COMPLETED or not end.stderr_tail:
        return ()
    return (f"last line of the worker: {end.stderr_tail.splitlines()[-1][:300]}",)


def download_phase(seconds: float | None) -> Phase:
    """Fetching the model before the first attempt of a call; the others find it here (M17)."""
    reason = None if seconds is not None else "the model was already here"
    return Phase(name=PhaseName.DOWNLOAD, seconds=seconds, reason=reason)


def _phases(result: Mapping[str, Any], status: Status, attempt: Attempt) -> tuple[Phase, ...]:
    """Phases that the worker timed, in their order; a completed attempt says so if none was for compiling.

    Start and imports of a process that serves several attempts stand in the row of its first, never as 0 elsewhere.
    """
    found = result.get("phases", {})
    process = attempt.process
    paid = process is not None and process.served_before > 0
    reason = f"in the process of attempt {process.first_attempt}" if process is not None else None
    phases = [Phase(name=name, seconds=None, reason=reason) for name in _PAID_ONCE if paid]
    phases += [Phase(name=PhaseName(name), seconds=seconds) for name, seconds in found.items()]
    ours = paid or "imports" in found  # an engine of our own
    if status is Status.COMPLETED and ours and "compile" not in found:
        phases.append(Phase(name=PhaseName.COMPILE, seconds=None, reason="nothing is compiled"))
    parts = result.get("part_seconds", {})
    for part in _PARTS if status is Status.COMPLETED else ():
        seconds = parts.get(part.value)
        reason = None if seconds is not None else "not told apart by this engine"
        overlapping = part.value in result.get("overlapping_parts", ())
        phases.append(Phase(name=part, seconds=seconds, inside_pass=True, overlapping=overlapping, reason=reason))
    return tuple(phases)


def _effective(facts: Mapping[str, Any], status: Status) -> dict[str, Any]:
    if "effective" not in facts:
        return {"effective": None, "effective_reason": f"the engine was not loaded: {status.value}"}
    return {"effective": Settings(**facts["effective"]), "effective_reason": None}


def _memory(
    facts: Mapping[str, Any], end: ChildEnd, files: WorkFiles, status: Status, attempt: Attempt
) -> dict[str, Any]:
    peaks = [MemoryPeak(**peak) for peak in facts.get("memory", ())]
    timeline = None
    if "timeline" in facts:
        data = pretty_json(facts["timeline"])
        write_atomic(files.timeline, data)
        timeline = FileReference(path=files.campaign.relative(files.timeline), sha256=sha256_bytes(data))
    reason = None if peaks else f"the pass did not begin or did not end: {status.value}"
    whole_life = _whole_life(
        peaks, end, several=facts.get("processes", 1) > 1 or _starts_others(attempt), attempt=attempt
    )
    if not peaks and _pass_began(files):  # it set the mark back and told nobody what it had been
        whole_life = whole_life.model_copy(update={"scope": whole_life.scope.replace(_WHOLE_LIFE, _FROM_THE_PASS_ON)})
    return {"memory": (*peaks, whole_life), "memory_reason": reason, "memory_timeline": timeline}


def _pass_began(files: WorkFiles) -> bool:
    try:
        events = read_journal(files.journal).events
    except InputRefused:
        return True
    return any(event.get("phase") == PhaseName.PASS.value for event in events)


def _starts_others(attempt: Attempt) -> bool:
    """The program of engine `command`, processes that compile: the kernel counts the largest of those that ended."""
    return attempt.requested.engine == "command" or attempt.requested.compile not in (None, "none")


def _whole_life(peaks: Sequence[MemoryPeak], end: ChildEnd, *, several: bool, attempt: Attempt) -> MemoryPeak:
    """The largest resident memory of the process, or of one of its children, at any time.

    Setting the high-water mark back before the pass sets `ru_maxrss` back too, so the mark before the
    pass counts as well.
    """
    whose = "the largest of the attempt's processes" if several else "this worker process only"
    before = [peak.bytes for peak in peaks if peak.counter.endswith(f"VmHWM {BEFORE}") and peak.bytes is not None]
    process = attempt.process
    served = 0 if process is None else process.served_before
    return MemoryPeak(
        device="cpu",
        counter="ru_maxrss",
        scope=f"resident memory, {whose}, {_WHOLE_LIFE}",
        bytes=max([end.peak_rss_bytes, *before]) if not served and end.peak_rss_bytes is not None else None,
        at_seconds=None,
        reason=_why_no_whole_life(end, served),
    )


def _why_no_whole_life(end: ChildEnd, served: int) -> str:
    if served:
        return f"it holds that of earlier attempts too: {served}"
    return "the counter has no time" if end.peak_rss_bytes is not None else end.peak_reason or NOT_TOLD


def _predictions(
    result: Mapping[str, Any], status: Status, files: WorkFiles, ids: tuple[str, ...], table: LabelTable
) -> dict[str, Any]:
    """Whole predictions of a completed pass, or the finished ones of another as partial."""
    if "predictions" in result:
        reference = FileReference(path=files.campaign.relative(files.predictions), **result["predictions"])
        return {"predictions": reference, "predictions_partial": status is not Status.COMPLETED}
    files.predictions.unlink(missing_ok=True)
    positions, outputs = read_results(files.results)
    if not positions:
        return {"predictions": None, "predictions_partial": False}
    order = sorted((at for at in range(len(positions)) if positions[at] < len(ids)), key=positions.__getitem__)
    if not order:
        return {"predictions": None, "predictions_partial": False}
    try:
        decoded = decode(outputs[order], table)
    except NonFiniteLogits as error:
        # No label is exported for such a document (MO-10).
        order = [at for row, at in enumerate(order) if row not in set(error.rows)]
        decoded = decode(outputs[order], table)
    found = [ids[positions[at]] for at in order]
    bytes_sha, rows_sha = write_predictions(files.predictions, found, decoded)
    reference = FileReference(
        path=files.campaign.relative(files.predictions), sha256=bytes_sha, rows=len(found), records_sha256=rows_sha
    )
    return {"predictions": reference, "predictions_partial": True}


def _reference(files: WorkFiles, path: Path) -> FileReference | None:
    if not path.exists():
        return None
    return FileReference(path=files.campaign.relative(path), sha256=sha256_file(path))
