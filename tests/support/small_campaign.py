"""A real, tiny campaign on disk: protocol, plan, corpus, model folder, baseline. Nothing is mocked."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.evidence.attempt import Attempt, ChainLink, FileReference, Settings, Slot, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_file
from runner.evidence.store import AttemptStore
from runner.protocol.schema import Lock

Rows = Sequence[Sequence[str]]
ROWS: Rows = [
    (f"d{number:02d}", f"text number {number}", "pos" if number % 2 else "neg", "short" if number < 6 else "long")
    for number in range(10)
]

PROTOCOL = """\
schema_version = "protocol/1"

[question]
name = "small"
revision = 1
text = "Which batch size costs least?"
scenario = "offline"
synthetic = true

[[corpus]]
id = "small-final"
final = "corpus/final.csv"
group_columns = ["stratum"]

[model]
source = "model"
max_length = 128

[quality]
metric = "accuracy"
threshold = "0.80"
max_drop = "0.10"
min_agreement = "0.80"

[[quality.subgroup]]
column = "stratum"
value = "long"
minimum = "0.75"

[[series]]
name = "batch"
variable = "batch_size"
values = [1, 4, 8]
"""

SIMPLE_PROTOCOL = """\
schema_version = "protocol/1"

[question]
name = "case"
revision = 1
text = "Which batch size costs least?"
scenario = "offline"

[[corpus]]
id = "small-final"
final = "corpus/final.csv"
group_columns = []

[model]
source = "model"

[quality]
metric = "accuracy"
threshold = "0.90"
max_drop = "0.02"
min_agreement = "0"

[[series]]
name = "batch"
variable = "batch_size"
values = [1, 4]
"""

PLAN = """\
schema_version = "plan/1"
zone = "Europe/Berlin"
deadline = "2026-12-31T09:00"
deliverables = ["small-final"]

[[task]]
id = "measure"
title = "Measuring"
kind = "measurement"
start = "2026-12-28T09:00"
end = "2026-12-28T12:00"
delivery = true
"""


def write_csv(path: Path, header: Sequence[str], rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path


def write_predictions(path: Path, rows: Sequence[tuple[Any, ...]]) -> Path:
    """Parquet as measure writes it: id, label, score (0.9 where the row gives none)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.string()),
            "label": pa.array([row[1] for row in rows], pa.string()),
            "score": pa.array([row[2] if len(row) > 2 else 0.9 for row in rows], pa.float64()),
        }
    )
    pq.write_table(table, path)
    return path


def safetensors(header: Mapping[str, Any], data: bytes = b"") -> bytes:
    """A weights file with this header: eight bytes of length, JSON, data."""
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def with_given_baseline(protocol: str) -> str:
    """The protocol with the baseline declared as a given file, as no `runner baseline` made it (M2)."""
    if "[baseline]" in protocol:
        return protocol
    name = "baseline" if protocol.count("[[corpus]]") > 1 else "baseline/small-final.parquet"
    return f'{protocol}\n[baseline]\nfile = "{name}"\n'


def forget_given_baseline(campaign: Campaign) -> None:
    """No baseline any more, and none declared: the next is made by `runner baseline`."""
    shutil.rmtree(campaign.baseline_dir, ignore_errors=True)
    head, _, _ = campaign.protocol.read_text(encoding="utf-8").partition("\n[baseline]")
    campaign.protocol.write_text(head, encoding="utf-8")


def make_campaign(
    root: Path,
    *,
    rows: Rows = ROWS,
    labels: Mapping[str, str] | None = None,
    protocol: str = PROTOCOL,
    plan: str = PLAN,
    baseline: Sequence[tuple[Any, ...]] | None = None,
) -> Campaign:
    """Everything up to, but without, the freeze. The baseline is right everywhere unless given."""
    campaign = Campaign(root)
    write_csv(campaign.protocol_dir / "corpus" / "final.csv", ("id", "text", "label", "stratum"), rows)
    model = campaign.protocol_dir / "model"
    model.mkdir(parents=True)
    names = labels or {"0": "neg", "1": "pos"}
    (model / "config.json").write_text(
        json.dumps({"id2label": names, "max_position_embeddings": 256, "model_type": "bert"}), encoding="utf-8"
    )
    (model / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 256}), encoding="utf-8")
    (model / "model.safetensors").write_bytes(safetensors({"__metadata__": {"note": "a stand-in: never loaded here"}}))
    campaign.protocol.write_text(with_given_baseline(protocol), encoding="utf-8")
    campaign.plan.write_text(plan, encoding="utf-8")
    if baseline is None:
        baseline = [(row[0], row[2]) for row in rows]
    write_predictions(campaign.baseline_dir / "small-final.parquet", baseline)
    return campaign


def make_attempt(
    campaign: Campaign, lock: Lock, predictions: Path | None, *, number: int = 0, variant: str = "b1", **changes: Any
) -> Attempt:
    """A completed, unblemished row under the lock; `changes` replace fields."""
    settings = next(item.settings for item in lock.variants if item.id == variant)
    documents = lock.judgement.corpora[0].documents
    reference = None
    if predictions is not None:
        reference = FileReference(path=campaign.relative(predictions), sha256=sha256_file(predictions), rows=documents)
    fields: dict[str, Any] = {
        "attempt_id": f"a{number:03d}",
        "chain": ChainLink(machine_id="m1", index=number, previous_sha256=None),
        "protocol_name": lock.protocol.question.name,
        "protocol_revision": lock.protocol.question.revision,
        "lock_sha256": lock.lock_sha256,
        "nonce": lock.nonce,
        "gpu_declared": "cpu",
        "devices_found": ("cpu",),
        "variant_id": variant,
        "series": "batch",
        "corpus_id": lock.judgement.corpora[0].id,
        "seed": 0,
        "slot": Slot(pass_index=number, position=0),
        "status": Status.COMPLETED,
        "started_at_utc": "2099-01-01T00:00:00Z",
        "ended_at_utc": "2099-01-01T00:01:00Z",
        "pass_seconds": 1.5,
        "pass_seconds_reason": None,
        "expected_documents": documents,
        "completed_documents": documents,
        "requested": settings,
        "effective": Settings.model_validate({**settings.as_json(), "threads": 1}),
        "effective_reason": None,
        "recompilations": 0,
        "recompilations_reason": None,
        "device_shared": False,
        "device_shared_reason": None,
        "predictions": reference,
    }
    return Attempt(**{**fields, **changes})


def store_attempt(campaign: Campaign, attempt: Attempt) -> Attempt:
    """Write the row as measure does: started, then final, chained to the row before it."""
    store = AttemptStore(campaign)
    attempt = attempt.model_copy(update={"chain": store.next_link(attempt.chain.machine_id)})
    store.start(attempt.model_copy(update={"status": Status.STARTED}))
    store.finish(attempt)
    return attempt


def case_campaign(root: Path, corpus: Path, *, protocol: str = SIMPLE_PROTOCOL, **options: Any) -> Campaign:
    """A campaign around the corpus of a case (columns id, text, label), labels as its own model has them."""
    with corpus.open(encoding="utf-8", newline="") as stream:
        rows = [(row["id"], row["text"], row["label"], "") for row in csv.DictReader(stream)]
    names = {str(index): label for index, label in enumerate(sorted({"neg", "pos", *(row[2] for row in rows)}))}
    return make_campaign(root, **{"rows": rows, "labels": names, "protocol": protocol, **options})
