"""Prediction files (M28): id, label, score and the scores of all classes, one row per document."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner.evidence.canonical import records_sha256, sha256_bytes
from runner.evidence.files import write_atomic

if TYPE_CHECKING:
    from runner.protocol.labels import Decoded


def predictions_parquet(ids: Sequence[str], decoded: Decoded) -> bytes:
    """Bytes of the Parquet file: columns id, label, score (float64), scores (list of float64)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "label": pa.array(decoded.labels, pa.string()),
            "score": pa.array(decoded.score, pa.float64()),
            "scores": pa.array(list(decoded.scores), pa.list_(pa.float64())),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def write_columns(
    path: Path, ids: Sequence[str], labels: Sequence[str], scores: Sequence[float] | None
) -> tuple[str, str]:
    """The same file for predictions that came as text: ids and labels exactly as given, score if there is one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"id": pa.array(ids, pa.string()), "label": pa.array(labels, pa.string())}
    if scores is not None:
        columns["score"] = pa.array(scores, pa.float64())
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    data = sink.getvalue()
    write_atomic(path, data)
    shown = [repr(score) for score in scores] if scores is not None else [""] * len(ids)
    return sha256_bytes(data), records_sha256(zip(ids, labels, shown, strict=True))


def write_predictions(path: Path, ids: Sequence[str], decoded: Decoded) -> tuple[str, str]:
    """Write atomically; SHA-256 of the bytes and of the records (id, label, score as shown)."""
    if len(ids) != len(decoded.codes):
        raise ValueError(f"{len(ids)} ids for {len(decoded.codes)} predictions")
    data = predictions_parquet(ids, decoded)
    write_atomic(path, data)
    rows = zip(ids, decoded.labels, decoded.score.tolist(), strict=True)
    return sha256_bytes(data), records_sha256((identifier, label, repr(score)) for identifier, label, score in rows)
