"""Do the next step of an iterator in a thread while the caller works on this one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Ahead(Generic[T]):
    """Iterates `source` in a thread, at most `depth` items ahead. Errors come out where they belong.

    Worth it where the step releases the interpreter lock (the Rust tokenizer does) and the caller waits for
    something else than this processor. `close` ends the thread also when the caller stops early.
    """

    def __init__(self, source: Iterator[T], depth: int = 2) -> None:
        self._source = source
        self._items: queue.Queue[T | _End] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._source:
                if not self._put(item):
                    return
        except Exception as caught:
            error = caught
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        while not self._stopped.is_set():
            try:
                self._items.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[T]:
        try:
            while True:
                item = self._items.get()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                yield item
        finally:
            self.close()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
