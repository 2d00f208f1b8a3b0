"""Pooling on CPUs (pool.cl): a work-item takes a number of planes, which have to fit its memory."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING

from ...core.spec import NARROW
from ..grid import item_count, vector_lanes
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, Refusal, variant
from .problem import Pooling

if TYPE_CHECKING:
    from ...engine.device.devices import Device

WORTH = 4096  # additions or comparisons that are worth a work-item
PRIVATE = 1 << 20  # [bytes] of a work-item that both CPU runtimes are known to give


@variant("pool", cl="pool.cl", serves="CPUs: float32 and float64, planes of up to 1 MB")
def on_cores(p: Pooling, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    if p.dtype in NARROW:
        return Refusal("16 bits")
    padded = tuple(n + a + b for n, a, b in zip(p.whole, p.low, p.high, strict=True))
    if (prod(padded) + prod(p.results)) * (8 if p.dtype == "float64" else 4) > PRIVATE:
        return Refusal(f"a plane and its results take more than {PRIVATE >> 20} MB")
    return Offer(lambda: [_stage(p, device, padded)])


def _stage(p: Pooling, device: Device, padded: tuple[int, ...]) -> Stage:
    offsets = [[i * d for i in range(k)] for k, d in zip(p.size, p.dilation, strict=True)]
    taps = [(z * padded[1] + y) * padded[2] + x for z, y, x in itertools.product(*offsets)]
    items = item_count(device, p.planes, p.planes * prod(p.results) * len(taps), WORTH)
    defines = {**p.macros, "DATA": "g" if p.back else "x", "CHANNELS": p.planes, "ITEMS": items, "T_ALL": len(taps),
               "TAPS": ", ".join(map(str, taps)), **{"P" + a: n for a, n in zip("ZYX", padded, strict=True)}}
    return Stage("pool", defines, (items,), (1,), domain=p.domain, lanes=vector_lanes(device, p.dtype), stepped=True,
                 free=frozenset(("CHANNELS",)))
