"""Results from an asynchronous card: no wait per batch, all results right (M19, M20; issue 6 point 2)."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.measure.clocks import Parts  # noqa: E402
from runner.measure.engines.ahead import Ahead  # noqa: E402
from runner.measure.engines.batched import BatchedEngine  # noqa: E402
from runner.measure.engines.fetch import Fetch  # noqa: E402
from runner.measure.engines.loading import load_model  # noqa: E402
from runner.measure.engines.transformers import PaddedForward  # noqa: E402
from runner.measure.passes import Work  # noqa: E402
from tests.measure.fake_cuda import FakeStream, card_torch  # noqa: E402
from tests.measure.test_engines import TEXTS, corpus, job_for, logits, work  # noqa: E402, F401


class Remember:
    def __init__(self) -> None:
        self.positions: list[int] = []
        self.rows: list[list[float]] = []

    def add(self, positions: Sequence[int], outputs: Any) -> None:
        self.positions.extend(positions)
        self.rows.extend(outputs.tolist())


def test_m20_nothing_waits_per_batch_and_the_rest_is_waited_for_once_at_the_end() -> None:
    stream, ledger = FakeStream(), Remember()
    card = card_torch(torch, stream)
    fetch = Fetch(card, ledger, Parts(lambda: 0))
    for batch in range(4):
        inputs = card.full((1, 2), float(batch), device="cuda")
        fetch.run([batch], lambda inputs: inputs * 2, inputs)
        if batch == 1:
            stream.done = 3  # the first batch and its copy are ready, the second is not
    assert (stream.waits, ledger.positions) == ([], [0])
    fetch.drain()
    assert ledger.positions == [0, 1, 2, 3]
    assert ledger.rows == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    assert stream.waits == ["event"] * 3
    assert fetch.device_seconds == pytest.approx(4 * 0.5)


def engine_on_card(corpus: Path, stream: FakeStream, **settings: Any) -> BatchedEngine:  # noqa: F811
    job = replace(job_for(corpus, **settings), device="cuda")
    loaded = load_model(job.model, job.settings, "cpu", torch)
    card = card_torch(torch, stream)
    engine = BatchedEngine(job, card, loaded, PaddedForward(loaded.model, loaded.tokenising, job, card))
    stream.waits.clear()  # loading may wait, the pass may not
    return engine


def test_m20_the_default_engine_never_waits_for_the_card_before_the_end(corpus: Path) -> None:  # noqa: F811
    here = job_for(corpus, batch_size=4)
    assert work(here)["status"] == "completed"
    wanted = logits(here)
    stream, ledger, found = FakeStream(), Remember(), Work()
    engine = engine_on_card(corpus, stream, batch_size=4)
    engine.classify(TEXTS * 40, ledger, Parts(time.monotonic_ns), found)
    assert found.batches == 100
    assert set(stream.waits) == {"event"}, "pinned memory, copies that do not block, no value read in between"
    assert len(stream.waits) == 100, "every batch is waited for once, after the last was handed over"
    assert ledger.positions == list(range(400))
    assert torch.allclose(torch.tensor(ledger.rows[:10]), torch.tensor(wanted), atol=1e-4)
    assert found.overlapping == ("tokenise",)


def test_m24_what_loading_left_in_the_cache_is_no_need_of_the_pass(corpus: Path) -> None:  # noqa: F811
    """Emptied once, before the warm-up: emptied after it, the pass would wait for the driver's memory."""
    stream = FakeStream()
    engine = engine_on_card(corpus, stream, batch_size=4)
    engine.warm_up(TEXTS, "longest_and_first", 2)
    assert stream.emptied_at == [0] and stream.queued > 0
    assert set(stream.waits) == {"event"}, "the warm-up goes the way of the pass"
    before = stream.events
    engine.classify(TEXTS, Remember(), Parts(time.monotonic_ns), Work())
    assert stream.emptied_at == [0] and stream.events > before


def test_m24_a_model_that_was_rebuilt_is_gone_before_the_pass(corpus: Path) -> None:  # noqa: F811
    """The original of engine `packed` is a cycle of objects: on a card its weights count until it is collected."""
    stream = FakeStream()
    engine = engine_on_card(corpus, stream, batch_size=4)

    class Original:
        def __init__(self) -> None:
            self.itself = self

    kept = weakref.ref(Original())
    assert kept() is not None
    gone: list[bool] = []
    stream.empty_cache = lambda: gone.append(kept() is None)  # type: ignore[method-assign]
    engine._torch.cuda.empty_cache = stream.empty_cache
    engine.warm_up(TEXTS, "longest_and_first", 1)
    assert gone == [True]


def test_the_fake_card_sees_what_the_library_itself_would_wait_for(corpus: Path) -> None:  # noqa: F811
    """Without the ready mask the library looks at the mask of every padded batch: the test above can fail."""
    stream = FakeStream()
    engine = engine_on_card(corpus, stream, batch_size=4)
    forward: Any = engine._forward
    assert forward._ready
    forward._ready = False
    engine.classify(TEXTS, Remember(), Parts(time.monotonic_ns), Work())
    assert "__bool__" in stream.waits


def test_re09_out_of_memory_on_a_card_keeps_the_batches_that_it_had_finished(corpus: Path) -> None:  # noqa: F811
    """RE-09: batch 6 of 8 documents each does not fit. 40 are done, although nobody had fetched them yet."""
    stream, ledger = FakeStream(), Remember()
    engine = engine_on_card(corpus, stream, batch_size=8)
    forward: Any = engine._forward
    compute, calls = forward.logits, iter(range(100))

    def sixth_fails(inputs: Any) -> Any:
        if next(calls) == 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return compute(inputs)

    forward.logits = sixth_fails
    with pytest.raises(torch.OutOfMemoryError):
        engine.classify(TEXTS * 10, ledger, Parts(time.monotonic_ns), Work())
    assert ledger.positions == list(range(40))


def test_a_ledger_that_refused_a_batch_is_given_nothing_more() -> None:
    """RE-01: a full disk may have torn the last row of the spool; another row behind it would be read wrongly."""
    stream = FakeStream()
    card = card_torch(torch, stream)
    given: list[Sequence[int]] = []

    class Full:
        def add(self, positions: Sequence[int], outputs: Any) -> None:
            given.append(positions)
            raise OSError("no space left")

    fetch = Fetch(card, Full(), Parts(lambda: 0))
    for batch in range(3):
        fetch.run([batch], lambda inputs: inputs, card.full((1, 2), 0.0, device="cuda"))
    with pytest.raises(OSError, match="no space"):
        fetch.drain()
    fetch.rescue()
    assert given == [[0]]


def test_m20_pinned_blocks_and_events_serve_again(corpus: Path) -> None:  # noqa: F811
    """Pinning memory waits for the card: outputs that stayed views of pinned blocks would cost one per batch."""
    stream = FakeStream()
    card = card_torch(torch, stream)
    kept: list[Any] = []

    class Keep:
        def add(self, positions: Sequence[int], outputs: Any) -> None:
            kept.append(outputs)

    fetch = Fetch(card, Keep(), Parts(lambda: 0))
    for batch in range(50):
        fetch.run([batch], lambda inputs: inputs, card.full((1, 2), float(batch), device="cuda"))
        stream.done = stream.queued  # a card that keeps up
    fetch.drain()
    assert [float(outputs[0, 0]) for outputs in kept] == [float(batch) for batch in range(50)]
    assert all(outputs.base is None and outputs.flags.owndata for outputs in kept), "views of nothing"
    assert stream.events <= 6, "three events per batch under way, not per batch of the corpus"


def test_tokenising_ahead_is_in_effect_and_recorded(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    from runner.measure.engines.tokenizing import Tokenising

    threads: list[str] = []
    encode = Tokenising.encode

    def noting(self: Tokenising, texts: Sequence[str]) -> Any:
        threads.append(threading.current_thread().name)
        return encode(self, texts)

    monkeypatch.setattr(Tokenising, "encode", noting)
    for wanted, name in ((True, "ahead"), (False, "MainThread")):
        threads.clear()
        job = job_for(corpus, batch_size=2, extra={"tokenise_ahead": wanted})
        loaded = load_model(job.model, job.settings, "cpu", torch)
        engine = BatchedEngine(job, torch, loaded, PaddedForward(loaded.model, loaded.tokenising, job, torch))
        done = Remember()
        engine.classify(TEXTS * 30, done, Parts(time.monotonic_ns), Work())
        assert set(threads) == {name}
        assert done.positions == list(range(300))
        assert engine.loaded.effective["extra"] == {"tokenise_ahead": wanted}


def test_an_error_in_the_thread_comes_out_in_its_place_and_an_early_stop_ends_it() -> None:
    def source() -> Iterator[int]:
        yield from range(3)
        raise ValueError("broken text")

    seen = []
    with pytest.raises(ValueError, match="broken text"):
        for item in Ahead(source()):
            seen.append(item)
    assert seen == [0, 1, 2]
    before = threading.active_count()
    ahead = iter(Ahead(iter(range(1000))))
    assert next(ahead) == 0
    ahead.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
