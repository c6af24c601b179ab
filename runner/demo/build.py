"""Make the embedded corpus and model again: the files below `protocol/corpus/` and `protocol/model/`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runner.demo.corpus import SEED, make_splits, split_bytes, train_tokenizer, tuning_messages
from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic


def build_corpus(folder: Path, tokenizer: Path) -> tuple[Path, Path]:
    """Write `tuning.csv` and `final.csv` for this tokenizer: the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = make_splits(tokenizer)
    files = (folder / "tuning.csv", folder / "final.csv")
    for file, entries in zip(files, (splits.tuning, splits.final), strict=True):
        write_atomic(file, split_bytes(entries))
    return files


def build_demo(campaign: Campaign, progress: Callable[[str], None]) -> tuple[Path, ...]:
    """Tokenizer, both splits, then the model trained on the tuning split (needs torch). Returns the files."""
    if campaign.lock.exists():
        raise InputRefused(
            "the protocol is frozen: another corpus and model would not be the frozen ones",
            file=campaign.lock,
            next_step="use a new campaign folder: runner --campaign FOLDER demo-model",
        )
    model = campaign.protocol_dir / "model"
    model.mkdir(parents=True, exist_ok=True)
    progress("tokenizer: learning the vocabulary from the tuning texts")
    texts = [message.text for message in tuning_messages(SEED, set())]
    write_atomic(model / "tokenizer.json", train_tokenizer(texts).encode("utf-8"))
    progress("corpus: writing both splits")
    tuning, final = build_corpus(campaign.protocol_dir / "corpus", model / "tokenizer.json")
    progress("model: training on the tuning split, one thread")
    from runner.demo.train import train, write_tokenizer_config

    write_tokenizer_config(model)
    train(tuning, model, progress)
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    return (tuning, final, *(model / name for name in names))
