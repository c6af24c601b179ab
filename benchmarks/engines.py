"""Engines against the plainest loop and against `transformers.pipeline`, same core, same batches, in turns."""

from __future__ import annotations

import csv
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.campaigns import scratch
from benchmarks.harness import ROOT, Figure, figure, measures

DEMO = ROOT / "protocol/model"
CORPUS = ROOT / "protocol/corpus/final.csv"
BATCHES = (1, 4, 8)
_DEMO_ROUNDS, _LARGE_ROUNDS = 5, 3
_PAIR_ROUNDS = 8  # even: each side is as often the first one. Its ratio is near 1, so the noise must be small
_LARGE_DOCUMENTS = 96
_PADDED = ("transformers:8", "transformers:8:grouping=length-sorted", "transformers:8:quantization=int8-dynamic")
_BEST = (
    "packed:8:grouping=length-sorted", "packed:8:quantization=int8-dynamic",
    "packed:8:grouping=length-sorted:quantization=int8-dynamic",
)  # fmt: skip
_ONNX = (
    "onnxruntime:8:attention=eager", "onnxruntime:8:attention=eager:grouping=length-sorted:quantization=int8-dynamic",
)  # fmt: skip


def contest(model: Path, corpus: Path, rounds: int, *specs: str) -> dict[str, Any]:
    """Seconds per round, labels and scores of every spec, from one fresh process."""
    command = [sys.executable, "-m", "benchmarks.engine_passes", str(model), str(corpus), str(rounds), *specs]
    one_core = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | one_core, capture_output=True, text=True, encoding="utf-8", check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ratios(found: dict[str, Any], slow: str, fast: str) -> list[float]:
    return [left / right for left, right in zip(found[slow]["seconds"], found[fast]["seconds"], strict=True)]


@functools.cache
def large_model() -> Path:
    """6 layers x 384 with random weights and the demo's tokenizer: for speed, its labels prove nothing."""
    folder = scratch() / "6x384"
    code = (
        "import sys, torch, transformers\n"
        "torch.manual_seed(0)\n"
        "config = transformers.BertConfig(vocab_size=2000, hidden_size=384, num_hidden_layers=6,\n"
        "    num_attention_heads=6, intermediate_size=1536, num_labels=6)\n"
        "transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / name, folder / name)
    return folder


@functools.cache
def small_corpus() -> Path:
    """The first documents of the demo, so that its batches stay the same ones."""
    path = scratch() / "some.csv"
    with CORPUS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = rows[:_LARGE_DOCUMENTS]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(chosen)
    return path


@functools.cache
def demo_contest() -> dict[str, Any]:
    specs = [f"{who}:{batch}" for batch in BATCHES for who in ("plain", "transformers")]
    return contest(DEMO, CORPUS, _DEMO_ROUNDS, *specs, "pipeline:4", "pipeline:8", "packed:8", *_BEST)


@functools.cache
def large_contest() -> dict[str, Any]:
    specs = ("plain:1", "plain:8", *_PADDED, "packed:8", *_BEST, *_ONNX)
    return contest(large_model(), small_corpus(), _LARGE_ROUNDS, *specs)


@measures(*[f"plain_over_default_demo_b{batch}" for batch in BATCHES],
          "pipeline_over_default_demo_b4", "pipeline_over_default_demo_b8")  # fmt: skip
def default_engine_demo() -> Iterable[Figure]:
    """How much longer the plainest loop and the pipeline take than engine `transformers`, same batches."""
    found = demo_contest()
    for batch in BATCHES:
        goal = ">= 0.98" if batch == 1 else ">= 1.05"
        values = ratios(found, f"plain:{batch}", f"transformers:{batch}")
        yield figure(f"plain_over_default_demo_b{batch}", values, unit="ratio", goal=goal)
    for batch in BATCHES[1:]:
        values = ratios(found, f"pipeline:{batch}", f"transformers:{batch}")
        yield figure(f"pipeline_over_default_demo_b{batch}", values, unit="ratio", goal=">= 1.05")


@measures(*[f"plain_over_default_6x384_b{batch}" for batch in BATCHES])
def default_engine_large() -> Iterable[Figure]:
    """The same on a model where the arithmetic dominates: each pair alone, one right behind the other."""
    for batch in BATCHES:
        found = contest(large_model(), small_corpus(), _PAIR_ROUNDS, f"plain:{batch}", f"transformers:{batch}")
        values = ratios(found, f"plain:{batch}", f"transformers:{batch}")
        yield figure(f"plain_over_default_6x384_b{batch}", values, unit="ratio", goal=">= 0.98")


@measures("naive_b8_over_packed_demo", "b1_over_best_demo", "int8_flips_demo")
def packed_demo() -> Iterable[Figure]:
    """Engine `packed` on the trained model, its labels compared with the plainest loop's."""
    found = demo_contest()
    flips = differing(found["plain:1"]["labels"], found["packed:8"]["labels"])
    yield figure(
        "naive_b8_over_packed_demo", ratios(found, "plain:8", "packed:8"), unit="ratio", goal=">= 4.5",
        note=f"{len(flips)} of {len(found['plain:1']['labels'])} labels differ from batch 1",
    )  # fmt: skip
    best = fastest(found)
    yield figure("b1_over_best_demo", ratios(found, "plain:1", best), unit="ratio", note=f"best variant {best}")
    labels, scores = found["plain:1"]["labels"], found["plain:1"]["scores"]
    flips = differing(labels, found["packed:8:quantization=int8-dynamic"]["labels"])
    surest = max((scores[place] for place in flips), default=0.0)
    yield figure(
        "int8_flips_demo", [len(flips) / len(labels)], unit="share", goal="<= 0.01",
        note=f"{len(flips)} of {len(labels)} labels; the surest of them had the score {surest:.3f} in fp32",
    )  # fmt: skip


@measures("naive_b8_over_packed_6x384", "naive_b8_over_best_6x384", "b1_over_best_6x384")
def packed_large() -> Iterable[Figure]:
    """Speed only: a model with random weights predicts almost one class."""
    found = large_contest()
    yield figure("naive_b8_over_packed_6x384", ratios(found, "plain:8", "packed:8"), unit="ratio", goal=">= 3.5")
    best = fastest(found)
    yield figure(
        "naive_b8_over_best_6x384", ratios(found, "plain:8", best), unit="ratio", goal=">= 6.0",
        note=f"best variant {best}",
    )  # fmt: skip
    yield figure(
        "b1_over_best_6x384", ratios(found, "plain:1", best), unit="ratio",
        note=f"against {best}; unsorted batch 8 is a weak opponent, batch 1 alone is faster",
    )  # fmt: skip


def fastest(found: dict[str, Any]) -> str:
    """The declared variant with the smallest median."""
    mine = [spec for spec in found if spec.split(":")[0] in ("transformers", "packed", "onnxruntime")]
    return min(mine, key=lambda spec: sorted(found[spec]["seconds"])[len(found[spec]["seconds"]) // 2])


def differing(left: list[str], right: list[str]) -> list[int]:
    return [place for place, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1]]
