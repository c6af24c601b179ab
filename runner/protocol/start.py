"""Start a quality protocol from a few answers, and lead an existing one to its next revision (M4)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.corpus.overlap import find_overlap
from runner.errors import InputRefused, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.protocol.describe import SCHEMA_NAME, schema_json
from runner.protocol.edit import edited, toml_value
from runner.protocol.judgement import read_final
from runner.protocol.lockfile import read_lock, revision
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import CorpusFiles, Protocol
from runner.protocol.shipped import FILL_IN_LICENCE, FILL_IN_PERMISSION
from runner.protocol.toml import Place, read_toml

_REVISED_ID = re.compile(r"-r[0-9]+$")


@dataclass(frozen=True)
class Answers:
    """What a protocol needs that has no default."""

    name: str
    text: str
    corpus: str
    model: str
    metric: str
    threshold: str
    max_drop: str
    min_agreement: str
    tuning: str | None = None
    model_revision: str | None = None
    batches: tuple[int, ...] = (1, 4, 8)
    group_columns: tuple[str, ...] = ()
    id_column: str = "id"
    text_column: str = "text"
    label_column: str = "label"
    licence: str | None = None
    permission: str | None = None


def protocol_text(answers: Answers) -> str:
    """The file, with the fields that most people will want to see."""
    corpus: list[tuple[str, object]] = [("id", f"{answers.name}-final"), ("final", answers.corpus)]
    if answers.tuning is not None:
        corpus.append(("tuning", answers.tuning))
    corpus += [
        ("id_column", answers.id_column),
        ("text_column", answers.text_column),
        ("label_column", answers.label_column),
        ("group_columns", answers.group_columns),
        ("licence", answers.licence or FILL_IN_LICENCE),
        ("permission", answers.permission or FILL_IN_PERMISSION),
    ]
    model: list[tuple[str, object]] = [("source", answers.model)]
    if answers.model_revision is not None:
        model.append(("revision", answers.model_revision))
    tables: list[tuple[str, list[tuple[str, object]]]] = [
        ("[question]", [("name", answers.name), ("revision", 1), ("text", answers.text), ("scenario", "offline")]),
        ("[[corpus]]", corpus),
        ("[model]", model),
        (
            "[quality]",
            [
                ("metric", answers.metric),
                ("threshold", answers.threshold),
                ("max_drop", answers.max_drop),
                ("min_agreement", answers.min_agreement),
            ],
        ),
        ("[measurement]", [("passes_planned", 5), ("min_accepted", 3), ("passes_most", 10), ("seeds", (0,))]),
        ("[[series]]", [("name", "batch"), ("variable", "batch_size"), ("values", answers.batches)]),
    ]
    lines = [
        f"#:schema ./{SCHEMA_NAME}",
        "# docs/protocol.md explains every field; what is left out has its default.",
        'schema_version = "protocol/1"',
    ]
    for heading, pairs in tables:
        lines += ["", heading, *(f"{key} = {toml_value(value)}" for key, value in pairs)]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Calendar:
    """For a first plan: start of the rental and deadline, as local times of the zone."""

    zone: str
    start: str
    deadline: str


def plan_text(answers: Answers, calendar: Calendar) -> str:
    """A calendar to go on from: preparation, one day of measuring, collection, delivery."""
    tasks = (
        ("prepare", "Start the rental, copy the campaign folder, make setup", "preparation", "2:00:00", ()),
        (
            "measure",
            "Five passes per variant",
            "measurement",
            "24:00:00",
            (("corpus", f"{answers.name}-final"), ("passes", 5)),
        ),
        ("collect", "Copy the results from the rental", "collection", "1:00:00", ()),
        ("deliver", "Decide, write and sign the note", "export", "2:00:00", (("delivery", True),)),
    )
    lines = [
        "# Durations are elapsed time as H:MM:SS. docs/pricing.md explains every key.", 'schema_version = "plan/1"',
        f"zone = {toml_value(calendar.zone)}", f"deadline = {toml_value(calendar.deadline)}",
        f"deliverables = {toml_value((f'{answers.name}-final',))}",
    ]  # fmt: skip
    before = None
    for name, title, kind, duration, more in tasks:
        when: tuple[str, object] = ("start", calendar.start) if before is None else ("after", (before,))
        pairs = (("id", name), ("title", title), ("kind", kind), when, ("duration", duration), *more)
        lines += ["", "[[task]]", *(f"{key} = {toml_value(value)}" for key, value in pairs)]
        before = name
    return "\n".join(lines) + "\n"


def start_protocol(campaign: Campaign, answers: Answers, calendar: Calendar | None = None) -> Protocol:
    """Write a new protocol (and plan); an existing one is never replaced. Refused as the readers would refuse it."""
    if campaign.protocol.exists():
        raise InputRefused(
            "there is a protocol already",
            file=campaign.protocol,
            next_step="edit it, or give another folder: runner --campaign <folder> protocol new",
        )
    if calendar is not None and campaign.plan.exists():
        raise InputRefused("there is a plan already", file=campaign.plan, next_step="leave out --start and --deadline")
    text = protocol_text(answers)
    try:
        protocol = checked_text(campaign, text)
    except InputRefused as error:
        raise InputRefused(
            "nothing was written: " + error.what.replace("the quality protocol has", "the answers have"),
            column=error.column,
            value=error.value,
            details=tuple(re.sub(r"^line (?:\d+|-): ", "", detail) for detail in error.details),
            next_step="runner protocol new --help; docs/protocol.md explains every field",
        ) from None
    corpus = campaign.protocol_dir / answers.corpus
    if not corpus.exists():
        raise InputRefused(
            "the corpus is not there",
            file=corpus,
            next_step="put it below protocol/, or build it: runner corpus --help",
        )
    if calendar is not None:
        plan = plan_text(answers, calendar)
        with tempfile.TemporaryDirectory(prefix="runner-plan-") as folder:
            path = Path(folder) / campaign.plan.name
            path.write_text(plan, encoding="utf-8", newline="\n")
            read_plan(path)
        write_atomic(campaign.plan, plan.encode("utf-8"))
    write_atomic(campaign.protocol_dir / SCHEMA_NAME, schema_json())
    write_atomic(campaign.protocol, text.encode("utf-8"))
    return protocol


@dataclass(frozen=True)
class Revised:
    """What a revision changed in the two files."""

    revision: int
    corpora: Mapping[str, str]
    """old corpus id -> new corpus id"""


def revise(campaign: Campaign, corpora: Mapping[str, str]) -> Revised:
    """Set up the next revision: number raised, every final corpus replaced by a new independent one.

    `corpora`: corpus id -> new file below `protocol/`, for all corpora. The new one gets an id of its
    own, so that the old baseline and predictions stay. Thresholds are yours to change afterwards.
    """
    lock = read_lock(campaign)
    protocol = read_protocol(campaign.protocol)
    _check_names(protocol, corpora)
    number = max(revision(lock), protocol.question.revision) + 1
    ids = {files.id: f"{_REVISED_ID.sub('', files.id)}-r{number}" for files in protocol.corpus}
    for files in protocol.corpus:
        _check_independent(campaign, files, corpora[files.id])
    document = read_toml(campaign.protocol, what="quality protocol")
    changes: dict[Place, object] = {("question", "revision"): number}
    for index, files in enumerate(protocol.corpus):
        changes[("corpus", index, "id")] = ids[files.id]
        changes[("corpus", index, "final")] = corpora[files.id]
    text = edited(document, changes)
    checked_text(campaign, text)
    plan = read_plan(campaign.plan)
    deliverables = tuple(ids.get(name, name) for name in plan.deliverables)
    plan_changes: dict[Place, object] = {("deliverables",): deliverables}
    plan_changes |= {
        ("task", index, "corpus"): ids[task.corpus] for index, task in enumerate(plan.task) if task.corpus in ids
    }
    plan_text = edited(read_toml(campaign.plan, what="plan"), plan_changes)
    write_atomic(campaign.plan, plan_text.encode("utf-8"))
    write_atomic(campaign.protocol, text.encode("utf-8"))
    return Revised(number, ids)


def _check_names(protocol: Protocol, corpora: Mapping[str, str]) -> None:
    known = {files.id for files in protocol.corpus}
    for name in sorted(corpora.keys() ^ known):
        what = "needs a new final corpus too" if name in known else "is no corpus of the protocol"
        raise InputRefused(
            f"'{name}' {what}", column="--corpus", next_step=f"give --corpus ID=FILE for each of {', '.join(known)}"
        )


def _check_independent(campaign: Campaign, files: CorpusFiles, new_name: str) -> None:
    new = read_final(campaign, files.model_copy(update={"final": new_name}))
    if not (campaign.protocol_dir / files.final).exists():
        return  # the freeze says that it could not be checked
    shared = find_overlap(read_final(campaign, files).documents, new.documents).shared_texts
    if shared:
        pairs = ", ".join(f"{pair.tuning_id} = {pair.final_id}" for pair in shared[:5])
        count = len({pair.final_id for pair in shared})  # one text may stand several times in either of the two
        raise InputRefused(
            f"the new final corpus is not independent: {count} of its {len(new.documents)} texts stand in "
            f"'{files.id}' too ({pairs})",
            file=new.path,
            next_step=f"take the texts of protocol/{files.final} out of your data, then build from the rest: "
            "runner corpus --from FILE --name NAME",
        )


def checked_text(campaign: Campaign, text: str) -> Protocol:
    """Read the text as the protocol would be read, before anything is replaced."""
    with tempfile.TemporaryDirectory(prefix="runner-protocol-") as folder:
        path = Path(folder) / campaign.protocol.name
        path.write_text(text, encoding="utf-8", newline="\n")
        return read_protocol(path)


def parse_corpus_options(values: Sequence[str], protocol: Protocol) -> dict[str, str]:
    """`ID=FILE`, or only `FILE` where the protocol has one corpus."""
    found = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not equals and len(protocol.corpus) == 1:
            name, file = protocol.corpus[0].id, value
        elif not equals:
            raise InputRefused(
                f"which corpus does {show_value(value)} replace?",
                column="--corpus",
                next_step=f"write --corpus {protocol.corpus[0].id}={value} (for example)",
            )
        found[name] = file
    return found
