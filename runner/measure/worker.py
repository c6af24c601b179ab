"""The child of an attempt: `python -m runner.measure.worker JOB`, a fresh process, then gone; or `--kept` (`kept`).

It writes three files: a journal of events, the spool of finished documents, and one result at the
end. Whatever happens to it, the parent's `started` row is on disk already.
"""

from __future__ import annotations

import time

_STARTED_NS = time.monotonic_ns()

import gc  # noqa: E402 - the clock of the phase `process_start` stops first

gc.disable()  # nothing to collect while modules load

import contextlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Iterator, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from runner.measure.cgroups import ControlGroups  # noqa: E402
from runner.measure.failures import classified, place, told  # noqa: E402
from runner.measure.frequency import FrequencySampler  # noqa: E402
from runner.measure.job import ZERO_TOKENS, AttemptFailed, Job, Unsupported, ZeroTokens  # noqa: E402
from runner.measure.journal import Journal, ResultSpool, count_results  # noqa: E402
from runner.measure.kits import Kit, kit_for  # noqa: E402
from runner.measure.memory import PassMemory, limit_growth  # noqa: E402
from runner.measure.passes import PassResult, Texts, Work, run_pass  # noqa: E402
from runner.measure.repeat import Repeater  # noqa: E402
from runner.measure.team import Team, rank_count  # noqa: E402

if TYPE_CHECKING:
    from runner.measure.cards import CardConditions
    from runner.measure.clocks import Device
    from runner.measure.engines.base import LoadedEngine
    from runner.measure.kept import Life
    from runner.measure.team_report import Joined
    from runner.protocol.labels import Decoded, LabelTable

_PR_SET_PDEATHSIG = 1
_LISTED_IDS = 20


def main(arguments: list[str], kit: Kit | None = None) -> int:
    """Run the job of a file, or with `--kept` those that are ordered; exit status 0 whenever a result was written."""
    if arguments[0] == "--kept":
        from runner.measure.kept import serve

        return serve(kit, attempt)
    attempt(Job.load(Path(arguments[0])), kit)
    return 0


def attempt(job: Job, kit: Kit | None, life: Life | None = None) -> str:
    """One attempt with its journal and its result file; its status. `life`: of a process that serves several."""
    die_with_parent(job.parent_pid)
    journal = Journal(Path(job.journal))
    journal.event("start", attempt_id=job.attempt_id, total=job.corpus.documents, pid=os.getpid())
    result = Worker(job, journal, kit, life=life).run()
    Path(job.result).write_text(json.dumps(result, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    journal.event("end", status=result["status"], completed=result["completed"])
    journal.close()
    return str(result["status"])


class Worker:
    """One attempt, phase by phase; `run` gives the result whatever happens."""

    def __init__(
        self, job: Job, journal: Journal, kit: Kit | None, team: Team | None = None, life: Life | None = None
    ) -> None:
        self._job = job
        self._team = team  # set in a rank of several processes
        self._life = life  # set in a process that serves several attempts
        self._paid = life is not None and life.served > 0  # start and imports, by an earlier attempt
        self._journal = journal
        self._kit = kit
        self._spool = ResultSpool(Path(job.results))
        self._phases: dict[str, float] = {}
        if not self._paid:
            self._phases["process_start"] = (_STARTED_NS - job.spawned_mono_ns) / 1e9
        self._facts: dict[str, Any] = {}
        self._notes: list[str] = []
        self._limit: str | None = None
        self._current: str | None = None
        self._given: Texts | None = None
        self._error: Exception | None = None

    def run(self) -> dict[str, Any]:
        outcome: dict[str, Any] = {"status": "failed", "error": None, "completed": None}
        try:
            outcome = self._measure()
        except Unsupported as error:
            outcome |= {"status": "unsupported", "error": told("unsupported", error), "completed": 0}
        except AttemptFailed as error:
            outcome |= {"status": error.status, "error": told(error.kind, error, error.evidence)}
            outcome["completed"] = error.completed
        except ZeroTokens as error:
            message = f"{ZERO_TOKENS}, {self._named(error.positions)}"
            outcome |= {"status": "failed", "error": {"kind": ZERO_TOKENS, "message": message, "evidence": None}}
        except Exception as error:
            outcome |= classified(error, self._limit)
            self._notes.append(place(error))
            self._error = error  # freeing tensors of a card in error may abort the process: not before the result
        self._spool.close()
        if outcome["completed"] is None:
            outcome["completed"] = count_results(Path(self._job.results))
        found = {"phases": self._phases, "facts": self._facts, "notes": self._notes}
        return outcome | found | {"phase": self._current}  # where it ended

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._journal.event("phase", phase=name)
        self._current = name
        start = time.monotonic_ns()
        try:
            yield
        finally:
            self._phases[name] = (time.monotonic_ns() - start) / 1e9

    def _measure(self) -> dict[str, Any]:
        job = self._job
        if job.settings["engine"] == "command":
            from runner.measure.command_worker import run_command

            outcome = run_command(job, self._phase, self._facts, self._notes)
            self._phases["pass"] = outcome["pass_seconds"]
            return outcome
        if self._team is None and rank_count(job) > 1:
            return self._launched()
        kit = self._kit or kit_for(job.settings["engine"])
        with contextlib.nullcontext() if self._paid else self._phase("imports"):
            kit.imports()
            from runner.protocol.labels import LabelTable, decode
        gc.freeze()
        gc.enable()
        if self._life is not None:
            self._life.imported()
        table = _label_table(job, LabelTable)
        with self._phase("load"):
            device, counters = kit.device(job)
            if self._team is not None:
                self._team.join(job)
            engine = kit.load(job)
            cards = kit.conditions(job)
            if self._team is not None and cards is not None:
                cards.own_pids = self._team.pids
        loaded = engine.loaded
        self._facts = {"effective": loaded.effective, "model": loaded.model, "tokenizer": loaded.tokenizer}
        self._facts |= kit.facts(job)
        self._notes.extend(loaded.notes)
        margin = job.settings["extra"].get("memory_margin_mib")
        if margin is not None:
            self._limit = limit_growth(int(margin) << 20)
        texts = self._texts()
        if job.settings["compile"] != "none":
            with self._phase("compile"):
                engine.compile(texts)
        with self._phase("warm_up"):
            engine.warm_up(texts, job.warm_up_inputs, job.warm_up_passes)
            if job.settings["compile"] != "none":
                self._name_missing_shapes(engine, texts)
        memory = PassMemory(job.sample_interval_seconds, "cpu", _host_memory_bytes(), counters)
        self._journal.event("phase", phase="pass")
        self._current = "pass"
        with self._watched(memory, cards):
            done, work, part_seconds = self._pass(engine, device, lambda outputs: self._decoded(decode(outputs, table)))
        self._facts["texts_sha256"] = self._fingerprint()
        joined = self._joined(engine, work, part_seconds)
        if done is None:  # another rank has the whole result
            return {"status": "completed", "error": None, "completed": None}
        self._phases["pass"] = done.seconds
        return self._write(done, engine, joined)

    def _name_missing_shapes(self, engine: LoadedEngine, texts: Sequence[str]) -> None:
        """On disk before the timed part begins: what it will have to compile (TI-02)."""
        from runner.measure.engines.base import ChecksShapes

        missing = engine.missing_shapes(texts) if isinstance(engine, ChecksShapes) else ()
        if missing:
            self._journal.event("warm_up_check", not_compiled=list(missing[:_LISTED_IDS]), shapes=len(missing))
            self._notes.append(f"not compiled before the timed part: {', '.join(missing[:_LISTED_IDS])}")

    def _launched(self) -> dict[str, Any]:
        """Several processes: this one starts them and takes over what rank 0 reports."""
        from runner.measure.launch import launch

        outcome = launch(self._job)
        self._phases, self._facts = outcome.pop("phases", {}), outcome.pop("facts", {})
        self._notes, self._current = outcome.pop("notes", []), outcome.pop("phase", None)
        return outcome

    def _texts(self) -> list[str]:
        """The texts that this process will work on, for compiling and warming up."""
        texts = _read(self._job).texts
        if self._team is None:
            return texts
        return [texts[at] for at in self._team.positions(len(texts), self._job.settings["batch_size"])]

    def _pass(
        self, engine: LoadedEngine, device: Device, materialise: Callable[[Any], Decoded]
    ) -> tuple[PassResult[Decoded] | None, Work, dict[str, float]]:
        """One pass and this process's own work in it; of several processes only rank 0 has the result."""
        if self._team is None:
            done = run_pass(self._give, engine, device, materialise, self._spool)
            return done, done.work, done.part_seconds
        from runner.measure.team import run_share

        batch_size = self._job.settings["batch_size"]
        return run_share(self._give, engine, device, self._team, batch_size, materialise, self._spool)

    def _give(self) -> Texts:
        """The corpus, read inside the pass; kept, so that what the pass really got is fingerprinted afterwards."""
        self._given = _read(self._job)
        return self._given

    def _fingerprint(self) -> list[str]:
        """Of the ids and texts that the timed pass was given, computed outside of it (M8)."""
        from runner.evidence.canonical import records_sha256

        given = self._given
        return [] if given is None else [records_sha256(zip(given.ids, given.texts, strict=True))]

    def _joined(self, engine: LoadedEngine, work: Work, part_seconds: dict[str, float]) -> Joined | None:
        """What all ranks saw, on rank 0; it replaces this process's own facts."""
        if self._team is None:
            return None
        from runner.measure.team_report import join_reports

        joined = join_reports(self._team, self._job, engine, self._facts, work, part_seconds)
        if joined is not None:
            self._facts = joined.facts
            self._notes.extend(joined.notes)
        return joined

    @contextlib.contextmanager
    def _watched(self, memory: PassMemory, cards: CardConditions | None) -> Iterator[None]:
        """Memory and cards are sampled during the pass; what they saw is reported however it ends."""
        repeater = None
        if cards is not None:
            from runner.measure.cards import READ_SECONDS

            repeater = Repeater("cards", READ_SECONDS, cards.sample, cards.sample_all)
        clock = FrequencySampler()
        if repeater is not None:
            repeater.start()
        clock.start()
        memory.start()
        try:
            yield
        except Exception as error:
            self._report_non_finite(error)
            raise
        finally:
            timeline, peaks = memory.stop()
            if self._life is not None:
                peaks = self._life.peaks(peaks)
                self._facts["resident_at_start"] = self._life.resident_at_start
            self._facts |= {"memory": peaks, "timeline": timeline.as_json()}
            clock.stop()
            megahertz, why = clock.summary()
            self._facts["clock"] = {"values": megahertz, "reasons": why}
            if cards is not None and repeater is not None:
                repeater.stop()
                values, reasons, shared = cards.summary()
                self._facts["cards"] = {"values": values, "reasons": reasons, "shared": shared}

    @staticmethod
    def _decoded(decoded: Decoded) -> Decoded:
        decoded.labels  # noqa: B018 - labels as text are part of the pass
        return decoded

    def _write(self, done: PassResult[Decoded], engine: LoadedEngine, joined: Joined | None) -> dict[str, Any]:
        from runner.measure.predictions import write_predictions

        work = done.work if joined is None else joined.work
        with self._phase("evaluation"):
            texts = (self._given or _read(self._job)).texts
            cut_documents, cut = engine.cut_tokens(texts, work.lengths)
            recompilations, reason = engine.recompilations() if joined is None else joined.recompilations
            if recompilations and reason:
                self._notes.append(reason.partition("timed part, ")[2] or reason)  # the verdict names the shape (TI-02)
            efficiency = engine.efficiency(work, matrix_rate=joined is None and self._job.matrix_rate)
            if joined is not None and efficiency:
                efficiency["matrix_flops_rate"] = joined.matrix_rate
        with self._phase("writing"):
            bytes_sha, rows_sha = write_predictions(Path(self._job.predictions), done.ids, done.predictions)
        effective = self._facts["effective"]
        bounded = effective["grouping"].startswith("token-budget")
        if not bounded and work.largest_batch != min(effective["batch_size"], len(done.ids)):
            effective["batch_size"] = work.largest_batch
        return {
            "status": "completed",
            "error": None,
            "completed": len(done.ids),
            "pass_seconds": done.seconds,
            "part_seconds": done.part_seconds,
            "overlapping_parts": list(work.overlapping),
            "tokens": {
                "real_tokens": sum(work.lengths),
                "computed_tokens": work.computed_tokens,
                "truncated_documents": cut_documents,
                "cut_tokens": cut,
            },
            "device_seconds": work.device_seconds,
            "efficiency": efficiency,
            "recompilations": recompilations,
            "recompilations_reason": reason,
            "predictions": {"sha256": bytes_sha, "records_sha256": rows_sha, "rows": len(done.ids)},
        }

    def _report_non_finite(self, error: Exception) -> None:
        """A pass with NaN or infinite logits has failed; those ids get no label (MO-10)."""
        from runner.protocol.labels import NonFiniteLogits

        if not isinstance(error, NonFiniteLogits):
            return
        message = f"{error.what}: {self._listed(error.rows)}"
        completed = self._job.corpus.documents - len(error.rows)
        raise AttemptFailed("failed", "non-finite logits", message, completed=completed) from None

    def _named(self, positions: Sequence[int]) -> str:
        """`id e1`, or `ids e1, e2`."""
        return ("id " if len(positions) == 1 else "ids ") + self._listed(positions)

    def _listed(self, positions: Sequence[int]) -> str:
        """Ids of these documents; a long list is cut and says so."""
        ids = _read(self._job).ids
        more = "" if len(positions) <= _LISTED_IDS else f" and {len(positions) - _LISTED_IDS} more"
        return ", ".join(ids[at] for at in positions[:_LISTED_IDS]) + more


def _label_table(job: Job, table: type[LabelTable]) -> LabelTable:
    from runner.protocol.schema import SingleLogit

    single = None if job.model.single_logit is None else SingleLogit.model_validate(job.model.single_logit)
    return table(job.model.labels, single)


def _read(job: Job) -> Texts:
    """Ids and texts in file order; identity was checked at the freeze, the bytes by the parent."""
    from runner.corpus.table import iter_table

    source = job.corpus
    ids, texts = [], []
    for _, (identifier, text) in iter_table(Path(source.path), (source.id_column, source.text_column)):
        ids.append(identifier or "")
        texts.append(text or "")
    return Texts(ids, texts)


def _host_memory_bytes() -> int | None:
    """Capacity of the host: what a container may use where it has a limit, else what is built in."""
    limit = ControlGroups().memory_limit_bytes()
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return limit
    return installed if limit is None else min(limit, installed)


def die_with_parent(parent_pid: int) -> None:
    """If the parent is lost, so is the child: no orphan goes on heating the device (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)  # it was lost before the line above


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # nothing is left to do: skip the teardown of torch
