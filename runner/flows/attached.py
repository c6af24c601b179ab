"""Who vouches for a PDF alone: the list of its attachments, signed with an SSH key, which the PDF carries.

The list covers `note/signer.json`, which names the certificate of the PDF. So a signers file, which names SSH keys,
says who signed the evidence and whose certificate signed the pages.
"""

from __future__ import annotations

from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.checks import ATTACHED_LIST, ATTACHED_LIST_SIGNATURE, SIGNER_NAME, note_id, signature_command
from runner.evidence.signing import Purpose, SignatureCheck, check_signature
from runner.flows.verification import Step
from runner.seal.sums import ATTACHED_PURPOSE, SignedList, parse_list

NAME = "signed list"
_CERTIFICATE = "give --certificate with the one that you got from its maker, or check the folder or the archive"


def check_attached_list(campaign: Campaign, signers: Path | None) -> tuple[Step, str | None]:
    """The list fits signature, note and attachments (all in `campaign`, unpacked); and who signed it, if asked."""
    place, beside = campaign.root / ATTACHED_LIST, campaign.root / ATTACHED_LIST_SIGNATURE
    if not (place.is_file() and beside.is_file()):
        if signers is None:
            return Step(NAME, "not checked", "the PDF carries none: no SSH key vouches for it"), None
        finding = "the signers file cannot say who made this PDF: it carries no list signed with an SSH key"
        return Step(NAME, "failed", finding, (_CERTIFICATE,)), None
    data = place.read_bytes()
    try:
        listed = parse_list(data, file=ATTACHED_LIST, path=ATTACHED_LIST)
    except InputRefused as error:
        return Step(NAME, "failed", f"{error.file}: {error.what}", error.details), None
    command = signature_command(
        ATTACHED_LIST, Purpose.PDF, local_test=signers is None and listed.key.startswith("local")
    ).command
    found = check_signature(data, beside.read_bytes(), Purpose.PDF, signers)
    problem = _problem(listed, found, note_id(campaign))
    if problem is not None:
        return Step(NAME, "failed", f"{ATTACHED_LIST_SIGNATURE}: {problem}", command=command), None
    findings = _differences(campaign, listed)
    if findings:
        return Step(NAME, "failed", "the PDF carries other files than were signed", findings, command), None
    who = f"made by {found.signer}" if found.signer else "who signed was not checked"
    finding = (
        f"{len(listed.files)} attached files fit the list, the list fits its signature of {listed.key}, {who}; "
        "it covers note/signer.json, which names the PDF's certificate"
    )
    return Step(NAME, "passed", finding, command=command), found.signer


def _problem(listed: SignedList, found: SignatureCheck, identity: str) -> str | None:
    if not found.valid:
        return found.reason
    if listed.purpose != ATTACHED_PURPOSE:
        return f"the list was signed for another purpose: {listed.purpose}"
    if listed.note_id != identity:
        return f"the list is of the note {listed.note_id}, the decision of {identity}"
    if found.fingerprint is None or not listed.key.endswith(found.fingerprint):
        return f"the list says it was signed with {listed.key}, yet the signature is of {found.fingerprint}"
    if f"note/{SIGNER_NAME}" not in listed.files:
        return "the list does not cover note/signer.json, so it does not say whose certificate signed the PDF"
    return None


def _differences(campaign: Campaign, listed: SignedList) -> tuple[str, ...]:
    own = {ATTACHED_LIST, ATTACHED_LIST_SIGNATURE}
    there = {path.relative_to(campaign.root).as_posix(): path for path in campaign.root.rglob("*") if path.is_file()}
    missing = [f"{name}: missing" for name in sorted(listed.files.keys() - there.keys())]
    added = [f"{name}: not covered by the signature" for name in sorted(there.keys() - listed.files.keys() - own)]
    both = sorted(listed.files.keys() & there.keys())
    changed = [f"{name}: sha256 differs" for name in both if sha256_file(there[name]) != listed.files[name]]
    return (*missing, *added, *changed)
