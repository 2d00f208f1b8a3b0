"""One device and what is known of it; its context, which no fork may use."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ...errors import DTypeError, ForkedEngineError, NoDeviceError
from ...show import Shown, Table, size
from .faults import translated
from .known_runtimes import Runtime, named

HOST_LINE = 64
# [bytes] of local memory by NVIDIA's compute capability: the driver reports what older devices had.
LOCAL = {80: 163 * 1024, 86: 99 * 1024, 87: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024}

MAKERS = {"amd", "intel"}  # of processors whose kernels have numbers of their own
TARGET = "CL_CONFIG_CPU_TARGET_ARCH"  # the processor that Intel's CPU runtime compiles for, where it is not its own
TARGET_LANES = {"corei7": 4, "corei7-avx": 8, "core-avx2": 8}  # of float32


@dataclass(frozen=True, repr=False)
class Device(Shown):
    """One device and its profile (`profile()` shows all of it). Memory and alignment in bytes,
    `vector_width` in float32 lanes.
    """

    key: str
    name: str
    platform: str
    vendor: str
    driver: str
    version: str
    platform_version: str
    kind: str  # cpu, gpu, accelerator, host
    runtime: str  # the name of a row of known_runtimes, or other
    compute_units: int
    vector_width: int
    local_memory: int
    global_memory: int
    max_alloc: int
    max_work_group: int
    fp64: bool
    fp16: bool
    alignment: int
    subgroups: bool
    inline_ptx: bool = False
    compute_capability: int = 0  # NVIDIA's, times 10: 90 for Hopper
    l1_cache: int = 0  # of data, of a core of a CPU; 0 where that is unknown
    l2_cache: int = 0
    l3_cache: int = 0  # shared by cores
    handle: Any = field(default=None, repr=False, compare=False)

    @property
    def context(self) -> Any:
        """The one cl.Context of this device in this process."""
        return _context(self)

    @property
    def is_gpu(self) -> bool:
        """Whether it runs the kernels of GPUs: work-groups, coalescing, local memory."""
        return self.kind == "gpu"

    @property
    def is_cpu(self) -> bool:
        """Whether it runs those of CPUs: one work-item a core, explicit vectors. An accelerator does."""
        return self.kind in ("cpu", "accelerator")

    @property
    def is_host(self) -> bool:
        """True for the NumPy pseudo-device, which has no OpenCL behind it."""
        return self.handle is None

    @property
    def is_simulator(self) -> bool:
        """Whether it is never an automatic choice, because it checks kernels, a thousand times slower."""
        return self.known.simulator

    @property
    def has_own_memory(self) -> bool:
        """Whether its memory is not the host's, of which a CPU runtime hands out more than there is."""
        return self.kind not in ("cpu", "host")

    @property
    def has_fma(self) -> bool:
        """Whether fma() is an instruction, not a call."""
        return self.is_gpu or self.known.fma

    @property
    def instructions(self) -> str:
        """The instruction set of a CPU by the width of its vectors, where numbers of kernels go by it; "": another."""
        return {8: "avx2", 16: "avx512"}.get(self.vector_width, "") if self.is_cpu else ""

    @property
    def maker(self) -> str:
        """Of a CPU, in small letters ("11th Gen Intel(R) Core" -> intel), "" where its name says none: caches and ports
        differ between makers, with as many lanes.
        """
        words = re.findall("[a-z]+", self.name.lower()) if self.is_cpu else []
        return next((word for word in words if word in MAKERS), "")

    @property
    def loads_vectors_by_cast(self) -> bool:
        """Whether vectors are to be read through a pointer to vectors, because vloadN becomes N loads."""
        return self.known.cast_loads

    @property
    def registers(self) -> int:
        """Of 32 bits, of a work-group, where they are known to be many; 0 elsewhere."""
        return self.known.registers

    @property
    def heeds_cache_hints(self) -> bool:
        """Whether stores past the caches and loads ahead of their use do what they say."""
        return self.known.cache_hints and self.kind == "cpu"

    @property
    def known(self) -> Runtime:
        """What is particular to its runtime."""
        return named(self.runtime)

    @property
    def ampere(self) -> bool:
        """Whether kernels may use what PTX has from compute capability 8.0 on: mma.sync,
        copies past the registers, bfloat16.
        """
        return self.inline_ptx and self.compute_capability >= 80

    @property
    def hopper(self) -> bool:
        """Whether they may use wgmma and boxes of tensors, which 9.0 alone has."""
        return self.inline_ptx and self.compute_capability == 90

    @property
    def largest_local(self) -> int:
        """[bytes] Local memory of a kernel's own arrays; what NVIDIA reports is what arguments may take."""
        return max(self.local_memory, LOCAL.get(self.compute_capability, 0))

    def __str__(self) -> str:
        return f"{self.key} ({self.name}, {self.platform})"

    __repr__ = __str__

    def table(self) -> Table:
        return as_table([self])

    def profile(self) -> Table:
        """Everything that is known of it, by field."""
        sizes = {"local_memory", "global_memory", "max_alloc", "alignment", "l1_cache", "l2_cache", "l3_cache"}
        shown = [f.name for f in fields(self) if f.repr]
        return Table((), [(n.replace("_", " "), size(getattr(self, n)) if n in sizes else str(getattr(self, n)))
                          for n in shown], title=str(self), align="ll")

    def check_dtype(self, dtype: str) -> None:
        """Raises DTypeError where it does not compute with dtype."""
        if dtype == "float64" and not self.fp64:
            raise DTypeError(
                f"{self.name}: expected a dtype that the device has; got float64; cast to float32 or use the numpy "
                f"engine.")


def compiled_lanes(runtime: Runtime, kind: str, told: int) -> int:
    """The float32 lanes of a device that tells so many: Intel's runtime tells those of the processor that it is on even
    where it compiles for a lesser one, whose registers more lanes would overflow.
    """
    if runtime.name != "intel" or kind != "cpu":
        return told
    return min(told, TARGET_LANES.get(os.environ.get(TARGET, ""), told))


def as_table(found: Sequence[Device], **more: Any) -> Table:
    rows = [(d.key, d.name, d.kind, d.compute_units, size(d.global_memory), d.runtime, d.driver) for d in found]
    return Table(("key", "name", "kind", "units", "memory", "runtime", "driver"), rows, align="lllrrll", **more)


_lock = threading.RLock()
_contexts: dict[str, Any] = {}
_listed = False  # a process that has listed OpenCL devices has the runtimes' threads
_forked = False


def listed() -> None:
    """OpenCL devices have been listed here: a fork of this process must not use them."""
    global _listed
    _listed = True


def _mark_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    global _forked, _lock
    _lock = threading.RLock()
    _forked = _forked or _listed


if os.name == "posix":
    os.register_at_fork(after_in_child=_mark_fork)


def check_not_forked() -> None:
    """ForkedEngineError in a child of fork: PoCL's worker threads stay behind in the parent and waits never end."""
    if _forked:
        raise ForkedEngineError(
            f"clnet: expected a process of its own, got a fork (pid {os.getpid()}) of one that has listed OpenCL "
            'devices; start workers with multiprocessing.get_context("spawn").')


def _context(device: Device) -> Any:
    if device.handle is None:
        raise NoDeviceError(
            f"{device.name}: expected an OpenCL device, got the NumPy engine; choose another in devices().")
    check_not_forked()
    import pyopencl as cl

    with _lock:
        if device.key not in _contexts:
            with translated(f"Device {device.key}"):
                _contexts[device.key] = cl.Context([device.handle])
        return _contexts[device.key]


def host_device() -> Device:
    """The NumPy engine, dressed as a device so that it can be chosen like one."""
    memory = _host_memory()
    return Device(
        key="numpy", name="NumPy", platform="NumPy", vendor="NumPy", driver=np.__version__, version=np.__version__,
        platform_version=np.__version__, kind="host", runtime="numpy", compute_units=os.cpu_count() or 1,
        vector_width=1, local_memory=0, global_memory=memory, max_alloc=memory, max_work_group=1, fp64=True, fp16=True,
        alignment=HOST_LINE, subgroups=False)


def _host_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


HOST = host_device()
