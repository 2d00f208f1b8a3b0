"""Recurrent cells on CPUs (recurrent.cl): a core takes a number of sequences and keeps the weights in its cache."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from ...core.size import typical, varies
from ..grid import fitting, up, vector_lanes
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, variant
from .problem import SIZES, Loop

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FREE = frozenset(("TIMES", "B", "ROWS"))
TOGETHER = 64  # sequences that a work-item takes through time at once, where their number varies
LINE = 1.5  # [cycles] a line from a second-level cache, in a stream
NEAR = 1.03  # times as long, within which the estimate does not tell tiles apart
HALVINGS = 4  # the register tile is chosen for the largest such number, for half of it and so on


@variant("recurrence", cl="recurrent.cl", serves="CPUs: weights of up to 1 MB, which stay in a core's cache")
def in_caches(p: Loop, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    return Offer(lambda: [_stage(p, device)])


def _stage(p: Loop, device: Device) -> Stage:
    lanes = fitting(vector_lanes(device, p.dtype), p.h)
    each = -(-p.batch // min(typical(p.batch), device.compute_units))
    across, vectors = (SIZES[p.cell].gates, "UV") if p.forward else (1, "NV")
    rows = [max(1, typical(each) >> k) for k in range(HALVINGS if varies(each) else 1)]
    mr, n = _tile(rows, ceil(p.h / lanes), across, lanes * p.size)
    defines = {**p.macros, "ROWS": each, "MR": mr, vectors: n, "USE_FMA": int(device.has_fma)}
    if varies(each):
        defines["MOST"] = up(min(typical(each), TOGETHER), mr)
    return Stage(p.kernel, defines, (-(-p.batch // each),), (1,), domain=p.domain, lanes=lanes, free=FREE)


def _tile(rows: Sequence[int], vectors: int, across: int, size: int) -> tuple[int, int]:
    """(MR, vectors) of the register tile that is best for so many rows each and vectors of `size` bytes; of those as
    good as that, which is best for the fewest rows.
    """
    registers = 32 if size == 64 else 16
    fits = [(mr, n) for mr in range(1, 13) for n in range(1, 9)
            if n <= vectors and mr * n * across + min(mr, n * across) + 1 <= registers]
    cost = {tile: _cycles(tile, rows, vectors, across, size) for tile in fits or [(1, 1)]}
    near = [tile for tile in cost if cost[tile] <= NEAR * min(cost.values())]
    return min(near, key=lambda tile: (_cycles(tile, rows[-1:], vectors, across, size), tile[1]))


def _cycles(tile: tuple[int, int], rows: Sequence[int], vectors: int, across: int, size: int) -> float:
    """Of a step along k, a row and column on average: 2 products and 2 loads a cycle, latency 4, LINE a line of weights
    from the second-level cache; edges are computed in full.
    """
    mr, n = tile
    wide = n * across
    step = max(mr * wide / 2, (mr + wide) / 2, wide * LINE * size / 64, 4) + 1
    return sum(ceil(r / mr) / r for r in rows) * ceil(vectors / n) * step
