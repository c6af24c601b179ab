"""A campaign to draw: three variants on one rental, one failing, memory samples, a calendar over a week."""

from __future__ import annotations

from pathlib import Path

from runner.evidence.attempt import Attempt, FileReference, Status
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import pretty_json, sha256_bytes
from runner.evidence.verdict import MetricValue
from runner.note.evidence import Evidence
from runner.protocol.schema import Plan, Task
from tests.decide.worlds import World, tariffs

MIB = 1 << 20


def rental_world() -> World:
    """b1, b4 and b8 on a priced GPU; b8 runs out of memory twice; another GPU is dearer."""
    world = World(
        prices=tariffs("A 3 150.00", "A 7 220.00", "A 30 700.00", "B 7 900.00 cards=2"),
        variants=("b1", "b4", "b8"),
        planned=5,
    )
    world.passes("A", "b1", 48.61, 49.02, 48.77, 51.3, 48.7)
    world.passes("A", "b4", 27.11, 27.4, 26.98, 27.2, 29.9)
    world.add("A", "b4", None, status=Status.KILLED, completed=44)
    world.passes("A", "b8", 19.2, 19.1)
    world.add("A", "b8", None, status=Status.OUT_OF_MEMORY, completed=71)
    world.add("A", "b8", None, status=Status.OUT_OF_MEMORY, completed=71)
    world.passes("B", "b4", 8.2, 8.3, 8.1, 8.4, 8.2)
    return world


def plan(world: World) -> Plan:
    """Monday to Friday in Berlin, with waiting over two nights."""

    def task(name: str, title: str, kind: str, **times: object) -> Task:
        return Task.model_validate({"id": name, "title": title, "kind": kind, **times})

    return Plan(
        zone="Europe/Berlin",
        deadline="2026-10-10T12:00",
        deliverables=tuple(world.corpora),
        task=(
            task(
                "prepare",
                "Start the rental, copy the campaign",
                "preparation",
                start="2026-10-05T09:00",
                duration="2:00:00",
            ),
            task("install", "Install and check", "installation", after=("prepare",), duration="1:30:00"),
            task(
                "measure", "Five passes per variant", "measurement", after=("install",), duration="24:00:00", passes=5
            ),
            task("wait", "Rental kept over night", "wait", after=("measure",), duration="12:00:00"),
            task("evaluate", "Verdicts on all attempts", "evaluation", start="2026-10-07T09:00", duration="6:00:00"),
            task(
                "collect",
                "Collect the results",
                "collection",
                start="2026-10-09T08:00",
                end="2026-10-09T09:00",
                after=("wait", "evaluate"),
            ),
            task(
                "deliver",
                "Decide, write and sign the note",
                "export",
                after=("collect",),
                duration="4:00:00",
                delivery=True,
            ),
        ),
    )


def evidence_of(world: World, root: Path, *, plan: Plan | None = None, memory: bool = True) -> Evidence:
    """Evidence as the note reads it, with memory samples on disk below `root`."""
    from runner.decide.balance import build_balance
    from runner.decide.choice import decide

    campaign = Campaign(root)
    attempts = tuple(_with_memory(attempt, campaign) if memory else attempt for attempt in world.attempts)
    used = plan or world.plan
    balance = build_balance(world.protocol, world.lock, used, world.prices, attempts, world.verdicts, world.manifests)
    return Evidence(
        campaign=campaign,
        protocol=world.protocol,
        plan=used,
        lock=world.lock,
        catalogue=world.prices,
        attempts=attempts,
        verdicts={verdict.attempt_id: verdict for verdict in world.verdicts},
        manifests=world.manifests,
        balance=balance,
        decision=decide(balance, world.protocol),
    )


def with_subgroups(world: World) -> World:
    """The same with a subgroup in every verdict, one of them below its minimum."""
    group = MetricValue(
        metric="accuracy",
        group="stratum=long",
        documents=10,
        fraction="8/10",
        value="0.8",
        minimum="0.75",
        met=True,
        interval_low="0.49",
        interval_high="0.943",
        interval_method="Wilson 95 %",
    )
    low = group.model_copy(update={"value": "0.7", "met": False, "interval_low": "0.40", "interval_high": "0.89"})
    world.verdicts = [
        verdict.model_copy(update={"metrics": (*verdict.metrics, low if number == 0 else group)})
        for number, verdict in enumerate(world.verdicts)
    ]
    return world


def _with_memory(attempt: Attempt, campaign: Campaign) -> Attempt:
    if attempt.pass_seconds is None:
        return attempt
    batch = int(attempt.variant_id[1:])
    steps = 60
    samples = [
        [
            attempt.pass_seconds * step / steps,
            {
                "resident": (600 + step) * MIB,
                "allocated:0": int((800 + 300 * batch * (0.4 + 0.6 * (step % 7) / 7)) * MIB),
                "reserved:0": (1000 + 320 * batch) * MIB,
            },
        ]
        for step in range(steps + 1)
    ]
    data = pretty_json({"schema_version": "memory-timeline/1", "interval_seconds": 0.05, "samples": samples})
    path = campaign.memory / f"{attempt.attempt_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    reference = FileReference(path=campaign.relative(path), sha256=sha256_bytes(data))
    return attempt.model_copy(update={"memory_timeline": reference})
