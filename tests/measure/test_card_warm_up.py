"""What a card prepares for a size of batch is prepared before the pass, for all variants alike (M18, TI-02)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.measure.clocks import Parts  # noqa: E402
from runner.measure.engines.batched import BatchedEngine  # noqa: E402
from runner.measure.engines.loading import load_model  # noqa: E402
from runner.measure.engines.transformers import PaddedForward  # noqa: E402
from runner.measure.job import Job  # noqa: E402
from runner.measure.passes import Work  # noqa: E402
from runner.protocol.schema import WarmUp  # noqa: E402
from tests.measure.fake_cuda import FakeStream, card_torch  # noqa: E402
from tests.measure.test_engines import TEXTS, corpus, differences, job_for, work  # noqa: E402, F401
from tests.measure.test_fetch import Remember  # noqa: E402

# Two widths that no text of the longest and of the first batch has, one of them without padding.
MANY = [*TEXTS, "What does it cost?", "What does it cost?", "Hello there, are you open today?", "Ok?"]


class Plans:
    """cuDNN's attention as torch 2.13 calls it: a graph is built for every (texts, width, mask) that is new."""

    def __init__(self, forward: PaddedForward) -> None:
        self.built: list[tuple[object, ...]] = []
        self._known: set[tuple[object, ...]] = set()
        self._compute = forward.logits
        forward.logits = self._logits  # type: ignore[method-assign]

    def _logits(self, inputs: dict[str, Any]) -> Any:
        shape = (*inputs["input_ids"].shape, "attention_mask" in inputs)
        if shape not in self._known:
            self._known.add(shape)
            self.built.append(shape)
        return self._compute(inputs)


def on_card(corpus: Path, stream: FakeStream, shapes: str = "all", seconds: float = 0.0) -> BatchedEngine:  # noqa: F811
    job = replace(
        job_for(corpus, batch_size=2), device="cuda", warm_up_card_shapes=shapes, warm_up_card_seconds=seconds
    )
    loaded = load_model(job.model, job.settings, "cpu", torch)
    card = card_torch(torch, stream)
    return BatchedEngine(job, card, loaded, PaddedForward(loaded.model, loaded.tokenising, job, card))


def classify(engine: BatchedEngine, texts: list[str]) -> None:
    engine.classify(texts, Remember(), Parts(time.monotonic_ns), Work())


class TestSizes:
    def test_m18_every_size_of_the_plan_is_run_before_the_pass(self, corpus: Path) -> None:  # noqa: F811
        engine = on_card(corpus, FakeStream())
        plans = Plans(engine._forward)  # type: ignore[arg-type]
        engine.warm_up(MANY, "longest_and_first", 1)
        before = len(plans.built)
        assert before == len({shape[:2] for shape in plans.built}) >= 5
        classify(engine, MANY)
        assert len(plans.built) == before, "a plan that is built in the pass is time that no counter tells of"
        assert engine.recompilations() == (0, None)

    def test_ti02_a_size_that_comes_first_in_the_pass_counts_and_is_named(self, corpus: Path) -> None:  # noqa: F811
        engine = on_card(corpus, FakeStream())
        engine.warm_up(MANY, "longest_and_first", 1)
        classify(engine, [*MANY, "a much longer text than any other of them " * 9])
        count, reason = engine.recompilations()
        assert count == 1 and reason is not None
        assert reason.startswith("not clean: 1 compilation(s) in the timed part, shape 1×")

    def test_a_protocol_may_say_otherwise_and_nothing_is_counted_then(self, corpus: Path) -> None:  # noqa: F811
        engine = on_card(corpus, FakeStream(), shapes="inputs")
        plans = Plans(engine._forward)  # type: ignore[arg-type]
        engine.warm_up(MANY, "longest_and_first", 1)
        assert len(plans.built) == 2
        classify(engine, MANY)
        assert engine.recompilations() == (0, None)

    def test_on_the_cpu_the_two_batches_warm_up_as_before(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        job = replace(job_for(corpus, batch_size=2), warm_up_card_shapes="all", warm_up_card_seconds=60.0)
        calls = count_batches(monkeypatch)
        assert work(job)["status"] == "completed"
        assert len(calls) - len(TEXTS) // 2 == 2


def count_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    compute = PaddedForward.logits

    def counted(self: PaddedForward, inputs: dict[str, Any]) -> Any:
        calls.append(len(inputs["input_ids"]))
        return compute(self, inputs)

    monkeypatch.setattr(PaddedForward, "logits", counted)
    return calls


class TestLeastSeconds:
    """M18: clocks and the link of a card rise under load; two small batches end before they have."""

    def test_m18_the_two_batches_are_repeated_until_the_card_has_worked_long_enough(
        self, corpus: Path  # noqa: F811
    ) -> None:  # fmt: skip
        stream = FakeStream()
        engine = on_card(corpus, stream, shapes="inputs", seconds=0.3)
        begin = time.monotonic()
        engine.warm_up(TEXTS, "longest_and_first", 1)
        assert time.monotonic() - begin >= 0.3
        assert stream.events <= 6 and stream.queued > 12, "many batches, and the card is waited for in between"

    def test_rules_that_warm_up_nothing_still_do_not(self, corpus: Path) -> None:  # noqa: F811
        stream = FakeStream()
        engine = on_card(corpus, stream, seconds=60.0)
        engine.warm_up(TEXTS, "none", 1)
        engine.warm_up(TEXTS, "longest_and_first", 0)
        assert stream.queued == 0


class TestTunableOp:
    """M18: images of AMD's let torch tune every new size of a product when it comes, up to seconds in the pass."""

    def test_tuning_ends_with_the_warm_up_and_begins_with_the_next(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
    ) -> None:  # fmt: skip
        said: list[bool] = []
        tunable = SimpleNamespace(is_enabled=lambda: True, tuning_enable=said.append)
        engine = on_card(corpus, FakeStream())
        monkeypatch.setattr(engine._torch.cuda, "tunable", tunable, raising=False)
        for wanted, variable in ((True, None), (False, "0")):
            said.clear()
            monkeypatch.delenv("PYTORCH_TUNABLEOP_TUNING", raising=False)
            if variable is not None:
                monkeypatch.setenv("PYTORCH_TUNABLEOP_TUNING", variable)
            engine.warm_up(TEXTS, "longest_and_first", 1)
            assert said == [wanted, False]


def test_m3_locks_that_know_no_rule_for_cards_keep_their_fingerprint() -> None:
    assert WarmUp().as_json() == {"inputs": "longest_and_first", "passes": 1, "recompilation": "reject"}
    other = WarmUp(card_shapes="inputs", card_least_seconds="5")
    assert WarmUp.from_json(other.as_json()) == other != WarmUp()


# ---- torch.compile (dynamo is real, its code generator is left out) ----


@pytest.fixture
def dynamo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from torch._dynamo import config
    from torch._dynamo.utils import counters

    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "restored afterwards")
    torch._dynamo.reset()
    counters.clear()
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, mode, dynamic: real(model, backend="eager", dynamic=dynamic))
    names = ("recompile_limit", "accumulated_recompile_limit", "fail_on_recompile_limit_hit")
    before = {name: getattr(config, name) for name in names}
    yield
    for name, value in before.items():
        setattr(config, name, value)
    torch._dynamo.reset()


def job_of(folder: Path, texts: list[str], **settings: Any) -> Job:
    path = folder / "many.jsonl"
    rows = [json.dumps({"id": f"d{number}", "text": text}) for number, text in enumerate(texts)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    job = job_for(path, **settings)
    return replace(job, corpus=replace(job.corpus, documents=len(texts)))


@pytest.mark.usefixtures("dynamo")
class TestCompiler:
    def test_m16_more_sizes_than_dynamos_limit_are_compiled_all_the_same(self, tmp_path: Path) -> None:
        """After 8 graphs dynamo runs the model as it is and says so in a log only."""
        from torch._dynamo.utils import counters

        texts = ["parcel " * words for words in range(3, 23)]
        job = job_of(tmp_path, texts, batch_size=1, compile="default", extra={"dynamic_shapes": False})
        result = work(job)
        assert result["status"] == "completed", result["error"]
        assert counters["stats"]["unique_graphs"] == 20
        assert differences(job, result) == () and result["recompilations"] == 0

    def test_m16_a_limit_that_is_hit_all_the_same_is_no_compiled_pass(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from runner.measure.engines import compiled

        monkeypatch.setattr(compiled, "_GRAPHS_PER_SIGNATURE", 0)
        texts = ["parcel " * words for words in range(3, 23)]
        job = job_of(tmp_path, texts, batch_size=1, compile="default", extra={"dynamic_shapes": False})
        result = work(job)
        assert result["status"] == "unsupported" and "torch.compile is not possible" in result["error"]["message"]

    def test_m18_a_first_batch_as_wide_as_it_has_texts_spoils_no_pass(self, tmp_path: Path) -> None:
        """8 texts of at most 8 tokens: dynamo would take both sizes for one, and compile anew at the next width."""
        texts = [
            text
            for longest, shortest in ((6, 4), (20, 4), (30, 5))
            for text in [*["parcel " * longest] * 7, "parcel " * shortest]
        ]
        job = job_of(tmp_path, texts, batch_size=8, compile="default")
        result = work(job)
        assert result["status"] == "completed", result["error"]
        assert (result["recompilations"], result["recompilations_reason"]) == (0, None)
        assert differences(job, result) == ()
