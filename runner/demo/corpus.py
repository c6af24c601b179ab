"""The embedded corpus as files: tuning split, tokenizer trained on it, final split with exact strata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from runner.corpus.strata import Band, TokenizerFile, band_of
from runner.corpus.write import csv_bytes
from runner.demo.generate import Dice, Length, Message, messages
from runner.demo.vocabulary import learn_vocabulary

SEED = 20261130
COLUMNS = ("id", "text", "label", "stratum")
# Tokens of the model's own tokenizer, [CLS] and [SEP] not counted; with them the longest stays below 512.
FINAL_BANDS = (Band("short", 1, 32, 600), Band("medium", 33, 128, 300), Band("long", 129, 480, 100))
TUNING_TEXTS: dict[Length, int] = {"short": 3600, "medium": 1800, "long": 600}
VOCABULARY = 2000
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Entry(NamedTuple):
    """One line of a split."""

    id: str
    text: str
    label: str
    stratum: str


@dataclass(frozen=True, slots=True)
class Splits:
    """Both splits and the tokenizer that the strata are counted with."""

    tuning: tuple[Entry, ...]
    final: tuple[Entry, ...]


def tuning_messages(seed: int, taken: set[str]) -> list[Message]:
    """The tuning split's texts, in the order that the tokenizer is trained on."""
    found: list[Message] = []
    for length, count in TUNING_TEXTS.items():
        source = messages(seed, "tuning", length, taken)
        found += [next(source) for _ in range(count)]
    return Dice(f"{seed}/tuning/order").some(found, len(found))


def train_tokenizer(texts: Sequence[str]) -> str:
    """WordPiece tokenizer whose vocabulary is learned from these texts; returns its `tokenizer.json`."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import WordPiece as WordPieceDecoder
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer, Digits
    from tokenizers.pre_tokenizers import Sequence as InOrder
    from tokenizers.processors import TemplateProcessing

    normalizer = BertNormalizer(lowercase=True)
    splitter = InOrder([BertPreTokenizer(), Digits(individual_digits=True)])
    words = (word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    vocabulary = {name: number for number, name in enumerate(learn_vocabulary(words, VOCABULARY, SPECIAL_TOKENS))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    text: str = tokenizer.to_str(pretty=True)
    return text + "\n"


def make_splits(tokenizer: Path, seed: int = SEED) -> Splits:
    """Both splits for this tokenizer. `tokenizer`: the model's folder or its `tokenizer.json`."""
    counter = TokenizerFile(tokenizer)
    taken: set[str] = set()
    tuning = tuning_messages(seed, taken)
    lengths = counter.count(message.text for message in tuning)
    entries = []
    for number, (message, tokens) in enumerate(zip(tuning, lengths, strict=True), start=1):
        band = band_of(tokens, FINAL_BANDS)
        entries.append(Entry(f"tuning-{number:05}", *message, stratum=band.name if band else "longer"))
    chosen = [item for band in FINAL_BANDS for item in _fill(band, counter, seed, taken)]
    mixed = Dice(f"{seed}/final/order").some(chosen, len(chosen))
    final = tuple(
        Entry(f"final-{number:04}", message.text, message.label, stratum)
        for number, (message, stratum) in enumerate(mixed, start=1)
    )
    return Splits(tuple(entries), final)


def _fill(band: Band, counter: TokenizerFile, seed: int, taken: set[str]) -> Iterator[tuple[Message, str]]:
    """As many messages as the band wants, each of a length inside it."""
    source = messages(seed, "final", _length(band.name), taken)
    found = 0
    while found < band.wanted:
        message = next(source)
        (tokens,) = counter.count([message.text])
        if band.holds(tokens):
            found += 1
            yield message, band.name


def _length(name: str) -> Length:
    lengths: dict[str, Length] = {"short": "short", "medium": "medium", "long": "long"}
    return lengths[name]


def split_bytes(entries: Sequence[Entry]) -> bytes:
    """The split as its CSV file."""
    return csv_bytes(COLUMNS, entries)
