"""`runner again`: set up the same experiment in a new folder, for a new model or version (M47)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.flows.foreign import shell_word
from runner.flows.note_state import note_state
from runner.flows.source import open_campaign
from runner.note.build import OWN_TEMPLATES
from runner.protocol.modelfiles import frozen_model
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import Lock
from runner.protocol.toml import read_toml

_RENTAL_EXAMPLE = "rental.example.toml"


@dataclass(frozen=True)
class SetUpAgain:
    """The new folder, what it was made from, and what is still to be done before the freeze."""

    folder: Path
    note_id: str
    missing: tuple[str, ...]
    next_steps: tuple[str, ...]


def set_up_again(source: Path, target: Path, *, model: str | None = None, revision: str | None = None) -> SetUpAgain:
    """Copy protocol, plan, corpora, tariffs and templates of a campaign or archive; nothing measured comes along.

    The judgement stays, the nonce will be new, and every corpus is marked as seen before. With `model`
    (a folder below the new `protocol/`, an absolute path, or a hub id with `revision`) the baseline is
    left behind: it belongs to the model before.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputRefused(
            "the new campaign needs an empty or a new folder",
            file=target,
            next_step="name a folder that does not exist yet",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_campaign(source) as old:
        lock = Lock.load(old.lock)
        state = note_state(old)
        identity = state.signed_id or state.decision_id
        staging = Path(tempfile.mkdtemp(prefix=".again-", dir=target.parent))
        try:
            new = Campaign(staging)
            missing = _copy(old, new, lock, keep_model=model is None)
            text = _edited_protocol(old.protocol, identity, model, revision)
            new.protocol.write_text(text, encoding="utf-8")
            read_protocol(new.protocol)
            if target.exists():
                target.rmdir()
            staging.chmod(0o755)
            os.replace(staging, target)  # noqa: PTH105 (a folder, and it must not exist any more)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return SetUpAgain(target, identity, missing, tuple(_next_steps(Campaign(target), missing, model)))


def _copy(old: Campaign, new: Campaign, lock: Lock, *, keep_model: bool) -> tuple[str, ...]:
    """Copy what the experiment consists of; tells what the source does not hold, with its fingerprint."""
    missing = []
    new.protocol_dir.mkdir(parents=True)
    shutil.copyfile(old.plan, new.plan)
    shutil.copyfile(old.tariffs, new.tariffs)
    if old.templates.is_dir():
        shutil.copytree(old.templates, new.templates)
    # No archive holds it, since no rental record belongs to a note; whoever archives again starts from it.
    for folder in (old.protocol_dir, OWN_TEMPLATES.parent / "protocol"):
        if (folder / _RENTAL_EXAMPLE).is_file():
            shutil.copyfile(folder / _RENTAL_EXAMPLE, new.protocol_dir / _RENTAL_EXAMPLE)
            break
    for corpus in lock.judgement.corpora:
        for file in (*corpus.final, *corpus.tuning):
            if not _copy_file(old, new, file.path):
                missing.append(f"{file.path} (the texts, sha256 {file.sha256})")
        if keep_model and old.baseline_dir.is_dir():
            shutil.copytree(old.baseline_dir, new.baseline_dir, dirs_exist_ok=True)
    source = PurePosixPath(frozen_model(old, lock).source)
    if keep_model and not source.is_absolute() and ".." not in source.parts and lock.judgement.model_revision is None:
        folder = old.protocol_dir / source
        if folder.is_dir():
            shutil.copytree(folder, new.protocol_dir / source)
        else:
            missing.append(f"protocol/{source} (the model; the lock of the note names its files)")
    return tuple(missing)


def _copy_file(old: Campaign, new: Campaign, relative: str) -> bool:
    path = old.inside(relative)
    if not path.is_file():
        return False
    target = new.inside(relative)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    return True


def _edited_protocol(path: Path, identity: str, model: str | None, revision: str | None) -> str:
    """The protocol's text with its comments, every corpus marked as seen before, another model if wanted."""
    document = read_toml(path, what="quality protocol")
    lines = path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n")
    edits: dict[int, list[str] | None] = {}
    for index in range(len(document.data["corpus"])):
        known = document.lines.get(("corpus", index, "seen_before"))
        place = known or document.lines[("corpus", index)]
        old_line = [] if known else [lines[place - 1]]
        edits[place] = [*old_line, f"seen_before = true  # in the note {identity}"]
    if model is not None:
        edits |= _model_edits(document.lines, lines, model, revision)
    edited = [f"# Set up again from the note {identity}: same judgement, new freeze."]
    for number, line in enumerate(lines, start=1):
        edited += edits.get(number, [line]) or []
    return "\n".join(edited)


def _model_edits(
    places: dict[tuple[str | int, ...], int], lines: list[str], model: str, revision: str | None
) -> dict[int, list[str] | None]:
    source = places[("model", "source")]
    known = places.get(("model", "revision"))
    named = [] if revision is None else [f"revision = {json.dumps(revision)}"]
    edits: dict[int, list[str] | None] = {source: [f"source = {json.dumps(model)}", *named]}
    if known is not None:
        edits[known] = None
    if "=" not in lines[source - 1]:
        raise InputRefused(
            "the model's source is not written on a line of its own",
            line=source,
            next_step='write source = "..." on a line of its own under [model], or leave out --model',
        )
    return edits


def _next_steps(new: Campaign, missing: tuple[str, ...], model: str | None) -> Iterator[str]:
    plan = read_plan(new.plan)
    yield from (f"put back {what}" for what in missing)
    root = shell_word(str(new.root))
    yield f"set the deadline and the dates in {new.plan} (deadline now: {show_value(plan.deadline)})"
    if model is not None:
        yield f"runner --campaign {root} baseline   (the model is another one)"
    yield f"runner --campaign {root} freeze"
    yield f"runner --campaign {root} measure --gpu NAME"
    yield "this folder holds no code: call make and runner from the clone of this project"
    yield f"  with make: make freeze CAMPAIGN={root}, and so on; make help lists the targets"
    yield "  on a rental: copy the clone there, and this folder into it as again/, then make measure ... CAMPAIGN=again"
    yield f"  for the archive: cp {root}/protocol/{_RENTAL_EXAMPLE} {root}/rental.toml, then fill it in"
