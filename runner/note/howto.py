"""`HOW-TO-CHECK.txt` of an archive: checking it without our code, in the note's language and in English."""

from __future__ import annotations

from runner.evidence.checks import NOTE_PDF, SIGNED_LIST
from runner.evidence.signing import Purpose
from runner.note.i18n import Catalogue, language_option

_WIDTH = 100


def how_to_check(
    catalogue: Catalogue, *, signature: str, signed: str, complete: bool, local_test: bool, fingerprint: str
) -> str:
    """Plain text. `signature`, `signed`: names of the bag's own files; `fingerprint`: of the "
    "key that signs the bag."""
    ignore = "" if complete else "--ignore-missing "
    bag = f"ssh-keygen -Y verify -f SIGNERS -I NAME -n {Purpose.BAG} -s {signature} < {signed}"
    bag_test = f"ssh-keygen -Y check-novalidate -n {Purpose.BAG} -s {signature} < {signed}"
    note = f"ssh-keygen -Y check-novalidate -n {Purpose.NOTE} -s {SIGNED_LIST}.sig < {SIGNED_LIST}"
    title = catalogue.gettext("How to check this archive without our code")
    parts = [
        f"{title}\n{'=' * len(title)}",
        catalogue.gettext(
            "Unpack it, and open a terminal in the folder that holds this file. Each line must end as it is said here."
        ),
        "1. "
        + catalogue.gettext(
            "Every file that was archived is unchanged: “OK” behind every name. A file that was added later is "
            "not noticed; `runner verify` names it, and so does any BagIt tool."
        ),
        _lines("sha256sum -c manifest-sha256.txt", "sha256sum -c tagmanifest-sha256.txt"),
        "2. "
        + catalogue.gettext(
            "Who signed the archive. SIGNERS is your own OpenSSH allowed_signers file, never one that came with "
            "the archive; NAME is a name in it. The answer must be “Good”, with this fingerprint of the key:"
        )
        + f" {fingerprint}",
        _lines(bag_test if local_test else bag),
    ]
    if local_test:
        parts.append(
            catalogue.gettext(
                "This archive is signed with a local test key: that shows that its files belong together, "
                "not who made "
                "them. Anybody can make such a key and sign changed files again."
            )
        )
    parts += [
        "3. "
        + catalogue.gettext(
            "The note and its evidence, signed before the archive was made. The list covers everything but the "
            "model, whose files' hashes stand in protocol/protocol.lock.json. pdfsig must say “Signature is "
            "Valid” and “Total document signed”; read its words, because it ends with status 0 for a changed "
            "document as well."
        ),
        _lines("cd data", f"sha256sum -c {ignore}{SIGNED_LIST}", note, f"pdfsig -nocert {NOTE_PDF}"),
        catalogue.gettext("With our code, all of this and the recomputed decision:")
        + "\n"
        + _lines(f"runner verify ARCHIVE.zip --signers SIGNERS{language_option(catalogue)}"),
    ]
    return "\n\n".join(_wrapped(part) for part in parts) + "\n"


def _lines(*commands: str) -> str:
    return "\n".join(f"     {command}" for command in commands)


def _wrapped(text: str) -> str:
    """Sentences are broken at blanks; commands, which begin with blanks, stay whole."""
    out: list[str] = []
    for line in text.split("\n"):
        if line.startswith(" "):
            out.append(line)
            continue
        current = ""
        for word in line.split(" "):
            if current and len(current) + 1 + len(word) > _WIDTH:
                out.append(current)
                current = word
            else:
                current = f"{current} {word}" if current else word
        out.append(current)
    return "\n".join(out)
