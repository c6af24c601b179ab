"""The evidence inside the PDF: which files, in which form, and how to read them back (DESIGN section 7)."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.checks import ATTACHED_LIST, ATTACHED_LIST_SIGNATURE
from runner.protocol.schema import Lock

LARGE_BYTES = 5_000_000
MOST_SINGLE = 200
MOST_BYTES = 500_000_000
BUNDLE = "evidence.zip"
_ANOTHER_PDF = "ask who made it for the PDF again, or for the archive; runner report in the campaign makes it anew"
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
    paths, left_out = evidence_paths(campaign, lock)
    return _bundled({name: paths[name] for name in sorted(paths)}), left_out


def evidence_paths(campaign: Campaign, lock: Lock) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Path in the campaign -> file, of everything that is attached; and the paths left out, sorted."""
    found: dict[str, Path] = {}
    paths = [campaign.protocol, campaign.plan, campaign.lock, campaign.lock_signature, campaign.tariffs,
             campaign.repricing]  # fmt: skip
    for folder in (campaign.attempts, campaign.manifests, campaign.verdicts, campaign.paired,
                   campaign.records / "exclusions", campaign.records / "chain", campaign.protocol_dir / "locks",
                   campaign.baseline_dir):  # fmt: skip
        found |= _folder(campaign, folder)
    paths += [campaign.protocol_dir.parent / file.path for file in lock.judgement.evaluation_files
              if file.path.startswith("protocol/")]  # fmt: skip
    paths += [campaign.note / Path(name).name for name in _FOR_PEOPLE]
    found |= {campaign.relative(path): path for path in paths if path.is_file()}
    heavy = dict(_heavy(campaign, lock))
    small = sum(path.stat().st_size for path in (*heavy.values(), *found.values())) < LARGE_BYTES
    # The list of what is attached comes last: whether it is there already must not change what it lists.
    lists = (campaign.note / Path(name).name for name in (ATTACHED_LIST, ATTACHED_LIST_SIGNATURE))
    found |= {campaign.relative(path): path for path in lists if path.is_file()}
    if small:
        return found | heavy, ()
    return found, tuple(sorted(heavy))


def _folder(campaign: Campaign, folder: Path) -> dict[str, Path]:
    """The folder's JSON files by their names in the campaign; a link is followed, and must stay inside."""
    if not folder.is_dir():
        return {}
    start = campaign.relative(folder)
    files = (path for path in folder.glob("*.json") if path.is_file())
    return {campaign.relative(path) if path.is_symlink() else f"{start}/{path.name}": path for path in files}


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


def _bundled(files: Mapping[str, Path]) -> tuple[Attached, ...]:
    """Many records become one zip with fixed times; what people open first stays on its own."""
    if len(files) <= MOST_SINGLE:
        return tuple(Attached(name, path.read_bytes()) for name, path in files.items())
    singles, out = [], io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for name, path in files.items():
            if name.startswith(("records/", "verdicts/")):
                entry = zipfile.ZipInfo(name, _ZIP_TIME)
                entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
                bundle.writestr(entry, path.read_bytes())
            else:
                singles.append(Attached(name, path.read_bytes()))
    return tuple(sorted([*singles, Attached(BUNDLE, out.getvalue())], key=lambda file: file.path))


def attached_files(pdf: Path) -> dict[str, bytes]:
    """What a note's PDF carries: campaign path -> bytes.

    Refused: names that leave a folder, two files of one name, a name that viewers show otherwise, and
    more than an evidence can be (a PDF comes from a stranger, and may unpack to much more than it is).
    """
    import pikepdf

    found: dict[str, bytes] = {}
    left = MOST_BYTES
    try:
        # From bytes: pikepdf takes no path that is not UTF-8.
        with pikepdf.open(io.BytesIO(pdf.read_bytes())) as document:
            for name, spec in document.attachments.items():
                path = spec.description or name
                if path in found or path.replace("/", "~") != name or spec.filename != name:
                    raise InputRefused(
                        "attachments share a name, or show another one", file=pdf, value=path, next_step=_ANOTHER_PDF
                    )
                found[path] = _content(spec.get_file().obj, left, pdf, path)
                left -= len(found[path])
    except (pikepdf.PdfError, OSError, ValueError) as error:
        raise InputRefused(f"not a readable PDF: {error}", file=pdf, next_step=_ANOTHER_PDF) from None
    if BUNDLE in found:
        for path, data in _unbundle(found.pop(BUNDLE), pdf):
            if path in found:
                raise InputRefused(
                    "attachments share a name, or show another one", file=pdf, value=path, next_step=_ANOTHER_PDF
                )
            found[path] = data
    for name in found:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name:
            raise InputRefused(
                "an attachment's name leaves the campaign folder", file=pdf, value=name, next_step=_ANOTHER_PDF
            )
    return found


def _content(stream: Any, most: int, pdf: Path, path: str) -> bytes:
    """Bytes of an embedded file, unpacked by ourselves so that it can be stopped."""
    kinds = stream.get("/Filter")
    packed: bytes = stream.read_raw_bytes()
    if kinds is None:
        return packed
    if str(kinds) != "/FlateDecode" or stream.get("/DecodeParms") is not None:
        raise InputRefused(
            "an attachment is packed in a way that this tool does not use", file=pdf, value=path, next_step=_ANOTHER_PDF
        )
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, most)
    except zlib.error as error:
        raise InputRefused(
            f"an attachment cannot be unpacked: {error}", file=pdf, value=path, next_step=_ANOTHER_PDF
        ) from None
    if unpacker.unconsumed_tail:
        raise InputRefused(
            f"the attachments are more than {MOST_BYTES} bytes", file=pdf, value=path, next_step=_ANOTHER_PDF
        )
    return data


def _unbundle(data: bytes, pdf: Path) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as bundle:
            for entry in bundle.infolist():
                with bundle.open(entry) as stream:
                    content = stream.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise InputRefused(
                        f"{BUNDLE} in the PDF holds more than {MOST_BYTES} bytes", file=pdf, next_step=_ANOTHER_PDF
                    )
                yield entry.filename, content
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise InputRefused(f"{BUNDLE} in the PDF cannot be read: {error}", file=pdf, next_step=_ANOTHER_PDF) from None
