"""`measure`: the schedule from where it stands, each attempt in a process by the frozen policy, each with its row."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from runner.errors import InputRefused, NotAccepted
from runner.evidence.attempt import Attempt, Status, WorkerProcess
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import sha256_bytes
from runner.evidence.files import campaign_lock, remove_interrupted_writes, write_atomic
from runner.evidence.machine import machine_id
from runner.evidence.store import AttemptStore
from runner.evidence.utilisation import device_of, fastest_rates
from runner.measure.call import Outcome as Outcome
from runner.measure.call import Progress as Progress
from runner.measure.call import Request as Request
from runner.measure.clocks import wall_clock_moved, wall_clock_note
from runner.measure.devices import Lookout, Presence
from runner.measure.environment import make_manifest, worker_environment
from runner.measure.inputs import InputWatch, Seen
from runner.measure.installed import refuse_without_packages
from runner.measure.job import Job
from runner.measure.keeper import Keeper
from runner.measure.nodes import Conductor, conducting
from runner.measure.rows import WorkFiles, download_phase, final_row, lost_row, unavailable
from runner.measure.schedule import Planned, missing, refuse_unequal, schedule
from runner.measure.sources import corpus_files, corpus_source, frozen_protocol, model_source, read_ids
from runner.measure.supervisor import WORKER, ChildEnd, StopRequest, refuse_beside, run_worker
from runner.measure.telemetry import HostSnapshot, host_conditions, with_cards, with_clock, with_efficiency
from runner.protocol.freeze import append_variants, load_lock, with_variants
from runner.protocol.labels import LabelTable, table_of
from runner.protocol.modelfiles import checked_model
from runner.protocol.process import KEPT, refuse_unkeepable
from runner.protocol.schema import Lock, LockedVariant
from runner.protocol.variants import batch_series
from runner.units import parse_decimal, parse_utc, utc_text

_CLOCK_TOLERANCE_SECONDS = 2.0


def measure(campaign: Campaign, request: Request, progress: Progress, worker: Sequence[str] = WORKER) -> Outcome:
    """Run every attempt of the schedule that is still missing. Refuses before the first one, never after."""
    try:
        with campaign_lock(campaign), StopRequest().listening() as stop:
            return Measurement(campaign, request, progress, stop, worker).run()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG):
            raise
        raise NotAccepted(
            f"the records cannot be written: {error.strerror}",
            file=error.filename,
            next_step="make room, then run the same command again: it goes on with what is missing",
        ) from None


def recover(campaign: Campaign) -> tuple[str, ...]:
    """Turn rows of lost parents into `lost`, once; warnings in words. Call with the campaign lock held."""
    store = AttemptStore(campaign)
    machine = machine_id()
    for attempt in store.unfinished(machine):
        files = WorkFiles(campaign, attempt.attempt_id)
        ids, table = _ids_and_table(campaign, attempt)
        store.finish(lost_row(attempt, files, ids, table))
    for path in campaign.journals.glob(".*"):
        path.unlink()  # a parent may also be lost after its row was written and before it had cleaned up
    return (*remove_interrupted_writes(campaign.records), *store.recover(machine))


def _ids_and_table(campaign: Campaign, attempt: Attempt) -> tuple[tuple[str, ...], LabelTable | None]:
    """For partial predictions of a lost attempt; without its lock and corpus they are left out."""
    try:
        lock = load_lock(campaign)
        if lock.lock_sha256 != attempt.lock_sha256:
            return (), None
        files = corpus_files(lock, attempt.corpus_id)
        return read_ids(campaign, files), table_of(lock)
    except (InputRefused, NotAccepted, StopIteration):
        return (), None


class Measurement:
    """One call of `measure`, with everything that its attempts share."""

    def __init__(
        self, campaign: Campaign, request: Request, progress: Progress, stop: StopRequest, worker: Sequence[str]
    ) -> None:
        self._campaign = campaign
        self._request = request
        self._progress = progress
        self._stop = stop
        self._worker = worker
        self._store = AttemptStore(campaign)
        self._warnings = list(recover(campaign))
        self._lock = load_lock(campaign)
        if worker == WORKER and any(variant.settings.engine != "command" for variant in self._lock.variants):
            refuse_without_packages()
        self._protocol = frozen_protocol(self._lock)
        self._variants = self._wanted_variants()
        model = checked_model(campaign, self._lock)
        self._model = model_source(self._lock, model.path)
        self._download_seconds = model.download_seconds
        self._table = table_of(self._lock)
        self._inputs = InputWatch(campaign, self._lock, self._protocol.corpus, model)
        self._ids = self._inputs.ids
        self._conductor: Conductor | None = None
        refuse_unkeepable(self._protocol, self._lock.variants)
        self._stuck: str | None = None  # a process that could not be ended, in words
        self._keeper = Keeper() if self._lock.process_policy == KEPT else None
        self._warnings += clock_warnings(self._lock, datetime.now(UTC))
        self._collected_at = utc_text(datetime.now(UTC).replace(microsecond=0))

    def run(self) -> Outcome:
        gpu, lock_sha256 = self._request.gpu, self._lock.lock_sha256
        measured = [row for row in self._store.read_all() if row.lock_sha256 == lock_sha256]
        planned = list(schedule(self._variants, list(self._ids), self._protocol.measurement.seeds, self._passes()))
        left = missing(planned, measured, gpu)
        rule, passes = self._protocol.measurement, self._passes()
        if left and passes > rule.passes_planned:
            asked = {variant.id for variant in self._variants}
            others = [variant for variant in self._lock.variants if variant.id not in asked]
            refuse_unequal(schedule(others, list(self._ids), rule.seeds, passes), measured, gpu, passes)
        nodes = 1 if self._request.nodes is None else self._request.nodes.nnodes
        here = Lookout(gpu, self._campaign.tariffs, nodes)
        earlier = [row for row in measured if row.gpu_declared == gpu and row.status is Status.COMPLETED]
        absent = [item for item in left if here.presence(item.variant.settings.devices).torch_device is None]
        for text in append_variants(self._campaign, self._lock):  # only now: a refused call writes nothing
            self._progress.notice(text)
            self._warnings.append(text)
        self._progress.begin(left, len(planned), earlier)
        if absent:
            # One row per variant says it all; the slots stay open for the right machine.
            first = min(item.slot.pass_index for item in absent)
            left = [item for item in left if item not in absent or item.slot.pass_index == first]
            problem = here.presence(absent[0].variant.settings.devices).problem
            self._progress.not_here(problem or "no device", sum(item in absent for item in left))
        written = []
        try:
            nodes_wanted = self._request.nodes if left else None
            with conducting(nodes_wanted, lock_sha256, lambda: self._stop.name is not None) as self._conductor:
                for item in left:
                    if self._stop.name is not None:
                        break
                    written.append(self._attempt(item, here.presence(item.variant.settings.devices)))
                    refuse_beside(self._stuck)
                    if self._conductor is not None:
                        self._conductor.refuse_if_gone()
        finally:
            self._end_kept_process()
        rows = [row for row in self._store.scan().attempts if row.lock_sha256 == lock_sha256]
        return Outcome(
            written=tuple(written),
            wanted=len(planned),
            completed=len(planned) - len(_without(Status.COMPLETED, planned, rows, gpu)),
            left=len(missing(planned, rows, gpu)),
            stopped_by=self._stop.name,
            warnings=tuple(self._warnings),
        )

    def _wanted_variants(self) -> tuple[LockedVariant, ...]:
        """Variants asked for; those of a batch series that the lock does not have yet are added to it (M3)."""
        request = self._request
        if request.batches:
            wanted = batch_series(request.batches, self._protocol, max_length=self._lock.judgement.max_length)
            known = {variant.id for variant in self._lock.variants}
            new = [variant for variant in wanted if variant.id not in known]
            self._lock = with_variants(self._campaign, self._lock, new)
            ids = [variant.id for variant in wanted]
            by_id = {variant.id: variant for variant in self._lock.variants}
            return tuple(by_id[name] for name in ids)
        if request.series is None:
            return self._lock.variants
        found = tuple(
            variant
            for variant in self._lock.variants
            if request.series in (variant.series, variant.id, *variant.also_in)
        )
        if not found:
            names = sorted({variant.series or variant.id for variant in self._lock.variants})
            raise InputRefused(
                "no series or variant of the lock has this name",
                column="--series",
                value=request.series,
                next_step="use one of: " + ", ".join(names),
            )
        return found

    def _passes(self) -> int:
        """Passes per variant: as planned, or more within the frozen maximum, for all variants alike (M3)."""
        rule = self._protocol.measurement
        passes = self._request.passes or rule.passes_planned
        if not 1 <= passes <= rule.passes_most:
            raise InputRefused(
                f"the protocol allows 1 to {rule.passes_most} passes",
                column="--passes",
                value=passes,
                next_step="choose a number within the frozen maximum",
            )
        return passes

    # ---- one attempt ----

    def _attempt(self, item: Planned, presence: Presence) -> Attempt:
        inputs = self._inputs.before(item.corpus_id)
        wall_ns, mono_ns = time.time_ns(), time.monotonic_ns()
        started = self._started(item, presence, wall_ns)
        self._store.start(started)
        self._progress.started(item)
        files = WorkFiles(self._campaign, started.attempt_id)
        if presence.torch_device is None:
            row = started.model_copy(update=unavailable(presence.problem, presence.found))
        else:
            row = self._run(started, item, presence.torch_device, files, inputs)
        if row.status is not Status.COMPLETED:
            self._end_kept_process()  # whatever went wrong must not reach the next attempt
        moved = wall_clock_moved(wall_ns, time.time_ns(), mono_ns, time.monotonic_ns())
        note = wall_clock_note(moved)
        row = row.model_copy(
            update={
                "ended_at_utc": _utc(time.time_ns()),
                "wall_clock_moved_seconds": round(moved, 3) + 0.0,  # no -0.0
                "notes": (*row.notes, note) if note else row.notes,
            }
        )
        self._store.finish(row)
        files.remove_temporary()
        self._progress.ended(row)
        return row

    def _started(self, item: Planned, presence: Presence, wall_ns: int) -> Attempt:
        link = self._store.next_link(machine_id())
        name = f"{link.index:04d}-{self._request.gpu}-{item.variant.id}-p{item.slot.pass_index + 1}"
        attempt_id = f"{name[:100]}-{secrets.token_hex(4)}"
        keeper = None if presence.torch_device is None else self._keeper
        return Attempt(
            attempt_id=attempt_id,
            chain=link,
            protocol_name=self._protocol.question.name,
            protocol_revision=self._protocol.question.revision,
            lock_sha256=self._lock.lock_sha256,
            nonce=self._lock.nonce,
            gpu_declared=self._request.gpu,
            devices_found=presence.found,
            device_uuid_hashes=presence.uuid_sha256,
            device_match=presence.match,
            variant_id=item.variant.id,
            series=item.variant.series,
            added_later=item.variant.added_later,
            corpus_id=item.corpus_id,
            seed=item.seed,
            slot=item.slot,
            retry_of=item.retry_of,
            status=Status.STARTED,
            started_at_utc=_utc(wall_ns),
            expected_documents=len(self._ids[item.corpus_id]),
            requested=item.variant.settings,
            process=None if keeper is None else keeper.serving(attempt_id, _utc(wall_ns)),
        )

    def _run(self, started: Attempt, item: Planned, device: str, files: WorkFiles, inputs: Seen) -> Attempt:
        environment = worker_environment(os.environ, item.variant.settings.threads)
        before = HostSnapshot.read()
        job = self._job(started, device, files)
        if self._conductor is not None:
            timeout = self._protocol.measurement.timeout_seconds
            job = self._conductor.spread(job, started.corpus_id, timeout)
        end = self._served(job, started.process, environment)
        self._stuck = end.stuck or end.left
        limit = parse_decimal(self._protocol.rules.shared_from_cpu_cores, name="shared_from_cpu_cores")
        after = HostSnapshot.read()
        conditions = host_conditions(before, after, end.cpu_seconds, end.elapsed_seconds, float(limit))
        conditions = with_clock(conditions, end.result or {})
        conditions = with_cards(conditions, end.result or {}, on_card=device != "cpu")
        conditions = with_efficiency(conditions, end.result or {}, self._rate(started))
        row = final_row(started, end, files, self._ids[item.corpus_id], self._table)
        if self._conductor is not None:
            told = self._conductor.ended(job, completed=row.status is Status.COMPLETED)
            row = row.model_copy(update={"notes": (*row.notes, *told)})
        seen = self._inputs.after(item.corpus_id, inputs, (end.result or {}).get("facts", {}).get("texts_sha256"))
        download = download_phase(self._download_seconds)
        self._download_seconds = None  # paid once, by the first attempt
        return row.model_copy(
            update={
                "phases": (download, *row.phases),
                "telemetry": conditions.values,
                "telemetry_reasons": conditions.reasons,
                "device_shared": conditions.shared,
                "device_shared_reason": conditions.shared_reason,
                "manifest_sha256": self._manifest(end, environment),
                "inputs": seen,
                "inputs_reason": None,
            }
        )

    def _served(self, job: Job, process: WorkerProcess | None, environment: dict[str, str]) -> ChildEnd:
        """The attempt in the process that the policy gives it."""
        serve = partial(run_worker, watch=None if job.launch is None else self._conductor)
        if self._keeper is not None and process is not None:
            serve = partial(self._keeper.run, process=process)  # never of several nodes
        return serve(
            job,
            environment=environment,
            timeout_seconds=self._protocol.measurement.timeout_seconds,
            stop=self._stop,
            tick=self._progress.tick if self._progress.live else None,
            command=self._worker,
        )

    def _end_kept_process(self) -> None:
        if self._keeper is not None:
            self._stuck = self._keeper.end() or self._stuck

    def _job(self, started: Attempt, device: str, files: WorkFiles) -> Job:
        rule = self._protocol
        corpus = corpus_files(self._lock, started.corpus_id)
        files.journal.parent.mkdir(parents=True, exist_ok=True)
        return Job(
            attempt_id=started.attempt_id,
            corpus=corpus_source(self._campaign, corpus, started.expected_documents),
            model=self._model,
            settings=started.requested.as_json(),
            seed=started.seed,
            device=device,
            warm_up_inputs=rule.warm_up.inputs,
            warm_up_passes=rule.warm_up.passes,
            warm_up_card_shapes=rule.warm_up.card_shapes,
            warm_up_card_seconds=float(parse_decimal(rule.warm_up.card_least_seconds, name="card_least_seconds")),
            sample_interval_seconds=float(
                parse_decimal(rule.measurement.sample_interval_seconds, name="sample_interval_seconds")
            ),
            timed=True,
            matrix_rate=started.slot.pass_index == 0,
            journal=str(files.journal.resolve()),
            results=str(files.results.resolve()),
            result=str(files.result.resolve()),
            predictions=str(files.predictions.resolve()),
            spawned_mono_ns=time.monotonic_ns(),
            parent_pid=os.getpid(),
        )

    def _rate(self, started: Attempt) -> float | None:
        """Fastest matrix rate of the same device, precision and threads in the campaign's earlier attempts."""
        return fastest_rates(self._store.scan().attempts).get(device_of(started))

    def _manifest(self, end: ChildEnd, environment: dict[str, str]) -> str | None:
        """Write the manifest once per distinct content; None when the worker could not tell."""
        facts = (end.result or {}).get("facts", {})
        if "runtime" not in facts:
            return None
        manifest = make_manifest(facts, collected_at_utc=self._collected_at, environment=environment)
        data = manifest.dump()
        sha256 = sha256_bytes(data)
        path = self._campaign.manifests / f"{sha256}.json"
        if not path.exists():
            write_atomic(path, data)
        return sha256


def clock_warnings(lock: Lock, now: datetime) -> list[str]:
    """Said before anything is measured: the attempts will be accepted by their nonce, the calendar is wrong (TI-11)."""
    behind = (parse_utc(lock.frozen_at_utc) - now).total_seconds()
    if behind < _CLOCK_TOLERANCE_SECONDS:
        return []
    return [f"this machine's clock is {behind:.0f} s behind the freeze: set it, or the calendar of the note is wrong"]


def _without(status: Status, planned: Sequence[Planned], rows: Sequence[Attempt], gpu: str) -> list[Planned]:
    """Slots that have no row of this status."""
    return missing(planned, [row for row in rows if row.status is status], gpu)


def _utc(wall_ns: int) -> str:
    return utc_text(datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC))
