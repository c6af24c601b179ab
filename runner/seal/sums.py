"""The signed list `note/SHA256SUMS`: every file of the evidence, readable by `sha256sum -c`.

Only one form is accepted (order, spacing, line ends), so that every changed byte of the list is
found even before its signature is checked.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.checks import ATTACHED_LIST, ATTACHED_LIST_SIGNATURE, SIGNED_LIST, SIGNED_LIST_SIGNATURE
from runner.note.attachments import evidence_paths
from runner.protocol.lockfile import read_lock
from runner.protocol.modelfiles import frozen_model
from runner.protocol.schema import Lock
from runner.seal.names import name_findings
from runner.seal.scope import of_another

_ENTRY = re.compile(r"([0-9a-f]{64})  (.+)")
_RENTAL = re.compile(r"protocol/rental[^/]*\.toml")
_OWN_PROTOCOL = re.compile(
    r"(quality-protocol|plan|rental\.example)\.toml|quality-protocol\.schema\.json|repriced-from\.json"
    r"|protocol\.lock\.json(\.sig)?|locks/[^/]+\.lock\.json(\.sig)?|baseline/[^/]+\.json"
)
_FOLDERS = ("protocol", "records", "verdicts", "note", "templates")
_FILES = ("tariffs.csv",)
_LIST_AGAIN = "a campaign of yours: runner report writes and signs it again; of somebody else: ask for another copy"
_HEADER = (
    "# purpose: {purpose}",
    "# note: {note_id}",
    "# signed with: {key}",
    "# check, in the folder that holds note/: sha256sum -c {path}",
)


@dataclass(frozen=True)
class SignedList:
    """A list of files: what it is for, which note, which key (label), path -> SHA-256; `path`: its own place."""

    purpose: str
    note_id: str
    key: str
    files: Mapping[str, str]
    path: str = SIGNED_LIST

    def dump(self) -> bytes:
        values = {"purpose": self.purpose, "note_id": self.note_id, "key": self.key, "path": self.path}
        head = [line.format(**values) for line in _HEADER]
        body = [f"{digest}  {path}" for path, digest in sorted(self.files.items())]
        return ("\n".join(head + body) + "\n").encode("utf-8")


PURPOSE = "decision note and its evidence"
ATTACHED_PURPOSE = "evidence attached to the PDF of a decision note"


def parse_list(data: bytes, *, file: str | Path, path: str = SIGNED_LIST) -> SignedList:
    """Strict reading; refused with the line where it is not what `SignedList.dump` writes."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputRefused(
            f"the signed list is not UTF-8 (byte {error.start})", file=file, next_step=_LIST_AGAIN
        ) from None
    values = []
    for number, template in enumerate(_HEADER[:3]):
        start = template[: template.index("{")]
        if number >= len(lines) or not lines[number].startswith(start):
            raise InputRefused(
                "the signed list does not say " + start.strip("# :"), file=file, line=number + 1, next_step=_LIST_AGAIN
            )
        values.append(lines[number][len(start) :])
    files: dict[str, str] = {}
    for number, line in enumerate(lines[len(_HEADER) : -1], start=len(_HEADER) + 1):
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise InputRefused(
                "not a line of the signed list: 64 hexadecimal digits, two blanks, a path",
                file=file,
                line=number,
                value=line,
                next_step=_LIST_AGAIN,
            )
        digest, name = match.groups()
        if name in files:
            raise InputRefused(
                "a file stands twice in the signed list", file=file, line=number, value=name, next_step=_LIST_AGAIN
            )
        files[name] = digest
    findings = name_findings(files)
    if findings:
        raise InputRefused(
            "the signed list holds names that are refused", file=file, details=findings, next_step=_LIST_AGAIN
        )
    purpose, note_id, key = values
    signed = SignedList(purpose, note_id, key, files, path)
    if signed.dump() != data:
        raise InputRefused(
            "the signed list is not in canonical form (order, blanks or line ends)", file=file, next_step=_LIST_AGAIN
        )
    return signed


def make_list(campaign: Campaign, *, note_id: str, key: str) -> SignedList:
    """Hash the whole evidence of a campaign."""
    files = {relative: sha256_file(path) for relative, path in evidence_files(campaign)}
    return SignedList(PURPOSE, note_id, key, files)


def make_attached_list(campaign: Campaign, *, note_id: str, key: str) -> SignedList:
    """Hash what the PDF of the note in `campaign.note` will carry, but for this list and its signature."""
    paths, _ = evidence_paths(campaign, read_lock(campaign))
    own = (ATTACHED_LIST, ATTACHED_LIST_SIGNATURE)
    files = {name: sha256_file(path) for name, path in paths.items() if name not in own}
    return SignedList(ATTACHED_PURPOSE, note_id, key, files, ATTACHED_LIST)


def evidence_files(campaign: Campaign) -> tuple[tuple[str, Path], ...]:
    """(path as listed, file) of everything the signed list must cover, sorted.

    Left out: keys, the list itself, names that begin with a point (locks, half-written files), rental
    records (they come after the note and are covered by the archive), the model's folder, which
    the lock covers by fingerprints and which may be huge, and corpora and models that no lock names.
    """
    model, foreign = model_folder(campaign), of_another(campaign)
    walked = (entry for name, place in evidence_places(campaign) for entry in _walk(place, name, model, foreign))
    found = [(relative, path) for relative, path in walked if relative not in (SIGNED_LIST, SIGNED_LIST_SIGNATURE)]
    findings = name_findings(relative for relative, _ in found)
    if findings:
        raise InputRefused(
            "the campaign holds file names that cannot be signed",
            details=findings,
            next_step="rename these files and run the same command again",
        )
    return tuple(sorted(found))


def evidence_places(campaign: Campaign) -> tuple[tuple[str, Path], ...]:
    """(path as listed, place) of the files and folders that hold evidence."""
    return tuple((name, campaign.note if name == "note" else campaign.root / name) for name in (*_FILES, *_FOLDERS))


def model_folder(campaign: Campaign) -> str | None:
    """The model's folder inside the campaign, such as `protocol/model`; None if it lies elsewhere."""
    if not campaign.lock.is_file():
        return None
    source = PurePosixPath(frozen_model(campaign, Lock.load(campaign.lock)).source)
    folder = campaign.protocol_dir / source
    if source.is_absolute() or ".." in source.parts or not folder.is_dir():
        return None
    return f"protocol/{source}"


def holds_texts(locks: Sequence[Lock], relative: str) -> bool:
    """May this file hold the user's texts (or a model that knows them)?

    A frozen corpus, of this revision or an earlier one, does. In `protocol/` everything else may too, unless it is
    needed to judge again or is a file of this tool: raw data, an export or an older model may lie there as well.
    """
    corpora = [corpus for lock in locks for corpus in lock.judgement.corpora]
    if relative in {file.path for corpus in corpora for file in (*corpus.final, *corpus.tuning)}:
        return True
    needed = {file.path for corpus in corpora for file in (corpus.reference, corpus.baseline) if file is not None}
    needed |= {file.path for lock in locks for file in lock.judgement.evaluation_files or ()}
    name = relative.removeprefix("protocol/")
    return name != relative and not needed & {relative, name} and not _OWN_PROTOCOL.fullmatch(name)


def _walk(place: Path, relative: str, model: str | None, foreign: Callable[[str], bool]) -> Iterator[tuple[str, Path]]:
    """Regular files below a place; a link or a device is refused, hidden and `foreign` ones are passed over."""
    if foreign(relative):
        return
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        if not _RENTAL.fullmatch(relative):
            yield relative, place
    elif stat.S_ISDIR(mode):
        if relative in ("protocol/keys", model):
            return
        for path in sorted(place.iterdir()):
            if not path.name.startswith("."):
                yield from _walk(path, f"{relative}/{path.name}", model, foreign)
    else:
        raise InputRefused(
            f"{show_value(relative)} is a link or a device, which cannot be signed",
            file=place,
            next_step="put a copy of the file in its place",
        )
