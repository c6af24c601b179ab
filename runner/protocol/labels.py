"""From a model's outputs to labels: one table, frozen with the protocol, used by measure and judge.

Labels come from the model's `id2label` by output index, never from the order of the corpus (MO-01);
nothing is folded or trimmed (MO-02). Arrays are numpy: rows are documents, columns outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.errors import InputRefused, NotAccepted, show_value
from runner.protocol.edit import toml_value
from runner.protocol.schema import Lock, Model, SingleLogit

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelTable:
    """Label by class. With one output there are two classes: negative, positive."""

    labels: tuple[str, ...]
    single_logit: SingleLogit | None = None

    @property
    def outputs(self) -> int:
        """Columns that the model's logits must have."""
        return 1 if self.single_logit else len(self.labels)


@dataclass(frozen=True)
class Decoded:
    """Per document: class (index into `table`), its score, and the score of every class.

    `score` is the probability of the chosen class; for a model with one output, of the positive class.
    """

    table: tuple[str, ...]
    codes: Codes
    score: Floats
    scores: Floats

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.table[code] for code in self.codes.tolist())


class NonFiniteLogits(NotAccepted):
    """Some logits are NaN or infinite: their argmax would look like an answer (MO-10). `rows` from 0."""

    def __init__(self, rows: tuple[int, ...]) -> None:
        super().__init__(
            f"non-finite logits in {len(rows)} documents",
            next_step="try a precision with more range (bf16 or fp32 instead of fp16), as a variant of its own",
        )
        self.rows = rows


def label_table(
    config: Mapping[str, Any], model: Model, corpus_labels: Iterable[str], *, file: str | Path | None = None
) -> LabelTable:
    """The table of a model's `config.json`; refused if it does not fit the corpora's labels.

    `label_map` of the protocol leads from a corpus label to a model label; without an entry the two
    must be equal code point by code point.
    """
    wanted = sorted(set(corpus_labels))
    names = _names_by_index(config, file)
    kind = config.get("problem_type")
    if kind not in (None, "single_label_classification") and not (len(names) == 1 and model.single_logit):
        raise InputRefused(
            f"the model is trained for {show_value(kind)}; only one label per text can be judged",
            file=file,
            next_step="choose a model for text classification with one label per text",
        )
    rule = model.single_logit
    if len(names) == 1:
        if rule is None:
            raise InputRefused(
                f"the model has 1 output, the corpora have {len(wanted)} labels ({_listed(wanted)})",
                file=file,
                next_step="add [model.single_logit] with positive, negative, cut and at_cut (sigmoid, then a cut); "
                "regression is not supported",
            )
        table = LabelTable((rule.negative, rule.positive), rule)
    elif rule is not None:
        raise InputRefused(
            f"[model.single_logit] is given, but the model has {len(names)} outputs",
            file=file,
            next_step="remove [model.single_logit]",
        )
    else:
        table = LabelTable(names)
    _refuse_unknown_labels(table, model, wanted, file)
    return table


def table_of(lock: Lock) -> LabelTable:
    """The frozen table."""
    return LabelTable(lock.judgement.label_table, lock.protocol.model.single_logit)


def decode(logits: npt.NDArray[Any], table: LabelTable) -> Decoded:
    """Labels and scores of logits with the shape (documents, outputs); computed in float64.

    Equal largest logits: the class with the lower index. Raises `NonFiniteLogits`; logits of
    another width are a contradiction between model and table, hence refused.
    """
    values = np.asarray(logits, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != table.outputs:
        raise InputRefused(
            f"the model gave logits of shape {values.shape}, the frozen table has {table.outputs} outputs",
            next_step="use the model whose config.json was frozen",
        )
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise NonFiniteLogits(tuple(np.flatnonzero(bad).tolist()))
    if table.single_logit is None:
        scores = _softmax(values)
        codes = values.argmax(axis=1)
        return Decoded(table.labels, codes, scores[np.arange(len(scores)), codes], scores)
    positive = _sigmoid(values[:, 0])
    cut = float(table.single_logit.cut)
    above = positive >= cut if table.single_logit.at_cut == "positive" else positive > cut
    return Decoded(table.labels, above.astype(np.int64), positive, np.column_stack([1.0 - positive, positive]))


def _softmax(values: Floats) -> Floats:
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    result: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return result


def _sigmoid(values: Floats) -> Floats:
    """Without overflow on either side; exactly 0.5 at 0."""
    small = np.exp(-np.abs(values))
    result: Floats = np.where(values >= 0, 1.0, small) / (1.0 + small)
    return result


def _names_by_index(config: Mapping[str, Any], file: str | Path | None) -> tuple[str, ...]:
    if not isinstance(config, Mapping):  # whatever JSON the file holds
        raise InputRefused(
            "the model's config.json holds no object",
            file=file,
            next_step="take the config.json that belongs to the model",
        )
    names = config.get("id2label")
    count = config.get("num_labels")
    if names is None:
        if isinstance(count, int):
            return tuple(f"LABEL_{index}" for index in range(count))
        raise InputRefused(
            "the model's config.json has neither id2label nor num_labels",
            file=file,
            next_step="write the labels of the outputs into id2label, in the order of training",
        )
    if not isinstance(names, Mapping) or not names or not all(isinstance(name, str) for name in names.values()):
        raise InputRefused(
            "id2label must map output indices to label names",
            file=file,
            column="id2label",
            next_step='write id2label as the model card has it: {"0": "name", ...}',
        )
    indices = [str(index) for index in range(len(names))]
    if sorted(names) != sorted(indices):
        raise InputRefused(
            f"id2label must have the indices 0 to {len(names) - 1}",
            file=file,
            column="id2label",
            value=", ".join(names),
            next_step="number the labels from 0 without a gap",
        )
    if isinstance(count, int) and count != len(names):
        raise InputRefused(
            f"num_labels is {count}, id2label has {len(names)} entries",
            file=file,
            next_step="make num_labels and id2label agree, as the model card has them",
        )
    table = tuple(names[index] for index in indices)
    if len(set(table)) != len(table) or "" in table:
        raise InputRefused(
            "a label of id2label is empty or stands twice",
            file=file,
            value=", ".join(table),
            next_step="give every output its own name",
        )
    return table


def _refuse_unknown_labels(table: LabelTable, model: Model, wanted: list[str], file: str | Path | None) -> None:
    known = set(table.labels)
    for source, target in sorted(model.label_map.items()):
        if target not in known:
            raise InputRefused(
                f"label_map leads from {show_value(source)} to {show_value(target)}, which is no label of the model "
                f"({_listed(table.labels)})",
                file=file,
                next_step="correct label_map in the protocol",
            )
    unknown = [label for label in wanted if model.label_map.get(label, label) not in known]
    if unknown:
        raise InputRefused(
            f"{len(unknown)} of the corpora's labels are no labels of the model",
            file=file,
            value=unknown[0],
            details=(
                f"corpus labels: {_listed(wanted)}",
                f"model labels: {_listed(table.labels)}",
                "no letter case is folded, no blank is trimmed",
            ),
            next_step="map each in the protocol, on a line of its own; left the corpus, right the model:\n"
            f"    [model.label_map]\n    {toml_value(unknown[0])} = {toml_value(table.labels[0])}   (for example)",
        )


def _listed(labels: Iterable[str]) -> str:
    names = list(labels)
    shown = ", ".join(show_value(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
