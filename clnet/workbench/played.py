"""Devices that stand for kinds of devices: what their drivers say of themselves, so that choices for them can be looked
at where there are none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..engine.device.devices import Device

MIB, GIB = 1 << 20, 1 << 30  # [bytes]

# No machine's: the names are as drivers say them but for upper case and spaces, so that the tables of measured numbers
# that ship for such devices are found, and what a process has read for a device of its own is not.
_CPU = dict(kind="cpu", local_memory=32 << 10, global_memory=64 * GIB, max_alloc=16 * GIB, max_work_group=4096,
            fp16=False, subgroups=True)
_GPU = dict(kind="gpu", vector_width=1, fp16=True, subgroups=True)
_NVIDIA = _GPU | dict(runtime="nvidia", local_memory=48 << 10, max_work_group=1024, inline_ptx=True, subgroups=False,
                      fp16=False)
PROFILES: dict[str, dict[str, object]] = {
    "avx2": _CPU | dict(runtime="intel", name="amd processor (played)", vector_width=8, compute_units=4,
                        l1_cache=32 << 10, l2_cache=512 << 10, l3_cache=16 * MIB),
    "avx512": _CPU | dict(runtime="intel", name="intel(r) processor (played)", vector_width=16, compute_units=2,
                          l1_cache=48 << 10, l2_cache=2 * MIB, l3_cache=32 * MIB),
    "epyc": _CPU | dict(runtime="intel", name="amd processor (played)", vector_width=16, compute_units=64,
                        l1_cache=32 << 10, l2_cache=MIB, l3_cache=32 * MIB),
    "pocl": _CPU | dict(runtime="pocl", name="pthread-processor (played)", vector_width=8, compute_units=8,
                        local_memory=MIB),
    "arm": _CPU | dict(runtime="pocl", name="pthread-arm (played)", vector_width=4, compute_units=8, local_memory=MIB),
    "h200": _NVIDIA | dict(name="nvidia  h200", compute_units=132, global_memory=139 * GIB, max_alloc=34 * GIB,
                           compute_capability=90),
    "h100-mig": _NVIDIA | dict(name="nvidia  h100 mig", compute_units=16, global_memory=10 * GIB, max_alloc=2560 * MIB,
                               compute_capability=90),
    "a100": _NVIDIA | dict(name="nvidia  a100", compute_units=108, global_memory=40 * GIB, max_alloc=10 * GIB,
                           compute_capability=80),
    "rtx3090": _NVIDIA | dict(name="nvidia  rtx 3090", compute_units=82, global_memory=24 * GIB, max_alloc=6 * GIB,
                              compute_capability=86),
    "rtx5090": _NVIDIA | dict(name="nvidia  rtx 5090", compute_units=170, global_memory=32 * GIB, max_alloc=8 * GIB,
                              compute_capability=120),
    "turing": _NVIDIA | dict(name="nvidia  rtx 2080", compute_units=46, global_memory=8 * GIB, max_alloc=2 * GIB,
                             compute_capability=75),
    "amd": _GPU | dict(name="amd  gfx90a", runtime="amd", compute_units=104, local_memory=64 << 10,
                       global_memory=64 * GIB, max_alloc=54 * GIB, max_work_group=256),
    "arc": _GPU | dict(name="intel  arc", runtime="intel", compute_units=96, local_memory=64 << 10,
                       global_memory=12 * GIB, max_alloc=4 * GIB, max_work_group=512),
    "small": _GPU | dict(name="a  small gpu", runtime="other", compute_units=4, local_memory=16 << 10,
                         global_memory=GIB, max_alloc=256 * MIB, max_work_group=64, fp16=False, subgroups=False),
}


@cache
def device(profile: str) -> Device:
    """The device of this name in PROFILES."""
    rest: dict[str, Any] = dict(key=profile, platform="played", vendor="played", driver="1", version="OpenCL 3.0",
                                platform_version="OpenCL 3.0", fp64=True, alignment=128)
    return Device(**{**rest, **PROFILES[profile]})
