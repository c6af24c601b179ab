"""`runner reprice`: new prices for measurements that are already there; a new note, linked to the old one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.decide.model import Balance, Decision
from runner.errors import InputRefused, NotAccepted
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.checks import note_id
from runner.evidence.files import write_atomic
from runner.evidence.repricing import Repricing, read_repricing
from runner.flows.foreign import shell_word
from runner.flows.report import make_report
from runner.flows.source import open_campaign
from runner.flows.verify import verify
from runner.pricing.tariffs import load_catalogue

# What was decided before and what was measured; the note itself, keys and archives stay behind.
_COPIED = ("protocol", "records", "verdicts", "templates")


@dataclass(frozen=True)
class Repriced:
    """Folder and id of the new note, the link to the old one, and the new decision."""

    folder: Path
    note_id: str
    link: Repricing
    decision: Decision
    committed_cost: str | None
    currency: str | None


def reprice(
    source: Path, tariffs: Path, target: Path, language: str = "en", environ: Mapping[str, str] = os.environ
) -> Repriced:
    """Decide the campaign of a folder or archive again under other tariffs, in a new folder.

    Refused: tariffs that cannot be used or are the same, a target that is not empty. Not accepted
    (exit 3): a source whose note does not pass `verify`, since a repriced note is only as good as it.
    """
    load_catalogue(tariffs)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputRefused(
            "the repriced campaign needs an empty or a new folder",
            file=target,
            next_step="name a folder that does not exist yet",
        )
    found = verify(source)
    if not found.accepted:
        raise NotAccepted(
            "the note to be repriced does not pass its own check",
            file=source,
            next_step=f"runner verify {shell_word(str(source))}",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".reprice-", dir=target.parent))
    try:
        new = Campaign(staging)
        with open_campaign(source) as old:
            link = _link(old)
            if sha256_file(tariffs) == link.tariffs_sha256:
                raise InputRefused(
                    "these are the tariffs of the note already: nothing would change",
                    file=tariffs,
                    next_step="name a file with other prices: --tariffs new.csv",
                )
            _copy(old, new)
        shutil.copyfile(tariffs, new.tariffs)
        write_atomic(new.repricing, link.dump())
        made = make_report(new, language, environ, verified=True)  # by `verify` above: no foreign code runs unasked
        cost, currency = _cost(new, made.decision)
        if target.exists():
            target.rmdir()
        staging.chmod(0o755)
        os.replace(staging, target)  # noqa: PTH105 (a folder, and it must not exist any more)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Repriced(target, made.note_id, link, made.decision, cost, currency)


def _link(old: Campaign) -> Repricing:
    decision, before = Decision.load(old.decision), read_repricing(old)
    cost, currency = _cost(old, decision)
    return Repricing(
        note_id=note_id(old),
        earlier_note_ids=() if before is None else (*before.earlier_note_ids, before.note_id),
        tariffs_sha256=sha256_file(old.tariffs),
        outcome=decision.outcome,
        chosen=decision.chosen,
        committed_cost=cost,
        currency=currency,
    )


def _cost(campaign: Campaign, decision: Decision) -> tuple[str | None, str | None]:
    rows = [row for row in Balance.load(campaign.balance).rows if row.configuration_id == decision.chosen]
    return (rows[0].committed_cost, rows[0].currency) if rows else (None, None)


def _copy(old: Campaign, new: Campaign) -> None:
    def left_behind(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name == ".lock" or Path(folder, name) == old.protocol_dir / "keys"]

    for name in _COPIED:
        if (old.root / name).is_dir():
            shutil.copytree(old.root / name, new.root / name, ignore=left_behind)
