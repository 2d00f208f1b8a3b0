"""Tiles and grids of conv_winograd.cl: when 3x3 convolutions take 16 products in place of 36, and in which blocks.

Pure Python. Sizes in elements unless said otherwise; costs in cycles of one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

FILE = "conv_winograd.cl"
TUNED = dict(
    channels=16,        # fewer channels, of data or of results, than this: the transforms cost more than they save
    block=512 * 1024,   # [bytes] transformed data and results of a work-item: they should stay in L2
    sums=288 * 1024,    # [bytes] sums of a work-item of the weight gradient
    tiles=56,           # tiles of a block of it: so often are sums used between load and store
    per_core=4,         # work-items a core, against uneven cores
)
# What `clnet tune` tries for a CPU.
SPACE: dict[str, Sequence[Any]] = {
    "block": (256 << 10, 512 << 10, 768 << 10), "sums": (144 << 10, 288 << 10, 432 << 10), "tiles": (28, 56, 112), "per_core": (1, 2, 4, 8),
    "channels": (16, 1 << 30)}


def suits(layout: Any, o: int, c: int) -> bool:
    """3x3, stride 1, not dilated, in two dimensions; a row of tiles reaches over all columns of the data."""
    x, width = layout.least[2], layout.result[2] + layout.result[2] % 2
    plane = layout.size[0] == layout.data[0] == layout.result[0] == 1 and layout.least[0] == 0
    dense = layout.size == (1, 3, 3) and layout.span == (1, 3, 3) and layout.step == layout.out == (1, 1, 1)
    return plane and dense and x <= 0 and x + width + 2 >= layout.data[2] and min(o, c) >= layout.winograd["channels"]


def source(layout: Any) -> dict[str, str]:
    """Where in the weight the nine offsets, in order, are."""
    order = sorted((t, k) for k, t in enumerate(layout.phases[0]) if t is not None)
    return {"SOURCE": ", ".join(str(k) for _, k in order)}


def _register_tiles(lanes: int, itemsize: int) -> list[tuple[int, int]]:
    """(MR, NV) that fit the registers."""
    registers = 32 if lanes * itemsize >= 64 else 16
    return [(mr, nv) for nv in (1, 2, 3, 4) for mr in range(1, 29) if mr * nv + nv + 1 <= registers]


def _rows(n: int, layout: Any) -> tuple[int, int]:
    """(rows of tiles in all images, tiles of a row)."""
    return n * ceil(layout.result[1] / 2), ceil(layout.result[2] / 2)


def forward(device: Any, layout: Any, n: int, groups: int, o: int, c: int, lanes: int, itemsize: int) -> dict[str, int] | None:
    """MR, NV, RT, OB of CONV, or None where a block does not fit."""
    rows, across = _rows(n, layout)
    vectors, wide = ceil(o / lanes), ceil(c / lanes) * lanes
    best = None
    for mr, nv in _register_tiles(lanes, itemsize):
        for rt in range(1, min(rows, 64) + 1):
            tiles = ceil(rt * across / mr) * mr
            size = (16 * tiles * (wide + nv * lanes) + 2 * nv * lanes * 2 * rt * layout.result[2]) * itemsize
            if size > layout.winograd["block"] and rt > 1:
                break
            units = ceil(rows / rt) * groups
            passes = ceil(units / device.compute_units) * device.compute_units / units if units < 8 * device.compute_units else 1
            weights = nv * lanes * itemsize * c * 16 / 16 * ceil(vectors / nv)      # streamed once a block
            cost = (tiles / mr * ceil(vectors / nv) * c * 16 * (max(mr * nv / 2, 4) + 1) + weights) / rt * passes
            best = min(best, (cost, -rt, mr, nv, size)) if best else (cost, -rt, mr, nv, size)
    assert best is not None
    _, rt, mr, nv, size = best
    if size > 2 * layout.winograd["block"]:
        return None
    panels, units = ceil(vectors / nv), ceil(rows / -rt) * groups
    return dict(MR=mr, NV=nv, RT=-rt, OB=ceil(panels / min(panels, ceil(device.compute_units / units))))


def weights(device: Any, layout: Any, n: int, groups: int, o: int, c: int, lanes: int, itemsize: int) -> dict[str, int] | None:
    """MR, NV, RT, CB, OB, PARTS of WEIGHTS, or None where a block does not fit."""
    rows, across = _rows(n, layout)
    vectors = ceil(o / lanes)
    rt = max(1, min(rows, layout.winograd["tiles"] // across))
    best = None
    for mr, nv in _register_tiles(lanes, itemsize):
        for split in range(1, ceil(c / mr) + 1):
            cb = ceil(c / split)
            wide = ceil(ceil(cb / mr) * mr / lanes) * lanes
            ob = layout.winograd["sums"] // (16 * wide * nv * lanes * itemsize)
            if not ob:
                continue
            ob = ceil(ceil(vectors / nv) / ceil(ceil(vectors / nv) / ob))
            cost = ceil(cb / mr) * split * ceil(vectors / nv) * 16 * (max(mr * nv / 2, 4) + 1)
            cost += 5.5 * (c * ceil(ceil(vectors / nv) / ob) + o * split)
            best = min(best, (cost, mr, nv, cb, ob)) if best else (cost, mr, nv, cb, ob)
    if best is None:
        return None
    _, mr, nv, cb, ob = best
    if 16 * rt * across * (cb + mr + lanes + ob * nv * lanes) * itemsize > 2 * layout.winograd["block"]:
        return None
    items = ceil(c / cb) * ceil(ceil(vectors / nv) / ob) * groups
    parts = max(1, min(ceil(rows / rt), ceil(device.compute_units * layout.winograd["per_core"] / items)))
    return dict(MR=mr, NV=nv, RT=rt, CB=cb, OB=ob, PARTS=parts)
