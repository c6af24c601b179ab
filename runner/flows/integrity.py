"""Checks of bytes: signed list, files, lock, chain of attempts, PDF. Nothing is recomputed here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from runner.errors import InputRefused, RunnerError
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_bytes, sha256_file
from runner.evidence.checks import (
    SIGNED_LIST,
    SIGNED_LIST_SIGNATURE,
    THIS_CODE,
    note_id,
    read_signer,
    signature_command,
)
from runner.evidence.signing import Purpose, SignatureCheck, check_signature
from runner.evidence.store import AttemptStore
from runner.flows import foreign
from runner.flows.inventory import hidden_files
from runner.flows.standing import other_code
from runner.flows.verification import Step
from runner.note.attachments import attached_files, evidence_paths
from runner.protocol.judgement import read_final
from runner.protocol.lockfile import earlier_locks, read_lock
from runner.protocol.schema import Lock
from runner.seal.pdf import active_content, check_pdf
from runner.seal.scope import frozen_model_files
from runner.seal.sums import PURPOSE, SignedList, evidence_files, holds_texts, parse_list

PDF = "note/decision-note.pdf"


@dataclass(frozen=True)
class ListCheck:
    """The signed list, if it could be read, and who signed it, if that was asked and answered."""

    step: Step
    signed: SignedList | None
    signer: str | None


def check_list(campaign: Campaign, signers: Path | None) -> ListCheck:
    """Form, purpose and signature of `note/SHA256SUMS`."""
    name = "signed list"
    try:
        data = _read(campaign, SIGNED_LIST)
        signature = _read(campaign, SIGNED_LIST_SIGNATURE)
        signed = parse_list(data, file=SIGNED_LIST)
    except InputRefused as error:
        return ListCheck(Step(name, "failed", f"{error.file}: {error.what}", error.details), None, None)
    found = check_signature(data, signature, Purpose.NOTE, signers)
    command = signature_command(SIGNED_LIST, Purpose.NOTE, local_test=signed.key.startswith("local")).command
    problem = _list_problem(signed, found)
    if problem is not None:
        return ListCheck(Step(name, "failed", f"{SIGNED_LIST_SIGNATURE}: {problem}", command=command), signed, None)
    finding = f"{len(signed.files)} files listed; the list fits its signature, {_who(found)}"
    return ListCheck(Step(name, "passed", finding, command=command), signed, found.signer)


def _list_problem(signed: SignedList, found: SignatureCheck) -> str | None:
    if not found.valid:
        return found.reason
    if signed.purpose != PURPOSE:
        return f"the list was signed for another purpose: {signed.purpose}"
    if found.fingerprint is None or not signed.key.endswith(found.fingerprint):
        return f"the list says it was signed with {signed.key}, yet the signature is of {found.fingerprint}"
    return None


def _who(found: SignatureCheck) -> str:
    return f"made by {found.signer}" if found.signer else "who signed was not checked"


def check_files(
    campaign: Campaign, signed: SignedList, left_out: frozenset[str] = frozenset(), *, line_ends: bool = False
) -> Step:
    """Every listed file is there and unchanged, and nothing else lies among the evidence (NO-14).

    `left_out`: files that a shareable archive does not hold on purpose. `line_ends`: a corpus whose
    line ends a version-control client changed passes, since its records are the signed ones (NO-09).
    """
    wrongly = _wrongly(campaign, signed, left_out)
    findings = [f"{name}: left out, yet not a file of texts that was signed" for name in wrongly]
    remarks = [f"{name}: not in this archive" for name in sorted(left_out)]
    for name in hidden_files(campaign):
        # A template can include a hidden file; nothing else of the evidence is ever read from one.
        if name.startswith("templates/"):
            findings.append(f"{name}: not covered by the signature")
        else:
            remarks.append(f"{name}: hidden, not covered by the signature, not read")
    paths = {relative: campaign.root / relative for relative in sorted(signed.files)}
    missing = [name for name, path in paths.items() if path.is_symlink() or not path.is_file()]
    changed = [name for name in paths if name not in missing and sha256_file(paths[name]) != signed.files[name]]
    same = _same_records(campaign, changed)
    findings += [f"{name}: missing" for name in missing if name not in left_out]
    for name in changed:
        if name in same and line_ends:
            remarks.append(f"{name}: same records, bytes differ (line ends)")
        else:
            reason = " (same records, bytes differ: line ends)" if name in same else ""
            findings.append(f"{name}: sha256 differs from the signed list{reason}")
    uncovered: list[str] = []
    try:
        there = {relative for relative, _ in evidence_files(campaign)}
        uncovered = sorted(there - set(signed.files))
        findings += [f"{relative}: not covered by the signature" for relative in uncovered]
    except RunnerError as error:
        findings += error.details or (error.what,)
    command = f"sha256sum -c {'--ignore-missing ' if left_out else ''}{SIGNED_LIST}"
    if findings:
        count = "1 does" if len(findings) == 1 else f"{len(findings)} do"
        at_fault = (*wrongly, *(name for name in missing if name not in left_out), *changed, *uncovered)
        return Step(
            "files", "failed", f"{count} not fit the signed list", tuple(findings), command, files=tuple(at_fault)
        )
    equal = len(signed.files) - len(changed) - len(missing)
    whole = f"all {equal}" if equal == len(signed.files) else f"{equal} of {len(signed.files)}"
    return Step("files", "passed", f"{whole} are byte for byte the ones that were signed", tuple(remarks), command)


def _same_records(campaign: Campaign, changed: Iterable[str]) -> frozenset[str]:
    """Of these files, the frozen corpora whose records are still the frozen ones, though their bytes are not."""
    names = {name for name in changed if name.startswith("protocol/")}
    try:
        lock = Lock.load(campaign.lock) if names else None
        corpora = [] if lock is None else lock.judgement.corpora
        touched = [(corpus, names & {file.path for file in corpus.final}) for corpus in corpora]
        files = {} if lock is None else {corpus.id: corpus for corpus in lock.protocol.corpus}
        return frozenset(
            name
            for corpus, found in touched
            if found and read_final(campaign, files[corpus.id]).records_sha256 == corpus.records_sha256
            for name in found
        )
    except (RunnerError, KeyError):
        return frozenset()


def _wrongly(campaign: Campaign, signed: SignedList, left_out: frozenset[str]) -> list[str]:
    """Files left out that are no texts, or were never signed; those of the model are in the lock, not in the list."""
    if not left_out:
        return []
    locks = (read_lock(campaign), *earlier_locks(campaign))
    rest = left_out - frozen_model_files(campaign)
    return sorted(name for name in rest if name not in signed.files or not holds_texts(locks, name))


def check_note_id(campaign: Campaign, signed: SignedList) -> Step:
    """The list, the decision and the key belong to one note."""
    signer, identity = read_signer(campaign), note_id(campaign)
    if signed.note_id != identity:
        finding = f"the list is of the note {signed.note_id}, the decision of {identity}"
        files = ("note/decision.json", "note/balance.json")
        return Step("note", "failed", finding, command=foreign.NOTE_NAME, files=files)
    if signer is None or signer.label != signed.key:
        finding = f"note/signer.json does not name the key of the list ({signed.key})"
        return Step("note", "failed", finding, command=foreign.NOTE_NAME)
    return Step("note", "passed", f"list, decision and key belong to {identity}", command=foreign.NOTE_NAME)


def check_lock(campaign: Campaign) -> Step:
    """The frozen protocol: its own signature and its form; what it froze is compared elsewhere."""
    data = _read(campaign, "protocol/protocol.lock.json")
    signature = _read(campaign, "protocol/protocol.lock.json.sig")
    found = check_signature(data, signature, Purpose.LOCK)
    command = signature_command("protocol/protocol.lock.json", Purpose.LOCK, local_test=True).command
    if not found.valid:
        return Step("frozen protocol", "failed", f"protocol.lock.json.sig: {found.reason}", command=command)
    lock, signer = read_lock(campaign), read_signer(campaign)
    same = signer is not None and signer.fingerprint == found.fingerprint
    key = "the key of the note" if same else f"another key than the note's, {found.fingerprint}"
    finding = f"says that it was frozen {lock.frozen_at_utc}, signed with {key}; {len(lock.variants)} variants"
    return Step("frozen protocol", "passed", finding, command=command)


def check_chain(campaign: Campaign) -> Step:
    """No row of an attempt was deleted, changed or reordered (M50)."""
    store = AttemptStore(campaign)
    rows, faults = store.scan(), store.faults()
    if faults:
        finding = "rows were deleted, changed or reordered"
        return Step("chain of attempts", "failed", finding, faults, command=foreign.CHAIN)
    machines = len({row.attempt.chain.machine_id for row in rows.rows})
    finding = f"{len(rows.rows)} rows of {machines} machine{'' if machines == 1 else 's'}, none missing"
    return Step("chain of attempts", "passed", finding, rows.warnings, command=foreign.CHAIN)


def check_note_pdf(campaign: Campaign, identity: str | None) -> Step:
    """The PDF's own signature: whole document, this note, the certificate that the note names."""
    signer = read_signer(campaign)
    return pdf_step(_read(campaign, PDF), identity, None if signer is None else signer.pdf_certificate_sha256)


def pdf_step(data: bytes, identity: str | None, certificate_sha256: str | None, *, shown: str = PDF) -> Step:
    """One finding on a PDF's signature; `identity` and certificate are compared when they are known."""
    command = f"pdfsig -nocert {foreign.shell_word(shown)}"
    check = check_pdf(data)
    findings = list(check.findings) or list(active_content(data))
    if check.good and identity is not None and check.reason != f"Decision note {identity}":
        findings.append(f"the signature is for another note: {check.reason}")
    if check.good and certificate_sha256 is not None and check.certificate_sha256 != certificate_sha256:
        findings.append("the certificate is not the expected one")
    if findings:
        return Step("PDF signature", "failed", f"{shown}: {findings[0]}", tuple(findings[1:]), command)
    finding = f"covers the entire file; certificate of '{check.subject}', sha256 {check.certificate_sha256}"
    return Step("PDF signature", "passed", finding, command=command)


def check_attachments(campaign: Campaign) -> Step:
    """The PDF carries the evidence that lies beside it: every file that belongs into it, and no other."""
    attached = attached_files(campaign.root / PDF)
    wanted, _ = evidence_paths(campaign, read_lock(campaign))
    findings, files = [], []
    for name in sorted(attached.keys() | wanted.keys()):
        path = wanted.get(name, campaign.root / name)
        if name not in attached:
            findings.append(f"{name}: not attached to the PDF")
        elif not path.is_file():
            findings.append(f"{name}: attached to the PDF, missing beside it")
        elif sha256_file(path) != sha256_bytes(attached[name]):
            findings.append(f"{name}: the attached file differs from the one beside the PDF")
            files.append(name)
        elif name not in wanted:
            findings.append(f"{name}: attached to the PDF, yet no part of its evidence")
    step = Step("attachments", "passed", f"the {len(attached)} files in the PDF equal those beside it",
                command=foreign.ATTACHMENTS)  # fmt: skip
    if not findings:
        return step
    if not files and other_code(campaign) is not None:
        made_by = other_code(campaign)
        reason = f"equal where they are there; made by {made_by}: this version ({THIS_CODE}) would attach others"
        return replace(step, finding=reason, details=tuple(findings))
    return replace(step, status="failed", finding="the PDF carries other evidence", details=tuple(findings),
                   files=tuple(files))  # fmt: skip


def _read(campaign: Campaign, relative: str) -> bytes:
    try:
        return (campaign.root / relative).read_bytes()
    except OSError as error:
        raise InputRefused(
            f"missing or unreadable ({error.strerror})",
            file=relative,
            next_step="copy the campaign again, whole; or runner report, if the evidence is yours and complete",
        ) from None
