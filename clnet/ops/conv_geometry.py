"""Which kernels of conv.cl, with which tiles and grid, for a convolution on a device.

Pure Python. Sizes in elements unless said otherwise; costs in cycles of one core.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import ceil, log2, prod
from typing import Any

from ..engine.tune import tuned
from . import conv_gpu_geometry, conv_mma_geometry, conv_plane, conv_tensor_geometry, conv_winograd

TUNED = dict(
    copy=256 * 1024,    # [bytes] private copy of the data of a work-item: with tile and weights it should stay in L2
    tile=96 * 1024,     # [bytes] private tile of results
    most=1024 * 1024,   # [bytes] private memory that both CPU runtimes are known to give
    sums=192 * 1024,    # [bytes] private sums of the weight gradient
    per_core=4,         # work-items a core, against uneven cores
    lanes=0.0,          # share of the vector lanes that the result channels must fill for these kernels
    few=4,              # so many times fewer result channels than lanes: lanes follow pixels
    taps=128,           # taps of the weight gradient: its loop over them is unrolled
)
# What `clnet tune` tries for a CPU.
SPACE: dict[str, Sequence[Any]] = {
    "copy": (96 << 10, 256 << 10, 512 << 10), "tile": (32 << 10, 96 << 10, 192 << 10), "sums": (96 << 10, 192 << 10, 384 << 10), "per_core": (1, 2, 4, 8)}


def shape_class(c: int, o: int, result: Sequence[int]) -> str:
    """Convolutions that share tuned numbers: channels of data and result and positions, to the nearest power of two, as in "64>64 1024"."""
    c, o, positions = (2 ** round(log2(max(v, 1))) for v in (c, o, prod(result)))
    return f"{c}>{o} {positions}"


def _three(values: Any, fill: int) -> tuple[int, ...]:
    """(z, y, x), with `fill` for missing leading axes."""
    return (fill,) * (3 - len(values)) + tuple(values)


class _Layout:
    """Tables of a convolution in the terms of conv.cl: phases, taps, offsets, sizes of the private copy."""

    def __init__(self, data: Any, result: Any, size: Any, stride: Any, low: Any, dilation: Any, transposed: bool) -> None:
        self.data, self.result, self.size = _three(data, 1), _three(result, 1), _three(size, 1)
        stride, dilation = _three(stride, 1), _three(dilation, 1)
        self.low = _three(low, 0)
        self.step = (1, 1, 1) if transposed else stride
        self.out = stride if transposed else (1, 1, 1)
        self.phases = [[self._tap(k, phase, stride, dilation, transposed) for k in itertools.product(*map(range, self.size))]
                       for phase in itertools.product(*map(range, self.out))]
        offsets = [t for taps in self.phases for t in taps if t is not None]
        self.least = tuple(min(o[a] for o in offsets) for a in range(3))
        self.span = tuple(max(o[a] for o in offsets) - self.least[a] + 1 for a in range(3))

    def _tap(self, k: Any, phase: Any, stride: Any, dilation: Any, transposed: bool) -> tuple[int, ...] | None:
        if not transposed:
            return tuple(i * d - a for i, d, a in zip(k, dilation, self.low, strict=True))
        at = [p + a - i * d for p, a, i, d in zip(phase, self.low, k, dilation, strict=True)]
        return tuple(v // s for v, s in zip(at, stride, strict=True)) if all(v % s == 0 for v, s in zip(at, stride, strict=True)) else None

    def measured(self, device: Any, c: int, o: int) -> None:
        """Sets `numbers` and `winograd`: TUNED and that of conv_winograd, overridden by what was measured for this class of shapes."""
        name = shape_class(c, o, self.result)
        self.numbers = {**TUNED, **tuned(device, "conv", name)}
        self.winograd = {**conv_winograd.TUNED, **tuned(device, "winograd", name)}

    def rows(self, j: int) -> int:
        return (j - 1) * self.step[1] + self.span[1]

    @property
    def pitch(self) -> int:
        return (ceil(self.result[2] / self.out[2]) - 1) * self.step[2] + self.span[2]

    def plane(self, j: int) -> int:
        """Elements of one channel of the private copy for j rows."""
        return self.span[0] * self.rows(j) * self.pitch

    def defines(self, j: int) -> dict[str, Any]:
        z, y, x = self.least
        taps, source, first = [], [], [0]
        for phase in self.phases:
            for k, t in enumerate(phase):
                if t is not None:
                    taps.append(((t[0] - z) * self.rows(j) + t[1] - y) * self.pitch + t[2] - x)
                    source.append(k)
            first.append(len(taps))
        named = {"S": self.data, "R": self.result, "OUT_": self.out, "IN_": self.step, "MIN_": tuple(f"({v})" for v in self.least)}
        sizes = {name + axis: v for name, values in named.items() for axis, v in zip("ZYX", values, strict=True)}
        lists = {name: ", ".join(map(str, v)) for name, v in (("TAPS", taps), ("FIRST", first), ("SOURCE", source))}
        for axis, a in zip("ZYX", range(3), strict=True):
            lists["OFF_" + axis] = ", ".join(str(t[a]) for p in self.phases for t in p if t is not None)
        return {**sizes, **lists, "T_ALL": len(taps), "JB": j, "ZP": self.span[0], "ROWS": self.rows(j), "PITCH": self.pitch}


def launch_forward(device: Any, operands: Any, *, stride: Any, low: Any, high: Any, dilation: Any, groups: int, size: Any = None,
                   precision: str = "fp32") -> Any:
    """Stages of conv (no `size`) or conv_data_gradient (`size`: spatial axes of the result), or None where they do not suit."""
    x, w = operands
    transposed, taps = size is not None, w.shape[2:]
    per = w.shape[0] // groups, w.shape[1]
    o, c = reversed(per) if transposed else per
    if not _whole(operands) or (not transposed and prod(taps) == 1 and set(stride) == {1} and not any((*low, *high))):
        return None
    result = size if transposed else tuple((s + a + b - d * (k - 1) - 1) // t + 1 for s, a, b, d, k, t in
                                           zip(x.shape[2:], low, high, dilation, taps, stride, strict=True))
    layout = _Layout(x.shape[2:], result, taps, stride, low, dilation, transposed)
    layout.measured(device, c, o)
    k = prod(taps)
    strides = (c * o * k, k, o * k) if transposed else (o * c * k, c * k, k)
    common = {"DATA": "g" if transposed else "x", "WEIGHT": "w", "N": x.shape[0], "GROUPS": groups, "C": c, "O": o,
              "USE_FMA": int(device.runtime != "pocl"), **dict(zip(("W_G", "W_O", "W_C"), strides, strict=True)), "W_K": 1}
    domain = (x.shape[0], groups * o, prod(result))
    if (found := conv_mma_geometry.forward(device, layout, operands, common, domain)) is not None:
        return found
    if (found := conv_tensor_geometry.forward(device, layout, operands, common, domain, precision)) is not None:
        return found
    if not _suits(device, operands, o):
        return None
    lanes, itemsize = _lanes(device, x.dtype)
    if device.kind == "gpu":
        return conv_gpu_geometry.forward(device, layout, common, domain, itemsize)
    if (found := _winograd_forward(device, layout, common, domain, lanes, itemsize)) is not None:
        return found
    if (rows := conv_plane.rows(layout, o, c, lanes, itemsize)) is not None:
        grid = layout.result[0] * ceil(layout.result[1] / (rows["JB"] * layout.out[1])), groups, x.shape[0]
        return [_stage("conv_plane", {**common, **layout.defines(rows["JB"]), **rows}, grid, {}, lanes, domain=domain, file=conv_plane.FILE)]
    tile = _conv_tile(device, layout, x.shape[0], groups, o, c, lanes, itemsize)
    if tile is None:
        return None
    panels = ceil(o / (tile["NV"] * lanes))
    common |= {"NV": tile["NV"], **layout.defines(tile["JB"])}
    scratch = {"packed": groups * panels * tile["NV"] * lanes * c * common["T_ALL"] * itemsize}
    blocks = ceil(layout.result[1] / (tile["JB"] * layout.out[1]))
    return [_stage("conv_pack", {**common, "VARIANT": "PACK"}, (c, panels, groups), scratch, lanes, final=False),
            _stage("conv", {**common, "VARIANT": "CONV", **tile}, (layout.result[0] * blocks, ceil(panels / tile["OB"]) * groups, x.shape[0]),
                   scratch, lanes, domain=domain)]


def launch_weights(device: Any, operands: Any, *, size: Any, stride: Any, low: Any, high: Any, dilation: Any, groups: int, precision: str = "fp32") -> Any:
    """Stages of conv_weight_gradient, or None where they do not suit."""
    g, x = operands
    o, c, k = g.shape[1] // groups, x.shape[1] // groups, prod(size)
    if not _whole(operands) or k > TUNED["taps"]:
        return None
    layout = _Layout(x.shape[2:], g.shape[2:], size, stride, low, dilation, False)
    if (found := conv_mma_geometry.weights(device, layout, operands, x.shape[0], groups, o, c)) is not None:
        return found
    if (found := conv_tensor_geometry.weights(device, layout, operands, x.shape[0], groups, o, c, precision)) is not None:
        return found
    if not _suits(device, operands, o):
        return None
    layout.measured(device, c, o)
    lanes, itemsize = _lanes(device, x.dtype)
    if device.kind == "gpu":
        return conv_gpu_geometry.weights(device, layout, x.shape[0], groups, o, c, itemsize)
    shape = device, layout, x.shape[0], groups, o, c
    fast = conv_winograd.weights(*shape, lanes, itemsize) if conv_winograd.suits(layout, o, c) else None
    plane = conv_plane.weights(*shape, k, lanes, itemsize)
    tile = plane or fast or _weight_tile(*shape, k, lanes, itemsize)
    if tile is None:
        return None
    total = groups * o * c * k
    common = {"DATA": "x", "GRAD": "g", "N": x.shape[0], "GROUPS": groups, "C": c, "O": o, "SIZE": total,
              "USE_FMA": int(device.runtime != "pocl"), **tile, **layout.defines(tile.get("JB", 1))}
    scratch = {"partial": tile["PARTS"] * total * itemsize}
    kernel, file = ("conv_plane_weights", conv_plane.FILE) if plane else ("winograd_weights", conv_winograd.FILE) if fast else ("conv_weights", "")
    grid = (tile["PARTS"], groups) if plane else (tile["PARTS"], ceil(c / tile["CB"]), ceil(ceil(o / (tile["NV"] * lanes)) / tile["OB"]) * groups)
    return [_stage(kernel, {**common, "VARIANT": "WEIGHTS"}, grid, scratch, lanes, final=False, file=file),
            _stage("conv_sum", {**common, "VARIANT": "SUM"}, (ceil(total / 4096),), scratch, lanes, domain=(total,))]


def _winograd_forward(device: Any, layout: _Layout, common: dict[str, Any], domain: tuple[int, ...], lanes: int, itemsize: int) -> Any:
    """The stages of conv_winograd.cl, or None where they do not suit."""
    n, groups, o, c = (common[name] for name in ("N", "GROUPS", "O", "C"))
    tile = conv_winograd.forward(device, layout, n, groups, o, c, lanes, itemsize) if conv_winograd.suits(layout, o, c) else None
    if tile is None:
        return None
    defines = {**common, **layout.defines(1), **tile, **conv_winograd.source(layout)}
    panels, blocks = ceil(o / (tile["NV"] * lanes)), ceil(domain[0] * ceil(layout.result[1] / 2) / tile["RT"])
    scratch = {"packed": groups * panels * tile["NV"] * lanes * c * 16 * itemsize}
    return [_stage("winograd_pack", {**defines, "VARIANT": "PACK"}, (panels, c, groups), scratch, lanes, final=False, file=conv_winograd.FILE),
            _stage("winograd", {**defines, "VARIANT": "CONV"}, (blocks, ceil(panels / tile["OB"]) * groups), scratch, lanes, domain=domain,
                   file=conv_winograd.FILE)]


def _stage(kernel: str, defines: dict[str, Any], grid: tuple[int, ...], scratch: dict[str, int], lanes: int, domain: tuple[int, ...] = (),
           final: bool = True, file: str = "") -> Any:
    from ..engine.codegen import Stage

    return Stage(kernel, defines, grid, (1,) * len(grid), domain=domain, lanes=lanes, scratch=scratch, final=final, file=file)


def _whole(operands: Any) -> bool:
    """Of one dtype, and not empty."""
    a, b = operands
    return a.dtype == b.dtype and bool(prod(a.shape) and prod(b.shape))


def _suits(device: Any, operands: Any, channels: int) -> bool:
    if operands[0].dtype not in ("float32", "float64"):
        return False
    lanes, _ = _lanes(device, operands[0].dtype)
    return channels >= lanes * TUNED["lanes"]


def _lanes(device: Any, dtype: str) -> tuple[int, int]:
    """(vector lanes, bytes an element)."""
    itemsize = 8 if dtype == "float64" else 4
    return max(1, device.vector_width * 4 // itemsize), itemsize


def _registers(lanes: int, itemsize: int) -> int:
    return 32 if lanes * itemsize >= 64 else 16


def _conv_tile(device: Any, layout: _Layout, n: int, groups: int, o: int, c: int, lanes: int, itemsize: int) -> dict[str, int] | None:
    """Register tile (TH x TW pixels, NV vectors), rows of a block, panels of a work-item."""
    across = max(1, layout.result[2] // layout.out[2])
    down = ceil(layout.result[1] / layout.out[1])
    flat = layout.out == (1, 1, 1)
    best = None
    for nv in (1, 2, 3, 4):
        most = min((_registers(lanes, itemsize) - 1 - nv) // nv, 2 * lanes)
        for tw in range(1, min(most, across) + 1):
            th = max(1, min(most // tw, down)) if flat and tw == across else 1
            tiles = ceil(across / tw) * ceil(down / th) * ceil(ceil(o / lanes) / nv)
            cost = tiles * (max(th * tw * nv, 4) + 1 + 0.25 * (th * tw + nv)), -th * tw
            best = min(best, (cost, nv, th, tw)) if best else (cost, nv, th, tw)
    assert best is not None
    _, nv, th, tw = best
    panels = ceil(ceil(o / lanes) / nv)
    row_tile = nv * lanes * layout.out[1] * layout.result[2] * itemsize
    rows = [j for j in range(th, down + th, th) if c * layout.plane(j) * itemsize <= layout.numbers["copy"] and j * row_tile <= layout.numbers["tile"]]
    j = rows[-1] if rows else th
    if c * layout.plane(j) * itemsize + j * row_tile > layout.numbers["most"]:
        return None
    wanted = device.compute_units * layout.numbers["per_core"]
    outer = n * layout.result[0] * groups
    while j > 2 * th and outer * ceil(down / j) < wanted and j > layout.span[1]:
        j = ceil(j / 2 / th) * th
    j = ceil(ceil(down / ceil(down / j)) / th) * th
    split = min(panels, ceil(wanted / (outer * ceil(down / j)))) if outer * ceil(down / j) < wanted else 1
    return dict(NV=nv, TH=th, TW=tw, JB=j, OB=ceil(panels / split))


def _weight_tile(device: Any, layout: _Layout, n: int, groups: int, o: int, c: int, k: int, lanes: int, itemsize: int) -> dict[str, int] | None:
    """Register tile (CM channels x TB taps, NV vectors), rows of a block, channels and panels of a work-item, number of parts."""
    best = None
    for nv in (1, 2, 3, 4):
        most = (_registers(lanes, itemsize) - 1 - nv) // nv
        cm = min(max(1, most // k), c)
        tb = k if cm > 1 else ceil(k / ceil(k / most))
        cost = ceil(c / cm) * ceil(k / tb) * ceil(ceil(o / lanes) / nv) * (max(cm * tb * nv, 4) + 1 + nv * 0.5)
        best = min(best, (cost, nv, cm, tb)) if best else (cost, nv, cm, tb)
    assert best is not None
    _, nv, cm, tb = best
    nr, panels, down = nv * lanes, ceil(ceil(o / lanes) / nv), layout.result[1]
    fits = [j for j in range(1, down + 1)
            if j * layout.result[2] * nr * itemsize <= layout.numbers["tile"] and cm * layout.plane(j) * itemsize * 8 <= layout.numbers["copy"]]
    j = fits[-1] if fits else 1
    j = ceil(down / ceil(down / j))
    cb = max(1, min(ceil(c / cm), layout.numbers["copy"] // (cm * layout.plane(j) * itemsize), layout.numbers["sums"] // (nr * cm * k * itemsize)))
    cb = ceil(ceil(c / cm) / ceil(ceil(c / cm) / cb)) * cm
    ob = max(1, min(panels, layout.numbers["sums"] // (nr * cb * k * itemsize)))
    if (cb * layout.plane(j) + (j * layout.result[2] + ob * cb * k) * nr) * itemsize > layout.numbers["most"]:
        return None
    units = n * layout.result[0] * ceil(down / j)
    items = ceil(c / cb) * ceil(panels / ob) * groups
    parts = max(1, min(units, ceil(device.compute_units * layout.numbers["per_core"] / items)))
    return dict(NV=nv, CM=cm, TB=tb, JB=j, CB=cb, OB=ob, PARTS=parts)
