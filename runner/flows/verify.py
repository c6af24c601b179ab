"""`runner verify`: from a campaign folder, a note folder or an archive, with a report for a buyer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import SIGNED_LIST, SIGNED_LIST_SIGNATURE
from runner.evidence.signing import Purpose, check_signature, read_signers
from runner.flows import integrity, inventory, recompute
from runner.flows.archive import match_decision
from runner.flows.source import unpack
from runner.flows.verification import Step, Verification, attempt_step, with_causes
from runner.flows.verify_pdf import verify_pdf
from runner.pricing.rental import read_rental
from runner.seal.bag import LEFT_OUT, RENTAL, SIGNATURE, SIGNED, Bag, left_out_files, read_bag


def verify(
    path: Path,
    signers: Path | None = None,
    certificate: Path | None = None,
    *,
    line_ends: bool = False,
    rebuild: bool = False,
) -> Verification:
    """Check what lies at `path`. Refused (exit 2) only when there is nothing to check, or an unsafe archive.

    `signers`: an allowed_signers file; `certificate`: for a PDF alone, the certificate that may have signed it;
    `line_ends`: for a folder, a corpus may have other line ends than the signed one; `rebuild`: also make
    figures, HTML and PDF again and compare them.
    """
    if signers is not None:
        read_signers(signers)
    if path.is_dir():
        root = path if (path / "note").is_dir() or path.name != "note" else path.parent
        return verify_folder(Campaign(root), signers, subject=str(path), line_ends=line_ends, rebuild=rebuild)
    if not path.is_file():
        raise InputRefused("there is nothing to verify", file=path, next_step="make report, or name a folder or file")
    with path.open("rb") as stream:
        start = stream.read(5)
    if start == b"%PDF-":
        return verify_pdf(path, certificate)
    if path.suffix == ".zip" or start.startswith(b"PK"):
        return verify_archive(path, signers, rebuild=rebuild)
    raise InputRefused(
        "neither a campaign folder, nor an archive, nor a PDF",
        file=path,
        next_step="runner verify FOLDER, runner verify ARCHIVE.zip or runner verify NOTE.pdf",
    )


def verify_folder(
    campaign: Campaign, signers: Path | None, *, subject: str, line_ends: bool = False, rebuild: bool = False
) -> Verification:
    """All checks of a campaign folder."""
    if not campaign.note.is_dir():
        raise InputRefused("there is no note in this folder", file=campaign.note, next_step="make report")
    listed, steps = _folder_steps(campaign, signers, line_ends=line_ends, rebuild=rebuild)
    return Verification(
        subject,
        "folder",
        listed.signed.note_id if listed.signed else None,
        listed.signed.key if listed.signed else None,
        listed.signer is not None,
        steps,
    )


def verify_archive(path: Path, signers: Path | None, *, rebuild: bool = False) -> Verification:
    """The archive's own manifests and signature, then everything inside it, in a temporary folder."""
    bag = read_bag(path)
    with tempfile.TemporaryDirectory(prefix="runner-verify-") as folder:
        campaign = Campaign(Path(folder))
        unpack(bag.payload, campaign.root)
        step, signer = _bag_step(bag, signers)
        listed, inside = _folder_steps(campaign, signers, left_out_files(bag), rebuild=rebuild)
        last = (
            attempt_step("rental record", lambda: _rental_step(campaign), campaign.root),
            attempt_step("rest of the archive", lambda: _rest_step(bag, campaign, listed), campaign.root),
        )
    return Verification(
        str(path),
        "archive",
        bag.info.get("External-Identifier"),
        listed.signed.key if listed.signed else None,
        signer is not None and listed.signer is not None,
        with_causes((step, *inside, *last)),
    )


def _bag_step(bag: Bag, signers: Path | None) -> tuple[Step, str | None]:
    found = check_signature(bag.signed, bag.signature, Purpose.BAG, signers)
    command = f"sha256sum -c manifest-sha256.txt && sha256sum -c {SIGNED}   (in the folder that holds data/)"
    if not found.valid:
        return Step("archive", "failed", f"{SIGNATURE}: {found.reason}", command=command), None
    who = f"made by {found.signer}" if found.signer else f"key {found.fingerprint}; who signed was not checked"
    finding = f"{len(bag.payload)} files, each byte of the archive covered by its signature, {who}"
    return Step("archive", "passed", finding, command=command), found.signer


def _rental_step(campaign: Campaign) -> Step:
    """The rental record in the archive still matches the decision, field by field (M46)."""
    path = campaign.root / RENTAL
    match = match_decision(campaign, read_rental(path))
    match.refuse(path)
    reasons = tuple(f"{', '.join(fields)}: {reason}" for reason, fields in match.by_reason().items())
    return Step("rental record", "passed", match.summary(), reasons, command=f"cat {RENTAL}   (beside the invoice)")


def _rest_step(bag: Bag, campaign: Campaign, listed: integrity.ListCheck) -> Step:
    """Nothing else travels with the note: every file is signed with it, the rental record, or the frozen model."""
    name = "rest of the archive"
    ours = {SIGNED_LIST, SIGNED_LIST_SIGNATURE, RENTAL, LEFT_OUT}
    known = frozenset(ours | set(listed.signed.files if listed.signed else ()))
    findings = inventory.unsigned_payload(frozenset(bag.payload), campaign, known)
    if bag.info.get("External-Identifier") != (listed.signed.note_id if listed.signed else None):
        findings = ("bag-info.txt names another note than the signed list", *findings)
    if findings:
        return Step(name, "failed", "the archive holds more than note, rental record and model", findings)
    return Step(name, "passed", "nothing but the note with its evidence, the rental record and the model")


def _folder_steps(
    campaign: Campaign,
    signers: Path | None,
    left_out: frozenset[str] = frozenset(),
    *,
    line_ends: bool = False,
    rebuild: bool = False,
) -> tuple[integrity.ListCheck, tuple[Step, ...]]:
    """Kinds of files, then bytes, then the recomputation; a refusal in one step never hides the others."""
    place = attempt_step("folder", lambda: inventory.check_place(campaign), campaign.root)
    if place.status == "failed":
        unread = Step("everything else", "not checked", "reading could hang or leave the folder; remove these first")
        return integrity.ListCheck(unread, None, None), (place, unread)
    listed = integrity.check_list(campaign, signers)
    signed = listed.signed
    identity = None if signed is None else signed.note_id
    checks: dict[str, Callable[[], Step]] = {}
    if signed is not None:
        checks["files"] = lambda: integrity.check_files(campaign, signed, left_out, line_ends=line_ends)
        checks["note"] = lambda: integrity.check_note_id(campaign, signed)
    checks |= {
        "PDF signature": lambda: integrity.check_note_pdf(campaign, identity),
        "frozen protocol": lambda: integrity.check_lock(campaign),
        "model": lambda: inventory.check_model_files(campaign),
        "attachments": lambda: integrity.check_attachments(campaign),
        "chain of attempts": lambda: integrity.check_chain(campaign),
        "files of the attempts": lambda: inventory.check_measured_files(campaign),
        "verdicts": lambda: recompute.recompute_verdicts(campaign),
        "decision": lambda: recompute.recompute_decision(campaign),
        "templates": lambda: inventory.check_templates(campaign),
        "text of the note": lambda: recompute.recompute_pages(campaign),
        "pages of the PDF": lambda: recompute.rebuild_pdf(campaign) if rebuild else recompute.pages_not_made_again(),
    }
    steps = (place, listed.step, *(attempt_step(name, check, campaign.root) for name, check in checks.items()))
    return listed, with_causes(steps)
