"""`runner verify note.pdf`: what a PDF alone proves, from the evidence that is attached to it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from runner.errors import InputRefused, show_value
from runner.evidence.attempt import Status
from runner.evidence.campaign import Campaign
from runner.evidence.checks import note_id, read_signer
from runner.evidence.store import AttemptStore
from runner.flows import integrity, inventory, page_one, recompute
from runner.flows.attached import check_attached_list
from runner.flows.foreign import shell_word, unpack_command
from runner.flows.source import unpack
from runner.flows.verification import Step, Verification, attempt_step, with_causes
from runner.note.attachments import attached_files, evidence_paths
from runner.protocol.lockfile import read_lock
from runner.seal.names import name_findings
from runner.seal.pdf import check_pdf

_ALWAYS = ("note/decision.json", "note/balance.json", "note/balance.csv", "note/attempts.csv", "note/signer.json",
           "note/decision-note.qmd", "protocol/protocol.lock.json", "tariffs.csv")  # fmt: skip
_NO_PAGES = "templates and samples are not inside a PDF, so its pages cannot be made again: read them beside the text"


def verify_pdf(path: Path, certificate: Path | None = None, signers: Path | None = None) -> Verification:
    """Signature first; only what it covers is unpacked (into a temporary folder) and recomputed.

    With `signers` not accepted unless somebody named there signed the list of the attachments, which covers the
    name of the certificate that must have signed the PDF. With `certificate` it must be that one.
    """
    wanted = None if certificate is None else certificate_sha256(certificate)
    data = path.read_bytes()
    check = check_pdf(data)
    if not check.good:
        step = integrity.pdf_step(data, None, None, shown=path.name)
        rest = Step("everything else", "not checked", "what a PDF carries is read only when its signature is good")
        return Verification(str(path), "PDF alone", None, None, False, (step, rest))
    attached = attached_files(path)
    findings = (*name_findings(attached), *_foreign_places(attached))
    if findings:
        raise InputRefused(
            "the PDF carries file names that are refused",
            file=path,
            details=findings,
            next_step="do not trust this PDF; ask who made it for the archive or the folder, and verify that",
        )
    with tempfile.TemporaryDirectory(prefix="runner-verify-") as folder:
        campaign = Campaign(Path(folder))
        unpack(attached, campaign.root)
        steps, signer = _steps(campaign, path, data, wanted, signers)
        identity = note_id(campaign) if campaign.decision.is_file() and campaign.balance.is_file() else None
    # A signers file without a signer is a failed step: then nothing is accepted, whatever the certificate.
    trusted = (wanted is not None or signer is not None) and steps[0].status == "passed"
    key = "local test key" if check.local_test else f"certificate of '{check.subject}'"
    return Verification(str(path), "PDF alone", identity, key, trusted, steps)


def _foreign_places(names: Iterable[str]) -> tuple[str, ...]:
    """Evidence lies in known places; whatever else a PDF carries is no part of a note."""
    return tuple(
        f"{show_value(name)} is no file of a note's evidence"
        for name in names
        if name != "tariffs.csv" and not name.startswith(("protocol/", "records/", "verdicts/", "note/"))
    )


def certificate_sha256(path: Path) -> str:
    """Fingerprint of a certificate file (PEM or DER)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    try:
        data = path.read_bytes()
        loaded = x509.load_pem_x509_certificate(data) if b"-----BEGIN" in data else x509.load_der_x509_certificate(data)
    except (OSError, ValueError) as error:
        raise InputRefused(
            f"not a readable certificate: {error}",
            file=path,
            next_step="give --certificate a certificate as PEM or DER, such as openssl pkcs12 -nokeys -clcerts prints",
        ) from None
    return loaded.fingerprint(hashes.SHA256()).hex()


def _steps(
    campaign: Campaign, path: Path, data: bytes, wanted: str | None, signers: Path | None
) -> tuple[tuple[Step, ...], str | None]:
    labels, shown = _labels_missing(campaign), path.name
    read_page = f"pdftotext -layout -l 1 {shell_word(shown)} -"
    signer: str | None = None

    def listed() -> Step:
        nonlocal signer
        step, signer = check_attached_list(campaign, signers)
        return step

    def recomputed(name: str, check: Callable[[Campaign], Step]) -> Step:
        if labels is not None:
            return Step(name, "not checked", labels)
        return attempt_step(name, lambda: check(campaign), campaign.root)

    steps = with_causes(page_one.settled((
        attempt_step("PDF signature", lambda: _signature(campaign, data, shown, wanted), campaign.root),
        attempt_step("signed list", listed, campaign.root),
        attempt_step("frozen protocol", lambda: integrity.check_lock(campaign), campaign.root),
        attempt_step("attachments", lambda: _attachments(campaign, shown), campaign.root),
        attempt_step("chain of attempts", lambda: integrity.check_chain(campaign), campaign.root),
        attempt_step(
            "files of the attempts", lambda: inventory.check_measured_files(campaign, whole=False), campaign.root
        ),
        recomputed("verdicts", recompute.recompute_verdicts),
        recomputed("decision", recompute.recompute_decision),
        recomputed("text of the note", lambda campaign: _text(campaign, shown)),
        recomputed("page 1 of the PDF", lambda campaign: page_one.check_page_one(campaign, path, read_page)),
        Step("pages of the PDF", "not checked", _NO_PAGES, command=f"pdftotext -layout {shell_word(shown)} -"),
    )))  # fmt: skip
    return steps, signer


def _attachments(campaign: Campaign, shown: str) -> Step:
    """All that belongs into the PDF is inside: what nothing refers to could be left out unseen otherwise."""
    wanted, _ = evidence_paths(campaign, read_lock(campaign))
    attempts = {row.attempt.attempt_id for row in AttemptStore(campaign).scan().rows}
    missing = [name for name in _ALWAYS if name not in wanted]
    missing += [f"verdicts/{name}.json" for name in sorted(attempts) if f"verdicts/{name}.json" not in wanted]
    if missing:
        findings = tuple(f"{name}: not attached" for name in missing)
        return Step("attachments", "failed", "evidence that belongs into the PDF is missing", findings)
    # Everything in the folder was unpacked from the PDF, so that what is there and unwanted came with it.
    there = {path.relative_to(campaign.root).as_posix() for path in campaign.root.rglob("*") if path.is_file()}
    extra = tuple(f"{name}: no part of the evidence" for name in sorted(there - wanted.keys()))
    if extra:
        return Step("attachments", "failed", "the PDF carries more than its evidence", extra)
    return Step("attachments", "passed", f"{len(there)} files of evidence, nothing else", command=unpack_command(shown))


def _text(campaign: Campaign, shown: str) -> Step:
    """Templates and memory samples are not in the PDF: without them, another text proves nothing."""
    step = attempt_step("text of the note", lambda: recompute.recompute_text(campaign), campaign.root)
    if step.status == "passed":
        return replace(step, command=f"pdftotext -layout {shell_word(shown)} -")
    reason = "needs the templates and samples that only folder and archive hold"
    return Step(step.name, "not checked", reason)


def _signature(campaign: Campaign, data: bytes, shown: str, wanted: str | None) -> Step:
    """The signature names the note that its attachments make up, and the expected certificate."""
    signer = read_signer(campaign)
    named = None if signer is None else signer.pdf_certificate_sha256
    step = integrity.pdf_step(data, note_id(campaign), wanted or named, shown=shown)
    if step.status == "passed" and wanted is not None and named not in (None, wanted):
        return replace(step, status="failed", finding=f"{shown}: note/signer.json in it names another certificate")
    return step


def _labels_missing(campaign: Campaign) -> str | None:
    """Why nothing can be judged again, if labels or predictions were too large to be attached."""
    attempts = AttemptStore(campaign).scan().attempts
    lost = [
        attempt.attempt_id
        for attempt in attempts
        if attempt.predictions is not None
        and attempt.status is Status.COMPLETED
        and not campaign.inside(attempt.predictions.path).is_file()
    ]
    if lost:
        return f"predictions and labels are too large for the PDF ({len(lost)} files): ask for the archive"
    return None
