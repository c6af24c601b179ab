"""Policy `kept` with the real engines: the same answers, settings and work as in fresh processes, nothing left between.

M21 (the process policy stays the same), M16/MO-15 (settings in effect), M18/TI-02 (recompilations), ME-01 (peaks).
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from runner.evidence.attempt import Attempt, Status
from runner.evidence.campaign import Campaign
from runner.evidence.store import read_attempts
from runner.judge.campaign import judge_campaign
from runner.measure.run import Request, measure
from runner.protocol.freeze import freeze
from tests.measure.light import Quiet
from tests.measure.test_engines import MODEL, TEXTS
from tests.support.small_campaign import PROTOCOL, make_campaign

ROOT = Path(__file__).parents[2]
DOCUMENTS = 40
VARIANTS = """\
[[variant]]
id = "plain"
settings = { batch_size = 4, threads = 1 }
[[variant]]
id = "packed"
settings = { batch_size = 4, threads = 1, engine = "packed", padding = "none" }
[[variant]]
id = "int8"
settings = { batch_size = 4, threads = 1, quantization = "int8-dynamic" }
"""


def campaign_with(root: Path, process: str) -> Campaign:
    with (ROOT / "protocol/corpus/final.csv").open(encoding="utf-8", newline="") as stream:
        all_rows = [(row["id"], row["text"], row["label"], row["stratum"]) for row in csv.DictReader(stream)]
    chosen = [*all_rows[:DOCUMENTS], *[row for row in all_rows[DOCUMENTS:] if row[3] == "long"][:5]]
    head, _, _ = PROTOCOL.partition("[[series]]")
    rule = f'[measurement]\npasses_planned = 2\nmin_accepted = 2\nprocess = "{process}"\n'
    campaign = make_campaign(root, rows=chosen, protocol=head + VARIANTS + rule)
    shutil.rmtree(campaign.protocol_dir / "model")
    shutil.copytree(MODEL, campaign.protocol_dir / "model")
    campaign.tariffs.write_text("gpu,device_pattern\n", encoding="utf-8")
    freeze(campaign)
    return campaign


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_m21_kept_and_fresh_give_the_same_answers_settings_and_work(tmp_path: Path) -> None:
    found: dict[str, dict[tuple[str, int], Attempt]] = {}
    for process in ("fresh", "kept"):
        campaign = campaign_with(tmp_path / process, process)
        measure(campaign, Request(gpu="cpu"), Quiet())
        attempts = read_attempts(campaign)
        assert [row.status for row in attempts] == [Status.COMPLETED] * 6
        checks = [check for verdict in judge_campaign(campaign) for check in verdict.checks]
        assert not {"process", "settings", "lock", "recompilation"} & {
            check.name for check in checks if check.status == "failed"
        }
        assert any(check.name == "process" for check in checks) == (process == "kept")
        found[process] = {(row.variant_id, row.slot.pass_index): row for row in attempts}
    assert [row.process.served_before for row in found["kept"].values() if row.process] == [0, 1, 2, 3, 4, 5]
    for key, kept in found["kept"].items():
        fresh = found["fresh"][key]
        assert kept.predictions is not None and fresh.predictions is not None
        assert kept.predictions.records_sha256 == fresh.predictions.records_sha256, "labels and scores"
        assert kept.effective == fresh.effective and kept.requested.differences(kept.effective or kept.requested) == ()
        assert (kept.tokens, kept.recompilations) == (fresh.tokens, fresh.recompilations)
        assert [phase.name for phase in kept.phases] == [phase.name for phase in fresh.phases]
        # The high-water mark of the pass stays at what is there: libraries, and what a pass of this model needs.
        assert kept.process is not None
        if kept.process.served_before:
            start = kept.process.resident_at_start_bytes or 0
            peaks = {peak.counter: peak.bytes or 0 for peak in kept.memory}
            assert start <= peaks["VmHWM"] < start + (64 << 20)
            assert start <= peaks["VmHWM before the pass"] < start + (64 << 20)
    # What is left does not grow from attempt to attempt: no model of an earlier one stays.
    starts = [row.process.resident_at_start_bytes or 0 for row in found["kept"].values() if row.process][2:]
    assert max(starts) - min(starts) < 24 << 20


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


PRELUDE = """
import gc, json, os, sys
from dataclasses import replace
from pathlib import Path
import torch
from runner.measure.engines.batched import BatchedEngine
from runner.measure.journal import Journal
from runner.measure.kept import Life
from runner.measure.worker import Worker
from tests.measure.test_engines import job_for, rows
life, said = Life(), []
def attempt(**settings):
    job, name = job_for(Path(sys.argv[1]), **settings), str(life.served)
    job = replace(job, journal=job.journal + name, results=job.results + name, result=job.result + name,
                  predictions=job.predictions.replace(".parquet", name + ".parquet"))
    life.begin()
    result = Worker(job, Journal(Path(job.journal)), None, life=life).run()
    assert result["status"] == "completed", result["error"]
    said.append({"phases": sorted(result["phases"]), "effective": result["facts"]["effective"], "rows": rows(job),
                 "recompilations": result["recompilations"]})
"""


def in_a_process(corpus: Path, code: str) -> Any:
    """What `said` holds at the end: attempts as the worker runs them, in a process of their own."""
    # torch writes its cache folder into the environment of whoever compiled in this process before.
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", f"{PRELUDE}{code}\nprint(json.dumps(said))", str(corpus)],
        cwd=ROOT, env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


MODELS = "sum(issubclass(type(x), torch.nn.Module) and bool(getattr(x, '_parameters', 0)) for x in gc.get_objects())"


def test_m21_nothing_of_a_model_stays_and_the_second_attempt_pays_no_imports(corpus: Path) -> None:
    first, freed, second, again = in_a_process(
        corpus,
        f"attempt(); said.append([life.free(), {MODELS}])\n"
        f"attempt(engine='packed', padding='none'); said.append([life.free(), life.served])",
    )
    assert freed == [None, 0]
    assert {"process_start", "imports"} <= set(first["phases"])
    assert not {"process_start", "imports"} & set(second["phases"])
    assert first["rows"] == second["rows"]
    assert (first["effective"]["engine"], second["effective"]["engine"]) == ("transformers", "packed")
    assert again == [None, 2]


@pytest.mark.parametrize(
    ("left", "named"),
    [
        ("held = torch.nn.Linear(2, 2)", "models"),
        ("torch.set_default_dtype(torch.float64)", "number formats"),
        ("torch.use_deterministic_algorithms(True)", "determinism"),
        ("torch.set_grad_enabled(False)", "modes"),
    ],
)
def test_m21_a_process_with_a_model_or_a_switch_left_is_not_used_again(corpus: Path, left: str, named: str) -> None:
    assert in_a_process(corpus, f"attempt()\n{left}\nsaid[:] = [life.free()]") == [f"not as it was before: {named}"]


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_m18_ti02_compilations_of_a_second_attempt_are_its_own(corpus: Path) -> None:
    """Compiled anew in the second attempt, none counted in its pass; one that happens in the pass is counted.

    Graphs that are dropped before the pass have to be made again in it: noticed in the third attempt.
    """
    *compiled, third, plain = in_a_process(
        corpus,
        """
settings = dict(compile="default", batch_size=4, max_length=32, padding="max-length")
graphs = lambda: int(torch._dynamo.utils.counters["stats"]["unique_graphs"])
for _ in range(2):
    attempt(**settings)
    said[-1]["graphs"] = graphs()
    said[-1]["freed"] = [life.free(), graphs(), os.environ.get("TORCHINDUCTOR_CACHE_DIR")]
whole = BatchedEngine.classify
BatchedEngine.classify = lambda *given: (torch.compiler.reset(), whole(*given))[1]
attempt(**settings)
said[-1]["freed"] = life.free()
BatchedEngine.classify = whole
attempt(**{**settings, "compile": "none"})
""",
    )
    first, second = compiled
    assert first["recompilations"] == second["recompilations"] == 0
    assert first["effective"] == second["effective"] and second["effective"]["compile"] == "default"
    assert first["graphs"] == second["graphs"] >= 1, "compiled again, not taken over"
    assert first["freed"] == second["freed"] == [None, 0, None]
    assert first["rows"] == second["rows"]
    assert third["recompilations"] >= 1 and third["freed"] is None
    assert plain["recompilations"] == 0 and plain["effective"]["compile"] == "none"
    assert [row[1] for row in plain["rows"]] == [row[1] for row in first["rows"]]
