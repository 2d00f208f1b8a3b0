"""Convolutions on tensor cores (conv_wgmma.cl): for which devices and shapes, on which grid of positions, with which tiles.

Pure Python, no OpenCL. Sizes in elements unless said otherwise; triples are (z, y, x).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from ..engine.tune import tuned as lookup
from .matmul_tensor_geometry import NARROW

FILE = "conv_wgmma.cl"
TUNED: dict[str, Any] = dict(
    channels=8,     # fewer of data or results than this: tensor cores would multiply zeros
    products=5e7,   # fewer in float32: one more launch costs more than they save
    tiles=((128, 128), (64, 256), (128, 256), (64, 512)),  # BM, BN: the first that fits
    stage=8192,     # [bytes] of a stage of weights, or one tap
    stages=6,       # of weights, where they fit
    sums=((128, 4), (256, 2), (128, 3), (64, 4), (128, 2), (64, 2)),  # KB, STAGES of the weight gradient: the first that fits
)
TAPS = 3            # of an instruction of the weight gradient: 64 channels each; 13 warps have registers for three


@dataclass(frozen=True)
class Tap:
    """Number k of the weight reads source phase `source`, `shift` positions away; `line`: what taps of one row of the kernel share."""

    k: int
    source: int
    shift: int
    line: tuple[int, ...]


class Grid:
    """The grid of positions of a layout (conv_geometry._Layout), and the taps of each of its result phases as shifts on it."""

    def __init__(self, layout: Any) -> None:
        step, out = layout.step, layout.out
        reads = [t for phase in layout.phases for t in phase if t is not None]
        moved = [tuple(v // s for v, s in zip(t, step, strict=True)) for t in reads]
        down = [max(0, -min(m[a] for m in moved)) for a in range(3)]
        up = [max(0, max(m[a] for m in moved)) for a in range(3)]
        self.pitch = tuple(max(ceil(layout.data[a] / step[a]) + down[a], ceil(layout.result[a] / out[a]) + up[a]) for a in range(3))
        self.step, self.sources = step, prod(step)
        self.phases = [[self._tap(k, t) for k, t in enumerate(phase) if t is not None] for phase in layout.phases]

    def _tap(self, k: int, t: tuple[int, ...]) -> Tap:
        (sz, sy, sx), (_, py, px) = self.step, self.pitch
        z, y, x = (v // s for v, s in zip(t, self.step, strict=True))
        source = (t[0] % sz * sy + t[1] % sy) * sx + t[2] % sx
        return Tap(k, source, (z * py + y) * px + x, (source, z, y))

    def positions(self, n: int) -> int:
        return n * prod(self.pitch)

    @property
    def front(self) -> int:
        """Lines of zeros in front."""
        return _up(max(0, -min(t.shift for phase in self.phases for t in phase)), 8) + 8

    def lines(self, n: int, block: int, more: int) -> int:
        """Lines of a packed block of channels, with what tiles of `block` positions and `more` read beyond the last."""
        return _up(self.front + _up(self.positions(n), block) + more, 64)

    def defines(self, data: Any, result: Any) -> dict[str, Any]:
        named = {"P": self.pitch, "STEP_": self.step, "R": result, "F": data}
        return {"FRONT": self.front, **{name + a: v for name, values in named.items() for a, v in zip("ZYX", values, strict=True)}}


def _up(n: int, block: int) -> int:
    return ceil(n / block) * block


def _text(values: Iterable[Any]) -> str:
    return ", ".join(str(v) for v in values)


def _kind(device: Any, x: Any, precision: str) -> str | None:
    """The arithmetic that tensor cores give here, or None."""
    kind = NARROW.get(x.dtype) or (precision if x.dtype == "float32" and precision in ("tf32", "bf16", "fp16") else None)
    return kind if device.hopper else None


def forward(device: Any, layout: Any, operands: Any, common: dict[str, Any], domain: tuple[int, ...], precision: str) -> Any:
    """The stages of conv or conv_data_gradient, or None where tensor cores don't suit."""
    t = {**TUNED, **lookup(device, "conv_tensor")}
    x, o, c, n = operands[0], common["O"], common["C"], common["N"]
    kind, grid = _kind(device, x, precision), Grid(layout)
    if kind is None or common["GROUPS"] > 1 or not all(grid.phases) or min(o, c) < t["channels"]:
        return None
    if x.dtype == "float32" and prod(domain) * c * len(grid.phases[0]) < t["products"]:
        return None
    narrow = 2 if kind != "tf32" else 4
    line = min((32, 64, 128), key=lambda b: (_up(c, b // narrow), -b))
    blocks, sets = ceil(c / (line // narrow)), _Sets(grid)
    tile = _tile(t, device.largest_local, o, line, sets)
    if tile is None:
        return None
    lines = grid.lines(n, tile["BN"], sets.most)
    size = {"packed_x": grid.sources * blocks * lines * line, "packed_w": sets.taps * blocks * _up(o, tile["BM"]) * line}
    if max(size.values()) > device.max_alloc // 4:
        return None
    defines = {**common, **grid.defines(layout.data, layout.result), **sets.defines(tile["BN"]), **tile, "PRECISION": kind.upper(), "LINE": line,
               "NARROW": int(x.dtype in NARROW), "LINES": lines, "PHASES": len(grid.phases), "FROM": common["DATA"], "FC": c, "FBLOCKS": blocks,
               "PACKED": "packed_x", **{"OUT_" + a: v for a, v in zip("ZYX", layout.out, strict=True)}, "USE_FMA": 1}
    defines["GROUPS"] = min(device.compute_units, ceil(o / tile["BM"]) * ceil(grid.positions(n) / tile["BN"]) * len(grid.phases))
    return [_stage("conv_tensor_pack", {**defines, "VARIANT": "PACK"}, (lines // 64 * 256, blocks, grid.sources), (256, 1, 1), size),
            _stage("conv_tensor_weights", {**defines, "VARIANT": "PACK_WEIGHTS"}, (_up(size["packed_w"] // 16, 256), 1, 1), (256, 1, 1), size),
            _stage("conv_tensor", {**defines, "VARIANT": "CONV"}, (defines["GROUPS"] * 288, 1, 1), (288, 1, 1), size, domain, f"{kind} on tensor cores")]


class _Sets:
    """The taps of each result phase, those that read one source phase together."""

    def __init__(self, grid: Grid) -> None:
        self.first, self.sets = [0], []
        for phase in grid.phases:
            for _, taps in itertools.groupby(sorted(phase, key=lambda t: (t.source, t.shift)), key=lambda t: t.source):
                self.sets.append(list(taps))
            self.first.append(len(self.sets))
        self.at = [s[0].shift // 8 * 8 for s in self.sets]
        self.spans = [s[-1].shift - at for s, at in zip(self.sets, self.at, strict=True)]
        self.taps = sum(len(s) for s in self.sets)
        self.most = _up(max(max(self.spans), *(s[-1].shift for s in self.sets)), 8) + 8

    def lines(self, bn: int) -> list[int]:
        return [_up(bn + span, 8) for span in self.spans]

    def defines(self, bn: int) -> dict[str, Any]:
        flat = [t for s in self.sets for t in s]
        return {"T_ALL": self.taps, "SOURCE": _text(t.k for t in flat), "PHASE_FIRST": _text(self.first), "SET_AT": _text(self.at),
                "SET_FIRST": _text(itertools.accumulate((len(s) for s in self.sets), initial=0)), "SET_SOURCE": _text(s[0].source for s in self.sets),
                "SET_LINES": _text(self.lines(bn)), "DATA_LINES": max(self.lines(bn)),
                "TAP_LINE": _text(t.shift - at for s, at in zip(self.sets, self.at, strict=True) for t in s)}


def _tile(t: dict[str, Any], local: int, o: int, line: int, sets: _Sets) -> dict[str, int] | None:
    """BM, BN, TS, STAGES: the first tile that fits."""
    for bm, bn in t["tiles"]:
        if bm == 128 and o <= 64:
            continue
        taps = max(1, min(t["stage"] // (bm * line), max(len(s) for s in sets.sets)))
        rest = local - 2 * max(sets.lines(bn)) * line - 16384 - 512
        stages = min(t["stages"], rest // (taps * bm * line))
        if stages >= 3:
            return {"BM": bm, "BN": bn, "TS": taps, "STAGES": stages}
    return None


def weights(device: Any, layout: Any, operands: Any, n: int, groups: int, o: int, c: int, precision: str) -> Any:
    """The stages of conv_weight_gradient, or None where tensor cores don't suit."""
    from .conv_gpu_geometry import partial_sums, sum_stage

    t = {**TUNED, **lookup(device, "conv_tensor")}
    kind, grid = _kind(device, operands[0], precision), Grid(layout)
    if kind in (None, "tf32") or groups > 1 or min(o, c) < t["channels"]:  # TF32 operands cannot lie across k
        return None
    if operands[0].dtype == "float32" and n * prod(layout.result) * o * c * prod(layout.size) < t["products"]:
        return None
    rows, k = _Rows(grid), prod(layout.size)
    fitting = [(kb, s) for kb, s in t["sums"] if s * (kb + max(rows.lines(kb))) * 128 + 2048 <= device.largest_local]
    if not fitting or rows.count > TAPS:
        return None
    kb, stages = fitting[0]
    blocks, tiles = ceil(c / 64), ceil(o / 64) * ceil(c / 64) * len(rows.units)
    places = ceil(grid.positions(n) / kb)
    part = ceil(places / max(1, min(places, device.compute_units // tiles)))
    split, total, lines = ceil(places / part), o * c * k, grid.lines(n, kb, rows.most)
    scratch = {"partial": split * total * 4, "packed_x": grid.sources * blocks * lines * 128, "packed_g": ceil(o / 64) * lines * 128}
    if max(scratch.values()) > device.max_alloc // 4:
        return None
    defines = {"N": n, "C": c, "O": o, "T_ALL": k, "PRECISION": kind.upper(), "NARROW": int(operands[0].dtype in NARROW), "LINE": 128, "LINES": lines, "KB": kb,
               "STAGES": stages, "PART": part, "USE_FMA": 1, **rows.defines(kb), **partial_sums(total, split)}
    data = {**defines, "VARIANT": "PACK", **grid.defines(layout.data, layout.result), "FROM": "x", "FC": c, "FBLOCKS": blocks, "PACKED": "packed_x"}
    grad = {**data, **grid.defines(layout.result, layout.result), "FROM": "g", "FC": o, "FBLOCKS": ceil(o / 64), "PACKED": "packed_g",
            "STEP_Z": 1, "STEP_Y": 1, "STEP_X": 1}
    return [_stage("conv_tensor_pack", data, (lines // 64 * 256, blocks, grid.sources), (256, 1, 1), scratch),
            _stage("conv_tensor_pack", grad, (lines // 64 * 256, ceil(o / 64), 1), (256, 1, 1), scratch),
            _stage("conv_tensor_sums", {**data, "VARIANT": "SUMS"}, (tiles * split * 416, 1, 1), (416, 1, 1), scratch, note=f"{kind} on tensor cores"),
            sum_stage(defines, c, k, total, scratch)]


class _Rows:
    """Taps next to each other in rows of the kernel, at most TAPS in one; up to three rows of one source phase are a unit."""

    def __init__(self, grid: Grid) -> None:
        taps = sorted(grid.phases[0], key=lambda t: (t.line, t.shift))
        lines = [list(found) for _, found in itertools.groupby(taps, key=lambda t: t.line)]
        steps = {b.shift - a.shift for line in lines for a, b in itertools.pairwise(line)} or {1}
        longest = max(len(line) for line in lines)
        per = ceil(longest / ceil(longest / TAPS)) if len(steps) == 1 else 1
        self.step = steps.pop() if len(steps) == 1 else 1
        self.rows = [line[i : i + per] for line in lines for i in range(0, len(line), per)]
        self.count = max(len(r) for r in self.rows)
        of_source = [list(same) for _, same in itertools.groupby(self.rows, key=lambda r: r[0].source)]
        self.units = [same[i : i + 3] for same in of_source for i in range(0, len(same), 3)]
        self.at = [min(r[0].shift for r in unit) // 8 * 8 for unit in self.units]
        reach = (self.count - 1) * self.step
        self.spans = [max(r[0].shift for r in unit) + reach - at for unit, at in zip(self.units, self.at, strict=True)]
        self.most = _up(max(0, *(max(r[0].shift for r in unit) + reach for unit in self.units)), 8) + 8

    def lines(self, kb: int) -> list[int]:
        return [_up(kb + span, 8) for span in self.spans]

    def defines(self, kb: int) -> dict[str, Any]:
        rows = [(r, at) for unit, at in zip(self.units, self.at, strict=True) for r in unit]
        return {"WG_COLUMNS": 64 * self.count, "TAP_STEP": self.step, "UNIT_FIRST": _text(itertools.accumulate(map(len, self.units), initial=0)),
                "UNIT_SOURCE": _text(unit[0][0].source for unit in self.units), "UNIT_AT": _text(self.at), "UNIT_LINES": _text(self.lines(kb)),
                "DATA_LINES": max(self.lines(kb)), "ROW_LINE": _text(r[0].shift - at for r, at in rows),
                "ROW_FIRST": _text(itertools.accumulate((len(r) for r, _ in rows), initial=0)), "ROW_TAP": _text(t.k for r, _ in rows for t in r)}


def _stage(kernel: str, defines: dict[str, Any], grid: tuple[int, ...], group: tuple[int, ...], scratch: dict[str, int], domain: tuple[int, ...] = (),
           note: str = "") -> Any:
    from ..engine.codegen import Stage

    return Stage(kernel, defines, grid, group, domain, 1, scratch, bool(domain), FILE, note=note)
