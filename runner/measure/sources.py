"""What an attempt works on, from the lock: the corpus with its ids, the model with what it is allowed."""

from __future__ import annotations

from pathlib import Path

from runner.corpus.read import iter_table
from runner.evidence.campaign import Campaign
from runner.measure.job import CorpusSource, ModelSource
from runner.protocol.schema import CorpusFiles, Lock, Protocol


def corpus_files(lock: Lock, corpus_id: str) -> CorpusFiles:
    """The protocol's entry of a corpus, as frozen."""
    return next(files for files in frozen_protocol(lock).corpus if files.id == corpus_id)


def frozen_protocol(lock: Lock) -> Protocol:
    return Protocol.from_json(lock.judgement.protocol)


def read_ids(campaign: Campaign, files: CorpusFiles) -> tuple[str, ...]:
    """Ids in corpus order, as the worker reads them."""
    path = campaign.protocol_dir / files.final
    return tuple(cells[0] or "" for _, cells in iter_table(path, (files.id_column,)))


def model_source(lock: Lock, folder: Path) -> ModelSource:
    """The checked model folder with what the protocol allows it."""
    model = frozen_protocol(lock).model
    return ModelSource(
        path=str(folder.resolve()),
        allow_custom_code=model.allow_custom_code,
        allow_pickle=model.allow_pickle,
        pad_token=model.pad_token,
        max_length=lock.judgement.max_length,
        labels=lock.judgement.label_table,
        single_logit=None if model.single_logit is None else model.single_logit.as_json(),
    )


def corpus_source(campaign: Campaign, files: CorpusFiles, documents: int) -> CorpusSource:
    return CorpusSource(
        path=str((campaign.protocol_dir / files.final).resolve()),
        id_column=files.id_column,
        text_column=files.text_column,
        documents=documents,
    )
