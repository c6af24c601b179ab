"""Passes of several engines in turns, in one process on one core; prints one JSON object.

Seconds are processor time: on one thread it is the pass without the share that other programs took.

Usage: engine_passes.py MODEL_FOLDER CORPUS_CSV ROUNDS SPEC...
A spec is `plain:8`, `pipeline:8`, `transformers:8` or `packed:8:quantization=int8-dynamic`: who does it,
the batch size, further settings of the variant. Odd rounds run in reverse order.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline
from transformers.utils import logging

from runner.corpus.read import iter_table
from runner.evidence.attempt import Settings
from runner.measure.clocks import HostDevice
from runner.measure.job import CorpusSource, Job, ModelSource
from runner.measure.journal import ResultSpool
from runner.measure.kits import TorchKit
from runner.measure.passes import Texts, run_pass
from runner.protocol.labels import LabelTable, decode

MAX_LENGTH = 512
Pass = Callable[[], tuple[float, list[str], list[float]]]


class Contest:
    """One model and corpus; makes the passes of every spec."""

    def __init__(self, model: Path, corpus: Path) -> None:
        self.folder, self.corpus = model, corpus
        self.model = AutoModelForSequenceClassification.from_pretrained(model).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.labels = labels_of(model)

    def make(self, spec: str) -> Pass:
        who, batch, *settings = spec.split(":")
        if who == "plain":
            return lambda: self.plain(int(batch))
        if who == "pipeline":
            return self.pipeline(int(batch))
        changes = dict(item.split("=", 1) for item in settings)
        return self.engine(
            Settings(engine=who, batch_size=int(batch), threads=1, max_length=MAX_LENGTH).model_copy(
                update={"padding": "none" if who == "packed" else "longest"} | changes
            )
        )

    def rows(self) -> list[tuple[str, str]]:
        with self.corpus.open(encoding="utf-8", newline="") as file:
            return [(row["id"], row["text"]) for row in csv.DictReader(file)]

    def plain(self, batch: int) -> tuple[float, list[str], list[float]]:
        """The plainest honest loop: read, tokenise, forward, softmax, to the host."""
        began = time.process_time()
        rows = self.rows()
        found: list[tuple[str, str, float]] = []
        with torch.no_grad():
            for start in range(0, len(rows), batch):
                part = rows[start : start + batch]
                inputs = self.tokenizer(
                    [text for _, text in part],
                    padding=True,
                    truncation=True,
                    max_length=MAX_LENGTH,
                    return_tensors="pt",
                )
                best = self.model(**inputs).logits.softmax(-1).max(-1)
                for (identifier, _), index, score in zip(
                    part, best.indices.tolist(), best.values.tolist(), strict=True
                ):
                    found.append((identifier, self.labels[index], score))
        return time.process_time() - began, [label for _, label, _ in found], [score for _, _, score in found]

    def pipeline(self, batch: int) -> Pass:
        classify = pipeline(
            "text-classification", model=self.model, tokenizer=self.tokenizer, batch_size=batch, device="cpu"
        )

        def run() -> tuple[float, list[str], list[float]]:
            began = time.process_time()
            texts = [text for _, text in self.rows()]
            found = classify(texts, truncation=True, max_length=MAX_LENGTH)
            return time.process_time() - began, [item["label"] for item in found], [item["score"] for item in found]

        return run

    def engine(self, settings: Settings) -> Pass:
        """The product's own pass, with its journal of finished documents."""
        job = job_of(self.folder, self.corpus, settings, self.labels, "cpu")
        kit = TorchKit()
        kit.imports()
        engine = kit.load(job)
        table = LabelTable(self.labels)

        def read() -> Texts:
            rows = [cells for _, cells in iter_table(self.corpus, ("id", "text"))]
            return Texts([identifier or "" for identifier, _ in rows], [text or "" for _, text in rows])

        def run() -> tuple[float, list[str], list[float]]:
            with tempfile.TemporaryDirectory() as folder:
                spool = ResultSpool(Path(folder) / "results")
                began = time.process_time()
                done = run_pass(read, engine, HostDevice("cpu"), lambda outputs: decode(outputs, table), spool)
                taken = time.process_time() - began
                spool.close()
            return taken, list(done.predictions.labels), done.predictions.score.tolist()

        return run


def labels_of(model: Path) -> tuple[str, ...]:
    """Names of the classes, from the model's config."""
    found = AutoConfig.from_pretrained(model)
    return tuple(found.id2label[index] for index in range(found.num_labels))


def job_of(model: Path, corpus: Path, settings: Settings, labels: tuple[str, ...], device: str) -> Job:
    """A pass without its attempt: no journal, no warm-up, no record."""
    return Job(
        attempt_id="bench", corpus=CorpusSource(str(corpus), "id", "text", 0),
        model=ModelSource(str(model), False, False, None, MAX_LENGTH, labels, None),
        settings=settings.as_json(), seed=0, device=device, warm_up_inputs="none", warm_up_passes=0,
        sample_interval_seconds=0.05, timed=True, matrix_rate=False, journal="", results="", result="",
        predictions="", spawned_mono_ns=0, parent_pid=0,
    )  # fmt: skip


def main(model: Path, corpus: Path, rounds: int, specs: list[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    contest = Contest(model, corpus)
    passes = {spec: contest.make(spec) for spec in specs}
    found: dict[str, Any] = {spec: {"seconds": []} for spec in specs}
    for number in range(-1, rounds):  # the first round only warms up
        for spec in specs if number % 2 else reversed(specs):
            seconds, labels, scores = passes[spec]()
            if number >= 0:
                found[spec]["seconds"].append(seconds)
                found[spec] |= {"labels": labels, "scores": scores}
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    quiet: Any = logging
    quiet.disable_progress_bar()
    quiet.set_verbosity_error()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])))
