"""Which kernel of pool.cl or pool_gpu.cl, with which grid, for a pooling op on a device. Sizes in elements unless said otherwise."""

from __future__ import annotations

import itertools
from math import ceil, prod
from typing import Any

from ..spec import NARROW, is_float

PER_CORE = 4  # work-items a core, against uneven cores
WORTH = 4096  # additions or comparisons that are worth a work-item on a CPU
PRIVATE = 1 << 20  # [bytes] of a work-item that both CPU runtimes are known to give
GROUP = 128  # work-items of a group on a GPU
LANES = (4, 2, 1)  # elements of a row that a work-item of a GPU may take: the most that divide it
HELD = 32  # of a row of data or of windows that a work-item of a GPU has in hand
UNROLLED = 96  # windows that an item looks at, all at once
FILE = "pool_gpu.cl"
VARIANTS = {"max_pool": "MAX", "max_pool_index": "INDEX", "sum_pool": "SUM", "max_pool_gradient": "MAX_BACK", "sum_pool_gradient": "SUM_BACK"}


def pool_stages(variant: str, device: Any, operands: Any, *, size: Any, stride: Any, low: Any, high: Any, dilation: Any, n: Any = None) -> Any:
    """The stage of a pooling op (`n`: spatial axes of the result of a way back), or None where its formula serves better."""
    data, dtype = operands[0].shape, operands[0].dtype
    if not is_float(dtype) or not all(prod(x.shape) for x in operands) or prod(size) > 256:
        return None
    whole = n or data[2:]
    results = data[2:] if n else tuple((s + a + b - d * (k - 1) - 1) // t + 1 for s, a, b, d, k, t in
                                       zip(data[2:], low, high, dilation, size, stride, strict=True))
    counted = {"": whole, "R": results, "K": size, "S_": stride, "D_": dilation}
    sizes = {name + axis: v for values, fill in ((counted, 1), ({"LOW_": low, "HIGH_": high}, 0)) for name, given in values.items()
             for axis, v in zip("ZYX", _three(given, fill), strict=True)}
    defines = {"VARIANT": variant, "E": "double" if dtype == "float64" else "float", **sizes}
    planes, result = data[0] * data[1], prod(whole if n else results)
    return (_gpu if device.kind == "gpu" else _cpu)(device, defines, dtype, planes, (planes, result))


def _three(values: Any, fill: int) -> tuple[int, ...]:
    """(z, y, x), with `fill` for missing leading axes."""
    return (fill,) * (3 - len(values)) + tuple(values)


def _cpu(device: Any, sizes: dict[str, Any], dtype: str, planes: int, domain: tuple[int, int]) -> Any:
    """A work-item a number of planes, which have to fit its memory."""
    from ..engine.codegen import Stage

    if dtype in NARROW:
        return None
    itemsize = 8 if dtype == "float64" else 4
    padded = tuple(sizes[a] + sizes["LOW_" + a] + sizes["HIGH_" + a] for a in "ZYX")
    results = prod(sizes["R" + a] for a in "ZYX")
    if (prod(padded) + results) * itemsize > PRIVATE:
        return None
    offsets = [[i * sizes["D_" + a] for i in range(sizes["K" + a])] for a in "ZYX"]
    taps = [(z * padded[1] + y) * padded[2] + x for z, y, x in itertools.product(*offsets)]
    items = max(1, min(planes, device.compute_units * PER_CORE, planes * results * len(taps) // WORTH))
    defines = {**sizes, "DATA": "g" if sizes["VARIANT"].endswith("BACK") else "x", "CHANNELS": planes, "ITEMS": items, "T_ALL": len(taps),
               "TAPS": ", ".join(map(str, taps)), **{"P" + a: p for a, p in zip("ZYX", padded, strict=True)}}
    lanes = max(1, device.vector_width * 4 // itemsize)
    return [Stage("pool", defines, (items,), (1,), domain=domain, lanes=lanes, stepped=True)]


def _gpu(device: Any, sizes: dict[str, Any], dtype: str, planes: int, domain: tuple[int, int]) -> Any:
    """A work-item a few elements of a row of the result, on the way back of two rows where those meet the same windows."""
    from ..engine.codegen import Stage

    back = sizes["VARIANT"].endswith("BACK")
    row, (across, down) = sizes["X" if back else "RX"], ((sizes["K" + a] - 1) * sizes["D_" + a] + 1 for a in "XY")

    def held(lanes: int) -> int:
        return lanes * ceil(across / sizes["S_X"]) if back else (lanes - 1) * sizes["S_X"] + across

    lanes = next((w for w in LANES if row % w == 0 and held(w) <= HELD), 0)
    if not lanes:
        return None
    pairs = back and sizes["Y"] % 2 == 0 and 2 % sizes["S_Y"] == 0 and 2 * held(lanes) * ceil(down / sizes["S_Y"]) <= UNROLLED
    group, items = min(GROUP, device.max_work_group), planes * domain[1] // lanes // (1 + pairs)
    defines = {**sizes, "ITEMS": items, "AT": "uint" if items < 1 << 31 else "size_t", "GROUP": group, "ROWS": 1 + pairs}
    return [Stage("pool", defines, (ceil(items / group) * group,), (group,), domain=domain, lanes=lanes, file=FILE, stepped=True)]
