"""The note that stands in a campaign folder: its language and its key, which a new one keeps unless asked (M44)."""

from __future__ import annotations

import re

from runner.errors import InputRefused, show_text
from runner.evidence.campaign import Campaign
from runner.evidence.checks import THIS_CODE, Signer, read_signer
from runner.evidence.signing import KEY_VARIABLE, LOCAL_KEY_NAME, SigningKey, local_keys, signing_key
from runner.evidence.sshsig import NotCanonical, parse_signature
from runner.note.i18n import SOURCE_LANGUAGE
from runner.seal.pdfkey import P12_VARIABLE

_MOST_NAME = 60  # characters of a version's name, which the note gives itself
NOTE_FILES = ("decision-note.pdf", "decision-note.html", "decision-note.qmd")


def standing_language(campaign: Campaign) -> str | None:
    """Language of the note that is there, if all its files are."""
    if not all((campaign.note / name).is_file() for name in NOTE_FILES):
        return None
    text = (campaign.note / "decision-note.qmd").read_text(encoding="utf-8", errors="replace")
    found = re.search(r'^lang: *"?([a-z]{2,3})"? *$', text, re.MULTILINE)
    return None if found is None else found.group(1)


def language_of(campaign: Campaign, wanted: str | None) -> str:
    """The language asked for, else that of the note that is there, else English."""
    return wanted or standing_language(campaign) or SOURCE_LANGUAGE


def standing_signer(campaign: Campaign) -> Signer | None:
    """Who signed the note that is there; None where there is none, or nobody can say."""
    if not all((campaign.note / name).is_file() for name in NOTE_FILES):
        return None
    try:
        return read_signer(campaign)
    except InputRefused:
        return None


def other_code(campaign: Campaign) -> str | None:
    """What made the note, if it was another version of our code: it may word, draw and attach things otherwise."""
    signer = read_signer(campaign)
    return None if signer is None or signer.made_by == THIS_CODE else show_text(signer.made_by[:_MOST_NAME])


def refuse_weaker_key(campaign: Campaign, *, local_test: bool, pdf_local_test: bool) -> None:
    """A note that somebody signed in their own name is never replaced by one that a local test key signs."""
    before = standing_signer(campaign)
    if before is None:
        return
    lost = [
        f"{what}; set {variable}"
        for what, own, test, variable in (
            (f"the note: {before.fingerprint}", not before.local_test, local_test, KEY_VARIABLE),
            (f"the PDF: {before.pdf_subject}", not before.pdf_local_test, pdf_local_test, P12_VARIABLE),
        )
        if own and test
    ]
    if lost:
        raise InputRefused(
            "the note that is there is signed with a key of yours; a local test key would sign the new one",
            file=campaign.note,
            details=tuple(lost),
            next_step=f"{KEY_VARIABLE}=/path/to/ssh-key make report (or move note/ away, if a test key shall sign)",
        )


def lock_fingerprint(campaign: Campaign) -> str | None:
    """Fingerprint of the key that signed the lock; None where it has no readable signature."""
    try:
        return parse_signature(campaign.lock_signature.read_bytes()).fingerprint
    except (OSError, NotCanonical):
        return None


def lock_signer(campaign: Campaign) -> str:
    """Whose signature the lock really carries, in words: not who would sign it now."""
    found = lock_fingerprint(campaign)
    local = local_keys() / LOCAL_KEY_NAME
    if found is None or not local.is_file():
        return found or "no signature that can be read"
    key = signing_key(campaign, {})
    return key.label if key.fingerprint == found else found


def key_warnings(campaign: Campaign, signer: Signer, archive: SigningKey | None = None) -> tuple[str, ...]:
    """Where lock, PDF or archive are signed with another key than the note; all take the same settings."""
    found = []
    locked = lock_fingerprint(campaign)
    if locked not in (None, signer.fingerprint):
        found.append(f"the lock is signed with another key ({locked}): runner freeze signs it with yours")
    if signer.pdf_local_test and not signer.local_test:
        found.append(f"the PDF is signed with a local test key: {P12_VARIABLE} names a certificate of yours")
    if archive is not None and archive.fingerprint != signer.fingerprint:
        found.append(f"the archive is signed with {archive.label}, the note in it with {signer.label}")
    if found:
        found.append(f"one setting for all: export {KEY_VARIABLE}=/path/to/ssh-key before freeze, report and archive")
    return tuple(found)
