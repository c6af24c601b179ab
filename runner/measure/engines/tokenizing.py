"""Texts to token ids with the model's own tokenizer: the Rust one in chunks, without offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.measure.job import ModelSource, Unsupported

CHUNK_DOCUMENTS = 256


@dataclass(frozen=True)
class Tokens:
    """Token ids of some texts; type ids only where the model needs others than zeros."""

    ids: list[list[int]]
    type_ids: list[list[int]] | None

    def take(self, places: Sequence[int]) -> Tokens:
        """The texts at these places, in this order."""
        types = None if self.type_ids is None else [self.type_ids[at] for at in places]
        return Tokens([self.ids[at] for at in places], types)


class Tokenising:
    """The tokenizer as the protocol wants it: maximum length, truncation, padding token and side."""

    def __init__(self, tokenizer: Any, source: ModelSource, *, truncation: bool, padding_side: str) -> None:
        self._tokenizer = tokenizer
        self._fast: Any = getattr(tokenizer, "backend_tokenizer", None)
        self.max_length = source.max_length
        self.truncation = truncation
        self.padding_side = padding_side
        self._apply_padding_token(source.pad_token)
        if self._fast is not None:
            self._fast.no_padding()
            self._limit(self.max_length if truncation else None)
        self.with_types = "token_type_ids" in tokenizer.model_input_names and self._has_types()

    @property
    def pad_token_id(self) -> int | None:
        token = self._tokenizer.pad_token_id
        return None if token is None else int(token)

    @property
    def default_side(self) -> str:
        """The side that the tokenizer's own files ask for."""
        return str(self._tokenizer.padding_side)

    def facts(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "class": type(self._tokenizer).__name__,
            "kind": "slow" if self._fast is None else "fast",
            "rust": self._fast is not None,
            "pad_token_id": self.pad_token_id,
            "padding_side_of_files": self.default_side,
        }

    def encode(self, texts: Sequence[str]) -> Tokens:
        """Special tokens added, cut at the maximum length where the protocol truncates."""
        if self._fast is None:
            options = {"truncation": self.truncation, "max_length": self.max_length} if self.truncation else {}
            encoded = self._tokenizer(list(texts), return_attention_mask=False, **options)
            return Tokens(encoded["input_ids"], encoded.get("token_type_ids") if self.with_types else None)
        encodings = self._fast.encode_batch_fast(list(texts))
        types = [encoding.type_ids for encoding in encodings] if self.with_types else None
        return Tokens([encoding.ids for encoding in encodings], types)

    def cut_tokens(self, texts: Sequence[str], lengths: Sequence[int]) -> tuple[int, int]:
        """Documents that were cut and tokens cut away in all. Not for the timed part: tokenises again."""
        if not self.truncation:
            return 0, 0
        full = [text for text, length in zip(texts, lengths, strict=True) if length >= self.max_length]
        cut = [length - self.max_length for length in self._full_lengths(full) if length > self.max_length]
        return len(cut), sum(cut)

    def _full_lengths(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        if self._fast is None:
            return [len(ids) for ids in self._tokenizer(list(texts), truncation=False)["input_ids"]]
        self._limit(None)
        try:
            return [len(encoding.ids) for encoding in self._fast.encode_batch_fast(list(texts))]
        finally:
            self._limit(self.max_length)

    def _limit(self, length: int | None) -> None:
        if length is None:
            self._fast.no_truncation()
        else:
            side = getattr(self._tokenizer, "truncation_side", "right")
            self._fast.enable_truncation(max_length=length, stride=0, strategy="longest_first", direction=side)

    def _has_types(self) -> bool:
        if self._fast is None:
            return True
        return any(self._fast.encode_batch_fast(["a"])[0].type_ids)

    def _apply_padding_token(self, wanted: str | None) -> None:
        if wanted is None:
            return
        token = self._tokenizer.eos_token if wanted == "eos" else wanted
        if token is None or self._tokenizer.convert_tokens_to_ids(token) is None:
            raise Unsupported(f"the padding token {wanted!r} of the protocol is not in the tokenizer")
        self._tokenizer.pad_token = token


def padded_width(longest: int, padding: str, max_length: int) -> int:
    """Width of a batch whose longest text has `longest` tokens, by the declared padding."""
    if padding in ("longest", "none"):
        return longest
    if padding == "max-length":
        return max_length
    name, _, multiple = padding.partition(":")
    if name == "multiple-of" and multiple.isdecimal() and int(multiple) > 0:
        # Never beyond the maximum length: there are no positions for it.
        return max(longest, min(-(-longest // int(multiple)) * int(multiple), max_length))
    raise Unsupported(f"padding {padding!r} is not known: use longest, multiple-of:N, max-length or none")
