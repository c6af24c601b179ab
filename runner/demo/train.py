"""Train the embedded classifier from scratch, on the tuning split only, on one thread.

A BERT of 2 layers x 128 with the project's own vocabulary; about two minutes on one CPU core. The
weights are kept as fp32 so that loading them with default settings gives fp32.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification
from transformers.utils import logging as transformers_logging

from runner.corpus.read import Document, read_corpus
from runner.demo.corpus import SEED, SPECIAL_TOKENS, VOCABULARY
from runner.demo.generate import Dice

MAX_LENGTH = 512
_EPOCHS = 4
_BATCH = 32
_LEARNING_RATE = 1e-3
_WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class _Example:
    ids: list[int]
    target: int


def write_tokenizer_config(folder: Path) -> None:
    """`tokenizer_config.json` for the Auto classes."""
    pad, unknown, begin, end, mask = SPECIAL_TOKENS
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        "padding_side": "right",
        "truncation_side": "right",
        "pad_token": pad,
        "unk_token": unknown,
        "cls_token": begin,
        "sep_token": end,
        "mask_token": mask,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8", newline="\n")


def train(tuning: Path, folder: Path, progress: Callable[[str], None], seed: int = SEED) -> None:
    """Write config.json and model.safetensors into `folder`, which holds the tokenizer already."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    documents = read_corpus(tuning).documents
    labels = sorted({item.label for item in documents if item.label is not None})
    examples = _examples(folder, documents, labels)
    model: Any = BertForSequenceClassification(_config(labels))
    steps = _EPOCHS * -(-len(examples) // _BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    model.train()
    for epoch in range(_EPOCHS):
        total = 0.0
        for batch in _batches(examples, Dice(f"{seed}/train/{epoch}")):
            loss = model(**_tensors(batch)).loss
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item() * len(batch)
        progress(f"epoch {epoch + 1} of {_EPOCHS}: mean loss {total / len(examples):.4f}")
    model.eval()
    quiet: Any = transformers_logging.disable_progress_bar
    quiet()
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # the library makes it private


def _config(labels: Sequence[str]) -> BertConfig:
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=0,
        problem_type="single_label_classification",
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )


def _examples(folder: Path, documents: Sequence[Document], labels: Sequence[str]) -> list[_Example]:
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    encoded = tokenizer([item.text for item in documents], truncation=True, max_length=MAX_LENGTH)["input_ids"]
    place = {label: index for index, label in enumerate(labels)}
    return [_Example(ids, place[item.label or ""]) for ids, item in zip(encoded, documents, strict=True)]


def _batches(examples: Sequence[_Example], dice: Dice) -> Iterator[list[_Example]]:
    """Batches of similar length in random order: little padding, other neighbours in every epoch."""
    mixed = dice.some(examples, len(examples))
    near = sorted(mixed, key=lambda example: len(example.ids) // 8)
    starts = list(range(0, len(near), _BATCH))
    for start in dice.some(starts, len(starts)):
        yield near[start : start + _BATCH]


def _tensors(batch: Sequence[_Example]) -> dict[str, torch.Tensor]:
    width = max(len(example.ids) for example in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros(len(batch), width, dtype=torch.long)
    for row, example in enumerate(batch):
        ids[row, : len(example.ids)] = torch.tensor(example.ids)
        mask[row, : len(example.ids)] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([example.target for example in batch])}


def _rate(step: int, steps: int) -> float:
    """Rises over the first tenth of the steps, then falls to 0."""
    rising = _WARM_UP_SHARE * steps
    return min((step + 1) / rising, (steps - step) / (steps - rising))
