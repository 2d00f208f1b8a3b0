"""Products on the tensor cores of Hopper (matmul_wgmma.cl):
with which tiles, on operands packed or read where they lie.

Pure Python, no OpenCL. The numbers are those of "matmul_tensor" in defaults.json. Sizes in elements unless said
otherwise; times in cycles of a compute unit, as in matmul_gpu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from ...core.size import divides, typical
from ..grid import gpu_lanes, in_parts
from ..operand import Operand
from ..stage import Stage
from ..tuning import numbers
from ..variant import Offer, Refusal, variant
from .matmul_gpu import FREE_GPU, sum_stage
from .problem import MIXED, NARROW, Product, copies

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "matmul_wgmma.cl"
ELEMENTS = {"fp32x3": 32, "tf32": 32, "bf16": 64, "fp16": 64}  # along k in a block
PACKED = 16384  # [bytes] of a packed tile, a term


def unsuited(p: Product, least: int) -> Refusal | None:
    """What keeps a product from all tensor cores; `least` rows, columns and steps along k are worth it in float32."""
    if p.arithmetic == "fp32":
        return Refusal("IEEE float32 was asked for; clnet.precision(\"tf32\") and others ask for tensor cores")
    if p.mixed or p.dtype == "float64":
        return MIXED if p.mixed else Refusal("float64")
    if min(p.typical.m, p.typical.n, p.typical.k) < least and not p.narrow:
        return Refusal(f"fewer than {least} rows, columns or steps along k")
    return None


@variant("matmul", cl=FILE, serves="Hopper's tensor cores: 16 bits, or where tf32, fp32x3, bf16 or fp16 is asked for",
         rank=2)
def wgmma(p: Product, device: Device) -> Offer | Refusal:
    """Tiles of 128 rows that whole warp groups multiply out of local memory."""
    if not device.hopper:
        return Refusal("needs NVIDIA's compute capability 9.0")
    t = numbers(device, "matmul_tensor")
    if refusal := unsuited(p, t["least"]):
        return refusal
    plan = _Plan(t, p, device)
    if any(nbytes > device.max_alloc // 4 for nbytes in plan.packed.values()):
        return Refusal("packed operands would take more than a quarter of the largest buffer")
    return Offer(plan.stages, plan.time)


class _Plan:
    """Tiles, cut of K and packing of a product; `time` with all of it."""

    def __init__(self, t: Mapping[str, Any], p: Product, device: Device) -> None:
        self.p, self.t, self.fma, terms = p, t, int(device.has_fma), 2 if p.arithmetic == "fp32x3" else 1
        self.direct = [int(_direct(o, p.batch)) for o in p.operands]
        self.held = [copies(o, p.batch) for o in p.operands]
        batch, m, n, k, *_ = p.typical
        time, self.bn, self.in_flight, self.split = _fastest(t, p.arithmetic, device.compute_units, batch, m, n, k)
        self.blocks = ceil(p.k / ELEMENTS[p.arithmetic])
        tiles = ceil(p.m / 128), ceil(p.n / self.bn) * (self.bn // 128)
        self.count = [c * tile * self.blocks * (not d)
                      for c, tile, d in zip(self.held, tiles, self.direct, strict=True)]
        self.groups = min(typical(tiles[0] * ceil(p.n / self.bn) * p.batch) * self.split, device.compute_units)
        self.packed = {name: c * PACKED * terms
                       for name, c in zip(("packed_x", "packed_w"), self.count, strict=True) if typical(c)}
        read = typical((p.m * self.held[0] + p.n * self.held[1]) * p.k) * (2 if p.narrow else 4)
        packed = sum(map(typical, self.packed.values()))
        self.time = time + t["launch"] * bool(self.packed) + (packed + read) / t["bytes"]

    def defines(self) -> dict[str, Any]:
        p, (split, part) = self.p, in_parts(self.blocks, self.split)
        return {**p.defines, **p.multiples, "BATCH": p.batch, "PRECISION": p.arithmetic.upper(),
                "NARROW": int(p.narrow), "BN": self.bn, "STAGES": self.in_flight, "PROMOTE": self.t["promote"],
                "STRIPE": self.t["stripe"], "GROUPS": self.groups, "X_COPIES": self.held[0], "W_COPIES": self.held[1],
                "X_BATCH_EVEN": _even(p.x), "W_BATCH_EVEN": _even(p.w), "X_DIRECT": self.direct[0],
                "W_DIRECT": self.direct[1], "X_COPY_STRIDE": _copy_stride(p.x), "W_COPY_STRIDE": _copy_stride(p.w),
                "SPLIT": split, "K_PART": part, "USE_FMA": self.fma}

    def stages(self) -> list[Stage]:
        """Packing, where an operand needs it; the product; the sum of its parts, where K is cut."""
        p, common = self.p, self.defines()
        scratch = dict(self.packed)
        if any(self.direct):
            scratch["maps"] = self.groups * 256
        if self.split > 1:
            scratch["partial"] = self.split * p.batch * p.m * p.n * 4
        split = common["SPLIT"]
        common |= result_macros(p.batch, p.m, p.n, split)
        pack = Stage("matmul_pack", {**common, "VARIANT": "PACK"}, (sum(self.count) * 256, 1, 1), (256, 1, 1),
                     scratch=scratch, final=False, file=FILE, free=FREE_GPU)
        main = tensor_stage(common, p, (self.groups * 288, 1, 1), 288, scratch, FILE)
        return [*([pack] if self.packed else []), main, *([sum_stage(common, p, scratch)] if split > 1 else [])]


def tensor_stage(common: dict[str, Any], p: Product, grid: tuple[int, ...], items: int, scratch: dict[str, int],
                 file: str) -> Stage:
    """The stage that multiplies on tensor cores."""
    lanes = gpu_lanes(p.n)
    return Stage("matmul", common, grid, (items, 1, 1), domain=(p.batch, p.m, p.n), lanes=lanes, scratch=scratch,
                 final=common["SPLIT"] == 1, file=file, stepped=lanes > 1, note=f"{p.arithmetic} on tensor cores",
                 free=FREE_GPU)


def result_macros(batch: int, m: int, n: int, split: int) -> dict[str, str]:
    """Where sums go: through the epilogue, or into the parts."""
    partial = f"((__global T*)partial)[(size_t)(part) * {batch * m * n} + (e)]"
    element = f"PARTIAL(part, ((size_t)(b) * {m} + (m)) * {n} + (n))"
    return {"PARTIAL(part, e)": partial,
            "RESULT(b, m, n, v)": f"{element} = (v)" if split > 1 else "EPILOGUE(b, m, n, v)",
            "RESULT_V(b, m, n, v)": f"*(__global float4*)&{element} = (v)" if split > 1 else "EPILOGUE_V(b, m, n, v)"}


def _fastest(t: Mapping[str, Any], precision: str, units: int, batch: int, m: int, n: int,
             k: int) -> tuple[float, int, int, int]:
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


def _direct(operand: Operand, batch: int) -> bool:
    """Whether the unit that copies boxes of tensors can read it: 16 bits, contiguous along one side, lines and matrices
    at multiples of 16 bytes.
    """
    *lead, rows, columns = operand.strides
    if operand.dtype not in NARROW or not (columns == 1 or rows == 1) or not divides(8, max(rows, columns)):
        return False
    pairs = [(n, s) for n, s in zip(operand.shape[:-2], lead, strict=True) if n > 1]
    even = all(a[1] == b[0] * b[1] for a, b in pairwise(pairs)) and all(s > 0 and divides(8, s) for _, s in pairs)
    return copies(operand, batch) == 1 or (even and math.prod(operand.shape[:-2]) == batch)


def _copy_stride(operand: Operand) -> int:
    """Elements between the matrices of a batch."""
    steps = [s for n, s in zip(operand.shape[:-2], operand.strides[:-2], strict=True) if n > 1]
    return steps[-1] if steps else 8


def _even(operand: Operand) -> int:
    """Whether the matrices of a batch begin at multiples of 16 bytes from each other."""
    return int(all(divides(8, s) for n, s in zip(operand.shape[:-2], operand.strides[:-2], strict=True) if n > 1))


def _time(t: Mapping[str, Any], rate: float, bn: int, units: int, batch: int, m: int, n: int, blocks: int,
          depth: int) -> float:
    """Without packing. A narrow tile reads local memory more often for the same products."""
    tiles = ceil(m / 128) * ceil(n / bn) * batch
    return ceil(tiles / units) * 128 * bn * (blocks + t["lead"]) * depth / (rate * (1 if bn == 256 else t["narrow"]))
