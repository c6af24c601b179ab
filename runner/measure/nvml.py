"""What the NVIDIA driver knows of the cards: memory of the card, clocks, power, who else is on it.

Cards are found by UUID, never by index: `CUDA_VISIBLE_DEVICES` gives torch another order (ME-04).
Every question may be unsupported on a card; the answer is then null with the driver's reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REASONS = {
    0x0000000000000004: "power cap set by software",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "temperature (software)",
    0x0000000000000040: "temperature (hardware)",
    0x0000000000000080: "power brake",
}


def match_by_uuid(torch_uuids: Sequence[str | None], nvml_uuids: Mapping[str, int]) -> tuple[int | None, ...]:
    """NVML index of each torch device; None where its UUID is not among NVML's, never the same index."""
    known = {plain_uuid(uuid): index for uuid, index in nvml_uuids.items()}
    return tuple(None if uuid is None else known.get(plain_uuid(uuid)) for uuid in torch_uuids)


def plain_uuid(uuid: str) -> str:
    """torch leaves out the prefix `GPU-` that NVML writes."""
    return uuid.strip().lower().removeprefix("gpu-")


def load_nvml() -> tuple[Any, str | None]:
    """The initialised `pynvml` module, or None with the reason."""
    try:
        import pynvml
    except ImportError:
        return None, "pynvml is not installed"
    module: Any = pynvml
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        return None, f"no NVIDIA driver ({type(error).__name__.removeprefix('NVMLError_')})"
    return module, None


@dataclass(frozen=True)
class CardReading:
    """One look at one card. None: the driver does not tell."""

    used_bytes: int | None
    own_bytes: int | None
    others: int | None
    sm_mhz: int | None
    memory_mhz: int | None
    temperature_celsius: int | None
    power_watts: float | None
    throttle: tuple[str, ...] | None
    energy_joules: float | None


class Nvml:
    """Readings of the cards that torch uses, by torch's order."""

    def __init__(self, module: Any, torch_uuids: Sequence[str | None]) -> None:
        self._module = module
        uuids = {}
        for index in range(module.nvmlDeviceGetCount()):
            uuid = module.nvmlDeviceGetUUID(module.nvmlDeviceGetHandleByIndex(index))
            uuids[uuid.decode() if isinstance(uuid, bytes) else uuid] = index
        self.indices = match_by_uuid(torch_uuids, uuids)
        self.reasons: dict[str, str] = {}

    def driver(self) -> str:
        version = self._module.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)

    def read(self, card: int, own_pids: Collection[int]) -> CardReading | None:
        """The card that torch calls `card`; None when it could not be matched. Own: all processes of the attempt."""
        index = self.indices[card]
        if index is None:
            self.reasons["card"] = "no card of the driver has torch's UUID"
            return None
        module = self._module
        handle = module.nvmlDeviceGetHandleByIndex(index)
        memory = self._ask("used_bytes", lambda: module.nvmlDeviceGetMemoryInfo(handle))
        processes = self._ask("processes", lambda: module.nvmlDeviceGetComputeRunningProcesses(handle))
        own, others = None, None
        if processes is not None:
            mine = [process for process in processes if process.pid in own_pids]
            own = _sum([process.usedGpuMemory for process in mine])
            # In a container the driver may show host process ids: then one stranger is ourselves.
            others = len(processes) - (len(mine) or min(1, len(processes)))
        milliwatts = self._ask("power_watts", lambda: module.nvmlDeviceGetPowerUsage(handle))
        millijoules = self._ask("energy_joules", lambda: module.nvmlDeviceGetTotalEnergyConsumption(handle))
        flags = self._ask("throttle", lambda: module.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return CardReading(
            used_bytes=None if memory is None else int(memory.used),
            own_bytes=own,
            others=others,
            sm_mhz=self._ask("sm_mhz", lambda: int(module.nvmlDeviceGetClockInfo(handle, module.NVML_CLOCK_SM))),
            memory_mhz=self._ask(
                "memory_mhz", lambda: int(module.nvmlDeviceGetClockInfo(handle, module.NVML_CLOCK_MEM))
            ),
            temperature_celsius=self._ask(
                "temperature_celsius", lambda: int(module.nvmlDeviceGetTemperature(handle, module.NVML_TEMPERATURE_GPU))
            ),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            throttle=None if flags is None else tuple(text for bit, text in _REASONS.items() if flags & bit),
            energy_joules=None if millijoules is None else millijoules / 1000,
        )

    def _ask(self, name: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._module.NVMLError as error:
            self.reasons[name] = f"the driver does not tell ({type(error).__name__.removeprefix('NVMLError_')})"
            return None


class CardConditions:
    """Readings over one attempt, summarised per card: extremes, not averages of what throttled."""

    def __init__(self, nvml: Nvml, own_pid: int) -> None:
        self._nvml = nvml
        self.own_pids = frozenset({own_pid})
        self._readings: dict[int, list[CardReading]] = {}

    def sample(self) -> None:
        for card in range(len(self._nvml.indices)):
            with contextlib.suppress(Exception):  # a reading must never end a measurement
                reading = self._nvml.read(card, self.own_pids)
                if reading is not None:
                    self._readings.setdefault(card, []).append(reading)

    def summary(self) -> tuple[dict[str, float | int | str | None], dict[str, str], bool | None]:
        """Values by `card.name`, reasons for nulls, and whether another process was on a card."""
        values: dict[str, float | int | str | None] = {}
        others: list[int] = []
        for card, readings in sorted(self._readings.items()):
            values |= {f"card{card}.{name}": value for name, value in _extremes(readings).items()}
            others += [reading.others for reading in readings if reading.others is not None]
        reasons = {f"card.{name}": reason for name, reason in self._nvml.reasons.items()}
        return values, reasons, any(others) if others else None


def _sum(values: Sequence[int | None]) -> int | None:
    """None where the driver leaves out a value (or there is none)."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _extremes(readings: Sequence[CardReading]) -> dict[str, float | int | str | None]:
    def known(name: str) -> list[Any]:
        return [value for reading in readings if (value := getattr(reading, name)) is not None]

    energy = known("energy_joules")
    throttled = sorted({reason for reasons in known("throttle") for reason in reasons})
    return {
        "used_bytes_most": max(known("used_bytes"), default=None),
        "own_bytes_most": max(known("own_bytes"), default=None),
        "sm_mhz_least": min(known("sm_mhz"), default=None),
        "sm_mhz_most": max(known("sm_mhz"), default=None),
        "memory_mhz_least": min(known("memory_mhz"), default=None),
        "temperature_celsius_most": max(known("temperature_celsius"), default=None),
        "power_watts_most": max(known("power_watts"), default=None),
        "throttle_reasons": ", ".join(throttled) if known("throttle") else None,
        "energy_joules": energy[-1] - energy[0] if len(energy) > 1 else None,
    }
