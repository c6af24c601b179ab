"""What is said of a card during a pass is of the pass, and what slows every card down is refused (M9, M10, M11)."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.errors import InputRefused
from runner.measure.amd import Amd, partition
from runner.measure.cards import CardConditions
from runner.measure.devices import look_for
from runner.measure.nvml import Nvml
from runner.measure.probe import FoundDevices
from runner.measure.repeat import Repeater
from tests.measure.fake_cuda import FakeNvml

CARD = "8f6a3c1e-0b5d-4e2f-9a7c-1d2e3f4a5b6c"
TARIFFS = Path(__file__).parents[2] / "tariffs.csv"


class Pass:
    """A card that is at rest before and after its pass and works, held back, in between."""

    def __init__(self, inside: int, **more: Any) -> None:
        held = [0, 0]
        self.card: dict[str, Any] = {"uuid": CARD, "used": 1, "processes": [(7, 1)], "held": held} | more
        found = self.conditions = CardConditions(
            Nvml(FakeNvml([self.card]), [CARD]), 7, now=itertools.count(0).__next__
        )
        found.sample()
        self.card["throttle"] = 0x4
        for _ in range(inside):
            held[0] += 50_000_000
            found.sample()
        self.card["throttle"] = 0x2
        found.sample_all()
        self.values, self.reasons, self.shared = found.summary()


class TestReadingsInsideThePass:
    """Issue 6, point 8: a reading of before or after the pass is not presented as the pass's."""

    def test_readings_are_counted_and_only_they_tell_of_the_pass(self) -> None:
        seen = Pass(inside=3)
        assert seen.values["card0.readings"] == 3
        assert seen.values["card0.throttle_reasons"] == "power cap set by software", "after it a user's clocks"
        assert seen.values["card0.sm_mhz_least"] == 1500

    @pytest.mark.parametrize("inside", [0, 1])
    def test_too_few_readings_tell_nothing_and_say_so(self, inside: int) -> None:
        seen = Pass(inside)
        assert seen.values["card0.readings"] == inside
        for name in ("sm_mhz_least", "sm_mhz_most", "memory_mhz_least", "power_watts_most", "throttle_reasons"):
            assert seen.values[f"card0.{name}"] is None
            assert seen.reasons[f"card.{name}"] == f"readings inside the pass: {inside}, too few to speak of it"
        assert float(seen.values["card0.energy_joules"] or 0) > 0, "a counter tells of the time between two looks"

    def test_the_drivers_own_counters_tell_for_how_long_a_card_was_held_back(self) -> None:
        seen = Pass(inside=4)
        assert seen.values["card0.held_by_power_seconds"] == pytest.approx(0.2)
        assert seen.values["card0.held_by_heat_seconds"] == 0.0
        silent = Pass(inside=0)
        del silent.card["held"]
        silent.conditions.sample()
        assert "NotSupported" in silent.conditions.summary()[1]["card.held_by_power_seconds"]

    def test_most_looks_ask_only_what_changes_and_a_neighbour_is_seen_at_the_end(self) -> None:
        """Who is on a card takes a driver milliseconds: once a second, and before and after the pass."""
        asked: list[str] = []

        class Counting(FakeNvml):
            def nvmlDeviceGetComputeRunningProcesses(self, handle: dict[str, Any]) -> list[Any]:
                asked.append("processes")
                return super().nvmlDeviceGetComputeRunningProcesses(handle)

        card: dict[str, Any] = {"uuid": CARD, "used": 1, "processes": [(7, 1)]}
        found = CardConditions(Nvml(Counting([card]), [CARD]), 7)
        for _ in range(11):
            found.sample()
        assert len(asked) == 2
        card["processes"].append((8, 1))
        found.sample_all()
        assert found.summary()[2] is True

    def test_the_last_action_of_a_repeater_may_be_another(self) -> None:
        done: list[str] = []
        repeater = Repeater("x", 60.0, lambda: done.append("look"), lambda: done.append("last"))
        repeater.start()
        repeater.stop()
        assert done == ["look", "last"]

    def test_a_pass_of_half_a_second_has_readings(self) -> None:
        import time

        from runner.measure.cards import READ_SECONDS

        found = CardConditions(Nvml(FakeNvml([{"uuid": CARD, "used": 1}]), [CARD]), 7)
        repeater = Repeater("cards", READ_SECONDS, found.sample, found.sample_all)
        repeater.start()
        time.sleep(0.5)
        repeater.stop()
        assert int(found.summary()[0]["card0.readings"] or 0) >= 2


class TestVariablesForDebugging:
    """M9: kernels one by one, or memory from the driver for every tensor: no figure holds with that."""

    @staticmethod
    def look(environment: dict[str, str], gpu: str = "h200") -> str | None:
        found = FoundDevices(("NVIDIA H200",), (), None)
        return look_for(gpu, 1, TARIFFS, lambda: found, environment).torch_device

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("CUDA_LAUNCH_BLOCKING", "1"),
            ("HIP_LAUNCH_BLOCKING", "1"),
            ("AMD_SERIALIZE_KERNEL", "3"),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0"),  # torch asks whether it is set, not to what
        ],
    )
    def test_they_are_refused_with_what_to_do(self, name: str, value: str) -> None:
        with pytest.raises(InputRefused) as refused:
            self.look({name: value})
        assert (refused.value.column, refused.value.value) == (name, value)
        assert f"unset {name}" in str(refused.value.next_step)

    def test_what_slows_nothing_is_not(self) -> None:
        assert self.look({"CUDA_LAUNCH_BLOCKING": "0", "AMD_SERIALIZE_KERNEL": ""}) == "cuda"
        assert self.look({"CUDA_LAUNCH_BLOCKING": "1"}, gpu="cpu") == "cpu"


class MetricsHeader(ctypes.Structure):
    """`metrics_table_header` of the kernel's kgd_pp_interface.h."""

    _fields_ = (("size", ctypes.c_uint16), ("format", ctypes.c_uint8), ("content", ctypes.c_uint8))


class Metrics13(ctypes.Structure):
    """`gpu_metrics_v1_3`, field by field; the compiler's own layout decides the offsets."""

    _fields_ = (
        ("header", MetricsHeader), ("temperatures", ctypes.c_uint16 * 6), ("activities", ctypes.c_uint16 * 3),
        ("socket_power", ctypes.c_uint16), ("energy", ctypes.c_uint64), ("clock", ctypes.c_uint64),
        ("clocks", ctypes.c_uint16 * 14), ("throttle", ctypes.c_uint32), ("fan", ctypes.c_uint16),
        ("link", ctypes.c_uint16 * 2), ("padding", ctypes.c_uint16), ("activity_acc", ctypes.c_uint32 * 2),
        ("hbm", ctypes.c_uint16 * 4), ("firmware", ctypes.c_uint64), ("voltages", ctypes.c_uint16 * 3),
        ("padding1", ctypes.c_uint16), ("independent", ctypes.c_uint64),
    )  # fmt: skip


class Metrics14(ctypes.Structure):
    """The first fields of `gpu_metrics_v1_4` (MI300)."""

    _fields_ = (
        ("header", MetricsHeader), ("temperatures", ctypes.c_uint16 * 3), ("power", ctypes.c_uint16),
        ("activities", ctypes.c_uint16 * 2), ("vcn", ctypes.c_uint16 * 4), ("energy", ctypes.c_uint64),
        ("clock", ctypes.c_uint64), ("throttle", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 244),
    )  # fmt: skip


class Metrics16(ctypes.Structure):
    """The first fields of `gpu_metrics_v1_5` and `v1_6`."""

    _fields_ = (
        ("header", MetricsHeader), ("temperatures", ctypes.c_uint16 * 3), ("power", ctypes.c_uint16),
        ("activities", ctypes.c_uint16 * 2), ("vcn", ctypes.c_uint16 * 4), ("jpeg", ctypes.c_uint16 * 32),
        ("energy", ctypes.c_uint64), ("clock", ctypes.c_uint64), ("rest", ctypes.c_uint8 * 200),
    )  # fmt: skip


class TestAmd:
    """M10: MI300 hides the sensor at the edge, and its table of metrics counts energy."""

    ADDRESS = "0000:c1:00.0"
    PLACE = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0)

    def folder(self, root: Path) -> Path:
        path = root / "bus/pci/devices" / self.ADDRESS
        (path / "hwmon/hwmon4").mkdir(parents=True, exist_ok=True)
        return path

    def read(self, root: Path, table: bytes | None = None, **files: str) -> tuple[Any, dict[str, str]]:
        folder = self.folder(root)
        for name, content in files.items():
            (folder / "hwmon/hwmon4" / name).write_text(content, encoding="ascii")
        if table is not None:
            (folder / "gpu_metrics").write_bytes(table)
        amd = Amd([self.ADDRESS], root)
        return amd.read(0, {7}), amd.reasons

    def test_the_temperature_of_the_junction_where_the_edge_has_none(self, tmp_path: Path) -> None:
        reading, reasons = self.read(tmp_path, temp2_input="71000\n")
        assert reading.temperature_celsius == 71 and "hottest junction" in reasons["temperature_celsius"]
        reading, reasons = self.read(tmp_path, temp1_input="55000\n")
        assert reading.temperature_celsius == 55 and "temperature_celsius" not in reasons

    @pytest.mark.parametrize(("kind", "version"), [(Metrics14, (1, 4)), (Metrics16, (1, 5)), (Metrics16, (1, 6))])
    def test_energy_of_the_table_in_joules(self, tmp_path: Path, kind: Any, version: tuple[int, int]) -> None:
        table = kind(header=MetricsHeader(ctypes.sizeof(kind), *version), energy=3 << 16)
        reading, reasons = self.read(tmp_path, bytes(table))
        assert reading.energy_joules == 3.0
        assert (reading.throttle, reasons["throttle"]) == (None, f"not read of gpu_metrics 1.{version[1]}")

    def test_throttling_of_the_table_by_kind(self, tmp_path: Path) -> None:
        assert ctypes.sizeof(Metrics13) == 120
        header = MetricsHeader(120, 1, 3)
        reading, _ = self.read(tmp_path, bytes(Metrics13(header=header, independent=1 << 36 | 1)))
        assert reading.throttle == ("power", "temperature")
        reading, reasons = self.read(tmp_path, bytes(Metrics13(header=header, independent=(1 << 64) - 1)))
        assert reading.throttle is None and "leaves it out" in reasons["throttle"]
        assert reasons["energy_joules"] == "not read of gpu_metrics 1.3", "its unit is said nowhere"

    @pytest.mark.parametrize(
        "table", [b"", b"\x04\x00\x01", bytes(MetricsHeader(4, 1, 4)), bytes(MetricsHeader(4, 9, 9))]
    )
    def test_a_table_that_is_too_short_or_new_is_not_read(self, tmp_path: Path, table: bytes) -> None:
        reading, reasons = self.read(tmp_path, table)
        assert (reading.throttle, reading.energy_joules) == (None, None)
        assert "gpu_metrics" in reasons["throttle"] and "gpu_metrics" in reasons["energy_joules"]

    @pytest.mark.parametrize(("mode", "found"), [("SPX", None), ("CPX", "CPX"), (None, None), ("../x", None)])
    def test_m11_a_part_of_a_card_is_called_so(self, tmp_path: Path, mode: str | None, found: str | None) -> None:
        """torch calls a part `AMD Instinct MI300X` like the whole."""
        if mode is not None:
            (self.folder(tmp_path) / "current_compute_partition").write_text(f"{mode}\n", encoding="ascii")
        assert partition(self.PLACE, tmp_path) == found

    def test_m11_the_manifests_name_of_a_part(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from runner.measure import amd, environment

        monkeypatch.setattr(amd, "partition", lambda properties: "CPX")
        properties = SimpleNamespace(
            name="AMD Instinct MI300X", total_memory=1, gcnArchName="gfx942", multi_processor_count=38
        )
        torch = SimpleNamespace(
            cuda=SimpleNamespace(get_device_properties=lambda index: properties), version=SimpleNamespace(hip="7.2")
        )
        facts = environment.gpu_facts(torch, 0)
        assert (facts["name"], facts["multiprocessors"]) == ("AMD Instinct MI300X CPX", 38)
