"""What a kept process frees of a card between two attempts (M17, M21, ME-01), with a stand-in of torch's allocator.

The stand-in does what `torch.cuda` 2.13 documents: a block is free when its tensor is gone *and* the work that
uses it is done, a freed block stays reserved until `empty_cache`, a workspace of cuBLAS is a block that only
`_cuda_clearCublasWorkspaces` lets go, `reset_peak_memory_stats` sets the peak to what is in use.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from runner.measure.kept import Life  # noqa: E402

MIB = 1 << 20


class Block:
    """A tensor on the card."""


class Allocator:
    """torch's caching allocator of one card, asynchronous: freed blocks wait for the work that uses them."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.in_use_by_work: list[int] = []  # of tensors that are gone already
        self.cached = self.workspace = self.pinned = self.peak = 0
        self.calls: list[str] = []
        self.broken = self.initialised = False

    def make(self, size: int) -> Block:
        block = Block()
        self.live[id(block)] = size
        weakref.finalize(block, self._gone, id(block))
        self.peak = max(self.peak, self.memory_allocated())
        return block

    def _gone(self, name: int) -> None:
        self.in_use_by_work.append(self.live.pop(name))

    def memory_allocated(self, *_: Any) -> int:
        return sum(self.live.values()) + sum(self.in_use_by_work) + self.workspace

    @property
    def reserved(self) -> int:
        return self.memory_allocated() + self.cached

    def is_initialized(self) -> bool:
        return self.initialised

    def synchronize(self, *_: Any) -> None:
        self.calls.append("synchronize")
        if self.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        self.cached += sum(self.in_use_by_work)
        self.in_use_by_work.clear()

    def clear_workspaces(self) -> None:
        self.calls.append("workspaces")
        self.cached += self.workspace
        self.workspace = 0

    def empty_host(self) -> None:
        self.calls.append("host")
        self.pinned = 0

    def empty_cache(self) -> None:
        self.calls.append("empty_cache")
        self.cached = 0

    def reset_peak_memory_stats(self, *_: Any) -> None:
        self.calls.append("reset")
        self.peak = self.memory_allocated()


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Allocator]:
    allocator = Allocator()
    for name in ("is_initialized", "synchronize", "empty_cache", "memory_allocated", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, getattr(allocator, name))
    # Names of a build for cards; this one has none of them.
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", allocator.clear_workspaces, raising=False)
    monkeypatch.setattr(torch._C, "_host_emptyCache", allocator.empty_host, raising=False)
    was_enabled = gc.isenabled()
    yield allocator
    if was_enabled:
        gc.enable()


def _attempt(card: Allocator) -> None:
    """Weights that hold each other, a workspace, pinned memory, outputs whose copy is still under way."""
    card.initialised = True
    weights, other = card.make(400 * MIB), card.make(8 * MIB)
    weights.other, other.other = other, weights  # type: ignore[attr-defined]
    card.workspace, card.pinned = 32 * MIB, 4 * MIB
    card.make(1 * MIB)


def test_me01_everything_of_an_attempt_is_given_back_to_the_card(card: Allocator) -> None:
    life = Life()
    life.imported()
    _attempt(card)
    assert card.peak == 441 * MIB
    assert life.free() is None
    assert (card.memory_allocated(), card.reserved, card.pinned, card.peak) == (0, 0, 0, 0)
    assert card.calls == ["synchronize", "workspaces", "host", "empty_cache", "reset"]
    _attempt(card)
    assert life.free() is None and card.reserved == 0


def test_m21_memory_of_the_card_that_stays_ends_the_process(card: Allocator) -> None:
    life = Life()
    life.imported()
    _attempt(card)
    stays = card.make(2 * MIB)
    assert life.free() == "not as it was before: device memory"
    del stays


def test_m21_a_card_in_error_is_not_used_again(card: Allocator) -> None:
    """Issue 6: a device-side assert never taints the next attempt."""
    life = Life()
    life.imported()
    _attempt(card)
    card.broken = True
    assert life.free() == "it could not be freed (RuntimeError)"


def test_a_process_that_never_opened_a_card_is_asked_nothing_about_one(card: Allocator) -> None:
    life = Life()
    life.imported()
    assert life.free() is None and card.calls == []
