"""What all ranks of a pass saw, joined into one report: peaks apart, work added up, settings compared (M24, M26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.measure.job import Job
from runner.measure.memory import THIS_PROCESS, Timeline
from runner.measure.passes import Work
from runner.measure.team import Team, share

if TYPE_CHECKING:
    from runner.measure.engines.base import LoadedEngine

_OWN_PARTS = ("read", "tokenise", "transfer", "inference")


@dataclass(frozen=True)
class Joined:
    """One report of all ranks. `matrix_rate`: sum over the ranks, measured at the same time."""

    work: Work
    facts: dict[str, Any]
    notes: tuple[str, ...]
    recompilations: tuple[int | None, str | None]
    matrix_rate: float | None


@dataclass(frozen=True)
class RankReport:
    """One rank after the pass. `facts` are the worker's: settings in effect, cards, memory."""

    rank: int
    node: int
    device: str
    work: Work
    part_seconds: dict[str, float]
    facts: dict[str, Any]
    recompilations: int | None
    recompilations_reason: str | None
    matrix_rate: float | None
    host: dict[str, Any]


def join_reports(
    team: Team, job: Job, engine: LoadedEngine, facts: dict[str, Any], work: Work, part_seconds: dict[str, float]
) -> Joined | None:
    """Every rank calls this after the pass; the joined report on rank 0, None elsewhere."""
    rate = None
    if job.matrix_rate:
        # All at once, as in the pass: cores that ranks share are shared here too.
        team.barrier()
        measured = engine.efficiency(work, matrix_rate=True).get("matrix_flops_rate")
        rate = measured if isinstance(measured, float) else None
    host = _host() if team.nodes > 1 and team.local_rank == 0 else {}
    count, reason = engine.recompilations()
    reports = team.gather(
        RankReport(team.rank, team.node, team.device(job), work, part_seconds, facts, count, reason, rate, host)
    )
    if reports is None:
        return None
    counts = [report.recompilations for report in reports]
    reasons = [report.recompilations_reason for report in reports if report.recompilations_reason]
    rates = [report.matrix_rate for report in reports]
    return Joined(
        work=joined_work(reports, job.corpus.documents, job.settings["batch_size"]),
        facts=joined_facts(reports, team, job.settings),
        notes=notes(reports, team, job.settings["devices"] or 1),
        recompilations=(None if None in counts else sum(count or 0 for count in counts), "; ".join(reasons) or None),
        matrix_rate=None if None in rates else sum(rate or 0.0 for rate in rates),
    )


def _host() -> dict[str, Any]:
    """The machine of this node, for the manifest."""
    from runner.evidence.machine import machine_id
    from runner.measure.environment import host_facts, packages

    return {"machine_id": machine_id(), "host": host_facts()[0], "packages": packages()}


def joined_work(reports: Sequence[RankReport], documents: int, batch_size: int) -> Work:
    """Work of the whole pass; lengths in corpus order. `device_seconds` is the mean over the devices."""
    lengths = [0] * documents
    whole = Work()
    for report in reports:
        for position, length in zip(
            share(documents, batch_size, report.rank, len(reports)), report.work.lengths, strict=True
        ):
            lengths[position] = length
        whole.computed_tokens += report.work.computed_tokens
        whole.rectangles.extend(report.work.rectangles)
        whole.batches += report.work.batches
        whole.largest_batch = max(whole.largest_batch, report.work.largest_batch)
        whole.overlapping = report.work.overlapping
    whole.lengths = lengths
    busy = [report.work.device_seconds for report in reports if report.work.device_seconds is not None]
    whole.device_seconds = sum(busy) / len(busy) if len(busy) == len(reports) else None
    return whole


def joined_facts(reports: Sequence[RankReport], team: Team, job_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of rank 0 with everything that the others add; memory of every rank under its own name."""
    facts = dict(reports[0].facts)
    facts["effective"] = _effective(reports, team, job_settings)
    facts["memory"] = [peak for report in reports for peak in _peaks(report, team)]
    facts["timeline"] = _timeline(reports)
    facts["processes"] = len(reports)
    facts["texts_sha256"] = sorted({sha256 for report in reports for sha256 in report.facts.get("texts_sha256", ())})
    if any("cards" in report.facts for report in reports):
        facts["cards"] = _cards(reports, team)
    facts["gpus"] = [gpu for report in _first_of_nodes(reports) for gpu in report.facts.get("gpus", ())]
    if team.nodes > 1:
        facts["nodes"] = [
            report.host | {"node": report.node, "gpus": report.facts.get("gpus", [])}
            for report in _first_of_nodes(reports)
        ]
    return facts


def notes(reports: Sequence[RankReport], team: Team, devices: int) -> tuple[str, ...]:
    """What a reader must know before comparing such a pass with one of a single process."""
    longest = max(sum(report.part_seconds.get(part, 0.0) for part in _OWN_PARTS) for report in reports)
    shortest = min(sum(report.part_seconds.get(part, 0.0) for part in _OWN_PARTS) for report in reports)
    found = [
        f"{len(reports)} processes ({team.backend}); busy seconds of the parts are those of rank 0; "
        f"ranks were busy for {shortest:.3f} to {longest:.3f} s"
    ]
    if reports[0].device == "cpu" and devices > 1:
        found.append("devices on the CPU are processes that share its cores: this says nothing about several cards")
    return tuple(found)


def _effective(reports: Sequence[RankReport], team: Team, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """One value where all ranks agree; where they do not, None: it is unknown what the attempt ran with."""
    settings = [report.facts["effective"] for report in reports]
    found: dict[str, Any] = {
        name: value if all(other.get(name) == value for other in settings) else None
        for name, value in settings[0].items()
    }
    found["extra"] = dict(settings[0]["extra"]) | {"distributed_backend": team.backend}
    if team.nodes > 1:
        found["extra"]["nodes"] = team.nodes
    on_host = reports[0].device == "cpu"
    devices = (wanted["devices"] or 1) if on_host else len({(report.node, report.device) for report in reports})
    return found | {"devices": devices, "workers": len(reports) // devices}


def _peaks(report: RankReport, team: Team) -> list[dict[str, Any]]:
    """Peaks of one rank: its own process, its own card."""
    node = f"node{report.node} " if team.nodes > 1 else ""
    whose = f"worker process of rank {report.rank} only"
    return [
        peak | {"device": node + str(peak["device"]), "scope": str(peak["scope"]).replace(THIS_PROCESS, whose)}
        for peak in report.facts.get("memory", ())
    ]


def _timeline(reports: Sequence[RankReport]) -> dict[str, Any]:
    """Samples of all ranks by time; a counter carries the rank's number. The starts are one barrier apart."""
    samples = [
        [at, {name.partition(":")[0] + (f":{report.rank}" if report.rank or ":" in name else ""): value
              for name, value in values.items()}]
        for report in reports for at, values in report.facts.get("timeline", {}).get("samples", ())
    ]  # fmt: skip
    interval = float(reports[0].facts["timeline"]["interval_seconds"])
    return Timeline(interval).as_json() | {"samples": sorted(samples, key=lambda sample: sample[0])}


def _cards(reports: Sequence[RankReport], team: Team) -> dict[str, Any]:
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    shared: list[bool] = []
    for report in reports:
        cards = report.facts.get("cards")
        if cards is None:
            continue
        index = report.device.partition(":")[2] or "0"
        name = (f"node{report.node}." if team.nodes > 1 else "") + f"card{index}"
        values |= {key.replace("card0.", f"{name}.", 1): value for key, value in cards["values"].items()}
        reasons |= cards["reasons"]
        if cards["shared"] is not None:
            shared.append(cards["shared"])
    return {"values": values, "reasons": reasons, "shared": any(shared) if shared else None}


def _first_of_nodes(reports: Sequence[RankReport]) -> list[RankReport]:
    seen: dict[int, RankReport] = {}
    for report in reports:
        seen.setdefault(report.node, report)
    return list(seen.values())
