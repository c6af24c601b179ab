"""A stand-in for `torch.cuda` and `pynvml` that behaves like them where it matters: peaks, resets, order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class FakeCuda:
    """Allocator counters of some cards: `reset` sets a peak to what is in use, as torch does."""

    def __init__(self, cards: int = 1, capability: tuple[int, int] = (8, 0), native_bf16: bool = True) -> None:
        self._capability, self._native_bf16 = capability, native_bf16
        self.architecture = "NVIDIA of some kind"  # a ROCm build says gfx90a:sramecc+:xnack-
        self.alloc_retries = self.device_allocs = 0
        self.context, self.broken = 500 << 20, False
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

    def memory_stats_as_nested_dict(self, card: int) -> dict[str, Any]:
        """As torch 2.13 has it: current and peak of both, and how often the driver was asked."""
        both = {
            "allocated_bytes": (self.allocated[card], self._peak_allocated[card]),
            "reserved_bytes": (self.reserved[card], self._peak_reserved[card]),
        }
        stats: dict[str, Any] = {
            name: {"all": {"current": now, "peak": peak, "allocated": 0, "freed": 0}}
            for name, (now, peak) in both.items()
        }
        return stats | {"num_alloc_retries": self.alloc_retries, "num_device_alloc": self.device_allocs, "num_ooms": 0}

    def mem_get_info(self, card: int) -> tuple[int, int]:
        if self.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return (24 << 30) - self.reserved[card] - self.context, 24 << 30

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, card: int) -> Any:
        return SimpleNamespace(total_memory=24 << 30, gcnArchName=self.architecture)

    def get_device_capability(self) -> tuple[int, int]:
        return self._capability

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or self._native_bf16


class FakeNvml:
    """`pynvml` with cards in the driver's order. A card: `uuid`, `used`, and as wanted `processes` of (pid, bytes or
    None), `throttle`, `slices` (cards of their own: MIG). `refuses`: names of questions that raise."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1

    class NVMLError(Exception):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    class NVMLError_FunctionNotFound(NVMLError):
        pass

    def __init__(self, cards: list[dict[str, Any]], refuses: frozenset[str] = frozenset()) -> None:
        self._cards, self._refuses = cards, refuses

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "_refuses"):

            def refuse(*_: object) -> None:
                raise self.NVMLError_FunctionNotFound

            return refuse
        return object.__getattribute__(self, name)

    def nvmlDeviceGetCount(self) -> int:
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self._cards[index]

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.10"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12080

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> bytes:
        return str(handle["uuid"]).encode()

    def nvmlDeviceGetMigMode(self, handle: dict[str, Any]) -> list[int]:
        if "slices" not in handle:
            raise self.NVMLError_NotSupported  # a card of the desktop
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: dict[str, Any]) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: dict[str, Any], index: int) -> dict[str, Any]:
        if index >= len(handle["slices"]):
            raise self.NVMLError_NotSupported
        return dict(handle["slices"][index]) | {"is_slice": True}

    def nvmlDeviceGetMemoryInfo(self, handle: dict[str, Any]) -> Any:
        return SimpleNamespace(used=handle["used"])

    def nvmlDeviceGetComputeRunningProcesses(self, handle: dict[str, Any]) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in handle.get("processes", [])]

    def nvmlDeviceGetPowerUsage(self, handle: dict[str, Any]) -> int:
        raise self.NVMLError_NotSupported

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: dict[str, Any]) -> int:
        return 450_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: dict[str, Any]) -> int:
        handle["energy"] = handle.get("energy", 0) + 5000
        return int(handle["energy"])

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: dict[str, Any]) -> int:
        return int(handle.get("throttle", 0))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: dict[str, Any]) -> int:
        return int(handle.get("throttle", 0))

    def nvmlDeviceGetViolationStatus(self, handle: dict[str, Any], policy: int) -> Any:
        """`c_nvmlViolationTime_t`: microseconds of a clock, nanoseconds for which the clocks were held back."""
        if "held" not in handle:
            raise self.NVMLError_NotSupported
        return SimpleNamespace(referenceTime=0, violationTime=handle["held"][policy])

    def nvmlDeviceGetUtilizationRates(self, handle: dict[str, Any]) -> Any:
        return SimpleNamespace(gpu=handle["busy"].pop(0) if handle.get("busy") else 90, memory=10)

    def nvmlDeviceGetEccMode(self, handle: dict[str, Any]) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: dict[str, Any]) -> int:
        return 4

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: dict[str, Any]) -> int:
        return 16

    def nvmlDeviceGetClockInfo(self, handle: dict[str, Any], kind: int) -> int:
        if handle.get("is_slice"):
            raise self.NVMLError_NotSupported
        return 1500 if kind == self.NVML_CLOCK_SM else 9000

    def nvmlDeviceGetMaxClockInfo(self, handle: dict[str, Any], kind: int) -> int:
        return 2520

    def nvmlDeviceGetTemperature(self, handle: dict[str, Any], kind: int) -> int:
        return 60


class FakeStream:
    """A card with its own clock: work finishes in order; `done` moves only when the card is given time."""

    def __init__(self) -> None:
        self.done = 0
        self.queued = 0
        self.waits: list[str] = []
        self.pinned: set[int] = set()
        self.events = 0
        self.emptied_at: list[int] = []

    def empty_cache(self) -> None:
        self.emptied_at.append(self.queued)

    def event(self, enable_timing: bool = False) -> FakeEvent:
        self.events += 1
        return FakeEvent(self, enable_timing)


class FakeEvent:
    """`torch.cuda.Event` of a `FakeStream`: refuses times that torch refuses."""

    def __init__(self, stream: FakeStream, timing: bool) -> None:
        self._stream, self._timing = stream, timing
        self._at = 0

    def record(self) -> None:
        self._stream.queued += 1
        self._at = self._stream.queued

    def query(self) -> bool:
        return self._stream.done >= self._at

    def synchronize(self) -> None:
        self._stream.waits.append("event")
        self._stream.done = max(self._stream.done, self._at)

    def elapsed_time(self, other: FakeEvent) -> float:
        if not (self._timing and other._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.query() and other.query()):
            raise ValueError("Both events must be completed before calculating elapsed time.")
        return float(other._at - self._at) * 500.0


# Reading a value of a tensor on a card makes the host wait for everything before it.
_WAITING = frozenset({
    "item", "__bool__", "__int__", "__float__", "__index__", "tolist", "cpu", "numpy", "nonzero", "equal",
    "masked_select", "unique", "is_nonzero",
})  # fmt: skip


def card_torch(torch: Any, stream: FakeStream) -> Any:
    """`torch` with a card: tensors made there compute on the host, and every wait for them is written down."""

    class OnCard(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, kwargs = func.__name__, kwargs or {}
            if name in _WAITING:
                stream.waits.append(name)
            if name == "copy_":
                to_card = isinstance(args[0], OnCard)
                host = args[1] if to_card else args[0]
                if not kwargs.get("non_blocking") or host.data_ptr() not in stream.pinned:
                    stream.waits.append("copy_")
            return super().__torch_function__(func, types, args, kwargs)

    class Torch:
        cuda = SimpleNamespace(Event=stream.event, empty_cache=stream.empty_cache)

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        def empty(self, shape: Any, dtype: Any = None, device: str = "cpu", pin_memory: bool = False) -> Any:
            tensor = torch.empty(shape, dtype=dtype)
            if pin_memory:
                stream.pinned.add(tensor.data_ptr())
            return tensor.as_subclass(OnCard) if device.startswith("cuda") else tensor

        def full(self, shape: Any, value: Any, device: str = "cpu") -> Any:
            tensor = torch.full(shape, value)
            return tensor.as_subclass(OnCard) if device.startswith("cuda") else tensor

    return Torch()
