"""What was really there: the manifest of a configuration (M8, M9, M53).

The parent reads host, packages, code and variables once per command; the worker adds what only torch
knows. What cannot be read is null with its reason.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runner import __version__
from runner.evidence.machine import machine_id
from runner.evidence.manifest import Compatibility, Gpu, Manifest, Node
from runner.measure.cgroups import ControlGroups
from runner.measure.rocm import installed_rocm, look_up

# Only these variables, by name or prefix: a token must never land in a record (M53).
ALLOWED_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_DYNAMIC",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
    "MALLOC_ARENA_MAX",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_BLAS_PREFER_HIPBLASLT",
    "HIPBLASLT_ALLOW_TF32",
    "PYTORCH_TUNABLEOP_ENABLED",
    "PYTORCH_TUNABLEOP_TUNING",
    "TORCH_CUDNN_SDPA_DEPRIORITIZED",
    "TORCH_CUDNN_SDPA_ENABLED",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_NO_HIP_MEMORY_CACHING",
    "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL",
    "TORCH_COMPILE_DISABLE",
    "TORCHDYNAMO_DISABLE",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_ENABLE_SDMA",
    "HIP_LAUNCH_BLOCKING",
    "AMD_SERIALIZE_KERNEL",
    "AMD_SERIALIZE_COPY",
    "GPU_MAX_HW_QUEUES",
    "MIOPEN_FIND_MODE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_P2P_DISABLE",
    "NCCL_IB_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "PYTHONHASHSEED",
    "LC_ALL",
    "LANG",
    "TZ",
)

# A card or a slice of one, as the driver and container runtimes name it.
_UUID = re.compile(r"(?i)\b((?:MIG-)?(?:GPU-)?)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
# Whether sums may be kept shorter than fp32, and which kernels of attention may be chosen.
_REDUCED = (
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)
_SDPA_KINDS = ("flash", "mem_efficient", "math", "cudnn")


def worker_environment(base: Mapping[str, str], threads: int | None) -> dict[str, str]:
    """Variables of a worker: offline, and the declared threads for every library that has its own pool."""
    environment = dict(base) | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    # Idle OpenMP threads that spin take the cores that others need; sleeping ones do not.
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    if threads is not None:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
            environment[name] = str(threads)
    # Set either way, or the tokenizer library warns about forks and decides by itself.
    environment.setdefault("TOKENIZERS_PARALLELISM", "false" if threads == 1 else "true")
    return environment


def allowed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the list; a card that a variable names by its UUID is told as its hash (M9)."""
    found = {name: environment[name] for name in ALLOWED_VARIABLES if name in environment}
    return {
        name: _UUID.sub(lambda uuid: f"{uuid[1]}sha256:{_uuid_hash(uuid[2])}", text) for name, text in found.items()
    }


def _uuid_hash(uuid: str) -> str:
    """Of torch's form: small letters, without the driver's prefix."""
    return hashlib.sha256(uuid.lower().encode()).hexdigest()


def torch_facts(torch: Any, device: str) -> dict[str, Any]:
    """Read in the worker: runtime, determinism, cards, with reasons for what is null; no question ends an attempt."""
    reasons: dict[str, str] = {}

    def ask(name: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception as error:  # a build without the part, or parts that do not fit one another
            reasons[name] = f"torch does not tell ({type(error).__name__})"
            return None

    runtime = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": None,
        "nccl": None,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.is_available(),
    }
    if device == "cpu":
        for key in ("cuda", "hip", "cudnn", "nccl"):
            if runtime[key] is None:
                reasons[f"runtime.{key}"] = "measured on the CPU"
        gpus: list[dict[str, Any]] = []
    else:
        # On ROCm these are the versions of MIOpen and RCCL.
        runtime["cudnn"] = ask("runtime.cudnn", torch.backends.cudnn.version)
        runtime["nccl"] = ask("runtime.nccl", lambda: ".".join(map(str, torch.cuda.nccl.version())))
        for key in ("cuda", "hip", "cudnn", "nccl"):
            if runtime[key] is None:
                reasons.setdefault(f"runtime.{key}", "not part of this build of torch")
        gpus = [gpu_facts(torch, index) for index in range(torch.cuda.device_count())]
    determinism = {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "tf32_matmul": ask("determinism.tf32_matmul", lambda: torch.backends.cuda.matmul.allow_tf32),
        "float32_matmul_precision": ask("determinism.float32_matmul_precision", torch.get_float32_matmul_precision),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
    }
    if device != "cpu":
        matmul = torch.backends.cuda.matmul
        determinism["tf32_convolution"] = ask("determinism.tf32_convolution", lambda: torch.backends.cudnn.allow_tf32)
        for name in _REDUCED:
            determinism[name] = ask(f"determinism.{name}", lambda name=name: _scalar(getattr(matmul, name)))  # type: ignore[misc]
        for name in _SDPA_KINDS:
            allowed = getattr(torch.backends.cuda, f"{name}_sdp_enabled", None)
            if allowed is not None:
                determinism[f"sdpa_{name}_allowed"] = ask(f"determinism.sdpa_{name}_allowed", allowed)
    return {"runtime": runtime, "determinism": determinism, "gpus": gpus, "reasons": reasons}


def _scalar(value: Any) -> Any:
    """Some versions answer with a pair of flags."""
    return value if isinstance(value, bool | int | str) else str(value)


def gpu_facts(torch: Any, index: int) -> dict[str, Any]:
    """One card as torch sees it; ROCm names the architecture where CUDA has a capability."""
    properties = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)
    architecture = getattr(properties, "gcnArchName", None) if torch.version.hip else None
    part = None
    if torch.version.hip:
        from runner.measure.amd import partition

        part = partition(properties)  # torch calls a part of a card as it calls the whole
    return {
        "index": index,
        "name": properties.name if part is None else f"{properties.name} {part}",
        "memory_bytes": int(properties.total_memory),
        "uuid_sha256": None if uuid is None else hashlib.sha256(str(uuid).encode()).hexdigest(),
        "compute_capability": architecture or f"{properties.major}.{properties.minor}",
        "multiprocessors": getattr(properties, "multi_processor_count", None),
    }


def make_manifest(
    facts: Mapping[str, Any],
    *,
    collected_at_utc: str,
    environment: Mapping[str, str],
) -> Manifest:
    """Join what the worker found (`facts`) with what the parent reads of host, packages and code."""
    host, host_reasons = host_facts()
    code, code_reasons = code_facts()
    installation, installation_reasons = installation_facts()
    reasons = dict(facts["reasons"]) | host_reasons | code_reasons | installation_reasons
    return Manifest(
        machine_id=machine_id(),
        collected_at_utc=collected_at_utc,
        gpus=tuple(Gpu(**gpu) for gpu in facts["gpus"]),
        driver=facts.get("driver", {}),
        runtime=facts["runtime"],
        host=host,
        packages=packages(),
        python={"version": platform.python_version(), "implementation": platform.python_implementation()},
        code=code,
        environment=allowed_variables(environment),
        determinism=facts["determinism"],
        model=facts["model"],
        tokenizer=facts["tokenizer"],
        rocm=_compatibility(facts),
        installation=installation,
        nodes=tuple(_node(node) for node in facts.get("nodes", ())),
        reasons=reasons,
    )


def _node(facts: Mapping[str, Any]) -> Node:
    return Node(**{**facts, "gpus": tuple(Gpu(**gpu) for gpu in facts["gpus"])})


def _compatibility(facts: Mapping[str, Any]) -> Compatibility:
    """AMD's table, asked with what the worker and this machine really say."""
    runtime = facts["runtime"]
    targets = [gpu["compute_capability"] or "" for gpu in facts["gpus"]]
    return look_up(runtime.get("hip"), targets, runtime.get("torch", ""), os_release(), installed_rocm())


def os_release() -> dict[str, str]:
    """`/etc/os-release` by key; empty where there is none."""
    return dict(line.split("=", 1) for line in _lines("/etc/os-release") if "=" in line)


@functools.cache
def packages() -> dict[str, str]:
    """Every installed distribution with its version."""
    found = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def cpu_name() -> str:
    """Model name of the processor, or the architecture where the kernel names none."""
    for line in _lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.machine()


def host_facts() -> tuple[dict[str, str | int | float | bool | None], dict[str, str]]:
    """CPU, memory, system and container hints, with reasons for what is null."""
    release = os_release()
    groups = ControlGroups()
    facts: dict[str, str | int | float | bool | None] = {
        "cpu": cpu_name(),
        "cpus_logical": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "cpu_quota": groups.cpu_limit_cores(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "memory_limit": groups.memory_limit_bytes(),
        "os": release.get("PRETTY_NAME", platform.system()).strip('"'),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "container": _container_hint(),
    }
    reasons = {
        "host.cpus_usable": "the system does not tell",
        "host.cpu_quota": "no control group with a limit can be read",
        "host.memory_limit": "no control group with a limit can be read",
        "host.container": "no hint of a container",
    }
    return facts, {key: reason for key, reason in reasons.items() if facts[key.removeprefix("host.")] is None}


@functools.cache
def code_facts() -> tuple[dict[str, str | int | float | bool | None], dict[str, str]]:
    """Version and git commit of the code that measures, and whether it was changed since."""
    folder = Path(__file__).resolve().parents[1]
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        reason = "the code is not in a git checkout"
        return {"version": __version__, "commit": None, "dirty": None}, {"code.commit": reason, "code.dirty": reason}
    changed = _git(folder, "status", "--porcelain", "--", str(folder))
    return {"version": __version__, "commit": commit, "dirty": bool(changed)}, {}


def installation_facts() -> tuple[dict[str, str | int | float | bool | None], dict[str, str]]:
    """What `make setup` wrote down: duration of the installation (M17)."""
    path = Path(__file__).resolve().parents[2] / ".venv" / "installation.json"
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {"seconds": None}, {"installation.seconds": "not installed by make setup, or its record is gone"}
    return {
        "seconds": value.get("installation_seconds"),
        "finished_at_utc": value.get("finished_at_utc"),
        "system_torch": value.get("system_torch"),
        "environment_reused": value.get("environment_reused"),
    }, {}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _container_hint() -> str | None:
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(path).exists():
            return name
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
