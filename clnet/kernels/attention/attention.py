"""Attention on CPUs (attention.cl): chunks of queries over cores. Sizes in elements unless said otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..grid import up
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, variant
from .problem import Attention, plain

if TYPE_CHECKING:
    from ...engine.device.devices import Device

PRIVATE = 112 * 1024  # [floats] blocks of a work-item: what leaves half of a 1 MB second-level cache free
# [floats] of them for the gradient of queries, up to which one pass over the keys gives all three gradients
KEEP = 48 * 1024
BLOCK = 64  # queries and keys of a block of the gradients
KEYS = 256  # keys of a block forward
CHUNK = 256  # queries of a work-item forward
WIDEST = 256  # features of a head: beyond, blocks run out


@variant("attention", cl="attention.cl", serves="CPUs: float32, up to 256 features, with or without a mask", rank=2)
def on_cores(p: Attention, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    return plain(p, WIDEST) or Offer(lambda: _backward(p, device) if p.backward else [_forward(p, device)])


def _forward(p: Attention, device: Device) -> Stage:
    mr, nr = _tile(device)
    chunk = up(min(CHUNK, p.t, max(2 * mr, p.n * p.h * p.t // (4 * device.compute_units))), mr)
    keys = up(min(KEYS, p.s), nr)
    while keys > nr and (chunk + keys) * (p.d + p.e) > PRIVATE:
        chunk, keys = max(mr, up(chunk // 2, mr)), max(nr, up(keys // 2, nr))
    return _stage(p, device, (-(-p.t // chunk), p.n * p.h), ROWS=chunk, BC=keys)


def _backward(p: Attention, device: Device) -> list[Stage]:
    """One launch, or two where heads are few or long: for the queries' gradient, and for the keys' and values'."""
    mr, nr = _tile(device)
    groups, parts = p.n * p.hk, max(1, 4 * device.compute_units // (p.n * p.hk))
    rows, keys, floats = up(min(BLOCK, p.t), mr), up(min(BLOCK, p.s), nr), (p.h // p.hk) * p.d

    def stage(gradients: int, part: int, count: int) -> Stage:
        return _stage(p, device, (count, groups), BR=rows, BC=keys, GRADIENTS=gradients, ROWS=part)

    if up(p.t, rows) * floats <= KEEP and (groups >= 2 * device.compute_units or max(p.t, p.s) <= 2 * BLOCK):
        return [stage(3, up(p.t, rows), 1)]
    part = up(max(1, KEEP // (2 * floats)), rows) if p.t > rows else rows
    part = min(part, up(-(-p.t // parts), rows))
    part_keys = min(up(-(-p.s // parts), keys), up(p.s, keys))
    return [stage(1, part, -(-p.t // part)), stage(2, part_keys, -(-p.s // part_keys))]


def _stage(p: Attention, device: Device, grid: tuple[int, int], **blocks: int) -> Stage:
    defines: dict[str, Any] = {**p.macros, "MR": _tile(device)[0], "USE_FMA": int(device.has_fma), **blocks}
    return Stage(p.kernel, defines, grid, (1, 1), domain=p.domain, lanes=device.vector_width, note=p.note)


def _tile(device: Device) -> tuple[int, int]:
    """(rows of the register tile, keys of a panel): 16 sums where vectors are 64 bytes and registers 32, else 8."""
    lanes = device.vector_width
    return min(8 if lanes >= 16 else 4, lanes), 2 * lanes
