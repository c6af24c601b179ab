"""Labels by the model's own table (MO-01, MO-02, MO-04, MO-10) and the effective length (MO-07)."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from runner.errors import InputRefused
from runner.evidence.campaign import Campaign
from runner.judge.campaign import judge_predictions
from runner.protocol.freeze import freeze
from runner.protocol.labels import LabelTable, NonFiniteLogits, decode, label_table, table_of
from runner.protocol.lengths import effective_max_length
from runner.protocol.schema import Model, SingleLogit
from tests.support.small_campaign import SIMPLE_PROTOCOL, case_campaign, write_csv

CASES = Path(__file__).parent.parent / "cases"


def logits_of(case: str) -> tuple[list[str], np.ndarray]:
    with (CASES / case / "logits.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    return [row[0] for row in rows], np.array([[float(cell) for cell in row[1:]] for row in rows])


def campaign_of(tmp_path: Path, case: str, protocol: str = SIMPLE_PROTOCOL) -> Campaign:
    """The case's corpus and config.json; the baseline is whatever its logits say, if they can be decoded."""
    config = json.loads((CASES / case / "config.json").read_text())
    campaign = case_campaign(tmp_path / "campaign", CASES / case / "corpus.csv", protocol=protocol)
    config["max_position_embeddings"] = 64
    (campaign.protocol_dir / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return campaign


def predictions_of(tmp_path: Path, case: str, table: LabelTable) -> Path:
    ids, logits = logits_of(case)
    decoded = decode(logits, table)
    rows = [
        (name, label, repr(float(score))) for name, label, score in zip(ids, decoded.labels, decoded.score, strict=True)
    ]
    return write_csv(tmp_path / "predictions.csv", ("id", "label", "score"), rows)


def test_mo_01_labels_come_from_the_models_index(tmp_path: Path) -> None:
    """MO-01: the corpus begins with entailment, the model with contradiction; 6/6 all the same."""
    campaign = campaign_of(tmp_path, "MO-01")
    predictions = predictions_of(tmp_path, "MO-01", LabelTable(("contradiction", "neutral", "entailment")))
    shutil.copy(predictions, campaign.baseline_dir / "small-final.csv")
    campaign.protocol.write_text(SIMPLE_PROTOCOL.replace("[[series]]", '[baseline]\nfile = "baseline"\n\n[[series]]'))
    (campaign.baseline_dir / "small-final.parquet").unlink()
    lock = freeze(campaign)
    assert table_of(lock).labels == ("contradiction", "neutral", "entailment")
    assert judge_predictions(campaign, predictions).metrics[0].fraction == "6/6"
    other = lock.judgement.model_copy(update={"label_table": ("entailment", "neutral", "contradiction")})
    assert lock.model_copy(update={"judgement": other}).lock_sha256 != lock.lock_sha256


MAP = '[model.label_map]\nnegative = "NEGATIVE"\npositive = "POSITIVE"\nPositive = "POSITIVE"\n\n[quality]'


def test_mo_02_labels_that_differ_by_case_need_a_map(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, "MO-02")
    with pytest.raises(InputRefused) as caught:
        freeze(campaign)
    message = str(caught.value)
    assert "'Positive', 'negative', 'positive'" in message and "'NEGATIVE', 'POSITIVE'" in message
    assert "no letter case is folded" in message
    assert not campaign.lock.exists() and not list(campaign.protocol_dir.glob("reference/*"))


def test_mo_02_with_a_map(tmp_path: Path) -> None:
    protocol = SIMPLE_PROTOCOL.replace("[quality]", MAP, 1).replace(
        "[[series]]", '[baseline]\nfile = "baseline/small-final.csv"\n\n[[series]]'
    )
    campaign = campaign_of(tmp_path, "MO-02", protocol)
    predictions = predictions_of(tmp_path, "MO-02", LabelTable(("NEGATIVE", "POSITIVE")))
    shutil.copy(predictions, campaign.baseline_dir / "small-final.csv")
    lock = freeze(campaign)
    assert judge_predictions(campaign, predictions).metrics[0].fraction == "3/3"
    assert lock.judgement.protocol["model"]["label_map"]["Positive"] == "POSITIVE"  # type: ignore[index]


def test_a_map_to_a_label_that_the_model_has_not() -> None:
    with pytest.raises(InputRefused, match="no label of the model"):
        label_table({"id2label": {"0": "a", "1": "b"}}, Model(source="m", label_map={"x": "c"}), ["a"])


SINGLE = '[model.single_logit]\npositive = "pos"\nnegative = "neg"\ncut = "0.5"\nat_cut = "positive"\n\n[quality]'


def test_mo_04_one_output_needs_a_rule(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, "MO-04")
    with pytest.raises(InputRefused) as caught:
        freeze(campaign)
    assert "1 output" in caught.value.what and "2 labels" in caught.value.what
    assert "single_logit" in str(caught.value.next_step) and "regression" in str(caught.value.next_step)
    assert not campaign.lock.exists()


def test_mo_04_with_the_rule(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, "MO-04", SIMPLE_PROTOCOL.replace("[quality]", SINGLE, 1))
    lock = freeze(campaign)
    _, logits = logits_of("MO-04")
    decoded = decode(logits, table_of(lock))
    assert [f"{score:.4f}" for score in decoded.score] == ["0.1192", "0.5000", "0.8808"]
    assert decoded.labels == ("neg", "pos", "pos")
    predictions = predictions_of(tmp_path, "MO-04", table_of(lock))
    assert judge_predictions(campaign, predictions).metrics[0].fraction == "3/3"


def test_a_score_exactly_at_the_cut_follows_the_rule() -> None:
    rule = SingleLogit(positive="pos", negative="neg", at_cut="negative")
    assert decode(np.array([[0.0]]), LabelTable(("neg", "pos"), rule)).labels == ("neg",)


def test_mo_10_non_finite_logits_never_become_labels() -> None:
    ids, logits = logits_of("MO-10")
    with pytest.raises(NonFiniteLogits, match="non-finite logits in 2 documents") as caught:
        decode(logits, LabelTable(("neg", "pos")))
    assert [ids[row] for row in caught.value.rows] == ["v2", "v3"]
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "neither id2label nor num_labels"),
        ({"id2label": {}}, "must map"),
        ({"id2label": {"0": "a", "2": "b"}}, "indices 0 to 1"),
        ({"id2label": {"0": "a", "1": "a"}}, "twice"),
        ({"id2label": {"0": "a", "1": "b"}, "num_labels": 3}, "num_labels is 3"),
        ({"id2label": {"0": "a", "1": "b"}, "problem_type": "multi_label_classification"}, "one label per text"),
    ],
)
def test_unusable_label_tables(config: dict[str, object], words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        label_table(config, Model(source="m"), ["a"])


def test_num_labels_alone_gives_the_names_that_the_library_gives() -> None:
    assert label_table({"num_labels": 2}, Model(source="m"), ["LABEL_1"]).labels == ("LABEL_0", "LABEL_1")


def test_logits_of_another_width_are_a_contradiction() -> None:
    with pytest.raises(InputRefused, match="3 outputs"):
        decode(np.zeros((2, 2)), LabelTable(("a", "b", "c")))


@settings(max_examples=100, deadline=None)
@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 6), st.just(3)),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=32),
    )
)
def test_scores_are_probabilities_whatever_the_logits(logits: np.ndarray) -> None:
    """Property: no overflow, rows sum to 1, the chosen class has the largest score."""
    decoded = decode(logits, LabelTable(("a", "b", "c")))
    assert np.isfinite(decoded.scores).all()
    assert np.allclose(decoded.scores.sum(axis=1), 1)
    assert (decoded.score == decoded.scores.max(axis=1)).all()


def test_mo_07_effective_length(tmp_path: Path) -> None:
    """MO-07: 512 from the positions, a refusal without any limit, 256 as asked for, 1024 refused."""
    case = CASES / "MO-07"
    assert effective_max_length(case / "a", None) == 512
    with pytest.raises(InputRefused, match="no usable maximum length; set max_length in the protocol"):
        effective_max_length(case / "b", None)
    requested = json.loads((case / "c" / "protocol.json").read_text())["max_length"]
    assert effective_max_length(case / "c", requested) == 256
    assert effective_max_length(case / "c", 512) == 512, "the limit itself may be asked for"
    for above in (513, 1024):
        with pytest.raises(InputRefused, match=f"max_length {above} is above the model's limit 512"):
            effective_max_length(case / "c", above)


def test_positions_behind_the_padding_are_not_usable(tmp_path: Path) -> None:
    """RoBERTa has 514 positions and reads 512 tokens."""
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1})
    )
    assert effective_max_length(tmp_path, None) == 512


@pytest.mark.parametrize("content", [[], "text", 7, None])
def test_a_model_configuration_that_is_no_object_is_refused(content: object) -> None:
    with pytest.raises(InputRefused, match="holds no object"):
        label_table(content, Model(source="m"), ["a"], file="config.json")  # type: ignore[arg-type]
