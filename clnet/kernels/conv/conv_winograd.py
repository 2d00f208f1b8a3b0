"""3x3 convolutions on CPUs by conv_winograd.cl: 16 products in place of 36, in blocks of transformed tiles; and which
convolutions Winograd's transforms can serve, on GPUs too.

Sizes in elements unless said otherwise; costs in cycles of one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from ..dealing import PAIRED
from ..grid import up
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv import fewer, parts, summed
from .problem import FREE, Convolution, Macros, Vector, on_cpu, text

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_winograd.cl"
# Many cores: times the least cycles at most, of tiles whose dealing is tried; times as long, to be worth another tile.
NEAR, SOONER = 1.1, 0.9
CHUNK = 16  # channels whose weights a work-item packs: their taps fill lines, and 9 vectors
SERVES = "CPUs, 3x3 with stride 1, 16 channels or more"
# What `clnet tune` tries for a CPU.
SPACE: dict[str, Sequence[Any]] = {
    "tile": ((), (4, 2), (5, 2), (6, 2), (4, 3), (2, 4), (8, 2), (12, 2), (13, 2), (4, 4), (8, 1), (14, 1), (24, 1)),
    "block": (256 << 10, 512 << 10, 768 << 10), "sums": (144 << 10, 288 << 10, 432 << 10), "tiles": (28, 56, 112),
    "per_core": (1, 2, 4, 8), "channels": (16, 1 << 30)}


def not_winograd(p: Convolution, device: Device) -> Refusal | None:
    """Why not: they take 3x3, stride 1, not dilated, in two dimensions;
    a row of tiles reaches over all columns of the data.
    """
    if not (p.flat and p.size == p.span == (1, 3, 3) and p.step == p.out == (1, 1, 1)):
        return Refusal("3x3 with stride 1, in two dimensions, only")
    x, width = p.least[2], p.result[2] + p.result[2] % 2
    if p.least[0] != 0 or x > 0 or x + width + 2 < p.data[2]:
        return Refusal("the border cuts columns off")
    least = numbers(device, "winograd", p.shape_class)["channels"]
    return Refusal(f"fewer than {least} channels a group") if min(p.o, p.c) < least else None


def source(p: Convolution) -> Macros:
    """Where in the weight the nine offsets, in order, are."""
    order = sorted((t, k) for k, t in enumerate(p.phases[0]) if t is not None)
    return {"SOURCE": text(k for _, k in order)}


@variant("conv", cl=FILE, serves=SERVES, rank=2)  # fewer products than any other way on a CPU
def winograd(p: Convolution, device: Device) -> Answer:
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    if refused := not_winograd(p, device):
        return refused
    if _few(p.typical, device):
        return Refusal("too few results: transforming the weights takes longer than the products that it saves")
    tile = _tile(p.typical, device, v)
    return _too_large() if tile is None else Offer(lambda: _stages(p, device, v, tile))


@variant("conv_weight_gradient", cl=FILE, serves=SERVES, rank=3)  # as above, but for planes, which need no transform
def winograd_weights(p: Convolution, device: Device) -> Answer:
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    if refused := not_winograd(p, device):
        return refused
    tile = _weight_tile(p.typical, device, v)
    if tile is None:
        return _too_large()
    across = ceil(p.c / tile["CB"]), ceil(ceil(p.o / (tile["NV"] * v.lanes)) / tile["OB"]) * p.groups
    return Offer(lambda: summed(p, device, v, tile, "winograd_weights", across, FILE))


def _few(p: Convolution, device: Device) -> bool:
    """Whether the direct sum is sooner done: a tile takes as long as two results of it, and has four, or fewer at the
    border; 16 transformed weights in place of nine packed ones take as long as some results.
    """
    (rows, across), t = tiles_of(p), numbers(device, "winograd", p.shape_class)
    return p.n * p.result[1] * p.result[2] - 2 * rows * across < t["packed"]


def _too_large() -> Refusal:
    return Refusal("a block of transformed tiles does not fit the cache of a core")


def _stages(p: Convolution, device: Device, v: Vector, tile: Macros) -> list[Stage]:
    common = {**p.forward(device), **p.tables(1), **tile, **source(p)}
    panels, rows = ceil(p.o / (tile["NV"] * v.lanes)), ceil(p.n * ceil(p.result[1] / 2) / tile["RT"])
    scratch = {"packed": p.groups * panels * tile["NV"] * v.lanes * p.c * 16 * v.itemsize}
    packs, chunks = {**common, "VARIANT": "PACK", "CHUNK": CHUNK}, ceil(p.c / CHUNK)
    return [Stage("winograd_pack", packs, (panels, chunks, p.groups), (1, 1, 1), lanes=v.lanes, scratch=scratch,
                  final=False, file=FILE, free=FREE),
            Stage("winograd", {**common, "VARIANT": "CONV"}, (rows, ceil(panels / tile["OB"]) * p.groups), (1, 1),
                  domain=p.domain, lanes=v.lanes, scratch=scratch, file=FILE, free=FREE)]


def _register_tiles(v: Vector, given: Sequence[int]) -> list[Sequence[int]]:
    """(MR, NV) that fit the registers, or what is given."""
    if given:
        return [given]
    return [(mr, nv) for nv in (1, 2, 3, 4) for mr in range(1, 29) if mr * nv + nv + 1 <= v.registers]


def _cycles(mr: int, nv: int, v: Vector) -> float:
    """Of a register tile's step along the sum: 2 products and 2 loads a cycle, latency 4, loop 1. With 16
    registers 14x1 takes up to 1.1 times as long as 6x2 for them; with 32 it makes no difference (both on a Zen 4).
    """
    loads = (mr + nv) / 2 if v.registers == 16 else 0
    return max(mr * nv / 2, loads, 4) + 1


def tiles_of(p: Convolution) -> tuple[int, int]:
    """(rows of tiles in all images, tiles of a row)."""
    return p.n * ceil(p.result[1] / 2), ceil(p.result[2] / 2)


def _tile(p: Convolution, device: Device, v: Vector) -> Macros | None:
    """MR, NV, RT, OB of CONV, or None where a block does not fit."""
    t, units = numbers(device, "winograd", p.shape_class), device.compute_units
    (rows, across), lanes = tiles_of(p), v.lanes
    vectors, wide = ceil(p.o / lanes), up(p.c, lanes)
    found = []
    for mr, nv in _register_tiles(v, t["tile"]):
        for rt in range(1, min(rows, 64) + 1):
            tiles = up(rt * across, mr)
            size = (16 * tiles * (wide + nv * lanes) + 2 * nv * lanes * 2 * rt * p.result[2]) * v.itemsize
            if size > t["block"] and rt > 1:
                break
            items = ceil(rows / rt) * p.groups
            passes = up(items, units) / items if items < 8 * units else 1
            weights = nv * lanes * v.itemsize * p.c * 16 / 16 * ceil(vectors / nv)  # streamed once a block
            cost = (tiles / mr * ceil(vectors / nv) * p.c * 16 * _cycles(mr, nv, v) + weights) / rt * passes
            found.append((cost, -rt, mr, nv, size))
    _, rt, mr, nv, size = min(found)
    if size > 2 * t["block"]:
        return None
    panels, items = ceil(vectors / nv), ceil(rows / -rt) * p.groups
    return dict(MR=mr, NV=nv, RT=-rt, OB=ceil(panels / min(panels, ceil(units / items))))


def _weight_tile(p: Convolution, device: Device, v: Vector) -> Macros | None:
    """MR, NV, RT, CB, OB, PARTS of WEIGHTS, or None where a block does not fit: those of the fewest cycles, or on many
    cores those with which the last core is done clearly sooner.
    """
    t, (rows, across), lanes = numbers(device, "winograd", p.shape_class), tiles_of(p), v.lanes
    vectors = ceil(p.o / lanes)
    rt, cores = max(1, min(rows, t["tiles"] // across)), device.compute_units
    found = list[tuple[float, int, int, int, int]]()
    for mr, nv in _register_tiles(v, t["tile"]):
        panels = ceil(vectors / nv)
        for cb in dict.fromkeys(ceil(p.c / split) for split in range(1, ceil(p.c / mr) + 1)):
            most, split = t["sums"] // (16 * up(up(cb, mr), lanes) * nv * lanes * v.itemsize), ceil(p.c / cb)
            for ob in fewer(panels, min(panels, most), cores) if most else ():
                cost = ceil(cb / mr) * split * panels * 16 * _cycles(mr, nv, v)
                cost += 5.5 * (p.c * ceil(panels / ob) + p.o * split)
                found.append((cost, mr, nv, cb, ob))
    if not found:
        return None
    least = min(found)
    near = [f for f in found if f[0] <= NEAR * least[0] and f != least] if cores > PAIRED else []
    first, *others = [_parted(p, device, t, v, rt, *f) for f in (least, *near)]
    best = min((first, *(f for f in others if f[0] < SOONER * first[0])), key=lambda f: f[0])[1]
    held = best["CB"] + best["MR"] + lanes + best["OB"] * best["NV"] * lanes
    return None if 16 * rt * across * held * v.itemsize > 2 * t["block"] else best


def _parted(p: Convolution, device: Device, t: Numbers, v: Vector, rt: int, cost: float, mr: int, nv: int, cb: int,
            ob: int) -> tuple[float, Macros]:
    """(cost of the core that is done last, the tile with RT and PARTS)"""
    rows, _ = tiles_of(p)
    across = ceil(p.c / cb), ceil(ceil(p.o / (nv * v.lanes)) / ob) * p.groups
    rt = min(rt, ceil(rows * prod(across) / device.compute_units))  # no core without a block
    parted, ends = parts(p, device, ceil(rows / rt), across, t["per_core"])
    return cost * ends, dict(MR=mr, NV=nv, RT=rt, CB=cb, OB=ob, PARTS=parted)
