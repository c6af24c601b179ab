"""The id of a note, and the commands that check it with tools that are not ours (DESIGN section 8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from runner import __version__
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, load_json_file
from runner.evidence.model import Record, Sha256
from runner.evidence.signing import Purpose, SigningKey

SIGNED_LIST = "note/SHA256SUMS"
SIGNED_LIST_SIGNATURE = SIGNED_LIST + ".sig"
NOTE_PDF = "note/decision-note.pdf"
ATTACHED_LIST = "note/SHA256SUMS.attached"
"""What the PDF carries, signed with the SSH key: so that a PDF alone can be judged by a signers file."""
ATTACHED_LIST_SIGNATURE = ATTACHED_LIST + ".sig"
_NOTE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}-r[1-9][0-9]*-[0-9a-f]{12}")
SIGNER_NAME = "signer.json"
THIS_CODE = f"gpu-decision-note {__version__}"


class Signer(Record):
    """`note/signer.json`: the keys that sign this note, written before the note that names them."""

    schema_version: Literal["signer/1"] = "signer/1"
    made_by: str = Field(description="name and version of the code: another version may word things otherwise")
    key_kind: str
    public_key: str
    fingerprint: str
    local_test: bool
    pdf_certificate_sha256: Sha256
    pdf_subject: str
    pdf_local_test: bool

    @property
    def label(self) -> str:
        """How the key is called wherever it is shown."""
        return self.as_key().label

    def as_key(self) -> SigningKey:
        """The key as the note shows it; its private half is elsewhere."""
        return SigningKey(Path(), self.public_key, self.fingerprint, self.local_test)


def read_signer(campaign: Campaign) -> Signer | None:
    """Who signs the note in `campaign.note`; None while no report has been started."""
    path = campaign.note / SIGNER_NAME
    return Signer.load(path) if path.is_file() else None


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """One step of checking: what it shows, the command, and what a good answer looks like."""

    what: str
    command: str
    expect: str


def note_id(campaign: Campaign) -> str:
    """Name of the note, from the content of decision and balance: other evidence, another id.

    Such as `messages-r1-3f9a0c41d2b7`: protocol, revision, 12 hexadecimal digits. It becomes a file name.
    """
    decision = load_json_file(campaign.decision)
    digest = content_sha256({"decision": decision, "balance": load_json_file(campaign.balance)})
    found = decision if isinstance(decision, dict) else {}
    identity = f"{found.get('protocol_name')}-r{found.get('protocol_revision')}-{digest[:12]}"
    if not _NOTE_ID.fullmatch(identity):
        raise InputRefused(
            "the decision does not name its protocol and revision",
            file=campaign.decision,
            next_step="runner decide writes it again",
        )
    return identity


class _Signs(Protocol):
    """A key or a record of one. `fingerprint`: as ssh-keygen shows it; empty while the key is to be made."""

    @property
    def local_test(self) -> bool: ...

    @property
    def fingerprint(self) -> str: ...


def check_commands(signer: _Signs) -> tuple[CheckCommand, ...]:
    """Checks of a note in its campaign folder (or in `data/` of an unpacked bag), in order."""
    return (
        CheckCommand(
            "every file is the one that was signed", f"sha256sum -c {SIGNED_LIST}", "“OK” behind every file name"
        ),
        signature_command(SIGNED_LIST, Purpose.NOTE, local_test=signer.local_test, fingerprint=signer.fingerprint),
        CheckCommand(
            "the signature in the PDF covers the whole document",
            f"pdfsig -nocert {NOTE_PDF}",
            "“Signature is Valid” and “Total document signed”",
        ),
    )


def commands_for_a_pdf(signer: _Signs) -> tuple[str, ...]:
    """Shell lines, in order, for somebody who has nothing but the PDF, called `NOTE.pdf` in them."""
    listed = signature_command(ATTACHED_LIST, Purpose.PDF, local_test=signer.local_test)
    return (
        "pdfsig -nocert NOTE.pdf",
        "mkdir evidence && pdfdetach -saveall -o evidence NOTE.pdf && cd evidence",
        'for f in *~*; do p=$(printf %s "$f" | tr \'~\' /); mkdir -p "$(dirname "$p")"; mv "$f" "$p"; done',
        "[ ! -f evidence.zip ] || unzip -q evidence.zip",
        f"sha256sum -c {ATTACHED_LIST}",
        listed.command.replace(" -s ", " \\\n  -s "),  # wider than a page: copied from there it must stay one command
        "grep pdf_certificate_sha256 note/signer.json",
    )


def signature_command(path: str, purpose: Purpose, *, local_test: bool, fingerprint: str = "") -> CheckCommand:
    """How to check the SSH signature beside a file. A local test key has no signer to look up.

    With a `fingerprint` the answer must show it: any other key makes a good signature as well.
    """
    key = f" … {fingerprint}" if fingerprint else ""
    if local_test:
        return CheckCommand(
            "the list fits its signature (a local test key: this shows consistency, not who signed)",
            f"ssh-keygen -Y check-novalidate -n {purpose} -s {path}.sig < {path}",
            f'Good "{purpose}" signature{key}',
        )
    return CheckCommand(
        "the list was signed by somebody you trust (SIGNERS: your own allowed_signers file, NAME: a name in it)",
        f"ssh-keygen -Y verify -f SIGNERS -I NAME -n {purpose} -s {path}.sig < {path}",
        f'Good "{purpose}" signature for NAME{key}',
    )
