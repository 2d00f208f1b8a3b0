"""Threads that share a device: how many of them compute at one time, and what each of them has to itself."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

LISTEN = 0.1  # [s] how long Ctrl-C may wait where a lock does not hear it (Windows)


class Turns:
    """`with turns:` for at most `count` threads at one time; the others wait in line, first come, first served.

    Several queues on few cores take turns by the millisecond, and a request that is nearly done waits for all others.
    A threading.Semaphore would let whoever asks pass by those who wait: some would wait for a second.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._line.append(mine)
        try:
            while not mine.acquire(timeout=LISTEN):
                pass
        except BaseException:
            self._leave(mine)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._next()

    def _next(self) -> None:
        with self._lock:
            if self._line:
                self._line.popleft().release()
            else:
                self._free += 1

    def _leave(self, mine: threading.Lock) -> None:
        """Whoever was interrupted in the line goes out of it, or hands on the turn that came meanwhile."""
        with self._lock:
            waiting = mine in self._line
            if waiting:
                self._line.remove(mine)
        if not waiting:
            self._next()


class _Held:
    """A seat as long as its thread lives: a thread's locals go when it ends."""

    def __init__(self, number: int, free: deque[int]) -> None:
        self.number, self.free = number, free

    def __del__(self) -> None:
        self.free.append(self.number)  # takes no lock: this may run in the middle of anything


class Seats:
    """A number for each thread; that of a thread that ended goes to one that comes later, with what belongs to it.

    `free` are those that nobody has, the longest unused first.
    """

    def __init__(self) -> None:
        self.free: deque[int] = deque()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._made = 0

    def mine(self) -> int:
        """This thread's."""
        held: _Held | None = getattr(self._local, "held", None)
        if held is None:
            held = self._local.held = _Held(self._number(), self.free)
        return held.number

    def _number(self) -> int:
        try:
            return self.free.pop()
        except IndexError:
            with self._lock:
                self._made += 1
                return self._made
