"""Operations of the real tokens against the matrix rate: how far from what the hardware can do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runner.measure.flops import EncoderShape, executed_flops, matrix_rate, real_flops
from runner.measure.telemetry import Conditions, with_efficiency

BERT_BASE = SimpleNamespace(
    model_type="bert", num_hidden_layers=12, hidden_size=768, intermediate_size=3072, num_labels=2
)


def test_a_layer_is_counted_as_its_matrix_products() -> None:
    shape = EncoderShape(layers=1, width=4, inner=8, outputs=2)
    by_hand = 10 * 2 * (4 * 4 * 4) + 10 * 2 * (2 * 4 * 8) + 2 * (2 * 10 * 10 * 4) + 2 * (4 * 4 + 4 * 2)
    assert shape.forward(1, 10) == by_hand


def test_torch_counts_the_same_products() -> None:
    torch = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=3,
        attn_implementation="eager",
    )
    model = transformers.BertForSequenceClassification(config).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.ones((3, 17), dtype=torch.long))
    shape = EncoderShape.of(config)
    assert shape is not None and counter.get_total_flops() == shape.forward(3, 17)


def test_padding_costs_and_skipping_saves() -> None:
    shape = EncoderShape.of(BERT_BASE)
    assert shape is not None
    real = real_flops(shape, [10, 100])
    assert executed_flops(shape, [(2, 100)], first_token_only=False) > real
    assert executed_flops(shape, [(1, 10), (1, 100)], first_token_only=False) == real
    assert executed_flops(shape, [(1, 10), (1, 100)], first_token_only=True) < real


def test_unknown_families_are_null_with_a_reason() -> None:
    assert EncoderShape.of(SimpleNamespace(model_type="gpt2")) is None
    blank = Conditions({}, {}, None, None)
    found = with_efficiency(
        blank,
        {
            "efficiency": {
                "flops_real": None,
                "flops_executed": None,
                "flops_reason": "gpt2",
                "matrix_flops_rate": 1e9,
            },
            "pass_seconds": 1.0,
        },
        None,
    )
    assert found.values["utilisation_real"] is None
    assert found.reasons["utilisation_real"] == "gpt2"


def test_the_rate_of_an_earlier_attempt_is_used() -> None:
    blank = Conditions({}, {}, None, None)
    counted = {"flops_real": 10.0, "flops_executed": 40.0, "matrix_flops_rate": None}
    result = {"efficiency": counted, "pass_seconds": 2.0}
    found = with_efficiency(blank, result, 50.0)
    assert (found.values["utilisation_real"], found.values["utilisation_executed"]) == (0.1, 0.4)
    assert with_efficiency(blank, result, None).values["utilisation_real"] is None


@pytest.mark.parametrize(("own", "earlier", "used"), [(40.0, 50.0, 50.0), (80.0, 50.0, 80.0), (None, 50.0, 50.0)])
def test_the_fastest_rate_of_the_campaign_counts_and_is_recorded(
    own: float | None, earlier: float, used: float
) -> None:
    """Issue 6, point 5: a rate taken while others computed makes a pass look better than the device allows."""
    counted = {"flops_real": 10.0, "flops_executed": 40.0, "matrix_flops_rate": own}
    result = {"efficiency": counted, "pass_seconds": 2.0}
    values = with_efficiency(Conditions({}, {}, None, None), result, earlier).values
    assert (values["matrix_flops_rate"], values["matrix_flops_rate_used"]) == (own, used)
    assert values["utilisation_executed"] == round(40.0 / 2.0 / used, 4)


def test_a_share_above_one_is_no_share() -> None:
    """A rate measured beside other programs is no rate of the device: unknown with a reason, never 1.3."""
    found = Conditions({}, {}, None, None)
    result = {"pass_seconds": 1.0, "efficiency": {"flops_real": 50, "flops_executed": 130, "matrix_flops_rate": 100.0}}
    told = with_efficiency(found, result, None)
    assert told.values["utilisation_real"] == 0.5
    assert told.values["utilisation_executed"] is None
    assert "faster than the matrix product" in told.reasons["utilisation_executed"]


class LaunchBound:
    """A large card: every product takes 5 us to launch, and 1 ns per million operations."""

    sides: list[int] = []  # noqa: RUF012 - of one test
    memory_for = 1 << 20

    def __init__(self, _: str, globals: dict[str, object], num_threads: int, **more: object) -> None:
        self._side = len(globals["left"])  # type: ignore[arg-type]

    def blocked_autorange(self, min_run_time: float) -> SimpleNamespace:
        import torch

        if self._side > self.memory_for:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.sides.append(self._side)
        return SimpleNamespace(times=[max(5e-6, 2 * self._side**3 / 1e15)])


@pytest.mark.parametrize(("memory_for", "sides"), [(1 << 20, [1024, 2048, 4096, 8192]), (2048, [1024, 2048])])
def test_the_matrix_rate_of_a_large_card_is_not_that_of_its_launches(
    monkeypatch: pytest.MonkeyPatch, memory_for: int, sides: list[int]
) -> None:
    """Issue 6, point 5: at 1024 a product of 2 us would be measured as 5: the rate less than half, the use doubled."""
    torch = pytest.importorskip("torch")
    benchmark = pytest.importorskip("torch.utils.benchmark")
    monkeypatch.setattr(benchmark, "Timer", LaunchBound)
    monkeypatch.setattr(torch, "randn", lambda size, **_: torch.empty(size, dtype=torch.float16))
    monkeypatch.setattr(LaunchBound, "sides", [])
    monkeypatch.setattr(LaunchBound, "memory_for", memory_for)
    assert matrix_rate(torch, "cpu", torch.float16) == pytest.approx(1e15)
    assert LaunchBound.sides == sides


def test_no_memory_for_the_matrix_rate_ends_no_completed_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    benchmark = pytest.importorskip("torch.utils.benchmark")
    monkeypatch.setattr(benchmark, "Timer", LaunchBound)
    monkeypatch.setattr(LaunchBound, "memory_for", 0)
    with pytest.raises(torch.OutOfMemoryError):
        matrix_rate(torch, "cpu", torch.float32)
    counted = {"flops_real": 10.0, "flops_executed": 40.0, "matrix_flops_rate": None, "matrix_rate_reason": "no room"}
    found = with_efficiency(Conditions({}, {}, None, None), {"efficiency": counted, "pass_seconds": 2.0}, None)
    assert found.reasons["matrix_flops_rate"] == "no room"
    assert "matrix_rate_reason" not in found.values


def test_the_matrix_rate_is_that_of_the_fastest_block(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    benchmark = pytest.importorskip("torch.utils.benchmark")

    class Timer:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def blocked_autorange(self, min_run_time: float) -> SimpleNamespace:
            return SimpleNamespace(times=[4.0, 2.0, 8.0])

    monkeypatch.setattr(benchmark, "Timer", Timer)
    assert matrix_rate(torch, "cpu", torch.float32) == 2 * 1024**3 / 2.0
