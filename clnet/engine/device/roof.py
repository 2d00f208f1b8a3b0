"""What a device reaches at best, measured by two kernels: multiply-adds that wait for nobody,
and a triad in memory and in caches.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..compile.source import kernel_file
from .faults import translated
from .folders import cache_root
from .program_files import Store, digest

if TYPE_CHECKING:
    from ..opencl import OpenCLEngine
    from ..protocol import Engine

ELEMENTS = 1 << 25  # float32, 128 MiB an array: more than the last-level caches of CPUs and GPUs
# float32 an array: two of them in the first, second, third level of usual caches
CACHED = (1 << 14, 1 << 17, 1 << 19, 1 << 21)
LONG = 0.02  # [s] a sample is made at least this long
SAMPLES = 7
ITEMS_A_CORE = 8  # with one or two each, not every core of sixteen gets its share
GPU_GROUP, GPU_GROUPS_A_UNIT, GPU_WIDTH = 256, 16, 4
GPU_TRIADS = 32  # launches a sample: one is over before the host has seen its end
LAUNCHES = 256  # of nearly nothing, whose time is that of a launch
KEPT = 1 << 20  # [bytes] of peaks on disk


@dataclass(frozen=True)
class Peak:
    """[GFLOP/s] of float32 multiply-adds, an addition and a product each counting one;
    [GB/s] of a triad in memory, three arrays counted.

    streams   (bytes, [GB/s]): the same where all arrays together are so small that caches hold them
    launch    [s] of a launch by itself, one after the other in a queue; 0 where it was not measured
    """

    gflops: float
    gbytes: float
    streams: tuple[tuple[float, float], ...] = ()
    launch: float = 0.0

    def bandwidth(self, nbytes: float = math.inf) -> float:
        """[GB/s] at best over so many bytes: of memory, or of the caches that hold them all."""
        return max([self.gbytes, *(rate for size, rate in self.streams if size >= nbytes)])

    def attainable(self, intensity: float, nbytes: float = math.inf) -> float:
        """[GFLOP/s] that the roof allows at `intensity` flops a byte over so many bytes."""
        return min(self.gflops, intensity * self.bandwidth(nbytes))

    def raised(self, other: Peak) -> Peak:
        """The higher of both, everywhere."""
        streams = {size: max(r for n, r in (*self.streams, *other.streams) if n == size)
                   for size, _ in (*self.streams, *other.streams)}
        return Peak(max(self.gflops, other.gflops), max(self.gbytes, other.gbytes), tuple(streams.items()),
                    min((n for n in (self.launch, other.launch) if n), default=0.0))


def measure(engine: Engine) -> Peak:
    """The best of several samples of each kernel on the engine's device, which has to be one of OpenCL; about a second.
    """
    able = cast("OpenCLEngine", engine)
    found = Peak(_multiply_adds(able), _triad(able), tuple((8.0 * n, _triad(able, n)) for n in CACHED), _launch(able))
    before = _kept(engine)
    best = found if before is None else found.raised(before)  # it may have been busy
    _known[engine.device.key] = best
    _store().write(_key(engine), json.dumps(dataclasses.asdict(best)).encode())
    return found


_known: dict[str, Peak] = {}  # by the device's key


def known(engine: Engine) -> Peak:
    """The most that was measured on this machine, by this process or others before; measured now where nothing was."""
    key = engine.device.key
    if key not in _known:
        kept = _kept(engine)
        if kept is None:
            measure(engine)
        else:
            _known[key] = kept
    return _known[key]


def _kept(engine: Engine) -> Peak | None:
    """What processes before have left on disk."""
    try:
        kept = json.loads(_store().read(_key(engine)) or b"")
        return Peak(kept["gflops"], kept["gbytes"], tuple((n, r) for n, r in kept["streams"]), kept["launch"])
    except (ValueError, KeyError, TypeError):
        return None


def _store() -> Store:
    return Store(cache_root() / "peaks", KEPT)


def _key(engine: Engine) -> str:
    device = engine.device
    known = ["2", device.name, device.runtime, device.driver, device.compute_units, device.vector_width]
    return digest(json.dumps(known).encode())[:32]


def _kernel(engine: OpenCLEngine, name: str, width: int, chains: int = 12) -> Any:
    import pyopencl as cl

    device = engine.device
    lines = ["#define T float", f"#define VW {width}", f"#define CHAINS {chains}",
             f"#define USE_FMA {int(device.has_fma)}", "#define CAST_LOADS" if device.loads_vectors_by_cast else "",
             kernel_file("include/vector.h"), kernel_file("peak.cl")]
    with translated(f"kernel {name}"):
        return cl.Kernel(engine.programs.get("\n".join(lines), engine.options, name=name), name)


def _multiply_adds(engine: OpenCLEngine) -> float:
    device = engine.device
    gpu = device.is_gpu
    items = device.compute_units * (GPU_GROUP * GPU_GROUPS_A_UNIT if gpu else ITEMS_A_CORE)
    launch, flops = _busy(engine, items, GPU_GROUP if gpu else 1, LONG)
    launch()
    return flops / min(launch() for _ in range(SAMPLES)) / 1e9


def at_once(engine: OpenCLEngine, seconds: float) -> Callable[[], float]:
    """What keeps each core of a CPU busy with multiply-adds for about so long, and gives their rate [GFLOP/s]."""
    launch, flops = _busy(engine, engine.device.compute_units * ITEMS_A_CORE, 1, seconds)
    return lambda: flops / launch() / 1e9


def _busy(engine: OpenCLEngine, items: int, group: int, seconds: float) -> tuple[Callable[[], float], float]:
    """A launch of multiply-adds of at least so many seconds, which gives how long it took, and its flops."""
    device = engine.device
    width, chains, unrolled, rounds = 1 if device.is_gpu else device.vector_width, 12, 8, 1000
    block = engine.pool.alloc(4 * items, "peak")
    kernel = _kernel(engine, "multiply_adds", width, chains)
    sample = _sample(engine, kernel, items, group)

    def launch() -> float:
        kernel.set_args(block.buffer, np.float32(0.5), np.float32(1), np.uint64(rounds))
        with translated("peak"):
            return _seconds(sample)

    launch()
    while (took := launch()) < seconds:
        rounds *= 2 if took > seconds / 8 else 8
    return launch, 2.0 * width * chains * unrolled * rounds * items


def _triad(engine: OpenCLEngine, elements: int = ELEMENTS) -> float:
    """[GB/s] over two arrays of so many elements. On CPUs small ones are walked again and again in a launch,
    each part by one core.
    """

    device = engine.device
    gpu = device.is_gpu
    width = GPU_WIDTH if gpu else device.vector_width
    even = (k for k in range(1, device.compute_units + 1) if elements % (k * width) == 0)
    units = elements // width if gpu else max(even)
    rounds = 1 if gpu else ELEMENTS // elements // 4 or 1
    blocks = [engine.pool.alloc(4 * elements, "peak") for _ in range(2)]
    for b in blocks:  # a page that nobody wrote is one page of zeros for all, and in the cache
        engine.queue.fill(b.buffer, np.ones(1, np.float32), elements)
    kernel = _kernel(engine, "triad", width)
    kernel.set_args(*(b.buffer for b in blocks), np.float32(0.5), np.uint64(elements // units), np.uint64(rounds))
    seconds = _best(engine, kernel, units, GPU_GROUP if gpu else 1, launches=GPU_TRIADS if gpu else 1)
    return 12.0 * elements * rounds / seconds / 1e9


def _launch(engine: OpenCLEngine) -> float:
    """[s] a launch in a row of many that compute nearly nothing, every unit of the device taking part."""
    device = engine.device
    group = GPU_GROUP if device.is_gpu else 1
    items = device.compute_units * (group if device.is_gpu else ITEMS_A_CORE)
    block = engine.pool.alloc(4 * items, "peak")
    kernel = _kernel(engine, "multiply_adds", 1 if device.is_gpu else device.vector_width)
    kernel.set_args(block.buffer, np.float32(0.5), np.float32(1), np.uint64(1))
    return _best(engine, kernel, items, group, launches=LAUNCHES)


def _best(engine: OpenCLEngine, kernel: Any, items: int, group: int, launches: int = 1) -> float:
    """[s] a launch, the fastest of some samples, after one that touches the memory for the first time."""
    sample = _sample(engine, kernel, items, group, launches)
    with translated("peak"):
        sample()
        return min(_seconds(sample) for _ in range(SAMPLES)) / launches


def _sample(engine: OpenCLEngine, kernel: Any, items: int, group: int, launches: int = 1) -> Callable[[], None]:
    import pyopencl as cl

    def sample() -> None:
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(engine.queue.commands, kernel, (items,), (group,))
        engine.finish()

    return sample


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
