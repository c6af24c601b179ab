"""Length bands in tokens of the chosen tokenizer (M13). Limits are inclusive; nothing is topped up."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from runner.errors import InputRefused
from runner.evidence.canonical import sha256_file

OUTSIDE_NAME = "outside"
"""Stratum of documents whose length is in no band (only where nothing is sampled)."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_BATCH = 1024
_BANDS = "--band short:1-40:600 --band long:41+:400 (for example): NAME:FROM-TO:COUNT, letters, digits, '.', '_', '-'"


@dataclass(frozen=True, slots=True)
class Band:
    """Texts of `least` to `most` tokens, both included; `most=None`: no upper limit."""

    name: str
    least: int
    most: int | None
    wanted: int

    def holds(self, tokens: int) -> bool:
        return self.least <= tokens and (self.most is None or tokens <= self.most)

    @property
    def limits(self) -> str:
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


def band_of(tokens: int, bands: Sequence[Band]) -> Band | None:
    """The band of this length; None for a length outside all bands."""
    return next((band for band in bands if band.holds(tokens)), None)


def check_bands(bands: Sequence[Band]) -> None:
    """Bands must rise and must not overlap; gaps are allowed (texts of such lengths are left out)."""
    if not bands:
        raise InputRefused("no length band is given", next_step=_BANDS)
    last = 0
    names = set()
    for band in bands:
        if band.name in names:
            raise InputRefused(
                "two length bands have one name", value=band.name, next_step="give each --band its own name"
            )
        names.add(band.name)
        if not _NAME.fullmatch(band.name) or band.name == OUTSIDE_NAME:
            raise InputRefused(
                "not a name for a length band: use letters, digits, '.', '_' or '-'", value=band.name, next_step=_BANDS
            )
        if band.least < 1 or (band.most is not None and band.most < band.least):
            raise InputRefused(
                f"the limits {band.limits} of a length band are not a range", value=band.name, next_step=_BANDS
            )
        if band.least <= last:
            raise InputRefused(
                "length bands must rise without overlapping",
                value=band.name,
                next_step="order the bands from short to long; each begins after the end of the one before",
            )
        if band.wanted < 0:
            raise InputRefused("a length band cannot want fewer than 0 texts", value=band.name, next_step=_BANDS)
        last = band.most if band.most is not None else 1 << 62


class TokenCounter(Protocol):
    """Counts tokens of texts; `fingerprint` says by what, so that equal lengths mean equal work."""

    @property
    def fingerprint(self) -> Mapping[str, str | int | bool]: ...

    def count(self, texts: Iterable[str]) -> Iterator[int]: ...


class TokenizerFile:
    """A `tokenizer.json` of the `tokenizers` library. Truncation and padding are switched off."""

    def __init__(self, path: Path, *, special_tokens: bool = False) -> None:
        from tokenizers import Tokenizer

        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise InputRefused(
                "there is no tokenizer.json", file=file, next_step="give the model's folder or its tokenizer.json"
            )
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises bare Exception
            raise InputRefused(
                f"not a tokenizer file: {error}", file=file, next_step="copy the model's tokenizer.json again, whole"
            ) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._special_tokens = special_tokens
        self._sha256 = sha256_file(file)

    @property
    def fingerprint(self) -> Mapping[str, str | int | bool]:
        return {"tokenizer_sha256": self._sha256, "count_special_tokens": self._special_tokens}

    def count(self, texts: Iterable[str]) -> Iterator[int]:
        """Number of tokens of each text, in order; texts are taken in batches."""
        for batch in _batches(texts):
            for encoding in self._encode(batch):
                yield len(encoding.ids)

    def _encode(self, batch: list[str]) -> Sequence[Any]:
        encoded: Sequence[Any] = self._tokenizer.encode_batch_fast(batch, add_special_tokens=self._special_tokens)
        return encoded


class WhitespaceWords:
    """Counts words between blanks, for models without a `tokenizer.json`. Special tokens: two per text."""

    def __init__(self, *, special_tokens: bool = False) -> None:
        self._extra = 2 if special_tokens else 0

    @property
    def fingerprint(self) -> Mapping[str, str | int | bool]:
        rule = f"whitespace words, {self._extra} special tokens per text"
        return {"tokenizer_sha256": hashlib.sha256(rule.encode()).hexdigest(), "count_special_tokens": self._extra > 0}

    def count(self, texts: Iterable[str]) -> Iterator[int]:
        for text in texts:
            yield len(text.split()) + self._extra


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


class TooFewTexts(InputRefused):
    """Some band has fewer texts than wanted (M13): each with its numbers, nothing is filled up."""

    def __init__(self, found: Mapping[str, int], bands: Sequence[Band], *, file: Path, what: str = "") -> None:
        details = []
        for band in bands:
            have = found.get(band.name, 0)
            text = f"{band.name} ({band.limits} tokens): {have} of {band.wanted}"
            details.append(text + (f", {band.wanted - have} missing" if have < band.wanted else ""))
        super().__init__(
            f"there are too few {what}texts of some lengths",
            file=file,
            details=tuple(details),
            next_step="--all (make corpus ALL=1) takes every text, --band NAME:FROM-TO:COUNT sets other limits or "
            "numbers; or add texts of the missing lengths",
        )
