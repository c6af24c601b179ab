"""What lies in a campaign folder and belongs to no note: files beside the evidence, and private keys anywhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from runner.errors import show_text
from runner.evidence.campaign import Campaign
from runner.evidence.checks import Signer, read_signer
from runner.evidence.signing import public_half
from runner.flows import foreign
from runner.flows.inventory import model_folder_name, of_no_lock
from runner.flows.verification import Step
from runner.seal.pdfkey import certificate_in
from runner.seal.sums import evidence_places

NAME = "other files"
_MOST_SHOWN = 12
_MOST_KEY_BYTES = 100_000
_KEY_SUFFIXES = (".p12", ".pfx")
_KEY_MARK = b"PRIVATE KEY-----"


def check_strays(campaign: Campaign, known: frozenset[str] = frozenset(), *, who: bool = False) -> Step:
    """Names what no signature covers, without judging it; `known`: what an archive holds beside the note.

    A private key among it makes signatures of that key worthless, because everybody who gets the folder has it: where
    it is a key of this note and it was asked `who` signed, the answer cannot be accepted.
    """
    places = {name for name, _ in evidence_places(campaign)}
    beside = sorted(
        f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
        for entry in os.scandir(campaign.root)
        if entry.name not in places | known
    )
    beside += sorted(_of_another(campaign))
    keys = sorted(_private_keys(campaign))
    shown = ", ".join(show_text(name) for name in beside[:_MOST_SHOWN])
    more = f" and {len(beside) - _MOST_SHOWN} more" if len(beside) > _MOST_SHOWN else ""
    remarks = (f"covered by no signature and not read: {shown}{more}",) if beside else ()
    if keys:
        found = tuple(f"{show_text(name)}: a private key" for name in keys)
        finding = "private keys travel with this folder: whoever gets it can sign in their name; delete them"
        signer = read_signer(campaign)
        if who and signer is not None and any(_is_of(signer, campaign.root / name) for name in keys):
            finding = "the private key of this note's signature travels with it, so anybody may have signed"
            return Step(NAME, "failed", finding, (*found, *remarks), foreign.PRIVATE_KEYS)
        return Step(NAME, "not checked", finding, (*found, *remarks), foreign.PRIVATE_KEYS)
    finding = "no private key among them" if beside else "nothing lies beside the evidence, and no private key in it"
    return Step(NAME, "passed", finding, remarks, foreign.PRIVATE_KEYS)


def _of_another(campaign: Campaign) -> Iterator[str]:
    """Corpora and models below `protocol/` that no lock of this campaign names: a folder of a model by its name."""
    foreign = of_no_lock(campaign)
    waiting = ["protocol"]
    while waiting:
        for entry in os.scandir(campaign.root / waiting.pop()):
            relative = Path(entry.path).relative_to(campaign.root).as_posix()
            is_folder = entry.is_dir(follow_symlinks=False)
            if foreign(relative):
                yield f"{relative}/" if is_folder else relative
            elif is_folder:
                waiting.append(relative)


def _is_of(signer: Signer, path: Path) -> bool:
    data = path.read_bytes()
    return public_half(data) == signer.public_key or certificate_in(data) == signer.pdf_certificate_sha256


def _private_keys(campaign: Campaign) -> Iterator[str]:
    """Small plain files that are keys by their name or first bytes; the model's folder is left alone."""
    model = model_folder_name(campaign)
    waiting = [(name, place) for name, place in evidence_places(campaign) if os.path.lexists(place)]
    waiting += [(entry.name, Path(entry.path)) for entry in os.scandir(campaign.root) if entry.is_file()]
    for name, place in dict(waiting).items():
        yield from _keys_below(name, place, model)


def _keys_below(relative: str, place: Path, model: str | None) -> Iterator[str]:
    status = place.lstat()
    if stat.S_ISDIR(status.st_mode):
        if relative != model:
            for entry in sorted(os.scandir(place), key=lambda one: one.name):
                yield from _keys_below(f"{relative}/{entry.name}", Path(entry.path), model)
    elif stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_KEY_BYTES:
        if relative.lower().endswith(_KEY_SUFFIXES):
            yield relative
            return
        with place.open("rb") as stream:
            first = stream.readline(200)
        if first.startswith(b"-----BEGIN ") and _KEY_MARK in first:
            yield relative
