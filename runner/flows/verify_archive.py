"""`runner verify` of an archive: packed, packed again by another tool, or unpacked."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path
from typing import Protocol

from runner.evidence.campaign import Campaign
from runner.evidence.checks import SIGNED_LIST, SIGNED_LIST_SIGNATURE
from runner.evidence.signing import Purpose, check_signature
from runner.flows import integrity, inventory
from runner.flows.archive import match_decision
from runner.flows.foreign import shell_word
from runner.flows.source import unpack
from runner.flows.verification import Step, Verification, attempt_step, with_causes
from runner.pricing.rental import read_rental
from runner.seal.bag import LEFT_OUT, PAYLOAD, RENTAL, SIGNATURE, SIGNED, Bag, OpenBag, left_out_files, open_bag
from runner.seal.container import MOST_BYTES, MOST_FILES, read_loosely

_NAME = "archive"
_DECLARATION = "bagit.txt"


class FolderSteps(Protocol):
    """The checks of a campaign folder (`runner.flows.verify`)."""

    def __call__(
        self,
        campaign: Campaign,
        signers: Path | None,
        left_out: frozenset[str] = ...,
        *,
        rebuild: bool = ...,
        archived: bool = ...,
    ) -> tuple[integrity.ListCheck, tuple[Step, ...]]: ...


def is_unpacked_archive(path: Path) -> bool:
    """A folder such as unpacking an archive makes."""
    return (path / _DECLARATION).is_file() and (path / PAYLOAD).is_dir()


def verify_archive(
    path: Path, signers: Path | None, folder_steps: FolderSteps, *, rebuild: bool = False
) -> Verification:
    """The archive's own manifests and signature, then everything inside it, in a temporary folder.

    Packed again by another tool it is not accepted, since nothing covers the bytes of that container; what it
    holds is checked all the same, so that every file that differs is named.
    """
    files, why = read_loosely(path)
    found = open_bag(files, path)
    with tempfile.TemporaryDirectory(prefix="runner-verify-") as folder:
        campaign = Campaign(Path(folder))
        unpack(found.bag.payload, campaign.root)
        return _verification(path, campaign, found, signers, folder_steps, repacked=why, rebuild=rebuild)


def verify_unpacked(
    path: Path, signers: Path | None, folder_steps: FolderSteps, *, rebuild: bool = False
) -> Verification:
    """The same for the folder that unpacking makes: all but the ZIP container."""
    files, odd = _read_folder(path)
    if odd:
        step = Step(_NAME, "failed", "nothing was read: it holds links, pipes or devices, or too much", odd)
        rest = Step("everything else", "not checked", "reading could hang or leave the folder; remove these first")
        return Verification(str(path), "archive", None, None, False, (step, rest))
    found = open_bag(files, path)
    return _verification(path, Campaign(path / PAYLOAD), found, signers, folder_steps, repacked=None, rebuild=rebuild)


def _verification(
    path: Path,
    campaign: Campaign,
    found: OpenBag,
    signers: Path | None,
    folder_steps: FolderSteps,
    *,
    repacked: str | None,
    rebuild: bool,
) -> Verification:
    step, signer = _bag_step(found, signers, repacked)
    listed, inside = folder_steps(campaign, signers, left_out_files(found.bag), rebuild=rebuild, archived=True)
    last = (
        attempt_step("rental record", lambda: _rental_step(campaign), campaign.root),
        attempt_step("rest of the archive", lambda: _rest_step(found.bag, campaign, listed), campaign.root),
    )
    return Verification(
        str(path),
        "archive",
        found.bag.info.get("External-Identifier"),
        listed.signed.key if listed.signed else None,
        signer is not None and listed.signer is not None,
        with_causes((step, *inside, *last)),
    )


def _read_folder(path: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Files by name, below the name of the folder; and what was not read: no plain file, or too much."""
    files: dict[str, bytes] = {}
    odd: list[str] = []
    size = 0
    waiting = [path]
    while waiting:
        for place in sorted(waiting.pop().iterdir()):
            relative = place.relative_to(path).as_posix()
            status = place.lstat()
            if stat.S_ISDIR(status.st_mode):
                waiting.append(place)
            elif not stat.S_ISREG(status.st_mode):
                odd.append(f"{relative}: no plain file")
            else:
                size += status.st_size
                if size > MOST_BYTES or len(files) >= MOST_FILES:
                    return {}, (f"more than {MOST_FILES} files or {MOST_BYTES} bytes",)
                files[f"bag/{relative}"] = place.read_bytes()
    return files, tuple(odd)


def _bag_step(found: OpenBag, signers: Path | None, repacked: str | None) -> tuple[Step, str | None]:
    bag = found.bag
    command = f"sha256sum -c manifest-sha256.txt && sha256sum -c {SIGNED}   (in the folder that holds data/)"
    if found.what is not None:
        changed = tuple(
            name.split(": ", 1)[0].removeprefix(PAYLOAD) for name in found.findings if name.startswith(PAYLOAD)
        )
        return Step(_NAME, "failed", found.what, found.findings, command, files=changed), None
    signed = check_signature(bag.signed, bag.signature, Purpose.BAG, signers)
    if not signed.valid:
        return Step(_NAME, "failed", f"{SIGNATURE}: {signed.reason}", command=command), None
    who = f"made by {signed.signer}" if signed.signer else f"key {signed.fingerprint}; who signed was not checked"
    if repacked is not None:
        finding = f"packed by another tool than ours ({repacked}): nothing covers the bytes of this ZIP file itself"
        good = (
            f"its {len(bag.payload)} files fit their manifests and the signature, {who}",
            f"unpack it and check the folder: runner verify {shell_word(bag.name)}; or ask for the original file",
        )
        return Step(_NAME, "failed", finding, good, command), signed.signer
    finding = f"{len(bag.payload)} files, each byte of the archive covered by its signature, {who}"
    return Step(_NAME, "passed", finding, command=command), signed.signer


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
