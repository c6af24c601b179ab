"""How many tokens of a text the model sees: one number, frozen (MO-07)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.errors import InputRefused
from runner.evidence.canonical import load_json_file

# Tokenizers write int(1e30) for "no limit known"; no real limit is anywhere near a billion.
_NO_LIMIT_FROM = 1_000_000_000
_POSITION_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len")
# Position ids of this family start behind the padding id, so two positions are never used.
_OFFSET_TYPES = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "longformer", "mpnet", "roberta-prelayernorm")


def effective_max_length(model_dir: Path, requested: int | None) -> int:
    """Tokens per text, special tokens included: the request, else the smallest limit of the folder.

    Refused: no usable limit and no request, or a request above the limit.
    """
    config_file, tokenizer_file = model_dir / "config.json", model_dir / "tokenizer_config.json"
    config = _mapping(config_file)
    tokenizer = _mapping(tokenizer_file) if tokenizer_file.is_file() else {}
    limits = _limits(config, tokenizer)
    if requested is None:
        if not limits:
            raise InputRefused(
                "no usable maximum length; set max_length in the protocol",
                file=config_file,
                next_step="write max_length = 256 (for example) under [model]",
            )
        return min(limits.values())
    for name, limit in limits.items():
        if requested > limit:
            raise InputRefused(
                f"max_length {requested} is above the model's limit {limit} ({name})",
                file=config_file,
                next_step=f"set max_length to at most {limit}",
            )
    return requested


def _limits(config: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key in _POSITION_KEYS:
        limit = _usable(config.get(key))
        if limit is not None:
            found[f"config.json {key}"] = limit - _unused_positions(config)
    limit = _usable(tokenizer.get("model_max_length"))
    if limit is not None:
        found["tokenizer_config.json model_max_length"] = limit
    return found


def _usable(limit: object) -> int | None:
    """The limit if it is one. Some tokenizers write 512.0 or 1e30."""
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < _NO_LIMIT_FROM else None


def _unused_positions(config: Mapping[str, Any]) -> int:
    if config.get("model_type") not in _OFFSET_TYPES:
        return 0
    padding = config.get("pad_token_id")
    return (padding if isinstance(padding, int) else 1) + 1


def _mapping(file: Path) -> Mapping[str, Any]:
    content = load_json_file(file)
    if not isinstance(content, dict):
        raise InputRefused("must hold one JSON object", file=file, next_step="take the file that belongs to the model")
    return content
