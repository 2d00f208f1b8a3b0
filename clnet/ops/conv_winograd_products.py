"""Grids of conv_winograd_products.cl: when 3x3 convolutions on GPUs are 36 products of stored, transformed operands.

Pure Python, no OpenCL. Sizes in elements unless said otherwise; times in cycles of a compute unit.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from . import matmul_gpu_geometry as products
from .conv_winograd import source

FILE = "conv_winograd_products.cl"
TUNED: dict[str, Any] = dict(
    transform_bytes=4.0,        # [bytes a cycle] of a compute unit, to and from memory
    transform_launch=6000,      # a stage, its part of the time of the host too
    transform_most=512 << 20,   # [bytes] of temporary memory; images are taken in so many chunks
)
ITEMS = 128         # of a work-group
CHANNELS = 8        # lanes that follow channels, where these are contiguous in what is stored: whole sectors of memory


def _chunks(n: int, each: int, most: int) -> list[tuple[int, int]]:
    """(first image, images) of chunks whose images need `each` bytes."""
    count = ceil(n / ceil(n / max(1, ceil(n * each / most)))) if n * each > most else 1
    size = ceil(n / count)
    return [(first, min(size, n - first)) for first in range(0, n, size)]


def _four(v: int) -> int:
    return ceil(v / 4) * 4


def _tiles(layout: Any) -> int:
    """Of an image."""
    return int(ceil(layout.result[1] / 4) * ceil(layout.result[2] / 4))


def _time(t: dict[str, Any], units: int, n: int, groups: int, o: int, c: int, layout: Any, chunks: int) -> float:
    """Of the transforms: each operand is read or written, and 36 products a tile; and of their launches."""
    moved = n * groups * (c * layout.data[1] * layout.data[2] + o * layout.result[1] * layout.result[2] + 36 * _tiles(layout) * (c + o)) + 45 * groups * o * c
    return float(moved * 4 / (t["transform_bytes"] * units) + t["transform_launch"] * (3 * chunks + 1))


def forward(device: Any, layout: Any, common: dict[str, Any], domain: tuple[int, ...], t: dict[str, Any], limit: float) -> tuple[float, list[Any]] | None:
    """(time, stages) of conv or conv_data_gradient, or None where they take longer than `limit`."""
    n, groups, o, c = (common[name] for name in ("N", "GROUPS", "O", "C"))
    tiles, batch = _tiles(layout), 36 * groups
    chunks = _chunks(n, batch * tiles * (o + c) * 4, min(t["transform_most"], device.global_memory // 16))
    widest = _four(chunks[0][1] * tiles)
    plans = {count: products.stored(device, batch, o, _four(count * tiles), c) for _, count in chunks}
    time = _time(t, device.compute_units, n, groups, o, c, layout, len(chunks))
    if any(g is None for g in plans.values()) or (time := time + sum(plans[count]["time"] for _, count in chunks)) > limit:  # type: ignore[index]
        return None
    split = max(plans[count]["split"] for _, count in chunks)  # type: ignore[index]
    scratch = {"turned_x": batch * c * _four(o) * 4, "turned_w": batch * c * widest * 4, "partial": split * batch * o * widest * 4}
    defines = {**common, **source(layout)}
    lanes = next(v for v in (4, 2, 1) if layout.result[2] % v == 0)
    place = f"(((size_t)(product) * {c} + (channel)) * {_four(o)} + (row))"
    stages = [_stage("weight", {**defines, "COUNT": 1, "FIRST": 0, "PLACE(product, row, channel)": place}, (_lines(o), c, groups), scratch)]
    for first, count in chunks:
        g, columns = plans[count], _four(count * tiles)
        assert g is not None
        here = {**defines, "FIRST": first, "COUNT": count, "COLUMNS": columns, "SPLIT": g["split"],
                "PLACE(product, channel, tile)": f"(((size_t)(product) * {c} + (channel)) * {columns} + (tile))",
                "PARTIAL(part, e)": products.partial_sums(batch * o * columns)}
        stages += [_stage("data", here, (_lines(count * tiles), c, groups), scratch),
                   products.stored_stage(g, batch, o, columns, c, here["PARTIAL(part, e)"], scratch),
                   _stage("result", here, (_lines(count * tiles), o, groups), scratch, domain, lanes)]
    return time, stages


def weights(device: Any, layout: Any, sizes: tuple[int, int, int, int], t: dict[str, Any], limit: float) -> tuple[float, list[Any]] | None:
    """(time, stages) of conv_weight_gradient, or None where they take longer than `limit`."""
    n, groups, o, c = sizes
    tiles, batch, lines = _tiles(layout), 36 * groups, (_four(o), _four(c))
    chunks = _chunks(n, batch * tiles * sum(lines) * 4, min(t["transform_most"], device.global_memory // 16))
    plans = {count: products.stored(device, batch, o, c, count * tiles) for _, count in chunks}
    time = _time(t, device.compute_units, n, groups, o, c, layout, len(chunks))
    if any(g is None for g in plans.values()) or (time := time + sum(plans[count]["time"] for _, count in chunks)) > limit:  # type: ignore[index]
        return None
    parts = [plans[count]["split"] for _, count in chunks]  # type: ignore[index]
    most, size = chunks[0][1] * tiles * batch, batch * o * c
    scratch = {"turned_x": most * lines[0] * 4, "turned_w": most * lines[1] * 4, "partial": sum(parts) * size * 4}
    defines = {"DATA": "x", "GRAD": "g", "N": n, "GROUPS": groups, "C": c, "O": o, "USE_FMA": 1, **layout.defines(1), **source(layout),
               "COLUMNS": c, "SPLIT": sum(parts), "PARTIAL(part, e)": products.partial_sums(size)}
    stages = []
    for i, (first, count) in enumerate(chunks):
        for name, channels, line in (("gradient", o, lines[0]), ("data", c, lines[1])):
            place = f"(((size_t)(product) * {count * tiles} + (tile)) * {line} + (channel))"
            here = {**defines, "FIRST": first, "COUNT": count, "CHANNELS": CHANNELS, "PLACE(product, channel, tile)": place}
            stages.append(_stage(name, here, (ceil(channels / CHANNELS) * ITEMS, ceil(count * tiles * CHANNELS / ITEMS), groups), scratch))
        g = plans[count]
        assert g is not None
        stages.append(products.stored_stage(g, batch, o, c, count * tiles, products.partial_sums(size, sum(parts[:i])), scratch))
    stages.append(_stage("weights", {**defines, "COUNT": n, "FIRST": 0}, (_lines(c), o, groups), scratch, (groups * o * c * 9,)))
    return time, stages


def _lines(n: int) -> int:
    return ceil(n / ITEMS) * ITEMS


def _stage(name: str, defines: dict[str, Any], grid: tuple[int, ...], scratch: dict[str, int], domain: tuple[int, ...] = (), lanes: int = 1) -> Any:
    from ..engine.codegen import Stage

    return Stage(f"transform_{name}", {**defines, "VARIANT": f"{name.upper()}_"}, grid, (ITEMS, 1, 1), domain, lanes, scratch, bool(domain), FILE, lanes > 1)
