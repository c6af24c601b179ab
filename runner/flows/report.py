"""From verdicts to the signed note: decision files, note, PDF signature, signed list.

Everything is made in a folder of its own and swapped in at the end: a report that fails leaves the
one before as it was, and a half-made one is never seen.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.decide.model import Decision
from runner.decide.write import other_locks_were_left_out, write_decision
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import (
    ATTACHED_LIST,
    ATTACHED_LIST_SIGNATURE,
    SIGNED_LIST,
    SIGNED_LIST_SIGNATURE,
    SIGNER_NAME,
    THIS_CODE,
    Signer,
    note_id,
)
from runner.evidence.files import write_atomic
from runner.evidence.signing import Purpose, sign, signing_key
from runner.flows.staging import StagedCampaign, staged_note
from runner.flows.standing import key_warnings, language_of, refuse_weaker_key, standing_language
from runner.note.build import build_note, templates_of
from runner.note.calculator import write_calculator
from runner.protocol.freeze import load_lock
from runner.seal.pdf import sign_pdf
from runner.seal.pdfkey import pdf_key
from runner.seal.sums import make_attached_list, make_list

_EPOCH, _EPOCH_DIGITS = "SOURCE_DATE_EPOCH", 11
_REPORT_FILES = ("decision-note.", Path(SIGNED_LIST).name)


@dataclass(frozen=True)
class Report:
    """What a report made. `files`: paths relative to the campaign folder. `kept`: the language is that of the last."""

    note_id: str
    signer: Signer
    decision: Decision
    files: tuple[str, ...]
    warnings: tuple[str, ...]
    language: str
    kept: bool


def make_report(
    campaign: Campaign,
    language: str | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    verified: bool = False,
) -> Report:
    """Decide, render, sign. Refuses (exit 2) without having touched the note that was there.

    NotAccepted (exit 3): a verdict that does not follow from the records, since all of them are judged again before
    anything is signed. `verified`: the caller has just done that.
    Without a language the one of the note that is there is kept. A note signed with a key of the user's own
    is not replaced by one that a local test key signs.
    """
    load_lock(campaign)  # refused before a test key is made
    _refuse_epoch(environ.get(_EPOCH, ""))
    if not campaign.lock_signature.is_file():
        raise InputRefused(
            "the lock is not signed: the freeze was interrupted, or its signature was not copied",
            file=campaign.lock_signature,
            next_step="runner freeze signs an unchanged lock; then run the same command again",
        )
    key = signing_key(campaign, environ)
    certificate = pdf_key(campaign, environ)
    refuse_weaker_key(campaign, local_test=key.local_test, pdf_local_test=certificate.local_test)
    kept = language is None and standing_language(campaign) is not None
    language = language_of(campaign, language)
    signer = Signer(
        made_by=THIS_CODE,
        key_kind=key.kind,
        public_key=key.public_key,
        fingerprint=key.fingerprint,
        local_test=key.local_test,
        pdf_certificate_sha256=certificate.certificate_sha256,
        pdf_subject=certificate.subject,
        pdf_local_test=certificate.local_test,
    )
    left_out = campaign.decision.is_file() and other_locks_were_left_out(campaign.decision)
    with staged_note(campaign) as staged:
        decision = write_decision(staged, leave_out_other_locks=left_out, language=language, verified=verified).decision
        identity = note_id(staged)
        write_atomic(staged.note / SIGNER_NAME, signer.dump())

        def seal() -> None:
            """The SSH key vouches for what the PDF carries, and with `signer.json` for the PDF's certificate."""
            listed = make_attached_list(staged, note_id=identity, key=signer.label).dump()
            write_atomic(staged.note / Path(ATTACHED_LIST).name, listed)
            write_atomic(staged.note / Path(ATTACHED_LIST_SIGNATURE).name, sign(listed, key, Purpose.PDF))

        made = build_note(staged, language, key=key, seal=seal)
        write_calculator(staged, language)
        reason = f"Decision note {identity}"
        write_atomic(made.pdf, sign_pdf(made.pdf.read_bytes(), certificate, reason=reason))
        _carry_over(campaign, staged)
        _keep_templates(campaign)
        data = make_list(staged, note_id=identity, key=signer.label).dump()
        write_atomic(staged.note / Path(SIGNED_LIST).name, data)
        write_atomic(staged.note / Path(SIGNED_LIST_SIGNATURE).name, sign(data, key, Purpose.NOTE))
    names = (made.html.name, made.pdf.name, made.qmd.name, "decision.json", "balance.csv", Path(SIGNED_LIST).name)
    files = tuple(f"note/{name}" for name in names)
    warnings = (*made.warnings, *key_warnings(campaign, signer))
    return Report(identity, signer, decision, files, warnings, language, kept)


def _refuse_epoch(value: str) -> None:
    """The libraries that write figures and PDF read it, and fail over what is no whole number of seconds."""
    if value and not (value.isascii() and value.isdigit() and len(value) <= _EPOCH_DIGITS):
        raise InputRefused(
            f"{_EPOCH} is no whole number of seconds since 1970",
            value=value,
            next_step=f"unset {_EPOCH}: a note has no time of its own; then run the same command again",
        )


def _carry_over(campaign: Campaign, staged: StagedCampaign) -> None:
    """Files in `note/` that no report makes (the blank sheet, a letter) stay; those of an earlier report go."""
    for path in sorted(campaign.note.rglob("*")):
        relative = path.relative_to(campaign.note)
        made_by_reports = relative.parts[0] == "figures" or relative.name.startswith(_REPORT_FILES)
        hidden = any(part.startswith(".") for part in relative.parts)
        target = staged.note / relative
        if path.is_file() and not (made_by_reports or hidden or target.exists()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)


def _keep_templates(campaign: Campaign) -> None:
    """The templates belong to the evidence (M45): a campaign without its own gets those that were used."""
    used = templates_of(campaign)
    if campaign.templates.exists():
        return
    staging = Path(tempfile.mkdtemp(prefix=".templates-", dir=campaign.root))
    try:
        shutil.copytree(used, staging / "templates", copy_function=shutil.copyfile)
        (staging / "templates").rename(campaign.templates)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
