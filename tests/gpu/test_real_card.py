"""What only a real card shows. `make test-gpu` runs these where one exists (M9, M11, M18, M20, M24, TI-01, ME-01)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.measure.cards import CardConditions  # noqa: E402
from runner.measure.clocks import CudaDevice, PassClock  # noqa: E402
from runner.measure.environment import gpu_facts  # noqa: E402
from runner.measure.memory import CudaCounters  # noqa: E402
from runner.measure.nvml import Nvml, load_nvml  # noqa: E402
from runner.measure.probe import find_devices  # noqa: E402
from tests.measure.test_engines import corpus, differences, job_for, rows, tiny_model, work  # noqa: E402, F401

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no card"),
    # torch warns on a sound card too (its check of waits, TF32 that is off, the compiler's imports): no error here.
    pytest.mark.filterwarnings("default"),
]
_CLOCKS_DIFFER = 1e-3  # the card's events and the host's clock, as a share


def on_card(corpus: Path, **settings: Any) -> Any:  # noqa: F811
    from dataclasses import replace

    return replace(job_for(corpus, **settings), device="cuda")


def test_ti01_the_clock_waits_for_the_card() -> None:
    device = CudaDevice(torch.cuda, (0,))
    matrix = torch.ones((8192, 8192), device="cuda")
    matrix @ matrix
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    clock = PassClock(device)
    begin.record()
    launched = time.monotonic_ns()
    for _ in range(20):
        matrix = (matrix @ matrix) * 1e-9
    end.record()
    launch_seconds = (time.monotonic_ns() - launched) / 1e9
    seconds = clock.stop()
    span = begin.elapsed_time(end) / 1000
    assert seconds >= span * (1 - _CLOCKS_DIFFER) > 0
    assert seconds > launch_seconds, "handing the work over returns before it is done"


def test_me01_peaks_belong_to_their_pass() -> None:
    counters = CudaCounters(torch.cuda, (0,))
    resident = torch.ones(1 << 20, device="cuda")
    counters.reset()
    large = torch.ones(64 << 20, device="cuda")
    first = counters.peaks()["allocated:0"]
    del large
    counters.reset()
    second = counters.peaks()["allocated:0"]
    assert first - second >= 250 << 20
    assert second >= resident.numel() * 4
    assert counters.peaks()["reserved:0"] >= second


def test_me04_the_driver_and_torch_mean_the_same_card() -> None:
    module, reason = load_nvml()
    if module is None:
        pytest.skip(reason or "no NVIDIA driver")
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    nvml = Nvml(module, [uuid])
    assert nvml.indices[0] is not None
    conditions = CardConditions(nvml, os.getpid())
    block = torch.ones(256 << 18, device="cuda")
    conditions.sample()
    conditions.sample()
    values, _, _ = conditions.summary()
    assert values["card0.used_bytes_most"] and int(values["card0.used_bytes_most"]) >= block.numel() * 4


def test_m11_the_probe_names_the_card() -> None:
    found = find_devices()
    assert found.names[0] == gpu_facts(torch, 0)["name"]
    assert len(found.uuid_sha256) == len(found.names)


@pytest.mark.parametrize("settings", [{"batch_size": 8}, {"batch_size": 8, "grouping": "length-sorted"}])
def test_the_default_engine_gives_the_same_labels_on_the_card(corpus: Path, settings: dict[str, Any]) -> None:  # noqa: F811
    here = job_for(corpus, **settings)
    assert work(here)["status"] == "completed"
    wanted = rows(here)
    job = on_card(corpus, **settings)
    result = work(job)
    assert result["status"] == "completed", result["error"]
    assert differences(job, result) == ()
    assert rows(job) == wanted
    assert 0 < result["device_seconds"] <= result["pass_seconds"]
    peaks = {peak["counter"]: peak["bytes"] for peak in result["facts"]["memory"]}
    reserved, whole = peaks["torch.cuda.max_memory_reserved"], peaks["torch.cuda.mem_get_info"]
    assert 0 < peaks["torch.cuda.max_memory_allocated"] <= reserved < whole, (
        "the context is in none of torch's counters"
    )
    kinds = {"math", "flash_attention", "efficient_attention", "cudnn_attention", "overrideable"}
    assert result["facts"]["model"]["sdpa_kernel_padded"] in kinds


def test_out_of_memory_on_the_card_is_named_so(corpus: Path) -> None:  # noqa: F811
    torch.cuda.empty_cache()  # what earlier tests left in the cache would be enough for this one
    share = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + (8 << 20)) / share))
    try:
        result = work(on_card(corpus, batch_size=10, padding="max-length"))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert result["status"] == "out_of_memory", result["error"]
    assert result["error"]["evidence"] == "torch raised OutOfMemoryError"


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_packed_on_the_card_gives_the_labels_of_the_host(corpus: Path, precision: str) -> None:  # noqa: F811
    """Attention of variable length, one kernel for all texts of a batch."""
    here = job_for(corpus, batch_size=4)
    assert work(here)["status"] == "completed"
    wanted = rows(here)
    job = on_card(
        corpus, engine="packed", padding="none", attention="varlen", precision=precision, batch_size=4
    )  # fmt: skip
    result = work(job)
    if torch.version.hip is None and torch.cuda.get_device_capability() < (8, 0):
        assert result["status"] == "unsupported", (
            "the kernel of variable length is for compute capability 8.0 and later"
        )
        return
    assert result["status"] == "completed", result["error"]
    assert differences(job, result) == ()
    assert rows(job) == wanted
    assert result["tokens"]["computed_tokens"] == result["tokens"]["real_tokens"]


def test_int8_on_the_card_is_counted(corpus: Path) -> None:  # noqa: F811
    pytest.importorskip("torchao")
    pytest.importorskip("triton")
    eager = work(on_card(corpus, quantization="int8-torchao", precision="bf16", batch_size=4))
    assert eager["status"] == "unsupported" and "torch.compile" in eager["error"]["message"]
    job = on_card(corpus, quantization="int8-torchao", precision="bf16", batch_size=4, compile="default")
    result = work(job)
    assert result["status"] in ("completed", "unsupported"), result["error"]
    if result["status"] == "completed":
        linear = 6 * 2  # query, key, value, three more per layer; the pooler and the classifier see one row per text
        assert result["facts"]["effective"]["extra"]["quantized_modules"] == linear
        assert differences(job, result) == ()
        assert result["recompilations"] == 0


def test_m18_no_size_of_batch_comes_first_in_the_pass(corpus: Path) -> None:  # noqa: F811
    """cuDNN's attention (compute capability 9.0 and later) builds a plan per size: a second pass is no faster."""
    from dataclasses import replace

    from runner.measure.clocks import Parts
    from runner.measure.engines.transformers import transformers_engine
    from runner.measure.passes import Work
    from tests.measure.test_fetch import Remember

    texts = ["parcel " * words for words in range(2, 66)]
    job = on_card(corpus, batch_size=1, precision="fp16", attention="sdpa")
    engine = transformers_engine(replace(job, warm_up_card_shapes="all", warm_up_card_seconds=0.2), torch)
    engine.warm_up(texts, "longest_and_first", 1)
    seconds = []
    for _ in range(3):
        begin = time.monotonic()
        engine.classify(texts, Remember(), Parts(time.monotonic_ns), Work())
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - begin)
    assert engine.recompilations() == (0, None)
    assert seconds[0] <= 2 * min(seconds) + 0.05, "64 plans would take it more than a second"


def test_m20_the_pass_waits_for_the_card_only_at_its_end(corpus: Path) -> None:  # noqa: F811
    """torch's own check: an operation that makes the host wait raises, except the waiting for events."""
    from runner.measure.clocks import Parts
    from runner.measure.engines.transformers import transformers_engine
    from runner.measure.passes import Work
    from tests.measure.test_engines import TEXTS
    from tests.measure.test_fetch import Remember

    engine = transformers_engine(on_card(corpus, batch_size=4), torch)
    engine.warm_up(TEXTS, "longest_and_first", 1)
    ledger = Remember()
    try:
        torch.cuda.set_sync_debug_mode("error")
        engine.classify(TEXTS * 20, ledger, Parts(time.monotonic_ns), Work())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert ledger.positions == list(range(len(TEXTS) * 20))


def test_m9_fp32_on_the_card_is_fp32(corpus: Path) -> None:  # noqa: F811
    """A product whose TF32 result differs: 10 bits of fraction are not 23."""
    torch.set_float32_matmul_precision("high")  # what images with TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 start with
    result = work(on_card(corpus, batch_size=4))
    assert result["facts"]["effective"]["precision"] == "fp32"
    left = torch.full((64, 64), 1 + 2**-14, device="cuda")
    assert float((left @ torch.eye(64, device="cuda"))[0, 0]) == 1 + 2**-14


def test_the_matrix_rate_is_not_that_of_the_launches() -> None:
    from runner.measure.flops import _product_seconds, matrix_rate

    small = 2 * 1024**3 / _product_seconds(torch, "cuda", torch.float16, 1024)
    assert matrix_rate(torch, "cuda", torch.float16) >= 0.95 * small


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_m18_a_compiled_pass_makes_no_graph(corpus: Path, mode: str) -> None:  # noqa: F811
    """With CUDA graphs too: recorded and replayed before the pass, and their outputs not overwritten in it."""
    pytest.importorskip("triton")
    here = job_for(corpus, batch_size=2)
    assert work(here)["status"] == "completed"
    wanted = rows(here)
    job = on_card(corpus, batch_size=2, padding="multiple-of:64", compile=mode)
    result = work(job)
    assert result["status"] == "completed", result["error"]
    assert differences(job, result) == ()
    assert (result["recompilations"], rows(job)) == (0, wanted)


def test_an_assert_on_the_card_leaves_a_row_and_the_next_attempt_alone(
    corpus: Path, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    """Issue 6, point 6: token ids beyond the embeddings. The card's context is lost, the worker's row is not."""
    from tests.measure.test_several_processes import supervised

    job = on_card(corpus, model=tiny_model(tmp_path / "small", "bert", vocab_size=50), batch_size=4)
    end = supervised(job)
    if end.result is None:
        assert end.signal_name == "SIGABRT", end.stderr_tail
    else:
        assert end.result["status"] == "failed"
        assert "device-side assert" in end.result["error"]["message"], "also where a library of the card noticed first"
    after = supervised(on_card(corpus, batch_size=4))
    assert after.result is not None and after.result["status"] == "completed", after.stderr_tail


def test_conditions_of_the_card_are_read_during_the_pass(corpus: Path) -> None:  # noqa: F811
    """Issue 6, point 8: from the driver, NVIDIA's or AMD's; what is missing has its reason."""
    cards = work(on_card(corpus, batch_size=1))["facts"].get("cards")
    if cards is None or "card.card" in cards["reasons"]:
        pytest.skip("no reader for this card, or it is none of the driver's")
    for name, question in {
        "used_bytes_most": "used_bytes", "sm_mhz_most": "sm_mhz", "temperature_celsius_most": "temperature_celsius",
        "power_watts_most": "power_watts",
    }.items():  # fmt: skip
        assert cards["values"].get(f"card0.{name}") or {f"card.{name}", f"card.{question}"} & set(cards["reasons"]), (
            name
        )
    assert cards["values"]["card0.readings"] >= 0
    assert cards["values"]["card0.allocator_requests"] >= 0
    assert cards["shared"] is not None or cards["reasons"]["card.processes"]


def test_readings_inside_a_pass_of_a_second_tell_of_it() -> None:
    """Issue 6, point 8: at ten a second there are some, and a card that works shows it."""
    module, reason = load_nvml()
    if module is None:
        pytest.skip(reason or "no NVIDIA driver")
    from runner.measure.cards import READ_SECONDS
    from runner.measure.repeat import Repeater

    conditions = CardConditions(Nvml(module, [str(torch.cuda.get_device_properties(0).uuid)]), os.getpid())
    matrix = torch.ones((4096, 4096), device="cuda", dtype=torch.float16)
    repeater = Repeater("cards", READ_SECONDS, conditions.sample, conditions.sample_all)
    repeater.start()
    begin = time.monotonic()
    while time.monotonic() - begin < 1.5:
        matrix @ matrix
        torch.cuda.synchronize()
    repeater.stop()
    values, reasons, _ = conditions.summary()
    if "card.card" in reasons:
        pytest.skip(reasons["card.card"])
    assert int(values["card0.readings"] or 0) >= 5
    assert values["card0.busy_percent_mean"] is None or float(values["card0.busy_percent_mean"]) > 50


def test_m11_a_rented_card_is_found_by_its_name(tmp_path: Path) -> None:
    """A name without tariff: its own words; with a variable for debugging nothing is looked for."""
    from runner.errors import InputRefused
    from runner.measure.devices import look_for

    name = gpu_facts(torch, 0)["name"]
    tariffs = tmp_path / "tariffs.csv"
    tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    declared = "-".join(part for part in "".join(c if c.isalnum() else " " for c in name.lower()).split())
    alike = len(set(find_devices().names)) == 1
    assert look_for(declared, 1, tariffs).torch_device == ("cuda" if alike else None)
    with pytest.raises(InputRefused):
        look_for(declared, 1, tariffs, environment={"CUDA_LAUNCH_BLOCKING": "1"})


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one card only")
def test_m26_two_cards_share_the_corpus(corpus: Path) -> None:  # noqa: F811
    from tests.measure.test_several_processes import supervised

    here = job_for(corpus, batch_size=2)
    assert work(here)["status"] == "completed"
    wanted = rows(here)
    job = on_card(corpus, batch_size=2, devices=2)
    end = supervised(job)
    assert end.result is not None, end.stderr_tail
    assert end.result["status"] == "completed", end.result["error"]
    assert rows(job) == wanted
    effective = end.result["facts"]["effective"]
    assert (effective["devices"], effective["extra"]["distributed_backend"]) == (2, "nccl")
    assert {"cuda:0", "cuda:1"} <= {peak["device"] for peak in end.result["facts"]["memory"]}


def test_the_share_of_the_pass_that_the_card_is_busy_is_measured() -> None:
    """Issue 6, `device_busy_share`: BERT-base, bf16, batch 8. Whether the goal is reached is the bench's business."""
    from benchmarks.card import device_busy

    (figure,) = device_busy()
    assert (figure.name, figure.goal, figure.n) == ("device_busy_share", ">= 0.95", 5)
    assert 0 < figure.minimum <= figure.value <= figure.maximum <= 1
