"""The judgement of a campaign as its files are now: everything that a freeze fixes, with fingerprints (M3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runner.corpus.overlap import find_overlap, refuse_overlap
from runner.corpus.read import Corpus, read_corpus
from runner.corpus.table import table_files
from runner.errors import InputRefused, gathered, show_value
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, load_json_file, records_sha256, sha256_file
from runner.protocol.distinct import check_distinct, refuse_tuned_on
from runner.protocol.idcolumn import all_texts
from runner.protocol.labels import LabelTable, label_table
from runner.protocol.lengths import effective_max_length
from runner.protocol.modelfiles import ModelFolder, model_path, resolve_model
from runner.protocol.modelformat import check_model_files
from runner.protocol.predictions import read_predictions
from runner.protocol.procedure import Procedure, find_procedure, right_answers, source_files, value_of
from runner.protocol.reference import (
    BaselineValues,
    Reference,
    answered,
    checked_baseline,
    reference_of,
    write_reference,
)
from runner.protocol.schema import CorpusFiles, Evaluation, Judgement, LockedCorpus, LockedFile, Plan, Protocol


@dataclass(frozen=True)
class Collected:
    """A judgement, the corpora that it was made of, and what is worth saying about them."""

    judgement: Judgement
    corpora: dict[str, Corpus]
    warnings: tuple[str, ...]


def protocol_content(protocol: Protocol) -> dict[str, Any]:
    """The frozen part of the protocol: all but series and variants, which may be appended to, contact and language."""
    content = protocol.as_json()
    del content["series"], content["variant"]
    content.pop("contact", None)
    content["question"].pop("language", None)
    return content


def frozen_deadline(plan: Plan) -> str:
    """The deadline as one text: a local time is followed by its zone, so that a changed zone is seen."""
    has_offset = plan.deadline.endswith("Z") or "+" in plan.deadline or plan.deadline.count("-") > 2
    return plan.deadline if has_offset else f"{plan.deadline}[{plan.zone}]"


def reference_path(campaign: Campaign, corpus: Corpus, corpus_id: str) -> Path:
    """Named by content: the reference of an earlier revision stays beside it."""
    return campaign.protocol_dir / "reference" / f"{corpus_id}-{corpus.records_sha256[:12]}.parquet"


def baseline_path(campaign: Campaign, protocol: Protocol, corpus_id: str) -> Path:
    """Where the reference predictions are: made by `runner baseline`, or given by the protocol."""
    if protocol.baseline.file is None:
        return campaign.baseline_dir / f"{corpus_id}.parquet"
    given = campaign.protocol_dir / protocol.baseline.file
    if given.is_dir():
        found = [file for file in table_files(given) if file.stem == corpus_id]
        return found[0] if found else given / f"{corpus_id}.parquet"
    if len(protocol.corpus) > 1:
        raise InputRefused(
            "baseline.file must be a folder with one file per corpus, named <corpus id>.parquet (or .csv, .jsonl)",
            file=campaign.protocol,
            value=protocol.baseline.file,
            next_step="make the folder and put each corpus's baseline there",
        )
    return given


def collect(campaign: Campaign, protocol: Protocol, plan: Plan, references: Path) -> Collected:
    """Read everything, check that it fits together, take fingerprints.

    Parquet references are written into the folder `references`; the caller moves them into place.
    Refused: overlap of tuning and final, labels that the model has not, missing baseline, empty
    subgroups, deliverables that are no corpora, unsafe or incomplete model folders.
    """
    _check_deliverables(campaign, protocol, plan)
    folder = resolve_model(protocol.model, campaign.protocol_dir)
    check_model_files(folder.path)
    corpora = {files.id: _labelled(campaign, files, read_final(campaign, files)) for files in protocol.corpus}
    gathered(
        lambda: _table(protocol, folder.path, corpora.values()),
        *(partial(_check_tuning, campaign, files, corpora) for files in protocol.corpus),
        *(partial(_check_subgroups, campaign, protocol, files, corpora[files.id]) for files in protocol.corpus),
        *(
            partial(_check_baseline_inputs, campaign, protocol, files, corpora[files.id], folder)
            for files in protocol.corpus
        ),
    )
    table = _table(protocol, folder.path, corpora.values())
    max_length = effective_max_length(folder.path, protocol.model.max_length)
    procedure = None if protocol.evaluation is None else find_procedure(protocol.evaluation, campaign.protocol_dir)
    locked, warnings = [], list(check_distinct(campaign, corpora, plan.deliverables))
    for files in protocol.corpus:
        corpus = corpora[files.id]
        locked.append(_locked(campaign, protocol, files, corpus, table, references, procedure))
        warnings += [f"corpus {files.id}: {text}" for text in corpus.warnings]
        if files.seen_before:
            warnings.append(f"corpus {files.id} was seen before: the note will say so")
    outside = not folder.path.resolve().is_relative_to(campaign.root.resolve())
    if folder.revision is None and outside:
        warnings.append(
            f"the model lies outside of this folder ({folder.path}): copying the folder, or an archive of it, does not "
            "take it along; copy it below protocol/, or to the other machine and set source under [model] there "
            "(its files are frozen, its place is not)"
        )
    content = protocol_content(protocol)
    judgement = Judgement(
        protocol=content,
        protocol_sha256=content_sha256(content),
        corpora=tuple(locked),
        model_files=folder.files,
        model_revision=folder.revision,
        label_table=table.labels,
        max_length=max_length,
        deliverables=plan.deliverables,
        deadline=frozen_deadline(plan),
        evaluation_files=source_files(find_procedure(item, campaign.protocol_dir) for item in protocol.procedures()),
    )
    return Collected(judgement, corpora, tuple(warnings))


def current_references(campaign: Campaign, protocol: Protocol) -> Iterator[tuple[Reference, BaselineValues]]:
    """Reference and reference predictions of every corpus as the files are now, before a freeze; nothing is written.

    Of the model only its labels are read. Refused: what the freeze would refuse of corpora and baseline.
    """
    folder = model_path(protocol.model, campaign.protocol_dir)
    corpora = {files.id: _labelled(campaign, files, read_final(campaign, files)) for files in protocol.corpus}
    table = _table(protocol, folder, corpora.values())
    for corpus_id, corpus in corpora.items():
        with TemporaryDirectory(prefix="runner-reference-") as temporary:
            path = Path(temporary) / f"{corpus_id}.parquet"
            write_reference(corpus, path)
            reference = reference_of(path, corpus_id, table, protocol.model)
        predictions = read_predictions(_baseline_file(campaign, protocol, corpus_id))
        yield reference, checked_baseline(predictions, reference)


def read_final(campaign: Campaign, files: CorpusFiles) -> Corpus:
    """The final split of a corpus as the protocol describes it."""
    return _read(campaign, files, files.final)


def _read(campaign: Campaign, files: CorpusFiles, name: str) -> Corpus:
    return read_corpus(
        campaign.protocol_dir / name,
        id_column=files.id_column,
        text_column=files.text_column,
        label_column=files.labels_from,
        group_columns=files.group_columns,
        allow_case_twins=files.allow_case_twins,
        allow_empty_texts=files.allow_empty_texts,
    )


def _labelled(campaign: Campaign, files: CorpusFiles, corpus: Corpus) -> Corpus:
    """With the right answers of its procedure, where the corpus has no label column (M2); they must come out twice."""
    if files.answers is None:
        return corpus
    procedure = find_procedure(Evaluation(name="answers", function=files.answers), campaign.protocol_dir)
    ids = [document.id for document in corpus.documents]
    texts = [document.text for document in corpus.documents]
    labels, again = (right_answers(procedure, ids, texts) for _ in range(2))
    different = [name for name, first, second in zip(ids, labels, again, strict=True) if first != second]
    if different:
        raise InputRefused(
            f"the procedure gave two right answers for {len(different)} documents",
            file=procedure.file,
            value=different[0],
            next_step="take chance and the clock out of it",
        )
    documents = (replace(document, label=label) for document, label in zip(corpus.documents, labels, strict=True))
    return replace(corpus, documents=tuple(documents))


def locked_files(campaign: Campaign, name: str) -> tuple[LockedFile, ...]:
    """Fingerprints of one file, or of every table in a folder; `name` is relative to `protocol/`."""
    return tuple(_locked_file(campaign, file) for file in table_files(campaign.protocol_dir / name))


def _locked_file(campaign: Campaign, file: Path, *, named: Path | None = None) -> LockedFile:
    path = (named or file).relative_to(campaign.root).as_posix()
    if not file.resolve().is_relative_to(campaign.root.resolve()):
        raise InputRefused(
            "the file is a link out of the campaign folder: decision, note and archive would lack it",
            file=file,
            next_step="put the file itself there",
        )
    return LockedFile(path=path, sha256=sha256_file(file), bytes=file.stat().st_size)


def _locked(
    campaign: Campaign,
    protocol: Protocol,
    files: CorpusFiles,
    corpus: Corpus,
    table: LabelTable,
    references: Path,
    procedure: Procedure | None,
) -> LockedCorpus:
    final_reference = reference_path(campaign, corpus, files.id)
    reference = references / final_reference.name
    write_reference(corpus, reference)
    return LockedCorpus(
        id=files.id,
        documents=len(corpus.documents),
        final=locked_files(campaign, files.final),
        records_sha256=corpus.records_sha256,
        ids_sha256=records_sha256((document.id,) for document in corpus.documents),
        labels_sha256=records_sha256((document.id, document.label or "") for document in corpus.documents),
        tuning=locked_files(campaign, files.tuning) if files.tuning else (),
        baseline=_baseline(campaign, protocol, files.id, reference, table, procedure),
        reference=_locked_file(campaign, reference, named=final_reference),
        seen_before=files.seen_before,
    )


def _check_baseline_inputs(
    campaign: Campaign, protocol: Protocol, files: CorpusFiles, corpus: Corpus, folder: ModelFolder
) -> None:
    """Reference predictions of another model or corpus are no reference for this one (M2, M8)."""
    sidecar = baseline_path(campaign, protocol, files.id).with_suffix(".json")
    if protocol.baseline.file is not None:
        return
    predictions = _baseline_file(campaign, protocol, files.id)
    if not sidecar.is_file():
        raise InputRefused(
            f"the baseline of corpus '{files.id}' has no record of what made it: which model and corpus is not known",
            file=sidecar,
            next_step="runner baseline (untimed); predictions made elsewhere are named as file under [baseline]",
        )
    made = load_json_file(sidecar)
    now = {
        "corpus": ("corpus_records_sha256", corpus.records_sha256),
        "model": ("model_files_sha256", content_sha256([file.as_json() for file in folder.files])),
    }
    changed = [name for name, (key, value) in now.items() if not isinstance(made, dict) or made.get(key) != value]
    if changed:
        raise InputRefused(
            f"the baseline of corpus '{files.id}' was made with another {' and another '.join(changed)}",
            file=sidecar,
            next_step="runner baseline, then runner freeze",
        )
    if made.get("predictions_sha256") != sha256_file(predictions):
        raise InputRefused(
            f"the baseline of corpus '{files.id}' is not the one that its record is about",
            file=predictions,
            next_step="runner baseline makes it again; predictions made elsewhere are named as file under [baseline]",
        )


def _baseline(
    campaign: Campaign,
    protocol: Protocol,
    corpus_id: str,
    path_of_reference: Path,
    table: LabelTable,
    procedure: Procedure | None,
) -> LockedFile:
    path = _baseline_file(campaign, protocol, corpus_id)
    predictions = read_predictions(path)
    reference = reference_of(path_of_reference, corpus_id, table, protocol.model)
    baseline = checked_baseline(predictions, reference)
    if procedure is not None:
        _try_out(procedure, reference, baseline)
    ids = (name or "" for name in all_texts(predictions.ids))
    rows = zip(ids, predictions.labels.to_pylist(), strict=True)
    return _locked_file(campaign, path).model_copy(update={"records_sha256": records_sha256(rows)})


def _baseline_file(campaign: Campaign, protocol: Protocol, corpus_id: str) -> Path:
    path = baseline_path(campaign, protocol, corpus_id)
    if not path.is_file():
        raise InputRefused(
            f"the baseline of corpus '{corpus_id}' is missing: reference predictions come before the freeze",
            file=path,
            next_step="runner baseline (untimed), or name a prediction file as baseline.file in the protocol",
        )
    return path


def _try_out(procedure: Procedure, reference: Reference, baseline: BaselineValues) -> None:
    """Before anything is measured: the procedure runs on the baseline, has a value, and has it twice."""
    first, second = (value_of(procedure, answered(reference, baseline.codes)) for _ in range(2))
    if first is None:
        raise InputRefused(
            f"the evaluation procedure '{procedure.name}' has no value for the baseline of '{reference.corpus_id}'",
            file=procedure.file,
            next_step="correct it: without that value no drop could be judged",
        )
    if first != second:
        raise InputRefused(
            f"the evaluation procedure '{procedure.name}' gave two values for the same predictions",
            file=procedure.file,
            value=f"{first} and {second}",
            next_step="take chance and the clock out of it",
        )


def _table(protocol: Protocol, folder: Path, corpora: Iterable[Corpus]) -> LabelTable:
    config_file = folder / "config.json"
    labels = {document.label or "" for corpus in corpora for document in corpus.documents}
    return label_table(load_json_file(config_file), protocol.model, labels, file=config_file)


def check_inputs(campaign: Campaign, protocol: Protocol, plan: Plan, corpora: Mapping[str, Corpus]) -> None:
    """What the freeze would refuse of plan, corpora and evaluation, before a baseline costs minutes (M2, M5)."""
    _check_deliverables(campaign, protocol, plan)
    for item in protocol.procedures():
        find_procedure(item, campaign.protocol_dir)
    tuple(check_distinct(campaign, corpora, plan.deliverables))
    for files in protocol.corpus:
        _check_tuning(campaign, files, corpora)
        _check_subgroups(campaign, protocol, files, corpora[files.id])


def _check_deliverables(campaign: Campaign, protocol: Protocol, plan: Plan) -> None:
    known = [corpus.id for corpus in protocol.corpus]
    for name in plan.deliverables:
        if name not in known:
            raise InputRefused(
                f"the deliverable {show_value(name)} is no corpus of the protocol; there are {', '.join(known)}",
                file=campaign.plan,
                column="deliverables",
                value=name,
                next_step="name corpus ids as deliverables in protocol/plan.toml",
            )
    for task in plan.task:
        # Its window would stay the planned one for ever, whatever the passes take.
        if task.corpus is not None and task.corpus not in known:
            raise InputRefused(
                f"the task {show_value(task.id)} is about no corpus of the protocol; there are {', '.join(known)}",
                file=campaign.plan,
                column="task.corpus",
                value=task.corpus,
                next_step="name a corpus id in that task of protocol/plan.toml",
            )


def _check_tuning(campaign: Campaign, files: CorpusFiles, corpora: Mapping[str, Corpus]) -> None:
    if files.tuning is None:
        return
    tuning = _read(campaign, files, files.tuning)
    refuse_overlap(find_overlap(tuning.documents, corpora[files.id].documents), file=tuning.path)
    for other, final in corpora.items():
        if other != files.id:
            refuse_tuned_on(tuning, files.id, final, other, file=tuning.path)


def _check_subgroups(campaign: Campaign, protocol: Protocol, files: CorpusFiles, corpus: Corpus) -> None:
    for group in protocol.quality.subgroup:
        place = files.group_columns.index(group.column)
        if not any(document.groups[place] == group.value for document in corpus.documents):
            values = sorted({document.groups[place] for document in corpus.documents})
            raise InputRefused(
                f"the planned subgroup {group.column}={show_value(group.value)} has no document in corpus '{files.id}'",
                file=campaign.protocol,
                column="quality.subgroup",
                value=group.value,
                details=(f"values there: {', '.join(show_value(value) for value in values[:20])}",),
                next_step="correct the value, or leave the subgroup out before the freeze",
            )
