"""Matrix products on tensor cores (matmul_wgmma.cl): for which devices and shapes, with which tiles.

Pure Python, no OpenCL. Sizes in elements unless said otherwise; times in cycles of a compute unit, as in matmul_gpu_geometry.
"""

from __future__ import annotations

import math
from itertools import pairwise
from math import ceil
from typing import Any

from ..engine.tune import tuned as lookup

TUNED: dict[str, Any] = dict(
    bytes=1900,     # [bytes a cycle] packing, all units together
    launch=10000,   # [cycles] one more kernel
    narrow=0.9,     # of the rate, with 128 columns
    lead=4,         # [blocks] what starting and storing a tile cost
    least=32,       # rows, columns and steps along k below which it is not tried
    stripe=16,
    # [products a cycle] of a compute unit, as measured with packed operands; BN, STAGES
    fp32x3=(325, ((128, 3),)), tf32=(870, ((256, 4), (128, 6))), bf16=(1620, ((256, 4), (128, 6))), fp16=(1620, ((256, 4), (128, 6))),
    split=(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16),
    part=4,         # [blocks] K is not cut into parts shorter than this
    cache=4000,     # [bytes a cycle] parts of sums to the cache and back, all units together
    promote=2,      # [blocks] between promotions of fp32x3
)
ELEMENTS = {"fp32x3": 32, "tf32": 32, "bf16": 64, "fp16": 64}  # along k in a block
NARROW = {"bfloat16": "bf16", "float16": "fp16"}


def stages(device: Any, defines: dict[str, Any], operands: Any, batch: int, precision: str, rival: float = math.inf) -> list[Any] | None:
    """The stages, or None where the device has no such tensor cores, the shape is too small, or `rival` cycles are fewer."""
    from . import matmul_mma_geometry

    if not device.hopper:
        return matmul_mma_geometry.stages(device, defines, operands, batch, precision, rival)
    x, w = operands
    m, n, k, narrow = defines["M"], defines["N"], defines["K"], x.dtype in NARROW
    t = {**TUNED, **lookup(device, "matmul_tensor")}
    if (min(m, n, k) < t["least"] and not narrow) or x.dtype == "float64":
        return None
    terms, depth, direct = (2 if precision == "fp32x3" else 1), ELEMENTS[precision], [int(_direct(o, batch)) for o in operands]
    held, blocks = [copies(o, batch) for o in operands], ceil(k / depth)
    time, bn, stages_in_flight, split = _fastest(t, precision, device.compute_units, batch, m, n, k)
    x_tiles, w_tiles = ceil(m / 128), ceil(n / bn) * (bn // 128)
    count = [c * tiles * blocks * (not d) for c, tiles, d in zip(held, (x_tiles, w_tiles), direct, strict=True)]
    groups, part = min(x_tiles * ceil(n / bn) * batch * split, device.compute_units), ceil(blocks / split)
    scratch = {name: c * 16384 * terms for name, c in zip(("packed_x", "packed_w"), count, strict=True) if c}
    pack = t["launch"] * any(count) + (sum(scratch.values()) + (m * held[0] + n * held[1]) * k * (2 if narrow else 4)) / t["bytes"]
    if time + pack > rival or max(scratch.values(), default=0) > device.max_alloc // 4:
        return None
    scratch |= ({"maps": groups * 256} if any(direct) else {}) | ({"partial": split * batch * m * n * 4} if split > 1 else {})
    common = {**defines, "BATCH": batch, "PRECISION": precision.upper(), "NARROW": int(narrow), "BN": bn, "STAGES": stages_in_flight,
              "PROMOTE": t["promote"], "STRIPE": t["stripe"], "GROUPS": groups, "X_COPIES": held[0], "W_COPIES": held[1],
              "X_BATCH_EVEN": _even(x), "W_BATCH_EVEN": _even(w), "X_DIRECT": direct[0], "W_DIRECT": direct[1],
              "X_COPY_STRIDE": _copy_stride(x), "W_COPY_STRIDE": _copy_stride(w), "SPLIT": ceil(blocks / part), "K_PART": part, "USE_FMA": 1}
    return _stages(common, count, scratch, f"{precision} on tensor cores")


def _stages(common: dict[str, Any], count: list[int], scratch: dict[str, int], note: str) -> list[Any]:
    """Packing, where an operand needs it; the product; the sum of its parts, where K is cut."""
    from ..engine.codegen import Stage

    batch, m, n, split, file = *(common[name] for name in ("BATCH", "M", "N", "SPLIT")), "matmul_wgmma.cl"
    common |= result_macros(batch, m, n, split)
    lanes, domain = 4 if n % 4 == 0 else 1, (batch, m, n)
    found = [Stage("matmul_pack", {**common, "VARIANT": "PACK"}, (sum(count) * 256, 1, 1), (256, 1, 1), scratch=scratch, final=False, file=file)] * any(count)
    found.append(Stage("matmul", common, (common["GROUPS"] * 288, 1, 1), (288, 1, 1), domain, lanes, scratch, split == 1, file, stepped=lanes > 1, note=note))
    if split > 1:
        found.append(Stage("matmul_sum", {**common, "VARIANT": "SUM"}, (ceil(batch * m * n / 1024) * 256,), (256,), domain, 1, scratch, file="matmul_gpu.cl"))
    return found


def result_macros(batch: int, m: int, n: int, split: int) -> dict[str, str]:
    """Where sums go: through the epilogue, or into the parts."""
    partial = f"((__global T*)partial)[(size_t)(part) * {batch * m * n} + (e)]"
    element = f"PARTIAL(part, ((size_t)(b) * {m} + (m)) * {n} + (n))"
    return {"PARTIAL(part, e)": partial, "RESULT(b, m, n, v)": f"{element} = (v)" if split > 1 else "EPILOGUE(b, m, n, v)",
            "RESULT_V(b, m, n, v)": f"*(__global float4*)&{element} = (v)" if split > 1 else "EPILOGUE_V(b, m, n, v)"}


def _fastest(t: dict[str, Any], precision: str, units: int, batch: int, m: int, n: int, k: int) -> tuple[float, int, int, int]:
    """(time, BN, STAGES, SPLIT): the shortest estimate; parts of sums travel to memory and back."""
    rate, tiles = t[precision]
    depth = ELEMENTS[precision]
    blocks, found = ceil(k / depth), []
    for bn, stages_in_flight in tiles:
        for split in (s for s in t["split"] if s == 1 or blocks >= s * t["part"]):
            time = _time(t, rate, bn, units, batch * split, m, n, ceil(blocks / split), depth)
            time += t["launch"] + batch * m * n * 4 * (2 * split + 1) / t["cache"] if split > 1 else 0
            found.append((time, bn, stages_in_flight, split))
    return min(found)


def _direct(operand: Any, batch: int) -> bool:
    """Whether the unit that copies boxes of tensors can read it: 16 bits, contiguous along one side, lines and matrices at multiples of 16 bytes."""
    *lead, rows, columns = operand.strides
    if operand.dtype not in NARROW or not (columns == 1 or rows == 1) or max(rows, columns) % 8:
        return False
    pairs = [(n, s) for n, s in zip(operand.shape[:-2], lead, strict=True) if n > 1]
    even = all(a[1] == b[0] * b[1] for a, b in pairwise(pairs)) and all(s > 0 and s % 8 == 0 for _, s in pairs)
    return copies(operand, batch) == 1 or (even and math.prod(operand.shape[:-2]) == batch)


def _copy_stride(operand: Any) -> int:
    """Elements between the matrices of a batch."""
    steps = [s for n, s in zip(operand.shape[:-2], operand.strides[:-2], strict=True) if n > 1]
    return steps[-1] if steps else 8


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
