"""Put a corpus that `runner corpus` built into protocol and plan, in place of the one that stands there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import load_json_file
from runner.evidence.files import write_atomic
from runner.protocol.edit import LEFT_OUT, edited
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import Protocol
from runner.protocol.shipped import FILL_IN_LICENCE, FILL_IN_PERMISSION
from runner.protocol.start import checked_text
from runner.protocol.toml import Place, read_toml


@dataclass(frozen=True)
class Adopted:
    """What was put in, and what the user must still decide."""

    old_id: str
    new_id: str
    changed: tuple[str, ...]
    still_open: tuple[str, ...]


def adopt_corpus(campaign: Campaign, name: str, replace: str | None = None) -> Adopted:
    """`name`: a folder below `protocol/corpus/` (or below `protocol/`) with its `corpus.json`.

    `replace`: id of the corpus whose place it takes; not needed while the protocol has one. Refused: a
    frozen protocol (a new corpus is then a new revision), subgroups that the new corpus has no column
    or no document for.
    """
    if campaign.lock.exists():
        raise InputRefused(
            "the protocol is frozen",
            file=campaign.lock,
            next_step="runner protocol revise --corpus FILE sets up the next revision on a new corpus",
        )
    folder = _folder(campaign, name)
    facts = _facts(folder)
    protocol, plan = read_protocol(campaign.protocol), read_plan(campaign.plan)
    index = _index(protocol, replace)
    old = protocol.corpus[index]
    relative = folder.relative_to(campaign.protocol_dir).as_posix()
    has_tuning = "tuning" in facts["splits"]
    new_id = facts["name"]
    values: dict[str, object] = {
        "id": new_id,
        "final": f"{relative}/final.csv",
        "tuning": f"{relative}/tuning.csv" if has_tuning else LEFT_OUT,
        "id_column": "id",
        "text_column": "text",
        "label_column": "label",
        "group_columns": ("stratum", *facts.get("group_columns", ())),
        "licence": facts["licence"] or FILL_IN_LICENCE,
        "permission": facts["permission"] or FILL_IN_PERMISSION,
    }
    changes: dict[Place, object] = {("corpus", index, key): value for key, value in values.items()}
    if protocol.question.synthetic:
        changes["question", "synthetic"] = False
    document = read_toml(campaign.protocol, what="quality protocol")
    text = edited(document, changes)
    checked_text(campaign, text)
    _check_subgroups(campaign, protocol, facts)
    plan_changes: dict[Place, object] = {
        ("deliverables",): tuple(new_id if item == old.id else item for item in plan.deliverables)
    }
    plan_changes |= {
        ("task", number, "corpus"): new_id for number, task in enumerate(plan.task) if task.corpus == old.id
    }
    plan_text = edited(read_toml(campaign.plan, what="plan"), plan_changes)
    write_atomic(campaign.plan, plan_text.encode("utf-8"))
    write_atomic(campaign.protocol, text.encode("utf-8"))
    changed = [f"corpus {old.id} -> {new_id} in protocol and plan"]
    if old.tuning is not None and not has_tuning:
        changed.append(f"the line tuning = {show_value(old.tuning)} is gone: the new corpus has no tuning split")
    if protocol.question.synthetic:
        changed.append("question.synthetic is false now: set it back if your texts are made up")
    return Adopted(old.id, new_id, tuple(changed), tuple(_open(protocol, facts)))


def _open(protocol: Protocol, facts: dict[str, Any]) -> list[str]:
    """What no machine can know."""
    found = []
    if not facts["licence"] or not facts["permission"]:
        found.append("licence and permission under [[corpus]]: terms of the texts, and why you may use them")
    if protocol.question.synthetic:
        found.append("name and text under [question]")
    found.append(
        "[model] with its revision, unless it is yours already; its labels must be those of the corpus: "
        + ", ".join(show_value(label) for label in list(facts["splits"]["final"]["classes"])[:12])
    )
    found.append("threshold, max_drop, min_agreement and the subgroups' minimum under [quality]")
    found.append("[[series]]: what is compared, such as the batch sizes")
    found.append("calendar, zone and deadline in protocol/plan.toml")
    return found


def _folder(campaign: Campaign, name: str) -> Path:
    for candidate in (campaign.protocol_dir / "corpus" / name, campaign.protocol_dir / name, Path(name)):
        if (candidate / "corpus.json").is_file():
            if not candidate.resolve().is_relative_to(campaign.protocol_dir.resolve()):
                raise InputRefused(
                    "the corpus must lie below protocol/",
                    file=candidate,
                    next_step="build it there: runner corpus --from FILE, without --out",
                )
            return campaign.protocol_dir / candidate.resolve().relative_to(campaign.protocol_dir.resolve())
    raise InputRefused(
        "there is no built corpus of that name",
        file=campaign.protocol_dir / "corpus" / name / "corpus.json",
        next_step="runner corpus --from FILE builds one",
    )


def _facts(folder: Path) -> dict[str, Any]:
    file = folder / "corpus.json"
    facts = load_json_file(file)
    if not isinstance(facts, dict) or facts.get("schema_version") != "corpus-build/1":
        raise InputRefused("not the description of a built corpus", file=file, next_step="runner corpus --from FILE")
    splits = facts.get("splits")
    final = splits.get("final") if isinstance(splits, dict) else None
    final = final if isinstance(final, dict) else {}
    missing = [name for name in ("name", "licence", "permission") if not isinstance(facts.get(name), str)]
    missing += [f"splits.final.{name}" for name in ("strata", "classes") if not isinstance(final.get(name), dict)]
    if missing:
        raise InputRefused(
            "the description of the built corpus is not whole",
            file=file,
            column=missing[0],
            details=tuple(f"missing, or of another kind: {name}" for name in missing),
            next_step="build it again: runner corpus --from FILE --replace",
        )
    return facts


def _index(protocol: Protocol, replace: str | None) -> int:
    ids = [corpus.id for corpus in protocol.corpus]
    if replace is None and len(ids) == 1:
        return 0
    if replace not in ids:
        raise InputRefused(
            "which corpus does it replace?" if replace is None else "the protocol has no corpus of that id",
            column="--in-place-of",
            value=replace,
            next_step=f"--in-place-of {ids[0]} (there are {', '.join(ids)})",
        )
    return ids.index(replace)


def _check_subgroups(campaign: Campaign, protocol: Protocol, facts: dict[str, Any]) -> None:
    """Subgroups on strata can be checked here; others are checked at the freeze."""
    strata = facts["splits"]["final"]["strata"]
    for number, group in enumerate(protocol.quality.subgroup):
        if group.column == "stratum" and group.value not in strata:
            raise InputRefused(
                f"the planned subgroup stratum={show_value(group.value)} has no document in the new corpus",
                file=campaign.protocol,
                column=f"quality.subgroup[{number + 1}]",
                value=group.value,
                details=(f"strata there: {', '.join(show_value(name) for name in strata)}",),
                next_step="change or take out that subgroup, then run the command again",
            )
