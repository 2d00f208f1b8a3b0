"""3x3 convolutions and their weight gradients on GPUs in one kernel by conv_winograd4_gpu.cl:
36 products where 144 are counted.

Sizes in elements unless said otherwise; times in cycles of a compute unit.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ..grid import in_parts
from ..stage import Stage
from ..tuning import numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv_gpu import not_for_weights, partial_sums, weight_sum
from .conv_winograd import source
from .conv_winograd_gpu import not_float32_winograd, patches
from .problem import FREE_GPU, Convolution

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_winograd4_gpu.cl"
SERVES = "GPUs of 145 KiB of local memory, float32, 3x3 with stride 1, 16 channels or more"
ITEMS, LOCAL = 576, 4 * 8 * 1156 * 4  # of the weight gradient: items and bytes of blocks of a work-group


@variant("conv", cl=FILE, serves=SERVES, rank=3)  # by time
def winograd4_gpu(p: Convolution, device: Device) -> Answer:
    return patches(p, device, 4, "winograd4_gpu", FILE)


@variant("conv_weight_gradient", cl=FILE, serves=SERVES, rank=2)  # by time
def winograd4_gpu_weights(p: Convolution, device: Device) -> Answer:
    if refused := not_for_weights(p, device) or not_float32_winograd(p, device):
        return refused
    if device.largest_local < LOCAL or device.max_work_group < ITEMS:
        return Refusal(f"needs {ceil(LOCAL / 1024)} KiB of local memory and work-groups of {ITEMS}")
    t, units, pairs, blocks = numbers(device, "conv gpu"), device.compute_units, _pairs(p), _blocks(p.typical)
    rate = t["products"] * t["winograd_weights"]
    splits = {min(blocks, max(1, units * wave // pairs)) for wave in (1, 2)}
    cycles, split = min((ceil(pairs * s / units) * 36864 / rate * (ceil(blocks / s) * 8 + t["lead"]), s)
                        for s in splits)
    return Offer(lambda: _stages(p, device, *in_parts(_blocks(p), split)), cycles)


def _pairs(p: Convolution) -> int:
    """Tiles of 32 x 32 channels."""
    return ceil(p.o / 32) * ceil(p.c / 32) * p.groups


def _blocks(p: Convolution) -> int:
    """Of eight patches each."""
    return ceil(p.n * ceil(p.result[1] / 4) * ceil(p.result[2] / 4) / 8)


def _stages(p: Convolution, device: Device, split: int, part: int) -> list[Stage]:
    """In so many parts of so many blocks."""
    scratch = {"partial": split * p.weights * 4}
    common = {**p.gradient(device), **p.tables(1), **source(p), **partial_sums(p.weights, split), "PART": part}
    grid = _pairs(p) // p.groups * ITEMS, 1, p.groups * split
    return [Stage("winograd4_gpu_weights", {**common, "VARIANT": "WEIGHTS"}, grid, (ITEMS, 1, 1), lanes=4,
                  scratch=scratch, final=False, file=FILE, free=FREE_GPU),
            weight_sum(p, common, scratch)]
