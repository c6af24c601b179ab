"""Small synthetic campaigns for the tests of the note, and for the example note in docs/example/.

Everything here is made up and says so; balance and decision come from the real code. The records are
those of the contracts (`runner.evidence`), so a change of a contract is seen here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from runner.decide.balance import build_balance
from runner.decide.choice import decide
from runner.decide.tables import ATTEMPT_COLUMNS, BALANCE_COLUMNS, attempt_rows, balance_rows, csv_bytes
from runner.evidence.attempt import (
    Attempt,
    ChainLink,
    ErrorInfo,
    FileReference,
    MemoryPeak,
    Phase,
    PhaseName,
    Settings,
    Slot,
    Status,
    TokenCounts,
)
from runner.evidence.campaign import Campaign
from runner.evidence.canonical import content_sha256, pretty_json, sha256_bytes
from runner.evidence.manifest import Compatibility, Gpu, Manifest
from runner.evidence.utilisation import BEYOND
from runner.evidence.verdict import Check, IdCounts, MetricValue, Verdict
from runner.judge.metrics import wilson_interval
from runner.pricing.tariffs import load_catalogue
from runner.protocol.read import read_plan, read_protocol
from runner.protocol.schema import Judgement, Lock, LockedCorpus, LockedFile, LockedVariant
from runner.units import parse_utc, utc_text

GIB = 1 << 30
_FIRST_START = datetime(2026, 10, 5, 8, 45, tzinfo=UTC)  # as planned; every GPU is a machine of its own
DOCUMENTS = 1000
STRATA = {"short": 600, "medium": 300, "long": 100}

PROTOCOL = """schema_version = "protocol/1"

[question]
name = "{name}"
revision = 1
text = "{text}"
scenario = "offline"
synthetic = true

[[corpus]]
id = "messages"
final = "corpus/final.csv"

[model]
source = "model"
max_length = 512

[quality]
metric = "accuracy"
threshold = "0.85"
max_drop = "0.01"
min_agreement = "0.98"

[[quality.subgroup]]
column = "stratum"
value = "short"
minimum = "0.84"

[[quality.subgroup]]
column = "stratum"
value = "medium"
minimum = "0.84"

[[quality.subgroup]]
column = "stratum"
value = "long"
minimum = "0.80"

[[series]]
name = "batch"
variable = "batch_size"
values = {batches}
"""

PLAN = """schema_version = "plan/1"
zone = "Europe/Berlin"
deadline = "{deadline}"
deliverables = ["messages"]

[[task]]
id = "prepare"
title = "Start the rental, copy the campaign folder to it"
kind = "preparation"
start = "2026-10-05T09:00"
duration = "1:00:00"

[[task]]
id = "install"
title = "make setup"
kind = "installation"
after = ["prepare"]
duration = "0:45:00"

[[task]]
id = "measure"
title = "Five passes over the corpus"
kind = "measurement"
after = ["install"]
corpus = "messages"
passes = 5
duration = "24:00:00"

[[task]]
id = "evaluate"
title = "Verdicts on all attempts"
kind = "evaluation"
after = ["measure"]
duration = "2:00:00"

[[task]]
id = "keep"
title = "The rental is kept while the verdicts are read"
kind = "wait"
after = ["evaluate"]
duration = "20:00:00"

[[task]]
id = "collect"
title = "Copy the results from the rental, compare the hashes"
kind = "collection"
after = ["keep"]
start = "2026-10-09T08:00"
duration = "1:00:00"

[[task]]
id = "deliver"
title = "Decide, write and sign the note"
kind = "export"
after = ["collect"]
duration = "2:00:00"
delivery = true
{expenses}"""

EXPENSES = """
[[expense]]
name = "Data transfer"
amount = "14.50"
currency = "USD"
reason = "Upload of the model and the corpus"
"""

TARIFFS = """gpu,device_pattern,cards_per_lot,memory_gib_per_card,days,price_per_lot,currency,catalogue_date,source
rtx-4090,NVIDIA GeForce RTX 4090,1,24,7,110.00,USD,2026-09-24,catalogue
b200,NVIDIA B200,2,180,7,2071.00,USD,2026-09-24,catalogue
"""

DEVICES = {
    "cpu": ("AMD EPYC 9354, 2 threads", 24 * GIB),
    "rtx-4090": ("NVIDIA GeForce RTX 4090", 24 * GIB),
    "b200": ("NVIDIA B200", 180 * GIB),
    "l40s": ("NVIDIA L40S", 48 * GIB),
    "gpu-24g": ("Example GPU 24 GB", 24 * GIB),
    "gpu-180g": ("Example GPU 180 GB", 180 * GIB),
    "gpu-48g": ("Example GPU 48 GB", 48 * GIB),
}


@dataclass(frozen=True)
class Measured:
    """One configuration of the sample: seconds of its passes and what goes wrong in some of them."""

    gpu: str
    batch: int
    seconds: float
    spread: float = 0.02
    accuracy: int = 886
    memory_gib: float = 4.0
    mishaps: Mapping[int, Status] = field(default_factory=dict)
    rejected: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """A whole campaign. The defaults are the embedded situation: the own machine, three batch sizes."""

    name: str = "messages"
    text: str = (
        "Which configuration classifies all support messages well enough and in time, "
        "for the smallest committed budget?"
    )
    configurations: tuple[Measured, ...] = (
        Measured("cpu", 1, 1.13),
        Measured("cpu", 4, 0.63),
        Measured("cpu", 8, 0.51, mishaps={3: Status.OUT_OF_MEMORY}),
    )
    unavailable: tuple[str, ...] = ()
    passes: int = 5
    deadline: str = "2026-10-09T12:00"
    tariffs: str = TARIFFS
    expenses: str = ""
    notes: tuple[str, ...] = ()
    different_driver: str | None = None
    memory_samples: bool = False
    documents: int = DOCUMENTS
    """A multiple of 1,000: counts of right answers are those of 1,000, so many times."""
    plan: str = PLAN
    step: float = 1e-6
    """Durations are multiples of this many seconds."""


OWN_MACHINE = Sample()
PRICED = Sample(
    configurations=(
        Measured("rtx-4090", 1, 9120.0, memory_gib=7.1),
        Measured("rtx-4090", 4, 6480.0, memory_gib=12.4, mishaps={1: Status.KILLED}),
        Measured("rtx-4090", 8, 5210.0, memory_gib=21.9, mishaps=dict.fromkeys((0, 2, 3), Status.OUT_OF_MEMORY)),
        Measured("b200", 1, 3900.0, memory_gib=9.0),
        Measured("b200", 4, 2140.0, memory_gib=18.2),
        Measured("b200", 8, 1495.0, memory_gib=36.5, rejected={4: "recompilation"}),
    ),
    unavailable=("l40s",),
    expenses=EXPENSES,
    tariffs=TARIFFS + "l40s,NVIDIA L40S,1,48,,,USD,2026-09-24,catalogue without a price\n",
    different_driver="580.65",
    memory_samples=True,
)
UNDECIDED = replace(
    OWN_MACHINE,
    configurations=(Measured("cpu", 1, 0.60, spread=0.2), Measured("cpu", 4, 0.58, spread=0.2)),
)
ALL_FAILED = replace(
    OWN_MACHINE,
    configurations=(
        Measured("cpu", 1, 1.1, mishaps=dict.fromkeys(range(5), Status.TIMED_OUT)),
        Measured("cpu", 4, 0.6, accuracy=702),
    ),
)


def make_campaign(root: Path, sample: Sample = OWN_MACHINE) -> Campaign:
    """Write the campaign's files below `root`, decided; returns it."""
    campaign = Campaign(root)
    batches = sorted({measured.batch for measured in sample.configurations})
    _write(campaign.protocol, PROTOCOL.format(name=sample.name, text=sample.text, batches=batches))
    _write(campaign.plan, sample.plan.format(deadline=sample.deadline, expenses=sample.expenses))
    _write(campaign.tariffs, sample.tariffs)
    lock = _lock(campaign, batches, sample)
    campaign.lock.write_bytes(lock.dump())
    manifests = {gpu: _manifest(gpu, sample) for gpu in {m.gpu for m in sample.configurations}}
    for manifest in manifests.values():
        _write_bytes(campaign.manifests / f"{_sha(manifest)}.json", manifest.dump())
    attempts, verdicts = _measure(sample, lock, {gpu: _sha(manifest) for gpu, manifest in manifests.items()})
    if sample.memory_samples:
        attempts = [_with_memory_samples(attempt, campaign) for attempt in attempts]
    attempts = _chained(attempts, campaign)
    for attempt in attempts:
        _write_bytes(campaign.attempts / f"{attempt.attempt_id}.json", attempt.dump())
    for verdict in verdicts:
        _write_bytes(campaign.verdicts / f"{verdict.attempt_id}.json", verdict.dump())
    decide_again(campaign)
    return campaign


def decide_again(campaign: Campaign) -> None:
    """Balance and decision by the real code, from the files of the sample."""
    attempts = [Attempt.load(path) for path in sorted(campaign.attempts.glob("*.json"))]
    verdicts = [Verdict.load(path) for path in sorted(campaign.verdicts.glob("*.json"))]
    manifests = {path.stem: Manifest.load(path) for path in campaign.manifests.glob("*.json")}
    protocol = read_protocol(campaign.protocol)
    balance = build_balance(
        protocol, Lock.load(campaign.lock), read_plan(campaign.plan), load_catalogue(campaign.tariffs), attempts,
        verdicts, manifests,
    )  # fmt: skip
    rows = attempt_rows(attempts, {verdict.attempt_id: verdict for verdict in verdicts}, {})
    _write_bytes(campaign.balance, balance.dump())
    _write_bytes(campaign.decision, decide(balance, protocol).dump())
    _write_bytes(campaign.note / "balance.csv", csv_bytes(balance_rows(balance), BALANCE_COLUMNS))
    _write_bytes(campaign.note / "attempts.csv", csv_bytes(rows, ATTEMPT_COLUMNS))


def rewrite_attempts(campaign: Campaign, change: Callable[[Attempt], Attempt]) -> None:
    """Change rows (notes, errors) and chain and decide them again."""
    attempts = sorted(
        (Attempt.load(path) for path in campaign.attempts.glob("*.json")), key=lambda attempt: attempt.chain.index
    )
    for attempt in _chained([change(attempt) for attempt in attempts], campaign):
        _write_bytes(campaign.attempts / f"{attempt.attempt_id}.json", attempt.dump())
    decide_again(campaign)


# ---- records -------------------------------------------------------------------------------------------


def _lock(campaign: Campaign, batches: list[int], sample: Sample) -> Lock:
    protocol = read_protocol(campaign.protocol)
    rows = [f"m-{number:04d},text {number},{'a' if number % 3 else 'b'}" for number in range(sample.documents)]
    corpus = ("id,text,label\n" + "\n".join(rows) + "\n").encode()
    _write_bytes(campaign.protocol_dir / "corpus" / "final.csv", corpus)
    content = protocol.as_json()
    strict = {key: value for key, value in content.items() if key not in ("series", "variant")}
    return Lock(
        judgement=Judgement(
            protocol=strict, protocol_sha256=content_sha256(strict),
            corpora=(
                LockedCorpus(
                    id="messages", documents=sample.documents,
                    final=(LockedFile(path="corpus/final.csv", sha256=sha256_bytes(corpus), bytes=len(corpus)),),
                    records_sha256=content_sha256(rows), ids_sha256=content_sha256("ids"),
                    labels_sha256=content_sha256("labels"),
                ),
            ),
            model_files=(LockedFile(path="model/model.safetensors", sha256=content_sha256("model"), bytes=1_500_000),),
            model_revision=None, label_table=("a", "b"), max_length=512, deliverables=("messages",),
            deadline=f"{sample.deadline}[Europe/Berlin]",
        ),
        nonce=content_sha256("nonce"), frozen_at_utc="2026-10-05T06:30:00Z", frozen_on="m-0123456789abcdef",
        variants=tuple(
            LockedVariant(id=f"b{batch}", series="batch", settings=Settings(batch_size=batch, max_length=512))
            for batch in batches
        ),
    )  # fmt: skip


def _manifest(gpu: str, sample: Sample) -> Manifest:
    name, memory = DEVICES[gpu]
    cpu = gpu == "cpu"
    driver = sample.different_driver if gpu in ("b200", "gpu-180g") and sample.different_driver else "575.51"
    return Manifest(
        machine_id="m-0123456789abcdef", collected_at_utc="2026-10-05T08:00:00Z",
        gpus=() if cpu else (Gpu(index=0, name=name, memory_bytes=memory, uuid_sha256=content_sha256(gpu)),),
        driver={} if cpu else {"nvidia": driver}, runtime={"cuda": None if cpu else "13.0"},
        host={"cpu": "AMD EPYC 9354", "memory_bytes": 24 * GIB, "os": "Debian GNU/Linux 12"},
        packages={"torch": "2.13.0", "transformers": "5.24.0", "tokenizers": "0.23.3", "numpy": "2.4.6"},
        python={"version": "3.11.2"}, code={"commit": "6c17cca", "dirty": False}, environment={"OMP_NUM_THREADS": "1"},
        determinism={"use_deterministic_algorithms": False}, model={}, tokenizer={},
        rocm=Compatibility(verdict="not applicable", table_date=None, source=None, detail="no ROCm build"),
        reasons={"runtime.cuda": "measured on the CPU"} if cpu else {},
    )  # fmt: skip


def _sha(manifest: Manifest) -> str:
    return content_sha256(manifest.as_json())


def _measure(sample: Sample, lock: Lock, manifests: Mapping[str, str]) -> tuple[list[Attempt], list[Verdict]]:
    chance = random.Random(7)
    attempts: list[Attempt] = []
    verdicts: list[Verdict] = []
    gpus = list(dict.fromkeys(measured.gpu for measured in sample.configurations))
    for gpu in gpus:
        clock = _FIRST_START
        block = [measured for measured in sample.configurations if measured.gpu == gpu]
        for index in range(sample.passes):
            turn = index % len(block)
            for position, measured in enumerate(block[turn:] + block[:turn]):
                attempt = _attempt(
                    sample, lock, measured, index, position, chance, manifests[gpu], len(attempts), clock
                )
                clock = parse_utc(attempt.ended_at_utc or "") + timedelta(seconds=5)
                attempts.append(attempt)
                if attempt.status is Status.COMPLETED:
                    verdicts.append(_verdict(measured, attempt, index, sample.documents))
    for gpu in sample.unavailable:
        for variant in lock.variants:
            attempts.append(_unavailable(sample, lock, gpu, variant, len(attempts)))
    return attempts, verdicts


def _attempt(
    sample: Sample, lock: Lock, measured: Measured, index: int, position: int, chance: random.Random, manifest: str,
    number: int, clock: datetime,
) -> Attempt:  # fmt: skip
    status = measured.mishaps.get(index, Status.COMPLETED)
    done = status is Status.COMPLETED
    drawn = measured.seconds * (1 + chance.uniform(-measured.spread, measured.spread))
    seconds = round(round(drawn / sample.step) * sample.step, 6)
    device, capacity = DEVICES[measured.gpu]
    times = sample.documents // DOCUMENTS
    peak = int(measured.memory_gib * GIB * (0.99 + 0.01 * chance.random()))
    padding = {1: 71_770, 4: 169_276, 8: 241_696}.get(measured.batch, 71_770 + 1_000 * measured.batch)
    ended = clock + timedelta(seconds=round(seconds * (1 if done else 0.4)) + 3)
    settings = Settings(batch_size=measured.batch, max_length=512)
    counter = "VmHWM" if measured.gpu == "cpu" else "torch.cuda.max_memory_allocated"
    scope = (
        "resident memory, this worker process only, high-water mark reset before the pass; time of the largest sample"
        if measured.gpu == "cpu"
        else "tensors, this worker process only, reset before the pass; time of the largest sample"
    )
    return Attempt(
        attempt_id=f"{measured.gpu}-b{measured.batch}-p{index + 1:02d}", chain=_link(number),
        protocol_name=sample.name, protocol_revision=1, lock_sha256=lock.lock_sha256, nonce=lock.nonce,
        gpu_declared=measured.gpu, devices_found=(device,), variant_id=f"b{measured.batch}", series="batch",
        corpus_id="messages", seed=0, slot=Slot(pass_index=index, position=position), status=status,
        error=None if done else ErrorInfo(kind=_KINDS[status], message=_MISHAPS[status], evidence="exit status"),
        started_at_utc=utc_text(clock), ended_at_utc=utc_text(ended),
        wall_clock_moved_seconds=0.0 if done else None, pass_seconds=seconds if done else None,
        pass_seconds_reason=None if done else f"the attempt ended as {status.value}",
        phases=(
            Phase(name=PhaseName.IMPORTS, seconds=2.1), Phase(name=PhaseName.LOAD, seconds=0.4),
            Phase(name=PhaseName.WARM_UP, seconds=0.2),
        ),
        expected_documents=sample.documents, completed_documents=sample.documents if done else 412 * times,
        tokens=TokenCounts(
            real_tokens=71_770 * times, computed_tokens=padding * times, truncated_documents=3 * times,
            cut_tokens=118 * times,
        ) if done else None,
        tokens_reason=None if done else "the pass did not end",
        memory=(MemoryPeak(device=device, counter=counter, scope=scope, bytes=peak, at_seconds=seconds / 2,
                           capacity_bytes=capacity),) if done else (),
        memory_reason=None if done else "the pass did not end",
        requested=settings, effective=settings, effective_reason=None, recompilations=0, recompilations_reason=None,
        device_shared=False, device_shared_reason=None,
        telemetry={"utilisation_real": round(0.31 * 71_770 / padding, 4), "utilisation_executed": 0.31}
        if done and measured.batch != 8 else {},
        telemetry_reasons={"utilisation_real": BEYOND, "utilisation_executed": BEYOND}
        if done and measured.batch == 8 else {},
        predictions=FileReference(path=f"records/predictions/{number}.parquet", sha256="0" * 64, rows=sample.documents)
        if done else None,
        manifest_sha256=manifest, notes=sample.notes if number == 0 else (),
    )  # fmt: skip


def _with_memory_samples(attempt: Attempt, campaign: Campaign) -> Attempt:
    """A made-up course of tensors and of the allocator over a pass: it steps up until the recorded peak is held."""
    if not attempt.memory or attempt.pass_seconds is None:
        return attempt
    peak = attempt.memory[0].bytes or 0
    capacity = attempt.memory[0].capacity_bytes or peak
    samples = []
    for step in range(61):
        share = min(1.0, 0.45 + 0.55 * min(step, 30) / 30) - 0.18 * (step % 5) / 5
        held = min(capacity, round(peak * (0.7 + 0.1 * min(3, step // 10)) * 1.05))
        samples.append([attempt.pass_seconds * step / 60, {"allocated:0": round(peak * share), "reserved:0": held}])
    samples[30][1]["allocated:0"] = peak  # type: ignore[index]
    data = pretty_json({"schema_version": "memory-timeline/1", "interval_seconds": 1.0, "samples": samples})
    path = campaign.memory / f"{attempt.attempt_id}.json"
    _write_bytes(path, data)
    return attempt.model_copy(
        update={"memory_timeline": FileReference(path=campaign.relative(path), sha256=sha256_bytes(data))}
    )


NO_RATE = "no matrix rate was measured for this precision and number of threads"
_KINDS = {Status.OUT_OF_MEMORY: "out of memory", Status.KILLED: "killed", Status.TIMED_OUT: "timeout"}
_MISHAPS = {
    Status.OUT_OF_MEMORY: "CUDA out of memory. Tried to allocate 1.20 GiB",
    Status.KILLED: "killed, cause unknown",
    Status.TIMED_OUT: "no end within the time allowed, ended after 3600 s",
}


def _unavailable(sample: Sample, lock: Lock, gpu: str, variant: LockedVariant, number: int) -> Attempt:
    return Attempt(
        attempt_id=f"{gpu}-{variant.id}-p01", chain=_link(number), protocol_name=sample.name, protocol_revision=1,
        lock_sha256=lock.lock_sha256, nonce=lock.nonce, gpu_declared=gpu, devices_found=("AMD EPYC 9354, 2 threads",),
        variant_id=variant.id, series="batch", corpus_id="messages", seed=0, slot=Slot(pass_index=0, position=0),
        status=Status.UNAVAILABLE,
        error=ErrorInfo(kind="unavailable", message=f"declared {gpu}, found AMD EPYC 9354, 2 threads"),
        started_at_utc="2026-10-06T08:00:00Z", ended_at_utc="2026-10-06T08:00:01Z", expected_documents=sample.documents,
        pass_seconds_reason="nothing was measured", requested=variant.settings,
    )  # fmt: skip


def _verdict(measured: Measured, attempt: Attempt, index: int, documents: int) -> Verdict:
    times = documents // DOCUMENTS
    correct = measured.accuracy * times
    good = measured.accuracy >= 850
    lost = (886 - measured.accuracy) * times if good else 0
    failing = measured.rejected.get(index)
    accepted = good and failing is None
    checks = [
        Check(name="status", status="passed", found="completed", limit="completed", reason="the pass completed"),
        Check(name="ids", status="passed", found=str(documents), limit=str(documents),
              reason="exactly the expected ids"),
        Check(name="metric", status="passed" if good else "failed", found=f"{correct}/{documents}", limit="0.85",
              reason="accuracy against its minimum"),
    ]  # fmt: skip
    reasons = [] if good else [f"metric: accuracy {correct}/{documents} = 0.{measured.accuracy} is below 0.85"]
    if failing is not None:
        checks.append(Check(name=failing, status="failed", found="1", limit="0", reason="recompiled inside the pass"))
        reasons.append("recompilation: not clean: 1 compilation in the timed part")
    checks.append(Check(name="reproduction", status="passed", found=None, limit=None,
                        reason="the goal is task quality: judged by the checks before"))  # fmt: skip
    metrics = [_metric("all", correct, documents, "0.85")]
    left = correct
    for name, size in STRATA.items():
        size *= times
        hits = left if name == "long" else round(correct * size / documents) + {"short": 6, "medium": -2}[name] * times
        left -= hits
        metrics.append(_metric(f"stratum={name}", hits, size, "0.80" if name == "long" else "0.84"))
    return Verdict(
        attempt_id=attempt.attempt_id, lock_sha256=attempt.lock_sha256, predictions_sha256="0" * 64, accepted=accepted,
        reasons=tuple(reasons), checks=tuple(checks), metrics=tuple(metrics), drop=f"{lost}/{documents}",
        agreement=f"{documents - lost}/{documents}",
        ids=IdCounts(expected_ids=documents, observed_ids=documents, ids_match=True, missing=0, duplicate=0,
                     unexpected=0),
        flips=lost,
    )  # fmt: skip


def _metric(group: str, hits: int, size: int, minimum: str) -> MetricValue:
    value = Decimal(hits) / Decimal(size)
    low, high = (Decimal(bound) for bound in wilson_interval(hits, size))
    return MetricValue(
        metric="accuracy", group=group, documents=size, fraction=f"{hits}/{size}", value=f"{value:.12f}",
        minimum=minimum, met=value >= Decimal(minimum), interval_low=f"{low:.12f}",
        interval_high=f"{high:.12f}", interval_method="Wilson, 95 %",
    )  # fmt: skip


def _link(number: int) -> ChainLink:
    return ChainLink(machine_id="m-0123456789abcdef", index=number, previous_sha256=None)


def _chained(attempts: list[Attempt], campaign: Campaign) -> list[Attempt]:
    previous: str | None = None
    out = []
    for number, attempt in enumerate(attempts):
        link = ChainLink(machine_id="m-0123456789abcdef", index=number, previous_sha256=previous)
        out.append(attempt.model_copy(update={"chain": link}))
        previous = content_sha256(out[-1].as_json())
    if not out:
        return []
    head = {"schema_version": "chain-head/1", "machine_id": "m-0123456789abcdef", "rows": len(out),
            "last_attempt_id": out[-1].attempt_id, "last_sha256": previous}  # fmt: skip
    _write(campaign.records / "chain" / "m-0123456789abcdef.json", json.dumps(head))
    return out


def _write(path: Path, text: str) -> None:
    _write_bytes(path, text.encode("utf-8"))


def _write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
