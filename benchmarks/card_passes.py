"""Passes of engine `transformers` on the first card; prints one JSON object.

Usage: card_passes.py MODEL_FOLDER CORPUS_CSV PASSES. The first pass warms up and is not told. In turns with the
others, passes run under torch's profiler: the time that the card computed is that of its kernels, taken together where
they overlap. Spans between events would not do: gaps between kernels lie inside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.engine_passes import MAX_LENGTH, job_of, labels_of
from runner.corpus.read import iter_table
from runner.evidence.attempt import Settings
from runner.measure.kits import TorchKit
from runner.measure.passes import Texts, run_pass
from runner.protocol.labels import LabelTable, decode


def main(model: Path, corpus: Path, passes: int, device: str = "cuda:0", precision: str = "bf16") -> dict[str, Any]:
    """Pairs: seconds of the card's kernels in one pass (None on a CPU, which has none), and of the pass before it."""
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

    def one_pass() -> float:
        return run_pass(read, engine, place, lambda outputs: decode(outputs, table)).seconds

    from torch.profiler import ProfilerActivity, profile

    on_card = device != "cpu"
    activity = ProfilerActivity.CUDA if on_card else ProfilerActivity.CPU

    def busy() -> float | None:
        with profile(activities=[activity]) as watch:
            one_pass()
        return kernel_seconds(watch.events() or ()) if on_card else None

    one_pass()
    found = []
    for _ in range(passes):
        seconds = one_pass()
        found.append((busy(), seconds))
    return {"device": place.name, "pairs": found}


def kernel_seconds(events: Iterable[Any]) -> float:
    """Union of the kernels' times on the card; copies and fills are not computing."""
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type.name == "CUDA"
        and not event.is_user_annotation
        and not event.name.startswith(("Memcpy", "Memset"))
    )
    total = reached = 0.0
    for start, end in spans:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total / 1e6


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
