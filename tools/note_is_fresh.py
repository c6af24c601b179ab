"""`make report`: is the note newer than everything it is made from? Exit 0 when it is, 1 when not.

A program and not make's own comparison: make cannot name files in folders whose names hold blanks,
colons or wildcards, and would say "nothing to do" or stop. Standard library only, reads times only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

# Written last of all, after HTML and PDF: without it the note is not complete.
LAST_FILE = "note/SHA256SUMS.sig"
NOTE_FILES = ("note/decision-note.html", "note/decision-note.pdf", "note/decision-note.qmd", "note/SHA256SUMS")
SOURCES = ("protocol", "records", "verdicts", "templates", "tariffs.csv")
# What a report itself writes or what no note shows.
NOT_SOURCES = frozenset({"keys", "__pycache__"})


def changed_at(path: Path) -> Iterator[int]:
    """Times of a file, or of a folder and all that lies in it: a deletion changes its folder's time."""
    try:
        yield path.stat().st_mtime_ns
        if path.is_dir():
            for entry in os.scandir(path):
                if entry.name not in NOT_SOURCES:
                    yield from changed_at(Path(entry.path))
    except FileNotFoundError:
        return


def keys_fit(campaign: Path, environ: Mapping[str, str]) -> bool:
    """Whether the keys that are set are, as far as that is seen without OpenSSH, those that signed the note."""
    ssh, pdf = environ.get("SIGNING_KEY", ""), environ.get("PDF_SIGNING_P12", "")
    if not ssh and not pdf:
        return True
    try:
        signer = json.loads((campaign / "note/signer.json").read_bytes())
        own = ssh.removesuffix(".pub") + ".pub"
        public = " ".join(Path(own).expanduser().read_text(encoding="utf-8").split()[:2]) if ssh else None
    except (OSError, ValueError):
        return False
    if not isinstance(signer, dict):
        return False
    return not (ssh and signer.get("public_key") != public) and not (pdf and signer.get("pdf_local_test") is not False)


def is_fresh(campaign: Path, language: str, environ: Mapping[str, str]) -> bool:
    """Whether a complete note in this language (empty: any) is there, by these keys, and no source of it is newer."""
    if not all((campaign / name).is_file() for name in (LAST_FILE, *NOTE_FILES)):
        return False
    front_matter = (campaign / "note/decision-note.qmd").read_text(encoding="utf-8", errors="replace").splitlines()[:20]
    if language and f"lang: {language}" not in [line.replace('"', "").strip() for line in front_matter]:
        return False
    if not keys_fit(campaign, environ):
        return False
    made = (campaign / LAST_FILE).stat().st_mtime_ns
    # protocol/ itself changes when keys/ is made; what counts in it are its entries.
    sources = [campaign / name for name in SOURCES if name != "protocol"]
    protocol = campaign / "protocol"
    if protocol.is_dir():
        sources += [Path(entry.path) for entry in os.scandir(protocol) if entry.name not in NOT_SOURCES]
    return not any(changed > made for source in sources for changed in changed_at(source))


def main() -> int:
    campaign = Path(os.environ.get("CAMPAIGN") or ".")
    if not is_fresh(campaign, os.environ.get("NOTE_LANG", ""), os.environ):
        return 1
    sys.stdout.write(f"{campaign / NOTE_FILES[1]}: nothing changed since it was signed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
