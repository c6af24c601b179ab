"""The worker's way through an attempt of engine `command`: the program does the pass, we watch (M19, M23)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from runner.corpus.table import iter_table
from runner.errors import InputRefused
from runner.measure.engines.command import CommandPass, program
from runner.measure.job import AttemptFailed, Job
from runner.measure.memory import RSS
from runner.measure.probe import ask_torch

PhaseTimer = Callable[[str], AbstractContextManager[None]]


def run_command(job: Job, phase: PhaseTimer, facts: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Outcome of the attempt as the worker reports it; raises `Unsupported` and `AttemptFailed`."""
    written = Path(job.result).with_suffix(".csv")
    written.unlink(missing_ok=True)
    own = _facts(job.device)  # before the program has the card
    try:
        with program(job, written) as running:
            # Its imports, loading and warming up are one phase: only the program could tell them apart.
            with phase("load"):
                facts["effective"] = running.effective(job.settings)
            facts |= own
            notes.append("settings in effect are the program's own word; what it did not say is unknown")
            done = running.run(job.sample_interval_seconds)
        facts |= {"memory": [_peak(done), *_unknown_peaks(job.device)], "timeline": done.timeline.as_json()}
        with phase("writing"):
            predictions, found = _keep(job, written)
    finally:
        written.unlink(missing_ok=True)
    return {
        "status": "completed",
        "error": None,
        "completed": found,
        "pass_seconds": done.seconds,
        "part_seconds": {},
        "recompilations": None,  # what the program compiles, only it could count
        "recompilations_reason": "not observed",
        "predictions": predictions,
    }


def _keep(job: Job, written: Path) -> tuple[dict[str, Any], int]:
    """The program's predictions as a file of the campaign, ids exactly as given; and expected ids in it."""
    from runner.measure.predictions import write_columns

    if not written.exists():
        raise AttemptFailed("failed", "no predictions", "the program wrote no predictions (RUNNER_PREDICTIONS)")
    columns = ["id", "label"]
    header = written.read_bytes().split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(",")
    if "score" in header:
        columns.append("score")
    try:
        rows = [cells for _, cells in iter_table(written, columns)]
        scores = [float(cells[2] or "nan") for cells in rows] if "score" in columns else None
    except InputRefused as error:
        raise AttemptFailed("failed", "predictions", error.in_one_line()) from None
    except ValueError as error:
        raise AttemptFailed("failed", "predictions", f"a score is no number: {error}") from None
    ids = [cells[0] or "" for cells in rows]
    labels = [cells[1] or "" for cells in rows]
    bytes_sha, rows_sha = write_columns(Path(job.predictions), ids, labels, scores)
    source = job.corpus
    expected = {cells[0] for _, cells in iter_table(Path(source.path), (source.id_column,))}
    return {"sha256": bytes_sha, "records_sha256": rows_sha, "rows": len(ids)}, len(expected & set(ids))


def _peak(done: CommandPass) -> dict[str, Any]:
    return {
        "device": "cpu",
        "counter": done.counter,
        "scope": "resident memory of the program alone (not of processes that it starts), read from outside, this pass",
        "bytes": done.peak_bytes,
        "at_seconds": done.timeline.time_of_largest(RSS),
        "capacity_bytes": None,
        "reason": None if done.peak_bytes is not None else "the program's memory could not be read",
    }


def _unknown_peaks(device: str) -> list[dict[str, Any]]:
    """What a program takes of a card only its own library counts: unknown, never zero (M11, M24)."""
    if device == "cpu":
        return []
    return [
        {
            "device": device,
            "counter": "memory of the card",
            "scope": "the program's own",
            "bytes": None,
            "at_seconds": None,
            "reason": "engine command: only the program's own library counts what it takes of a card",
        }
    ]


def _facts(device: str) -> dict[str, Any]:
    """What is known without the program; of cards what torch says in a process of its own."""
    unknown = "engine command: the program's own affair"
    cards: dict[str, Any] | str = {"gpus": []} if device == "cpu" else ask_torch()
    gpus, why = ([], {"gpus": cards}) if isinstance(cards, str) else (cards["gpus"], {})
    return {
        "model": {},
        "tokenizer": {},
        "runtime": {"torch": None},
        "determinism": {},
        "gpus": gpus,
        "reasons": why | {"runtime.torch": unknown, "determinism": unknown, "model": unknown, "tokenizer": unknown},
    }
