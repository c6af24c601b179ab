"""What a card does with what a variant asks for: fp32, CUDA graphs, int8, memory (M9, M16, M18, RE-01, TI-02)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.measure.engines.batched import BatchedEngine  # noqa: E402
from runner.measure.engines.compiled import CompiledForward  # noqa: E402
from runner.measure.engines.loading import effective_precision, load_model, quantized  # noqa: E402
from runner.measure.engines.transformers import PaddedForward  # noqa: E402
from runner.measure.job import Unsupported  # noqa: E402
from runner.measure.oom import memory_evidence  # noqa: E402
from tests.measure.fake_cuda import FakeStream, card_torch  # noqa: E402
from tests.measure.test_engines import TEXTS, corpus, differences, job_for, work  # noqa: E402, F401


@pytest.fixture
def own_precision() -> Iterator[None]:
    """Products and convolutions of fp32 as they were before the test."""
    convolutions = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False  # as a worker has it
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = convolutions


class TestFp32:
    """M9: `NVIDIA`'s images ask for TF32 by a variable; a pass in TF32 is no pass in fp32."""

    def test_an_image_that_asks_for_tf32_is_not_followed(self, corpus: Path, own_precision: None) -> None:  # noqa: F811
        torch.set_float32_matmul_precision("high")  # what TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 sets at the start
        job = job_for(corpus)
        result = work(job)
        assert torch.get_float32_matmul_precision() == "highest"
        assert differences(job, result) == ()

    def test_a_process_for_several_attempts_starts_with_fp32(self, own_precision: None) -> None:
        """M21: it would otherwise find itself changed after its first attempt, and be ended for it."""
        from runner.measure.kits import TorchKit

        torch.set_float32_matmul_precision("high")
        TorchKit().imports()
        assert torch.get_float32_matmul_precision() == "highest"

    def test_convolutions_of_fp32_are_fp32_too(self, own_precision: None) -> None:
        """torch's own default lets cuDNN shorten them (SqueezeBERT, ConvBERT, DeBERTa have some)."""
        from runner.measure.kits import TorchKit

        torch.backends.cudnn.allow_tf32 = True
        assert effective_precision(torch.nn.Linear(2, 2), torch) == "fp32 computed as tf32 or bf16"
        TorchKit().imports()
        assert not torch.backends.cudnn.allow_tf32
        assert effective_precision(torch.nn.Linear(2, 2), torch) == "fp32"

    @pytest.mark.parametrize(("variable", "precision"), [("0", "fp32"), ("1", "fp32 computed as what")])
    def test_what_nvidias_libraries_read_over_torchs_head_is_not_passed_over(
        self, own_precision: None, monkeypatch: pytest.MonkeyPatch, variable: str, precision: str
    ) -> None:
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", variable)
        assert effective_precision(torch.nn.Linear(2, 2), torch).startswith(precision)

    @pytest.mark.parametrize("api", ["legacy", "new", "mixed"])
    def test_mo15_fp32_that_is_computed_shorter_is_not_called_fp32(self, own_precision: None, api: str) -> None:
        """Also where torch refuses to answer, because code used the old and the new way to ask for it."""
        model = torch.nn.Linear(2, 2)
        assert effective_precision(model, torch) == "fp32"
        if api == "legacy":
            torch.backends.cuda.matmul.allow_tf32 = True
        elif api == "mixed":
            torch.backends.cuda.matmul.fp32_precision = "tf32"
            with pytest.raises(RuntimeError):
                torch.get_float32_matmul_precision()
        else:
            torch.set_float32_matmul_precision("high")
        assert effective_precision(model, torch).startswith("fp32 computed as")
        assert effective_precision(model.bfloat16(), torch) == "bf16"


class FakeReplay:
    """`torch.compile` in a mode with CUDA graphs, as `cudagraph_trees` does it: per shape one call that warms up,
    one that records (and tells torch's callbacks), then replays. One graph of dynamo for all shapes."""

    def __init__(self, model: Any, mode: str | None, dynamic: bool, records: bool = True) -> None:
        self._model, self._records, self.config, self.dtype = model, records, model.config, model.dtype
        self.calls: dict[tuple[int, ...], int] = {}

    def __call__(self, **inputs: Any) -> Any:
        from torch._dynamo.callback import CallbackTrigger, callback_handler
        from torch._dynamo.utils import counters

        shape = tuple(inputs["input_ids"].shape)
        if not self.calls:
            counters["stats"]["unique_graphs"] += 1
        self.calls[shape] = self.calls.get(shape, 0) + 1
        if self.calls[shape] == 2 and self._records:
            with callback_handler.install_callbacks(CallbackTrigger.CUDAGRAPH_RECORDING, "0/0"):
                return self._model(**inputs)
        return self._model(**inputs)


class TestGraphsOfTheCard:
    """M18, TI-02: a graph recorded inside the pass waits for the card twice, and dynamo does not count it."""

    @staticmethod
    def engine(corpus: Path, monkeypatch: pytest.MonkeyPatch, mode: str, records: bool = True) -> BatchedEngine:  # noqa: F811
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "restored afterwards")
        monkeypatch.setenv("TRITON_CACHE_DIR", "restored afterwards")
        monkeypatch.setattr(torch, "compile", lambda model, mode, dynamic: FakeReplay(model, mode, dynamic, records))
        job = replace(job_for(corpus, batch_size=4, compile=mode), device="cuda")
        loaded = load_model(job.model, job.settings, "cpu", torch)
        card = card_torch(torch, FakeStream())
        return BatchedEngine(job, card, loaded, CompiledForward(loaded.model, loaded.tokenising, job, card))

    @pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
    def test_every_known_shape_is_replayed_before_the_pass(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch, mode: str  # noqa: F811
    ) -> None:  # fmt: skip
        from runner.measure.clocks import Parts
        from runner.measure.passes import Work
        from tests.measure.test_fetch import Remember

        engine = self.engine(corpus, monkeypatch, mode)
        engine.compile(TEXTS)
        forward: Any = engine._forward
        assert set(forward._model.calls.values()) == {3}, "warmed up, recorded, replayed"
        assert engine.missing_shapes(TEXTS) == ()
        engine.classify(TEXTS, Remember(), Parts(lambda: 0), Work())
        assert engine.recompilations() == (0, None)
        assert engine.loaded.effective["compile"] == mode

    def test_ti02_a_new_width_in_the_pass_counts_like_a_recompilation(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        from runner.measure.clocks import Parts
        from runner.measure.passes import Work
        from tests.measure.test_fetch import Remember

        engine = self.engine(corpus, monkeypatch, "reduce-overhead")
        engine.compile(TEXTS[:4])
        assert engine.missing_shapes(TEXTS)
        engine.classify(TEXTS, Remember(), Parts(lambda: 0), Work())
        count, reason = engine.recompilations()
        assert count == len(engine.missing_shapes(TEXTS)) == 2
        assert reason is not None and "2 compilation(s) in the timed part, shape 4×" in reason

    def test_ti02_a_graph_recorded_again_in_the_pass_counts_too(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        """torch records anew where it cannot replay: other strides, an output that is still in use."""
        from runner.measure.clocks import Parts
        from runner.measure.passes import Work
        from tests.measure.test_fetch import Remember

        engine = self.engine(corpus, monkeypatch, "reduce-overhead")
        engine.compile(TEXTS)
        forward: Any = engine._forward
        shape = next(iter(forward._model.calls))
        forward._model.calls[shape] = 1
        engine.classify(TEXTS, Remember(), Parts(lambda: 0), Work())
        count, reason = engine.recompilations()
        assert count == 1
        assert reason is not None and f"shape {shape[0]}×{shape[1]}" in reason

    @pytest.mark.parametrize(
        ("mode", "left"), [("reduce-overhead", "default"), ("max-autotune", "max-autotune-no-cudagraphs")]
    )
    def test_mo15_graphs_that_torch_skipped_are_not_said_to_be_used(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch, mode: str, left: str  # noqa: F811
    ) -> None:  # fmt: skip
        engine = self.engine(corpus, monkeypatch, mode, records=False)
        engine.compile(TEXTS)
        assert engine.loaded.effective["compile"] == left

    @pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
    def test_m16_graphs_of_a_card_are_unsupported_on_the_cpu(self, corpus: Path, mode: str) -> None:  # noqa: F811
        result = work(job_for(corpus, compile=mode))
        assert result["status"] == "unsupported"
        assert "graphs of a card: on the CPU declare" in result["error"]["message"]


class TestErrorsOfACard:
    """Issue 6, point 6: the row names the cause, also where a library noticed the card's error first."""

    def classified(self, monkeypatch: pytest.MonkeyPatch, error: Exception, then: Exception | None) -> str:
        from runner.measure.failures import classified

        def synchronize() -> None:
            if then is not None:
                raise then

        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
        return str(classified(error, None)["error"]["message"])

    def test_the_assert_behind_a_librarys_status(self, monkeypatch: pytest.MonkeyPatch) -> None:
        noticed = RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`")
        cause = RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later")
        message = self.classified(monkeypatch, noticed, cause)
        assert message == f"{noticed}; the card's own error: CUDA error: device-side assert triggered"

    def test_nothing_is_added_twice_or_of_a_card_that_is_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        error = RuntimeError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")
        assert self.classified(monkeypatch, error, error) == str(error)
        assert self.classified(monkeypatch, ValueError("x"), None) == "x"


class TestMemoryRanOut:
    """RE-01: `out_of_memory` where, and only where, something proves it."""

    @pytest.mark.parametrize(
        ("error", "evidence"),
        [
            (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "torch raised OutOfMemoryError"),
            (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"), "CUDA error: out of memory"),
            (RuntimeError("HIP error: out of memory"), "HIP error: out of memory"),
            (RuntimeError("Triton Error [CUDA]: out of memory"), "Triton Error"),
            (RuntimeError("ncclUnhandledCudaError ... Last error:\nCuda failure 2 'out of memory'"), "Cuda failure 2"),
            (MemoryError(), "Python raised MemoryError"),
            (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), "CPU alloc"),
            (RuntimeError("CUDA error: device-side assert triggered"), None),
            (RuntimeError("out of resource: shared memory"), None),
        ],
    )
    def test_what_an_error_says(self, error: Exception, evidence: str | None) -> None:
        found = memory_evidence(error)
        assert (found is None) is (evidence is None)
        assert evidence is None or evidence in str(found)

    @pytest.mark.parametrize(("free", "proved"), [(1 << 20, True), (8 << 30, False), (None, False)])
    def test_a_library_that_could_not_allocate_proves_it_only_where_little_is_left(
        self, monkeypatch: pytest.MonkeyPatch, free: int | None, proved: bool
    ) -> None:
        """cuBLAS says CUBLAS_STATUS_ALLOC_FAILED after a device-side assert too, when the card answers nothing."""

        def mem_get_info() -> tuple[int, int]:
            if free is None:
                raise RuntimeError("CUDA error: device-side assert triggered")
            return free, 80 << 30

        monkeypatch.setattr(torch.cuda, "mem_get_info", mem_get_info)
        error = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
        assert (memory_evidence(error) is not None) is proved

    def test_memory_that_runs_out_while_compiling_is_not_unsupported(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        """The compiler wraps the error of its autotuning; it would otherwise pass for a build that cannot compile."""
        from torch._inductor.exc import InductorError

        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "restored afterwards")
        monkeypatch.setenv("TRITON_CACHE_DIR", "restored afterwards")
        outcomes = {}
        for name, cause in {
            "memory": torch.OutOfMemoryError("CUDA out of memory."),
            "other": OSError("no g++"),
        }.items():

            def broken(model: Any, mode: Any, dynamic: bool, cause: Exception = cause) -> Any:
                def call(**inputs: Any) -> Any:
                    raise InductorError(cause, None)

                return call

            monkeypatch.setattr(torch, "compile", broken)
            outcomes[name] = work(job_for(corpus, compile="default"))
        assert outcomes["memory"]["status"] == "out_of_memory"
        assert outcomes["memory"]["error"]["evidence"] == "torch raised OutOfMemoryError"
        assert outcomes["other"]["status"] == "unsupported"


class TestFlashAttention:
    """M16: what the library only warns of, and what a kernel refuses, is unsupported and no failed attempt."""

    @staticmethod
    def card(capability: tuple[int, int]) -> Any:
        cuda = SimpleNamespace(get_device_capability=lambda: capability)
        return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None))

    @pytest.mark.parametrize(
        ("precision", "capability", "words"),
        [
            ("fp32", (9, 0), "fp16 or bf16 only"),
            ("fp16", (7, 5), "needs compute capability 8.0 or later, not 7.5"),
            ("fp16", (8, 0), None),
        ],
    )
    @pytest.mark.parametrize("attention", ["flash_attention_2", "flash_attention_3"])
    def test_refused_before_loading(
        self, attention: str, precision: str, capability: tuple[int, int], words: str | None
    ) -> None:
        from runner.measure.engines.loading import refuse_attention

        refuse_attention("sdpa", precision, "cuda", self.card(capability))
        if words is None:
            refuse_attention(attention, precision, "cuda", self.card(capability))
            return
        with pytest.raises(Unsupported, match=words):
            refuse_attention(attention, precision, "cuda", self.card(capability))

    def test_fp32_is_refused_by_the_engine_itself(self, corpus: Path) -> None:  # noqa: F811
        result = work(job_for(corpus, attention="flash_attention_2", precision="fp32"))
        assert (result["status"], result["completed"]) == ("unsupported", 0)
        assert "fp16 or bf16 only" in result["error"]["message"]

    @pytest.mark.parametrize(
        ("raised", "expected"),
        [
            (RuntimeError("FlashAttention only supports Ampere GPUs or newer."), Unsupported),
            (torch.OutOfMemoryError("CUDA out of memory."), torch.OutOfMemoryError),
        ],
    )
    def test_a_kernel_that_refuses_one_batch_is_an_answer(
        self, corpus: Path, raised: Exception, expected: type[Exception]  # noqa: F811
    ) -> None:  # fmt: skip
        from runner.measure.engines.loading import _try_attention

        job = job_for(corpus)
        model = load_model(job.model, job.settings, "cpu", torch).model
        _try_attention(model, "flash_attention_2", "cpu", torch)

        def kernel(*_: object, **__: object) -> None:
            raise raised

        model.bert.encoder.layer[0].attention.self.forward = kernel
        with pytest.raises(expected):
            _try_attention(model, "flash_attention_2", "cpu", torch)


class TestPacked:
    """Half precision rounds in proportion: outputs of 14 differ by more than outputs of 1, of the same model."""

    @staticmethod
    def compared(largest: float, difference: float) -> None:
        from runner.measure.engines.packed import _compare

        wanted = torch.linspace(-largest, largest, 4)[None]
        packed: Any = SimpleNamespace(
            device="cpu", pack=lambda rows, lengths: None, logits=lambda pack: wanted.repeat(4, 1) + difference
        )

        class Model:
            config = SimpleNamespace(vocab_size=100)

            def __call__(self, input_ids: Any) -> Any:
                return SimpleNamespace(logits=wanted)

        _compare(packed, Model(), "bf16")

    def test_m15_rounding_is_no_difference_and_a_difference_is_none_of_rounding(self) -> None:
        self.compared(14.0, 0.22)  # BERT-base with the head of a trained model, bf16 (measured)
        with pytest.raises(Unsupported, match="differs from this model"):
            self.compared(1.0, 0.22)
        with pytest.raises(Unsupported, match="differs from this model"):
            self.compared(14.0, 1.5)


class TestSeveralCards:
    """M26: NCCL needs shared memory; a container often has too little, and its own words do not say what to do."""

    def test_cards_that_cannot_be_connected_say_what_to_do(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        from torch import distributed

        from runner.measure.job import AttemptFailed
        from runner.measure.team import Team

        def barrier(device_ids: Any = None) -> None:
            raise distributed.DistBackendError(
                "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO)\n"
                "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
                "Last error:\nError while creating shared memory segment /dev/shm/nccl-a1b2c3 (size 9637888)"
            )

        monkeypatch.setattr(distributed, "init_process_group", lambda *_, **__: None)
        monkeypatch.setattr(distributed, "all_gather_object", lambda found, value: found.__setitem__(0, value))
        monkeypatch.setattr(distributed, "barrier", barrier)
        team = Team(0, 1, 0, 0, 1)
        with pytest.raises(AttemptFailed, match="--shm-size=1g") as failed:
            team.join(replace(job_for(corpus, devices=2), device="cuda"))
        assert "creating shared memory segment" in str(failed.value)


class TestInt8OnACard:
    """Issue 6, point 4; M16: what torchao computes otherwise on a card is neither counted as int8 nor measured."""

    @staticmethod
    def torchao(monkeypatch: pytest.MonkeyPatch, quantize_: Any) -> None:
        stand_in: Any = ModuleType("torchao.quantization")
        stand_in.quantize_, stand_in.Int8DynamicActivationInt8WeightConfig = quantize_, SimpleNamespace
        monkeypatch.setitem(sys.modules, "torchao", ModuleType("torchao"))
        monkeypatch.setitem(sys.modules, "torchao.quantization", stand_in)

    def test_layers_that_its_kernel_does_not_take_stay_as_they_are(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        """Sizes that are no multiples of 8 go to the host; one row per text is too few for its product."""
        chosen: list[str] = []

        def quantize_(model: Any, config: object, filter_fn: Any) -> None:
            chosen.extend(name for name, module in model.named_modules() if filter_fn(module, name))

        job = job_for(corpus, compile="default")
        model = load_model(job.model, job.settings, "cpu", torch).model
        self.torchao(monkeypatch, quantize_)
        linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
        quantized(model, "int8-torchao", "cpu", torch)
        assert chosen == linear
        chosen.clear()
        monkeypatch.setattr(torch, "full", as_on_a_card(torch.full))
        quantized(model, "int8-torchao", "cuda", torch, compiled=True)
        assert set(linear) - set(chosen) == {"bert.pooler.dense", "classifier"}

    def test_without_the_compiler_it_is_unsupported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """torchao asks `"FakeTensor" in input.__repr__()`: the numbers of every input come to the host."""
        self.torchao(monkeypatch, lambda *_, **__: pytest.fail("quantised all the same"))
        with pytest.raises(Unsupported, match='declare compile = "default"'):
            quantized(torch.nn.Linear(8, 8), "int8-torchao", "cuda", torch)

    def test_too_few_rows_are_unsupported_and_not_a_failure(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        """`_int_mm` of a card refuses 16 rows and fewer: a batch of one short text."""
        job = replace(
            job_for(corpus, batch_size=1, quantization="int8-torchao"), device="cuda", warm_up_card_shapes="all"
        )
        loaded = load_model(job.model, job.settings | {"quantization": "none"}, "cpu", torch)
        card = card_torch(torch, FakeStream())
        forward = PaddedForward(loaded.model, loaded.tokenising, job, card)
        compute = forward.logits

        def logits(inputs: dict[str, Any]) -> Any:
            rows = inputs["input_ids"].numel()
            if rows <= 16:
                raise RuntimeError(f"self.size(0) needs to be greater than 16, but got {rows}")
            return compute(inputs)

        forward.logits = logits  # type: ignore[method-assign]
        engine = BatchedEngine(job, card, loaded, forward)
        with pytest.raises(Unsupported, match="more than 16 tokens"):
            engine.warm_up(TEXTS, "longest_and_first", 1)

    @pytest.mark.parametrize(("raised", "caught"), [(torch.OutOfMemoryError, None), (NotImplementedError, Unsupported)])
    def test_memory_that_runs_out_while_quantising_is_not_unsupported(
        self, monkeypatch: pytest.MonkeyPatch, raised: type[Exception], caught: type[Exception] | None
    ) -> None:
        def quantize_(*_: object, **__: object) -> None:
            raise raised("CUDA out of memory.")

        self.torchao(monkeypatch, quantize_)
        with pytest.raises(caught or raised):
            quantized(torch.nn.Linear(8, 8), "int8-torchao", "cpu", torch)


def as_on_a_card(full: Any) -> Any:
    """`torch.full` of a machine with a card; here the host's memory takes its place."""

    def made(shape: Any, value: Any, device: str = "cpu") -> Any:
        return full(shape, value)

    return made
