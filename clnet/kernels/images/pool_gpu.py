"""Pooling on GPUs (pool_gpu.cl): a work-item takes a few elements of a row of the result, on the way back of two rows
where those meet the same windows.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ..grid import up
from ..stage import Stage
from ..variant import GPUS_ONLY, Answer, Offer, Refusal, variant
from .problem import Pooling

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "pool_gpu.cl"
FREE = frozenset(("ITEMS",))
GROUP = 128  # work-items of a group
LANES = (4, 2, 1)  # elements of a row that a work-item may take: the most that divide it
HELD = 32  # of a row of data or of windows that a work-item has in hand
UNROLLED = 96  # windows that an item looks at, all at once


@variant("pool", cl=FILE, serves="GPUs: windows of which a work-item can hold a row")
def gathered(p: Pooling, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    row = p.whole[2] if p.back else p.results[2]
    lanes = next((w for w in LANES if row % w == 0 and _held(p, w) <= HELD), 0)
    return Offer(lambda: [_stage(p, device, lanes)]) if lanes else Refusal(f"windows wider than {HELD} elements")


def _held(p: Pooling, lanes: int) -> int:
    """Elements of a row of data, on the way back windows along it, that a work-item has in hand."""
    stride, across = p.stride[2], (p.size[2] - 1) * p.dilation[2] + 1
    return lanes * ceil(across / stride) if p.back else (lanes - 1) * stride + across


def _stage(p: Pooling, device: Device, lanes: int) -> Stage:
    stride, down = p.stride[1], (p.size[1] - 1) * p.dilation[1] + 1
    pairs = (p.back and p.whole[1] % 2 == 0 and 2 % stride == 0
             and 2 * _held(p, lanes) * ceil(down / stride) <= UNROLLED)
    group, items = min(GROUP, device.max_work_group), p.planes * p.domain[1] // lanes // (1 + pairs)
    defines = {**p.macros, "ITEMS": items, "AT": "uint" if items < 1 << 31 else "size_t", "GROUP": group,
               "ROWS": 1 + pairs}
    return Stage("pool", defines, (up(items, group),), (group,), domain=p.domain, lanes=lanes, file=FILE, stepped=True,
                 free=FREE)
