"""Ctrl-C between steps, never in the middle of one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupts:
    """Within `with Interrupts() as guard`, a SIGINT that arrives inside `guard.hold()` is raised when the block ends.

    Does nothing outside the main thread, where Python delivers no signals, and where SIGINT is ignored.
    """

    def __init__(self) -> None:
        self._held = 0
        self._waiting: tuple[int, FrameType | None] | None = None
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._heard)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._waiting = (number, frame)
        else:
            self._before(number, frame)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """What is done inside is done whole. Holds may lie in one another."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._waiting and not self._held:
            waiting, self._waiting = self._waiting, None
            self._before(*waiting)
