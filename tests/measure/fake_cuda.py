"""A stand-in for `torch.cuda` and `pynvml` that behaves like them where it matters: peaks, resets, order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class FakeCuda:
    """Allocator counters of some cards: `reset` sets a peak to what is in use, as torch does."""

    def __init__(self, cards: int = 1, capability: tuple[int, int] = (8, 0), native_bf16: bool = True) -> None:
        self._capability, self._native_bf16 = capability, native_bf16
        self.allocated = [0] * cards
        self.reserved = [0] * cards
        self._peak_allocated = [0] * cards
        self._peak_reserved = [0] * cards

    def use(self, card: int, allocated: int, reserved: int | None = None) -> None:
        self.allocated[card] = allocated
        self.reserved[card] = max(self.reserved[card], allocated if reserved is None else reserved)
        self._peak_allocated[card] = max(self._peak_allocated[card], allocated)
        self._peak_reserved[card] = max(self._peak_reserved[card], self.reserved[card])

    def reset_peak_memory_stats(self, card: int) -> None:
        self._peak_allocated[card] = self.allocated[card]
        self._peak_reserved[card] = self.reserved[card]

    def memory_allocated(self, card: int) -> int:
        return self.allocated[card]

    def memory_reserved(self, card: int) -> int:
        return self.reserved[card]

    def max_memory_allocated(self, card: int) -> int:
        return self._peak_allocated[card]

    def max_memory_reserved(self, card: int) -> int:
        return self._peak_reserved[card]

    def get_device_properties(self, card: int) -> Any:
        return SimpleNamespace(total_memory=24 << 30)

    def get_device_capability(self) -> tuple[int, int]:
        return self._capability

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or self._native_bf16


class FakeNvml:
    """`pynvml` with cards in the driver's order."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    def __init__(self, cards: list[dict[str, Any]]) -> None:
        self._cards = cards

    def nvmlDeviceGetCount(self) -> int:
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self._cards[index]

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> bytes:
        return str(handle["uuid"]).encode()

    def nvmlDeviceGetMemoryInfo(self, handle: dict[str, Any]) -> Any:
        return SimpleNamespace(used=handle["used"])

    def nvmlDeviceGetComputeRunningProcesses(self, handle: dict[str, Any]) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in handle.get("processes", [])]

    def nvmlDeviceGetPowerUsage(self, handle: dict[str, Any]) -> int:
        raise self.NVMLError_NotSupported

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: dict[str, Any]) -> int:
        handle["energy"] = handle.get("energy", 0) + 5000
        return int(handle["energy"])

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: dict[str, Any]) -> int:
        return int(handle.get("throttle", 0))

    def nvmlDeviceGetClockInfo(self, handle: dict[str, Any], kind: int) -> int:
        return 1500 if kind == self.NVML_CLOCK_SM else 9000

    def nvmlDeviceGetTemperature(self, handle: dict[str, Any], kind: int) -> int:
        return 60
