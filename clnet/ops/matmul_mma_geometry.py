"""Matrix products on tensor cores by matmul_mma.cl: from compute capability 8.0 on, where there is no Hopper.

Pure Python, no OpenCL. Sizes in elements unless said otherwise; times in cycles of a compute unit, as in matmul_gpu_geometry.
"""

from __future__ import annotations

import math
from math import ceil
from typing import Any

from ..engine.tune import tuned as lookup
from .matmul_tensor_geometry import ELEMENTS, NARROW, copies, result_macros

TUNED: dict[str, Any] = dict(
    # BM BN STAGES, share of the rate
    tiles=((128, 256, 3, 1.0), (128, 128, 4, 0.9), (128, 128, 3, 0.87), (64, 128, 3, 0.65), (64, 64, 4, 0.45), (64, 64, 3, 0.42)),
    tf32=440, bf16=880, fp16=880,   # [products a cycle] of a compute unit
    lead=4,         # [blocks] what starting and storing a tile cost
    split=(1, 2, 3, 4, 6, 8, 12, 16),
    part=4,         # [blocks] K is not cut into parts shorter than this
    launch=10000,   # [cycles] one more kernel
    cache=4000,     # [bytes a cycle] parts of sums to the cache and back, all units together
    bytes=1900,     # [bytes a cycle] of memory, all units together
    least=32,       # rows, columns and steps along k of float32 operands below which it is not tried
    stripe=8,
    rival=1.0,      # float32 operands: how many times longer than without tensor cores it may take
)
FILE = "matmul_mma.cl"


def stages(device: Any, defines: dict[str, Any], operands: Any, batch: int, precision: str, rival: float = math.inf) -> list[Any] | None:
    """The stages, or None where the device has no such tensor cores, the shape is too small, or `rival` cycles are fewer."""
    x, w = operands
    m, n, k, narrow = defines["M"], defines["N"], defines["K"], x.dtype in NARROW
    t = {**TUNED, **lookup(device, "matmul_mma")}
    if not device.ampere or precision not in t or (min(m, n, k) < t["least"] and not narrow) or x.dtype == "float64":
        return None
    rounding = not narrow and precision != "tf32"
    found = _fastest(t, device, precision, batch, m, n, k)
    if found is None:
        return None
    time, (bm, bn, in_flight, _), split = found
    time += rounding * (2 * t["launch"] + (m * copies(x, batch) + n * copies(w, batch)) * k * 6 / t["bytes"])
    if time > rival * t["rival"]:
        return None
    part = ceil(ceil(k / ELEMENTS[precision]) / split)
    split = ceil(ceil(k / ELEMENTS[precision]) / part)
    common = {**defines, "BATCH": batch, "PRECISION": precision.upper(), "BM": bm, "BN": bn, "STAGES": in_flight, "STRIPE": t["stripe"], "SPLIT": split,
              "K_PART": part, "USE_FMA": 1, "X_FROM": "(x + X_BATCH(batch))", "W_FROM": "(w + W_BATCH(batch))", **result_macros(batch, m, n, split)}
    scratch = {"partial": split * batch * m * n * 4} if split > 1 else {}
    rounds = [_round(common, scratch, o, i, copies(o, batch)) for i, o in enumerate(operands)] if rounding else []
    return rounds + _products(common, scratch, batch, f"{precision} on tensor cores")


def _products(common: dict[str, Any], scratch: dict[str, int], batch: int, note: str) -> list[Any]:
    from ..engine.codegen import Stage

    m, n, bm, bn, split = (common[name] for name in ("M", "N", "BM", "BN", "SPLIT"))
    lanes, items, domain = 4 if n % 4 == 0 else 1, bm * bn // 128, (batch, m, n)
    found = [Stage("matmul", common, (ceil(m / bm) * ceil(n / bn) * items, 1, batch * split), (items, 1, 1), domain, lanes, scratch, split == 1, FILE,
                   stepped=lanes > 1, note=note)]
    if split > 1:
        found.append(Stage("matmul_sum", {**common, "VARIANT": "SUM"}, (ceil(batch * m * n / 1024) * 256,), (256,), domain, 1, scratch, file="matmul_gpu.cl"))
    return found


def _round(common: dict[str, Any], scratch: dict[str, int], operand: Any, i: int, held: int) -> Any:
    """The stage that rounds x (0) or w (1) to 16 bits; from now on `common` reads it there."""
    from ..engine.codegen import Stage

    rows, k, letter, axis = common["MN"[i]], common["K"], "XW"[i], "MN"[i]
    across = common[f"{letter}_{axis}"] == 1 and common[f"{letter}_K"] != 1
    step, stride = common[f"{letter}_K"], common[f"{letter}_{axis}"]
    length, lines, step, stride = (rows, k, stride, step) if across else (k, rows, step, stride)
    padded, name = ceil(length / 8) * 8, ("rounded_x", "rounded_w")[i]
    scratch[name] = held * lines * padded * 2
    lengths = {"ROUND_W": i, "LENGTH": length, "PADDED": padded, "LINE_STRIDE": stride, "ELEMENT_STRIDE": step}
    stage = Stage("matmul_round", {**common, "VARIANT": "ROUND", **lengths}, (lines * 64, 1, held), (64, 1, 1), scratch=scratch, final=False, file=FILE)
    offset = f"(size_t)(batch) * {lines * padded}" if held > 1 else "0"
    common.update({f"{letter}_FROM": f"((__global const ushort*){name} + {offset})", f"{letter}_EVEN": 1,
                   f"{letter}_{axis}": 1 if across else padded, f"{letter}_K": padded if across else 1})
    return stage


def _fastest(t: dict[str, Any], device: Any, precision: str, batch: int, m: int, n: int, k: int) -> tuple[float, Any, int] | None:
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
