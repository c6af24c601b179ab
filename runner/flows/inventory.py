"""What lies in a campaign folder besides its text: kinds of files, what rows name, the model, the templates."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.errors import show_value
from runner.evidence.attempt import Attempt
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.checks import THIS_CODE
from runner.evidence.store import AttemptStore
from runner.flows import foreign
from runner.flows.contradictions import contradictions
from runner.flows.standing import other_code, standing_language
from runner.flows.verification import Step
from runner.note.build import OWN_TEMPLATES
from runner.protocol.lockfile import read_lock
from runner.protocol.modelfiles import model_changes
from runner.seal.scope import of_another
from runner.seal.sums import evidence_places, model_folder

_OWN_HIDDEN = ("records/.lock",)


def check_place(campaign: Campaign) -> Step:
    """Plain files and folders only: whoever reads a pipe, a device or a link reads what somebody else wants."""
    name = "folder"
    findings = odd_files(campaign)
    if findings:
        finding = "nothing was read: links, pipes or devices lie among the evidence"
        return Step(name, "failed", finding, findings, command=foreign.PLAIN_FILES)
    return Step(name, "passed", "plain files and folders only", command=foreign.PLAIN_FILES)


def odd_files(campaign: Campaign, folder: str | None = None) -> tuple[str, ...]:
    """What is neither file nor folder among the evidence (or in one of its folders), in words."""
    return tuple(
        f"{relative}: a {kind}, no plain file"
        for relative, kind in _walk(campaign, folder)
        if kind not in ("file", "folder")
    )


def hidden_files(campaign: Campaign) -> tuple[str, ...]:
    """Names that begin with a point, or lie in a folder of such a name: no list covers them."""
    return tuple(
        relative
        for relative, kind in _walk(campaign)
        if kind == "file" and "/." in f"/{relative}" and relative not in _OWN_HIDDEN
    )


def _walk(campaign: Campaign, folder: str | None = None) -> Iterator[tuple[str, str]]:
    """(path as listed, kind) in the places of the evidence; models, keys and foreign corpora are left alone."""
    left_alone = {"protocol/keys", model_folder_name(campaign)}
    foreign = of_no_lock(campaign)
    places = (pair for pair in evidence_places(campaign) if folder in (None, pair[0]))
    waiting = [(relative, place) for relative, place in places if os.path.lexists(place)]
    while waiting:
        relative, place = waiting.pop()
        kind = _kind(place)
        yield relative, kind
        if kind == "folder":
            inside = ((f"{relative}/{entry.name}", Path(entry.path)) for entry in os.scandir(place))
            waiting += sorted(
                (pair for pair in inside if pair[0] not in left_alone and not foreign(pair[0])), reverse=True
            )


def model_folder_name(campaign: Campaign) -> str | None:
    """Where the lock says that the model lies, if that can be read from a plain file."""
    try:
        return model_folder(campaign) if _kind(campaign.lock) == "file" else None
    except Exception:  # a damaged lock has a step of its own
        return None


def of_no_lock(campaign: Campaign) -> Callable[[str], bool]:
    """Which files and folders are corpora or models of something else (`of_another`), if the lock can be read."""
    try:
        return of_another(campaign) if _kind(campaign.lock) == "file" else lambda relative: False
    except Exception:  # a damaged lock has a step of its own
        return lambda relative: False


def _kind(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return "missing file"
    names = {
        stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "pipe",
        stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
    }  # fmt: skip
    return names.get(stat.S_IFMT(mode), "thing of unknown kind")


def check_measured_files(campaign: Campaign, *, whole: bool = True) -> Step:
    """Predictions, memory samples, journals and manifests are the ones that the rows name (M8, M9, M22).

    None contradicts its row or is left of a row that is gone (M50). Not `whole` (a PDF alone): what is missing is no
    fault, it is counted.
    """
    name = "files of the attempts"
    named: dict[tuple[str, str], list[str]] = {}
    rows = AttemptStore(campaign).scan()
    for attempt in rows.attempts:
        for pair in named_files(attempt):
            named.setdefault(pair, []).append(attempt.attempt_id)
    findings, files, missing, checked = [], [], 0, len(named)
    for (path, sha256), attempts in sorted(named.items()):
        row = attempts[0] if len(attempts) == 1 else f"{attempts[0]} and {len(attempts) - 1} more"
        there = campaign.inside(path).is_file()
        missing += not there
        if there and sha256_file(campaign.inside(path)) != sha256:
            findings.append(f"{path}: not the file that {row} names")
            files.append(path)
        elif not there and whole:
            findings.append(f"{path}: missing, named by {row}")
            files.append(path)
    if not findings:
        against = contradictions(campaign, rows)
        if against:
            finding = f"rows and what was written while they were measured contradict each other ({len(against)})"
            details = tuple(f"{path}: {words}" for path, words in against)
            return Step(name, "failed", finding, details, files=tuple(path for path, _ in against))
    if findings:
        finding = f"{len(findings)} of {checked} are not the ones that were measured"
        return Step(name, "failed", finding, tuple(findings), foreign.MEASURED_FILES, files=tuple(files))
    if missing:
        finding = f"{checked - missing} of {checked} are here and the ones that the rows name; the others are elsewhere"
        return Step(name, "passed" if checked > missing else "not checked", finding)
    finding = f"{checked} predictions, samples, journals and manifests are the ones the rows name"
    return Step(name, "passed", finding, command=foreign.MEASURED_FILES)


def named_files(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """(path in the campaign, SHA-256) of the files that a row names."""
    for reference in (attempt.predictions, attempt.memory_timeline, attempt.journal):
        if reference is not None:
            yield reference.path, reference.sha256
    if attempt.manifest_sha256 is not None:
        yield f"records/manifests/{attempt.manifest_sha256}.json", attempt.manifest_sha256


def check_model_files(campaign: Campaign) -> Step:
    """The model in the campaign folder is the frozen one; it is not in the signed list, but in the lock (MO-19)."""
    name = "model"
    folder = model_folder(campaign)
    if folder is None:
        return Step(name, "not checked", "the model is not in this folder; the lock holds the hashes of its files")
    changes = model_changes(campaign, read_lock(campaign))
    if changes:
        found = tuple(f"{folder}/{str(change).removeprefix('model file ')}" for change in changes)
        return Step(name, "failed", "its files are not the frozen ones", found, command=foreign.model_command(folder))
    finding = f"{len(read_lock(campaign).judgement.model_files)} files are the frozen ones"
    return Step(name, "passed", finding, command=foreign.model_command(folder))


def check_templates(campaign: Campaign) -> Step:
    """Words that a maker's own templates add follow from nothing: they are named, not judged."""
    name = "templates"
    if not campaign.templates.is_dir():
        return Step(name, "not checked", "no templates in this folder: those of this installation are used")
    own, found = _contents(OWN_TEMPLATES), _contents(campaign.templates)
    unused = {f"locale/{path.name}" for path in (campaign.templates / "locale").glob("*.po")}
    unused |= {name for name in own if name.startswith("locale/")}
    unused -= {f"locale/{standing_language(campaign)}.po"}
    own, found = ({name: sha for name, sha in files.items() if name not in unused} for files in (own, found))
    changed = [path for path in sorted(own.keys() | found.keys()) if own.get(path) != found.get(path)]
    if changed and (made_by := other_code(campaign)) is not None:
        finding = (
            f"not compared: they came with {made_by}, another version than this one ({THIS_CODE}); balance and "
            "decision above do not depend on them"
        )
        return Step(name, "not checked", finding, command=foreign.TEMPLATES)
    if not changed:
        finding = f"as they come with {THIS_CODE}: every sentence of the note is the tool's"
        return Step(name, "passed", finding, command=foreign.TEMPLATES)
    if len(changed) == 1:
        finding = (
            f"1 is not that of {THIS_CODE}: sentences that it adds or leaves out are its maker's words; balance and "
            "decision above do not depend on it"
        )
    else:
        finding = (
            f"{len(changed)} are not those of {THIS_CODE}: sentences that they add or leave out are their maker's "
            "words; balance and decision above do not depend on them"
        )
    return Step(
        name, "not checked", finding, tuple(f"templates/{path}: differs" for path in changed), foreign.TEMPLATES
    )


def _contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): sha256_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and "__pycache__" not in path.parts
    }


def unsigned_payload(names: frozenset[str], campaign: Campaign, known: frozenset[str]) -> tuple[str, ...]:
    """Files of an archive that belong to no part of it: neither note, rental record nor the frozen model."""
    folder = model_folder(campaign)
    frozen = {file.path for file in read_lock(campaign).judgement.model_files}
    model = {f"{folder}/{path}" for path in frozen}
    documents = {name for name in names if folder and name.startswith(f"{folder}/")} - model
    return tuple(
        f"{show_value(name)}: in the archive, yet neither signed with the note nor part of the model"
        for name in sorted(names - known - model - documents)
    )
