"""A thread that does something at an interval and sleeps in between."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Repeater:
    """`action` at the start, every `interval_seconds`, and at the end (there `last`); it waits, never spins."""

    def __init__(
        self, name: str, interval_seconds: float, action: Callable[[], None], last: Callable[[], None] | None = None
    ) -> None:
        self._interval_seconds = interval_seconds
        self._action = action
        self._last = last or action
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._action()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._last()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_seconds):
            self._action()
