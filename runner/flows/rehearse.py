"""`rehearse`: before paid hours, try what usually goes wrong late (M52). Nothing of it is counted.

Each variant runs the longest texts in its largest batch and a few others, in a worker like the real
one, in a folder that is removed. Time is short: variants that do not fit into it are named.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner.corpus.read import iter_table
from runner.corpus.strata import TokenizerFile
from runner.errors import InputRefused
from runner.evidence.attempt import Settings, Status
from runner.evidence.campaign import Campaign
from runner.evidence.signing import known_key
from runner.flows.plan_check import past_deadline
from runner.judge.minimum import frozen_baselines
from runner.measure.devices import Presence, look_for
from runner.measure.environment import worker_environment
from runner.measure.installed import refuse_without_packages
from runner.measure.job import CorpusSource, Job
from runner.measure.rows import verdict_on_end
from runner.measure.sources import frozen_protocol, model_source
from runner.measure.supervisor import WORKER, StopRequest, run_worker
from runner.pricing.core import hours_text
from runner.pricing.times import parse_instant
from runner.pricing.window import access_window
from runner.protocol.freeze import load_lock
from runner.protocol.modelfiles import check_model
from runner.protocol.read import read_plan
from runner.protocol.schema import Lock, LockedVariant
from runner.units import parse_utc

Say = Callable[[str], None]
_TIME_SECONDS = 120
_SAMPLE_DOCUMENTS = 48
_LEAST_FREE_BYTES = 1 << 30
_MEMORY_MARGIN = 0.95
_BUSY_LOAD = 0.5


@dataclass(frozen=True)
class Check:
    """One thing that was tried, and what was found."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Rehearsal:
    """All checks; `passed` when none failed."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@dataclass(frozen=True)
class _Tried:
    """What one variant showed: seconds of a whole corpus (rough) and of one attempt around it."""

    check: Check
    pass_seconds: float | None
    around_seconds: float


def rehearse(
    campaign: Campaign, gpu: str, rental_end: str | None, say: Say, worker: Sequence[str] = WORKER
) -> Rehearsal:
    """Run all checks. Refuses (exit 2) what `measure` would refuse: no lock, changed files, bad names."""
    lock = load_lock(campaign)
    if worker == WORKER and any(variant.settings.engine != "command" for variant in lock.variants):
        refuse_without_packages()
    end = None if rental_end is None else parse_instant(rental_end, read_plan(campaign.plan).zone, name="--rental-end")
    checks = [_clock(lock), _disk(campaign), _key(campaign), *_baseline(campaign, lock)]
    devices = max(variant.settings.devices or 1 for variant in lock.variants)
    presence = look_for(gpu, devices, campaign.tariffs)
    here = presence.torch_device is not None
    checks.append(Check("device", here, presence.problem or ", ".join(presence.found)))
    if here:
        busy_before = _load_now()
        with StopRequest().listening() as stop, tempfile.TemporaryDirectory(prefix="runner-rehearsal-") as folder:
            trial = Trial(campaign, lock, presence, Path(folder), stop, worker)
            tried = _variants(trial, say)
        checks.extend(item.check for item in tried)
        checks.extend(_calendar(campaign, lock, tried, end))
        checks.extend(_load(busy_before))
    return Rehearsal(tuple(checks))


def _clock(lock: Lock) -> Check:
    behind = parse_utc(lock.frozen_at_utc) - datetime.now(UTC)
    if behind > timedelta(seconds=2):
        seconds = f"{behind.total_seconds():.0f} s"
        return Check("wall clock", False, f"behind the freeze by {seconds}: set it before measuring")
    return Check("wall clock", True, "after the freeze")


def _load_now() -> float:
    """Average number of working processes over the last minute; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def _load(before: float) -> list[Check]:
    """Others at work before the rehearsal, which itself is no load yet: the durations above are then too long."""
    if before <= _BUSY_LOAD:
        return []
    return [
        Check("quiet", True, f"warning: load {before:.1f} before it began, others are at work: its times are rough")
    ]


def _disk(campaign: Campaign) -> Check:
    place = next(one for one in (campaign.records, *campaign.records.parents) if one.is_dir())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Check("disk", False, f"{campaign.records} cannot be written: {error.strerror}")
    free = shutil.disk_usage(place).free
    return Check("disk", free >= _LEAST_FREE_BYTES, f"{free / 2**30:.1f} GiB free")


def _key(campaign: Campaign) -> Check:
    key = known_key(campaign)
    if key is None:
        return Check("signing key", True, "none yet: a local test key will be made at the report")
    return Check("signing key", True, key.label)


def _baseline(campaign: Campaign, lock: Lock) -> list[Check]:
    """Whether a variant that answers as the baseline does can be accepted at all."""
    return [
        Check("baseline", not item.missed, item.warning or f"reaches the minimum on {item.corpus_id}")
        for item in frozen_baselines(campaign, lock)
    ]


def _variants(trial: Trial, say: Say) -> list[_Tried]:
    """Largest batch first; what the time does not allow is named."""
    texts = _texts(trial.campaign, trial.lock)
    deadline = time.monotonic() + _TIME_SECONDS
    largest_first = sorted(trial.lock.variants, key=lambda variant: -(variant.settings.batch_size or 1))
    tried: list[_Tried] = []
    for place, variant in enumerate(largest_first):
        if tried and time.monotonic() > deadline:
            left = ", ".join(item.id for item in largest_first[place:])
            tried.append(_Tried(Check("not tried", True, f"{left}: the time of a rehearsal is over"), None, 0.0))
            break
        say(f"rehearsing {variant.id}")
        tried.append(trial.run(variant, texts))
        if trial.stop.name is not None:
            break
    return tried


@dataclass(frozen=True)
class _Texts:
    """Texts of all corpora, longest first, and their lengths. `unit`: what the lengths count."""

    texts: list[str]
    lengths: list[int]
    unit: str


def _texts(campaign: Campaign, lock: Lock) -> _Texts:
    """By tokens as the model sees them: a short text of another script may be the longest. Else by characters."""
    texts: list[str] = []
    for files in frozen_protocol(lock).corpus:
        rows = iter_table(campaign.protocol_dir / files.final, (files.text_column,))
        texts.extend(cells[0] or "" for _, cells in rows)
    unit, lengths = "tokens", _token_counts(campaign, lock, texts)
    if lengths is None:
        unit, lengths = "characters", list(map(len, texts))
    order = sorted(range(len(texts)), key=lambda at: (-lengths[at], at))
    return _Texts([texts[at] for at in order], [lengths[at] for at in order], unit)


def _token_counts(campaign: Campaign, lock: Lock, texts: Sequence[str]) -> list[int] | None:
    """Tokens of every text after cutting; None where the model has no tokenizer file that can be read here."""
    most = lock.judgement.max_length if frozen_protocol(lock).model.truncation else None
    try:
        counted = TokenizerFile(check_model(campaign, lock), special_tokens=True).count(texts)
        return [length if most is None else min(length, most) for length in counted]
    except (InputRefused, ImportError):  # its own tokenizer, without that file or the library
        return None


@dataclass(frozen=True)
class Trial:
    """What the tries of all variants share."""

    campaign: Campaign
    lock: Lock
    presence: Presence
    folder: Path
    stop: StopRequest
    worker: Sequence[str]

    def run(self, variant: LockedVariant, all_texts: _Texts) -> _Tried:
        """The longest texts as one batch, then some of every length, in a worker."""
        batch = variant.settings.batch_size or 1
        texts, lengths = all_texts.texts, all_texts.lengths
        step = max(1, len(texts) // _SAMPLE_DOCUMENTS)
        chosen = [*texts[:batch], *texts[batch::step]]
        length = sum(lengths[:batch]) + sum(lengths[batch::step])
        end = run_worker(
            self._job(variant, self._write(chosen)),
            environment=worker_environment(os.environ, variant.settings.threads),
            timeout_seconds=_TIME_SECONDS,
            stop=self.stop,
            command=self.worker,
        )
        status, error = verdict_on_end(end)
        name = f"variant {variant.id}"
        if status is not Status.COMPLETED or end.result is None:
            message = "" if error is None else f": {error.message}"
            return _Tried(Check(name, False, f"{status.value}{message}"), None, 0.0)
        facts = end.result["facts"]
        differences = variant.settings.differences(Settings(**facts["effective"]))
        if differences:
            return _Tried(Check(name, False, "; ".join(differences)), None, 0.0)
        seconds = float(end.result["pass_seconds"])
        whole = seconds * sum(lengths) / max(1, length)
        passed, memory = _memory(facts["memory"])
        longest = "the longest text fits" if batch == 1 else f"the {batch} longest texts fit in one batch"
        longest += "" if all_texts.unit == "tokens" else f" (by {all_texts.unit}: no tokenizer file to count tokens)"
        found = f"{longest}, {memory}; a whole pass takes roughly {whole:.1f} s"
        return _Tried(Check(name, passed, found), whole, end.elapsed_seconds - seconds)

    def _write(self, texts: Sequence[str]) -> CorpusSource:
        path = self.folder / "corpus.jsonl"
        lines = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return CorpusSource(str(path), "id", "text", len(texts))

    def _job(self, variant: LockedVariant, corpus: CorpusSource) -> Job:
        name = self.folder / variant.id
        return Job(
            attempt_id="rehearsal",
            corpus=corpus,
            model=model_source(self.lock, check_model(self.campaign, self.lock)),
            settings=variant.settings.as_json(),
            seed=frozen_protocol(self.lock).measurement.seeds[0],
            device=self.presence.torch_device or "cpu",
            warm_up_inputs="none",
            warm_up_passes=0,
            sample_interval_seconds=0.05,
            timed=False,
            matrix_rate=False,
            journal=f"{name}.jsonl",
            results=f"{name}.results",
            result=f"{name}.result",
            predictions=f"{name}.parquet",
            spawned_mono_ns=time.monotonic_ns(),
            parent_pid=os.getpid(),
        )


def _memory(peaks: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """The need of the device that decides: what its allocator held, else resident memory."""
    cards = [peak for peak in peaks if peak["counter"] == "torch.cuda.max_memory_reserved"] or list(peaks[:1])
    fullest = max(cards, key=lambda peak: (peak["bytes"] or 0) / (peak["capacity_bytes"] or 1))
    used, capacity = fullest["bytes"] or 0, fullest["capacity_bytes"]
    if not capacity:
        return True, f"peak {used / 2**20:.0f} MiB"
    return used <= _MEMORY_MARGIN * capacity, f"peak {used / 2**20:.0f} of {capacity / 2**20:.0f} MiB"


def _calendar(campaign: Campaign, lock: Lock, tried: Sequence[_Tried], end: datetime | None) -> list[Check]:
    """Whether the planned attempts fit into the plan's measuring time, the deadline and the rental."""
    known = [item for item in tried if item.pass_seconds is not None]
    if not known:
        return []
    rule = frozen_protocol(lock)
    passes = rule.measurement.passes_planned * len(rule.corpus) * len(rule.measurement.seeds)
    mean = sum((item.pass_seconds or 0.0) + item.around_seconds for item in known) / len(known)
    needed = Decimal(round(mean * passes * len(lock.variants)))
    shown = f"{passes * len(lock.variants)} attempts need roughly {hours_text(needed)}"
    window = access_window(read_plan(campaign.plan))
    planned = sum((task.seconds for task in window.tasks if task.kind == "measurement"), Decimal(0))
    checks = [Check("planned time", needed <= planned, f"{shown}, planned are {hours_text(planned)}")]
    slack, passed = window.deadline_slack_seconds, past_deadline(window)
    if passed is not None:
        checks.append(Check("deadline", False, passed))
    elif slack is not None:
        distance = f"{hours_text(abs(slack))} {'before' if slack >= 0 else 'AFTER'} the deadline"
        checks.append(Check("deadline", slack >= 0, f"planned delivery is {distance}"))
    if end is not None:
        left = Decimal(round((end - datetime.now(UTC)).total_seconds()))
        checks.append(Check("end of the rental", needed <= left, f"{shown}, left are {hours_text(left)}"))
    return checks
