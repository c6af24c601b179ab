"""What watching a pass costs: journal, memory and clock samples, cost per event times their rate."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from benchmarks.harness import Figure, figure, measures
from runner.measure.frequency import read_megahertz, usable_cpus
from runner.measure.journal import ResultSpool
from runner.measure.memory import resident_bytes

_EVENTS, _ROUNDS = 2000, 5
_BATCH, _DOCUMENTS = 8, 1000
_SAMPLES_PER_SECOND = 20.0
_CLOCK_SAMPLES = 2  # at the start and at the end; one more each second
_FASTEST_PASS_SECONDS = 0.4  # engine packed on the demo, on a machine of its own: the worst case for a share


@measures("supervision_share")
def supervision_share() -> Iterable[Figure]:
    """Share of the fastest pass of the demo; a paired run would drown it in noise."""
    outputs = np.zeros((_BATCH, 6), dtype=np.float32)
    shares = []
    cpus = usable_cpus()
    with tempfile.TemporaryDirectory() as folder:
        spool = ResultSpool(Path(folder) / "results")
        for _ in range(_ROUNDS):
            append = _seconds_each(lambda: spool.add(range(_BATCH), outputs))
            sample = _seconds_each(resident_bytes)
            clock = _seconds_each(lambda: read_megahertz(cpus))
            per_pass = append * _DOCUMENTS / _BATCH + sample * _SAMPLES_PER_SECOND * _FASTEST_PASS_SECONDS
            per_pass += clock * _CLOCK_SAMPLES
            shares.append(per_pass / _FASTEST_PASS_SECONDS)
        spool.close()
    yield figure(
        "supervision_share", shares, unit="share", goal="<= 0.01",
        note="journal, memory and clock samples of 1,000 documents at batch 8 in a pass of 0.4 s",
    )  # fmt: skip


def _seconds_each(action: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(_EVENTS):
        action()
    return (time.process_time() - began) / _EVENTS
