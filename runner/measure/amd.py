"""What the AMD driver tells of the cards: files of the kernel (`amdgpu`, `kfd`), no library needed.

A card is found by its place on the bus, which torch knows. Who uses a card, and with how much of its memory, stands
under `kfd/proc`. Energy and throttling stand in `gpu_metrics`, a table with a version; of versions that are not known
here they are unknown with that reason.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.measure.cards import CardReading, Use, who_uses

_NO_FILE = "the kernel tells it in no file"
_METRICS = "gpu_metrics"
# Of the table's versions (kernel, kgd_pp_interface.h): offset of the energy in units of 2**-16 J, 64 bits.
_ENERGY_AT = {(1, 4): 24, (1, 5): 88, (1, 6): 88}
_ENERGY_UNIT_JOULES = 2**-16
# Offset of the throttling status that means the same on every card, 64 bits, and its groups of bits.
_THROTTLE_AT = {(1, 3): 112}
_THROTTLE = {0xFFFF: "power", 0xFFFF << 16: "current", 0xFFFF << 32: "temperature", 0xFFFF << 48: "other"}
_NOT_FILLED = (1 << 64) - 1
_WHOLE = "SPX"
_UNREADABLE = "the kernel's file cannot be read"
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}


def bus_address(properties: Any) -> str | None:
    """`0000:c1:00.0` from torch's device properties; None where this torch does not tell."""
    parts = [getattr(properties, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if None in parts:
        return None
    domain, bus, device = (int(part) for part in parts if part is not None)
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def partition(properties: Any, sys: Path = Path("/sys")) -> str | None:
    """`CPX` where the card is split into parts that compute apart; None for a whole one, or where nothing tells."""
    address = bus_address(properties)
    found = None if address is None else _text(sys / "bus/pci/devices" / address / "current_compute_partition")
    return found if found and found != _WHOLE and found.isalnum() else None


class Amd:
    """Readings of the cards at these places of the bus, in torch's order."""

    def __init__(self, addresses: Sequence[str | None], sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self.count = len(addresses)
        self._addresses = tuple(addresses)
        self.reasons = dict.fromkeys(("ecc", "held_by_power_seconds", "held_by_heat_seconds"), _NO_FILE)

    def driver(self) -> str | None:
        """Version of the module `amdgpu` where it has one of its own (AMD's packages); None for the kernel's."""
        version = _text(self._sys / "module" / "amdgpu" / "version")
        if version is None:
            self.reasons["driver"] = "amdgpu is part of the kernel, or not loaded"
        return version

    def read(
        self, card: int, own_pids: Collection[int], own_here: int = 1, *, brief: bool = False
    ) -> CardReading | None:
        """The card that torch calls `card`; None when no card of the kernel is at its place of the bus."""
        address = self._addresses[card]
        folder = None if address is None else self._sys / "bus" / "pci" / "devices" / address
        if folder is None or not folder.is_dir():
            self.reasons["card"] = "no card of the kernel is where torch says"
            return None
        monitor = next(iter(sorted(folder.glob("hwmon/hwmon*"))), folder / "hwmon")
        power = _number(monitor / "power1_average")
        power = _number(monitor / "power1_input") if power is None else power
        clock, memory_clock = _number(monitor / "freq1_input"), _number(monitor / "freq2_input")
        throttle, joules = self._metrics(folder)
        reading = self._with_reasons(
            CardReading(
                busy_percent=_number(folder / "gpu_busy_percent"),
                sm_mhz=None if clock is None else clock // 1_000_000,
                memory_mhz=None if memory_clock is None else memory_clock // 1_000_000,
                temperature_celsius=self._temperature(monitor),
                power_watts=None if power is None else power / 1e6,
                throttle=throttle,
                energy_joules=joules,
            )
        )
        if brief:
            return reading
        use, limit = self._use(str(address), own_pids, own_here), _number(monitor / "power1_cap")
        used = _number(folder / "mem_info_vram_used")
        if used is None:
            self.reasons["used_bytes"] = _UNREADABLE
        return replace(
            reading,
            used_bytes=used,
            own_bytes=use.own_bytes,
            others=use.others,
            others_bytes=use.others_bytes,
            power_limit_watts=None if limit is None else limit / 1e6,
            pcie_generation=_GENERATIONS.get((_text(folder / "current_link_speed") or "").split(" ")[0]),
            pcie_width=_number(folder / "current_link_width"),
        )

    def _temperature(self, monitor: Path) -> int | None:
        """At the edge of the chip; cards without that sensor (MI300) tell it of the hottest junction, which is more."""
        for name, where in (("temp1_input", None), ("temp2_input", "of the hottest junction, not of the edge")):
            found = _number(monitor / name)
            if found is not None:
                if where is not None:
                    self.reasons["temperature_celsius"] = where
                return found // 1000
        return None

    def _metrics(self, folder: Path) -> tuple[tuple[str, ...] | None, float | None]:
        """What holds the clocks back, and the energy so far in joules."""
        try:
            table = (folder / _METRICS).read_bytes()
            size, major, minor = struct.unpack_from("<HBB", table)
        except (OSError, struct.error):
            self.reasons["throttle"] = self.reasons["energy_joules"] = f"the kernel's file {_METRICS} cannot be read"
            return None, None

        def value(name: str, places: Mapping[tuple[int, int], int]) -> int | None:
            at = places.get((major, minor))
            if at is None or at + 8 > min(size, len(table)):
                self.reasons[name] = f"not read of {_METRICS} {major}.{minor}"
                return None
            found: int = struct.unpack_from("<Q", table, at)[0]
            if found == _NOT_FILLED:
                self.reasons[name] = f"the driver leaves it out of {_METRICS}"
                return None
            return found

        bits, units = value("throttle", _THROTTLE_AT), value("energy_joules", _ENERGY_AT)
        throttle = None if bits is None else tuple(text for mask, text in _THROTTLE.items() if bits & mask)
        return throttle, None if units is None else units * _ENERGY_UNIT_JOULES

    def _with_reasons(self, reading: CardReading) -> CardReading:
        for name in ("busy_percent", "sm_mhz", "memory_mhz", "temperature_celsius", "power_watts"):
            if getattr(reading, name) is None:
                self.reasons[name] = _UNREADABLE
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
