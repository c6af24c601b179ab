"""A note of very many attempts: the embedded campaign with its rows repeated, times varied."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.campaigns import noted_campaign, scratch
from benchmarks.harness import Figure, figure, measures, output_and_peak, seconds
from runner.evidence.canonical import content_sha256, pretty_json

ATTEMPTS = 10_000


@measures("report_10k_seconds", "report_10k_peak_bytes")
def report_of_many() -> Iterable[Figure]:
    """`runner report` as a command on 10,000 chained attempts with verdicts."""
    folder = scratch() / "many"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(noted_campaign().folder, folder)
    repeat_attempts(folder, ATTEMPTS)
    peaks: list[float] = []
    taken = seconds(lambda: peaks.append(_peak_of_report(folder)))
    yield figure("report_10k_seconds", [taken], unit="s", goal="<= 60")
    yield figure("report_10k_peak_bytes", peaks, unit="bytes", goal=f"<= {1 << 30}")


def repeat_attempts(folder: Path, wanted: int) -> None:
    """Fill the campaign up to `wanted` attempts: rows and verdicts of its own in turn, chained anew.

    Journals, predictions and memory lines are those of the row that is repeated. Durations vary by
    up to a percent with a fixed seed, so that every row is one of its own.
    """
    attempts, verdicts = folder / "records/attempts", folder / "verdicts"
    models = [(path.stem, _read(path)) for path in sorted(attempts.glob("*.json"))]
    judged = {name: _read(verdicts / f"{name}.json") for name, _ in models}
    (head_path,) = (folder / "records/chain").glob("*.json")
    head = _read(head_path)
    chance = random.Random(20261130)
    passes: dict[str, int] = {}
    for _, row in models:
        passes[row["variant_id"]] = max(passes.get(row["variant_id"], 0), row["slot"]["pass_index"] + 1)
    for number in range(len(models), wanted):
        name, row = models[number % len(models)]
        variant = row["variant_id"]
        made = f"{number:05d}-{name}"
        factor = 1 + chance.uniform(-0.01, 0.01)
        copy = row | {
            "attempt_id": made,
            "chain": row["chain"] | {"index": number, "previous_sha256": head["last_sha256"]},
            "slot": {"pass_index": passes[variant], "position": number},
            "pass_seconds": row["pass_seconds"] * factor,
        }
        passes[variant] += 1
        (attempts / f"{made}.json").write_bytes(pretty_json(copy))
        (verdicts / f"{made}.json").write_bytes(pretty_json(judged[name] | {"attempt_id": made}))
        head |= {"last_attempt_id": made, "last_sha256": content_sha256(copy), "rows": number + 1}
    head_path.write_bytes(pretty_json(head))


def _peak_of_report(folder: Path) -> float:
    """Largest resident memory of the command, in bytes."""
    return float(output_and_peak(("-m", "runner", "--campaign", str(folder), "report"))[1])


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_bytes())
    return value
