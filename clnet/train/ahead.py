"""A thread that reads what comes next while this is computed with, and is gone when its reader is."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
COUNT = 2  # of items that wait
PATIENCE = 5.0  # [s] for a source that does not come back from reading


class _Reader(Generic[T]):
    """What runs in the thread. It puts (item,), an error, or None at the end."""

    def __init__(self, source: Iterator[T], count: int) -> None:
        self.source = source
        self.box: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(count)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, name="clnet reads ahead", daemon=True)

    def run(self) -> None:
        last: BaseException | None = None
        try:
            for item in self.source:
                self.box.put((item,))
                if self.stopped.is_set():
                    break
        except BaseException as error:
            last = error
        finally:
            close = getattr(self.source, "close", None)
            if close is not None:
                close()
            self.box.put(last)

    def stop(self) -> None:
        """Takes what waits, so that the thread, which may wait for room, comes to its end."""
        self.stopped.set()
        for _ in range(int(PATIENCE / 0.01)):
            while not self.box.empty():
                self.box.get()
            self.thread.join(0.01)
            if not self.thread.is_alive():
                return


def ahead(source: Iterator[T], count: int = COUNT) -> Generator[T, None, None]:
    """The items of `source`, which a thread of its own reads, up to `count` of them before they are asked for.

    Errors of the source are raised here. When this generator is closed (an exception, Ctrl-C, or the end), the thread
    ends and the source is closed.
    """
    reader = _Reader(source, count)
    reader.thread.start()
    try:
        while (found := reader.box.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        reader.stop()
