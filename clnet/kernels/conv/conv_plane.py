"""Convolutions on CPUs by conv_plane.cl: with so few result channels a group, depthwise above all, vector lanes are
better spent on pixels.

Sizes in elements unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from ..grid import up, vector_lanes
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv import parts, summed
from .problem import FREE, Convolution, Macros, Vector, on_cpu

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_plane.cl"
TALL = 14  # rows of the register tile at most, where they share the pixels that they read
PHASE = 8  # the same where they share none
NARROW = 8  # lanes at least of half a vector, which serves rows that it holds
FINE = 4  # times the work-items that uneven cores want, of whole planes
TAPS = 28  # taps of the register tile of the weight gradient at most
SERVES = "CPUs, few result channels a group, depthwise above all"


@variant("conv", cl=FILE, serves=SERVES, rank=3)  # lanes that follow channels would be empty
def plane(p: Convolution, device: Device) -> Answer:
    found = _found(p, device)
    if isinstance(found, Refusal):
        return found
    v, t = found
    th, kb = _strip(p, v) if p.out == (1, 1, 1) else (_tall(p, PHASE), 1)
    fitting = list(_fitting(p, v, t, range(th, p.down + th, th)))
    if not fitting:
        return Refusal("a row with its border does not fit the private memory of a block")
    j, usual = fitting[-1], p.typical
    images = _images(usual, device, v, t, j)
    tile = dict(TH=th, KB=kb, JB=j, WIDE=v.lanes * images, GB=_together(usual, device, t, j, usual.n // images))
    return Offer(lambda: _stages(p, device, v, tile))


def _strip(p: Convolution, v: Vector) -> tuple[int, int]:
    """Rows of a register tile, and rows of taps whose weights are in registers beside it and two vectors of pixels."""
    most = v.registers // 2 - 1 if p.dilation[1] < TALL else 1  # rows of taps so far apart share no pixels
    rows = ceil(p.size[1] / ceil(p.size[1] / most))
    return _tall(p, min(TALL, v.registers - 2 - rows)), rows


def _tall(p: Convolution, most: int) -> int:
    """Rows of a register tile: at most so many, more than half of them, those that waste the fewest."""
    down = p.down
    return min(range(min(most // 2 + 1, down), min(most, down) + 1), key=lambda t: (up(down, t), -t))


def _images(p: Convolution, device: Device, v: Vector, t: Numbers, j: int) -> int:
    """Images of a register tile: two, where a row takes half of its lanes and a block is a whole plane."""
    halved = v.lanes < vector_lanes(device, p.dtype) and p.out == (1, 1, 1)
    fit = _whole(p, j) and 2 * p.c * p.plane(j) * v.itemsize <= t["copy"]
    items = p.n // 2 * p.groups
    return 2 if halved and fit and items >= device.compute_units * t["per_core"] else 1


def _together(p: Convolution, device: Device, t: Numbers, j: int, along: int) -> int:
    """Groups of a work-item, of which there are so many along images, where a block is a whole plane: small ones, of
    which a launch has many.
    """
    if not _whole(p, j):
        return 1
    return max(1, min(p.groups, along * p.groups // (device.compute_units * t["per_core"] * FINE)))


def _whole(p: Convolution, j: int) -> bool:
    """Whether a block of j rows is a whole plane."""
    return p.flat and j * p.out[1] >= p.result[1]


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
    parted, _ = parts(p.typical, device, units, (1, p.groups), t["per_core"])
    tile = dict(TB=ceil(k / ceil(k / TAPS)), JB=j, PARTS=parted)
    return Offer(lambda: summed(p, device, v, tile, "conv_plane_weights", (p.groups,), FILE))


def _found(p: Convolution, device: Device) -> tuple[Vector, Numbers] | Refusal:
    """The vectors and the numbers of a CPU, where lanes had better follow the pixels of a row."""
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    t = numbers(device, "conv cpu", p.shape_class)
    if v.lanes == 1 or p.o * t["few"] > v.lanes:
        return Refusal(f"more than {v.lanes // t['few']} result channels a group: lanes follow channels")
    if p.step[2] > 2:
        return Refusal("steps of more than 2 along a row")
    half = v.lanes // 2
    return v._replace(lanes=half) if NARROW <= half >= ceil(p.result[2] / p.out[2]) else v, t


def _fitting(p: Convolution, v: Vector, t: Numbers, rows: range) -> Iterator[int]:
    """Those rows of a block whose data and results fit private memory."""
    row = p.out[1] * p.result[2] * v.itemsize
    return (j for j in rows if p.c * p.plane(j) * v.itemsize <= t["copy"] and j * row <= t["tile"])


def _stages(p: Convolution, device: Device, v: Vector, tile: Macros) -> list[Stage]:
    images = ceil(p.n * v.lanes / tile["WIDE"])
    grid = p.result[0] * ceil(p.result[1] / (tile["JB"] * p.out[1])), ceil(p.groups / tile["GB"]), images
    window = {name + axis: value for name, values in (("K", p.size), ("DIL_", p.dilation))
              for axis, value in zip("ZYX", values, strict=True)}
    return [Stage("conv_plane", {**p.forward(device), **p.tables(tile["JB"]), **tile, **window,
                                 "FLIP": int(p.transposed)}, grid, (1, 1, 1),
                  domain=p.domain, lanes=v.lanes, file=FILE, free=FREE)]
