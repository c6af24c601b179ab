"""The evidence inside the PDF: which files, in which form, and how to read them back (DESIGN section 7)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.protocol.schema import Lock

LARGE_BYTES = 5_000_000
MOST_SINGLE = 200
BUNDLE = "evidence.zip"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_FOR_PEOPLE = (
    "note/decision.json", "note/balance.json", "note/balance.csv", "note/attempts.csv",
    "note/attempts-spreadsheet.csv", "note/decision-note.qmd", "note/plan.ics", "note/signer.json",
)  # fmt: skip


@dataclass(frozen=True)
class Attached:
    """A file in the PDF: its path in the campaign, its bytes, and whether labels or predictions were left out."""

    path: str
    data: bytes

    @property
    def name(self) -> str:
        """Name in the PDF: no `/`, so that every viewer saves it where it is told to."""
        return self.path.replace("/", "~")


def evidence_files(campaign: Campaign, lock: Lock) -> tuple[tuple[Attached, ...], tuple[str, ...]]:
    """Files to attach, sorted by path, and the paths left out because they are too large.

    Labels (ids and labels, never the texts), baseline and predictions are attached together while all
    stay under 5 MB.
    """
    paths = [campaign.protocol, campaign.plan, campaign.lock, campaign.lock_signature, campaign.tariffs,
             campaign.repricing]  # fmt: skip
    for folder in (campaign.attempts, campaign.manifests, campaign.verdicts, campaign.paired, campaign.records / "exclusions",
                   campaign.records / "chain", campaign.protocol_dir / "locks", campaign.baseline_dir):  # fmt: skip
        paths += folder.glob("*.json")
    paths += [campaign.protocol_dir.parent / file.path for file in lock.judgement.evaluation_files
              if file.path.startswith("protocol/")]  # fmt: skip
    found = {campaign.relative(path): path.read_bytes() for path in paths if path.is_file()}
    for name in _FOR_PEOPLE:
        path = campaign.note / Path(name).name
        if path.is_file():
            found[name] = path.read_bytes()
    heavy = dict(_heavy(campaign, lock))
    size = sum(path.stat().st_size for path in heavy.values())
    left_out: tuple[str, ...] = ()
    if size + sum(len(data) for data in found.values()) < LARGE_BYTES:
        found |= {name: path.read_bytes() for name, path in heavy.items()}
    else:
        left_out = tuple(sorted(heavy))
    return _bundled([Attached(name, found[name]) for name in sorted(found)]), left_out


def _heavy(campaign: Campaign, lock: Lock) -> Iterable[tuple[str, Path]]:
    for corpus in lock.judgement.corpora:
        for file in (corpus.reference, corpus.baseline):
            if file is None:
                continue
            for path in (campaign.protocol_dir / file.path, campaign.root / file.path):
                if path.is_file() and path.resolve().is_relative_to(campaign.root.resolve()):
                    yield campaign.relative(path), path
                    break
    for path in sorted(campaign.predictions.glob("*.parquet")):
        yield campaign.relative(path), path


def _bundled(files: list[Attached]) -> tuple[Attached, ...]:
    """Many records become one zip with fixed times; what people open first stays on its own."""
    if len(files) <= MOST_SINGLE:
        return tuple(files)
    singles = [file for file in files if not file.path.startswith(("records/", "verdicts/"))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for file in files:
            if file.path.startswith(("records/", "verdicts/")):
                entry = zipfile.ZipInfo(file.path, _ZIP_TIME)
                entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
                bundle.writestr(entry, file.data)
    return tuple(sorted([*singles, Attached(BUNDLE, out.getvalue())], key=lambda file: file.path))


def attached_files(pdf: Path) -> dict[str, bytes]:
    """What a note's PDF carries: campaign path -> bytes. Names that leave a folder are refused."""
    import pikepdf

    try:
        with pikepdf.open(pdf) as document:
            found = {
                (spec.description or name): spec.get_file().read_bytes()
                for name, spec in document.attachments.items()
            }
    except (pikepdf.PdfError, OSError) as error:
        raise InputRefused(f"not a readable PDF: {error}", file=pdf) from None
    if BUNDLE in found:
        found |= _unbundle(found.pop(BUNDLE), pdf)
    for name in found:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name:
            raise InputRefused("an attachment's name leaves the campaign folder", file=pdf, value=name)
    return found


def _unbundle(data: bytes, pdf: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            return {entry.filename: bundle.read(entry) for entry in bundle.infolist() if not entry.is_dir()}
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise InputRefused(f"{BUNDLE} in the PDF cannot be read: {error}", file=pdf) from None
