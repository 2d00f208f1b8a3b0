"""Convolutions on CPUs by conv_deep.cl: many channels and few results, so that reading the weights is most of the work.

Sizes in elements unless said otherwise; costs in cycles of one core.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

from ...core.size import varies
from ..dealing import share
from ..grid import up
from ..stage import Stage
from ..tuning import Numbers, numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv_winograd import not_winograd, tiles_of
from .problem import Convolution, Macros, Vector, on_cpu

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_deep.cl"
CHUNK = 16  # channels of a work-item of PLACE
WINOGRAD = 16  # products of a tile of 2x2 results


@variant("conv", cl=FILE, serves="CPUs, many channels and few results", rank=1)  # before those that pack all weights
def deep(p: Convolution, device: Device) -> Answer:
    v = on_cpu(p, device)
    if isinstance(v, Refusal):
        return v
    if p.out != (1, 1, 1) or not p.flat or varies(p.n) or v.lanes == 1:
        return Refusal("two dimensions alone, images whose number is known, and no data gradient with steps")
    t = numbers(device, "conv cpu", p.shape_class)
    if p.n * p.result[1] * p.result[2] > t["deep"][p.k > 1] or min(p.c, p.o) < t["deep_channels"]:
        return Refusal("not so few results, or few channels: packing the weights for all is made up for")
    if ceil(p.o / v.lanes) * p.groups < device.compute_units:
        return Refusal("a core would be without result channels")
    if (found := _tile(p, device, v, t)) is None:
        return Refusal("weights and the sums of all images do not fit the private memory of a work-item")
    tile, products = found
    if not_winograd(p, device) is None and products > WINOGRAD * prod(tiles_of(p)) + t["deep_packed"]:
        return Refusal("Winograd's products are fewer")
    return Offer(lambda: _stages(p, device, v, tile))


def _tile(p: Convolution, device: Device, v: Vector, t: Numbers) -> tuple[Macros, int] | None:
    """NV, MB, TP, CB that take the fewest cycles, and the products of a pair of channels; None where nothing fits."""
    across, found = p.result[2], list[tuple[float, Macros, int]]()
    rows = sum(_meeting(p, 1, y) for y in range(p.result[1]))
    columns = sum(_meeting(p, 2, x) for x in range(across))
    for nv in (1, 2, 3, 4):
        panels = ceil(ceil(p.o / v.lanes) / nv)
        for mb in range(1, min(p.n, 16) + 1):
            for tp in range(1, across + 1):
                if mb * tp * nv + nv + 1 > v.registers:
                    break
                met = columns if tp == 1 else ceil(across / tp) * p.size[2]
                steps = ceil(p.n / mb) * rows * met
                cost = steps * (max(mb * tp * nv / 2, (mb * tp + nv) / 2, 4) + 1) + p.k * nv * t["deep_pack"]
                channels = _channels(p, v, t, nv)
                sums = ceil(p.n / mb) * mb * p.result[1] * up(across, tp)
                if (channels * p.k + sums) * nv * v.lanes * v.itemsize <= t["most"]:
                    found.append((cost * panels * share(panels, 1, p.groups, device.compute_units, 1),
                                  dict(NV=nv, MB=mb, TP=tp, CB=channels), steps * mb * tp))
    return min(found, key=lambda f: f[0])[1:] if found else None


def _channels(p: Convolution, v: Vector, t: Numbers, nv: int) -> int:
    """Channels whose weights are packed at once, whole vectors of them."""
    each = nv * v.lanes * p.k * v.itemsize
    return min(max(v.lanes, t["deep_block"] // each // v.lanes * v.lanes), up(p.c, v.lanes))


def _meeting(p: Convolution, axis: int, at: int) -> int:
    """Taps along an axis that meet data, of a result."""
    first = at * p.step[axis] + p.least[axis]
    return sum(0 <= first + i * p.dilation[axis] < p.data[axis] for i in range(p.size[axis]))


def _stages(p: Convolution, device: Device, v: Vector, tile: Macros) -> list[Stage]:
    blocks, panels = ceil(p.n / tile["MB"]), ceil(p.o / (tile["NV"] * v.lanes))
    window = {"KY": p.size[1], "KX": p.size[2], "DIL_Y": p.dilation[1], "DIL_X": p.dilation[2],
              "FLIP": int(p.transposed)}
    common = {**p.forward(device), **p.tables(1), **tile, **window}
    scratch = {"placed": p.groups * blocks * tile["MB"] * p.c * p.data[1] * p.pitch * v.itemsize}
    return [Stage("deep_place", {**common, "VARIANT": "PLACE", "CHUNK": CHUNK}, (ceil(p.c / CHUNK), blocks, p.groups),
                  (1, 1, 1), lanes=v.lanes, scratch=scratch, final=False, file=FILE),
            Stage("conv_deep", {**common, "VARIANT": "CONV"}, (panels, p.groups), (1, 1), domain=p.domain,
                  lanes=v.lanes, scratch=scratch, file=FILE)]
