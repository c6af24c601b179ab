"""The embedded model: small, loadable offline, right in about nine of ten cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from runner.corpus.read import read_corpus
from runner.corpus.write import csv_bytes
from runner.demo.corpus import TUNING_TEXTS
from runner.evidence.campaign import Campaign

torch = pytest.importorskip("torch")
PROTOCOL = Path(__file__).parents[2] / "protocol"
MODEL = PROTOCOL / "model"


def load(folder: Path):  # type: ignore[no-untyped-def]
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return tokenizer, AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True).eval()


def test_the_model_is_right_in_about_nine_of_ten_cases() -> None:
    """The thresholds of the demo's protocol are met with room; perfection is out of reach."""
    from runner.protocol.read import read_protocol

    tokenizer, model = load(MODEL)
    assert tokenizer.model_max_length == 512 and model.dtype == torch.float32
    final = sorted(
        read_corpus(PROTOCOL / "corpus" / "final.csv", group_columns=("stratum",)).documents,
        key=lambda item: len(item.text),
    )
    right: Counter[str] = Counter()
    total = Counter(item.groups[0] for item in final)
    with torch.no_grad():
        for start in range(0, len(final), 50):
            batch = final[start : start + 50]
            logits = model(**tokenizer([item.text for item in batch], return_tensors="pt", padding=True)).logits
            for item, best in zip(batch, logits.argmax(dim=1).tolist(), strict=True):
                right[item.groups[0]] += model.config.id2label[best] == item.label
    accuracy = right.total() / len(final)
    assert 0.88 <= accuracy <= 0.93
    quality = read_protocol(PROTOCOL / "quality-protocol.toml").quality
    assert accuracy >= float(quality.threshold)
    for group in quality.subgroup:
        assert right[group.value] / total[group.value] >= float(group.minimum)
    assert f"{accuracy:.3f}" in (MODEL / "README.md").read_text(encoding="utf-8")


def test_the_model_is_small_and_names_its_labels() -> None:
    assert (MODEL / "model.safetensors").stat().st_size < 4_000_000
    labels = {item.label for item in read_corpus(PROTOCOL / "corpus" / "final.csv").documents}
    _, model = load(MODEL)
    assert set(model.config.id2label.values()) == labels


def test_training_writes_a_model_that_the_auto_classes_load(tmp_path: Path) -> None:
    """The real training script on a few texts."""
    from runner.demo.train import train, write_tokenizer_config

    tuning = read_corpus(PROTOCOL / "corpus" / "tuning.csv").documents[:80]
    rows = [(item.id, item.text, item.label or "") for item in tuning]
    (tmp_path / "few.csv").write_bytes(csv_bytes(("id", "text", "label"), rows))
    (tmp_path / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    write_tokenizer_config(tmp_path)
    assert (tmp_path / "tokenizer_config.json").read_bytes() == (MODEL / "tokenizer_config.json").read_bytes()
    said: list[str] = []
    train(tmp_path / "few.csv", tmp_path, said.append)
    assert len(said) == 4
    tokenizer, model = load(tmp_path)
    assert model(**tokenizer("hello", return_tensors="pt")).logits.shape == (1, len({item.label for item in tuning}))
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_a_frozen_demo_is_not_made_again(tmp_path: Path) -> None:
    """M4: exit 2 and nothing written."""
    from runner.cli.main import run

    campaign = Campaign(tmp_path)
    campaign.protocol_dir.mkdir()
    campaign.lock.write_text("{}", encoding="utf-8")
    assert run(["--campaign", str(tmp_path), "demo-model"]) == 2
    assert [path.name for path in campaign.protocol_dir.iterdir()] == ["protocol.lock.json"]


def test_the_command_explains_itself() -> None:
    from runner.cli.corpus import demo_model

    result = CliRunner().invoke(demo_model, ["--help"])
    assert result.exit_code == 0 and "synthetic" in result.output
    assert sum(TUNING_TEXTS.values()) == 6000
