"""Memory exercise (M25): weights and activations, estimated from the config and then observed.

This one file is also the lab folder's `memory.py`: it travels alone, needs Python 3.10 or newer, torch
and transformers, and checks its environment first.

    python memory.py --model FOLDER [--batch 8] [--length 512] [--precision fp32] [--device cpu] [--json]

It teaches what fills a card. It replaces no measurement of your own model on your own texts, and its
figures are never evidence. Exit status: 0 done, 2 environment or input not usable.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BYTES_OF = {"fp32": 4, "fp16": 2, "bf16": 2}
LEAST_PYTHON = (3, 10)
LEAST_TORCH = (2, 1)
LEAST_TRANSFORMERS = (4, 48)
# One name per quantity; other model families call the same things differently.
SHAPE_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "dim", "d_model"),
    "intermediate": ("intermediate_size", "hidden_dim", "n_inner", "ffn_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "positions": ("max_position_embeddings", "n_positions"),
}
LESSON = "An exercise: it replaces no measurement of your own model, and a figure of it is never evidence."


class NotUsable(Exception):
    """The environment or the input cannot be used; the message says what to do."""


# ---- the environment -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One thing that was looked at before anything else."""

    name: str
    found: str
    usable: bool


def environment(device: str, model: Path) -> tuple[Check, ...]:
    """Python, torch, transformers, device and model folder: all looked at, none assumed."""
    python = Check("Python", platform.python_version(), sys.version_info[:2] >= LEAST_PYTHON)
    return (
        python,
        _library("torch", LEAST_TORCH),
        _library("transformers", LEAST_TRANSFORMERS),
        _device(device),
        _model_folder(model),
    )


def _library(name: str, least: tuple[int, int]) -> Check:
    try:
        version = str(__import__(name).__version__)
    except Exception as error:  # a broken installation may raise anything
        return Check(name, f"cannot be imported ({type(error).__name__}: {error}); pip install {name}", False)
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    return Check(name, version, numbers >= least)


def _device(device: str) -> Check:
    if device == "cpu":
        return Check("device", f"cpu, {os.cpu_count()} cores", True)
    try:
        import torch

        if not torch.cuda.is_available():
            return Check("device", "torch finds no GPU; use --device cpu, or check the driver with nvidia-smi", False)
        card = torch.cuda.get_device_properties(0)
        return Check("device", f"{card.name}, {card.total_memory} bytes", True)
    except Exception as error:  # drivers fail in many ways
        return Check("device", f"not usable ({type(error).__name__}: {error})", False)


def _model_folder(model: Path) -> Check:
    missing = [name for name in ("config.json",) if not (model / name).is_file()]
    return Check("model", f"{model}: no {missing[0]}" if missing else str(model), not missing)


# ---- the estimate --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """What the sizes depend on, read from config.json."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    positions: int


@dataclass(frozen=True)
class Estimate:
    """Bytes, before anything was loaded. `largest_phase` is where the activations peak."""

    weight_bytes: int
    activation_bytes: int
    largest_phase: str


def shape_of(config: Mapping[str, Any]) -> Shape:
    """Shape from a config; a family that names its sizes otherwise is refused, not guessed."""
    found: dict[str, int] = {}
    for name, keys in SHAPE_NAMES.items():
        value = next((config[key] for key in keys if isinstance(config.get(key), int)), None)
        if value is None and name == "intermediate" and "hidden" in found:
            value = 4 * found["hidden"]  # the custom of the families that do not state it
        if value is None or value < 1:
            raise NotUsable(f"config.json does not say its {name} ({' or '.join(keys)})")
        found[name] = value
    return Shape(**found)


def activation_estimate(
    shape: Shape, batch: int, length: int, bytes_per_value: int, eager: bool = False
) -> tuple[int, str]:
    """Largest sum of tensors alive at once in one layer without gradients, and the phase in which it is.

    Attention holds input, query, key, value and output (5 x batch x length x hidden), eager attention also
    the scores and their softmax (2 x batch x heads x length x length). The feed-forward part holds input and
    output (2 x hidden) and the wide tensor before and after its activation (2 x intermediate). Layers come one
    after another, so that their number does not matter.
    """
    tokens = batch * length
    attention = 5 * tokens * shape.hidden + (2 * batch * shape.heads * length * length if eager else 0)
    feed_forward = tokens * (2 * shape.hidden + 2 * shape.intermediate)
    name = "attention" if attention > feed_forward else "feed-forward"
    return max(attention, feed_forward) * bytes_per_value, name


def estimate(model: Path, batch: int, length: int, precision: str, attention: str) -> Estimate:
    """Weights counted on torch's `meta` device (shapes without memory), activations by formula."""
    shape = shape_of(read_config(model))
    if length > shape.positions:
        raise NotUsable(f"{length} tokens, the model has positions for {shape.positions}")
    activations, phase = activation_estimate(shape, batch, length, BYTES_OF[precision], attention == "eager")
    return Estimate(_parameter_count(model) * BYTES_OF[precision], activations, phase)


def read_config(model: Path) -> dict[str, Any]:
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotUsable(f"config.json cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise NotUsable("config.json holds no object")
    return config


def _parameter_count(model: Path) -> int:
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(model, local_files_only=True)
    with torch.device("meta"):
        shapes: Any = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    return sum(parameter.numel() for parameter in shapes.parameters())


# ---- the observation -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """A counter with its scope in words; `None` with a reason where it cannot be read. Counters are never added."""

    counter: str
    scope: str
    bytes: int | None
    reason: str | None = None


@dataclass(frozen=True)
class Exercise:
    """Estimate and observation side by side."""

    model: str
    batch: int
    length: int
    precision: str
    attention: str
    device: str
    estimate: Estimate
    weights: Observed
    activations: Observed
    peaks: tuple[Observed, ...]
    capacity_bytes: int | None


def observe(model: Path, batch: int, length: int, precision: str, attention: str, device: str) -> Exercise:
    """Load, run one batch of the full length without gradients, read the counters."""
    import torch
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    expected = estimate(model, batch, length, precision, attention)
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    network = (
        AutoModelForSequenceClassification.from_pretrained(
            model, dtype=dtype, attn_implementation=attention, local_files_only=True
        )
        .to(device)
        .eval()
    )
    tensors = [*network.parameters(), *network.buffers()]
    weights = Observed(
        "sum of the loaded tensors",
        "parameters and buffers of the model",
        sum(tensor.numel() * tensor.element_size() for tensor in tensors),
    )
    ids = torch.ones((batch, length), dtype=torch.long, device=device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        network(**{name: value[:1, :1] for name, value in inputs.items()})  # first use allocates once for all
        activations, peaks = (_on_card if device != "cpu" else _on_processor)(network, inputs)
    capacity = torch.cuda.get_device_properties(0).total_memory if device != "cpu" else _machine_bytes()
    return Exercise(
        str(model), batch, length, precision, attention, device, expected, weights, activations, peaks, capacity
    )


def _on_card(network: Any, inputs: Mapping[str, Any]) -> tuple[Observed, tuple[Observed, ...]]:
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    network(**inputs)
    torch.cuda.synchronize()
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return (
        Observed(
            "max_memory_allocated - memory_allocated before",
            "tensors of this process on card 0, one batch",
            allocated - before,
        ),
        (
            Observed("torch.cuda.max_memory_allocated", "tensors of this process on card 0", allocated),
            Observed("torch.cuda.max_memory_reserved", "torch's allocator on card 0, free blocks included", reserved),
        ),
    )


def _on_processor(network: Any, inputs: Mapping[str, Any]) -> tuple[Observed, tuple[Observed, ...]]:
    scope = "this process, everything resident, libraries included"
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # sets the high-water mark to the present
        before = _status_bytes("VmRSS")
        network(**inputs)
        peak = _status_bytes("VmHWM")
    except OSError as error:
        reason = f"the kernel's high-water mark cannot be reset here ({error.strerror})"
        network(**inputs)
        return Observed("VmHWM - VmRSS before", scope, None, reason), (Observed("VmHWM", scope, None, reason),)
    return (Observed("VmHWM - VmRSS before", f"{scope}, one batch", peak - before), (Observed("VmHWM", scope, peak),))


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(0, f"no {name} in /proc/self/status")


def _machine_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


# ---- the table -----------------------------------------------------------------------------------


def bytes_text(count: int | None) -> str:
    """`12.6 MiB`; a word where nothing is known."""
    if count is None:
        return "not observed"
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def table(found: Exercise) -> list[str]:
    """Side by side, each observation with its counter and scope."""
    expected, both = found.estimate, found.estimate.weight_bytes + found.estimate.activation_bytes
    rows = [
        ("", "estimate", "observed", "counter and scope"),
        ("weights", bytes_text(expected.weight_bytes), bytes_text(found.weights.bytes), _source(found.weights)),
        (
            f"activations ({expected.largest_phase})",
            bytes_text(expected.activation_bytes),
            bytes_text(found.activations.bytes),
            _source(found.activations),
        ),
        ("weights + activations", bytes_text(both), "", "an estimate only: peaks of counters are never added"),
        *(("peak", "", bytes_text(peak.bytes), _source(peak)) for peak in found.peaks),
    ]
    setting = f"batch {found.batch} x {found.length} tokens, {found.precision}, {found.attention} attention"
    lines = [f"{found.model}: {setting}, on {found.device}"]
    lines += [f"  {name:27} {guess:>12} {seen:>14}  {source}".rstrip() for name, guess, seen, source in rows]
    if found.capacity_bytes is not None:
        share = 100 * both / found.capacity_bytes
        lines.append(f"The estimate is {share:.2g} % of {bytes_text(found.capacity_bytes)}: one card, or this machine.")
    return [*lines, LESSON]


def _source(seen: Observed) -> str:
    return f"{seen.counter}: {seen.reason or seen.scope}"


def main(arguments: Sequence[str]) -> int:
    """Environment first, then estimate and observation."""
    parser = argparse.ArgumentParser(prog="memory.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="folder with config.json and weights")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512, help="tokens per text")
    parser.add_argument("--precision", choices=BYTES_OF, default="fp32")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: the first card (ROCm too)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    checks = environment(options.device, options.model)
    if not options.json:
        _say(["environment:", *(f"  {'ok ' if one.usable else 'NOT'} {one.name}: {one.found}" for one in checks)])
    try:
        if not all(one.usable for one in checks):
            raise NotUsable("; ".join(f"{one.name}: {one.found}" for one in checks if not one.usable))
        if options.batch < 1 or options.length < 1:
            raise NotUsable("--batch and --length must be 1 or more")
        found = observe(
            options.model, options.batch, options.length, options.precision, options.attention, options.device
        )
    except NotUsable as error:
        _say([f"error: {error}"], sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        _say(
            [f"error: out of memory or not supported: {str(error).splitlines()[0] if str(error) else error!r}"],
            sys.stderr,
        )
        return 2
    _say([json.dumps(asdict(found), sort_keys=True)] if options.json else table(found))
    return 0


def _say(lines: Sequence[str], stream: Any = None) -> None:
    target = sys.stdout if stream is None else stream
    target.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
