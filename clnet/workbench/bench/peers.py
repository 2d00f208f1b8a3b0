"""Whom we are timed against: NumPy always, PyTorch, JAX and tinygrad where they are installed;
with the same threads and the same arithmetic.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...engine.device.devices import Device

Run = Callable[[], Any]
Array = np.ndarray[Any, Any]
TheirTensor = Any  # PyTorch's, JAX's or tinygrad's: none is a dependency


@dataclass(frozen=True)
class Torch:
    """PyTorch on the CPU, or on CUDA when our device is an NVIDIA GPU."""

    torch: Any
    where: str

    @property
    def name(self) -> str:
        return f"torch {self.where} {self.torch.__version__.partition('+')[0]}"

    def array(self, a: Array, grad: bool = False) -> Any:
        """A tensor with the values of a NumPy array, in memory of the peer's own allocator, where `peak` counts it."""
        t = self.torch.tensor(np.asarray(a), device=self.where)
        return t.requires_grad_() if grad else t

    def finish(self) -> None:
        """Waits for what was launched."""
        if self.where == "cuda":
            self.torch.cuda.synchronize()

    def peak(self, prepare: Callable[[Torch], Run], calls: int = 3) -> int:
        """[bytes] The peak of PyTorch's allocator while it prepares a work and runs it;
        what oneDNN takes past it is not in there.
        """
        if self.where == "cuda":
            before = self.torch.cuda.memory_allocated()
            self.torch.cuda.reset_peak_memory_stats()
            self._calls(prepare, calls)
            return int(self.torch.cuda.max_memory_allocated() - before)
        kinds = self.torch.profiler
        with kinds.profile(activities=[kinds.ProfilerActivity.CPU], profile_memory=True, acc_events=True) as found:
            self._calls(prepare, calls)
        events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
        held = np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
        return int(held.max(initial=0))

    def _calls(self, prepare: Callable[[Torch], Run], calls: int) -> None:
        call = prepare(self)
        for _ in range(calls):
            call()
        self.finish()


def torch_for(device: Device) -> Torch | None:
    """The PyTorch peer of a device; None where PyTorch is not installed, or has no CUDA for a GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its profiler complains of a missing GPU otherwise
    torch = importlib.import_module("torch")
    if not device.is_gpu:
        return Torch(torch, "cpu")
    if device.runtime != "nvidia" or not torch.cuda.is_available():
        return None
    # cuDNN multiplies in TF32 unless told otherwise, and we do not.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return Torch(torch, "cuda")


@dataclass(frozen=True)
class Tinygrad:
    """tinygrad on our own OpenCL device."""

    module: Any
    version: str

    @property
    def name(self) -> str:
        return f"tinygrad {self.version}"

    def array(self, a: Array) -> Any:
        return self.module.Tensor(np.array(a)).realize()

    def finish(self) -> None:
        self.module.Device[self.module.Device.DEFAULT].synchronize()


def tinygrad_for(device: Device) -> Tinygrad | str:
    """The tinygrad peer, on the very device that we use; or why there is none."""
    if importlib.util.find_spec("tinygrad") is None:
        return "not installed"
    try:
        with _tinygrad_settings():
            tinygrad = importlib.import_module("tinygrad")
            backend = importlib.import_module("tinygrad.runtime.ops_cl")
            bindings = importlib.import_module("tinygrad.runtime.autogen.opencl")
        # It would take the first platform's first device, whichever that is.
        handle = ctypes.cast(device.handle.int_ptr, bindings.cl_device_id)
        backend.CLDevice.device_ids = (bindings.cl_device_id * 1)(handle)
        opened = tinygrad.Device["CL"]
        if (opened.device_name.strip(), opened.driver_version.strip()) != (device.name, device.driver):
            return f"opened {opened.device_name} in place of {device.name}"
    except Exception as error:  # its inside is not ours: any change there means a row without times
        return f"cannot open {device.key}: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    from importlib import metadata

    return Tinygrad(tinygrad, metadata.version("tinygrad"))


@contextlib.contextmanager
def _tinygrad_settings() -> Iterator[None]:
    """Within the block tinygrad, which reads its settings as it is imported,
    is told to use OpenCL through the loader that pyopencl brought.
    """
    spec = importlib.util.find_spec("pyopencl")
    folders = [Path(p, ".libs") for p in (spec.submodule_search_locations or ())] if spec else []
    loader = next((str(f) for folder in folders for f in sorted(folder.glob("libOpenCL*"))), None)
    with settings({"DEV": "CL", "TRAINING": "1"} | ({"OPENCL_PATH": loader} if loader else {})):
        yield


@contextlib.contextmanager
def settings(wanted: Mapping[str, str]) -> Iterator[None]:
    """Within the block these environment variables are set, as far as the user has not set them."""
    ours = {k: v for k, v in wanted.items() if k not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@dataclass(frozen=True)
class Jax:
    """JAX on the CPU. `running`: what the last call gives, once it is done."""

    jax: Any
    optax: Any
    running: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"jax cpu {self.jax.__version__}"

    def array(self, a: Array) -> Any:
        return self.jax.numpy.asarray(a)

    def finish(self) -> None:
        """Waits for what was started."""
        self.jax.block_until_ready(self.running)


def jax_for(device: Device) -> Jax | str:
    """The JAX peer of a CPU, with as many threads as the device has units; or why there is none."""
    if not device.is_cpu:
        return "not timed beside GPUs"
    if any(importlib.util.find_spec(name) is None for name in ("jax", "optax")):
        return 'not installed (pip install "jax[cpu]" optax)'
    with settings({"JAX_PLATFORMS": "cpu", "NPROC": str(threads_of(device))}):  # which it reads as it starts
        jax = importlib.import_module("jax")
        jax.devices("cpu")
        return Jax(jax, importlib.import_module("optax"))


def threads_of(device: Device) -> int:
    """Threads that a peer on the host gets:
    as many as the device has compute units, if the device is the host's CPU.
    """
    there = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return there if device.has_own_memory else min(there, device.compute_units)


@contextlib.contextmanager
def equal_threads(device: Device, torch: Torch | None) -> Iterator[int]:
    """Within the block NumPy's BLAS and PyTorch use the device's number of threads."""
    n = threads_of(device)
    before = torch.torch.get_num_threads() if torch else None
    if torch:
        torch.torch.set_num_threads(n)
    limits: Any = contextlib.nullcontext()
    if importlib.util.find_spec("threadpoolctl") is not None:
        limits = importlib.import_module("threadpoolctl").threadpool_limits(n, "blas")
    try:
        with limits:
            yield n
    finally:
        if torch and before:
            torch.torch.set_num_threads(before)
