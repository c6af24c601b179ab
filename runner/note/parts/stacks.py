"""The stacks that the attempts ran on, in words (M9, M10, M12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.decide.model import Reason
from runner.evidence.manifest import Manifest
from runner.note.evidence import Evidence
from runner.note.i18n import N_
from runner.note.parts.tables import configuration_of
from runner.note.words import Speaker

_MOST = 600
_MAIN_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "safetensors")
_DOES_NOT_APPLY = ("measured on the CPU", "not part of this build of torch", "no hint of a container")
_GPU_ONLY = ("cuda", "hip", "cudnn", "nccl", "cudnn_benchmark", "cudnn_deterministic", "tf32_matmul")

_SECTIONS = {
    "gpus": N_("Devices"),
    "driver": N_("Driver"),
    "runtime": N_("Runtime"),
    "packages": N_("Packages"),
    "python": N_("Python"),
    "cpu": N_("Processor"),
    "os": N_("System"),
}
_PRODUCTS = {
    "torch": "PyTorch",
    "cuda": "CUDA",
    "hip": "ROCm (HIP)",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "mkldnn": "oneDNN",
    "nvidia": "NVIDIA",
}
_LABELS = {
    "cpu_capability": N_("instructions"),
    "cpu": N_("processor"),
    "cpus_logical": N_("logical processors"),
    "cpus_usable": N_("of these usable"),
    "cpu_quota": N_("processor quota"),
    "memory_bytes": N_("memory"),
    "memory_limit": N_("memory limit"),
    "os": N_("system"),
    "kernel": N_("kernel"),
    "architecture": N_("architecture"),
    "container": N_("container"),
    "implementation": N_("implementation"),
    "version": N_("version"),
    "commit": N_("commit"),
    "dirty": N_("uncommitted changes"),
    "deterministic_algorithms": N_("deterministic algorithms"),
    "use_deterministic_algorithms": N_("deterministic algorithms"),
    "cudnn_benchmark": N_("cuDNN chooses by trial"),
    "cudnn_deterministic": N_("cuDNN deterministic"),
    "tf32_matmul": N_("TF32 in matrix products"),
    "float32_matmul_precision": N_("precision of float32 products"),
    "threads": N_("threads"),
    "interop_threads": N_("threads between operators"),
    "seconds": N_("duration of the installation"),
}
_ORDER = (*_PRODUCTS, *_LABELS)


def stacks(evidence: Evidence, speaker: Speaker) -> dict[str, Any]:
    """What was really there, per manifest that an attempt names, and in what they differ."""
    names: dict[str, set[str]] = {}
    for attempt in evidence.counted_attempts:
        if attempt.manifest_sha256 is not None:
            names.setdefault(attempt.manifest_sha256, set()).add(configuration_of(evidence, attempt))
    return {
        "manifests": [
            {
                "sha": sha,
                "names": speaker.listed(sorted(names[sha])),
                "rows": _manifest_rows(evidence.manifests[sha], speaker),
            }
            for sha in sorted(evidence.manifests)
            if sha in names
        ],
        "different": [_difference(reason, speaker) for reason in evidence.decision.different_stacks],
    }


def _difference(reason: Reason, speaker: Speaker) -> str:
    """What differs, named as the tables below name it: `Driver (NVIDIA): 575.51 (...); 580.65 (...)`."""
    section, _, key = reason.values.get("entry", "").partition(".")
    if section not in _SECTIONS:
        return speaker.sentence(reason)
    name = speaker.say(_SECTIONS[section]) + (f" ({_label(key, speaker)})" if key else "")
    return speaker.sentence(reason.model_copy(update={"values": reason.values | {"entry": name}}))


def _manifest_rows(manifest: Manifest, speaker: Speaker) -> list[dict[str, str]]:
    """What does not apply to the device is left out; what could not be read stands last, with its reason."""
    t = speaker.catalogue
    devices = ", ".join(
        f"{gpu.name} ({speaker.fmt.bytes(gpu.memory_bytes)})" if gpu.memory_bytes else gpu.name for gpu in manifest.gpus
    )
    rows = [(t.gettext("Devices"), devices or t.gettext("no GPU: measured on the processor"))]
    sections: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
        (t.gettext("Driver"), "driver", manifest.driver),
        (t.gettext("Runtime"), "runtime", manifest.runtime),
        (t.gettext("Host"), "host", manifest.host),
        (t.gettext("Python"), "python", manifest.python),
        (t.gettext("Main packages"), "packages", {k: v for k, v in manifest.packages.items() if k in _MAIN_PACKAGES}),
        (t.gettext("Code"), "code", manifest.code),
        (t.gettext("Determinism"), "determinism", manifest.determinism),
    )
    rows += [(title, text) for title, name, values in sections if (text := _pairs(values, name, manifest, speaker))]
    if manifest.environment:
        rows.append(
            (t.gettext("Variables"), ", ".join(f"{name}={value}" for name, value in manifest.environment.items()))
        )
    if manifest.rocm.verdict != "not applicable":
        rows.append(
            (
                t.gettext("ROCm compatibility"),
                speaker.labelled(speaker.say(_ROCM[manifest.rocm.verdict]), manifest.rocm.detail),
            )
        )
    unknown = {key: why for key, why in manifest.reasons.items() if why not in _DOES_NOT_APPLY}
    if unknown:
        parts = [
            speaker.labelled(_label(key.rpartition(".")[2], speaker), speaker.recorded(why))
            for key, why in unknown.items()
        ]
        rows.append((t.gettext("Not known"), speaker.parted(parts)))
    return [{"what": what, "value": speaker.long_text(value, _MOST)} for what, value in rows]


_ROCM = {"listed": N_("listed"), "not listed": N_("not listed"), "unknown": N_("unknown")}


def _pairs(values: Mapping[str, Any], section: str, manifest: Manifest, speaker: Speaker) -> str:
    """`label: value, label: value` in the order of the labels; bytes in units people read."""
    parts = []
    for key in sorted(values, key=lambda key: (_ORDER.index(key) if key in _ORDER else len(_ORDER), key)):
        value = values[key]
        if f"{section}.{key}" in manifest.reasons or (not manifest.gpus and key in _GPU_ONLY):
            continue  # said under `Not known`, or it does not apply
        if section == "packages":
            parts.append(f"{key} {value}")
        else:
            parts.append(speaker.labelled(_label(key, speaker), _value(key, value, speaker)))
    return ", ".join(parts)


def _label(key: str, speaker: Speaker) -> str:
    if key in _LABELS:
        return speaker.say(_LABELS[key])
    return _PRODUCTS.get(key, key.removesuffix("_bytes").replace("_", " "))


def _value(key: str, value: Any, speaker: Speaker) -> str:
    t = speaker.catalogue
    if value is None:
        return t.gettext("not known")
    if isinstance(value, bool):
        return t.gettext("yes") if value else t.gettext("no")
    if key.endswith("_bytes") and isinstance(value, int):
        return speaker.fmt.bytes(value)
    return str(value)
