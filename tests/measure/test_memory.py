"""Peaks per device and counter, reset per pass, matched by UUID, units right (M24, ME-01, ME-02, ME-04, ME-06)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from runner.measure.cards import CardConditions
from runner.measure.memory import (
    CudaCounters,
    PassMemory,
    Sampler,
    Timeline,
    device_peaks,
    peak_rss_bytes,
)
from runner.measure.nvml import Nvml, match_by_uuid
from tests.measure.fake_cuda import FakeCuda, FakeNvml

CASES = Path(__file__).parents[1] / "cases"


def test_me01_each_pass_has_its_own_peak_and_the_weights_stay_in_it() -> None:
    case = json.loads((CASES / "ME-01" / "counters.json").read_bytes())
    cuda = FakeCuda()
    counters = CudaCounters(cuda, (0,))
    cuda.use(0, case["resident_weights"])
    peaks: dict[int, int] = {}
    for event in case["events"]:
        if event.get("reset_peak"):
            counters.reset()
            assert counters.peaks()["allocated:0"] == 1073741824
        cuda.use(0, event["current"])
        peaks[event["pass"]] = counters.peaks()["allocated:0"]
    assert peaks == {1: 6442450944, 2: 1610612736}


def test_me01_loading_is_reported_apart_and_never_as_the_peak_of_the_pass() -> None:
    """ME-01, point 2: 6 GiB while loading, 1.5 GiB in the pass, 1 GiB of weights stays: two peaks, two names."""
    case = json.loads((CASES / "ME-01" / "counters.json").read_bytes())
    loading, timed = (max(e["current"] for e in case["events"] if e["pass"] == number) for number in (1, 2))
    cuda = FakeCuda()
    cuda.use(0, loading)
    cuda.use(0, case["resident_weights"])
    memory = PassMemory(10.0, "cpu", 64 << 30, CudaCounters(cuda, (0,)))
    memory.start()
    cuda.use(0, timed)
    _, found = memory.stop()
    peaks = {(str(peak["device"]), str(peak["counter"])): peak for peak in found}
    allocated = "torch.cuda.max_memory_allocated"
    assert peaks["cuda:0", allocated]["bytes"] == 1610612736
    before = peaks["cuda:0", f"{allocated} before the pass"]
    assert before["bytes"] == 6442450944 and before["at_seconds"] is None and before["reason"]
    assert str(before["scope"]).endswith("before the pass: loading, compiling and warming up")
    assert isinstance(peaks["cpu", "VmHWM before the pass"]["bytes"], int)


def test_me02_allocated_and_reserved_stand_apart_and_are_never_added() -> None:
    case = json.loads((CASES / "ME-02" / "memory.json").read_bytes())
    cuda = FakeCuda(cards=2)
    counters = CudaCounters(cuda, (0, 1))
    for device in case["devices"]:
        cuda.use(device["index"], device["peak_allocated"], device["peak_reserved"])
    timeline = Timeline(0.05, [(0.0, counters.sample())])
    found = {(peak["device"], peak["counter"]): peak for peak in device_peaks(counters, counters.peaks(), timeline)}
    assert len(found) == 4
    assert found["cuda:0", "torch.cuda.max_memory_reserved"]["bytes"] == 6442450944
    assert found["cuda:1", "torch.cuda.max_memory_reserved"]["bytes"] == 3221225472
    assert 11811160064 not in [peak["bytes"] for peak in found.values()]
    assert all(peak["scope"] and peak["capacity_bytes"] == 24 << 30 for peak in found.values())


def test_me02_allocated_above_reserved_is_refused() -> None:
    counters = CudaCounters(FakeCuda(), (0,))
    with pytest.raises(ValueError, match="allocated is larger than reserved"):
        device_peaks(counters, {"allocated:0": 2, "reserved:0": 1}, Timeline(0.05))


def test_m24_the_whole_card_is_told_beside_torchs_counters() -> None:
    """The driver's context is in none of them: a card that holds the tensors may still be too small."""
    cuda = FakeCuda()
    cuda.use(0, 1 << 30, 2 << 30)
    memory = PassMemory(10.0, "cpu", 64 << 30, CudaCounters(cuda, (0,)))
    memory.start()
    _, found = memory.stop()
    (whole,) = [peak for peak in found if peak["counter"] == "torch.cuda.mem_get_info"]
    assert whole["bytes"] == (2 << 30) + (500 << 20)
    assert "other processes included" in str(whole["scope"]) and whole["at_seconds"] is None
    cuda.broken = True  # after an error of the card nothing answers any more
    memory = PassMemory(10.0, "cpu", 64 << 30, CudaCounters(cuda, (0,)))
    memory.start()
    _, found = memory.stop()
    assert not [peak for peak in found if peak["counter"] == "torch.cuda.mem_get_info"]


def test_m24_a_card_that_was_full_in_the_pass_may_have_held_more_than_at_its_end() -> None:
    """An allocator that tries again empties its cache first: the look after the pass is less than the most."""
    cuda = FakeCuda()
    cuda.alloc_retries = 3  # of loading
    reasons = []
    for more in (0, 2):
        memory = PassMemory(10.0, "cpu", 64 << 30, CudaCounters(cuda, (0,)))
        memory.start()
        cuda.alloc_retries += more
        _, found = memory.stop()
        reasons += [str(peak["reason"]) for peak in found if peak["counter"] == "torch.cuda.mem_get_info"]
    assert reasons[0] == "the counter has no time"
    assert reasons[1].endswith("; memory was given back in the pass, times: 2, it may have been more")


def test_m24_allocated_and_reserved_are_of_the_same_moment() -> None:
    """One look per sample: two looks would see what another thread did in between."""
    cuda, looks = FakeCuda(), 0
    inside = cuda.memory_stats_as_nested_dict

    def counted(card: int) -> dict[str, object]:
        nonlocal looks
        looks += 1
        return inside(card)

    cuda.memory_stats_as_nested_dict = counted  # type: ignore[method-assign]
    assert CudaCounters(cuda, (0,)).sample() == {"allocated:0": 0, "reserved:0": 0}
    assert looks == 1


def test_m24_peaks_of_two_counters_may_be_at_different_times() -> None:
    timeline = Timeline(0.5, [(0.0, {"allocated:0": 1, "reserved:0": 9}), (0.5, {"allocated:0": 5, "reserved:0": 9})])
    assert timeline.time_of_largest("allocated:0") == 0.5
    assert timeline.time_of_largest("reserved:0") == 0.0
    assert timeline.time_of_largest("unknown") is None


def test_me04_cards_are_matched_by_uuid_not_by_index() -> None:
    nvml = json.loads((CASES / "ME-04" / "nvml.json").read_bytes())
    torch = json.loads((CASES / "ME-04" / "torch.json").read_bytes())
    driver = Nvml(FakeNvml(nvml), [device["uuid"].removeprefix("GPU-") for device in torch])
    assert driver.indices == (2, 0)
    used = [reading.used_bytes for card in (0, 1) if (reading := driver.read(card, {1})) is not None]
    assert used == [7516192768, 536870912]


def test_me04_an_unknown_uuid_is_not_available_and_never_the_same_index() -> None:
    assert match_by_uuid(["GPU-cccc", None], {"GPU-aaaa": 0, "GPU-bbbb": 1}) == (None, None)
    driver = Nvml(FakeNvml([{"uuid": "GPU-aaaa", "used": 1}]), ["GPU-zzzz"])
    assert driver.read(0, {1}) is None
    assert driver.reasons["card"]


def test_conditions_name_other_processes_throttling_and_what_the_card_does_not_tell() -> None:
    card = {"uuid": "GPU-aaaa", "used": 100, "processes": [(7, 60), (8, 40)], "throttle": 0x44}
    conditions = CardConditions(Nvml(FakeNvml([card]), ["GPU-aaaa"]), own_pid=7)
    for _ in range(4):
        conditions.sample()
    values, reasons, shared = conditions.summary()
    assert shared is True
    assert values["card0.own_bytes_most"] == 60
    assert values["card0.energy_joules"] == 15.0
    assert values["card0.throttle_reasons"] == "power cap set by software, temperature (hardware)"
    assert values["card0.power_watts_most"] is None
    assert reasons["card.power_watts"] == "the driver does not tell (NotSupported)"


def test_me06_the_same_peak_in_kibibytes_and_in_bytes() -> None:
    case = json.loads((CASES / "ME-06" / "rusage.json").read_bytes())
    assert [peak_rss_bytes(item["ru_maxrss"], item["platform"]) for item in case] == [25100288, 25100288]


def test_resident_peak_belongs_to_the_pass_and_the_next_pass_does_not_inherit_it() -> None:
    def peak_of_a_pass(megabytes: int) -> int:
        memory = PassMemory(0.01, "cpu", None, None)
        memory.start()
        block = np.ones(megabytes << 17)  # float64
        block += 1
        del block
        _, (peak, before) = memory.stop()
        assert before["counter"] == "VmHWM before the pass"
        assert isinstance(peak["bytes"], int) and "this worker process only" in str(peak["scope"])
        return peak["bytes"]

    large, small = peak_of_a_pass(200), peak_of_a_pass(1)
    assert large - small > 150 << 20


def test_the_sampler_keeps_its_interval_and_both_ends() -> None:
    values = iter(range(1000))
    sampler = Sampler(0.01, lambda: {"resident": next(values)})
    sampler.start()
    timeline = sampler.stop()
    assert len(timeline.samples) >= 2
    assert timeline.samples[0][0] < timeline.samples[-1][0]
    json.dumps(timeline.as_json(), allow_nan=False)
