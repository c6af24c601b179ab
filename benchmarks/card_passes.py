"""Passes of engine `transformers` on the first card; prints one JSON object.

Usage: card_passes.py MODEL_FOLDER CORPUS_CSV PASSES. The first pass warms up and is not told.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.engine_passes import MAX_LENGTH, job_of, labels_of
from runner.corpus.read import iter_table
from runner.evidence.attempt import Settings
from runner.measure.kits import TorchKit
from runner.measure.passes import Texts, run_pass
from runner.protocol.labels import LabelTable, decode


def main(model: Path, corpus: Path, passes: int, device: str = "cuda:0", precision: str = "bf16") -> dict[str, Any]:
    """Seconds of the card's events and of the whole pass, for every pass."""
    settings = Settings(batch_size=8, precision=precision, max_length=MAX_LENGTH)
    labels = labels_of(model)
    job = job_of(model, corpus, settings, labels, device)
    kit = TorchKit()
    kit.imports()
    place, _ = kit.device(job)
    engine = kit.load(job)
    table = LabelTable(labels)

    def read() -> Texts:
        rows = [cells for _, cells in iter_table(corpus, ("id", "text"))]
        return Texts([identifier or "" for identifier, _ in rows], [text or "" for _, text in rows])

    found = []
    for _ in range(passes + 1):
        done = run_pass(read, engine, place, lambda outputs: decode(outputs, table))
        found.append((done.work.device_seconds, done.seconds))
    return {"device": place.name, "passes": found[1:]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
