"""What is said of a card and of who else is on it: never more than its driver told (M9, M10, M11, M24, ME-04)."""

from __future__ import annotations

import hashlib
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from runner.measure.amd import Amd, bus_address
from runner.measure.cards import FOREIGN_IDS, NOT_EVEN_OURS, CardConditions
from runner.measure.devices import look_for
from runner.measure.environment import allowed_variables, torch_facts
from runner.measure.memory import CudaCounters
from runner.measure.nvml import Nvml
from runner.measure.probe import FoundDevices
from runner.measure.telemetry import Conditions, with_cards
from tests.measure.fake_cuda import FakeCuda, FakeNvml

CARD = "8f6a3c1e-0b5d-4e2f-9a7c-1d2e3f4a5b6c"
SLICE = "a65afc88-50b5-5ccf-b0a8-f93b3247ae9e"
TARIFFS = Path(__file__).parents[2] / "tariffs.csv"


def conditions(cards: list[dict[str, Any]], uuid: str = CARD, own_here: int = 1, **more: Any) -> CardConditions:
    return CardConditions(Nvml(FakeNvml(cards, **more), [uuid]), own_pid=7, own_here=own_here)


def shared(
    processes: list[tuple[int, int | None]], own_here: int = 1
) -> tuple[bool | None, str | None, dict[str, Any]]:
    """Whether others used the card, the reason as the row has it, all values."""
    found = conditions([{"uuid": f"GPU-{CARD}", "used": 100, "processes": processes}], own_here=own_here)
    found.sample()
    values, reasons, others = found.summary()
    row = with_cards(
        Conditions({}, {}, False, None),
        {"facts": {"cards": {"values": values, "reasons": reasons, "shared": others}}},
        on_card=True,
    )
    return row.shared, row.shared_reason, dict(row.values)


def test_a_driver_that_lists_not_even_this_process_proves_nothing_about_others() -> None:
    """Usual in a container. `false` would be a claim that nobody checked."""
    assert shared([])[:2] == (None, NOT_EVEN_OURS)


@pytest.mark.parametrize(
    ("processes", "own_here", "expected"),
    [
        ([(7, 60)], 1, False),
        ([(7, 60), (8, 40)], 1, True),
        ([(991, 60)], 1, False),  # ids of the host: one stranger is this process
        ([(991, 60), (992, 40)], 1, True),
        ([(991, 60), (992, 40)], 2, False),  # two ranks on one card
        ([(991, 60), (992, 40), (993, 1)], 2, True),
    ],
)
def test_strangers_are_counted_by_what_the_attempt_has_on_the_card(
    processes: list[tuple[int, int | None]], own_here: int, expected: bool
) -> None:
    assert shared(processes, own_here)[0] is expected


def test_bytes_of_others_stand_apart_and_unknown_ones_are_null() -> None:
    """M24: own process, others, whole card; three numbers, none added."""
    values = shared([(7, 60), (8, 30), (9, 10)])[2]
    assert (values["card0.own_bytes_most"], values["card0.others_bytes_most"], values["card0.used_bytes_most"]) == (
        60, 40, 100,
    )  # fmt: skip
    assert shared([(7, None), (8, 30)])[2]["card0.own_bytes_most"] is None
    ids_of_the_host = shared([(991, 60)])
    assert ids_of_the_host[2]["card0.own_bytes_most"] == 60
    reading = Nvml(FakeNvml([{"uuid": CARD, "used": 1, "processes": [(991, 60)]}]), [CARD])
    reading.read(0, {7})
    assert reading.reasons["processes"] == FOREIGN_IDS


class TestSlices:
    """A card in slices (MIG): a slice has its own memory and processes; the rest is told of the whole card."""

    @staticmethod
    def card(*slices: str) -> dict[str, Any]:
        parts = [{"uuid": f"MIG-{uuid}", "used": 10 + at, "processes": [(7, 5)]} for at, uuid in enumerate(slices)]
        return {"uuid": f"GPU-{CARD}", "used": 999, "processes": [(7, 5), (8, 900)], "slices": parts}

    @pytest.mark.parametrize("uuid", [SLICE, f"MIG-{SLICE}", CARD])
    def test_of_the_slice_that_torch_computes_on(self, uuid: str) -> None:
        """torch names the slice, or (some versions of CUDA) its card: with one slice both mean the same."""
        found = conditions([{"uuid": "GPU-other", "used": 1}, self.card(SLICE)], uuid)
        for _ in range(4):
            found.sample()
        values, reasons, others = found.summary()
        assert (values["card0.used_bytes_most"], others) == (10, False), "the neighbour's 900 are of another slice"
        assert values["card0.sm_mhz_most"] == 1500
        assert "whole card" in reasons["card.slice"]

    def test_me04_which_slice_is_never_guessed(self) -> None:
        found = conditions([self.card(SLICE, "b65afc88-50b5-5ccf-b0a8-f93b3247ae9e")], CARD)
        found.sample()
        values, reasons, others = found.summary()
        assert (values["card0.used_bytes_most"], others) == (None, None)
        assert "does not say on which" in reasons["card.used_bytes"]

    def test_m11_a_slice_is_not_the_card(self) -> None:
        """Neither by the tariff's pattern nor, for hardware without tariff, by its words."""
        for gpu, name in (("b200", "NVIDIA B200 MIG 1g.23gb"), ("h100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb")):
            found = look_for(gpu, 1, TARIFFS, lambda name=name: FoundDevices((name,), (), None))  # type: ignore[misc]
            assert found.torch_device is None and str(found.problem).endswith(f"found {name}")


@pytest.mark.parametrize(
    ("gpu", "name", "fits"),
    [
        ("rtx-3080", "NVIDIA GeForce RTX 3080", True),
        ("rtx-3080", "NVIDIA GeForce RTX 3080 Ti", False),
        ("rtx-3080-ti", "NVIDIA GeForce RTX 3080 Ti", True),
        ("rtx-3080", "NVIDIA GeForce RTX 3080 Laptop GPU", False),
        ("rtx-4080", "NVIDIA GeForce RTX 4080 SUPER", False),
        ("h200", "NVIDIA H200", True),
        ("h100-mig-1g", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", True),
        ("mi300x", "AMD Instinct MI300X", True),
        ("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", True),
        ("a10", "NVIDIA A10", True),
        ("a10", "NVIDIA A10-4Q", False),
        ("a10-4q", "NVIDIA A10-4Q", True),
        ("t4", "GRID T4-16Q", False),
        ("a100", "GRID A100-1-5C", False),
        ("mi300x", "AMD Instinct MI300X CPX", False),
        ("mi300x-cpx", "AMD Instinct MI300X CPX", True),
        ("h200", "NVIDIA H200-141C", False),
    ],
)
def test_m11_a_card_of_another_size_is_another_card(gpu: str, name: str, fits: bool) -> None:
    found = look_for(gpu, 1, TARIFFS, lambda: FoundDevices((name,), (), None))
    assert (found.torch_device == "cuda") is fits


class TestWhatADriverDoesNotTell:
    @pytest.mark.parametrize("question", ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"])
    def test_no_refused_question_ends_an_attempt(self, question: str) -> None:
        found = conditions([{"uuid": CARD, "used": 1}], refuses=frozenset({question}))
        found.sample()
        values, reasons, others = found.summary()
        assert (values, others) == ({}, None)
        assert reasons["card.card"]

    def test_the_version_of_the_driver_may_be_unknown(self) -> None:
        nvml = Nvml(FakeNvml([], frozenset({"nvmlSystemGetDriverVersion"})), [])
        assert nvml.driver() is None and "FunctionNotFound" in nvml.reasons["driver"]
        nvml = Nvml(FakeNvml([]), [])
        assert (nvml.driver(), nvml.cuda()) == ("570.86.10", "12.8")

    def test_older_drivers_call_the_reasons_for_slower_clocks_otherwise(self) -> None:
        card = {"uuid": CARD, "used": 1, "throttle": 0x4 | 0x2 | 0x1, "processes": [(7, 1)]}
        for refused in (frozenset[str](), frozenset({"nvmlDeviceGetCurrentClocksEventReasons"})):
            found = conditions([dict(card)], refuses=refused)
            for _ in range(4):
                found.sample()
            values, _, _ = found.summary()
            assert values["card0.throttle_reasons"] == "clocks set by a user, power cap set by software"

    def test_what_limits_a_card_is_told(self) -> None:
        """A card that is rented out with half its power is another card."""
        times = iter((0.0, 0.5, 1.0, 2.0, 3.0))
        cards = [{"uuid": CARD, "used": 1, "busy": [3, 40, 80, 100, 7]}]
        found = CardConditions(Nvml(FakeNvml(cards), [CARD]), own_pid=7, now=lambda: next(times))
        for _ in range(5):
            found.sample()
        values, _, _ = found.summary()
        assert values["card0.power_limit_watts"] == 450.0
        assert values["card0.sm_mhz_possible"] == 2520
        assert (values["card0.ecc"], values["card0.pcie_generation_most"], values["card0.pcie_width_most"]) == (
            "on", 4, 16,
        )  # fmt: skip
        assert values["card0.busy_percent_mean"] == 90.0, "looks of a second before count for the time before the pass"

    def test_m20_a_pass_at_the_edge_of_memory_is_seen(self) -> None:
        """Every retry of the allocator waits for the card and empties its cache, inside the pass."""
        cuda = FakeCuda()
        cuda.alloc_retries, cuda.device_allocs = 1, 40
        found = CardConditions(Nvml(FakeNvml([]), []), 7, allocator=CudaCounters(cuda, (0,)))
        found.sample()
        cuda.alloc_retries, cuda.device_allocs = 3, 46
        found.sample()
        values, _, _ = found.summary()
        assert values == {"card0.allocator_requests": 6, "card0.allocator_retries": 2}


class TestDoctor:
    """Issue 6, point 9: what a card cannot do, and why, before a variant asks for it."""

    @staticmethod
    def torch(capability: tuple[int, int] = (9, 0)) -> Any:
        return SimpleNamespace(
            cuda=SimpleNamespace(get_device_capability=lambda: capability), version=SimpleNamespace(hip=None)
        )

    def test_the_compiler_of_a_card_needs_more_than_the_card(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Triton compiles its launcher with a C compiler and Python's headers, and is not for every card."""
        from runner.measure import abilities

        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setattr(shutil, "which", lambda name: None)
        assert "no C compiler (install gcc)" in abilities._compiler(self.torch(), "cuda").why
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        assert "not for compute capability 6.1" in abilities._compiler(self.torch((6, 1)), "cuda").why
        monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
        assert "headers of Python" in abilities._compiler(self.torch(), "cuda").why
        monkeypatch.undo()
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(Path, "is_file", lambda path: True)
        monkeypatch.setitem(sys.modules, "triton", None)
        assert "no Triton" in abilities._compiler(self.torch(), "cuda").why
        stand_in: Any = ModuleType("triton")
        stand_in.__version__ = "3.7.0"
        monkeypatch.setitem(sys.modules, "triton", stand_in)
        assert abilities._compiler(self.torch(), "cuda").possible is True

    def test_int8_of_the_cpu_is_not_offered_for_a_card(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch = pytest.importorskip("torch")
        from runner.measure import abilities

        assert abilities._int8(torch, "cpu").name == "int8-dynamic"
        monkeypatch.setitem(sys.modules, "torchao.quantization", None)
        layers = SimpleNamespace(to=lambda *_: torch.nn.Linear(64, 64, dtype=torch.bfloat16))
        nn = SimpleNamespace(Sequential=lambda *_: layers, Linear=torch.nn.Linear, Embedding=torch.nn.Embedding)
        stand_in = SimpleNamespace(nn=nn, bfloat16=torch.bfloat16, compile=torch.compile)
        found = abilities._int8(stand_in, "cuda")
        assert (found.name, found.possible) == ("int8-torchao", False) and "torchao is not installed" in found.why


class TestAmd:
    """M10: a card of AMD by the kernel's own files, laid out as `amdgpu` and `kfd` do."""

    ADDRESS = "0000:c1:00.0"

    @staticmethod
    def tree(root: Path, files: dict[str, str]) -> Path:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="ascii")
        return root

    def card(self, root: Path, *others: int) -> Amd:
        device = f"bus/pci/devices/{self.ADDRESS}"
        node = "class/kfd/kfd/topology/nodes"
        files = {
            f"{device}/mem_info_vram_used": "5368709120\n",
            f"{device}/gpu_busy_percent": "97\n",
            f"{device}/current_link_speed": "32.0 GT/s PCIe\n",
            f"{device}/current_link_width": "16\n",
            f"{device}/hwmon/hwmon4/power1_average": "612000000\n",
            f"{device}/hwmon/hwmon4/power1_cap": "750000000\n",
            f"{device}/hwmon/hwmon4/temp1_input": "61000\n",
            f"{device}/hwmon/hwmon4/freq1_input": "2100000000\n",
            f"{device}/hwmon/hwmon4/freq2_input": "1300000000\n",
            f"{node}/0/properties": "cpu_cores_count 96\nlocation_id 0\ndomain 0\n",
            f"{node}/0/gpu_id": "0\n",
            f"{node}/1/properties": f"simd_count 1216\nlocation_id {0xC1 << 8}\ndomain 0\n",
            f"{node}/1/gpu_id": "51140\n",
            "class/kfd/kfd/proc/7/vram_51140": "4294967296\n",
            "class/kfd/kfd/proc/7/vram_777": "5\n",
            "class/kfd/kfd/proc/9/vram_51140": "0\n",  # on another card only
            "module/amdgpu/version": "6.14.14\n",
        } | {f"class/kfd/kfd/proc/{pid}/vram_51140": "1048576\n" for pid in others}
        return Amd([self.ADDRESS], self.tree(root, files))

    def test_what_the_kernel_tells(self, tmp_path: Path) -> None:
        amd = self.card(tmp_path)
        found = CardConditions(amd, own_pid=7)
        for _ in range(4):
            found.sample()
        values, reasons, others = found.summary()
        assert others is False
        expected = {
            "used_bytes_most": 5 << 30, "own_bytes_most": 4 << 30, "others_bytes_most": 0, "sm_mhz_most": 2100,
            "memory_mhz_least": 1300, "temperature_celsius_most": 61, "power_watts_most": 612.0,
            "power_limit_watts": 750.0, "pcie_generation_most": 5, "pcie_width_most": 16,
            "throttle_reasons": None, "energy_joules": None,
        }  # fmt: skip
        assert {name: values[f"card0.{name}"] for name in expected} == expected
        assert reasons["card.throttle"] and reasons["card.energy_joules"]
        assert amd.driver() == "6.14.14"

    def test_others_on_the_card(self, tmp_path: Path) -> None:
        found = CardConditions(self.card(tmp_path, 42), own_pid=7)
        found.sample()
        assert found.summary()[2] is True

    def test_a_card_that_is_not_where_torch_says_is_not_read(self, tmp_path: Path) -> None:
        for address in (None, "0000:00:00.0"):
            amd = Amd([address], self.tree(tmp_path, {}))
            assert amd.read(0, {7}) is None and amd.reasons["card"]

    def test_where_a_card_is_on_the_bus_is_torchs_word(self) -> None:
        """Attributes of torch's device properties (used by `torch.numa` too); an older torch has none."""
        place = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0)
        assert bus_address(place) == self.ADDRESS
        assert bus_address(SimpleNamespace()) is None


def test_m9_variables_that_name_a_card_hold_its_hash() -> None:
    """Container runtimes put UUIDs there; the manifest holds hashes only, the same as of the card itself."""
    hashed = hashlib.sha256(CARD.encode()).hexdigest()
    found = allowed_variables(
        {
            "CUDA_VISIBLE_DEVICES": f"GPU-{CARD.upper()},1",
            "NVIDIA_VISIBLE_DEVICES": f"MIG-{SLICE}",
            "ROCR_VISIBLE_DEVICES": "0",
        }
    )
    assert found["CUDA_VISIBLE_DEVICES"] == f"GPU-sha256:{hashed},1"
    assert SLICE not in found["NVIDIA_VISIBLE_DEVICES"] and found["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-sha256:")
    assert found["ROCR_VISIBLE_DEVICES"] == "0"


def test_m9_a_part_that_does_not_answer_ends_no_attempt_and_has_its_reason() -> None:
    """cuDNN that does not fit, a build without NCCL, precision that was set by two ways at once."""
    torch = pytest.importorskip("torch")

    def broken(*_: object) -> None:
        raise RuntimeError("cuDNN version incompatibility")

    class Mixed:
        allow_fp16_reduced_precision_reduction = (True, True)

        @property
        def allow_tf32(self) -> bool:
            raise RuntimeError("mix of the legacy and new APIs")

    backends = SimpleNamespace(
        cudnn=SimpleNamespace(version=broken, benchmark=False, deterministic=False),
        cuda=SimpleNamespace(matmul=Mixed(), flash_sdp_enabled=lambda: True),
        cpu=torch.backends.cpu,
        mkldnn=torch.backends.mkldnn,
    )
    version = SimpleNamespace(cuda="13.0", hip=None)
    cuda = SimpleNamespace(nccl=SimpleNamespace(), device_count=lambda: 0)
    stand_in = SimpleNamespace(
        __version__="2.13.0", version=version, backends=backends, cuda=cuda,
        are_deterministic_algorithms_enabled=lambda: False, get_float32_matmul_precision=broken,
        get_num_threads=lambda: 1, get_num_interop_threads=lambda: 1,
    )  # fmt: skip
    facts = torch_facts(stand_in, "cuda")
    unknown = ("tf32_matmul", "float32_matmul_precision", "allow_fp16_accumulation")
    for section, name in (("runtime", "cudnn"), ("runtime", "nccl"), *(("determinism", name) for name in unknown)):
        assert facts[section][name] is None and facts["reasons"][f"{section}.{name}"].startswith("torch does not tell")
    assert facts["reasons"]["runtime.hip"] == "not part of this build of torch"
    assert facts["determinism"]["allow_fp16_reduced_precision_reduction"] == "(True, True)"
    assert facts["determinism"]["sdpa_flash_allowed"] is True


@pytest.mark.parametrize("hip", [None, "7.2"])
def test_a_driver_that_fails_leaves_the_attempt_alone(hip: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from runner.measure import nvml
    from runner.measure.kits import TorchKit

    def fails(*_: object) -> None:
        raise OSError("libnvidia-ml.so.1: wrong version")

    monkeypatch.setattr(nvml, "load_nvml", fails)
    kit = TorchKit()
    properties = SimpleNamespace(uuid=CARD, pci_domain_id=0, pci_bus_id=1, pci_device_id=0)
    cuda = SimpleNamespace(get_device_properties=lambda card: properties)
    kit._torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))
    job: Any = SimpleNamespace(device="cuda", settings={"workers": 1})
    found = kit.conditions(job)
    assert (found is None) is (hip is None), "of AMD's cards the kernel tells, no library"
    if found is not None:
        found.sample()
        assert found.summary()[2] is None
