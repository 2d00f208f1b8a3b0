"""Convolutions of few channels in 16 bits (conv_mma.cl): for which devices and shapes, with which tiles.

Pure Python, no OpenCL. Sizes in elements unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, gcd, prod
from typing import Any

from ..engine.tune import tuned as lookup
from .matmul_tensor_geometry import NARROW

FILE = "conv_mma.cl"
TUNED: dict[str, Any] = dict(
    channels=(3, 64),   # of data and result: more are better packed once, for larger tiles
    local=110 << 10,    # [bytes] of a work-group: two share a unit
    pixels=128,         # of a tile at least, where images are that small
    resident=2,         # work-groups a unit
    sums=(32, 32),      # channels of the result and of the data in a tile of the weight gradient
    waves=1,            # work-groups a unit there: each leaves a part
)


def forward(device: Any, layout: Any, operands: Any, common: dict[str, Any], domain: tuple[int, ...]) -> Any:
    """The stages of conv or conv_data_gradient, or None where this kernel doesn't suit."""
    t = {**TUNED, **lookup(device, "conv_mma")}
    o, c, n = common["O"], common["C"], common["N"]
    if not _suits(t, device, layout, operands, common["GROUPS"], o, c):
        return None
    cp, ot = _up(c, 16), min(_up(o, 16), 64)
    mt = 2 if ot % 32 == 0 else 1
    wm = ot // 16 // mt
    nt, wn = (8 if mt == 1 else 4), max(1, 8 // wm)
    fixed = sum(taps is not None for phase in layout.phases for taps in phase) * ot * (2 * cp + 16) + 2048 * wm * wn
    block = _block(t, device, layout, n, lambda _: fixed, cp)
    if block is None:
        return None
    lanes = 4 if layout.out[2] == 1 and layout.result[2] % 4 == 0 else 1
    items, across = 32 * wm * wn, ceil(o / ot)
    tiles = _tiles(layout, n, block)
    groups = min(tiles, max(1, device.compute_units * t["resident"] // across))
    defines = {**common, **_tables(layout, block), **block, "CP": cp, "OT": ot, "MT": mt, "NT": nt, "WM": wm, "WN": wn, "ITEMS": items, "VARIANT": "CONV",
               "PRECISION": NARROW[operands[0].dtype].upper(), "WIDE": _wide(layout.data[2], common["DATA"]),
               "W_WIDE": "(W_ALIGN % 8 == 0)" if c == cp and o % ot == 0 else 0}
    return [_stage("conv_mma", defines, (ceil(tiles / ceil(tiles / groups)) * items, across, 1), items, {}, domain, lanes)]


def weights(device: Any, layout: Any, operands: Any, n: int, groups: int, o: int, c: int) -> Any:
    """The stages of conv_weight_gradient, or None where this kernel doesn't suit."""
    from .conv_gpu_geometry import partial_sums, sum_stage

    t, k = {**TUNED, **lookup(device, "conv_mma")}, prod(layout.size)
    if not _suits(t, device, layout, operands, groups, o, c):
        return None
    ot, cp = min(_up(o, 16), t["sums"][0]), min(_up(c, 16), t["sums"][1])
    wm, wt = ot // 16, 3 if k % 3 == 0 else 1
    wk = max(1, 8 // (wm * wt))
    pw = ceil(k * cp // 16 / wt)
    block = _block(t, device, layout, n, lambda pixels: ot * (2 * _up(pixels, 16 * wk) + 16), cp)
    if block is None or pw > 12:
        return None
    tiles, units = _tiles(layout, n, block), ceil(o / ot) * ceil(c / cp)
    part = ceil(tiles / min(tiles, max(1, device.compute_units * t["waves"] // units)))
    split, total = ceil(tiles / part), o * c * k
    scratch, items = {"partial": split * total * 4}, 32 * wm * wt * wk
    defines = {"DATA": "x", "GRAD": "g", "N": n, "C": c, "O": o, "USE_FMA": 1, **_tables(layout, block), **block, **partial_sums(total, split), "CP": cp,
               "WM": wm, "WT": wt, "WK": wk, "PW": pw, "PART": part, "ITEMS": items, "VARIANT": "SUMS", "PRECISION": NARROW[operands[0].dtype].upper(),
               "WIDE": _wide(layout.data[2], "x"), "WIDE_G": _wide(gcd(block["JB"] * layout.result[2], prod(layout.result)), "g")}
    return [_stage("conv_mma_sums", defines, (units * items, split, 1), items, scratch), sum_stage(defines, c, k, total, scratch)]


def _suits(t: dict[str, Any], device: Any, layout: Any, operands: Any, groups: int, o: int, c: int) -> bool:
    least, most = t["channels"]
    flat = layout.data[0] == layout.result[0] == layout.size[0] == 1
    return device.ampere and operands[0].dtype in NARROW and groups == 1 and flat and least <= min(o, c) and max(o, c) <= most


def _block(t: dict[str, Any], device: Any, layout: Any, n: int, rest: Any, cp: int) -> dict[str, int] | None:
    """JB and IMAGES of a tile: as many rows as fit local memory beside `rest`(pixels) bytes, then images up to `pixels`; None if not even a row fits."""
    local = min(t["local"], device.largest_local)
    down, across = (ceil(layout.result[a] / layout.out[a]) for a in (1, 2))

    def fits(j: int, images: int) -> bool:
        return images * layout.plane(j) * (2 * cp + 16) + rest(images * j * across) <= local

    j = next((j for j in _halves(down) if fits(j, 1)), None)
    if j is None:
        return None
    images = 1
    if j == down:
        images = max(1, min(ceil(t["pixels"] / (down * across)), n))
        while images > 1 and not fits(j, images):
            images -= 1
    return {"JB": j, "IMAGES": images}


def _halves(down: int) -> Iterator[int]:
    """All rows, half of them, a third ..."""
    yield from dict.fromkeys(ceil(down / k) for k in range(1, down + 1))


def _tiles(layout: Any, n: int, block: dict[str, int]) -> int:
    return ceil(n / block["IMAGES"]) * ceil(ceil(layout.result[1] / layout.out[1]) / block["JB"])


def _tables(layout: Any, block: dict[str, int]) -> dict[str, Any]:
    """What the layout says for such a tile, and where the taps of the weights stand in its list."""
    found = layout.defines(block["JB"])
    order = [int(k) for k in found["SOURCE"].split(", ")]
    return {**found, "TAP_OF": ", ".join(str(order.index(k)) for k in range(len(order)))}


def _wide(width: int, operand: str) -> Any:
    """Whether vectors of 8 of the operand are whole and aligned, where runs have `width` elements."""
    return f"({operand.upper()}_ALIGN % 8 == 0)" if width % 8 == 0 else 0


def _up(n: int, block: int) -> int:
    return ceil(n / block) * block


def _stage(kernel: str, defines: dict[str, Any], grid: tuple[int, ...], items: int, scratch: dict[str, int], domain: tuple[int, ...] = (),
           lanes: int = 1) -> Any:
    from ..engine.codegen import Stage

    note = f"{defines['PRECISION'].lower()} on tensor cores"
    return Stage(kernel, defines, grid, (items, 1, 1), domain, lanes, scratch, bool(domain), FILE, stepped=lanes > 1, note=note)
