"""Python's search for reference cycles, put off while a short command builds much and drops little."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search inside of the block: it would walk a laid-out note again and again, a quarter of the report's time.

    Memory without cycles is freed as always.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
