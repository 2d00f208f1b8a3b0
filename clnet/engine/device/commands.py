"""One in-order command queue per thread, waits that hear Ctrl-C, and copies that are counted."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent import futures
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ClassVar, Protocol

import numpy as np

from ...errors import DTypeError, ShapeError
from .device import Device, check_not_forked
from .faults import translated
from .transfers import Transfers
from .turns import LISTEN, Turns

# Up to here [s] nobody notices that Ctrl-C waits; another thread that waits costs 0.1 ms,
# which is less than a percent of longer waits.
UNNOTICED = 20e-3
STREAK = 4
WIDEST = 128  # bytes of the widest pattern that OpenCL fills a buffer with


class Listener(Protocol):
    """Who is told of what goes into the queues, with the events that carry its times.

    alone   whether each launch is waited for before the next
    """

    alone: bool

    def launched(self, launch: Any, event: Any) -> None:
        """A launch of a plan; of one that the host computes there is no event."""

    def copied(self, what: str, nbytes: int, event: Any, queue: str = "commands") -> None:
        """A copy, "to device" say."""


class _Lane:
    """The queue of one thread, with the host arrays that its copies still touch."""

    def __init__(self, commands: Any, timed: bool) -> None:
        self.commands, self.timed = commands, timed
        self.uploads: Any = None
        self.copying: deque[tuple[Any, np.ndarray[Any, Any]]] = deque()
        self.waited_at = 0.0
        self.short_waits = 0
        self.hears = threading.current_thread() is threading.main_thread()  # Ctrl-C, which no other thread is told of


class Queue:
    """The queues of a device. Use from any thread: each gets its own in-order cl.CommandQueue at first use.

    turns   for threads that compute and wait, where more of them than the device has units would be in each other's way
    told    who is told of everything; while there is somebody, queues take times, which slows every launch
    """

    told: Listener | None = None

    def __init__(self, device: Device, transfers: Transfers | None = None) -> None:
        self.device = device
        self.transfers = transfers or Transfers()
        self.turns = Turns(max(2, device.compute_units))  # two: one computes while the other is in Python
        self._context = device.context
        self._lanes: dict[int, _Lane] = {}
        self._lock = threading.Lock()

    @property
    def commands(self) -> Any:
        """This thread's cl.CommandQueue."""
        return self._lane().commands

    @property
    def uploads(self) -> Any:
        """This thread's queue for copies that go on beside its commands;
        whoever reads what they bring has to wait for their events.
        """
        lane = self._lane()
        if lane.uploads is None:
            lane.uploads = self._made(lane.timed)
        return lane.uploads

    def _lane(self) -> _Lane:
        check_not_forked()
        thread, timed = threading.get_ident(), self.told is not None
        lane = self._lanes.get(thread)
        if lane is None:
            # The system reuses thread numbers, so a dead thread's queue finds a new owner and is never a leak.
            lane = self._lanes[thread] = _Lane(self._made(timed), timed)
        elif lane.timed != timed:
            with translated("Queue"):
                for queue in (lane.uploads, lane.commands):
                    if queue is not None:
                        queue.finish()
            lane.commands, lane.uploads, lane.timed = self._made(timed), None, timed
        return lane

    def _made(self, timed: bool) -> Any:
        import pyopencl as cl

        with translated("Queue"):
            if not timed:
                return cl.CommandQueue(self._context, self.device.handle)
            properties = cl.command_queue_properties.PROFILING_ENABLE
            return cl.CommandQueue(self._context, self.device.handle, properties=properties)

    def finish(self) -> None:
        """Waits for everything this thread has put in."""
        import pyopencl as cl

        lane = self._lane()
        with translated("Queue.finish"):
            if self._expect_short(lane):
                self._timed(lane, lane.commands.finish)
            else:
                event = cl.enqueue_marker(lane.commands)
                lane.commands.flush()
                self._timed(lane, lambda: _aside(event.wait))
        lane.copying.clear()

    def wait(self, event: Any) -> None:
        """Waits for a cl.Event of this thread's queue. KeyboardInterrupt is raised at once, the queue stays usable."""
        lane = self._lane()
        with translated("Queue.wait"):
            if self._expect_short(lane):
                self._timed(lane, event.wait)
            else:
                lane.commands.flush()
                self._timed(lane, lambda: _aside(event.wait))

    def settle(self, thread: int) -> None:
        """Waits for another thread's queue: the pool calls it before a buffer changes hands."""
        lane = self._lanes.get(thread)
        if lane is not None and thread != threading.get_ident():
            with translated("Queue.settle"):
                lane.commands.finish()

    def _expect_short(self, lane: _Lane) -> bool:
        # A blocked thread is deaf to Ctrl-C, and another thread that blocks in its stead costs 0.1 ms. So: block here
        # while waits have been short and close together.
        return not lane.hears or (lane.short_waits >= STREAK and time.perf_counter() - lane.waited_at < UNNOTICED)

    def _timed(self, lane: _Lane, wait: Any) -> None:
        start = time.perf_counter()
        try:
            wait()
        finally:
            lane.waited_at = time.perf_counter()
            lane.short_waits = lane.short_waits + 1 if lane.waited_at - start < UNNOTICED else 0

    def upload(self, buffer: Any, array: np.ndarray[Any, Any], offset: int = 0, *, wait: bool = True) -> Any:
        """Host to device, in C order, at `offset` bytes; returns the cl.Event.

        Without `wait` the array is kept alive, but must not be written to before the queue is done with it.
        """
        import pyopencl as cl

        array = np.asarray(array, order="C")  # an F-ordered array would arrive in memory order: silently wrong
        if array.dtype.hasobject:
            raise DTypeError(f"Queue.upload: expected numbers, got {array.dtype}; convert it with astype.")
        lane = self._lane()
        if array.nbytes == 0:
            return None
        with translated("Queue.upload"):
            event = cl.enqueue_copy(lane.commands, buffer, _bytes(array), dst_offset=offset, is_blocking=False)
        self.transfers.to_device(array.nbytes)
        if self.told is not None:
            self.told.copied("to device", array.nbytes, event)
        if wait:
            self._wait_for_copy(lane, event, array)
        else:
            lane.copying.append((event, array))
            while lane.copying and lane.copying[0][0].command_execution_status <= 0:
                lane.copying.popleft()
        return event

    def fill(self, buffer: Any, pattern: np.ndarray[Any, Any], count: int) -> None:
        """Writes the bytes of `pattern` `count` times, one after another; nothing goes from the host to the device."""
        import pyopencl as cl

        wide, total = np.tile(_bytes(pattern), WIDEST // pattern.nbytes), pattern.nbytes * count
        most = total - total % wide.size  # Intel's runtime writes pattern after pattern: wide ones are done sooner
        with translated("Queue.fill"):
            for start, size, one in ((0, most, wide), (most, total - most, _bytes(pattern))):
                if size:
                    cl.enqueue_fill_buffer(self.commands, buffer, one, start, size)

    def download(self, buffer: Any, out: np.ndarray[Any, Any], offset: int = 0) -> np.ndarray[Any, Any]:
        """Device to `out` (C-contiguous, writable), from `offset` bytes; waits and returns `out`."""
        import pyopencl as cl

        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ShapeError(
                "Queue.download: expected a writable C-contiguous array, got another; pass np.empty(shape).")
        if out.nbytes == 0:
            return out
        lane = self._lane()
        with translated("Queue.download"):
            event = cl.enqueue_copy(lane.commands, _bytes(out), buffer, src_offset=offset, is_blocking=False)
        if self.told is not None:
            self.told.copied("to host", out.nbytes, event)
        self._wait_for_copy(lane, event, out)
        self.transfers.to_host(out.nbytes)
        return out

    def _wait_for_copy(self, lane: _Lane, event: Any, array: np.ndarray[Any, Any]) -> None:
        try:
            self.wait(event)
        except BaseException:
            # Interrupted: the copy still runs, and pyopencl's event would block when it dies with the array.
            lane.copying.append((event, array))
            raise


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Some element types (bfloat16) have no buffer protocol; bytes always have.
    return array.reshape(-1).view(np.uint8)


class _Waiter:
    """A thread that blocks in place of others. It stays when they are done: a CPU runtime lets the thread
    that waits do work, and a new one comes late.
    """

    idle: ClassVar[list[_Waiter]] = []

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[None]] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="clnet wait", daemon=True)
        self.thread.start()

    def begin(self, wait: Callable[[], Any]) -> Future[None]:
        future: Future[None] = Future()
        self._jobs.put((wait, future))
        return future

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._serve_one(*job)
            del job  # or it would hold the last one's result until the next

    def end(self) -> None:
        """Once it is idle and nobody finds it."""
        self._jobs.put(None)
        self.thread.join(5)

    def _serve_one(self, wait: Callable[[], Any], future: Future[None]) -> None:
        try:
            wait()
        except BaseException as error:
            self.idle.append(self)
            future.set_exception(error)
        else:
            self.idle.append(self)
            future.set_result(None)


def dismiss(keep: Collection[threading.Thread]) -> None:
    """Ends the threads that wait for nothing now, but those to keep."""
    idle = []
    while _Waiter.idle:
        idle.append(_Waiter.idle.pop())
    for waiter in idle:
        if waiter.thread in keep:
            _Waiter.idle.append(waiter)
        else:
            waiter.end()


def _aside(wait: Callable[[], Any]) -> None:
    """Blocks in another thread while this one hears Ctrl-C; after it, that thread waits on alone.

    Somebody has to block: a CPU runtime keeps one core idle as long as nobody does.
    """
    try:
        waiter = _Waiter.idle.pop()
    except IndexError:
        waiter = _Waiter()
    future = waiter.begin(wait)
    while not future.done():
        futures.wait([future], LISTEN)
    future.result()
