"""Engine `onnxruntime` (extra `onnx`): the model exported to an ONNX graph when it is loaded, run on the CPU.

The same batches, order and padding as the default engine, another library for the arithmetic. The graph is made
from the checked model folder in the attempt itself, never taken from elsewhere, and compared with
the model: a graph that differs is not used. What is in effect is read from the graph and the session.
"""

from __future__ import annotations

import importlib
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from runner.measure.engines.batched import BatchedEngine
from runner.measure.engines.loading import LoadedModel, load_model
from runner.measure.engines.tokenizing import Tokens, padded_width
from runner.measure.engines.transformers import fill
from runner.measure.job import Job, Unsupported
from runner.measure.passes import Work

_OPSET = 17
_TOLERANCE = 2e-4
_PROBE_WIDTHS = (7, 19)
_PROVIDER = "CPUExecutionProvider"
_FLOAT, _FLOAT16 = 1, 10  # onnx.TensorProto.DataType
_QUANTIZED = frozenset({"MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul"})


def onnx_engine(job: Job, torch: Any) -> BatchedEngine:
    """Load, export, compare. Raises `Unsupported` for what this engine or the installation cannot do."""
    settings = job.settings
    _refuse(job)
    onnx, runtime = _libraries()
    loaded = load_model(job.model, settings | {"quantization": "none"}, "cpu", torch)
    with tempfile.TemporaryDirectory(prefix="runner-onnx-") as folder:
        graph = Path(folder) / "model.onnx"
        _export(loaded, graph, torch)
        _compare(_session(runtime, graph, 1), loaded, torch)
        if settings["quantization"] == "int8-dynamic":
            graph = _quantized(graph)
        threads = settings["threads"] or torch.get_num_threads()
        session = _session(runtime, graph, threads)
        effective = _effective(onnx.load(str(graph), load_external_data=False), session)
    forward = OnnxForward(session, loaded, settings, torch, effective)
    loaded.model.to("meta")  # the session has its own copy of the weights
    return BatchedEngine(job, torch, loaded, forward)


def _refuse(job: Job) -> None:
    settings = job.settings
    for unsupported, words in (
        (job.device != "cpu", "engine onnxruntime runs on the CPU only"),
        (settings["precision"] != "fp32", f"engine onnxruntime computes in fp32, not {settings['precision']}"),
        (settings["attention"] != "eager", 'engine onnxruntime computes attention as plain products: declare attention '
                                           '= "eager"'),
        (settings["compile"] != "none", "engine onnxruntime does not use torch.compile"),
        (settings["quantization"] not in ("none", "int8-dynamic"),
         f"quantization {settings['quantization']!r} is not known: use none or int8-dynamic"),
    ):  # fmt: skip
        if unsupported:
            raise Unsupported(words)


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise Unsupported(
            f'engine onnxruntime is not installed ({error.name}): make setup EXTRAS="measure onnx"'
        ) from None
    return onnx, onnxruntime


def _input_names(loaded: LoadedModel) -> list[str]:
    return ["input_ids", "attention_mask"] + (["token_type_ids"] if loaded.tokenising.with_types else [])


def _export(loaded: LoadedModel, graph: Path, torch: Any) -> None:
    """One graph for every number of texts and every width."""
    names = _input_names(loaded)

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = loaded.model

        def forward(self, *inputs: Any) -> Any:
            return self.model(**dict(zip(names, inputs, strict=True))).logits

    ids = torch.full((2, _PROBE_WIDTHS[0]), 5)
    mask = torch.ones_like(ids)
    mask[1, 3:] = 0  # a padded text: the library leaves out the mask of a batch without padding
    inputs = (ids, mask, torch.zeros_like(ids))[: len(names)]
    shape = {0: "texts", 1: "width"}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Logits().eval(), inputs, str(graph), input_names=names, output_names=["logits"], opset_version=_OPSET,
                dynamic_axes=dict.fromkeys(names, shape) | {"logits": {0: "texts"}}, dynamo=False,
            )  # fmt: skip
    except Exception as error:  # whatever the exporter cannot do is an answer
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise Unsupported(f"this model cannot be exported to ONNX: {first}") from error


def _session(runtime: Any, graph: Path, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Idle threads sleep, as OpenMP's do in every worker.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return runtime.InferenceSession(str(graph), options, providers=[_PROVIDER])


def _compare(session: Any, loaded: LoadedModel, torch: Any) -> None:
    """The graph against the model, on widths that the export did not see."""
    generator = np.random.default_rng(0)
    for width in _PROBE_WIDTHS:
        ids = generator.integers(5, loaded.model.config.vocab_size, (3, width))
        mask = np.ones_like(ids)
        mask[1, width // 2 :] = 0
        arrays = dict(zip(_input_names(loaded), (ids, mask, np.zeros_like(ids)), strict=False))
        with torch.inference_mode():
            wanted = loaded.model(**{name: torch.from_numpy(array) for name, array in arrays.items()}).logits.numpy()
        difference = float(np.abs(session.run(["logits"], arrays)[0] - wanted).max())
        if not difference <= _TOLERANCE:
            raise Unsupported(f"the ONNX graph differs from this model by {difference:.2g} in its outputs: not used")


def _quantized(graph: Path) -> Path:
    """Weights of matrix products as int8, activations when they are computed."""
    quantization: Any = importlib.import_module("onnxruntime.quantization")
    small = graph.with_name("int8.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantization.quantize_dynamic(
            str(graph), str(small), weight_type=quantization.QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"]
        )
    return small


def _effective(model: Any, session: Any) -> dict[str, Any]:
    """Read from the graph that runs and from its session."""
    kinds = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims) > 1}
    quantized = sum(node.op_type in _QUANTIZED for node in model.graph.node)
    names = sorted({_FLOAT: "fp32", _FLOAT16: "fp16"}[kind] for kind in kinds & {_FLOAT, _FLOAT16})
    extra: dict[str, Any] = {"provider": session.get_providers()[0]}
    if quantized:
        extra["quantized_modules"] = quantized
    return {
        "engine": "onnxruntime",
        "precision": names[0] if len(names) == 1 else "mixed: " + " + ".join(names),
        "quantization": "int8-dynamic" if quantized else "none",
        "attention": "eager" if any(node.op_type == "Softmax" for node in model.graph.node) else None,
        "threads": session.get_session_options().intra_op_num_threads,
        "extra": extra,
    }


class OnnxForward:
    """Rectangles of token ids as numpy arrays; outputs as a tensor on the host."""

    first_token_only = False

    def __init__(
        self, session: Any, loaded: LoadedModel, settings: dict[str, Any], torch: Any, effective: dict[str, Any]
    ) -> None:
        self._session = session
        self._tokenising = loaded.tokenising
        self._names = _input_names(loaded)
        self._padding: str = settings["padding"]
        self._torch = torch
        padded_width(1, self._padding, 1)  # an unknown padding is refused before any work
        self.effective = effective

    def inputs(self, tokens: Tokens, work: Work) -> dict[str, Any]:
        rows = tokens.ids
        width = padded_width(max(map(len, rows)), self._padding, self._tokenising.max_length)
        work.computed_tokens += width * len(rows)
        work.rectangles.append((len(rows), width))
        arrays = {name: np.empty((len(rows), width), dtype=np.int64) for name in self._names}
        fill(arrays, tokens, width, self._tokenising, self._padding)
        return arrays

    def shape(self, inputs: dict[str, Any]) -> tuple[object, ...]:
        shape: tuple[object, ...] = inputs["input_ids"].shape
        return shape

    def logits(self, inputs: dict[str, Any]) -> Any:
        return self._torch.from_numpy(self._session.run(["logits"], inputs)[0])
