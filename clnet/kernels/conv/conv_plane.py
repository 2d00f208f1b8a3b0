"""Convolutions on CPUs by conv_plane.cl: with so few result channels a group, depthwise above all, vector lanes are
better spent on pixels.

Sizes in elements unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from ..grid import up
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv import summed
from .problem import FREE, Convolution, Macros, Vector, on_cpu

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_plane.cl"
TALL = 8  # rows of the register tile at most
TAPS = 28  # taps of the register tile of the weight gradient at most
SERVES = "CPUs, few result channels a group, depthwise above all"


@variant("conv", cl=FILE, serves=SERVES, rank=3)  # lanes that follow channels would be empty
def plane(p: Convolution, device: Device) -> Answer:
    found = _found(p, device)
    if isinstance(found, Refusal):
        return found
    v, t = found
    down = p.down
    th = min(range(min(TALL // 2 + 1, down), min(TALL, down) + 1), key=lambda t: (up(down, t), -t))
    fitting = list(_fitting(p, v, t, range(th, down + th, th)))
    if not fitting:
        return Refusal("a row with its border does not fit the private memory of a block")
    return Offer(lambda: _stages(p, device, v, dict(TH=th, JB=fitting[-1])))


@variant("conv_weight_gradient", cl=FILE, serves=SERVES, rank=2)  # as above
def plane_weights(p: Convolution, device: Device) -> Answer:
    found = _found(p, device)
    if isinstance(found, Refusal):
        return found
    v, t = found
    down, k = p.result[1], p.k
    fitting = list(_fitting(p, v, t, range(1, down + 1)))
    if p.o * p.c * k * v.lanes * v.itemsize > t["sums"] or not fitting:
        return Refusal("the sums or a row with its border do not fit the private memory of a work-item")
    j = ceil(down / ceil(down / fitting[-1]))
    units = p.typical.n * p.result[0] * ceil(down / j)
    tile = dict(TB=ceil(k / ceil(k / TAPS)), JB=j,
                PARTS=max(1, min(units, ceil(device.compute_units * t["per_core"] / p.groups))))
    return Offer(lambda: summed(p, device, v, tile, "conv_plane_weights", (p.groups,), FILE))


def _found(p: Convolution, device: Device) -> tuple[Vector, Numbers] | Refusal:
    """The vectors and the numbers of a CPU, where lanes had better follow the pixels of a row."""
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    t = numbers(device, "conv cpu", p.shape_class)
    if v.lanes == 1 or p.o * t["few"] > v.lanes:
        return Refusal(f"more than {v.lanes // t['few']} result channels a group: lanes follow channels")
    return Refusal("steps of more than 2 along a row") if p.step[2] > 2 else (v, t)


def _fitting(p: Convolution, v: Vector, t: Numbers, rows: range) -> Iterator[int]:
    """Those rows of a block whose data and results fit private memory."""
    row = p.out[1] * p.result[2] * v.itemsize
    return (j for j in rows if p.c * p.plane(j) * v.itemsize <= t["copy"] and j * row <= t["tile"])


def _stages(p: Convolution, device: Device, v: Vector, tile: Macros) -> list[Stage]:
    grid = p.result[0] * ceil(p.result[1] / (tile["JB"] * p.out[1])), p.groups, p.n
    return [Stage("conv_plane", {**p.forward(device), **p.tables(tile["JB"]), **tile}, grid, (1, 1, 1),
                  domain=p.domain, lanes=v.lanes, file=FILE, free=FREE)]
