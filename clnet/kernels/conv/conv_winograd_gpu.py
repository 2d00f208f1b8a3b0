"""3x3 convolutions on GPUs in one kernel by conv_winograd_gpu.cl: 16 products where 36 are counted.

Sizes in elements unless said otherwise; times in cycles of a compute unit.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ..grid import up
from ..stage import Stage
from ..tuning import numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv_winograd import not_winograd, source
from .problem import FREE, Convolution, not_on_gpu

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_winograd_gpu.cl"


@variant("conv", cl=FILE, serves="GPUs, float32, 3x3 with stride 1, 16 channels or more", rank=3)  # by time
def winograd_gpu(p: Convolution, device: Device) -> Answer:
    return patches(p, device, 2, "winograd_gpu", FILE)


def not_float32_winograd(p: Convolution, device: Device) -> Refusal | None:
    """Why Winograd's transforms on GPUs do not serve."""
    if refused := not_on_gpu(p, device):
        return refused
    return not_winograd(p, device) if p.dtype == "float32" else Refusal("float32 only")


def patches(p: Convolution, device: Device, side: int, kernel: str, file: str) -> Answer:
    """By transformed patches with `side` x `side` results, as many of them a work-group as are fastest."""
    if refused := not_float32_winograd(p, device):
        return refused
    t, products, (o, c) = numbers(device, "conv gpu"), (side + 2) ** 2, _padded(p)
    found = []
    for tiles, speed in (row[1:] for row in t["winograd"] if row[0] == side):
        local, items = tiles * products * 128, products * tiles // 2  # bytes of its sums, items
        if device.largest_local >= local and device.max_work_group >= items:
            groups = o // 32 * ceil(_tiles(p.typical, side) / tiles)
            time = ceil(groups * p.groups / device.compute_units) * 32 * products * tiles / (t["products"] * speed)
            found.append((time * (c + t["lead"]), tiles))
    if not found:
        return Refusal("local memory or work-groups are too small for its sums")
    cycles, tiles = min(found, key=lambda f: f[0])
    return Offer(lambda: _stages(p, device, side, tiles, kernel, file), cycles)


def _padded(p: Convolution) -> tuple[int, int]:
    """Channels of result and data, as tiles hold them."""
    return up(p.o, 32), up(p.c, 8)


def _tiles(p: Convolution, side: int) -> int:
    """Of a channel, in all images."""
    return p.n * ceil(p.result[1] / side) * ceil(p.result[2] / side)


def _stages(p: Convolution, device: Device, side: int, tiles: int, kernel: str, file: str) -> list[Stage]:
    (o, c), products = _padded(p), (side + 2) ** 2
    groups = o // 32 * ceil(_tiles(p, side) / tiles)
    common = {**p.forward(device), **p.tables(1), **source(p), "ASYNC": int(device.ampere), "TILES": tiles}
    scratch, items = {"packed": p.groups * c * products * o * 4}, products * tiles // 2
    return [Stage("winograd_gpu_pack", {**common, "VARIANT": "PACK"}, (o, c, p.groups), (32, 1, 1), scratch=scratch,
                  final=False, file=file, free=FREE),
            Stage(kernel, {**common, "VARIANT": "CONV"}, (groups * items, 1, p.groups), (items, 1, 1),
                  domain=p.domain, lanes=4, scratch=scratch, file=file, stepped=side == 4 and p.result[2] % 4 == 0,
                  free=FREE)]
