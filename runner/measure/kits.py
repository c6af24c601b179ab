"""What a worker needs before it can measure: libraries, seeds, a device, an engine, facts about them."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any, Protocol

from runner.measure.clocks import CudaDevice, Device, HostDevice
from runner.measure.job import Job, Unsupported
from runner.measure.memory import CudaCounters

if TYPE_CHECKING:
    from runner.measure.cards import CardConditions, CardReader
    from runner.measure.engines.base import LoadedEngine


class Kit(Protocol):
    """One kind of engine with its surroundings; the worker calls the methods in this order."""

    def imports(self) -> None:
        """Load the libraries (timed as a phase of its own)."""

    def device(self, job: Job) -> tuple[Device, CudaCounters | None]:
        """Seed everything random and open the device."""

    def load(self, job: Job) -> LoadedEngine:
        """The model, ready to work."""

    def conditions(self, job: Job) -> CardConditions | None:
        """Readings of the cards while the pass runs; None without cards or driver."""

    def facts(self, job: Job) -> dict[str, Any]:
        """Runtime, determinism, cards, reasons: see `environment.torch_facts`."""


def kit_for(engine: str) -> Kit:
    """The kit of a declared engine; an unknown name is unsupported, never replaced."""
    if engine in ("transformers", "packed", "onnxruntime"):
        return TorchKit()
    raise Unsupported(f"engine {engine!r} is not known: use transformers, packed, onnxruntime or command")


def _card(job: Job) -> int:
    """Index of torch for `cuda` or `cuda:1`."""
    return int(job.device.partition(":")[2] or "0")


def _only_fp32(torch: Any) -> None:
    """fp32 means fp32, whatever an image's variables say (TORCH_ALLOW_TF32_CUBLAS_OVERRIDE).

    Convolutions have a switch of their own, and torch lets them compute in TF32 unless it is told not to.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


class TorchKit:
    """Engines that run in torch."""

    def __init__(self) -> None:
        self._torch: Any = None
        self._driver: dict[str, str | None] = {}
        self._driver_reasons: dict[str, str] = {}
        self._no_driver: str | None = None

    def imports(self) -> None:
        import torch
        from transformers import (  # noqa: F401 - the slow part of loading a model, timed as imports
            AutoModelForSequenceClassification,
            AutoTokenizer,
        )
        from transformers.utils import logging

        quiet: Any = logging
        quiet.disable_progress_bar()
        quiet.set_verbosity_error()
        _only_fp32(torch)  # what a process that serves several attempts has to find again after each
        self._torch = torch

    def device(self, job: Job) -> tuple[Device, CudaCounters | None]:
        import numpy as np

        torch = self._torch
        random.seed(job.seed)
        np.random.seed(job.seed)  # models with custom code may use the global generator
        torch.manual_seed(job.seed)
        _only_fp32(torch)
        if job.settings["threads"] is not None:
            torch.set_num_threads(job.settings["threads"])
        if job.device == "cpu":
            return HostDevice("cpu"), None
        # One process, one card: several cards are several ranks.
        index = _card(job)
        torch.cuda.set_device(index)
        return CudaDevice(torch.cuda, (index,)), CudaCounters(torch.cuda, (index,))

    def load(self, job: Job) -> LoadedEngine:
        if job.settings["engine"] == "packed":
            from runner.measure.engines.packed import packed_engine

            return packed_engine(job, self._torch)
        if job.settings["engine"] == "onnxruntime":
            from runner.measure.engines.onnx_runtime import onnx_engine

            return onnx_engine(job, self._torch)
        from runner.measure.engines.transformers import transformers_engine

        return transformers_engine(job, self._torch)

    def conditions(self, job: Job) -> CardConditions | None:
        if job.device == "cpu":
            return None
        from runner.measure.cards import CardConditions

        try:
            reader = self._reader(_card(job))
        except Exception as error:  # what a driver does not tell ends no attempt
            self._no_driver = f"{type(error).__name__} of the driver"
            return None
        if reader is None:
            return None
        self._driver_reasons = reader.reasons
        here = job.settings["workers"] or 1
        return CardConditions(reader, os.getpid(), here, CudaCounters(self._torch.cuda, (_card(job),)))

    def _reader(self, card: int) -> CardReader | None:
        """Of the driver that this build of torch is for; None with the reason."""
        properties = self._torch.cuda.get_device_properties(card)
        if self._torch.version.hip:
            from runner.measure.amd import Amd, bus_address

            amd = Amd([bus_address(properties)])
            self._driver["amdgpu"] = amd.driver()
            return amd
        from runner.measure.nvml import Nvml, load_nvml

        module, self._no_driver = load_nvml()
        if module is None:
            return None
        uuid = getattr(properties, "uuid", None)
        nvml = Nvml(module, [None if uuid is None else str(uuid)])
        self._driver["nvidia"] = nvml.driver()
        self._driver["nvidia_cuda"] = nvml.cuda()
        return nvml

    def facts(self, job: Job) -> dict[str, Any]:
        from runner.measure.environment import torch_facts

        facts = torch_facts(self._torch, job.device)
        if job.device != "cpu":
            driver = self._driver or {"amdgpu" if self._torch.version.hip else "nvidia": None}
            facts["driver"] = driver
            for name in (name for name, value in driver.items() if value is None):
                facts["reasons"][f"driver.{name}"] = (
                    self._driver_reasons.get("driver") or self._no_driver or "not asked"
                )
        return facts
