"""What the AMD driver tells of the cards: files of the kernel (`amdgpu`, `kfd`), no library needed.

A card is found by its place on the bus, which torch knows. Who uses a card, and with how much of its memory, stands
under `kfd/proc`. The kernel has no file for throttling and none for energy: both are unknown with a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from runner.measure.cards import CardReading, Use, who_uses

_NO_FILE = "the kernel tells it in no file"
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}


def bus_address(properties: Any) -> str | None:
    """`0000:c1:00.0` from torch's device properties; None where this torch does not tell."""
    parts = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if None in parts:
        return None
    domain, bus, device = (int(part) for part in parts if part is not None)
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


class Amd:
    """Readings of the cards at these places of the bus, in torch's order."""

    def __init__(self, addresses: Sequence[str | None], sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self.count = len(addresses)
        self._addresses = tuple(addresses)
        self.reasons = {"throttle": _NO_FILE, "energy_joules": _NO_FILE, "ecc": _NO_FILE}

    def driver(self) -> str | None:
        """Version of the module `amdgpu` where it has one of its own (AMD's packages); None for the kernel's."""
        version = _text(self._sys / "module" / "amdgpu" / "version")
        if version is None:
            self.reasons["driver"] = "amdgpu is part of the kernel, or not loaded"
        return version

    def read(self, card: int, own_pids: Collection[int], own_here: int = 1) -> CardReading | None:
        """The card that torch calls `card`; None when no card of the kernel is at its place of the bus."""
        address = self._addresses[card]
        folder = None if address is None else self._sys / "bus" / "pci" / "devices" / address
        if folder is None or not folder.is_dir():
            self.reasons["card"] = "no card of the kernel is where torch says"
            return None
        monitor = next(iter(sorted(folder.glob("hwmon/hwmon*"))), folder / "hwmon")
        use = self._use(str(address), own_pids, own_here)
        power = _number(monitor / "power1_average")
        power = _number(monitor / "power1_input") if power is None else power
        limit = _number(monitor / "power1_cap")
        clock, memory_clock = _number(monitor / "freq1_input"), _number(monitor / "freq2_input")
        temperature = _number(monitor / "temp1_input")
        return self._with_reasons(
            CardReading(
                used_bytes=_number(folder / "mem_info_vram_used"),
                own_bytes=use.own_bytes,
                others=use.others,
                others_bytes=use.others_bytes,
                busy_percent=_number(folder / "gpu_busy_percent"),
                sm_mhz=None if clock is None else clock // 1_000_000,
                memory_mhz=None if memory_clock is None else memory_clock // 1_000_000,
                temperature_celsius=None if temperature is None else temperature // 1000,
                power_watts=None if power is None else power / 1e6,
                power_limit_watts=None if limit is None else limit / 1e6,
                pcie_generation=_GENERATIONS.get((_text(folder / "current_link_speed") or "").split(" ")[0]),
                pcie_width=_number(folder / "current_link_width"),
            )
        )

    def _with_reasons(self, reading: CardReading) -> CardReading:
        for name in ("used_bytes", "busy_percent", "sm_mhz", "memory_mhz", "temperature_celsius", "power_watts"):
            if getattr(reading, name) is None:
                self.reasons[name] = "the kernel's file cannot be read"
        return reading

    def _use(self, address: str, own_pids: Collection[int], own_here: int) -> Use:
        """Processes with memory on this card, by the driver's number of the card."""
        number = self._driver_number(address)
        if number is None:
            self.reasons["processes"] = "the kernel does not list the processes of the card here"
            return Use(None, None, None)
        use = who_uses(list(self._processes(number)), own_pids, own_here)
        if use.reason is not None:
            self.reasons["processes"] = use.reason
        return use

    def _processes(self, number: int) -> Iterator[tuple[int, int]]:
        for folder in sorted((self._sys / "class/kfd/kfd/proc").glob("[0-9]*")):
            size = _number(folder / f"vram_{number}")
            if size:
                yield int(folder.name), size

    def _driver_number(self, address: str) -> int | None:
        """`gpu_id` of the node of kfd's topology at this place of the bus."""
        domain, bus, rest = address.split(":")
        device, _, function = rest.partition(".")
        wanted = (int(domain, 16), int(bus, 16) << 8 | int(device, 16) << 3 | int(function, 16))
        for node in sorted((self._sys / "class/kfd/kfd/topology/nodes").glob("[0-9]*")):
            facts = dict(line.split(None, 1) for line in (_text(node / "properties") or "").splitlines() if " " in line)
            if (_whole(facts.get("domain")), _whole(facts.get("location_id"))) == wanted:
                return _number(node / "gpu_id")
        return None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _number(file: Path) -> int | None:
    return _whole(_text(file))


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
