"""Running sums, products and maxima along the last axis on GPUs, tile by tile in local memory (cumulative_gpu.cl)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.size import typical, varies
from ..grid import up
from ..stage import Stage
from ..variant import GPUS_ONLY, Answer, Offer, Refusal, variant
from .cumulative import Running

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "cumulative_gpu.cl"
SMALL, GROUP = 32, 256  # work-items of a group
EACH = 15  # [elements] an item at most
RESIDENT = 8  # groups a compute unit
FREE = frozenset(("A", "N", "SHARE"))
MANY = 1 << 31  # steps: their places fit in 32 bits
WORD = 8  # [bytes] of those by which groups tell each other


@variant("cumulative", cl=FILE, serves="GPUs, the last axis: a work-group walks over a row or a share of one")
def in_tiles(p: Running, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if p.d != 1:
        return Refusal("not the last axis: neighbouring items read neighbours as they are")
    return Offer(lambda: _stages(p, device))


def _stages(p: Running, device: Device) -> list[Stage]:
    n = typical(p.n)
    most = min(GROUP, 1 << (device.max_work_group.bit_length() - 1))
    held = min(EACH, device.local_memory // (8 * most) - 3)  # elements of 8 bytes, and 16 for the sums of an item
    group = next((size for size in (SMALL, 2 * SMALL, 4 * SMALL) if size * held >= n and size < most), most)
    each = max(1, (min(held, -(-n // group) | 1) - 1) // 2 * 2 + 1)
    tile = group * each
    parts = max(1, min(device.compute_units * RESIDENT // max(1, typical(p.a)), n // tile))
    place = "int" if varies(p.n) or p.n < MANY else "long"
    macros = dict(p.macros(device), PLACE=place, PARTS=parts, SHARE=up(-(-p.n // parts), tile), GROUP=group, EACH=each)
    if parts > 1 and p.how != "MAXIMUM" and device.known.words64 and not varies(p.a, p.n):
        return [_chain(p, dict(macros, PARTS=-(-p.n // tile), SHARE=tile, STAGE="CHAIN"))]
    grid = (parts * p.a * group,)
    run = Stage("cumulative_tiles", dict(macros, STAGE="RUN"), grid, (group,), domain=(p.a, p.n, 1), file=FILE,
                scratch=p.scratch(parts), free=FREE)
    fold = Stage("cumulative_tiles", dict(macros, STAGE="FOLD"), grid, (group,), scratch=p.scratch(parts), file=FILE,
                 final=False, free=FREE)
    return [fold, run] if parts > 1 else [run]


def _chain(p: Running, macros: dict[str, Any]) -> Stage:
    """One launch: a group a tile, which is told what comes before it."""
    parts, group = macros["PARTS"], macros["GROUP"]
    told = p.a * (parts + -(-parts // group))  # shares and spans of shares, two words each
    return Stage("cumulative_chain", macros, (parts * p.a * group,), (group,), domain=(p.a, p.n, 1), file=FILE,
                 kept={"chain": WORD * (1 + 2 * told)}, free=FREE)
