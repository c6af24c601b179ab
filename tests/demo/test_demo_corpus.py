"""The embedded corpus: repeatable, disjoint, exact strata, never quite decidable, called synthetic."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from runner.corpus.overlap import find_overlap, normalised_text
from runner.corpus.read import read_corpus
from runner.corpus.strata import TokenizerFile, band_of
from runner.demo.corpus import (
    FINAL_BANDS,
    SEED,
    SPECIAL_TOKENS,
    make_splits,
    split_bytes,
    train_tokenizer,
    tuning_messages,
)
from runner.demo.generate import LABEL_WEIGHTS, Dice, messages, phrases
from runner.demo.vocabulary import learn_vocabulary

PROTOCOL = Path(__file__).parents[2] / "protocol"
MODEL = PROTOCOL / "model"


def test_the_committed_corpus_is_made_again_byte_for_byte() -> None:
    """M13: seeded and repeatable."""
    splits = make_splits(MODEL)
    assert split_bytes(splits.final) == (PROTOCOL / "corpus" / "final.csv").read_bytes()
    assert split_bytes(splits.tuning) == (PROTOCOL / "corpus" / "tuning.csv").read_bytes()


def test_the_committed_tokenizer_is_learned_from_the_tuning_texts_alone() -> None:
    """M5: and the same one comes out every time."""
    texts = [message.text for message in tuning_messages(SEED, set())]
    assert train_tokenizer(texts) == (MODEL / "tokenizer.json").read_text(encoding="utf-8")


def test_strata_are_exact_by_the_models_tokenizer() -> None:
    """M13: 600 short, 300 medium, 100 long, each inside its limits; classes alike in each stratum."""
    final = read_corpus(PROTOCOL / "corpus" / "final.csv", group_columns=("stratum",))
    assert not final.warnings
    lengths = list(TokenizerFile(MODEL).count(item.text for item in final.documents))
    bands = [band_of(tokens, FINAL_BANDS) for tokens in lengths]
    assert [band.name if band else None for band in bands] == [item.groups[0] for item in final.documents]
    assert Counter(item.groups[0] for item in final.documents) == {"short": 600, "medium": 300, "long": 100}
    for stratum in ("short", "medium", "long"):
        labels = Counter(item.label for item in final.documents if item.groups[0] == stratum)
        share = labels["billing"] / labels.total()
        assert set(labels) == set(LABEL_WEIGHTS) and 0.14 <= share <= 0.30


def test_no_text_of_the_corpus_is_cut() -> None:
    """With its special tokens every text stays within the model's 512 tokens."""
    final = read_corpus(PROTOCOL / "corpus" / "final.csv")
    counter = TokenizerFile(MODEL, special_tokens=True)
    assert max(counter.count(item.text for item in final.documents)) <= 512


def test_splits_share_nothing() -> None:
    """M5: neither ids nor normalised texts; also no text twice inside a split."""
    tuning, final = (read_corpus(PROTOCOL / "corpus" / f"{name}.csv").documents for name in ("tuning", "final"))
    assert len(tuning) == 6000 and len(final) == 1000
    assert not find_overlap(tuning, final).found
    keys = [normalised_text(item.text) for item in (*tuning, *final)]
    assert len(set(keys)) == len(keys)


def test_some_labels_cannot_be_known() -> None:
    """About one message in ten has two equal subjects or none, so that nobody is always right."""
    vague = {sentence.split("{")[0] for sentence in phrases()["neutral"]["vague"]}
    final = read_corpus(PROTOCOL / "corpus" / "final.csv").documents
    without_subject = [item for item in final if any(item.text.startswith(start) for start in vague if len(start) > 12)]
    assert len(without_subject) > 10
    assert len({item.label for item in without_subject}) >= 4


def test_another_seed_gives_other_messages_and_taken_texts_never_come_again() -> None:
    """M13"""
    source = messages(1, "tuning", "short", taken := set())
    first = [next(source) for _ in range(40)]
    assert len(taken) == 40
    again = messages(1, "tuning", "short", set())
    assert [next(again) for _ in range(40)] == first
    other = messages(2, "tuning", "short", set())
    assert [next(other) for _ in range(40)] != first
    later = messages(1, "tuning", "short", taken)
    assert normalised_text(next(later).text) not in {normalised_text(message.text) for message in first}


def test_every_slot_is_filled() -> None:
    for length in ("short", "medium", "long"):
        source = messages(5, "final", length, set())
        for _ in range(60):
            message = next(source)
            assert not set("{}#") & set(message.text), message.text


def test_dice_are_fair_enough_and_never_repeat_inside_a_sample() -> None:
    dice = Dice("x")
    assert sorted(dice.some(range(50), 50)) == list(range(50))
    counts = Counter(dice.weighted({"a": 3, "b": 1}) for _ in range(2000))
    assert 1350 < counts["a"] < 1650


def test_vocabulary_merges_the_commonest_pair_and_breaks_ties_by_code_point() -> None:
    words = ["ab", "ab", "ab", "cd", "cd", "abcd"]
    assert learn_vocabulary(words, 100, ("[UNK]",)) == ["[UNK]", "##b", "##c", "##d", "a", "c", "ab", "cd"]
    assert len(learn_vocabulary(words, 7, ("[UNK]",))) == 7
    assert learn_vocabulary(words, 100, SPECIAL_TOKENS)[:5] == list(SPECIAL_TOKENS)


@pytest.mark.parametrize("name", ["corpus/README.md", "model/README.md"])
def test_data_sheet_and_model_card_say_synthetic(name: str) -> None:
    assert "synthetic" in (PROTOCOL / name).read_text(encoding="utf-8").splitlines()[0]


def test_the_protocol_of_the_demo_is_marked_synthetic_and_readable() -> None:
    from runner.protocol.read import read_protocol

    protocol = read_protocol(PROTOCOL / "quality-protocol.toml")
    assert protocol.question.synthetic
    assert [entry.id for entry in protocol.corpus] == ["demo-final"]
    assert {group.value for group in protocol.quality.subgroup} == {band.name for band in FINAL_BANDS}
    plan = tomllib.loads((PROTOCOL / "plan.toml").read_text(encoding="utf-8"))
    assert plan["deliverables"] == ["demo-final"]
