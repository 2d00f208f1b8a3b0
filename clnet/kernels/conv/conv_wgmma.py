"""Convolutions on tensor cores of Hopper by conv_wgmma.cl:
for which devices and shapes, on which grid of positions, with which tiles.

Sizes in elements unless said otherwise; triples are (z, y, x).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from ...core.size import varies
from ..grid import in_parts, up
from ..matmul.problem import NARROW
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv_gpu import partial_sums, weight_sum
from .problem import FREE_GPU, Convolution, Macros, Triple, text, three

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_wgmma.cl"
SERVES = "Hopper's tensor cores: 8 channels or more in 16 bits, or where tf32, bf16 or fp16 is asked for"
TOO_LARGE = Refusal("what is packed takes more than a quarter of the largest allocation")
TAPS = 3            # of an instruction of the weight gradient: 64 channels each; 13 warps have registers for three


class Tap(NamedTuple):
    """Number k of the weight reads source phase `source`, `shift` positions away;
    `line`: what taps of one row of the kernel share.
    """

    k: int
    source: int
    shift: int
    line: Triple


class Grid:
    """The grid of positions of a convolution, and the taps of each of its result phases as shifts on it."""

    def __init__(self, p: Convolution) -> None:
        moved = [[v // s for v, s in zip(t, p.step, strict=True)] for t in p.reads]
        down = [max(0, -min(m[a] for m in moved)) for a in range(3)]
        more = [max(0, max(m[a] for m in moved)) for a in range(3)]
        self.pitch = three(max(ceil(p.data[a] / p.step[a]) + down[a], ceil(p.result[a] / p.out[a]) + more[a])
                           for a in range(3))
        self.step, self.sources = p.step, prod(p.step)
        self.phases = [[self._tap(k, t) for k, t in enumerate(phase) if t is not None] for phase in p.phases]

    def _tap(self, k: int, t: Triple) -> Tap:
        (_, sy, sx), (_, py, px) = self.step, self.pitch
        z, y, x = (v // s for v, s in zip(t, self.step, strict=True))
        source = (t[0] % self.step[0] * sy + t[1] % sy) * sx + t[2] % sx
        return Tap(k, source, (z * py + y) * px + x, (source, z, y))

    def positions(self, n: int) -> int:
        return n * prod(self.pitch)

    @property
    def front(self) -> int:
        """Lines of zeros in front."""
        return up(max(0, -min(t.shift for phase in self.phases for t in phase)), 8) + 8

    def lines(self, n: int, block: int, more: int) -> int:
        """Lines of a packed block of channels, with what tiles of `block` positions and `more` read beyond the last."""
        return up(self.front + up(self.positions(n), block) + more, 64)

    def macros(self, data: Triple, result: Triple) -> Macros:
        named = {"P": self.pitch, "STEP_": self.step, "R": result, "F": data}
        return {"FRONT": self.front, **{name + a: v for name, values in named.items()
                                        for a, v in zip("ZYX", values, strict=True)}}


class Sets:
    """The taps of each result phase, those that read one source phase together."""

    def __init__(self, grid: Grid) -> None:
        self.first, self.sets = [0], list[list[Tap]]()
        for phase in grid.phases:
            for _, taps in itertools.groupby(sorted(phase, key=lambda t: (t.source, t.shift)), key=lambda t: t.source):
                self.sets.append(list(taps))
            self.first.append(len(self.sets))
        self.at = [s[0].shift // 8 * 8 for s in self.sets]
        self.spans = [s[-1].shift - at for s, at in zip(self.sets, self.at, strict=True)]
        self.taps = sum(len(s) for s in self.sets)
        self.most = up(max(max(self.spans), *(s[-1].shift for s in self.sets)), 8) + 8

    def lines(self, bn: int) -> list[int]:
        return [up(bn + span, 8) for span in self.spans]

    def macros(self, bn: int) -> Macros:
        flat = [t for s in self.sets for t in s]
        return {"T_ALL": self.taps, "SOURCE": text(t.k for t in flat), "PHASE_FIRST": text(self.first),
                "SET_AT": text(self.at), "SET_FIRST": text(itertools.accumulate(map(len, self.sets), initial=0)),
                "SET_SOURCE": text(s[0].source for s in self.sets), "SET_LINES": text(self.lines(bn)),
                "DATA_LINES": max(self.lines(bn)),
                "TAP_LINE": text(t.shift - at for s, at in zip(self.sets, self.at, strict=True) for t in s)}


class Rows:
    """Taps next to each other in rows of the kernel, at most TAPS in one;
    up to three rows of one source phase are a unit.
    """

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
        self.most = up(max(0, *(max(r[0].shift for r in unit) + reach for unit in self.units)), 8) + 8

    def lines(self, kb: int) -> list[int]:
        return [up(kb + span, 8) for span in self.spans]

    def macros(self, kb: int) -> Macros:
        rows = [(r, at) for unit, at in zip(self.units, self.at, strict=True) for r in unit]
        return {"WG_COLUMNS": 64 * self.count, "TAP_STEP": self.step,
                "UNIT_FIRST": text(itertools.accumulate(map(len, self.units), initial=0)),
                "UNIT_SOURCE": text(unit[0][0].source for unit in self.units), "UNIT_AT": text(self.at),
                "UNIT_LINES": text(self.lines(kb)), "DATA_LINES": max(self.lines(kb)),
                "ROW_LINE": text(r[0].shift - at for r, at in rows),
                "ROW_FIRST": text(itertools.accumulate((len(r) for r, _ in rows), initial=0)),
                "ROW_TAP": text(t.k for r, _ in rows for t in r)}


@variant("conv", cl=FILE, serves=SERVES, rank=1)  # several times the rate of any that do not use tensor cores
def wgmma(p: Convolution, device: Device) -> Answer:
    if refused := _refused(p, device):
        return refused
    grid, t = Grid(p), _numbers(device)
    if not all(grid.phases):
        return Refusal("phases of the result that no tap reaches")
    if p.dtype == "float32" and prod(p.typical.domain) * p.c * len(grid.phases[0]) < t["products"]:
        return _few(t)
    sets, line = Sets(grid), _line(p)
    tile = _tile(p, device, t, line, sets)
    if tile is None:
        return Refusal("local memory is too small for any tile")
    lines = grid.lines(p.n, tile["BN"], sets.most)
    scratch = {"packed_x": grid.sources * _blocks(p, line) * lines * line,
               "packed_w": sets.taps * _blocks(p, line) * up(p.o, tile["BM"]) * line}
    if any(nbytes > device.max_alloc // 4 for nbytes in scratch.values()):
        return TOO_LARGE
    macros = {**tile, "LINE": line, "LINES": lines}
    return Offer(lambda: _stages(p, device, grid, sets, macros, scratch))


@variant("conv_weight_gradient", cl=FILE, serves=SERVES, rank=1)  # as above
def wgmma_weights(p: Convolution, device: Device) -> Answer:
    if refused := _refused(p, device):
        return refused
    t = _numbers(device)
    if _arithmetic(p) == "tf32":
        return Refusal("16 bits only: TF32 operands cannot lie across k")
    if p.dtype == "float32" and p.typical.n * prod(p.result) * p.o * p.c * p.k < t["products"]:
        return _few(t)
    grid = Grid(p)
    rows = Rows(grid)
    fitting = [(kb, s) for kb, s in t["sums"] if s * (kb + max(rows.lines(kb))) * 128 + 2048 <= device.largest_local]
    if not fitting or rows.count > TAPS:
        return Refusal("local memory is too small for any tile")
    (kb, stages), o_blocks, c_blocks = fitting[0], ceil(p.o / 64), ceil(p.c / 64)
    tiles, places = o_blocks * c_blocks * len(rows.units), ceil(grid.positions(p.typical.n) / kb)
    split, part = in_parts(ceil(grid.positions(p.n) / kb), max(1, min(places, device.compute_units // tiles)))
    lines = grid.lines(p.n, kb, rows.most)
    scratch = {"partial": split * p.weights * 4, "packed_x": grid.sources * c_blocks * lines * 128,
               "packed_g": o_blocks * lines * 128}
    if any(nbytes > device.max_alloc // 4 for nbytes in scratch.values()):
        return TOO_LARGE
    macros = {"LINE": 128, "LINES": lines, "KB": kb, "STAGES": stages, "PART": part, **rows.macros(kb),
              **partial_sums(p.weights, split)}
    return Offer(lambda: _weight_stages(p, device, grid, tiles, macros, scratch))


def _numbers(device: Device) -> Numbers:
    return numbers(device, "conv_wgmma")


def _refused(p: Convolution, device: Device) -> Refusal | None:
    if not device.hopper:
        return Refusal("needs tensor cores of compute capability 9.0")
    if _arithmetic(p) is None:
        return Refusal("16 bits only, or float32 in a precision of TF32 or 16 bits")
    if p.groups > 1:
        return Refusal("one group only")
    least = _numbers(device)["channels"]
    return Refusal(f"fewer than {least} channels") if min(p.o, p.c) < least else None


def _few(t: Numbers) -> Refusal:
    return Refusal(f"fewer than {t['products']:.0e} products in float32: packing costs more than is saved")


def _arithmetic(p: Convolution) -> str | None:
    """What tensor cores compute in, or None."""
    asked = p.precision if p.dtype == "float32" and p.precision in ("tf32", "bf16", "fp16") else None
    return NARROW.get(p.dtype, asked)


def _line(p: Convolution) -> int:
    """[bytes] of a packed line of channels: the fewest zeros, then the longest."""
    return min((32, 64, 128), key=lambda b: (up(p.c, b // _narrow(p)), -b))


def _narrow(p: Convolution) -> int:
    """[bytes] of a packed number."""
    return 4 if _arithmetic(p) == "tf32" else 2


def _blocks(p: Convolution, line: int) -> int:
    """Lines that hold all channels of a position."""
    return ceil(p.c / (line // _narrow(p)))


def _tile(p: Convolution, device: Device, t: Numbers, line: int, sets: Sets) -> dict[str, int] | None:
    """BM, BN, TS, STAGES: the first tile that fits."""
    for bm, bn in t["tiles"]:
        if bm == 128 and p.o <= 64:
            continue
        taps = max(1, min(t["stage"] // (bm * line), max(len(s) for s in sets.sets)))
        rest = device.largest_local - 2 * max(sets.lines(bn)) * line - 16384 - 512
        stages = min(t["stages"], rest // (taps * bm * line))
        if stages >= 3:
            return {"BM": bm, "BN": bn, "TS": taps, "STAGES": stages}
    return None


# --- stages
def _stages(p: Convolution, device: Device, grid: Grid, sets: Sets, tile: Macros,
            scratch: dict[str, int]) -> list[Stage]:
    """Data packed, weights packed, the products."""
    forward, blocks, lines = p.forward(device), _blocks(p, tile["LINE"]), tile["LINES"]
    tiles = ceil(p.o / tile["BM"]) * ceil(grid.positions(p.n) / tile["BN"]) * len(grid.phases)
    groups = device.compute_units if varies(tiles) else min(device.compute_units, tiles)
    common = {**forward, **grid.macros(p.data, p.result), **sets.macros(tile["BN"]), **tile, **_formats(p, device),
              "PHASES": len(grid.phases), "FROM": forward["DATA"], "FC": p.c, "FBLOCKS": blocks, "PACKED": "packed_x",
              **{"OUT_" + a: v for a, v in zip("ZYX", p.out, strict=True)}, "GROUPS": groups}
    return [_pack("conv_tensor_pack", common, (lines // 64 * 256, blocks, grid.sources), scratch),
            _pack("conv_tensor_weights", {**common, "VARIANT": "PACK_WEIGHTS"},
                  (up(scratch["packed_w"] // 16, 256), 1, 1), scratch),
            Stage("conv_tensor", {**common, "VARIANT": "CONV"}, (groups * 288, 1, 1), (288, 1, 1), domain=p.domain,
                  scratch=scratch, file=FILE, note=f"{_arithmetic(p)} on tensor cores", free=FREE_GPU)]


def _weight_stages(p: Convolution, device: Device, grid: Grid, tiles: int, tile: Macros,
                   scratch: dict[str, int]) -> list[Stage]:
    """Data packed, gradients packed, parts of the products, and their sum."""
    o_blocks, c_blocks, lines = ceil(p.o / 64), ceil(p.c / 64), tile["LINES"]
    common = {**p.sizes, "T_ALL": p.k, **_formats(p, device), **tile}
    data = {**common, **grid.macros(p.data, p.result), "FROM": "x", "FC": p.c, "FBLOCKS": c_blocks,
            "PACKED": "packed_x"}
    grad = {**data, **grid.macros(p.result, p.result), "FROM": "g", "FC": p.o, "FBLOCKS": o_blocks,
            "PACKED": "packed_g", "STEP_Z": 1, "STEP_Y": 1, "STEP_X": 1}
    return [_pack("conv_tensor_pack", data, (lines // 64 * 256, c_blocks, grid.sources), scratch),
            _pack("conv_tensor_pack", grad, (lines // 64 * 256, o_blocks, 1), scratch),
            Stage("conv_tensor_sums", {**data, "VARIANT": "SUMS"}, (tiles * common["SPLIT"] * 416, 1, 1),
                  (416, 1, 1), scratch=scratch, final=False, file=FILE, note=f"{_arithmetic(p)} on tensor cores",
                  free=FREE_GPU),
            weight_sum(p, common, scratch)]


def _formats(p: Convolution, device: Device) -> Macros:
    return {"PRECISION": str(_arithmetic(p)).upper(), "NARROW": int(p.dtype in NARROW),
            "USE_FMA": int(device.has_fma)}


def _pack(kernel: str, macros: Macros, grid: Sequence[int], scratch: dict[str, int]) -> Stage:
    return Stage(kernel, {"VARIANT": "PACK", **macros}, tuple(grid), (256, 1, 1), scratch=scratch, final=False,
                 file=FILE, free=FREE_GPU)
