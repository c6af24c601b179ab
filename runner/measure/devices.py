"""Declared against present (M11): what was rented, and what is really there."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.catalogue.devices import device_pattern, matches
from runner.errors import InputRefused
from runner.evidence.attempt import DeviceMatch
from runner.measure.environment import cpu_name
from runner.measure.probe import FoundDevices, find_devices

OWN_MACHINE = "cpu"


@dataclass(frozen=True)
class Presence:
    """Devices to measure on, or why there are none. `torch_device` is what the worker uses."""

    declared: str
    found: tuple[str, ...]
    uuid_sha256: tuple[str, ...]
    torch_device: str | None
    problem: str | None
    match: DeviceMatch | None = None


def look_for(
    gpu: str,
    devices: int,
    tariffs: Path,
    find: Callable[[], FoundDevices] = find_devices,
    environment: Mapping[str, str] = os.environ,
) -> Presence:
    """Whether `devices` cards of the declared kind are here. `cpu` is always the user's own machine.

    Refused: a name that is none, and variables for debugging that make every card slow.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}", gpu):
        raise InputRefused(
            "a GPU is named as in tariffs.csv, or cpu",
            column="--gpu",
            value=gpu,
            next_step="--gpu cpu, or a name of tariffs.csv such as --gpu rtx-4090",
        )
    if gpu == OWN_MACHINE:
        return Presence(gpu, (cpu_name(),), (), "cpu", None)
    _refuse_debugging(environment)
    pattern = device_pattern(tariffs, gpu)
    known, told = pattern is not None, None if pattern is None else pattern.pattern
    present = find()
    if not present.names:
        match = DeviceMatch(code="no device", pattern=told, fitting=(), reason=present.problem)
        return Presence(gpu, (), (), None, f"declared {gpu}, found no card ({present.problem or 'none'})", match)
    fitting = [name for name in present.names if (matches(gpu, name, tariffs) if known else _names(gpu, name))]
    if len(fitting) != len(present.names) or len(fitting) < devices:
        listed = ", ".join(present.names)
        wanted = f"{devices} x {gpu}" if devices > 1 else gpu
        match = DeviceMatch(code="other device", pattern=told, fitting=tuple(fitting))
        return Presence(gpu, present.names, present.uuid_sha256, None, f"declared {wanted}, found {listed}", match)
    match = DeviceMatch(code="fits", pattern=told, fitting=tuple(fitting))
    return Presence(gpu, present.names, present.uuid_sha256, "cuda", None, match)


# For debugging: kernels one by one, every block of memory from the driver. The second kind counts if it is set at all.
_ONE_BY_ONE = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY")
_NO_CACHE = ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING")


def _refuse_debugging(environment: Mapping[str, str]) -> None:
    found = [name for name in _ONE_BY_ONE if environment.get(name, "").strip() not in ("", "0")]
    found += [name for name in _NO_CACHE if name in environment]
    if found:
        raise InputRefused(
            "a variable for debugging slows every card down: no figure measured with it says what the card can do",
            column=found[0],
            value=environment[found[0]],
            next_step=f"unset {' '.join(found)}, then run the same command again",
        )


class Lookout:
    """Presence by number of devices; the machine is asked once. A variant for two cards does not hinder the others."""

    def __init__(
        self, gpu: str, tariffs: Path, nodes: int = 1, find: Callable[[], FoundDevices] = find_devices
    ) -> None:
        self._gpu, self._tariffs, self._nodes = gpu, tariffs, nodes
        self._find = functools.cache(find)
        self._known: dict[int, Presence] = {}

    def presence(self, devices: int | None) -> Presence:
        """Of so many devices on all nodes together; every node has its part of them."""
        wanted = -(-(devices or 1) // self._nodes)
        if wanted not in self._known:
            self._known[wanted] = look_for(self._gpu, wanted, self._tariffs, self._find)
        return self._known[wanted]


# Words of a name that make it another card: a slice of one, or a model of another size.
_OTHERS = frozenset({"mig", "laptop", "mobile", "max", "ti", "super", "ada", "d", "nvl", "dpx", "tpx", "qpx", "cpx"})
# Of a virtual card: `NVIDIA A10-4Q` has 4 GB of one, `NVIDIA A100-1-5C` a slice.
_PROFILE = re.compile(r"-(?:\d+-)?(\d+[abcq])$")


def _names(gpu: str, device_name: str) -> bool:
    """For hardware without tariff: every part of `rtx-3080` stands as a word in the device's name.

    `NVIDIA GeForce RTX 3080 Ti` is another card, and `NVIDIA H100 80GB HBM3 MIG 1g.10gb`, `NVIDIA A10-4Q` and
    `AMD Instinct MI300X CPX` are parts of one: what makes them so has to be named too (`rtx-3080-ti`, `a10-4q`).
    """
    words = set(re.split(r"[^a-z0-9]+", device_name.lower()))
    parts = set(re.split(r"[^a-z0-9]+", gpu.lower()))
    profile = _PROFILE.search(device_name.lower())
    others = words & _OTHERS | ({profile[1]} if profile else set())
    return parts <= words and not others - parts
