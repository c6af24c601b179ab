"""The same small world for the real rooms: lock, plan, tariffs and records of a `tests.oracle.choosing.Case`."""

from __future__ import annotations

from typing import Any

from runner.decide.choice import decide
from runner.decide.model import Balance, Decision
from runner.evidence.attempt import Settings, Slot, Status
from runner.pricing.core import Catalogue, parse_catalogue
from runner.protocol.schema import Plan, Task
from tests.decide.worlds import TARIFF_HEADER, World
from tests.oracle.choosing import Case, Job, Price


class Built(World):
    """A world with the calendar of the case in place of the standard one."""

    case: Case

    @property
    def plan(self) -> Plan:
        return Plan(
            zone=self.case.zone,
            deadline=self.case.deadline,
            deliverables=self.case.corpora,
            billing=("package", "hourly") if self.case.hourly else ("package",),
            extra_periods=self.case.extra_periods,
            lots=self.case.lots,
            task=tuple(_task(job) for job in self.case.jobs),
        )


def _task(job: Job) -> Task:
    kind: Any = job.kind
    lasts = None
    if job.seconds is not None:
        lasts = f"{job.seconds // 3600}:{job.seconds // 60 % 60:02d}:{job.seconds % 60:02d}"
    return Task(
        id=job.id, title=job.id, kind=kind, start=job.start, end=job.end, duration=lasts, after=job.after,
        delivery=job.delivery, configuration=job.variant, corpus=job.corpus, passes=job.passes,
    )  # fmt: skip


def _catalogue(prices: tuple[Price, ...]) -> Catalogue:
    lines = [TARIFF_HEADER + ",billing"]
    for price in prices:
        days = "" if price.days is None or price.amount is None else str(price.days)
        billing = "hourly" if price.days is None and price.amount is not None else "package"
        lots = "" if price.available is None else str(price.available)
        money = f"{days},{price.amount or ''},EUR,2026-09-24,test"
        lines.append(f"{price.gpu},{price.gpu} card,{price.cards},24,{money},{lots},{billing}")
    return parse_catalogue(("\n".join(lines) + "\n").encode(), "tariffs.csv")


def build(case: Case) -> tuple[Built, dict[str, str]]:
    """The world and its exclusions."""
    variants = sorted({row.variant for row in case.rows} | set(case.devices))
    world = Built(
        prices=_catalogue(case.prices),
        variants=variants,
        settings={
            name: Settings(batch_size=int(name[1:]), max_length=512, devices=case.devices.get(name, 1))
            for name in variants
        },
        corpora=case.corpora,
        min_accepted=case.least,
        planned=case.planned,
        passes_most=case.most,
        seeds=case.seeds,
        deadline=case.deadline,
    )
    world.case = case
    world.lock = world.lock.model_copy(
        update={
            "variants": tuple(
                variant.model_copy(update={"added_later": variant.id in case.added_later})
                for variant in world.lock.variants
            )
        }
    )
    excluded = {}
    for row in case.rows:
        made = world.add(
            row.gpu, row.variant, row.seconds, status=Status(row.status), accepted=row.accepted, corpus=row.corpus,
            seed=row.seed, truncated=row.cut, stack=row.stack, added_later=row.variant in case.added_later,
        )  # fmt: skip
        world.attempts[-1] = made.model_copy(update={"slot": Slot(pass_index=row.pass_index, position=0)})
        if row.excluded:
            excluded[made.attempt_id] = "power cut"
    return world, excluded


def really(case: Case) -> tuple[Balance, Decision]:
    world, excluded = build(case)
    balance = world.balance(exclusions=excluded)
    return balance, decide(balance, world.protocol)
