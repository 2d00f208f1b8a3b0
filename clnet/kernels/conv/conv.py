"""Convolutions on CPUs by conv.cl: the data that a block of rows reads is copied once, results grow in registers.

Sizes in elements; costs in cycles of one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from ..dealing import PAIRED, share
from ..grid import up
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .problem import FREE, Convolution, Macros, Vector, on_cpu

if TYPE_CHECKING:
    from ...engine.device.devices import Device

# What `clnet tune` tries for a CPU.
SPACE: dict[str, Sequence[int]] = {
    "copy": (96 << 10, 256 << 10, 512 << 10), "tile": (32 << 10, 96 << 10, 192 << 10),
    "sums": (96 << 10, 192 << 10, 384 << 10), "per_core": (1, 2, 4, 8)}


class Costs(NamedTuple):
    """[half cycles] of a step of a register tile: of fewer products than hide each other's latency as many (`least`),
    of a value that is broadcast, of a vector of weights or of gradients. Fitted to times of 20 convolutions of stride 2
    on a Xeon, with AVX-512 and compiled for AVX2.
    """

    least: float
    value: float
    vector: float

    def step(self, values: int, nv: int) -> float:
        """A step of so many values by NV vectors."""
        return max(values * nv, self.least) + 1 + self.value * values + self.vector * nv


FORWARD = Costs(4, 0.25, 0.25)
# With 16 registers a broadcast is an instruction, and tiles are small for weights that come from beyond L1.
FAR = Costs(9, 1, 1.5)
WEIGHTS = {32: Costs(4, 0, 0.5), 16: Costs(10, 0.15, 0.3)}  # by registers
UNROLLED = 4, 16  # phases, and their taps, up to which code is written out for each
FEW = 4  # a part of the lanes that is not worth the others (an estimate)
SPARE = 3  # registers that are then to be free, but of flat tiles
PLACES = 4, 6  # pixels of a flat tile, whose places stay in registers (those of five do not: 2.2 times as long)
L1 = 32 << 10  # [bytes] where the system does not tell
# Many cores: [half cycles] a vector of data or gradients that is copied, of sums that are added (estimates, fitted to
# nothing; by them 18 of 22 gradients took less time on sixteen Xeon cores); times as many pieces as have to be, tried.
COPIED, ADDED, SPLITS = 8, 16, 4
CHUNK = 256  # values of a channel of the weight that a work-item packs


@variant("conv", cl="conv.cl", serves="CPUs, every shape", rank=4)  # the others know more of theirs
def blocks(p: Convolution, device: Device) -> Answer:
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    for q in p.layouts:
        if q is not p and prod(p.out) > 1 and FEW * p.o <= v.lanes:
            return Refusal("most lanes would be empty, in phases of a long row")
        if tile := _tile(q.typical, device, v):
            return Offer(partial(_stages, q, device, v, tile))
    return _too_wide(p, device)


@variant("conv_weight_gradient", cl="conv.cl", serves="CPUs, every shape", rank=4)  # as above
def blocks_weights(p: Convolution, device: Device) -> Answer:
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    for q in p.layouts:
        if tile := _weight_tile(q.typical, device, v):
            across = ceil(p.c / tile["CB"]), ceil(ceil(p.o / (tile["NV"] * v.lanes)) / tile["OB"]) * p.groups
            return Offer(partial(summed, q, device, v, tile, "conv_weights", across))
    return _too_wide(p, device)


def _too_wide(p: Convolution, device: Device) -> Refusal:
    return Refusal(f"a row with its border takes more than {_numbers(p, device)['most'] >> 10} KiB of private memory")


def _numbers(p: Convolution, device: Device) -> Numbers:
    return numbers(device, "conv cpu", p.shape_class)


def _stages(p: Convolution, device: Device, v: Vector, tile: Macros) -> list[Stage]:
    panels = ceil(p.o / (tile["NV"] * v.lanes))
    common = {**p.forward(device), **p.tables(tile["JB"]), "NV": tile["NV"]}
    scratch = {"packed": p.groups * panels * tile["NV"] * v.lanes * p.c * common["T_ALL"] * v.itemsize}
    grid = p.result[0] * ceil(p.down / tile["JB"]), ceil(panels / tile["OB"]) * p.groups, p.n
    in_order = {"IN_ORDER": 1, "CHUNK": CHUNK}, (ceil(p.c * common["T_ALL"] / CHUNK), panels, p.groups)
    packs, pieces = ({}, (p.c, 1, p.groups)) if p.transposed else in_order
    return [Stage("conv_pack", {**common, **packs, "VARIANT": "PACK"}, pieces, (1, 1, 1),
                  lanes=v.lanes, scratch=scratch, final=False, free=FREE),
            Stage("conv", {**common, "VARIANT": "CONV", **tile}, grid, (1, 1, 1), domain=p.domain, lanes=v.lanes,
                  scratch=scratch, free=FREE)]


def summed(p: Convolution, device: Device, v: Vector, tile: Macros, kernel: str, across: Sequence[int],
           file: str = "") -> list[Stage]:
    """A weight gradient in PARTS, by a kernel whose grid is these by `across`, and their sum, where they are several.
    """
    common = {**p.gradient(device), "SIZE": p.weights, **tile, **p.tables(tile.get("JB", 1))}
    grid = tile["PARTS"], *across
    weights = partial(Stage, kernel, {**common, "VARIANT": "WEIGHTS"}, grid, (1,) * len(grid), lanes=v.lanes, file=file,
                      free=FREE)
    if tile["PARTS"] == 1:
        return [weights(domain=(p.weights,))]
    scratch = {"partial": tile["PARTS"] * p.weights * v.itemsize}
    return [weights(scratch=scratch, final=False),
            Stage("conv_sum", {**common, "VARIANT": "SUM"}, (ceil(p.weights / 4096),), (1,), domain=(p.weights,),
                  lanes=v.lanes, scratch=scratch, free=FREE)]


def parts(p: Convolution, device: Device, units: int, across: tuple[int, int], per_core: int) -> tuple[int, float]:
    """PARTS of a weight gradient, at most `units`, each of them `across` work-items; and the share of all work in whose
    time the last core is done. So many that a core has `per_core` work-items; where their sums would take more memory
    than the data that they are of, one work-item or some more a core. Many cores get fewer, where those are done
    sooner.
    """
    cores, items = device.compute_units, prod(across)
    each, wanted = ceil(cores / items), ceil(cores * per_core / items)
    held = p.n * p.groups * p.c * prod(p.data) // p.weights // each * each
    most = max(1, min(units, wanted, max(each, held)))
    tried = {n for n in (each, 2 * each, 4 * each) if n < most and cores > PAIRED} | {most}
    ends = {n: max(share(units / ceil(units / n), *across, cores, per_core), ceil(n * items / cores) / (n * items))
            for n in sorted(tried)}
    found = min(ends, key=lambda n: ends[n])
    return found, ends[found]


def fewer(count: int, most: int, cores: int) -> list[int]:
    """How many of `count` things a work-item may take, `most` of them first; of many cores it may have to be fewer."""
    least = ceil(count / most)
    wanted = range(least, min(count, least * SPLITS) + 1) if cores > PAIRED else (least,)
    return list(dict.fromkeys(ceil(count / n) for n in wanted))


def _tile(p: Convolution, device: Device, v: Vector) -> Macros | None:
    """Register tile (TH x TW pixels, or TW that go on beyond rows, by NV vectors), rows of a block, panels of a
    work-item.
    """
    t, (nv, th, tw, flat), down = _numbers(p, device), _register_tile(p, v, device.l1_cache), p.down
    panels = ceil(ceil(p.o / v.lanes) / nv)
    row_tile = nv * v.lanes * p.out[1] * p.result[2] * v.itemsize
    step = tw if p.column and flat else th  # rows that a block has at least
    fitting = [j for j in range(step, down + step, step)
               if p.c * p.plane(j) * v.itemsize <= t["copy"] and j * row_tile <= t["tile"]]
    j = fitting[-1] if fitting else step
    if p.c * p.plane(j) * v.itemsize + j * row_tile > t["most"]:
        return None
    wanted = device.compute_units * t["per_core"]
    outer = p.n * p.result[0] * p.groups
    # Many cores and few images: each of them reads all data and weights that stay in its cache, not all weights.
    held = max(1, t["weights"] // (nv * v.lanes * p.c * max(p.taps) * v.itemsize))
    split = ceil(panels / held) if device.compute_units > PAIRED and outer < wanted and panels >= 2 * held else 1
    while j > 2 * step and outer * split * ceil(down / j) < wanted and j > p.span[1]:
        j = ceil(j / 2 / step) * step
    j = up(ceil(down / ceil(down / j)), step)
    items = outer * ceil(down / j)
    split = max(split, min(panels, ceil(wanted / items)) if items < wanted else 1)
    told = {"FLAT": flat, "UNROLLED": _unrolled(p, v, th * tw * nv + nv + 1, flat)}
    return dict(NV=nv, TH=th, TW=tw, JB=j, OB=ceil(panels / split)) | {name: 1 for name, so in told.items() if so}


def _unrolled(p: Convolution, v: Vector, registers: int, flat: bool) -> bool:
    """Whether phases and taps are written out. The compiler then loads what the next tap reads before it is due, for
    which there are to be registers: 13 of 16 and 17 of 32 gained, all of 16 and 31 of 32 lost a seventh to a quarter.
    Where there is no next one, they may all be taken: a loop over one tap took 2.2 times as long (Zen 4, with AVX2 and
    AVX-512; more phases and taps than UNROLLED were not measured).
    """
    phases, taps = prod(p.out), sum(p.taps)
    few = p.out[0] == 1 and 1 < phases <= UNROLLED[0] and taps <= UNROLLED[1]
    return few and (max(p.taps) == 1 or flat or registers + SPARE <= v.registers)


def _register_tile(p: Convolution, v: Vector, l1: int) -> tuple[int, int, int, bool]:
    """NV, TH, TW, FLAT that take the fewest cycles. Tiles of several rows are as wide as the result. Flat ones need a
    register for each pixel's place; with 32 vectors larger ones in rows are as fast or faster.
    """
    across, down = max(1, p.result[2] // p.out[2]), p.down
    whole = p.out == (1, 1, 1)
    flat = whole or p.out[2] > 1
    phased = p.column and not whole
    panel = p.c * max(p.taps) * v.lanes * v.itemsize  # [bytes] of weights that a tile reads a vector
    costs = FAR if v.registers == 16 and panel > (l1 or L1) // 4 else FORWARD
    found = []
    for nv in (1, 2, 3, 4):
        most = min((v.registers - 1 - nv) // nv, 2 * v.lanes)
        panels = ceil(ceil(p.o / v.lanes) / nv)
        if phased:  # pixels of a phase lie apart, in equal steps
            found += [(panels * ceil(down / tw) * costs.step(tw, nv), True, -tw, nv, 1, tw)
                      for tw in range(1, min(most, down) + 1)]
            continue
        for tw in range(1, min(most, across) + 1):
            th = max(1, min(most // tw, down)) if whole and tw == across else 1
            tiles = panels * ceil(across / tw) * ceil(down / th)
            found.append((tiles * costs.step(th * tw, nv), False, -th * tw, nv, th, tw))
            if flat and v.registers == 16 and tw in PLACES:
                found.append((panels * ceil(across * down / tw) * costs.step(tw, nv), True, -tw, nv, 1, tw))
    _, beyond, _, nv, th, tw = min(found)
    return nv, th, tw, beyond


def _weight_tile(p: Convolution, device: Device, v: Vector) -> Macros | None:
    """Register tile (CM channels x TB taps, NV vectors), rows of a block, channels and panels of a work-item, number of
    parts: of the largest blocks that fit, or on many cores of those with which the last core is done first.
    """
    t, (nv, cm, tb) = _numbers(p, device), _weight_register_tile(p, v)
    nr, panels, down, k, size = nv * v.lanes, ceil(ceil(p.o / v.lanes) / nv), p.result[1], p.k, v.itemsize
    fitting = [j for j in range(1, down + 1)
               if j * p.result[2] * nr * size <= t["tile"] and cm * p.plane(j) * size * 8 <= t["copy"]]
    j, tiles, cores = fitting[-1] if fitting else 1, ceil(p.c / cm), device.compute_units
    found = []
    for rows in fewer(down, j, cores):
        cb_most = max(1, min(tiles, t["copy"] // (cm * p.plane(rows) * size), t["sums"] // (nr * cm * k * size)))
        for cb in fewer(tiles, cb_most, cores):
            ob_most = max(1, min(panels, t["sums"] // (nr * cb * cm * k * size)))
            for ob in fewer(panels, ob_most, cores) if cores > PAIRED else [ob_most]:  # one and two: as measured
                tile = dict(NV=nv, CM=cm, TB=tb, JB=rows, CB=cb * cm, OB=ob)
                found.append((*_weight_cost(p, device, v, tile), tile))
    _, parted, best = min(found, key=lambda f: f[0])
    data, results = best["CB"] * p.plane(best["JB"]), best["JB"] * p.result[2] * nr
    if (data + results + best["OB"] * best["CB"] * k * nr) * size > t["most"]:
        return None
    return best | dict(PARTS=parted)


def _weight_cost(p: Convolution, device: Device, v: Vector, tile: dict[str, int]) -> tuple[float, int]:
    """(half cycles until the last core is done, PARTS). Data are copied for each block of panels, gradients for each of
    channels, and the sums of parts are added.
    """
    nv, cm, tb, rows = tile["NV"], tile["CM"], tile["TB"], tile["JB"]
    blocks, panels = ceil(p.result[1] / rows), ceil(ceil(p.o / v.lanes) / nv)
    across = ceil(p.c / tile["CB"]), ceil(panels / tile["OB"]) * p.groups
    parted, ends = parts(p, device, p.n * p.result[0] * blocks, across, _numbers(p, device)["per_core"])
    pixels = p.n * p.groups * p.result[0] * p.result[1] * p.result[2]
    products = ceil(p.c / cm) * ceil(p.k / tb) * panels * WEIGHTS[v.registers].step(cm * tb, nv) * pixels
    data = p.n * p.result[0] * blocks * p.groups * p.c * p.plane(rows) * across[1] // p.groups
    copied = COPIED * (data + pixels * p.o * across[0]) / v.lanes
    return ends * (products + copied) + ADDED * parted * p.weights / v.lanes / device.compute_units, parted


def _weight_register_tile(p: Convolution, v: Vector) -> tuple[int, int, int]:
    """NV, CM, TB that take the fewest cycles. Tiles of several channels hold all taps."""
    found = []
    for nv in (1, 2, 3, 4):
        most = (v.registers - 1 - nv) // nv
        cm = min(max(1, most // p.k), p.c)
        tb = p.k if cm > 1 else ceil(p.k / ceil(p.k / most))
        tiles = ceil(p.c / cm) * ceil(p.k / tb) * ceil(ceil(p.o / v.lanes) / nv)
        found.append((tiles * WEIGHTS[v.registers].step(cm * tb, nv), nv, cm, tb))
    return min(found)[1:]
