"""Device memory from a pool: released buffers are kept by size and handed out again."""

from __future__ import annotations

import bisect
import gc
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import OutOfDeviceMemory
from ...show import size
from .device import Device, check_not_forked
from .faults import translate
from .huge_pages import prefer_huge

__all__ = ["Block", "Pool", "Statistics", "available_memory", "size_class"]

UNIT = 512
SMALL = 64 << 10
LARGE = 1 << 20  # from here on blocks fit requests of down to half their size, so that classes may be narrow
STEPS, LARGE_STEPS = 8, 256  # classes a power of two
KNOWN = 4096  # sizes of which a pool keeps the class
HEADROOM = 1 << 30
LEAST_BUDGET = 256 << 20
FULL_CODES = {-4, -5, -6}


def size_class(nbytes: int) -> int:
    """The capacity of the buffer for `nbytes`: multiples of 512 B, above 64 KiB eight steps per power of two, above
    1 MiB 256.
    """
    if nbytes <= SMALL:
        return max(UNIT, -(-nbytes // UNIT) * UNIT)
    step = (1 << (nbytes - 1).bit_length() - 1) // (LARGE_STEPS if nbytes > LARGE else STEPS)
    return -(-nbytes // step) * step


def available_memory() -> int:
    """Bytes that this process may still take from the host, its control group included."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")]
    except OSError:
        pass
    try:
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text())
        found.append(int((group / "memory.max").read_text()) - used)
    except (OSError, ValueError):  # no control group, or "max"
        pass
    return min(found) if found else 8 << 30


def default_limit(device: Device) -> int:
    """CPU runtimes hand out more than there is and die later, so they get what the host can spare."""
    share = int(device.global_memory * 0.8)
    if device.has_own_memory:
        return share
    return max(LEAST_BUDGET, min(share, available_memory() - HEADROOM))


class Statistics(NamedTuple):
    """Bytes, except `allocations` (buffers really made) and `requests` (blocks handed out)."""

    active: int
    cached: int
    peak: int
    wasted: int
    limit: int
    allocations: int
    requests: int


@dataclass(slots=True, eq=False)
class _Buffer:
    """A cl.Buffer of the pool, and the thread that used it last."""

    buffer: Any
    capacity: int
    owner: int


class Block:
    """A buffer of at least `nbytes`. Goes back to its pool by `release()` or when nothing refers to it any more."""

    __slots__ = ("__weakref__", "_pool", "_whole", "buffer", "label", "nbytes", "number")

    def __init__(self, pool: Pool, whole: _Buffer, nbytes: int, label: str, number: int) -> None:
        self._pool: Pool | None = pool
        self._whole = whole
        self.buffer = whole.buffer
        self.nbytes = nbytes
        self.label = label
        self.number = number  # of the pool's blocks, in the order in which they were handed out

    @property
    def capacity(self) -> int:
        """[bytes] of the buffer."""
        return self._whole.capacity

    def adopt(self) -> None:
        """This thread uses it from now on; whoever did before is done with it."""
        self._whole.owner = threading.get_ident()

    def release(self) -> None:
        """Safe from any thread, twice, from the garbage collector and at exit: a deque's append takes no lock."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._returned.append((self._whole, self.nbytes, self.label))
            self.buffer = None

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:  # or it never finished __init__
            self.release()

    def __repr__(self) -> str:
        state = "released" if self._pool is None else self.label or "unnamed"
        return f"Block({self.nbytes} of {self.capacity} bytes, {state})"


class Pool:
    """All device memory of an engine, shared by its threads.

    A block may be handed out again while kernels that use it are still queued: the thread that released it puts its
    next commands into the same in-order queue, behind them. Where it goes to another thread, `settle(thread)` waits
    first.
    """

    def __init__(self, device: Device, *, limit: int | None = None, flush: Callable[[], None] | None = None,
                 settle: Callable[[int], None] | None = None) -> None:
        self.device = device
        self.context = device.context
        self.flush = flush
        self.settle = settle
        self._lock = threading.RLock()
        self._returned: deque[tuple[_Buffer, int, str]] = deque()
        self._capacities: dict[int, int] = {}  # of the buffers for so many bytes, as they were asked for
        self._by_size: dict[int, list[_Buffer]] = {}
        self._sizes: list[int] = []
        self._oldest_first: OrderedDict[int, _Buffer] = OrderedDict()
        self._labels: defaultdict[str, int] = defaultdict(int)  # and no Counter, which is slow where a label is missing
        self._active = self._cached = self._peak = self._asked = self._allocations = self._requests = 0
        self.set_limit(limit or default_limit(device))

    def set_limit(self, nbytes: int) -> None:
        """The budget in bytes; half of it may lie in the cache."""
        self.limit = int(nbytes)
        self.soft_limit = self.limit // 2
        self.trim(self.soft_limit)

    def alloc(self, nbytes: int, label: str = "") -> Block:
        """A block of `nbytes` (0 gets a buffer too). OutOfDeviceMemory after the cache is emptied
        and garbage collected.
        """
        check_not_forked()
        capacity = self._capacities.get(nbytes)
        if capacity is None:
            nbytes = int(nbytes)
            capacity = self._capacity(nbytes, label)
            if len(self._capacities) < KNOWN:
                self._capacities[nbytes] = capacity
        with self._lock:
            self._requests = number = self._requests + 1
            whole = self._handed_on(capacity, nbytes, label) or self._booked(capacity, nbytes, label)
        thread = threading.get_ident()
        if whole.owner != thread:
            if self.settle is not None:
                self.settle(whole.owner)
            whole.owner = thread
        return Block(self, whole, nbytes, label, number)

    def _handed_on(self, capacity: int, nbytes: int, label: str) -> _Buffer | None:
        """The buffer that came back last, where just such a one is asked for: a result of a step that runs again and
        again goes to its next run, and only the bytes asked for are booked anew.
        """
        try:
            last = self._returned.pop()
        except IndexError:
            return None
        whole, before, its = last
        if whole.capacity != capacity or its != label:
            self._returned.append(last)
            return None
        self._asked += nbytes - before
        return whole

    def _booked(self, capacity: int, nbytes: int, label: str) -> _Buffer:
        """A buffer of the cache, or a new one."""
        self._drain()
        whole = self._take(capacity)
        if whole is None:
            whole = _Buffer(self._create(capacity, nbytes, label), capacity, threading.get_ident())
        self._active += whole.capacity
        self._asked += nbytes
        self._labels[label] += whole.capacity
        self._peak = max(self._peak, self._active)
        return whole

    def _capacity(self, nbytes: int, label: str) -> int:
        largest = self.device.max_alloc
        if nbytes < 0 or nbytes > largest:
            raise OutOfDeviceMemory(
                f"{label or 'Pool'}: expected at most {size(largest)} ({self.device.key}'s largest buffer); "
                f"got {size(nbytes)}; split it.")
        capacity = size_class(nbytes)
        return capacity if capacity <= largest else nbytes

    def _drain(self) -> None:
        while self._returned:
            whole, nbytes, label = self._returned.popleft()
            self._active -= whole.capacity
            self._asked -= nbytes
            self._labels[label] -= whole.capacity
            if self._labels[label] <= 0:
                del self._labels[label]
            self._put(whole)
        if self._cached > self.soft_limit:
            self._trim(self.soft_limit)

    def _put(self, cached: _Buffer) -> None:
        same = self._by_size.get(cached.capacity)
        if same is None:
            same = self._by_size[cached.capacity] = []
            bisect.insort(self._sizes, cached.capacity)
        same.append(cached)
        self._oldest_first[id(cached)] = cached
        self._cached += cached.capacity

    def _forget(self, cached: _Buffer) -> None:
        same = self._by_size[cached.capacity]
        if same[-1] is cached:
            same.pop()
        else:
            same.remove(cached)
        if not same:
            del self._by_size[cached.capacity]
            self._sizes.remove(cached.capacity)
        del self._oldest_first[id(cached)]
        self._cached -= cached.capacity

    def _take(self, capacity: int) -> _Buffer | None:
        same = self._by_size.get(capacity)
        if same is None and capacity >= LARGE:
            index = bisect.bisect_left(self._sizes, capacity)
            if index < len(self._sizes) and self._sizes[index] < 2 * capacity:
                same = self._by_size[self._sizes[index]]
        if not same:
            return None
        cached = same[-1]
        self._forget(cached)
        return cached

    def _create(self, capacity: int, nbytes: int, label: str) -> Any:
        buffer = self._try(capacity)
        if buffer is None:
            # Buffers may hang on queued work and on cycles that nobody has collected yet.
            if self.flush is not None:
                self.flush()
            gc.collect()
            self._drain()
            self._trim(0)
            buffer = self._try(capacity)
        if buffer is None:
            raise OutOfDeviceMemory(self._full(nbytes, label))
        return buffer

    def _try(self, capacity: int) -> Any:
        """A new buffer, or None where the budget or the driver has no room."""
        import pyopencl as cl

        if self._active + self._cached + capacity > self.limit:
            self._trim(max(0, self.limit - self._active - capacity))
            if self._active + self._cached + capacity > self.limit:
                return None
        try:
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, capacity)
            prefer_huge(self.device, buffer)
        except (cl.Error, MemoryError) as error:
            if isinstance(error, MemoryError) or error.code in FULL_CODES:
                return None
            raise translate(error, "Pool") from error
        self._allocations += 1
        return buffer

    def _full(self, nbytes: int, label: str) -> str:
        holders = ", ".join(f"{name or 'unnamed'} {size(held)}" for name, held in Counter(self._labels).most_common(5))
        return (f"{label or 'Pool'}: expected room for {size(nbytes)} on {self.device.key}; got {size(self._active)} "
                f"of {size(self.limit)} in use (largest: {holders or 'none'}); make the batch smaller, free arrays "
                "or raise the limit with set_limit.")

    def trim(self, keep: int = 0) -> int:
        """Gives the longest unused cached buffers back until `keep` bytes are left; returns the bytes freed."""
        with self._lock:
            self._drain()
            return self._trim(keep)

    def _trim(self, keep: int) -> int:
        before = self._cached
        while self._cached > keep:
            cached = next(iter(self._oldest_first.values()))
            self._forget(cached)
            # Dropping the reference is enough: OpenCL keeps a buffer until queued commands are done with it.
            del cached
        return before - self._cached

    def statistics(self) -> Statistics:
        with self._lock:
            self._drain()
            return Statistics(active=self._active, cached=self._cached, peak=self._peak,
                              wasted=self._active - self._asked, limit=self.limit, allocations=self._allocations,
                              requests=self._requests)

    def holders(self, count: int = 5) -> list[tuple[str, int]]:
        """The labels that hold most, with their bytes."""
        with self._lock:
            self._drain()
            return Counter(self._labels).most_common(count)

    def reset_peak(self) -> None:
        with self._lock:
            self._drain()
            self._peak = self._active
