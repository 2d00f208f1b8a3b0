"""The devices of this machine, what each can do, and the choice of one: argument, CLNET_DEVICE, GPU, Intel, PoCL, NumPy."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..errors import ConfigError, ForkedEngineError, NoDeviceError
from ..names import ending
from ..names import guide as _guide
from ..show import Shown, Table, size
from .faults import translated
from .runtimes import prepare

HOST_LINE = 64
# [bytes] of local memory by NVIDIA's compute capability: the driver reports what older devices had.
LOCAL = {80: 163 * 1024, 86: 99 * 1024, 87: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024}
KINDS = ("gpu", "cpu", "accelerator", "host")
VARIABLE = "CLNET_DEVICE"
PROFILE = "CLNET_PROFILE"  # what the devices are taken for instead: "local_memory=32768,inline_ptx=0"


@dataclass(frozen=True, repr=False)
class Device(Shown):
    """One device and its profile (`profile()` shows all of it). Memory and alignment in bytes, `vector_width` in float32 lanes."""

    key: str
    name: str
    platform: str
    vendor: str
    driver: str
    version: str
    platform_version: str
    kind: str  # cpu, gpu, accelerator, host
    runtime: str  # intel, pocl, nvidia, amd, other, numpy
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
    handle: Any = field(default=None, repr=False, compare=False)

    @property
    def context(self) -> Any:
        """The one cl.Context of this device in this process."""
        return _context(self)

    @property
    def ampere(self) -> bool:
        """Whether kernels may use what PTX has from compute capability 8.0 on: mma.sync, copies past the registers, bfloat16."""
        return self.inline_ptx and self.compute_capability >= 80

    @property
    def hopper(self) -> bool:
        """Whether they may use wgmma and boxes of tensors, which 9.0 alone has."""
        return self.inline_ptx and self.compute_capability == 90

    @property
    def largest_local(self) -> int:
        """[bytes] Local memory of a kernel's own arrays; what NVIDIA reports is what arguments may take."""
        return max(self.local_memory, LOCAL.get(self.compute_capability, 0))

    @property
    def is_host(self) -> bool:
        """True for the NumPy pseudo-device, which has no OpenCL behind it."""
        return self.handle is None

    def __str__(self) -> str:
        return f"{self.key} ({self.name}, {self.platform})"

    __repr__ = __str__

    def table(self) -> Table:
        return _table([self])

    def profile(self) -> Table:
        """Everything that is known of it, by field."""
        sizes = {"local_memory", "global_memory", "max_alloc", "alignment"}
        shown = [f.name for f in fields(self) if f.repr]
        return Table((), [(n.replace("_", " "), size(getattr(self, n)) if n in sizes else str(getattr(self, n))) for n in shown], title=str(self), align="ll")


def _table(found: Sequence[Device], **more: Any) -> Table:
    rows = [(d.key, d.name, d.kind, d.compute_units, size(d.global_memory), d.runtime, d.driver) for d in found]
    return Table(("key", "name", "kind", "units", "memory", "runtime", "driver"), rows, align="lllrrll", **more)


class Devices(Shown, list[Device]):
    """A list of devices that shows itself as a table, the one in use marked."""

    def table(self) -> Table:
        from . import chosen

        try:
            device, why = chosen()
        except NoDeviceError as error:
            return _table(self, notes=[str(error)])
        return _table(self, marked=[k for k, d in enumerate(self) if d == device], notes=[f"* {why}"])


_lock = threading.RLock()
_found: tuple[Device, ...] | None = None
_contexts: dict[str, Any] = {}
_failures: list[str] = []
_forked = False


def _mark_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    global _forked, _lock
    _lock = threading.RLock()
    _forked = _forked or any(not device.is_host for device in _found or ())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_fork)


def check_not_forked() -> None:
    """ForkedEngineError in a child of fork: PoCL's worker threads stay behind in the parent and waits never end."""
    if _forked:
        raise ForkedEngineError(
            f"clnet: expected a process of its own, got a fork (pid {os.getpid()}) of one that has listed OpenCL devices; "
            'start workers with multiprocessing.get_context("spawn").'
        )


def _context(device: Device) -> Any:
    if device.handle is None:
        raise NoDeviceError(
            f"{device.name}: expected an OpenCL device, got the NumPy engine; choose another in devices()."
        )
    check_not_forked()
    import pyopencl as cl

    with _lock:
        if device.key not in _contexts:
            with translated(f"Device {device.key}"):
                _contexts[device.key] = cl.Context([device.handle])
        return _contexts[device.key]


def failures() -> list[str]:
    """Why platforms or devices could not be listed, for `clnet doctor`."""
    devices()
    return list(_failures)


def devices() -> Devices:
    """Every device found once, GPUs first, and the NumPy pseudo-device at the end; a list that shows itself as a table."""
    global _found
    with _lock:
        if _found is None:
            _found = (*_opencl_devices(), HOST)
        return Devices(_found)


def _opencl_devices() -> list[Device]:
    try:
        prepare()
        import pyopencl as cl
    except (ImportError, OSError) as error:
        _failures.append(f"pyopencl cannot be imported: {error}")
        return []
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # PLATFORM_NOT_FOUND_KHR where no runtime is installed
        _failures.append(f"no platform: {error}")
        return []
    profiles: list[dict[str, Any]] = []
    seen: set[tuple[Any, ...]] = set()
    for platform in platforms:
        try:
            handles = platform.get_devices()
        except cl.Error as error:
            _failures.append(f"{platform.name}: {error}")
            continue
        copies: Counter[str] = Counter()
        for handle in handles:
            # Two copies of a runtime show a device twice; two equal cards in one platform are two devices.
            identity = (platform.name, handle.name, handle.driver_version, copies[handle.name])
            copies[handle.name] += 1
            if identity not in seen:
                seen.add(identity)
                profiles.append(_profile(cl, platform, handle))
    return _with_keys(sorted(profiles, key=_rank))


def _runtime(platform: str, vendor: str) -> str:
    text = f"{platform} {vendor}".lower()
    if "oclgrind" in text:
        return "other"
    if "portable computing" in text or "pocl" in text:
        return "pocl"
    for word, runtime in (("nvidia", "nvidia"), ("advanced micro", "amd"), ("amd ", "amd"), ("intel", "intel")):
        if word in text:
            return runtime
    return "other"


def _kind(cl: Any, handle: Any) -> str:
    if handle.type & cl.device_type.GPU:
        return "gpu"
    return "cpu" if handle.type & cl.device_type.CPU else "accelerator"


def _info(handle: Any, name: str, default: int = 0) -> int:
    """A driver may refuse a query that is newer than it is."""
    try:
        return int(getattr(handle, name))
    except Exception:
        return default


def _profile(cl: Any, platform: Any, handle: Any) -> dict[str, Any]:
    runtime, kind = _runtime(platform.name, platform.vendor), _kind(cl, handle)
    words = set(handle.extensions.split())
    width = max(1, _info(handle, "native_vector_width_float", 1))
    return {
        "name": handle.name.strip(),
        "platform": platform.name.strip(),
        "vendor": handle.vendor.strip(),
        "driver": handle.driver_version.strip(),
        "version": handle.version.strip(),
        "platform_version": platform.version.strip(),
        "kind": kind,
        "runtime": runtime,
        "compute_units": int(handle.max_compute_units),
        "vector_width": width,
        "local_memory": int(handle.local_mem_size),
        "global_memory": int(handle.global_mem_size),
        "max_alloc": int(handle.max_mem_alloc_size),
        "max_work_group": int(handle.max_work_group_size),
        "fp64": "cl_khr_fp64" in words,
        "fp16": "cl_khr_fp16" in words,
        "alignment": max(1, _info(handle, "mem_base_addr_align", 1024) // 8),
        "subgroups": bool(words & {"cl_khr_subgroups", "cl_intel_subgroups"})
        or _info(handle, "max_num_sub_groups") > 0,
        "inline_ptx": runtime == "nvidia",
        "compute_capability": 10 * _info(handle, "compute_capability_major_nv") + _info(handle, "compute_capability_minor_nv") if runtime == "nvidia" else 0,
        "handle": handle,
    }


def _rank(profile: dict[str, Any]) -> int:
    if is_simulator(profile["platform"]):
        return 9
    if profile["kind"] == "gpu":
        return 0
    if profile["runtime"] == "pocl":
        return 4
    if profile["kind"] == "cpu":
        return 1 if profile["runtime"] == "intel" else 2
    return 3


def is_simulator(platform: str) -> bool:
    """Oclgrind checks kernels, a thousand times slower: never an automatic choice."""
    return "oclgrind" in platform.lower()


def _slug(profile: dict[str, Any]) -> str:
    runtime: str = profile["runtime"]
    if runtime == "other":
        words = "".join(c if c.isalnum() else " " for c in profile["platform"].lower()).split()
        return words[0] if words else "opencl"
    usual = {"intel": "cpu", "pocl": "cpu"}.get(runtime, "gpu")
    return runtime if profile["kind"] == usual else f"{runtime}-{profile['kind']}"


def _with_keys(profiles: Sequence[dict[str, Any]]) -> list[Device]:
    used: Counter[str] = Counter()
    result, other = [], overrides(os.environ.get(PROFILE, ""))
    for profile in profiles:
        slug = _slug(profile)
        result.append(Device(key=f"{slug}:{used[slug]}" if used[slug] else slug, **profile | other))
        used[slug] += 1
    return result


def overrides(text: str) -> dict[str, int]:
    """The fields of a device's profile named in "field=number,...", so that kernels for lesser devices can be proven on a better one. ConfigError."""
    found = {}
    kinds = {f.name: {"int": int, "bool": bool}.get(str(f.type)) for f in fields(Device)}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = (p.strip() for p in part.partition("="))
        kind = kinds.get(name)
        if kind is None or not value.isdecimal():
            raise ConfigError(f"{PROFILE}: expected field=number with one of {', '.join(n for n, k in kinds.items() if k)}; got {part!r}.")
        found[name] = kind(int(value))
    return found


def host_device() -> Device:
    """The NumPy engine, dressed as a device so that it can be chosen like one."""
    memory = _host_memory()
    return Device(
        key="numpy", name="NumPy", platform="NumPy", vendor="NumPy", driver=np.__version__, version=np.__version__,
        platform_version=np.__version__, kind="host", runtime="numpy", compute_units=os.cpu_count() or 1, vector_width=1,
        local_memory=0, global_memory=memory, max_alloc=memory, max_work_group=1, fp64=True, fp16=True,
        alignment=HOST_LINE, subgroups=False,
    )  # fmt: skip


def _host_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


HOST = host_device()


def select(spec: str | int | Device | None = None) -> tuple[Device, str]:
    """The device and the reason, as a sentence.

    `spec` is a key ("intel", "nvidia:1"), an index into `devices()`, a kind ("gpu", "cpu"), "opencl" for the best that is not the host, or
    a part of a name.
    NoDeviceError if nothing answers to it.
    """
    if isinstance(spec, Device):
        return spec, f"{spec}: given as a device."
    if spec is not None and str(spec).strip():
        device = _match(str(spec).strip(), "select")
        return device, f"{device}: asked for by the argument {spec!r}."
    wish = os.environ.get(VARIABLE, "").strip()
    if wish:
        device = _match(wish, VARIABLE)
        return device, f"{device}: asked for by {VARIABLE}={wish}."
    return _best()


def _best() -> tuple[Device, str]:
    # devices() is sorted by preference and ends with NumPy, so the first is the choice.
    device = next(device for device in devices() if not is_simulator(device.platform))
    if device.is_host:
        return device, f"{device}: no OpenCL device was found; run `clnet doctor` to see why."
    if device.kind == "gpu":
        return device, f"{device}: the first GPU found."
    return device, f"{device}: the best found, there is no GPU."


def _match(spec: str, who: str) -> Device:
    found, wish = devices(), spec.lower()
    for device in found:
        if wish == device.key:
            return device
    if wish.lstrip("-").isdigit() and 0 <= int(wish) < len(found):
        return found[int(wish)]
    # A simulator never hides a real device of the same kind or name.
    order = sorted(found, key=lambda device: is_simulator(device.platform))
    for device in order:
        if wish == device.kind or (wish == "opencl" and not device.is_host):
            return device
    if wish not in KINDS and not wish.lstrip("-").isdigit():
        for device in order:
            if wish in f"{device.name}\n{device.platform}".lower():
                return device
    there = "; ".join(f"{index}: {device}" for index, device in enumerate(found))
    raise NoDeviceError(
        f"{who}: expected one of [{there}], got {spec!r}; "
        f"take a key, an index or a part of a name from this list, or run `clnet doctor`{ending(spec, [d.key for d in found])}"
    )

_guide(__name__)
