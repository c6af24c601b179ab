"""What the NVIDIA driver knows of the cards: memory of the card, clocks, power, who else is on it.

Cards are found by UUID, never by index: `CUDA_VISIBLE_DEVICES` gives torch another order (ME-04). Of a card in
slices (MIG), memory and processes are those of the slice that torch computes on, everything else the whole card's.
Every question may be unsupported on a card; the answer is then null with the driver's reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.measure.cards import CardReading, Use, who_uses

_NO_SLICE = "the card is in slices (MIG), and torch does not say on which of them it computes"
_NOT_FOUND = "no card of the driver has torch's UUID"
_REASONS = {
    0x0000000000000002: "clocks set by a user",
    0x0000000000000004: "power cap set by software",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "clocks of several cards kept equal",
    0x0000000000000020: "temperature (software)",
    0x0000000000000040: "temperature (hardware)",
    0x0000000000000080: "power brake",
    0x0000000000000100: "display clocks",
    0x0000000000000200: "limit of the board",
    0x0000000000000400: "reliability of the voltage",
}


def match_by_uuid(torch_uuids: Sequence[str | None], nvml_uuids: Mapping[str, int]) -> tuple[int | None, ...]:
    """NVML index of each torch device; None where its UUID is not among NVML's, never the same index."""
    known = {plain_uuid(uuid): index for uuid, index in nvml_uuids.items()}
    return tuple(None if uuid is None else known.get(plain_uuid(uuid)) for uuid in torch_uuids)


def plain_uuid(uuid: str) -> str:
    """torch leaves out the prefix `GPU-` or `MIG-` that NVML writes."""
    return uuid.strip().lower().removeprefix("mig-").removeprefix("gpu-")


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
        return None, f"no NVIDIA driver ({_name(error)})"
    return module, None


@dataclass(frozen=True)
class _Place:
    """Where torch computes: `card` is the physical card, `part` the slice of it (or the card itself)."""

    card: Any
    part: Any | None
    sliced: bool


class Nvml:
    """Readings of the cards that torch uses, by torch's order. `indices`: the driver's own numbers of the cards."""

    def __init__(self, module: Any, torch_uuids: Sequence[str | None]) -> None:
        self._module = module
        self.reasons: dict[str, str] = {}
        self.count = len(torch_uuids)
        found = list(self._cards())
        numbers = {uuid: number for number, _, uuid in found}
        slices = {uuid: (number, part) for number, card, _ in found for part, uuid in self._slices(card)}
        handles = {number: card for number, card, _ in found}
        self.indices = match_by_uuid(torch_uuids, numbers | {uuid: number for uuid, (number, _) in slices.items()})
        parts = {plain_uuid(uuid): part for uuid, (_, part) in slices.items()}
        places: list[_Place | None] = []
        for uuid, number in zip(torch_uuids, self.indices, strict=True):
            if number is None or uuid is None:
                places.append(None)
                continue
            of_card = [part for owner, part in slices.values() if owner == number]
            places.append(self._place(handles[number], parts.get(plain_uuid(uuid)), of_card))
        self._places = tuple(places)

    def _cards(self) -> Iterator[tuple[int, Any, str]]:
        """(number, handle, UUID) of every card that the driver lets us ask."""
        for number in range(self._ask("card", self._module.nvmlDeviceGetCount) or 0):
            handle = self._ask("card", lambda at=number: self._module.nvmlDeviceGetHandleByIndex(at))  # type: ignore[misc]
            uuid = None if handle is None else self._uuid(handle)
            if uuid is not None:
                yield number, handle, uuid

    def _uuid(self, handle: Any) -> str | None:
        uuid = self._ask("card", lambda: self._module.nvmlDeviceGetUUID(handle))
        return uuid.decode() if isinstance(uuid, bytes) else uuid

    def _sliced(self, card: Any) -> bool:
        mode = self._ask(None, lambda: self._module.nvmlDeviceGetMigMode(card))
        return mode is not None and bool(mode[0])

    def _slices(self, card: Any) -> Iterator[tuple[Any, str]]:
        """(handle, UUID) of every slice of a card; the places of a card that hold none raise."""
        most = self._ask(None, lambda: self._module.nvmlDeviceGetMaxMigDeviceCount(card)) if self._sliced(card) else 0
        for at in range(most or 0):
            part = self._ask(None, lambda at=at: self._module.nvmlDeviceGetMigDeviceHandleByIndex(card, at))  # type: ignore[misc]
            uuid = None if part is None else self._uuid(part)
            if uuid is not None:
                yield part, uuid

    def _place(self, card: Any, part: Any | None, parts: Sequence[Any]) -> _Place:
        """Some versions of CUDA give a slice the UUID of its card: with one slice it is clear which, with more not."""
        if part is None and not self._sliced(card):
            return _Place(card, card, False)
        only = parts[0] if len(parts) == 1 else None
        return _Place(card, only if part is None else part, True)

    def driver(self) -> str | None:
        """Version of the driver; None with its reason under `driver`."""
        version = self._ask("driver", self._module.nvmlSystemGetDriverVersion)
        return version.decode() if isinstance(version, bytes) else version

    def cuda(self) -> str | None:
        """Newest CUDA that the driver can run, such as 13.0."""
        number = self._ask("driver", self._module.nvmlSystemGetCudaDriverVersion)
        return None if number is None else f"{number // 1000}.{number % 1000 // 10}"

    def read(
        self, card: int, own_pids: Collection[int], own_here: int = 1, *, brief: bool = False
    ) -> CardReading | None:
        """The card that torch calls `card`; None when it could not be matched. Own: all processes of the attempt."""
        place = self._places[card]
        if place is None:
            self.reasons["card"] = _NOT_FOUND
            return None
        module, whole, ask = self._module, place.card, self._number
        milliwatts = self._ask("power_watts", lambda: module.nvmlDeviceGetPowerUsage(whole))
        millijoules = self._ask("energy_joules", lambda: module.nvmlDeviceGetTotalEnergyConsumption(whole))
        reading = CardReading(
            busy_percent=ask("busy_percent", lambda: module.nvmlDeviceGetUtilizationRates(whole).gpu),
            sm_mhz=ask("sm_mhz", lambda: module.nvmlDeviceGetClockInfo(whole, module.NVML_CLOCK_SM)),
            memory_mhz=ask("memory_mhz", lambda: module.nvmlDeviceGetClockInfo(whole, module.NVML_CLOCK_MEM)),
            temperature_celsius=ask(
                "temperature_celsius", lambda: module.nvmlDeviceGetTemperature(whole, module.NVML_TEMPERATURE_GPU)
            ),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            throttle=self._throttle(whole),
            energy_joules=None if millijoules is None else millijoules / 1000,
            held_by_power_seconds=self._held("held_by_power_seconds", whole, "NVML_PERF_POLICY_POWER"),
            held_by_heat_seconds=self._held("held_by_heat_seconds", whole, "NVML_PERF_POLICY_THERMAL"),
        )  # fmt: skip
        return reading if brief else self._more(reading, place, own_pids, own_here)

    def _more(self, reading: CardReading, place: _Place, own_pids: Collection[int], own_here: int) -> CardReading:
        """Who is on the card, and what hardly changes: some of these questions take a driver milliseconds."""
        module, whole, ask = self._module, place.card, self._number
        memory, use = None, Use(None, None, None)
        if place.part is None:
            self.reasons["used_bytes"] = self.reasons["processes"] = _NO_SLICE
        else:
            memory = self._ask("used_bytes", lambda: module.nvmlDeviceGetMemoryInfo(place.part))
            use = self._use(place.part, own_pids, own_here)
        if place.sliced:
            self.reasons["slice"] = "clocks, power, temperature and energy are those of the whole card"
        limit = self._ask("power_limit_watts", lambda: module.nvmlDeviceGetEnforcedPowerLimit(whole))
        ecc = self._ask("ecc", lambda: module.nvmlDeviceGetEccMode(whole))
        return replace(
            reading,
            used_bytes=None if memory is None else int(memory.used),
            own_bytes=use.own_bytes,
            others=use.others,
            others_bytes=use.others_bytes,
            sm_mhz_possible=ask(
                "sm_mhz_possible", lambda: module.nvmlDeviceGetMaxClockInfo(whole, module.NVML_CLOCK_SM)
            ),
            power_limit_watts=None if limit is None else limit / 1000,
            ecc=None if ecc is None else bool(ecc[0]),
            pcie_generation=ask("pcie_generation", lambda: module.nvmlDeviceGetCurrPcieLinkGeneration(whole)),
            pcie_width=ask("pcie_width", lambda: module.nvmlDeviceGetCurrPcieLinkWidth(whole)),
        )  # fmt: skip

    def _held(self, name: str, card: Any, policy: str) -> float | None:
        """For how long the driver has held the clocks back so far, for this cause (it counts nanoseconds)."""
        module = self._module
        held = self._ask(name, lambda: module.nvmlDeviceGetViolationStatus(card, getattr(module, policy)))
        return None if held is None else int(held.violationTime) / 1e9

    def _use(self, part: Any, own_pids: Collection[int], own_here: int) -> Use:
        listed = self._ask("processes", lambda: self._module.nvmlDeviceGetComputeRunningProcesses(part))
        if listed is None:
            return Use(None, None, None)
        use = who_uses([(process.pid, process.usedGpuMemory) for process in listed], own_pids, own_here)
        if use.reason is not None:
            self.reasons["processes"] = use.reason
        return use

    def _throttle(self, card: Any) -> tuple[str, ...] | None:
        """Why clocks are held back: drivers since 535 call it event reasons, older ones throttle reasons."""
        flags = self._ask(None, lambda: self._module.nvmlDeviceGetCurrentClocksEventReasons(card))
        if flags is None:
            flags = self._ask("throttle", lambda: self._module.nvmlDeviceGetCurrentClocksThrottleReasons(card))
        return None if flags is None else tuple(text for bit, text in _REASONS.items() if flags & bit)

    def _number(self, name: str, question: Callable[[], Any]) -> int | None:
        answer = self._ask(name, question)
        return None if answer is None else int(answer)

    def _ask(self, name: str | None, question: Callable[[], Any]) -> Any:
        """The answer, or None with the driver's reason under `name`. An older pynvml has not every question."""
        try:
            return question()
        except (self._module.NVMLError, AttributeError) as error:
            if name is not None:
                self.reasons[name] = f"the driver does not tell ({_name(error)})"
            return None


def _name(error: BaseException) -> str:
    return type(error).__name__.removeprefix("NVMLError_")
