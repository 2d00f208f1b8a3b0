"""Does this device compute what OpenCL promises? A second at most, before its results are trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ClnetError, ConfigError
from .commands import Queue
from .device import Device
from .faults import translated
from .programs import ProgramCache

COUNT, GROUP, BINS = 4096, 16, 8
Array = np.ndarray[Any, Any]

# Function, domain, reference in float64, and the error that OpenCL 3.0 (full profile, §7.4) allows, in ULP.
FUNCTIONS: tuple[tuple[str, float, float, Callable[[Array], Array], float], ...] = (
    ("exp", -80.0, 80.0, np.exp, 3.0),
    ("tanh", -6.0, 6.0, np.tanh, 5.0),
    ("erf", -4.0, 4.0, np.vectorize(math.erf), 16.0),
    ("rsqrt", 1e-6, 1e6, lambda x: 1.0 / np.sqrt(x), 2.0),
)


@dataclass(frozen=True)
class Check:
    """One promise; `error` and `limit` in ULP, or in wrong elements where the limit is 0 and the promise is exact."""

    name: str
    error: float
    limit: float
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem and self.error <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "WRONG"
        return f"{self.name:<8} {verdict:<5} {self.problem or f'error {self.error:.2f}, allowed {self.limit:.1f}'}"


def ulp_error(got: Array, exact: Array) -> float:
    """max |got − exact| in units of the float32 spacing at `exact`; infinite if anything is not finite."""
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    error = float(np.max(np.abs(got.astype(np.float64) - exact) / spacing))
    return error if math.isfinite(error) else math.inf


def kernel_source() -> str:
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "cl_kernels", package.parent / "cl_kernels"):
        path = folder / "self_test.cl"
        if path.exists():
            return path.read_text()
    raise ConfigError("self_test: expected cl_kernels/self_test.cl beside the package, got none; install clnet again.")


def self_test(device: Device) -> list[Check]:
    """Functions against float64, local memory with a barrier, atomics, fills. Empty for the NumPy engine."""
    if device.is_host:
        return []
    try:
        program = ProgramCache(device).get(kernel_source(), [f"-DGROUP={GROUP}", f"-DBINS={BINS}"], name="self_test")
        queue = Queue(device)
        with translated("self_test"):
            return [*_functions(program, queue), _reverse(program, queue), _count_bins(program, queue), _fill(queue)]
    except ClnetError as error:
        return [Check("build", math.inf, 0.0, str(error))]


def _launch(program: Any, queue: Queue, name: str, local: int | None, out: Array, *inputs: Array) -> Array:
    import pyopencl as cl

    context = queue.device.context
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, array.nbytes) for array in (*inputs, out)]
    for buffer, array in zip(buffers, (*inputs, out), strict=True):
        queue.upload(buffer, array)
    kernel = cl.Kernel(program, name)
    kernel.set_args(*buffers)
    cl.enqueue_nd_range_kernel(queue.commands, kernel, (COUNT,), (local,) if local else None)
    return queue.download(buffers[-1], out)


def _functions(program: Any, queue: Queue) -> list[Check]:
    rng = np.random.default_rng(0)
    rows = [rng.uniform(low, high, COUNT).astype(np.float32) for _, low, high, _, _ in FUNCTIONS]
    a, b = rng.standard_normal((2, COUNT)).astype(np.float32)
    c = -(a * b)  # what is left is the rounding error of the product: zero unless the multiply-add is fused
    out = np.zeros((len(FUNCTIONS) + 1, COUNT), np.float32)
    got = _launch(program, queue, "functions", None, out, np.stack([*rows, a]), b, c)
    checks = [
        Check(name, ulp_error(row, reference(x.astype(np.float64))), limit)
        for (name, _, _, reference, limit), x, row in zip(FUNCTIONS, rows, got, strict=False)
    ]
    exact = a.astype(np.float64) * b + c
    return [*checks, Check("fma", float(np.count_nonzero(got[-1] != exact)), 0.0)]


def _reverse(program: Any, queue: Queue) -> Check:
    x = np.arange(COUNT, dtype=np.int32)
    got = _launch(program, queue, "reverse", GROUP, np.zeros_like(x), x)
    return Check("barrier", float(np.count_nonzero(got != x.reshape(-1, GROUP)[:, ::-1].reshape(-1))), 0.0)


def _count_bins(program: Any, queue: Queue) -> Check:
    got = _launch(program, queue, "count_bins", None, np.zeros(BINS, np.int32))
    return Check("atomics", float(np.count_nonzero(got != COUNT // BINS)), 0.0)


def _fill(queue: Queue) -> Check:
    """What optimizers keep begins so: a number over and over, and nothing behind it."""
    import pyopencl as cl

    buffer = cl.Buffer(queue.device.context, cl.mem_flags.READ_WRITE, 4 * COUNT)
    expected = np.where(np.arange(COUNT) < COUNT - 3, np.float32(0.1), np.float32(7.0))
    queue.upload(buffer, np.full(COUNT, 7.0, np.float32))
    queue.fill(buffer, expected[:1], COUNT - 3)
    return Check("fill", float(np.count_nonzero(queue.download(buffer, np.empty_like(expected)) != expected)), 0.0)
