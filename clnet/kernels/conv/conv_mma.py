"""Convolutions of few channels in 16 bits by conv_mma.cl: for which devices and shapes, with which tiles.

Sizes in elements unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, gcd, prod
from typing import TYPE_CHECKING, NamedTuple

from ..grid import in_parts, up
from ..matmul.problem import NARROW
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv_gpu import partial_sums, weight_sum
from .problem import FREE_GPU, Convolution, Macros, text

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_mma.cl"
SERVES = "tensor cores from compute capability 8.0 on: 3 to 64 channels in 16 bits"
TOO_LARGE = Refusal("a row with its border does not fit local memory")


class Block(NamedTuple):
    """Rows of a tile, of so many images."""

    rows: int
    images: int

    def tiles(self, p: Convolution) -> int:
        return ceil(p.n / self.images) * ceil(p.down / self.rows)

    def macros(self, p: Convolution) -> Macros:
        """What the problem says for such a tile, and where the taps of the weights stand in its list."""
        found = p.tables(self.rows)
        order = [int(k) for k in found["SOURCE"].split(", ")]
        return {**found, "TAP_OF": text(order.index(k) for k in range(len(order))), "IMAGES": self.images}


@variant("conv", cl=FILE, serves=SERVES, rank=0)  # nothing is packed in memory
def mma(p: Convolution, device: Device) -> Answer:
    if refused := _refused(p, device):
        return refused
    cp, ot = up(p.c, 16), min(up(p.o, 16), 64)
    mt = 2 if ot % 32 == 0 else 1
    wm = ot // 16 // mt
    warps = dict(CP=cp, OT=ot, MT=mt, NT=8 if mt == 1 else 4, WM=wm, WN=max(1, 8 // wm))
    fixed = sum(p.taps) * ot * (2 * cp + 16) + 2048 * wm * warps["WN"]
    block = _block(p, device, lambda _: fixed, cp)
    return TOO_LARGE if block is None else Offer(lambda: _stages(p, device, block, warps))


@variant("conv_weight_gradient", cl=FILE, serves=SERVES, rank=0)  # as above
def mma_weights(p: Convolution, device: Device) -> Answer:
    if refused := _refused(p, device):
        return refused
    most, k = _numbers(device)["sums"], p.k
    ot, cp = min(up(p.o, 16), most[0]), min(up(p.c, 16), most[1])
    wm, wt = ot // 16, 3 if k % 3 == 0 else 1
    warps = dict(CP=cp, WM=wm, WT=wt, WK=max(1, 8 // (wm * wt)), PW=ceil(k * cp // 16 / wt))
    if warps["PW"] > 12:
        return Refusal(f"{k} taps: more sums than a warp has registers for")
    block = _block(p, device, lambda pixels: ot * (2 * up(pixels, 16 * warps["WK"]) + 16), cp)
    return TOO_LARGE if block is None else Offer(lambda: _weight_stages(p, device, block, warps))


def _numbers(device: Device) -> Numbers:
    return numbers(device, "conv_mma")


def _refused(p: Convolution, device: Device) -> Refusal | None:
    if not device.ampere:
        return Refusal("needs tensor cores of compute capability 8.0 or more")
    if p.dtype not in NARROW:
        return Refusal("16 bits only")
    if p.groups > 1 or not p.flat:
        return Refusal("one group, and two dimensions at most, only")
    least, most = _numbers(device)["channels"]
    if min(p.o, p.c) < least or max(p.o, p.c) > most:
        return Refusal(f"{least} to {most} channels of data and of result only")
    return None


def _block(p: Convolution, device: Device, rest: Callable[[int], int], cp: int) -> Block | None:
    """As many rows as fit local memory beside `rest`(pixels) bytes,
    then images up to `pixels`; None if not even a row fits.
    """
    t, down, across = _numbers(device), p.down, ceil(p.result[2] / p.out[2])
    local = min(t["local"], device.largest_local)

    def fits(j: int, images: int) -> bool:
        return images * p.plane(j) * (2 * cp + 16) + rest(images * j * across) <= local

    parts = dict.fromkeys(ceil(down / k) for k in range(1, down + 1))  # all rows, half of them, a third ...
    j = next((j for j in parts if fits(j, 1)), None)
    if j is None:
        return None
    images = 1
    if j == down:
        images = max(1, min(ceil(t["pixels"] / (down * across)), p.typical.n))
        while images > 1 and not fits(j, images):
            images -= 1
    return Block(j, images)


# --- stages
def _stages(p: Convolution, device: Device, block: Block, warps: dict[str, int]) -> list[Stage]:
    lanes = 4 if p.out[2] == 1 and p.result[2] % 4 == 0 else 1
    items, across, tiles = 32 * warps["WM"] * warps["WN"], ceil(p.o / warps["OT"]), block.tiles(p)
    groups = max(1, device.compute_units * _numbers(device)["resident"] // across)
    forward = p.forward(device)
    macros = {**forward, **block.macros(p), **warps, "ITEMS": items, "VARIANT": "CONV",
              "PRECISION": NARROW[p.dtype].upper(), "WIDE": _wide(p.data[2], forward["DATA"]),
              "W_WIDE": "(W_ALIGN % 8 == 0)" if p.c == warps["CP"] and p.o % warps["OT"] == 0 else 0}
    return [Stage("conv_mma", macros, (ceil(tiles / ceil(tiles / groups)) * items, across, 1), (items, 1, 1),
                  domain=p.domain, lanes=lanes, file=FILE, stepped=lanes > 1, note=_note(p), free=FREE_GPU)]


def _weight_stages(p: Convolution, device: Device, block: Block, warps: dict[str, int]) -> list[Stage]:
    units = ceil(p.o / (16 * warps["WM"])) * ceil(p.c / warps["CP"])
    items = 32 * warps["WM"] * warps["WT"] * warps["WK"]
    most = max(1, device.compute_units * _numbers(device)["waves"] // units)
    split, part = in_parts(block.tiles(p), min(block.tiles(p.typical), most))
    scratch = {"partial": split * p.weights * 4}
    macros = {"DATA": "x", "GRAD": "g", **p.sizes, "USE_FMA": int(device.has_fma), **block.macros(p),
              **partial_sums(p.weights, split), **warps, "PART": part, "ITEMS": items, "VARIANT": "SUMS",
              "PRECISION": NARROW[p.dtype].upper(), "WIDE": _wide(p.data[2], "x"),
              "WIDE_G": _wide(gcd(block.rows * p.result[2], prod(p.result)), "g")}
    return [Stage("conv_mma_sums", macros, (units * items, split, 1), (items, 1, 1), scratch=scratch, final=False,
                  file=FILE, note=_note(p), free=FREE_GPU),
            weight_sum(p, macros, scratch)]


def _note(p: Convolution) -> str:
    return f"{NARROW[p.dtype]} on tensor cores"


def _wide(width: int, operand: str) -> str | int:
    """Whether vectors of 8 of the operand are whole and aligned, where runs have `width` elements."""
    return f"({operand.upper()}_ALIGN % 8 == 0)" if width % 8 == 0 else 0
