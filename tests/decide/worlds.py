"""Real records for small worlds of the decision: protocol, lock, plan, tariffs, attempts, verdicts, manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.decide.balance import build_balance
from runner.decide.choice import decide
from runner.decide.model import Balance, BalanceRow, Decision
from runner.evidence.attempt import Attempt, ChainLink, ErrorInfo, MemoryPeak, Settings, Slot, Status, TokenCounts
from runner.evidence.manifest import Compatibility, Gpu, Manifest
from runner.evidence.verdict import Check, MetricValue, Verdict
from runner.pricing.core import Catalogue, parse_catalogue
from runner.protocol.schema import (
    CorpusFiles,
    Expense,
    Judgement,
    Lock,
    LockedCorpus,
    LockedVariant,
    Measurement,
    Model,
    Plan,
    Protocol,
    Quality,
    Question,
    Task,
)

NONE = "0" * 64
TARIFF_HEADER = (
    "gpu,device_pattern,cards_per_lot,memory_gib_per_card,days,price_per_lot,currency,catalogue_date,source,"
    "lots_available"
)
_HOURLY = "hourly"


def tariffs(*lines: str) -> Catalogue:
    """Catalogue from lines such as `A 3 300.00`, `A 3 900.00 cards=2 lots=1`, `A hourly 2.50`; `A`: no price."""
    rows = [TARIFF_HEADER + ",billing"]
    for line in lines:
        gpu, *rest = line.split()
        options = dict(item.split("=") for item in rest if "=" in item)
        days, price = ([item for item in rest if "=" not in item] + ["", ""])[:2]
        billing, days = (_HOURLY, "") if days == _HOURLY else ("package", days)
        money = f"{days},{price},EUR,2026-09-24" if price else ",,EUR,2026-09-24"
        lot = f"{gpu},{gpu} card,{options.get('cards', '1')},24"
        rows.append(f"{lot},{money},test catalogue,{options.get('lots', '')},{billing}")
    return parse_catalogue(("\n".join(rows) + "\n").encode(), "tariffs.csv")


@dataclass
class World:
    """Attempts and everything around them. The plan: 1 h before, one measured pass per corpus, 1 h collection."""

    prices: Catalogue = field(default_factory=lambda: tariffs("A 3 300.00", "B 3 310.00"))
    variants: Sequence[str] = ("b1",)
    settings: Mapping[str, Settings] = field(default_factory=dict)
    corpora: Sequence[str] = ("final",)
    documents: int = 100
    min_accepted: int = 3
    planned: int = 3
    passes_most: int = 10
    seeds: tuple[int, ...] = (0,)
    deadline: str = "2026-12-31T09:00:00Z"
    planned_hours: str = "24:00:00"
    lots: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    expenses: Sequence[Expense] = ()
    attempts: list[Attempt] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.protocol = Protocol(
            question=Question(name="small", revision=1, text="Which one costs least?", scenario="offline"),
            corpus=tuple(CorpusFiles(id=corpus, final=f"{corpus}.csv") for corpus in self.corpora),
            model=Model(source="model"),
            quality=Quality(metric="accuracy", threshold="0.80", max_drop="0.02", min_agreement="0.95"),
            measurement=Measurement(
                passes_planned=self.planned,
                min_accepted=self.min_accepted,
                passes_most=self.passes_most,
                seeds=self.seeds,
            ),
        )
        content = self.protocol.as_json()
        judgement = Judgement(
            protocol={key: value for key, value in content.items() if key not in ("series", "variant")},
            protocol_sha256=NONE,
            corpora=tuple(
                LockedCorpus(
                    id=corpus,
                    documents=self.documents,
                    final=(),
                    records_sha256=NONE,
                    ids_sha256=NONE,
                    labels_sha256=NONE,
                )
                for corpus in self.corpora
            ),
            model_files=(),
            model_revision=None,
            label_table=("neg", "pos"),
            max_length=512,
            deliverables=tuple(self.corpora),
            deadline=self.deadline,
        )
        self.lock = Lock(
            judgement=judgement,
            nonce="1" * 64,
            frozen_at_utc="2026-10-01T00:00:00Z",
            frozen_on="m-test",
            variants=tuple(
                LockedVariant(
                    id=name,
                    series="batch",
                    settings=self.settings.get(name, Settings(batch_size=int(name[1:]), max_length=512)),
                )
                for name in self.variants
            ),
        )

        self.lock_sha256 = self.lock.lock_sha256

    @property
    def plan(self) -> Plan:
        measure = tuple(
            Task(
                id=f"measure-{corpus}",
                title="Measure",
                kind="measurement",
                after=("prepare",),
                corpus=corpus,
                duration=self.planned_hours,
                delivery=True,
            )
            for corpus in self.corpora
        )
        return Plan(
            zone="Europe/Berlin",
            deadline=self.deadline,
            deliverables=tuple(self.corpora),
            lots=self.lots,
            task=(
                Task(id="prepare", title="Prepare", kind="preparation", start="2026-12-01T09:00", duration="1:00:00"),
                *measure,
                Task(
                    id="collect",
                    title="Collect",
                    kind="collection",
                    duration="1:00:00",
                    after=tuple(task.id for task in measure),
                ),
            ),
            expense=tuple(self.expenses),
            **self.extra,
        )

    def manifest(self, stack: str = "one", gpu: str = "A card") -> str:
        """Name of a manifest whose stack differs with `stack`."""
        name = (stack.encode().hex() + gpu.encode().hex() + NONE)[:64]
        if name in self.manifests:
            return name
        self.manifests[name] = Manifest(
            machine_id="m-test",
            collected_at_utc="2026-12-01T09:00:00Z",
            gpus=(Gpu(index=0, name=gpu, memory_bytes=24 << 30, uuid_sha256=None),),
            driver={"version": stack},
            runtime={},
            host={"cpu": "test cpu", "os": "test os"},
            packages={"torch": "2.13.0"},
            python={"version": "3.11"},
            code={},
            environment={},
            determinism={},
            model={},
            tokenizer={},
            rocm=Compatibility(verdict="not applicable", table_date=None, source=None, detail="no ROCm"),
        )
        return name

    def add(
        self,
        gpu: str,
        variant: str,
        seconds: str | float | None,
        *,
        status: Status = Status.COMPLETED,
        accepted: bool = True,
        failing: str = "metric",
        corpus: str | None = None,
        seed: int = 0,
        completed: int | None = None,
        truncated: int = 0,
        stack: str | None = "one",
        **changes: Any,
    ) -> Attempt:
        """One attempt with its verdict. `seconds` None: it did not complete. `failing`: check that refuses it."""
        number = len(self.attempts)
        done = status is Status.COMPLETED
        found = next((v for v in self.lock.variants if v.id == variant), None)
        attempt = Attempt(
            attempt_id=f"a{number:04d}",
            chain=ChainLink(machine_id="m-test", index=number, previous_sha256=None),
            protocol_name="small",
            protocol_revision=1,
            lock_sha256=self.lock_sha256,
            nonce=self.lock.nonce,
            gpu_declared=gpu,
            devices_found=(f"{gpu} card",),
            variant_id=variant,
            series="batch",
            corpus_id=corpus or self.corpora[0],
            seed=seed,
            slot=Slot(pass_index=number, position=0),
            status=status,
            error=None if done else ErrorInfo(kind=status.value, message=f"ended: {status.value}"),
            started_at_utc=f"2026-12-01T09:{number // 60:02d}:{number % 60:02d}Z",
            ended_at_utc=None,
            pass_seconds=None if seconds is None else float(seconds),
            expected_documents=self.documents,
            completed_documents=self.documents if completed is None and done else completed,
            tokens=self._tokens(variant, truncated) if done else None,
            memory=(self._peak(),) if done else (),
            requested=found.settings if found else Settings(),
            device_shared=False,
            manifest_sha256=None if stack is None else self.manifest(stack, f"{gpu} card"),
            **changes,
        )
        self.attempts.append(attempt)
        self.verdicts.append(self._verdict(attempt, accepted and done, failing if done else "status"))
        return attempt

    def _tokens(self, variant: str, truncated: int) -> TokenCounts:
        """Larger batches compute more padding."""
        batch = int(variant[1:]) if variant[1:].isdigit() else 1
        return TokenCounts(
            real_tokens=1000, computed_tokens=1000 + 500 * batch, truncated_documents=truncated, cut_tokens=truncated
        )

    def _peak(self) -> MemoryPeak:
        return MemoryPeak(
            device="cuda:0",
            counter="max_memory_allocated",
            scope="tensors",
            bytes=1 << 30,
            at_seconds=1.0,
            capacity_bytes=24 << 30,
        )

    def _verdict(self, attempt: Attempt, accepted: bool, failing: str) -> Verdict:
        checks = tuple(
            Check(
                name=name,
                status="failed" if name == failing and not accepted else "passed",
                found=None,
                limit=None,
                reason=f"{name} looked at",
            )
            for name in ("status", "lock", "coverage", "settings", "same work", "ids", "metric", "agreement")
        )
        metric = MetricValue(
            metric="accuracy",
            group="all",
            documents=self.documents,
            fraction=f"90/{self.documents}",
            value="0.9",
            minimum="0.80",
            met=True,
            interval_low="0.85",
            interval_high="0.94",
            interval_method="Wilson 95 %",
        )
        return Verdict(
            attempt_id=attempt.attempt_id,
            lock_sha256=attempt.lock_sha256,
            predictions_sha256=None,
            accepted=accepted,
            reasons=() if accepted else (f"{failing}: not met",),
            checks=checks,
            ids=None,
            metrics=(metric,),
        )

    def passes(self, gpu: str, variant: str, *seconds: str | float, **options: Any) -> None:
        """Accepted passes with these durations."""
        for value in seconds:
            self.add(gpu, variant, value, **options)

    def balance(self, **options: Any) -> Balance:
        return build_balance(
            self.protocol, self.lock, self.plan, self.prices, self.attempts, self.verdicts, self.manifests, **options
        )

    def decision(self) -> Decision:
        return decide(self.balance(), self.protocol)

    def row(self, name: str) -> BalanceRow:
        return next(row for row in self.balance().rows if row.configuration_id == name)
