"""All attempts, those that were not accepted, and the stacks they ran on (M9, M12, M22, M23, M31)."""

from __future__ import annotations

from typing import Any

from runner.evidence.attempt import Attempt, Status
from runner.evidence.manifest import Manifest
from runner.measure.schedule import schedule
from runner.note.evidence import Evidence
from runner.note.parts.tables import capped, configuration_of
from runner.note.words import NOTHING, Speaker

_MOST_TEXTS = 12
_NOT_FAILURES = frozenset({Status.UNAVAILABLE, Status.UNSUPPORTED, Status.INTERRUPTED})


def failures(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """Every attempt under this lock that gave no accepted pass, with what happened."""
    missed = [attempt for attempt in evidence.counted_attempts if not _accepted(evidence, attempt)]
    shown, count = capped(missed)
    return {
        "rows": [_failure(attempt, evidence, speaker) for attempt in shown],
        "count": count,
        "shown": len(shown),
        "left_out": [
            {"id": item.attempt_id, "reason": speaker.sentence(item.reason)} for item in evidence.balance.left_out
        ],
    }


def attempts(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """The first attempts in schedule order, the whole table is attached; before any: the blank sheet (M48)."""
    shown, count = capped(evidence.counted_attempts)
    return {
        "rows": [_attempt(attempt, evidence, speaker) for attempt in shown],
        "count": count,
        "shown": len(shown),
        "planned": [] if count else _planned(evidence, speaker),
    }


def _planned(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    lock, rule = evidence.lock, evidence.protocol.measurement
    documents = {corpus.id: corpus.documents for corpus in lock.judgement.corpora}
    planned, _ = capped(list(schedule(lock.variants, list(documents), rule.seeds, rule.passes_planned)))
    return [
        {
            "slot": f"{item.slot.pass_index + 1}.{item.slot.position + 1}",
            "variant": item.variant.id,
            "corpus": item.corpus_id,
            "documents": speaker.fmt.integer(documents[item.corpus_id]),
        }
        for item in planned
    ]


def _accepted(evidence: Evidence, attempt: Attempt) -> bool:
    verdict = evidence.verdicts.get(attempt.attempt_id)
    return verdict is not None and verdict.accepted and attempt.attempt_id not in evidence.left_out


def _done(attempt: Attempt, speaker: Speaker) -> str:
    done = NOTHING if attempt.completed_documents is None else speaker.fmt.integer(attempt.completed_documents)
    return f"{done} / {speaker.fmt.integer(attempt.expected_documents)}"


def _failure(attempt: Attempt, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    t = speaker.catalogue
    verdict = evidence.verdicts.get(attempt.attempt_id)
    parts = []
    if attempt.error is not None:
        parts.append(f"{attempt.error.kind}: {attempt.error.message}")
    if attempt.status is Status.COMPLETED and verdict is not None:
        parts += verdict.reasons
    parts += attempt.notes
    if attempt.attempt_id in evidence.left_out:
        counts = t.gettext("excluded")
    else:
        counts = t.gettext("not counted") if attempt.status in _NOT_FAILURES else t.gettext("failure")
    return {
        "id": attempt.attempt_id,
        "name": configuration_of(evidence, attempt),
        "status": speaker.status(attempt.status),
        "documents": _done(attempt, speaker),
        "why": _joined(parts, speaker),
        "counts": counts,
    }


def _joined(parts: list[str], speaker: Speaker) -> str:
    """Texts of a record, each shortened by rule; how many more there are is said."""
    shown = [speaker.long_text(part) for part in parts[:_MOST_TEXTS]]
    if len(parts) > _MOST_TEXTS:
        more = len(parts) - _MOST_TEXTS
        shown.append(speaker.catalogue.ngettext("%(count)s more in the record", "%(count)s more in the record", more))
    return "; ".join(shown) or NOTHING


def _attempt(attempt: Attempt, evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    fmt, t = speaker.fmt, speaker.catalogue
    verdict = evidence.verdicts.get(attempt.attempt_id)
    if verdict is None:
        kind, word = "none", NOTHING
    elif verdict.accepted:
        kind, word = "met", t.gettext("accepted")
    else:
        kind, word = "not-met", t.gettext("rejected")
    seconds = attempt.pass_seconds
    return {
        "id": attempt.attempt_id,
        "slot": f"{attempt.slot.pass_index + 1}.{attempt.slot.position + 1}",
        "name": configuration_of(evidence, attempt),
        "started": fmt.short_instant(attempt.started_at_utc),
        "status": speaker.status(attempt.status),
        "documents": _done(attempt, speaker),
        "seconds": NOTHING if seconds is None else fmt.decimal(repr(seconds), 3),
        "kind": kind,
        "word": word,
    }


# ---- stacks ------------------------------------------------------------------------------------------


def stacks(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """What was really there, per manifest that an attempt names; `not known` has its reason in the record."""
    used = {attempt.manifest_sha256 for attempt in evidence.counted_attempts}
    manifests = {name: evidence.manifests[name] for name in sorted(evidence.manifests) if name in used}
    names: dict[str, set[str]] = {}
    for attempt in evidence.counted_attempts:
        if attempt.manifest_sha256 is not None:
            names.setdefault(attempt.manifest_sha256, set()).add(configuration_of(evidence, attempt))
    return {
        "manifests": [
            {
                "sha": sha,
                "names": ", ".join(sorted(names.get(sha, ()))),
                "rows": _manifest_rows(manifest, speaker),
            }
            for sha, manifest in manifests.items()
        ],
        "different": [speaker.sentence(reason) for reason in evidence.decision.different_stacks],
    }


def _manifest_rows(manifest: Manifest, speaker: Speaker) -> list[dict[str, str]]:
    t = speaker.catalogue
    gpus = ", ".join(
        f"{gpu.name} ({speaker.fmt.bytes(gpu.memory_bytes)})" if gpu.memory_bytes else gpu.name for gpu in manifest.gpus
    )
    rows = [(t.gettext("Devices"), gpus or t.gettext("no GPU"))]
    for title, values in (
        (t.gettext("Driver"), manifest.driver),
        (t.gettext("Runtime"), manifest.runtime),
        (t.gettext("Host"), manifest.host),
        (t.gettext("Python"), manifest.python),
        (t.gettext("Code"), manifest.code),
        (t.gettext("Determinism"), manifest.determinism),
        (t.gettext("Main packages"), {k: v for k, v in manifest.packages.items() if k in _MAIN_PACKAGES}),
    ):
        rows.append((title, _pairs(values, speaker)))
    if manifest.rocm.verdict != "not applicable":
        rows.append((t.gettext("ROCm compatibility"), f"{manifest.rocm.verdict}: {manifest.rocm.detail}"))
    return [{"what": what, "value": speaker.long_text(value, 600)} for what, value in rows]


_MAIN_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "safetensors")


def _pairs(values: Any, speaker: Speaker) -> str:
    """`key value, key value`; bytes in units people read, yes and no for true and false."""
    t = speaker.catalogue
    words = {None: t.gettext("not known"), True: t.gettext("yes"), False: t.gettext("no")}
    parts = []
    for key, value in sorted(values.items()):
        if isinstance(value, bool) or value is None:
            parts.append(f"{key}: {words[value]}")
        elif key.endswith("_bytes") and isinstance(value, int):
            parts.append(f"{key.removesuffix('_bytes')}: {speaker.fmt.bytes(value)}")
        else:
            parts.append(f"{key}: {value}")
    return ", ".join(parts) or words[None]
