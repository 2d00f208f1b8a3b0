"""What was looked for, what was found, what was chosen and why, and for each failure the one command that mends it."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from ..engine import plan_files
from ..engine.device.devices import Device, devices, failures, select
from ..engine.device.folders import cache_root
from ..engine.device.pocl import Mend, cpu_flags, library, misnamed
from ..engine.device.program_files import Store
from ..engine.device.programs import ProgramCache
from ..engine.device.runtimes import prepare
from ..engine.device.self_test import Check
from ..engine.device.self_test import self_test as _self_test
from ..errors import ClnetError, NoDeviceError
from ..show import plural, size
from .devices_command import as_row, driver
from .tables import version

PACKAGES = ("pyopencl", "pocl-binary-distribution", "intel-opencl-rt", "intel-cmplr-lib-rt", "numpy")
VARIABLES = ("CLNET_DEVICE", "CLNET_PROFILE", "CLNET_CACHE_DIR", "CLNET_COMPILERS", "CLNET_KEEP_PLANS",
             "CLNET_MEND_POCL", "DPCPP_CPU_SCHEDULE", "OCL_ICD_VENDORS", "POCL_CACHE_DIR", "PYOPENCL_CTX")
NVIDIA_CURE = ("there is an NVIDIA GPU without OpenCL: apt install the driver's libnvidia-compute package; "
               "start a container with NVIDIA_DRIVER_CAPABILITIES=compute,utility")
AMD_CURE = "there is an AMD GPU without OpenCL: apt install rocm-opencl-runtime"
GPU_NODES = (("/dev/nvidiactl", "nvidia", NVIDIA_CURE), ("/dev/kfd", "amd", AMD_CURE))


def self_test(device: Device | str | None = None) -> list[Check]:
    """exp, tanh, erf, rsqrt, fma in ULP; local memory; atomics."""
    return _self_test(select(device)[0])


def report(*, test: bool = False) -> str:
    """The whole story as text; `test` runs the self-test on every device as well."""
    parts = [_system(), _runtimes(), _devices(), _cache(), _choice()]
    if test:
        parts += [_tests(device) for device in devices() if not device.is_host]
    remedies = _remedies()
    parts.append("To mend\n" + "\n".join(f"  {remedy}" for remedy in remedies) if remedies else "Nothing to mend.")
    return "\n\n".join(parts)


def facts(*, test: bool = False) -> dict[str, Any]:
    """The same as values, for programs and for reports of faults."""
    found, pocl = prepare(), prepare().pocl
    try:
        chosen, why = select()
    except NoDeviceError as error:
        chosen, why = None, str(error)
    told: dict[str, Any] = {
        "python": platform.python_version(), "system": platform.system(), "machine": platform.machine(),
        "packages": {package: version(package) for package in PACKAGES},
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "runtimes": dict(sorted(found.sources.items())), "vendors": str(found.folder or ""), "notes": list(found.notes),
        "failures": failures(), "pocl": {"processor": pocl.now, "was": pocl.was, "reason": pocl.reason},
        "devices": [as_row(device) for device in devices()], "cache": cache_rows(),
        "chosen": chosen and chosen.key, "why": why, "remedies": _remedies()}
    if test:
        told["tests"] = {d.key: _tests(d).splitlines()[1:] or [_tests(d)] for d in devices() if not d.is_host}
    return told


def _system() -> str:
    lines = [f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"]
    lines += [f"  {package:<26} {version(package)}" for package in PACKAGES]
    lines += [f"  {name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    return "\n".join(lines)


def _runtimes() -> str:
    devices()  # the order matters: what this process lists is decided by the first query
    found = prepare()
    lines = ["Runtimes looked for"]
    lines += [f"  {name}: from {source}" for name, source in sorted(found.sources.items())]
    lines.append(f"  vendor list: {found.folder or 'the loader’s own'}")
    if (bundled := library()) is not None:
        lines.append(f"  pocl.icd: from {bundled}")
    lines.append(f"  PoCL: {_pocl(found.pocl)}")
    return "\n".join([*lines, *(f"  note: {note}" for note in found.notes), *(f"  failed: {f}" for f in failures())])


def _pocl(mend: Mend) -> str:
    """What was done about the processor's name that PoCL goes by, what follows from it, and what is left to do."""
    if mend.done:
        return (f"compiles for {mend.now!r} here, not for {mend.was or 'no name'!r} as it would by itself "
                f"({mend.reason}). Its kernels are right and fast this way; nothing to do.")
    if misnamed(mend.now, cpu_flags()):
        return f"goes by {mend.now!r}, so it is slow here or cannot run ({mend.reason}); see below."
    return f"as it is ({mend.reason}); nothing to do."


def _devices() -> str:
    lines = ["Devices"]
    for index, device in enumerate(devices()):
        name = "the host, by " if device.is_host else f"{device.name}, "
        lines.append(f"  {index}: {device.key}: {name}{driver(device)}")
        if not device.is_host:
            yes = [name for name in ("fp64", "fp16", "subgroups", "inline_ptx") if getattr(device, name)]
            yes.append("tensor cores" if device.ampere
                       else "no tensor cores that clnet uses: every precision runs as fp32")
            lines += [f"     {device.kind}, {device.compute_units} compute units, vectors of {device.vector_width}, "
                      f"{size(device.global_memory)} ({size(device.max_alloc)} a buffer), "
                      f"{size(device.local_memory)} local, work-groups to {device.max_work_group}; {', '.join(yes)}",
                      f"     {device.version}"]
    return "\n".join(lines)


def stores() -> dict[str, Store]:
    """What is kept on disk, by what an entry is."""
    return {"compiled program": Store(cache_root() / "programs"), "plan": plan_files.store()}


def cache_rows() -> list[dict[str, Any]]:
    """Where compiled programs and plans are kept, how many, how much of the disk they take [bytes], what is wrong."""
    found = []
    for what, store in stores().items():
        entries = store.entries()
        found.append({"what": what, "folder": str(store.folder), "entries": len(entries),
                      "bytes": sum(path.stat().st_size for path in entries), "problem": store.problem or None})
    return found


def cache_lines() -> list[str]:
    """The same in words."""
    return [f"{r['what'].split()[-1].capitalize()} cache {r['folder']}: "
            + (r["problem"] or f"{plural(r['entries'], r['what'])}, {size(r['bytes'])}") for r in cache_rows()]


def _cache() -> str:
    lines = cache_lines()
    for cache in ProgramCache.living():
        c = cache.counters()
        lines.append(f"  {cache.device.key} in this process: {c.builds} built, {c.disk_hits} from disk, "
                     f"{c.memory_hits} from memory, {c.seconds:.2f} s")
    return "\n".join(lines)


def _choice() -> str:
    try:
        return "Choice: " + select()[1]
    except NoDeviceError as error:
        return f"Choice: {error}"


def _tests(device: Device) -> str:
    try:
        checks = _self_test(device)
    except ClnetError as error:
        return f"Self-test of {device.key}: {error}"
    return "\n".join([f"Self-test of {device.key}", *(f"  {check}" for check in checks)])


def _pip_runtimes() -> bool:
    machine = platform.machine().lower()
    return machine in ("x86_64", "amd64") and (sys.platform.startswith("linux") or sys.platform == "win32")


def _remedies() -> list[str]:
    runtimes = {device.runtime for device in devices()}
    remedies = []
    if version("pyopencl") == "not installed":
        remedies.append("pyopencl is missing: pip install pyopencl")
    if runtimes == {"numpy"}:
        hidden = next((note for note in prepare().notes if note.endswith("unset it")), "")
        remedies.append(f"no OpenCL device: {hidden or _how_to_get_one()}")
    elif _pip_runtimes() and "intel" not in runtimes and version("intel-opencl-rt") != "not installed":
        remedies.append("Intel's runtime is installed but not listed: restart the kernel and import clnet before "
                        "pyopencl")
    remedies += [cure for node, runtime, cure in GPU_NODES if os.path.exists(node) and runtime not in runtimes]
    if version("pocl-binary-distribution") != "not installed" and "pocl" not in runtimes:
        remedies.append("PoCL is installed but not listed: restart the kernel; if it stays away, rm -r ~/.cache/pocl")
    problem = Store(cache_root() / "programs").problem
    if problem:
        remedies.append(f"programs are compiled anew at every start ({problem}): export CLNET_CACHE_DIR=~/.clnet-cache")
    mend = prepare().pocl
    if "pocl" in runtimes and misnamed(mend.now, cpu_flags()):
        remedies.append(f"PoCL is slow here, or cannot run ({mend.reason}): export CLNET_DEVICE=intel")
    return remedies


def _how_to_get_one() -> str:
    if _pip_runtimes():
        return "pip install intel-opencl-rt intel-cmplr-lib-rt"
    if sys.platform.startswith("linux"):
        return "apt install pocl-opencl-icd"
    return "conda install -c conda-forge pocl" + (" ocl_icd_wrapper_apple" if sys.platform == "darwin" else "")


if __name__ == "__main__":
    print(report(test="--test" in sys.argv[1:]))
