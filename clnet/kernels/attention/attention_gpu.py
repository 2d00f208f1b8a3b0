"""Attention on GPUs without tensor cores (attention_gpu.cl): a work-group a tile of queries or keys of a head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..stage import Stage
from ..tuning import numbers
from ..variant import GPUS_ONLY, Answer, Offer, variant
from .problem import FREE, Attention, Pass, plain

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "attention_gpu.cl"
WIDEST = 256  # features of a head: beyond, registers run out


@variant("attention", cl=FILE, rank=2,
         serves="GPUs: float32, up to 256 features, with or without a mask, or packed")
def in_local_memory(p: Attention, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    return plain(p, WIDEST) or Offer(lambda: [_stage(p, device, one) for one in p.passes])


def _stage(p: Attention, device: Device, one: Pass) -> Stage:
    tiles = numbers(device, "attention_gpu")[p.kernel]
    ri, la, lb = next((tile for tile in tiles if _fits(p, device, *tile)), tiles[-1])
    # two work-groups have to fit: one works while the other waits
    ahead = p.backward and device.ampere and _local(p, ri, la, lb, ahead=True) <= device.largest_local // 2
    defines = {**p.macros, **p.multiples, "RI": ri, "LA": la, "LB": lb, "ASYNC": int(ahead), **one.macros}
    whole = p.d % 4 == 0 and p.e % 4 == 0
    return Stage(p.kernel, defines, (p.parts(one.length, ri * la) * la * lb, one.heads), (la * lb, 1), domain=p.domain,
                 file=FILE, note=p.note, lanes=4 if whole else 1, stepped=whole, free=FREE)


def _fits(p: Attention, device: Device, ri: int, la: int, lb: int) -> bool:
    """Whether local memory has room for the tiles, and every item a vector of each to copy."""
    vectors = -(-min(p.d, p.e) // 4)
    # What NVIDIA reports is what arguments may take; arrays of a kernel may be larger.
    room = 99 * 1024 if device.ampere else device.local_memory
    return _local(p, ri, la, lb) <= room and ri * vectors >= lb and 4 * vectors >= la


def _local(p: Attention, ri: int, la: int, lb: int, ahead: bool = False) -> int:
    """[bytes] of local memory, as attention_gpu.cl says."""

    def row(n: int) -> int:
        return 4 * (-(-n // 4) | 1)

    own, walk = ri * la, 4 * lb
    if p.backward:
        floats = (own + walk) * (row(p.d) + row(p.e)) + own * row(walk) + ahead * walk * row(p.d)
    else:
        floats = own * row(p.d) + max(walk * row(p.d), own * row(walk)) + walk * row(p.e) + own * row(lb)
    return 4 * floats
