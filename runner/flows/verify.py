"""`runner verify`: from a campaign folder, a note folder or an archive, with a report for a buyer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.signing import read_signers
from runner.flows import integrity, inventory, page_one, recompute
from runner.flows.strays import check_strays
from runner.flows.verification import Step, Verification, attempt_step, with_causes
from runner.flows.verify_archive import is_unpacked_archive, verify_archive, verify_unpacked
from runner.flows.verify_pdf import verify_pdf
from runner.seal.bag import LEFT_OUT, RENTAL


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
        if is_unpacked_archive(path):
            return verify_unpacked(path, signers, _folder_steps, rebuild=rebuild)
        root = path if (path / "note").is_dir() or path.name != "note" else path.parent
        return verify_folder(Campaign(root), signers, subject=str(path), line_ends=line_ends, rebuild=rebuild)
    if not path.is_file():
        raise InputRefused("there is nothing to verify", file=path, next_step="make report, or name a folder or file")
    with path.open("rb") as stream:
        start = stream.read(5)
    if start == b"%PDF-":
        return verify_pdf(path, certificate, signers)
    if path.suffix == ".zip" or start.startswith(b"PK"):
        return verify_archive(path, signers, _folder_steps, rebuild=rebuild)
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


def _folder_steps(
    campaign: Campaign,
    signers: Path | None,
    left_out: frozenset[str] = frozenset(),
    *,
    line_ends: bool = False,
    rebuild: bool = False,
    archived: bool = False,
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
    beside = frozenset({RENTAL, LEFT_OUT}) if archived else frozenset()
    checks |= {
        "other files": lambda: check_strays(campaign, beside, who=signers is not None),
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
        "page 1 of the PDF": lambda: page_one.check_page_one(campaign),
        "pages of the PDF": lambda: recompute.rebuild_pdf(campaign) if rebuild else recompute.pages_not_made_again(),
    }
    steps = (place, listed.step, *(attempt_step(name, check, campaign.root) for name, check in checks.items()))
    return listed, with_causes(page_one.settled(steps))
