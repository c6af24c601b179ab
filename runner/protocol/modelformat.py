"""Are the model's files whole? Looked at before anything is loaded, without torch, without reading weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from runner.errors import InputRefused, show_value
from runner.evidence.canonical import load_json_file

_LENGTH_BYTES = 8
_LONGEST_HEADER_BYTES = 100_000_000  # the format's own limit
_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "I16": 16,
    "U16": 16,
    "I32": 32,
    "U32": 32,
    "I64": 64,
    "U64": 64,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F16": 16,
    "BF16": 16,
    "F32": 32,
    "F64": 64,
}
_COPY_AGAIN = "copy the file again from where the model was made"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.*",
    "*.tiktoken",
    "tekken.json",
    "tokenizer_config.json",
)


def check_model_files(folder: Path) -> None:
    """Refuse (exit 2) weights that are cut off, shards that are missing, a tokenizer that is none."""
    for index in sorted(folder.glob("*.safetensors.index.json")):
        _check_index(folder, index)
    for weights in sorted(folder.glob("*.safetensors")):
        check_safetensors(weights)
    _check_tokenizer(folder)


def check_safetensors(path: Path) -> None:
    """The header is read and held against the file's size: a download that stopped half-way is seen here."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        first = stream.read(_LENGTH_BYTES)
        length = int.from_bytes(first, "little")
        if len(first) < _LENGTH_BYTES or length > min(_LONGEST_HEADER_BYTES, size - _LENGTH_BYTES):
            raise _not_whole(path, f"its header says {length} bytes, the file has {size}")
        raw = stream.read(length)
    try:
        header = json.loads(raw)
    except ValueError:
        raise _not_whole(path, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _not_whole(path, "its header is no JSON object")
    _check_places(path, header, size - _LENGTH_BYTES - length)


def _check_places(path: Path, header: dict[str, Any], data_bytes: int) -> None:
    """Tensors lie one after another and fill the file exactly."""
    places = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        try:
            start, end = tensor["data_offsets"]
            bits = _BITS.get(tensor["dtype"])
            wanted = None if bits is None else math.prod(tensor["shape"]) * bits // 8
        except (TypeError, KeyError, ValueError):
            raise _not_whole(path, f"its header does not describe the tensor {show_value(name)}") from None
        if not all(isinstance(value, int) for value in (start, end)) or wanted not in (None, end - start):
            raise _not_whole(path, f"the tensor {show_value(name)} does not fill its place")
        places.append((start, end))
    at = 0
    for start, end in sorted(places):
        if start != at:
            raise _not_whole(path, "its tensors do not lie one after another")
        at = end
    if at != data_bytes:
        raise _not_whole(path, f"its header names {at} bytes of weights, the file has {data_bytes}")


def _not_whole(path: Path, why: str) -> InputRefused:
    return InputRefused(f"the weights are not a whole safetensors file: {why}", file=path, next_step=_COPY_AGAIN)


def _check_index(folder: Path, index: Path) -> None:
    content = load_json_file(index)
    names = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise InputRefused("the index of the weights has no weight_map", file=index, next_step=_COPY_AGAIN)
    missing = sorted({name for name in names.values() if not _is_file(folder, name)})
    if missing:
        raise InputRefused(
            f"{len(missing)} of the files that the index names are not there",
            file=index,
            details=tuple(show_value(name) for name in missing[:10]),
            next_step="copy the missing files into the folder",
        )


def _is_file(folder: Path, name: str) -> bool:
    return "\0" not in name and Path(name).name == name and (folder / name).is_file()


def _check_tokenizer(folder: Path) -> None:
    """A tokenizer file has to be there; `tokenizer.json` is read by the library that will use it."""
    if not any(True for pattern in _TOKENIZER_FILES for _ in folder.glob(pattern)):
        raise InputRefused(
            "the model folder has no tokenizer",
            file=folder,
            next_step="put tokenizer.json (or the files of the model's own tokenizer) beside the weights",
        )
    for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        file = folder / name
        if file.is_file() and not isinstance(load_json_file(file), dict):
            raise InputRefused("must hold one JSON object", file=file, next_step=_COPY_AGAIN)
    file = folder / "tokenizer.json"
    if file.is_file():
        _check_tokenizer_json(file)


def _check_tokenizer_json(file: Path) -> None:
    try:
        content = json.loads(file.read_bytes())
    except ValueError as error:
        raise InputRefused(f"not JSON: {error}", file=file, next_step=_COPY_AGAIN) from None
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise InputRefused('this is no tokenizer: it has no "model"', file=file, next_step=_COPY_AGAIN)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return  # a laptop without the measuring part: JSON with a model is all that can be said
    try:
        Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise InputRefused(
            f"this tokenizer cannot be read: {_first_line(str(error))}", file=file, next_step=_COPY_AGAIN
        ) from None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")[:200]
