"""Fingerprints, signature and the commands that check the note without this project (M8, M44, M45)."""

from __future__ import annotations

from typing import Any

from runner.evidence.canonical import sha256_file
from runner.evidence.checks import check_commands, commands_for_a_pdf, note_id
from runner.evidence.signing import SigningKey
from runner.note.evidence import Evidence
from runner.note.i18n import N_, language_option
from runner.note.words import Speaker

CHECK_WORDS = (
    N_("every file is the one that was signed"),
    N_("the list fits its signature (a local test key: this shows consistency, not who signed)"),
    N_("the list was signed by somebody you trust (SIGNERS: your own allowed_signers file, NAME: a name in it)"),
    N_("the signature in the PDF covers the whole document"),
    N_("“OK” behind every file name"),
    N_("“Signature is Valid” and “Total document signed”"),
)


def fingerprints(evidence: Evidence, speaker: Speaker) -> list[dict[str, str]]:
    """SHA-256 of everything that the decision rests on; of bytes and, where named, of records."""
    t, judgement, campaign = speaker.catalogue, evidence.lock.judgement, evidence.campaign
    rows = [
        (t.gettext("Lock (judgement and nonce)"), evidence.lock.lock_sha256),
        (t.gettext("Nonce of the freeze"), evidence.lock.nonce),
        (t.gettext("Protocol"), judgement.protocol_sha256),
    ]
    for corpus in judgement.corpora:
        rows += [(t.gettext("%(file)s, bytes", file=file.path), file.sha256) for file in corpus.final]
        rows.append((t.gettext("Corpus %(id)s, records", id=corpus.id), corpus.records_sha256))
        rows.append((t.gettext("Corpus %(id)s, labels", id=corpus.id), corpus.labels_sha256))
        if corpus.baseline is not None:
            rows.append((t.gettext("%(file)s, bytes", file=corpus.baseline.path), corpus.baseline.sha256))
    rows += [(t.gettext("Model file %(file)s", file=file.path), file.sha256) for file in judgement.model_files]
    if judgement.model_revision:
        rows.append((t.gettext("Model revision"), judgement.model_revision))
    rows += [
        (t.gettext("Tariffs"), sha256_file(campaign.tariffs)),
        (t.gettext("Balance"), sha256_file(campaign.balance)),
        (t.gettext("Decision"), sha256_file(campaign.decision)),
    ]
    return [{"what": what, "value": value} for what, value in rows]


def checking(evidence: Evidence, key: SigningKey | None, speaker: Speaker) -> dict[str, Any]:
    """Who signs, and the commands. Without a key a local test key will be made."""
    local = key is None or key.local_test
    shown = key or _PLANNED_TEST_KEY
    return {
        "note_id": note_id(evidence.campaign),
        "issued": _issued(evidence, speaker),
        "verify_pdf": f"runner verify NOTE.pdf{language_option(speaker.catalogue)}",
        "commands": [
            {
                "what": speaker.say(step.what),
                "command": step.command,
                "expect": speaker.say(step.expect) if step.expect in CHECK_WORDS else speaker.quoted(step.expect),
            }
            for step in check_commands(shown)
        ],
        "alone": [line for command in commands_for_a_pdf(shown) for line in command.split("\n")],
        "local_test_key": local,
        "key": key.fingerprint if key else speaker.catalogue.gettext("made when the note is signed"),
    }


def _issued(evidence: Evidence, speaker: Speaker) -> dict[str, str]:
    """Who answers for the note, as the protocol says it: other people's text, or that it is not stated."""
    contact, unsaid = evidence.protocol.contact, speaker.catalogue.gettext("not stated")
    said = {} if contact is None else {"by": contact.issued_by, "to": contact.issued_for, "reach": contact.reach}
    return {
        name: speaker.campaign_text(speaker.quoted(said[name])) if said.get(name) else unsaid
        for name in ("by", "to", "reach")
    }


def _planned_key() -> SigningKey:
    from pathlib import Path

    return SigningKey(Path(), "ssh-ed25519 -", "", True)


_PLANNED_TEST_KEY = _planned_key()
