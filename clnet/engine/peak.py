"""What a device reaches at best, measured by two kernels: multiply-adds that wait for nobody, and a triad that no cache holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .codegen import kernel_file
from .faults import translated

ELEMENTS = 1 << 25  # float32, 128 MiB an array: more than the last-level caches of CPUs and GPUs
LONG = 0.02  # [s] a sample is made at least this long
SAMPLES = 7
ITEMS_A_CORE = 4
GPU_GROUP, GPU_GROUPS_A_UNIT, GPU_WIDTH = 256, 16, 4
GPU_TRIADS = 32  # launches a sample: one is over before the host has seen its end


@dataclass(frozen=True)
class Peak:
    """[GFLOP/s] of float32 multiply-adds, an addition and a product each counting one; [GB/s] of a triad, three arrays counted."""

    gflops: float
    gbytes: float

    def attainable(self, intensity: float) -> float:
        """[GFLOP/s] that the roof allows at `intensity` flops a byte."""
        return min(self.gflops, intensity * self.gbytes)


def measure(engine: Any) -> Peak:
    """The best of several samples of each kernel on the engine's device; about a second."""
    return Peak(_multiply_adds(engine), _triad(engine))


def _kernel(engine: Any, name: str, width: int, chains: int = 12) -> Any:
    import pyopencl as cl

    device = engine.device
    lines = ["#define T float", f"#define VW {width}", f"#define CHAINS {chains}", f"#define USE_FMA {int(device.runtime != 'pocl')}",
             "#define CAST_LOADS" if device.kind == "gpu" else "", kernel_file("include/vector.h"), kernel_file("peak.cl")]
    with translated(f"kernel {name}"):
        return cl.Kernel(engine.programs.get("\n".join(lines), engine.options, name=name), name)


def _multiply_adds(engine: Any) -> float:
    device = engine.device
    gpu = device.kind == "gpu"
    width, chains, unrolled = 1 if gpu else device.vector_width, 12, 8
    items = device.compute_units * (GPU_GROUP * GPU_GROUPS_A_UNIT if gpu else ITEMS_A_CORE)
    block = engine.pool.alloc(4 * items, "peak")
    kernel = _kernel(engine, "multiply_adds", width, chains)
    rounds = 1000
    while True:
        kernel.set_args(block.buffer, np.float32(0.5), np.float32(1), np.uint64(rounds))
        seconds = _best(engine, kernel, items, GPU_GROUP if gpu else 1, samples=1)
        if seconds >= LONG:
            break
        rounds *= 2 if seconds > LONG / 8 else 8
    seconds = min(seconds, _best(engine, kernel, items, GPU_GROUP if gpu else 1))
    return 2.0 * width * chains * unrolled * rounds * items / seconds / 1e9


def _triad(engine: Any) -> float:
    import pyopencl as cl

    device = engine.device
    gpu = device.kind == "gpu"
    width = GPU_WIDTH if gpu else device.vector_width
    units = ELEMENTS // width if gpu else max(k for k in range(1, device.compute_units + 1) if ELEMENTS % (k * width) == 0)
    blocks = [engine.pool.alloc(4 * ELEMENTS, "peak") for _ in range(2)]
    for b in blocks:  # a page that nobody wrote is one page of zeros for all, and in the cache
        cl.enqueue_fill_buffer(engine.queue.commands, b.buffer, np.ones(1, np.float32), 0, 4 * ELEMENTS)
    kernel = _kernel(engine, "triad", width)
    kernel.set_args(*(b.buffer for b in blocks), np.float32(0.5), np.uint64(ELEMENTS // units))
    return 12.0 * ELEMENTS / _best(engine, kernel, units, GPU_GROUP if gpu else 1, launches=GPU_TRIADS if gpu else 1) / 1e9


def _best(engine: Any, kernel: Any, items: int, group: int, samples: int = SAMPLES, launches: int = 1) -> float:
    """[s] a launch, the fastest of some samples, after one that touches the memory for the first time."""
    import pyopencl as cl

    def sample() -> None:
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(engine.queue.commands, kernel, (items,), (group,))
        engine.finish()

    with translated("peak"):
        sample()
        return min(_seconds(sample) for _ in range(samples)) / launches


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
