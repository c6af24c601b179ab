"""Engine `onnxruntime`: same batches and answers, settings read from the graph and the session (M15, M16, MO-15)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from runner.measure.engines import onnx_runtime  # noqa: E402
from tests.measure.test_engines import corpus, differences, job_for, logits, rows, tiny_model, work  # noqa: E402, F401

ONNX: dict[str, Any] = {"engine": "onnxruntime", "attention": "eager"}


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra"])
def test_the_graph_gives_the_outputs_of_the_model_itself(corpus: Path, tmp_path: Path, kind: str) -> None:  # noqa: F811
    model = tiny_model(tmp_path / kind, kind)
    plain, here = job_for(corpus, model, batch_size=4), job_for(corpus, model, batch_size=4, **ONNX)
    wanted_work = work(plain)
    wanted = logits(plain)
    result = work(here)
    assert result["status"] == "completed", result["error"]
    assert abs(logits(here) - wanted).max() < 1e-4
    assert abs(wanted).max() > 1e-3
    assert result["tokens"] == wanted_work["tokens"], "the same batches and padding"
    assert result["efficiency"]["flops_executed"] == wanted_work["efficiency"]["flops_executed"]


def test_m16_what_runs_is_what_was_declared(corpus: Path) -> None:  # noqa: F811
    job = job_for(corpus, batch_size=4, padding="multiple-of:64", grouping="length-sorted", **ONNX)
    result = work(job)
    assert differences(job, result) == ()
    effective = result["facts"]["effective"]
    assert (effective["engine"], effective["precision"], effective["threads"]) == ("onnxruntime", "fp32", 1)
    assert effective["extra"] == {"provider": "CPUExecutionProvider"}
    assert result["tokens"]["computed_tokens"] % 64 == 0


def test_int8_products_are_counted_in_the_graph(corpus: Path) -> None:  # noqa: F811
    plain = job_for(corpus, batch_size=4)
    work(plain)
    expected = rows(plain)
    job = job_for(corpus, batch_size=4, quantization="int8-dynamic", **ONNX)
    result = work(job)
    assert result["status"] == "completed", result["error"]
    assert differences(job, result) == ()
    assert result["facts"]["effective"]["extra"]["quantized_modules"] >= 12, "6 products in each of 2 layers"
    assert sum(left == right for left, right in zip(rows(job), expected, strict=True)) >= 8


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attention": "sdpa"}, 'declare attention = "eager"'),
        ({"precision": "bf16"}, "computes in fp32, not bf16"),
        ({"compile": "default"}, "does not use torch.compile"),
        ({"quantization": "int4"}, "'int4' is not known"),
        ({"extra": {"turbo": 1}}, "extra setting 'turbo' is not known"),
    ],
)
def test_m16_what_it_cannot_do_is_unsupported(corpus: Path, settings: dict[str, Any], words: str) -> None:  # noqa: F811
    result = work(job_for(corpus, **ONNX | settings))
    assert result["status"] == "unsupported", result["error"]
    assert words in result["error"]["message"]


def test_a_graph_that_differs_from_the_model_is_not_used(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(onnx_runtime, "_TOLERANCE", 0.0)
    result = work(job_for(corpus, **ONNX))
    assert result["status"] == "unsupported"
    assert "the ONNX graph differs from this model" in result["error"]["message"]


def test_without_the_extra_the_row_says_how_to_get_it(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    result = work(job_for(corpus, **ONNX))
    assert result["status"] == "unsupported"
    assert 'make setup EXTRAS="measure onnx"' in result["error"]["message"]
