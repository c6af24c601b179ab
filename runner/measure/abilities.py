"""What this machine can measure, asked in a process of its own: `python -m runner.measure.abilities`.

Every answer is tried, not read from a list: a small computation runs, or the reason why not is given.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT_SECONDS = 180
_OLDEST_FOR_TRITON = (7, 0)


@dataclass(frozen=True)
class Ability:
    """One thing to do. `possible` None: works, with a reserve that `why` names."""

    name: str
    possible: bool | None
    why: str


def ask() -> tuple[Ability, ...]:
    """All answers of this machine; a build of torch that cannot start is one answer too."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "runner.measure.abilities"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            env=dict(os.environ),
        )
        return tuple(Ability(**item) for item in json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return (Ability("torch", False, f"no answer within {_TIMEOUT_SECONDS} s"),)
    except (OSError, ValueError):
        return (Ability("torch", False, "torch could not be started"),)


def find(torch: Any) -> list[Ability]:
    """Abilities of this build of torch on this machine."""
    found = [Ability("torch", True, f"{torch.__version__}, {_build(torch)}, {_origin(torch)}")]
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for index in range(cards):
        memory = torch.cuda.get_device_properties(index).total_memory / 2**30
        what = f"{torch.cuda.get_device_name(index)}, {memory:.1f} GiB"
        tried = _tried(f"card {index}", _product(torch, f"cuda:{index}", torch.float32), None)
        found.append(Ability(tried.name, tried.possible, what if tried.possible else f"{what}: {tried.why}"))
    if not cards:
        found.append(Ability("cards", False, f"only GPU=cpu can be measured here: {_why_no_card(torch)}"))
    found.extend(_amd(torch, cards))
    device = "cuda" if cards else "cpu"
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        found.append(_tried(f"precision {name}", _product(torch, device, dtype), _reserve(torch, name, device)))
    found.append(_int8(torch, device))
    found.append(_tried("attention sdpa", lambda: _attention(torch, device), None))
    found.append(_flash(torch, device))
    if cards:
        found.append(_tried("engine packed", lambda: _varlen(torch), None))
    if cards > 1:
        nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
        found.append(Ability("devices 2 and more", nccl, "with NCCL" if nccl else "this build of torch has no NCCL"))
    found.append(_compiler(torch, device))
    found.append(_onnx(device))
    return found


def _build(torch: Any) -> str:
    if torch.version.cuda:
        return f"built for CUDA {torch.version.cuda}"
    return f"built for ROCm (HIP {torch.version.hip})" if torch.version.hip else "built for the CPU only"


def _origin(torch: Any) -> str:
    """Whether `SYSTEM_TORCH=1` gave it: a rented image brings a build that fits its cards."""
    own = Path(torch.__file__).resolve().is_relative_to(Path(sys.prefix).resolve())
    return "installed in this environment" if own else "the system's own (SYSTEM_TORCH)"


def _why_no_card(torch: Any) -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch is built for the CPU only (on a rented image: make setup SYSTEM_TORCH=1)"
    hidden = [name for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if name in os.environ]
    return "torch finds none: " + (f"{', '.join(hidden)} is set, or no driver" if hidden else "no driver")


def _amd(torch: Any, cards: int) -> list[Ability]:
    """Whether the vendor lists this combination; `unknown` is no verdict, and none proves that it works (M10)."""
    if not torch.version.hip:
        return []
    from runner.measure.environment import os_release
    from runner.measure.rocm import installed_rocm, look_up

    targets = [str(getattr(torch.cuda.get_device_properties(card), "gcnArchName", "")) for card in range(cards)]
    found = look_up(torch.version.hip, [t for t in targets if t], torch.__version__, os_release(), installed_rocm())
    listed = {"listed": True, "not listed": False}.get(found.verdict)
    return [Ability("AMD's table", listed, f"{found.verdict}: {found.detail}; {found.source}, {found.table_date}")]


def _tried(name: str, action: Callable[[], object], reserve: str | None) -> Ability:
    try:
        action()
    except Exception as error:  # whatever goes wrong is the answer
        return Ability(name, False, f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}")
    return Ability(name, True if reserve is None else None, reserve or "a small computation worked")


def _product(torch: Any, device: str, dtype: Any) -> Callable[[], object]:
    def run() -> object:
        matrix = torch.ones((32, 32), device=device, dtype=dtype)
        return (matrix @ matrix).float().sum().item()

    return run


def _reserve(torch: Any, precision: str, device: str) -> str | None:
    """Why a precision that computes may still be no sensible variant."""
    if precision == "fp32":
        return None
    if device == "cuda":
        from runner.measure.engines.loading import refuse_precision
        from runner.measure.job import Unsupported

        try:
            refuse_precision(precision, torch.cuda)
        except Unsupported as error:
            return str(error)
        return None
    return _slow_on_cpu(precision)


def _slow_on_cpu(precision: str) -> str | None:
    flag = {"bf16": "avx512_bf16", "fp16": "avx512_fp16"}[precision]
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as stream:  # noqa: PTH123
            if any(flag in line for line in stream if line.startswith("flags")):
                return None
    except OSError:
        pass
    return f"works, but this processor has no {flag}: expect it to be slower than fp32"


def _int8(torch: Any, device: str) -> Ability:
    """On the CPU torch's own; on a card that of torchao."""
    if device == "cpu":
        return _tried("int8-dynamic", lambda: _dynamic(torch), None)

    def torchao() -> object:
        from runner.measure.engines.loading import quantized

        layers = torch.nn.Sequential(torch.nn.Embedding(8, 64), torch.nn.Linear(64, 64))
        model = layers.to(device, torch.bfloat16)
        ready = torch.compile(quantized(model, "int8-torchao", device, torch, compiled=True))
        return ready(torch.full((2, 32), 5, device=device)).float().sum().item()

    return _tried("int8-torchao", torchao, None)


def _dynamic(torch: Any) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(8, 8)), {torch.nn.Linear})
        return model(torch.ones(1, 8))


def _attention(torch: Any, device: str) -> object:
    heads = torch.ones((1, 1, 4, 8), device=device)
    return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)


def _varlen(torch: Any) -> object:
    """The kernel of engine `packed` on a card: two texts of three and five tokens."""
    from runner.measure.engines.packed_attention import varlen_kernel

    heads = torch.ones((8, 2, 64), device="cuda", dtype=torch.bfloat16)
    bounds = torch.tensor([0, 3, 8], device="cuda", dtype=torch.int32)
    return varlen_kernel()(heads, heads, heads, bounds, bounds, 5, 5).float().sum().item()


def _flash(torch: Any, device: str) -> Ability:
    name = "attention flash_attention_2"
    if device == "cpu":
        return Ability(name, False, "needs a card")

    def run() -> object:
        heads = torch.ones((1, 4, 2, 64), device=device, dtype=torch.float16)
        return importlib.import_module("flash_attn").flash_attn_func(heads, heads, heads).float().sum().item()

    tried = _tried(name, run, None)
    return Ability(name, False, "the package flash-attn is not installed") if "ModuleNotFound" in tried.why else tried


def _compiler(torch: Any, device: str) -> Ability:
    """torch.compile writes C++ for the CPU; on a card Triton, whose launcher is compiled here all the same."""
    names = ("g++", "clang++") if device == "cpu" else ("gcc", "clang")
    own = os.environ.get("CXX" if device == "cpu" else "CC")
    compiler = next((name for name in (own, *names) if name and shutil.which(name)), None)
    if compiler is None:
        return Ability("torch.compile", False, f"no C{'++' if device == 'cpu' else ''} compiler (install {names[0]})")
    if device == "cpu":
        return Ability("torch.compile", True, f"with {compiler}")
    capability = tuple(torch.cuda.get_device_capability())
    if not torch.version.hip and capability < _OLDEST_FOR_TRITON:
        return Ability("torch.compile", False, f"Triton is not for compute capability {capability[0]}.{capability[1]}")
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if not headers.is_file():
        return Ability("torch.compile", False, "the headers of Python are missing (install python3-dev)")
    try:
        triton = importlib.import_module("triton")
    except Exception as error:  # a broken build may raise anything
        return Ability("torch.compile", False, f"no Triton ({type(error).__name__})")
    return Ability("torch.compile", True, f"with Triton {triton.__version__} and {compiler}")


def _onnx(device: str) -> Ability:
    """The extra `onnx`; its engine is for the CPU."""
    import importlib.metadata

    try:
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnxruntime", "onnx"))
    except importlib.metadata.PackageNotFoundError as error:
        return Ability("engine onnxruntime", False, f'{error.name} is not installed: make setup EXTRAS="measure onnx"')
    return Ability("engine onnxruntime", device == "cpu", versions if device == "cpu" else "runs on the CPU only")


def main() -> None:
    warnings.simplefilter("ignore")
    try:
        import torch
    except Exception as error:  # a broken build is an answer
        found = [Ability("torch", False, f"{type(error).__name__}: {str(error)[:200]}")]
    else:
        found = find(torch)
    sys.stdout.write(json.dumps([vars(ability) for ability in found]))


if __name__ == "__main__":
    main()
