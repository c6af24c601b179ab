"""Six published layouts go through build, freeze and judgement by options alone (issue: nothing edited by hand)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_corpus_build import LAYOUTS, MODEL, PUBLISHED

from runner.cli.main import run
from runner.corpus.read import Document, read_corpus
from runner.corpus.write import csv_bytes

PROTOCOL = """\
schema_version = "protocol/1"

[question]
name = "published"
revision = 1
text = "Which configuration?"
scenario = "offline"

[[corpus]]
id = "mine"
final = "corpus/mine/final.csv"

[model]
source = "model"

[quality]
metric = "accuracy"
threshold = "0.5"
max_drop = "0.5"
min_agreement = "0.5"
{baseline}
[[series]]
name = "batch"
variable = "batch_size"
values = [1, 4]
"""


def set_up(root: Path, name: str, capsys: pytest.CaptureFixture[str], baseline: str) -> tuple[Document, ...]:
    """Build the corpus of a published set and write the campaign around it; the model knows its labels."""
    source, options, *_ = LAYOUTS[name]
    command = ["corpus", "--from", str(PUBLISHED / source), "--name", "mine", "--all", "--tokenizer", str(MODEL)]
    assert run(["--campaign", str(root), *command, *options]) == 0
    capsys.readouterr()
    documents = read_corpus(root / "protocol" / "corpus" / "mine" / "final.csv").documents
    write_model(root / "protocol" / "model", sorted({item.label or "" for item in documents}))
    (root / "protocol" / "quality-protocol.toml").write_text(PROTOCOL.format(baseline=baseline), encoding="utf-8")
    plan = (MODEL.parent / "plan.toml").read_text(encoding="utf-8").replace("demo-final", "mine")
    plan = plan.replace('"2027-10-', '"2027-11-')  # shipped dates are nobody's own
    (root / "protocol" / "plan.toml").write_text(plan, encoding="utf-8")
    shutil.copy(MODEL.parents[1] / "tariffs.csv", root)
    return documents


def write_model(folder: Path, labels: list[str]) -> None:
    """A real, untrained classifier with these labels, one layer of eight."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=2000,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=512,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL / file, folder)


def predictions(path: Path, documents: tuple[Document, ...], wrong: int = 0) -> Path:
    """Right answers as a prediction file, but for the first `wrong` ones."""
    labels = sorted({item.label or "" for item in documents})
    other = {label: labels[number - 1] for number, label in enumerate(labels)}
    rows = [
        (item.id, other[item.label or ""] if number < wrong else item.label or "", "0.9")
        for number, item in enumerate(documents)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(csv_bytes(("id", "label", "score"), rows))
    return path


@pytest.mark.parametrize("name", LAYOUTS)
def test_published_sets_are_built_frozen_and_judged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M2, M3, M13, M28"""
    documents = set_up(tmp_path, name, capsys, '\n[baseline]\nfile = "given"\n')
    predictions(tmp_path / "protocol" / "given" / "mine.csv", documents)
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    one_wrong = predictions(tmp_path / "one-wrong.csv", documents, wrong=1)
    assert run(["--campaign", str(tmp_path), "validate", "--predictions", str(one_wrong), "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert verdict["accepted"] is True
    assert verdict["flips"] == 1 and verdict["flips_listed"][0]["document_id"] == documents[0].id
    mostly_wrong = predictions(tmp_path / "wrong.csv", documents, wrong=len(documents))
    assert run(["--campaign", str(tmp_path), "validate", "--predictions", str(mostly_wrong)]) == 3


@pytest.mark.e2e
def test_a_published_set_gets_its_baseline_from_its_own_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M2: `runner baseline` on a corpus and a model that the code has never seen; ids are paths."""
    documents = set_up(tmp_path, "20 Newsgroups", capsys, "")
    assert run(["--campaign", str(tmp_path), "baseline"]) == 0, capsys.readouterr().err
    assert run(["--campaign", str(tmp_path), "freeze"]) == 0, capsys.readouterr().err
    lock = json.loads((tmp_path / "protocol" / "protocol.lock.json").read_text(encoding="utf-8"))
    assert lock["judgement"]["corpora"][0]["documents"] == len(documents)
    assert set(lock["judgement"]["label_table"]) == {item.label for item in documents}
