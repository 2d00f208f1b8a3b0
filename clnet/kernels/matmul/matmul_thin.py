"""Products of few rows or columns on GPUs (matmul_thin.cl): memory's bandwidth binds, so there are no tiles.

Pure Python, no OpenCL. Sizes in elements.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from ...core.size import settled
from ..tuning import numbers
from ..variant import GPUS_ONLY, Offer, Refusal, variant
from .matmul_gpu import Plan, cut, limits, part_size, planned_stages, wide
from .problem import MIXED, Product

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "matmul_thin.cl"


# Of the rank of tiles and tensor cores, and always the shortest of them: reading the operands once is all that it does.
@variant("matmul", cl=FILE, serves="GPUs, up to 8 rows or columns", rank=2)
def thin(p: Product, device: Device) -> Offer | Refusal:
    """Items stand along the contiguous dimension of the operand with more columns;
    K is cut until every unit has work.
    """
    if not device.is_gpu:
        return GPUS_ONLY
    if p.mixed:
        return MIXED
    t = numbers(device, "matmul gpu", p.shape_class)
    if min(p.typical.m, p.typical.n) > t["thin"]:
        return Refusal(f"more than {t['thin']} rows and columns")
    return Offer(lambda: planned_stages(p, device, _plan(t, p, device)))


def _plan(t: dict[str, Any], p: Product, device: Device) -> Plan:
    units, _, most, _ = limits(device, p)
    near = p.typical
    swap = near.n < near.m
    settled(p.n if swap else p.m, "a thin product has to know its few rows")
    strides = p.x_strides if swap else p.w_strides[::-1]  # (across, along k) of the matrix
    cols, loads = (p.m, wide(p.x, p.size)) if swap else (p.n, wide(p.w, p.size))
    steps = strides[1] == 1 and strides[0] != 1
    items = min(t["thin_items"] // (1 + steps), most)
    lanes_k = min(32 if steps else items // 8, items // 2)
    lanes_j = items // lanes_k
    vj, vk = t["thin_columns"] if steps else 4 if loads else 1, 4 if loads and steps else 1
    groups = ceil((near.m if swap else near.n) / (lanes_j * vj))
    split = max(1, min(ceil(units * t["thin_groups"] / (groups * near.batch)), near.k // (lanes_k * vk * 4), 64))
    part = part_size(near.k, split, lanes_k * vk)
    rows_wide = wide(p.w if swap else p.x, p.size)
    defines = dict(SWAP=int(swap), LANES_K=lanes_k, LANES_J=lanes_j, VJ=vj, VK=vk, ROWS_WIDE=int(rows_wide))
    plan = Plan(FILE, defines, ceil(cols / (lanes_j * vj)), items, ceil(near.k / part) if near.k else 1, part, 0.0,
                (False, False))
    return cut(plan, p.k, lanes_k * vk)
