"""Which tiles of matmul_gpu.cl, with which grid, for a product on a GPU.

Pure Python, no OpenCL. `TUNED` holds what a tuner may override (`geometry(..., tuned={...})`). Sizes in elements unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from typing import Any

from .matmul_geometry import SIZE, Table

TUNED: dict[str, Any] = dict(
    # BM BN BK TM TN LANES_M LANES_N and speed: waves * BM * BN / speed ranks them as measured on the H200 at 512 .. 4096
    tiles=((128, 128, 16, 8, 8, 4, 8, 1.0), (128, 64, 16, 8, 4, 4, 8, 0.9), (64, 64, 16, 8, 4, 4, 8, 0.85),
           (32, 64, 16, 4, 4, 4, 8, 0.68), (32, 32, 32, 4, 4, 4, 8, 0.55)),
)


def geometry(device: Any, batch: int, m: int, n: int,
             k: int, x_strides: Sequence[int], w_strides: Sequence[int], dtype: str, tuned: dict[str, Any] | None = None) -> dict[str, Any]:
    """-> dict(kernel, file, defines, grid, group) for y[batch, m, n]; x_strides = (X_M, X_K), w_strides = (W_K, W_N)."""
    table = tuple(sorted({**TUNED, **(tuned or {})}.items()))
    return _gpu(device.runtime, device.compute_units, device.local_memory, device.max_work_group, batch, m, n, k, SIZE[str(dtype)], table)


@lru_cache(4096)
def _gpu(runtime: str, units: int, local: int, most: int, batch: int, m: int, n: int, k: int, size: int, table: Table) -> dict[str, Any]:
    """The tile with the shortest waves: all compute units run one each, the last wave is as long as a full one."""
    t = dict(table)

    def fits(tile: tuple[int, ...]) -> bool:                                     # the depth counts floats: doubles halve it, bytes stay
        return tile[0] * tile[1] // (tile[3] * tile[4]) <= most and 8 * tile[2] * (tile[0] + tile[1] + 8) <= local

    def time(tile: tuple[int, ...]) -> float:
        return ceil(ceil(m / tile[0]) * ceil(n / tile[1]) * batch / units) * tile[0] * tile[1] / tile[7]

    bm, bn, bk, tm, tn, lanes_m, lanes_n, _ = min([c for c in t["tiles"] if fits(c)] or t["tiles"][-1:], key=time)
    items = bm * bn // (tm * tn)
    defines = dict(VW=4, USE_FMA=1, BM=bm, BN=bn, BK=bk * 4 // size, TM=tm, TN=tn, LANES_M=lanes_m, LANES_N=lanes_n)
    if runtime == "nvidia":
        defines["CAST_LOADS"] = ""
    return dict(kernel="matmul", file="matmul_gpu.cl", defines=defines, grid=(ceil(m / bm) * ceil(n / bn) * items, 1, batch), group=(items, 1, 1))
