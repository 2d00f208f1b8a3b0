"""Products on CPUs of few rows or columns, both operands contiguous along k (matmul_dot.cl). Pure Python, no OpenCL."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ..grid import up, vector_lanes
from ..stage import Stage
from ..tuning import numbers
from ..variant import CPUS_ONLY, Offer, Refusal, variant
from .problem import FREE, Product

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "matmul_dot.cl"


@variant("matmul", cl=FILE, serves="CPUs, up to 16 rows or columns of operands that are both contiguous along k",
         rank=0)
def dot(p: Product, device: Device) -> Offer | Refusal:
    """Vectors along k, whose lanes are summed at the end."""
    if not device.is_cpu:
        return CPUS_ONLY
    t, lanes = numbers(device, "matmul cpu", p.shape_class), vector_lanes(device, p.dtype)
    if p.x_strides[1] != 1 or p.w_strides[0] != 1:
        return Refusal("an operand is not contiguous along k")
    if min(p.typical.m, p.typical.n) > t["dot"]:
        return Refusal(f"more than {t['dot']} rows and columns")
    if lanes == 1:
        return Refusal("one lane")
    return Offer(lambda: [_stage(p, device, lanes)])


def _stage(p: Product, device: Device, lanes: int) -> Stage:
    """Near-square tiles of VW sums; the longer side is cut into one piece a core, or four if long."""
    cores, m, n = device.compute_units, p.m, p.n
    near, dm = p.typical, 1
    while dm * 2 <= lanes and (dm < near.m and (dm * dm < lanes or dm * 2 > near.n * 2)):
        dm *= 2
    dn = lanes // dm
    pieces = cores * (4 if near.m * near.n * near.k > 4e6 else 1)
    ic, jc = (m, up(ceil(n / pieces), dn)) if near.n >= near.m else (up(ceil(m / pieces), dm), n)
    defines = {**p.defines, "USE_FMA": int(device.has_fma), "DM": dm, "DN": dn, "IC": ic, "JC": jc}
    return Stage("matmul", defines, (ceil(m / ic), ceil(n / jc), p.batch), (1, 1, 1), domain=(p.batch, p.m, p.n),
                 lanes=lanes, file=FILE, note=p.note, free=FREE | {"IC", "JC"})
