"""Synchronised, monotonic clocks (M19, M20, TI-01, TI-03)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from runner.evidence.attempt import PhaseName, Status
from runner.measure.clocks import Parts, seconds_between, wall_clock_moved, wall_clock_note
from runner.measure.passes import Ledger, Texts, Work, run_pass
from runner.measure.rows import _phases
from runner.measure.run import clock_warnings
from runner.protocol.schema import Lock

CASES = Path(__file__).parents[1] / "cases"


class FakeDevice:
    """Asynchronous, with its own clock: work is queued at once and done later; waiting costs host time."""

    name = "fake"

    def __init__(self, launch: float, work: float, wait_overhead: float) -> None:
        self.host = 100.0
        self.busy_until = 0.0
        self._launch, self._work, self._wait_overhead = launch, work, wait_overhead
        self.waits: list[float] = []

    def queue(self) -> None:
        self.host += self._launch
        self.busy_until = max(self.busy_until, self.host) + self._work

    def synchronize(self) -> None:
        self.host = max(self.host, self.busy_until) + (self._wait_overhead if self.busy_until > self.host else 0)
        self.waits.append(self.host)

    def now_ns(self) -> int:
        return round(self.host * 1e9)


class FakeEngine:
    """Queues work, and fetches the outputs only after the device has done it."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
        with parts.busy("inference"):
            self._device.queue()
        ledger.add(range(len(texts)), np.zeros((len(texts), 2), dtype=np.float32))


def test_ti01_the_clock_stops_only_when_the_device_has_finished() -> None:
    trace = json.loads((CASES / "TI-01" / "trace.json").read_bytes())
    launch = float(trace["launch_return"])
    device = FakeDevice(launch, float(trace["device_done"]) - launch, 0.001)
    texts = Texts([str(number) for number in range(trace["entries"])], ["t"] * trace["entries"])
    done = run_pass(lambda: texts, FakeEngine(device), device, lambda outputs: outputs)
    assert done.seconds == pytest.approx(float(trace["sync_return"]), abs=1e-9)
    assert done.part_seconds["inference"] == pytest.approx(0.004), "handing over is not doing"
    assert len(done.ids) == 64


def test_ti01_earlier_work_is_waited_for_and_not_charged() -> None:
    device = FakeDevice(0.004, 1.2, 0.001)
    device.queue()  # for example the warm-up
    device.queue()
    start = device.busy_until
    done = run_pass(lambda: Texts(["a"], ["t"]), FakeEngine(device), device, lambda outputs: outputs)
    assert device.waits[0] >= start
    assert done.seconds == pytest.approx(1.205, abs=1e-9)


def test_m19_reading_and_materialising_are_inside_the_pass() -> None:
    device = FakeDevice(0.0, 0.0, 0.0)

    def read() -> Texts:
        device.host += 0.5
        return Texts(["a"], ["t"])

    def materialise(outputs: object) -> object:
        device.host += 0.25
        return outputs

    done = run_pass(read, FakeEngine(device), device, materialise)
    assert done.seconds == pytest.approx(0.75)
    assert done.part_seconds["read"] == pytest.approx(0.5)
    assert done.part_seconds["materialise"] == pytest.approx(0.25)


@pytest.mark.parametrize("positions", [[0], [0, 0], [0, 1, 2]])
def test_an_engine_that_loses_or_doubles_documents_is_caught(positions: list[int]) -> None:
    class Careless:
        def classify(self, texts: Sequence[str], ledger: Ledger, parts: Parts, work: Work) -> None:
            ledger.add(positions, np.zeros((len(positions), 2), dtype=np.float32))

    with pytest.raises(RuntimeError, match="results for 2 documents"):
        run_pass(lambda: Texts(["a", "b"], ["t", "t"]), Careless(), FakeDevice(0, 0, 0), lambda outputs: outputs)


def test_ti03_a_wall_clock_set_back_changes_no_duration_and_is_noticed() -> None:
    record = json.loads((CASES / "TI-03" / "record.json").read_bytes())
    wall = [round(datetime.fromisoformat(record[key]).timestamp()) * 10**9 for key in ("wall_start", "wall_end")]
    mono = [int(Decimal(record[key]) * 10**9) for key in ("mono_start", "mono_end")]
    assert seconds_between(*mono) == 120.0
    moved = wall_clock_moved(*wall, *mono)
    assert moved == -3600.0
    assert (wall_clock_note(moved) or "").startswith("wall clock moved by -3600 s during the attempt")
    assert wall_clock_note(0.2) is None


def test_ti11_a_clock_behind_the_freeze_is_said_before_anything_is_measured() -> None:
    lock = cast(Lock, SimpleNamespace(frozen_at_utc="2026-11-30T12:00:00Z"))
    (warning,) = clock_warnings(lock, datetime(2026, 11, 30, 11, 52, tzinfo=UTC))
    assert "480 s behind the freeze" in warning
    assert clock_warnings(lock, datetime(2026, 11, 30, 12, 0, tzinfo=UTC)) == []


@pytest.mark.parametrize("back_seconds", [3600, 0])
def test_ti03_a_clock_set_back_while_a_worker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back_seconds: int
) -> None:
    """The seam is the wall clock of the measuring process; the worker and all durations use the monotonic one."""
    from runner.evidence.attempt import Status
    from runner.evidence.store import read_attempts
    from tests.measure.light import light_campaign, run

    campaign = light_campaign(tmp_path, documents=20, sleep=0.02)
    real, calls = time.time_ns, []

    def wall() -> int:
        calls.append(None)
        return real() - (back_seconds * 10**9 if len(calls) > 1 else 0)

    monkeypatch.setattr("runner.measure.run.time.time_ns", wall)
    run(campaign, passes=1)
    monkeypatch.undo()
    (row,) = read_attempts(campaign)
    assert row.status is Status.COMPLETED
    assert row.pass_seconds is not None and 0.4 <= row.pass_seconds < 60
    assert row.wall_clock_moved_seconds == pytest.approx(-back_seconds, abs=0.5)
    assert any("wall clock moved by -3600 s" in note for note in row.notes) is (back_seconds > 0)


def test_a_monotonic_clock_that_runs_backwards_is_refused() -> None:
    with pytest.raises(ValueError, match="backwards"):
        seconds_between(5, 4)


@pytest.mark.parametrize(("compiled", "expected"), [(None, (None, "nothing is compiled")), (2.5, (2.5, None))])
def test_m17_a_completed_attempt_without_compiling_says_so(
    compiled: float | None, expected: tuple[float | None, str | None]
) -> None:
    """Issue 6, point 1: a phase that there was not is null with a reason, never left to be guessed."""
    timed = {"imports": 1.0, "load": 0.5} | ({} if compiled is None else {"compile": compiled})
    own: Any = SimpleNamespace(process=None)
    phases = _phases({"phases": timed}, Status.COMPLETED, own)
    assert [(p.seconds, p.reason) for p in phases if p.name is PhaseName.COMPILE] == [expected]
    assert not any(p.name is PhaseName.COMPILE for p in _phases({"phases": {"imports": 1.0}}, Status.FAILED, own))
