"""The lab folder (M49): what somebody needs who works by hand or on a machine without this project."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from string import Template

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_bytes
from runner.evidence.files import write_atomic
from runner.measure.plan_sheet import BLANK_COLUMNS, PLANNED_COLUMNS, sheet_rows
from runner.measure.schedule import schedule
from runner.pricing import core
from runner.pricing.tariffs import load_catalogue
from runner.protocol.freeze import load_lock
from runner.protocol.judgement import read_final
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import LockedVariant, Plan, Protocol
from runner.protocol.variants import expand

SHEET = "attempts.csv"
_PROJECT = Path(__file__).resolve().parents[2]
_MEMORY_FILES = (("memory.py", "runner/measure/exercise.py"), ("memory.ipynb", "docs/memory.ipynb"))


@dataclass(frozen=True)
class Lab:
    """The folder that was written and its files, by name."""

    folder: Path
    files: tuple[str, ...]
    attempts: int


def make_lab(campaign: Campaign, folder: Path | None = None) -> Lab:
    """Write the folder (default: `lab/` of the campaign). A sheet that somebody filled in is never replaced."""
    folder = folder or campaign.root / "lab"
    protocol, plan = read_protocol(campaign.protocol), read_plan(campaign.plan)
    load_catalogue(campaign.tariffs)  # a tariffs file that cannot be used is not handed on
    sheet, attempts = _blank_sheet(campaign, protocol)
    files = {
        SHEET: sheet,
        "LICENSE": (_PROJECT / "LICENSE").read_bytes(),
        "price.py": Path(core.__file__).read_bytes(),
        "quality-protocol.toml": campaign.protocol.read_bytes(),
        "tariffs.csv": campaign.tariffs.read_bytes(),
    }
    files |= {name: (_PROJECT / place).read_bytes() for name, place in _MEMORY_FILES if (_PROJECT / place).is_file()}
    files["README.md"] = _instructions(campaign, protocol, plan, "memory.py" in files).encode("utf-8")
    sums = "".join(f"{sha256_bytes(data)}  {name}\n" for name, data in sorted(files.items()) if name != SHEET)
    files["SHA256SUMS"] = sums.encode("ascii")
    _keep_what_was_filled_in(folder / SHEET, sheet)
    for name, data in files.items():
        write_atomic(folder / name, data)
    return Lab(folder, tuple(sorted(files)), attempts)


def _keep_what_was_filled_in(path: Path, blank: bytes) -> None:
    if path.is_file() and path.read_bytes() != blank:
        raise InputRefused(
            "the sheet of attempts is not blank any more, or belongs to another protocol: it is not replaced",
            file=path,
            next_step="move it away, or choose another folder with --out",
        )


def _blank_sheet(campaign: Campaign, protocol: Protocol) -> tuple[bytes, int]:
    """All planned attempts with empty performance cells (M48), of the lock or, before the freeze, of the protocol."""
    variants, documents = _planned(campaign, protocol)
    rule = protocol.measurement
    planned = list(schedule(variants, list(documents), rule.seeds, rule.passes_planned))
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, (*PLANNED_COLUMNS, *BLANK_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet_rows(planned, documents))
    return stream.getvalue().encode("utf-8"), len(planned)


def _planned(campaign: Campaign, protocol: Protocol) -> tuple[tuple[LockedVariant, ...], dict[str, int]]:
    if campaign.lock.is_file():
        lock = load_lock(campaign)
        return lock.variants, {corpus.id: corpus.documents for corpus in lock.judgement.corpora}
    documents = {files.id: len(read_final(campaign, files).documents) for files in protocol.corpus}
    return expand(protocol), documents


def _instructions(campaign: Campaign, protocol: Protocol, plan: Plan, memory: bool) -> str:
    own = campaign.templates / "lab.md"
    template = own if own.is_file() else _PROJECT / "templates" / "lab.md"
    memory_row = "| `memory.py`, `memory.ipynb` | a model's memory, estimated and observed |\n"
    values = {
        "name": protocol.question.name,
        "revision": str(protocol.question.revision),
        "question": protocol.question.text,
        "checks": "\n".join(_checks(protocol)),
        "memory_row": memory_row if memory else "",
        "min_accepted": str(protocol.measurement.min_accepted),
        "passes_planned": str(protocol.measurement.passes_planned),
        "deadline": f"{plan.deadline}, {plan.zone}",
    }
    try:
        return Template(template.read_text(encoding="utf-8")).substitute(values)
    except (KeyError, ValueError) as error:
        raise InputRefused(
            f"the lab template cannot be filled: {error}",
            file=template,
            next_step="put the shipped marks ($name) back, or remove your copy: the shipped lab.md is taken then",
        ) from None


def _checks(protocol: Protocol) -> list[str]:
    """The frozen checks as a list for people; the protocol is the authority."""
    quality = protocol.quality
    lines = [
        "- exactly the expected ids, each once; every row with a label of the model; finite scores",
        f"- {protocol.metric_name()} at least {quality.threshold}",
        f"- at most {quality.max_drop} below the {protocol.metric_name()} of the reference predictions",
        f"- at least {quality.min_agreement} of the labels equal to the reference predictions",
    ]
    lines += [
        f"- {protocol.metric_name(group.metric)} at least {group.minimum} where {group.column} = {group.value}"
        for group in quality.subgroup
    ]
    if quality.max_flips is not None:
        lines.append(f"- at most {quality.max_flips} labels other than the reference predictions")
    return lines
