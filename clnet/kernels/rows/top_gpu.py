"""The first few elements of long rows on GPUs: bounds that few are within, then those in order (top_gpu.cl)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.size import typical, varies
from ..grid import up
from ..stage import Stage
from ..variant import GPUS_ONLY, Answer, Offer, Refusal, variant
from .sort import Sort
from .sort_gpu import EACH, group_size

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "top_gpu.cl"
MOST = 8192  # wanted elements: how many are less is counted for each of twice as many
WIDE = 12  # [bits] of a digit at most
RESIDENT = 8  # groups a compute unit
SPREAD = 8  # times as many elements as are put in order at least
LANES = 16  # work-items that look for the place of one
BOUNDS, NUMBERS = 32, 32  # [bytes] of Bounds, [bits] of a number at most
FREE = frozenset(("ROWS", "N", "PARTS", "SHARE"))


def _tile(device: Device) -> int:
    return group_size(device) * EACH


def _room(p: Sort, device: Device) -> int:
    """Elements that are put in order at most: twice as many as are wanted, so that bounds need not be close."""
    return max(2 << _tile(device).bit_length(), 1 << (2 * p.k - 1).bit_length())


@variant("top", cl=FILE, serves="GPUs, long rows: counts of digits find bounds, what is within them is put in order")
def by_bounds(p: Sort, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if p.k > MOST:
        return Refusal(f"more than {MOST} elements are wanted")
    if typical(p.rows * p.n) < RESIDENT * device.compute_units * _tile(device):
        return Refusal("too few elements for all of the device")
    if typical(p.n) < SPREAD * _room(p, device):
        return Refusal("rows so short that they fit in few tiles")
    return Offer(lambda: _stages(p, device))


def _stages(p: Sort, device: Device) -> list[Stage]:
    group, tile, room, bits = group_size(device), _tile(device), _room(p, device), 8 * p.bytes
    wide = max(min(WIDE, (device.local_memory // 8).bit_length() - 1), group.bit_length() - 1)
    number_bits = NUMBERS if varies(p.n) else (p.n - 1).bit_length()
    ranks, left = -(-bits // wide), number_bits - room.bit_length() + 2  # half of the room is free for equal elements
    levels = ranks + max(0, -(-left // wide))
    parts = max(1, min(device.compute_units * RESIDENT // typical(p.rows), -(-typical(p.n) // tile)))
    share, lanes = up(-(-p.n // parts), tile), min(LANES, group)
    macros = dict(p.macros, GROUP=group, EACH=EACH, WIDE=wide, K=p.k, ROOM=room, RANKS=ranks, LEVELS=levels,
                  NUMBER_BITS=number_bits, PARTS=parts, SHARE=share, LANES=lanes)
    scratch = {"counts": 4 * p.rows * ((levels << wide) + 1), "bounds": BOUNDS * p.rows * (levels + 1),
               "keys": p.rows * room * p.item}
    grid = (parts * p.rows * group,)

    def stage(kernel: str, kind: str, grid: tuple[int, ...], level: int = 0) -> Stage:
        last = kind == "PLACE"
        return Stage(kernel, dict(macros, STAGE=kind, LEVEL=level), grid, (group,), domain=p.domain if last else (),
                     scratch=scratch, final=last, file=FILE, free=FREE)

    return [stage("clear_counts", "CLEAR", (RESIDENT * device.compute_units * group,)),
            *(stage("top_keys", "COUNT", grid, level) for level in range(levels)),
            stage("top_keys", "COLLECT", grid, levels),
            stage("place_keys", "PLACE", (p.rows * room * lanes,))]
