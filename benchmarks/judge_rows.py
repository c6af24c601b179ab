"""Run in a process of its own by `judging.py`: judge two Parquet files, or join them with DuckDB; prints seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

LABELS = ("account", "billing", "delivery", "product", "returns", "technical")


def judge(labels: Path, predictions: Path) -> str:
    """What `runner validate --predictions` does: fingerprint, ids, labels, scores, metric, subgroup."""
    from runner.judge.predictions import examine
    from runner.judge.quality import judge_quality
    from runner.protocol.labels import LabelTable
    from runner.protocol.read import read_protocol
    from runner.protocol.reference import reference_of

    protocol = read_protocol(Path(__file__).parents[1] / "protocol" / "quality-protocol.toml")
    reference = reference_of(labels, "bench", LabelTable(LABELS), protocol.model)
    usable = examine(predictions, reference).usable
    if usable is None:
        raise RuntimeError("the predictions were not usable")
    result = judge_quality(usable.codes, usable.score, reference, None, protocol)
    return str(result.metrics[0].fraction)


def join(labels: Path, predictions: Path) -> str:
    """The bare query: join by id, count rows and equal labels."""
    import duckdb

    row = duckdb.execute(
        "select count(*), sum((l.label = p.label)::int) from read_parquet(?) l join read_parquet(?) p using (id)",
        [str(labels), str(predictions)],
    ).fetchone()
    assert row is not None
    return f"{row[1]}/{row[0]}"


def main() -> None:
    mode, labels, predictions = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    action = judge if mode == "judge" else join
    began = time.monotonic()
    found = action(labels, predictions)
    sys.stdout.write(f"{time.monotonic() - began} {found}\n")


if __name__ == "__main__":
    main()
