"""`baseline`: reference predictions, untimed, before the freeze (M2). Full precision, batch 1 by default."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.corpus.read import Corpus
from runner.errors import InputRefused, NotAccepted
from runner.evidence.attempt import Settings, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, load_json_file, pretty_json, sha256_file
from runner.evidence.files import campaign_lock, remove_empty, write_atomic
from runner.measure.devices import OWN_MACHINE, look_for
from runner.measure.environment import worker_environment
from runner.measure.installed import refuse_without_packages
from runner.measure.job import ZERO_TOKENS, Job, ModelSource
from runner.measure.rows import WorkFiles, verdict_on_end
from runner.measure.sources import corpus_source
from runner.measure.supervisor import ChildEnd, StopRequest, run_worker
from runner.protocol.judgement import check_inputs, read_final
from runner.protocol.labels import label_table
from runner.protocol.lengths import effective_max_length
from runner.protocol.modelfiles import ModelFolder, resolve_model
from runner.protocol.modelformat import check_model_files
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import CorpusFiles, Protocol


@dataclass(frozen=True)
class BaselineFile:
    """One corpus' reference predictions; `made` is false when they were there already and still fit."""

    corpus_id: str
    path: Path
    documents: int
    made: bool


def make_baselines(campaign: Campaign, gpu: str = OWN_MACHINE) -> tuple[BaselineFile, ...]:
    """Predict every corpus once with the protocol's baseline settings. Nothing is timed or recorded as an attempt.

    A baseline that was made from the same corpus, model and settings is kept. Large models may need a card.
    """
    protocol = read_protocol(campaign.protocol)
    if protocol.baseline.file is not None:
        raise InputRefused(
            "the protocol brings its own baseline file, so none is made",
            file=campaign.protocol,
            value=protocol.baseline.file,
            next_step="runner freeze",
        )
    if protocol.baseline.settings.engine != "command":
        refuse_without_packages()
    folder = resolve_model(protocol.model, campaign.protocol_dir)
    check_model_files(folder.path)
    corpora = [(files, read_final(campaign, files)) for files in protocol.corpus]
    check_inputs(campaign, protocol, read_plan(campaign.plan), {files.id: corpus for files, corpus in corpora})
    model = _model_source(protocol, folder, [corpus for _, corpus in corpora])
    presence = look_for(gpu, 1, campaign.tariffs)
    if presence.torch_device is None:
        raise NotAccepted(f"no baseline was made: {presence.problem}", next_step="runner doctor")
    work = _Work(campaign, protocol, folder, model, presence.torch_device)
    with campaign_lock(campaign), StopRequest().listening() as stop:
        try:
            return tuple(_baseline(work, files, corpus, stop) for files, corpus in corpora)
        finally:
            remove_empty(campaign.journals, campaign.baseline_dir)


def _model_source(protocol: Protocol, folder: ModelFolder, corpora: list[Corpus]) -> ModelSource:
    config = folder.path / "config.json"
    labels = [document.label for corpus in corpora for document in corpus.documents if document.label is not None]
    table = label_table(load_json_file(config), protocol.model, labels, file=config)
    single = protocol.model.single_logit
    return ModelSource(
        path=str(folder.path.resolve()),
        allow_custom_code=protocol.model.allow_custom_code,
        allow_pickle=protocol.model.allow_pickle,
        pad_token=protocol.model.pad_token,
        max_length=effective_max_length(folder.path, protocol.model.max_length),
        labels=table.labels,
        single_logit=None if single is None else single.as_json(),
    )


@dataclass(frozen=True)
class _Work:
    """What the baselines of all corpora share."""

    campaign: Campaign
    protocol: Protocol
    folder: ModelFolder
    model: ModelSource
    device: str


def _baseline(shared: _Work, files: CorpusFiles, corpus: Corpus, stop: StopRequest) -> BaselineFile:
    campaign, protocol, model = shared.campaign, shared.protocol, shared.model
    path = campaign.baseline_dir / f"{files.id}.parquet"
    sidecar = path.with_suffix(".json")
    settings = protocol.baseline.settings.model_copy(
        update={"max_length": protocol.baseline.settings.max_length or model.max_length}
    )
    inputs = {
        "corpus_id": files.id,
        "corpus_records_sha256": corpus.records_sha256,
        "model_files_sha256": content_sha256([file.as_json() for file in shared.folder.files]),
        "requested": settings.as_json(),
        "seed": protocol.measurement.seeds[0],
    }
    documents = len(corpus.documents)
    if _still_fits(path, sidecar, inputs):
        return BaselineFile(files.id, path, documents, made=False)
    work = WorkFiles(campaign, f"baseline-{files.id}")
    work.journal.parent.mkdir(parents=True, exist_ok=True)
    job = Job(
        attempt_id=f"baseline-{files.id}",
        corpus=corpus_source(campaign, files, documents),
        model=model,
        settings=settings.as_json(),
        seed=protocol.measurement.seeds[0],
        device=shared.device,
        warm_up_inputs="none",
        warm_up_passes=0,
        sample_interval_seconds=1.0,
        timed=False,
        matrix_rate=False,
        journal=str(work.hidden_journal.resolve()),
        results=str(work.results.resolve()),
        result=str(work.result.resolve()),
        predictions=str(path.resolve()),
        spawned_mono_ns=time.monotonic_ns(),
        parent_pid=os.getpid(),
    )
    try:
        end = run_worker(
            job,
            environment=worker_environment(os.environ, settings.threads),
            timeout_seconds=float("inf"),
            stop=stop,
        )
        facts = _facts(end, shared.folder, campaign.protocol_dir / files.final)
    finally:
        work.remove_temporary()
    differences = settings.differences(Settings(**facts["effective"]))
    if differences:
        path.unlink(missing_ok=True)
        raise NotAccepted(
            "the baseline did not run as the protocol asks",
            details=differences,
            next_step="runner doctor says what works here: change [baseline.settings], or make the baseline elsewhere",
        )
    made = {"schema_version": "baseline/1", "made_by": "runner baseline", **inputs}
    made |= {"predictions_sha256": sha256_file(path), "documents": documents, "effective": facts["effective"]}
    made["device"] = shared.device
    made |= {"runtime": facts["runtime"], "model": facts["model"], "tokenizer": facts["tokenizer"]}
    write_atomic(sidecar, pretty_json(made))
    return BaselineFile(files.id, path, documents, made=True)


def _facts(end: ChildEnd, model: ModelFolder, corpus_file: Path) -> dict[str, dict[str, Any]]:
    """What the worker found, or why there is no baseline."""
    status, error = verdict_on_end(end)
    if status is Status.COMPLETED and end.result is not None:
        facts: dict[str, dict[str, Any]] = end.result["facts"]
        return facts
    found = end.result or {}
    if status in (Status.FAILED, Status.UNSUPPORTED) and error is not None and found.get("phase") == "load":
        # Nothing has run yet: the model, or what the protocol asks of it, is what cannot be used.
        raise InputRefused(
            f"the model cannot be used as the baseline asks: {' '.join(error.message.split())[:300]}",
            file=model.path,
            next_step="correct the model or the settings under [baseline], then run runner baseline again",
        )
    if error is not None and error.kind == ZERO_TOKENS:
        raise InputRefused(
            f"no baseline was made: {error.message}",
            file=corpus_file,
            next_step="leave these texts out of the corpus, or use a tokenizer with special tokens",
        )
    details = [] if error is None else [f"{error.kind}: {error.message}"]
    if end.stderr_tail:
        details.append(f"last line of the worker: {end.stderr_tail.splitlines()[-1][:300]}")
    raise NotAccepted(
        f"no baseline was made: {status.value}",
        details=tuple(details),
        next_step="correct the cause, then run runner baseline again",
    )


def _still_fits(path: Path, sidecar: Path, inputs: dict[str, object]) -> bool:
    if not (path.exists() and sidecar.exists()):
        return False
    try:
        made = load_json_file(sidecar)
    except InputRefused:
        return False
    return isinstance(made, dict) and inputs.items() <= made.items() and made["predictions_sha256"] == sha256_file(path)
