"""Work in threads: numpy and pyarrow let go of the interpreter while they compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Span = tuple[int, int]
"""First row, and the row after the last."""
Result = TypeVar("Result")
_MOST_THREADS = 4


def in_threads(work: Callable[[int, int], Result], spans: Iterable[Span]) -> list[Result]:
    """`work(first, end)` for every span; results in their order. The first fault in that order is raised.

    At most 4 threads: each holds temporary arrays of its own.
    """
    listed = list(spans)
    workers = min(_MOST_THREADS, len(listed), os.cpu_count() or 1)
    if workers < 2:
        return [work(first, end) for first, end in listed]
    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(work, first, end) for first, end in listed]
        try:
            return [item.result() for item in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what has not begun would be for nothing
            raise


def spans_of(rows: int, at_once: int, *, first: int = 0) -> list[Span]:
    """Rows `first` to `rows`, cut into spans."""
    return [(start, min(start + at_once, rows)) for start in range(first, rows, at_once)]
