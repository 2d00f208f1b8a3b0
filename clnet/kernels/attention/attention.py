"""Attention on CPUs (attention.cl): chunks of queries over cores. Sizes in elements unless said otherwise."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any

from ...core.size import bounded, larger, smaller, typical, varies
from ..grid import up
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, variant
from .problem import FREE, Attention, plain

if TYPE_CHECKING:
    from ...engine.device.devices import Device

PRIVATE = 112 * 1024  # [floats] blocks of a work-item: what leaves half of a 1 MB second-level cache free
# [floats] of them for the gradient of queries, up to which one pass over the keys gives all three gradients
KEEP = 48 * 1024
BLOCK = 64  # queries and keys of a block of the gradients, up to whole register tiles
KEYS = 256  # keys of a block forward
CHUNK = 256  # queries of a work-item forward
WIDEST = 256  # features of a head: beyond, blocks run out


@variant("attention", cl="attention.cl", rank=2,
         serves="CPUs: float32, up to 256 features, with or without a mask, or packed")
def on_cores(p: Attention, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    return plain(p, WIDEST) or Offer(lambda: _backward(p, device) if p.backward else [_forward(p, device)])


def _forward(p: Attention, device: Device) -> Stage:
    mr, nr = _tile(device)
    t = p.t if p.offsets is None else typical(p.t)  # packed: parts of one size, whatever there is in all
    worth = larger(2 * mr, p.n * p.h * t // (4 * device.compute_units))
    chunk, keys = up(smaller(CHUNK, smaller(t, worth)), mr), up(min(KEYS, _most(p.s, KEYS)), nr)
    most = up(min(CHUNK, _most(p.t, CHUNK)), mr) if varies(chunk) else chunk
    while keys > nr and (most + keys) * (p.d + p.e) > PRIVATE:
        most, keys = max(mr, up(most // 2, mr)), max(nr, up(keys // 2, nr))
    chunk = smaller(chunk, most)
    return _stage(p, device, (p.parts(p.t, chunk), p.n * p.h), most, ROWS=chunk, BC=keys)


def _backward(p: Attention, device: Device) -> list[Stage]:
    """One launch, or two where heads are few or long: for the queries' gradient, and for the keys' and values'."""
    mr, nr = _tile(device)
    groups, parts = typical(p.n * p.hk), larger(1, 4 * device.compute_units // (p.n * p.hk))
    t, s, floats = typical(p.t), typical(p.s), (p.h // p.hk) * p.d
    rows, keys = up(min(BLOCK, _most(p.t, BLOCK)), mr), up(min(BLOCK, _most(p.s, BLOCK)), lcm(mr, nr))

    def stage(gradients: int, part: int, most: int, count: int) -> Stage:
        return _stage(p, device, (count, p.n * p.hk), most, BR=rows, BC=keys, GRADIENTS=gradients, ROWS=part)

    if p.offsets is not None:  # sequences are parts already
        part, part_keys = up(min(CHUNK, max(1, KEEP // (2 * floats))), rows), up(CHUNK, keys)
        return [stage(1, part, part, p.parts(p.t, part)), stage(2, part_keys, keys, p.parts(p.s, part_keys))]
    if (bounded(p.t) and up(t, rows) * floats <= KEEP
            and (groups >= 2 * device.compute_units or max(t, s) <= 2 * BLOCK)):
        return [stage(3, up(t, rows), up(t, rows), 1)]
    most = up(max(1, KEEP // (2 * floats)), rows) if t > rows else rows
    part = smaller(most, up(-(-p.t // parts), rows))
    part_keys = smaller(up(-(-p.s // parts), keys), up(p.s, keys))
    return [stage(1, part, most, -(-p.t // part)), stage(2, part_keys, keys, -(-p.s // part_keys))]


def _most(n: int, enough: int) -> int:
    """A number that n is not above, or `enough` where there is none."""
    return typical(n) if bounded(n) else enough


def _stage(p: Attention, device: Device, grid: tuple[int, int], most: int, **blocks: int) -> Stage:
    defines: dict[str, Any] = {**p.macros, "MR": _tile(device)[0], "USE_FMA": int(device.has_fma), **blocks}
    if varies(blocks["ROWS"]):
        defines["MOST_ROWS"] = most
    return Stage(p.kernel, defines, grid, (1, 1), domain=p.domain, lanes=device.vector_width, note=p.note,
                 free=FREE | {"ROWS"})


def _tile(device: Device) -> tuple[int, int]:
    """(rows of the register tile, keys of a panel): 16 sums where vectors are 64 bytes and registers 32, else 12."""
    lanes = device.vector_width
    return (8 if lanes >= 16 else min(6, lanes)), 2 * lanes
