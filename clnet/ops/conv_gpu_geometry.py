"""Which variants of conv_gpu.cl, with which tiles and grids, for a convolution on a GPU: the shortest of the estimated times.

Pure Python, no OpenCL. Tiles, their times and how sums are cut are those of matrix products (matmul_gpu_geometry), with other numbers.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod
from typing import Any

from ..engine.tune import tuned as lookup
from . import conv_winograd, conv_winograd_products
from .matmul_gpu_geometry import TUNED as PRODUCTS
from .matmul_gpu_geometry import Tile, duration, fits

FILE, WINOGRAD, WINOGRAD_4 = "conv_gpu.cl", "conv_winograd_gpu.cl", "conv_winograd4_gpu.cl"
# As for products; `weights`: the tiles of the weight gradient, which turns both operands: 8 pixels a block do so without bank conflicts.
TUNED: dict[str, Any] = dict(
    tiles=((128, 128, 16, 8, 8, 4, 8, 2, 0.9, 190), (64, 128, 16, 8, 8, 4, 8, 2, 0.85, 120), (64, 64, 16, 8, 4, 4, 8, 2, 0.8, 70),
           (64, 64, 8, 8, 4, 4, 8, 2, 0.75, 70), (32, 128, 16, 4, 8, 4, 8, 2, 0.65, 70), (32, 64, 16, 4, 4, 4, 8, 2, 0.6, 48),
           (32, 64, 8, 4, 4, 4, 8, 2, 0.55, 48)),
    weights=((128, 128, 8, 8, 8, 4, 8, 2, 0.8, 190), (64, 128, 8, 8, 8, 4, 8, 2, 0.75, 120), (128, 64, 8, 8, 8, 4, 8, 2, 0.75, 120),
             (64, 64, 8, 8, 4, 4, 8, 2, 0.7, 70), (32, 64, 8, 4, 4, 4, 8, 2, 0.5, 48)),
    products=97,
    lead=10,
    # 3x3 convolutions with transformed patches: results along a side of a tile, tiles of a work-group, share of `products`
    winograd=((2, 64, 0.57), (2, 32, 0.55), (4, 32, 0.42)),
    winograd_weights=0.3,   # that share, in the weight gradient
    launch=9000,
    bytes=16000,
    waves=4,        # parts are made until every unit has so many tiles at most
    part=128,       # K is not cut into parts shorter than this
    direct=8,       # up to so many result channels a group are summed without tiles
    taps=32,        # taps of the weight gradient of few channels: more are left to products of matrices
)
ITEMS = 256         # of a work-group that has no tile


def forward(device: Any, layout: Any, common: dict[str, Any], domain: tuple[int, ...], itemsize: int) -> Any:
    """The stages of conv or conv_data_gradient, or None where the device is too small for the tiles."""
    n, groups, o, c, table = *(common[k] for k in ("N", "GROUPS", "O", "C")), _table(device)
    phases, lists = len(layout.phases), layout.defines(1)
    pixels = n * prod(ceil(r / s) for r, s in zip(layout.result, layout.out, strict=True))
    defines = {**common, **lists, "USE_FMA": 1}
    t = dict(table)
    if o <= t["direct"]:
        items, tm = min(ITEMS, device.max_work_group), min(o, 4)
        grid = ceil(pixels / items) * items, ceil(o / tm), groups * phases
        return [_stage("conv_direct", {**defines, "VARIANT": "DIRECT", "ITEMS": items, "TM": tm}, grid, (items, 1, 1), domain, 1, {})]
    taps = [sum(k is not None for k in phase) for phase in layout.phases]
    found = _plan(table, "tiles", *_limits(device), groups * phases, o, pixels, c * max(taps), itemsize)
    if found is None:
        return None
    if itemsize == 4 and conv_winograd.suits(layout, o, c):
        stored = conv_winograd_products.forward(device, layout, defines, domain, t, found["time"])
        fast = _winograd(device, layout, defines, domain, t, stored[0] if stored else found["time"])
        if fast is not None:
            return fast
        if stored is not None:
            return stored[1]
    (bm, bn, bk), items, split = found["tile"][:3], found["items"], found["split"]
    op, rows = ceil(o / bm) * bm, [0]
    for count in taps:
        rows.append(rows[-1] + ceil(count * c / bk) * bk)
    total = domain[0] * domain[1] * domain[2]
    scratch = {"packed": groups * rows[-1] * op * itemsize, **({"partial": split * total * itemsize} if split > 1 else {})}
    defines |= {**found["defines"], **partial_sums(total, split), "OP": op, "START": ", ".join(map(str, rows)), "ROWS_ALL": rows[-1]}
    defines["X_WIDE"] = 4 if bk * bm % (4 * items) == 0 and items % (bm // 4) == 0 else 1
    element = f"((size_t)(n) * {domain[1]} + (o)) * {domain[2]} + (i)"
    defines["RESULT(n, o, i, v)"] = f"PARTIAL({element}) = (v)" if split > 1 else "EPILOGUE(n, o, i, v)"
    tiles = op // bm * ceil(pixels / bn)
    stages = [_stage("conv_pack", {**defines, "VARIANT": "PACK"}, (op, c, groups), (32, 1, 1), (), 1, scratch, final=False),
              _stage("conv_tile", {**defines, "VARIANT": "TILE"}, (tiles * items, 1, groups * phases * split), (items, 1, 1), domain, 4, scratch, split == 1)]
    if split > 1:
        stages.append(_sum(defines, f"EPILOGUE((e) / {domain[1] * domain[2]}, (e) / {domain[2]} % {domain[1]}, (e) % {domain[2]}, v)", domain, scratch))
    return stages


def _winograd(device: Any, layout: Any, defines: dict[str, Any], domain: tuple[int, ...], t: dict[str, Any], limit: float) -> Any:
    """The stages of conv_winograd_gpu.cl or conv_winograd4_gpu.cl, or None where they do not fit or take longer than `limit`."""
    units, local, most, copies = _limits(device)
    n, groups, o, c = defines["N"], defines["GROUPS"], ceil(defines["O"] / 32) * 32, ceil(defines["C"] / 8) * 8
    best = None
    for side, tiles, speed in t["winograd"]:
        products = (side + 2) ** 2
        count = o // 32 * ceil(n * ceil(layout.result[1] / side) * ceil(layout.result[2] / side) / tiles)
        time = ceil(count * groups / units) * 32 * products * tiles / (t["products"] * speed) * (c + t["lead"])
        if time < limit and local >= tiles * products * 128 and most >= products * tiles // 2:     # bytes of its sums, items
            best, limit = (side, tiles, products, count), time
    if best is None:
        return None
    side, tiles, products, count = best
    name, file = ("winograd_gpu", WINOGRAD) if side == 2 else ("winograd4_gpu", WINOGRAD_4)
    defines = {**defines, **conv_winograd.source(layout), "ASYNC": int(copies), "TILES": tiles}
    scratch, items = {"packed": groups * c * products * o * 4}, products * tiles // 2
    return [_stage("winograd_gpu_pack", {**defines, "VARIANT": "PACK"}, (o, c, groups), (32, 1, 1), (), 1, scratch, False, file),
            _stage(name, {**defines, "VARIANT": "CONV"}, (count * items, 1, groups), (items, 1, 1), domain, 4, scratch, True, file,
                   side == 4 and layout.result[2] % 4 == 0)]


def weights(device: Any, layout: Any, n: int, groups: int, o: int, c: int, itemsize: int) -> Any:
    """The stages of conv_weight_gradient, or None where products of matrices or reductions serve better."""
    table, k = _table(device), prod(layout.size)
    t = dict(table)
    if groups > 1 and c * k <= t["taps"] or o * 4 <= t["direct"]:
        return None
    found = _plan(table, "weights", *_limits(device), groups, o, c * k, n * prod(layout.result), itemsize)
    if found is None:
        return None
    if itemsize == 4 and conv_winograd.suits(layout, o, c):
        stored = conv_winograd_products.weights(device, layout, (n, groups, o, c), t, found["time"])
        fast = _winograd_weights(device, layout, (n, groups, o, c), t, stored[0] if stored else found["time"])
        if fast is not None:
            return fast
        if stored is not None:
            return stored[1]
    (bm, bn), items, split, total = found["tile"][:2], found["items"], found["split"], groups * o * c * k
    scratch = {"partial": split * total * itemsize}
    defines = {"DATA": "x", "GRAD": "g", "N": n, "GROUPS": groups, "C": c, "O": o, "USE_FMA": 1, **layout.defines(1), **found["defines"],
               **partial_sums(total, split)}
    grid = ceil(o / bm) * ceil(c * k / bn) * items, 1, groups * split
    return [_stage("conv_weights", {**defines, "VARIANT": "WEIGHTS"}, grid, (items, 1, 1), (), 4, scratch, final=False),
            sum_stage(defines, c, k, total, scratch)]


def _winograd_weights(device: Any, layout: Any, sizes: tuple[int, int, int, int], t: dict[str, Any], limit: float) -> Any:
    """The stages of WEIGHTS of conv_winograd4_gpu.cl, or None where it does not fit or takes longer than `limit`."""
    (n, groups, o, c), (units, local, most, _) = sizes, _limits(device)
    pairs, speed = ceil(o / 32) * ceil(c / 32) * groups, t["winograd_weights"]
    blocks = ceil(n * ceil(layout.result[1] / 4) * ceil(layout.result[2] / 4) / 8)
    splits = {min(blocks, max(1, units * wave // pairs)) for wave in (1, 2)}
    time, split = min((ceil(pairs * s / units) * 36864 / (t["products"] * speed) * (ceil(blocks / s) * 8 + t["lead"]), s) for s in splits)
    if time > limit or local < 4 * 8 * 1156 * 4 or most < 576:      # bytes of its blocks, items
        return None
    part, total = ceil(blocks / split), groups * o * c * 9
    split = ceil(blocks / part)
    scratch = {"partial": split * total * 4}
    defines = {"DATA": "x", "GRAD": "g", "N": n, "GROUPS": groups, "C": c, "O": o, "USE_FMA": 1, **layout.defines(1), "PART": part,
               **conv_winograd.source(layout), **partial_sums(total, split)}
    grid = ceil(o / 32) * ceil(c / 32) * 576, 1, groups * split
    return [_stage("winograd4_gpu_weights", {**defines, "VARIANT": "WEIGHTS"}, grid, (576, 1, 1), (), 4, scratch, False, WINOGRAD_4),
            sum_stage(defines, c, 9, total, scratch)]


def _table(device: Any) -> tuple[Any, ...]:
    return tuple(sorted({**PRODUCTS, **conv_winograd_products.TUNED, **TUNED, **lookup(device, "conv")}.items()))


def _limits(device: Any) -> tuple[int, int, int, bool]:
    """Compute units, bytes of local memory, items of a work-group, whether the memory system copies to local memory."""
    return device.compute_units, device.largest_local, device.max_work_group, device.ampere


@lru_cache(4096)
def _plan(table: Tile, kind: str, units: int, local: int, most: int, copies: bool, batch: int, m: int, n: int, k: int, size: int) -> dict[str, Any] | None:
    """Tile, items and cut of `batch` products m x k x n."""
    t, copies = dict(table), copies and size == 4
    best = None
    for tile in (c for c in t[kind] if fits(c, local, most, copies)):
        bm, bn, bk = tile[0], tile[1], tile[2] if size == 4 or kind == "weights" else max(2, tile[2] // 2)
        groups = ceil(m / bm) * ceil(n / bn) * batch
        for split in {1, *(max(1, units * wave // groups) for wave in range(1, t["waves"] + 1))}:
            if split == 1 or k // split >= t["part"]:
                time = duration(t, tile, split, units, batch, m, n, k, size)
                best = min(best, (time, tile, bk, split)) if best else (time, tile, bk, split)
    if best is None:
        return None
    time, tile, bk, split = best
    bm, bn, _, tm, tn, lanes_m, lanes_n, stages = tile[:8]
    part = max(ceil(ceil(k / bk) / split), 1)
    defines = dict(BM=bm, BN=bn, BK=bk, TM=tm, TN=tn, LANES_M=lanes_m, LANES_N=lanes_n, ASYNC=int(copies), STAGES=stages if copies else 2, PART=part)
    return dict(tile=(bm, bn, bk), items=bm * bn // (tm * tn), split=ceil(ceil(k / bk) / part), defines=defines, time=time)


def partial_sums(total: int, split: int) -> dict[str, Any]:
    return {"SIZE": total, "SPLIT": split, "PARTIAL(e)": f"((__global T*)partial)[(size_t)part * {total} + (e)]"}


def sum_stage(defines: dict[str, Any], c: int, k: int, total: int, scratch: dict[str, int]) -> Any:
    """The stage that adds the parts of a weight gradient: element (o, tap, channel) of a part is (o, channel, tap) of the result."""
    return _sum(defines, f"EPILOGUE(((e) / {c * k} * {c} + (e) % {c}) * {k} + (e) / {c} % {k}, v)", (total,), scratch)


def _sum(defines: dict[str, Any], epilogue: str, domain: tuple[int, ...], scratch: dict[str, int]) -> Any:
    """The stage that adds the parts: several items an element where there are many parts of few."""
    items, total = 256, prod(domain)
    slices = 8 if defines["SPLIT"] >= 16 and total <= 1 << 17 else 1
    return _stage("conv_sum", {**defines, "VARIANT": "SUM", "ITEMS": items, "SLICES": slices, "SUM_EPILOGUE(e, v)": epilogue},
                  (ceil(total * slices / items) * items,), (items,), domain, 1, scratch)


def _stage(kernel: str, defines: dict[str, Any], grid: tuple[int, ...], group: tuple[int, ...], domain: tuple[int, ...], lanes: int,
           scratch: dict[str, int], final: bool = True, file: str = FILE, stepped: bool = False) -> Any:
    from ..engine.codegen import Stage

    return Stage(kernel, defines, grid, group, domain, lanes, scratch, final, file, stepped)
