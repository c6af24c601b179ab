"""Ten million predictions: time against a bare DuckDB join of the same two files, and peak memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.harness import Figure, figure, measures, output_and_peak, pairs
from benchmarks.judge_rows import LABELS

ROWS = 10_000_000
_PAIRS = 3


@measures(
    "judge_10m_over_duckdb", "judge_10m_peak_bytes", "judge_10m_shuffled_over_duckdb", "judge_10m_shuffled_peak_bytes"
)
def judging() -> Iterable[Figure]:
    """Rows in the order of the corpus (as passes write them), and in another order."""
    with tempfile.TemporaryDirectory() as folder:
        labels, ordered, shuffled = (Path(folder) / f"{name}.parquet" for name in ("labels", "ordered", "shuffled"))
        write_rows(labels, ordered, shuffled)
        for name, predictions in (("judge_10m", ordered), ("judge_10m_shuffled", shuffled)):
            peaks: list[float] = []

            def judged(predictions: Path = predictions, peaks: list[float] = peaks) -> float:
                seconds, peak = child("judge", labels, predictions)
                peaks.append(peak)
                return seconds

            def joined(predictions: Path = predictions) -> float:
                return child("join", labels, predictions)[0]

            found = pairs(judged, joined, _PAIRS)
            note = f"{ROWS} rows, labels and predictions as Parquet, each run a process of its own"
            ratios = [ours / theirs for ours, theirs in found]
            yield figure(f"{name}_over_duckdb", ratios, unit="ratio", goal="<= 2.0", note=note)
            yield figure(f"{name}_peak_bytes", peaks, unit="B", goal=f"<= {3 << 29}", note=note)


def write_rows(labels: Path, ordered: Path, shuffled: Path) -> None:
    """Reproducible rows; about nine of ten labels are right."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    truth = random.integers(0, len(LABELS), ROWS, dtype=np.int8)
    predicted = np.where(random.random(ROWS) < 0.9, truth, random.integers(0, len(LABELS), ROWS, dtype=np.int8))
    ids = pa.array([f"doc-{number:08}" for number in range(ROWS)])
    names = pa.array(LABELS)
    strata = pa.array(["short", "medium", "long"]).take(pa.array(random.integers(0, 3, ROWS)))
    pq.write_table(pa.table({"id": ids, "label": names.take(pa.array(truth)), "group:stratum": strata}), labels)
    table = pa.table({"id": ids, "label": names.take(pa.array(predicted)), "score": random.random(ROWS)})
    pq.write_table(table, ordered)
    pq.write_table(table.take(pa.array(random.permutation(ROWS))), shuffled)


def child(mode: str, labels: Path, predictions: Path) -> tuple[float, float]:
    """Seconds as the child measured them (its imports included), and its peak resident bytes."""
    output, peak = output_and_peak(("-m", "benchmarks.judge_rows", mode, str(labels), str(predictions)))
    return float(output.split()[0]), peak
