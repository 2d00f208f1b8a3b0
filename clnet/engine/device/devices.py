"""The devices of this machine, what each can do, and the choice of one: argument, CLNET_DEVICE, GPU, Intel CPU,
other CPU, accelerator, PoCL, NumPy.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ...collector import paused
from ...errors import ConfigError, NoDeviceError
from ...names import ending
from ...names import guide as _guide
from ...show import Shown, Table
from .. import active
from .caches import Caches, of_the_system
from .device import HOST, Device, as_table, compiled_lanes, listed
from .folders import slug
from .known_runtimes import OTHER, named, runtime_of
from .runtimes import prepare

KINDS = ("gpu", "cpu", "accelerator", "host")
VARIABLE = "CLNET_DEVICE"
PROFILE = "CLNET_PROFILE"  # what the devices are taken for instead: "local_memory=32768,inline_ptx=0"


class Devices(Shown, list[Device]):
    """A list of devices that shows itself as a table, the one in use marked."""

    def table(self) -> Table:
        try:
            device, why = active.chosen() or select()
        except NoDeviceError as error:
            return as_table(self, notes=[str(error)])
        return as_table(self, marked=[k for k, d in enumerate(self) if d == device], notes=[f"* {why}"])


_lock = threading.RLock()
_found: tuple[Device, ...] | None = None
_failures: list[str] = []


def _renew_lock() -> None:
    # It may have been held by a thread that does not exist in the child.
    global _lock
    _lock = threading.RLock()


if os.name == "posix":
    os.register_at_fork(after_in_child=_renew_lock)


def failures() -> list[str]:
    """Why platforms or devices could not be listed, for `clnet doctor`."""
    devices()
    return list(_failures)


def devices() -> Devices:
    """Every device found once, GPUs first, and the NumPy pseudo-device at the end; a list that shows itself as a table.
    """
    global _found
    with _lock:
        if _found is None:
            with paused(keeps=True):
                _found = (*_opencl_devices(), HOST)
            if len(_found) > 1:
                listed()
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
    runtime = runtime_of(platform.name, platform.vendor)
    words = set(handle.extensions.split())
    kind = _kind(cl, handle)
    width = compiled_lanes(runtime, kind, max(1, _info(handle, "native_vector_width_float", 1)))
    cached = Caches()
    if kind == "cpu":
        cached = of_the_system().known(runtime.cache_level, _info(handle, "global_mem_cache_size"))
    return {
        "name": handle.name.strip(),
        "platform": platform.name.strip(),
        "vendor": handle.vendor.strip(),
        "driver": handle.driver_version.strip(),
        "version": handle.version.strip(),
        "platform_version": platform.version.strip(),
        "kind": kind,
        "runtime": runtime.name,
        "compute_units": int(handle.max_compute_units),
        "vector_width": width,
        "local_memory": int(handle.local_mem_size),
        "global_memory": int(handle.global_mem_size),
        "max_alloc": int(handle.max_mem_alloc_size),
        "max_work_group": int(handle.max_work_group_size),
        "fp64": "cl_khr_fp64" in words,
        "fp16": "cl_khr_fp16" in words,
        "alignment": max(1, _info(handle, "mem_base_addr_align", 1024) // 8),
        "subgroups": (bool(words & {"cl_khr_subgroups", "cl_intel_subgroups"})
                      or _info(handle, "max_num_sub_groups") > 0),
        "inline_ptx": runtime.inline_ptx,
        "compute_capability": (10 * _info(handle, "compute_capability_major_nv")
                               + _info(handle, "compute_capability_minor_nv") if runtime.inline_ptx else 0),
        "l1_cache": cached.l1,
        "l2_cache": cached.l2,
        "l3_cache": cached.l3,
        "handle": handle,
    }


def _rank(profile: dict[str, Any]) -> int:
    return named(profile["runtime"]).ranks[profile["kind"]]


def _key(profile: dict[str, Any]) -> str:
    """The runtime, with the kind where it is not the usual one; of an unknown runtime the platform's first word."""
    runtime, kind = named(profile["runtime"]), profile["kind"]
    if runtime is OTHER:
        words = slug(profile["platform"]).replace("-", " ").split()
        return words[0] if words else "opencl"
    return runtime.name if kind == runtime.usual else f"{runtime.name}-{kind}"


def _with_keys(profiles: Sequence[dict[str, Any]]) -> list[Device]:
    used: Counter[str] = Counter()
    result, other = [], overrides(os.environ.get(PROFILE, ""))
    for profile in profiles:
        key = _key(profile)
        result.append(Device(key=f"{key}:{used[key]}" if used[key] else key, **profile | other))
        used[key] += 1
    return result


def overrides(text: str) -> dict[str, int]:
    """The fields of a device's profile named in "field=number,...", so that kernels for lesser devices can be proven on
    a better one. ConfigError.
    """
    found = {}
    kinds = {f.name: {"int": int, "bool": bool}.get(str(f.type)) for f in fields(Device)}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = (p.strip() for p in part.partition("="))
        kind = kinds.get(name)
        if kind is None or not value.isdecimal():
            raise ConfigError(
                f"{PROFILE}: expected field=number with one of {', '.join(n for n, k in kinds.items() if k)}; got "
                f"{part!r}.")
        found[name] = kind(int(value))
    return found


def select(spec: str | int | Device | None = None) -> tuple[Device, str]:
    """The device and the reason, as a sentence.

    `spec` is a key ("intel", "nvidia:1"), an index into `devices()`, a kind ("gpu", "cpu"), "opencl" for the best
    that is not the host, or a part of a name. NoDeviceError if nothing answers to it.
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
    device = next(device for device in devices() if not device.is_simulator)
    if device.is_host:
        return device, f"{device}: no OpenCL device was found; run `clnet doctor` to see why."
    if device.is_gpu:
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
    order = sorted(found, key=lambda device: device.is_simulator)
    for device in order:
        if wish == device.kind or (wish == "opencl" and not device.is_host):
            return device
    if wish not in KINDS and not wish.lstrip("-").isdigit():
        for device in order:
            if wish in f"{device.name}\n{device.platform}".lower():
                return device
    there = "; ".join(f"{index}: {device}" for index, device in enumerate(found))
    raise NoDeviceError(
        f"{who}: expected one of [{there}], got {spec!r}; take a key, an index or a part of a name from this list, "
        f"or run `clnet doctor`{ending(spec, [d.key for d in found])}")


_guide(__name__)
