"""Products on tensor cores of NVIDIA's GPUs from compute capability 8.0 on, where there is no Hopper (matmul_mma.cl).

Pure Python, no OpenCL. The numbers are those of "matmul_mma" in defaults.json. Sizes in elements unless said otherwise;
times in cycles of a compute unit, as in matmul_gpu.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

from ...core.size import typical
from ..grid import in_parts, up
from ..stage import Stage
from ..tuning import numbers
from ..variant import Offer, Refusal, variant
from .matmul_gpu import FREE_GPU, sum_stage
from .matmul_wgmma import ELEMENTS, result_macros, tensor_stage, unsuited
from .problem import Product, copies

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "matmul_mma.cl"
FREE_ROUND = FREE_GPU | {"LENGTH", "PADDED", "LINE_STRIDE", "ELEMENT_STRIDE"}


@variant("matmul", cl=FILE, rank=2,
         serves="tensor cores from compute capability 8.0 on: 16 bits, or where tf32, bf16 or fp16 is asked for")
def mma(p: Product, device: Device) -> Offer | Refusal:
    """Tiles of results in registers of warps, blocks of both operands in local memory."""
    if device.hopper or not device.ampere:
        return Refusal("needs NVIDIA's compute capability 8.0 or more, and not 9.0, which has wgmma")
    t = numbers(device, "matmul_mma")
    if refusal := unsuited(p, t["least"]):
        return refusal
    if p.arithmetic not in t:
        return Refusal(f"no {p.arithmetic}")
    batch, m, n, k, *_ = p.typical
    found = _fastest(t, device, p.arithmetic, batch, m, n, k)
    if found is None:
        return Refusal("too little local memory for its tiles")
    time, tile, split = found
    rounding = not p.narrow and p.arithmetic != "tf32"
    lines = m * typical(copies(p.x, p.batch)) + n * typical(copies(p.w, p.batch))
    time += rounding * (2 * t["launch"] + lines * k * 6 / t["bytes"])
    return Offer(lambda: _stages(p, device, tile, split, t["stripe"], rounding), time / t["rival"])


def _stages(p: Product, device: Device, tile: tuple[Any, ...], split: int, stripe: int, rounding: bool) -> list[Stage]:
    """Rounding of float32 operands to 16 bits, the product, the sum of its parts, where K is cut."""
    bm, bn, in_flight, _ = tile
    split, part = in_parts(ceil(p.k / ELEMENTS[p.arithmetic]), split)
    common = {**p.defines, **p.multiples, "BATCH": p.batch, "PRECISION": p.arithmetic.upper(), "BM": bm, "BN": bn,
              "STAGES": in_flight, "STRIPE": stripe, "SPLIT": split, "K_PART": part,
              "USE_FMA": int(device.has_fma), "X_FROM": "(x + X_BATCH(batch))", "W_FROM": "(w + W_BATCH(batch))",
              **result_macros(p.batch, p.m, p.n, split)}
    scratch = {"partial": split * p.batch * p.m * p.n * 4} if split > 1 else {}
    rounds = [_round(common, scratch, i, copies(o, p.batch)) for i, o in enumerate(p.operands)] if rounding else []
    items = bm * bn // 128
    grid = ceil(p.m / bm) * ceil(p.n / bn) * items, 1, p.batch * split
    return [*rounds, tensor_stage(common, p, grid, items, scratch, FILE),
            *([sum_stage(common, p, scratch)] if split > 1 else [])]


def _round(common: dict[str, Any], scratch: dict[str, int], i: int, held: int) -> Stage:
    """The stage that rounds x (0) or w (1) to 16 bits; from now on `common` reads it there."""
    rows, k, letter, axis = common["MN"[i]], common["K"], "XW"[i], "MN"[i]
    across = common[f"{letter}_{axis}"] == 1 and common[f"{letter}_K"] != 1
    step, stride = common[f"{letter}_K"], common[f"{letter}_{axis}"]
    length, lines, step, stride = (rows, k, stride, step) if across else (k, rows, step, stride)
    padded, name = up(length, 8), ("rounded_x", "rounded_w")[i]
    scratch[name] = held * lines * padded * 2
    lengths = {"ROUND_W": i, "LENGTH": length, "PADDED": padded, "LINE_STRIDE": stride, "ELEMENT_STRIDE": step}
    stage = Stage("matmul_round", {**common, "VARIANT": "ROUND", **lengths}, (lines * 64, 1, held), (64, 1, 1),
                  scratch=scratch, final=False, file=FILE, free=FREE_ROUND)
    offset = f"(size_t)(batch) * {lines * padded}" if held > 1 else "0"
    common.update({f"{letter}_FROM": f"((__global const ushort*){name} + {offset})", f"{letter}_EVEN": 1,
                   f"{letter}_{axis}": 1 if across else padded, f"{letter}_K": padded if across else 1})
    return stage


def _fastest(t: Mapping[str, Any], device: Device, precision: str, batch: int, m: int, n: int,
             k: int) -> tuple[float, tuple[Any, ...], int] | None:
    """(time, tile, split): the shortest estimate. All units run the same number of tiles."""
    local, depth = device.largest_local, ELEMENTS[precision]
    blocks, units, found = ceil(k / depth), device.compute_units, []
    for tile in t["tiles"]:
        bm, bn, in_flight, speed = tile
        if in_flight * (bm + bn) * 128 > local or bm * bn // 128 > device.max_work_group:
            continue
        for split in (s for s in t["split"] if s == 1 or blocks >= s * t["part"]):
            tiles = ceil(m / bm) * ceil(n / bn) * batch * split
            time = ceil(tiles / units) * bm * bn * (ceil(blocks / split) + t["lead"]) * depth / (t[precision] * speed)
            time += t["launch"] + batch * m * n * 4 * (2 * split + 1) / t["cache"] if split > 1 else 0
            found.append((time, tile, split))
    return min(found) if found else None
