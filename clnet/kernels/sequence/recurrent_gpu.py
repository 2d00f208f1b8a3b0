"""Recurrent cells on GPUs (recurrent_gpu.cl): a work-group takes one sequence, or several where there are more than
compute units; weights wait in registers, local memory and the cache.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ...core.size import typical, varies
from ..stage import Stage
from ..variant import GPUS_ONLY, Answer, Offer, Refusal, variant
from .problem import Loop

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "recurrent_gpu.cl"
OTHERS = 36  # registers of an item that hold no weights or sums
# Sequences of a work-group. Where their number varies it suits half of the class's largest: on an H100 two where one
# would do take 1.3 times as long, one where two would 1.2 times.
MOST_ROWS = 4
FREE = frozenset(("B", "TIMES"))


@variant("recurrence", cl=FILE, serves="GPUs: float32, weights of up to 1 MB")
def in_registers(p: Loop, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if p.dtype != "float32":
        return Refusal("float32 only")
    return Offer(lambda: _stages(p, device)) if p.h and p.batch and p.times else Refusal("no elements")


def _stages(p: Loop, device: Device) -> list[Stage]:
    near = typical(p.batch) // (2 if varies(p.batch) else 1)
    each = min(MOST_ROWS, ceil(near / device.compute_units))
    group = min(device.max_work_group, 32 * ceil(max(p.sums, p.h) / 32))
    out, quads = ceil(p.sums / group), ceil(p.h / 4)
    free = min(255, device.registers // group) - OTHERS - 4 * each * out
    held = max(0, min(quads, free // (4 * out)))
    local = device.largest_local - 4 * each * (4 * quads * 4 + 2 * p.sums) - 64
    shared = max(0, min(quads - held, local // (16 * p.sums)))
    streamed = quads - held - shared
    defines = {**p.macros, "ROWS": each, "GROUP": group, "HELD": 4 * held, "SHARED": 4 * shared}
    packs = p.forward and streamed > 0
    scratch = {"packed": 16 * streamed * p.sums} if packs else {}
    main = Stage(p.kernel, defines, (ceil(p.batch / each) * group,), (group,), domain=p.domain, scratch=scratch,
                 file=FILE, free=FREE)
    if not packs:
        return [main]
    return [Stage("pack_recurrent", {**defines, "PART": 0}, (p.sums, streamed), None, scratch=scratch, final=False,
                  file=FILE, free=FREE), main]
