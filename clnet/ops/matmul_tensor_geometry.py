"""Matrix products on tensor cores (matmul_wgmma.cl): for which devices and shapes, with which tiles.

Pure Python, no OpenCL. Sizes in elements unless said otherwise; times in cycles of a compute unit, as in matmul_gpu_geometry.
"""

from __future__ import annotations

import math
from math import ceil
from typing import Any

from ..engine.tune import tuned as lookup

HOPPER = 90  # wgmma exists there alone
TUNED: dict[str, Any] = dict(
    bytes=1900,     # [bytes a cycle] packing, all units together
    launch=10000,   # [cycles] one more kernel
    narrow=0.9,     # of the rate, with 128 columns
    lead=4,         # [blocks] what starting and storing a tile cost
    least=32,       # rows, columns and steps along k below which it is not tried
    stripe=16,
    # [products a cycle] of a compute unit, as measured with packed operands; BN, STAGES
    fp32x3=(325, ((128, 3),)), tf32=(870, ((256, 4), (128, 6))), bf16=(1620, ((256, 4), (128, 6))), fp16=(1620, ((256, 4), (128, 6))),
    promote=2,      # [blocks] between promotions of fp32x3
)
ELEMENTS = {"fp32x3": 32, "tf32": 32, "bf16": 64, "fp16": 64}  # along k in a block
NARROW = {"bfloat16": "bf16", "float16": "fp16"}


def available(device: Any) -> bool:
    """Whether clnet can use tensor cores there."""
    return bool(device.inline_ptx and device.compute_capability == HOPPER)


def stages(device: Any, defines: dict[str, Any], operands: Any, batch: int, precision: str, rival: float = math.inf) -> list[Any] | None:
    """The stages, or None where the device has no such tensor cores, the shape is too small, or `rival` cycles are fewer."""
    from ..engine.codegen import Stage

    x, w = operands
    m, n, k = defines["M"], defines["N"], defines["K"]
    t = {**TUNED, **lookup(device, "matmul_tensor")}
    if not available(device) or min(m, n, k) < t["least"] or x.dtype == "float64":
        return None
    terms, depth = (2 if precision == "fp32x3" else 1), ELEMENTS[precision]
    rate, tiles = t[precision]
    blocks, held = ceil(k / depth), [copies(o, batch) for o in operands]
    time, bn, depth_in_flight = min((_time(t, rate, bn, device.compute_units, batch, m, n, blocks, depth), bn, s) for bn, s in tiles)
    x_tiles, w_tiles = ceil(m / 128), ceil(n / bn) * (bn // 128)
    count = [held[0] * x_tiles * blocks, held[1] * w_tiles * blocks]
    scratch = {"packed_x": count[0] * 16384 * terms, "packed_w": count[1] * 16384 * terms}
    pack = t["launch"] + (sum(scratch.values()) + (m * held[0] + n * held[1]) * k * (2 if x.dtype in NARROW else 4)) / t["bytes"]
    if time + pack > rival or max(scratch.values()) > device.max_alloc // 4:
        return None
    groups = min(x_tiles * ceil(n / bn) * batch, device.compute_units)
    common = {**defines, "BATCH": batch, "PRECISION": precision.upper(), "NARROW": int(x.dtype in NARROW), "BN": bn, "STAGES": depth_in_flight,
              "PROMOTE": t["promote"], "STRIPE": t["stripe"], "GROUPS": groups, "X_COPIES": held[0], "W_COPIES": held[1],
              "X_BATCH_EVEN": _even(x), "W_BATCH_EVEN": _even(w), "USE_FMA": 1}
    file, note = "matmul_wgmma.cl", f"{precision} on tensor cores"
    return [Stage("matmul_pack", {**common, "VARIANT": "PACK"}, (sum(count) * 256, 1, 1), (256, 1, 1), scratch=scratch, final=False, file=file),
            Stage("matmul", common, (groups * 288, 1, 1), (288, 1, 1), (batch, m, n), scratch=scratch, file=file, note=note)]


def copies(operand: Any, batch: int) -> int:
    """How many matrices an operand holds: one that is broadcast is packed once."""
    return 1 if math.prod(operand.shape[:-2]) == 1 else batch


def _even(operand: Any) -> int:
    """Whether the matrices of a batch begin at multiples of 16 bytes from each other."""
    return int(all(s % 8 == 0 for n, s in zip(operand.shape[:-2], operand.strides[:-2], strict=True) if n > 1))


def _time(t: dict[str, Any], rate: float, bn: int, units: int, batch: int, m: int, n: int, blocks: int, depth: int) -> float:
    """Without packing. A narrow tile reads local memory more often for the same products."""
    tiles = ceil(m / 128) * ceil(n / bn) * batch
    return ceil(tiles / units) * 128 * bn * (blocks + t["lead"]) * depth / (rate * (1 if bn == 256 else t["narrow"]))
