"""Rows put in order on GPUs, tile by tile in local memory (sort_gpu.cl)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.size import varies
from ..grid import up
from ..stage import Stage
from ..variant import GPUS_ONLY, Answer, Offer, Refusal, variant
from .sort import Sort

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "sort_gpu.cl"
GROUP = 256  # work-items of a group
EACH = 15  # [elements] an item at most: its counts are fields of 4 bits
SPARE = 2048  # [bytes] of local memory for sums and places
ROOM = 48 * 1024  # [bytes] of it that a group takes at most, so that several share a compute unit
FREE = frozenset(("ROWS", "N", "PARTS", "HELD"))
RESIDENT = 4  # groups a compute unit that count all digits
WORD = 8  # [bytes] of those by which groups tell each other
MANY = 1 << 31  # elements: they tell counts in 31 bits


def group_size(device: Device) -> int:
    """Work-items of a group."""
    return int(min(GROUP, 1 << (device.max_work_group.bit_length() - 1)))


def _each(p: Sort, device: Device, most: int = EACH) -> int:
    """Elements an item: odd, as many as local memory and the counts have room for, no more than `most`."""
    room = (min(device.local_memory, ROOM) - SPARE) // (group_size(device) * p.item)
    return max(1, (min(EACH, room, most) - 1) // 2 * 2 + 1)


def _short(p: Sort, device: Device) -> bool:
    """Whether a tile has room for a row."""
    return bool(p.n <= group_size(device) * _each(p, device))


@variant("sort", cl=FILE, serves="GPUs, rows that a tile has room for: a work-group sorts one or several")
def whole_rows(p: Sort, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if not _short(p, device):
        return Refusal("rows longer than a tile of local memory")
    return Offer(lambda: [_rows_stage(p, device)])


def _rows_stage(p: Sort, device: Device, source: int = 0, scratch: dict[str, int] | None = None) -> Stage:
    """The rows, or the first k of each; of candidates, which know their numbers in longer rows, one row a group."""
    group = group_size(device)
    shared = not source and 2 * p.n <= group * _each(_paired(p), device)
    if shared:
        p = _paired(p)
    each = _each(p, device) if shared or varies(p.n) else _each(p, device, -(-p.n // group) | 1)
    held = group * each // p.n if shared else 1
    digits = 0 if not shared else 3 if varies(held) else -(-held.bit_length() // 4)
    macros = dict(_macros(p, device, each), STAGE="WHOLE", K=p.k or p.n, HELD=held, SHARED=int(shared),
                  ROW_DIGITS=digits, SOURCE=source, CANDIDATES=0, PARTS=1)
    return Stage("sort_tiles", macros, (group * -(-p.rows // held),), (group,), domain=p.domain, file=FILE,
                 scratch=scratch or {}, free=FREE if p.k else FREE | {"K"})


def _paired(p: Sort) -> Sort:
    """The same with numbers beside the elements: of several rows in a tile each knows its own."""
    return replace(p, paired=True)


def _macros(p: Sort, device: Device, each: int) -> dict[str, Any]:
    return dict(p.macros, GROUP=group_size(device), EACH=each, WIDE=_wide(device))


def _wide(device: Device) -> int:
    """[bits] of a digit by which long rows are moved: a work-item for each of its values."""
    return 8 if group_size(device) >= 256 else 4


@variant("sort", cl=FILE, serves="GPUs, longer rows: tiles in order by a digit, then moved, digit by digit")
def by_tiles(p: Sort, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if _short(p, device):
        return Refusal("a tile has room for a row")
    return Offer(lambda: _digit_stages(p, device))


def _digit_stages(p: Sort, device: Device) -> list[Stage]:
    group, each, wide = group_size(device), _each(p, device), _wide(device)
    parts = -(-p.n // (group * each))
    room = p.rows * p.n * p.item
    scratch = {"first": room, "second": room, "counts": p.rows * parts * (4 << wide), "totals": p.rows * (4 << wide)}
    if device.known.words64 and not varies(p.rows, p.n) and p.n < MANY:
        return _sweeps(p, device, dict(_macros(p, device, each), PARTS=parts), {"first": room, "second": room})
    shifts = range(0, 8 * p.bytes, wide)
    stages: list[Stage] = []
    for k, shift in enumerate(shifts):
        last = k == len(shifts) - 1
        macros = dict(_macros(p, device, each), PARTS=parts, SHIFT=shift, SOURCE=0 if k == 0 else 2 - k % 2,
                      LAST=int(last))
        tiles, digits = (parts * p.rows * group,), ((p.rows << wide) * group,)
        stages += [Stage("count_digits", dict(macros, STAGE="COUNT"), tiles, (group,), scratch=scratch, final=False,
                         file=FILE, free=FREE),
                   Stage("add_counts", dict(macros, STAGE="ADD", SHIFT=0, SOURCE=0, LAST=0), digits, (group,),
                         scratch=scratch, final=False, file=FILE, free=FREE),
                   Stage("move_tiles", dict(macros, STAGE="MOVE"), tiles, (group,), domain=p.domain if last else (),
                         scratch=scratch, final=last, file=FILE, free=FREE)]
    return stages


def _sweeps(p: Sort, device: Device, macros: dict[str, Any], scratch: dict[str, int]) -> list[Stage]:
    """All digits counted at once, then a launch for each: groups are told what comes before their tiles."""
    group, parts, wide = macros["GROUP"], macros["PARTS"], macros["WIDE"]
    passes, walkers = 8 * p.bytes // wide, max(1, min(parts, device.compute_units * RESIDENT // p.rows))
    totals = p.rows * passes << wide
    macros, scratch = macros | dict(PASSES=passes, WALKERS=walkers), scratch | {"totals": 4 * totals}
    stages = [Stage("clear_totals", dict(macros, STAGE="CLEAR"), (up(totals, group),), (group,), scratch=scratch,
                    final=False, file=FILE, free=FREE),
              Stage("count_all_digits", dict(macros, STAGE="TOTAL", SOURCE=0), (walkers * p.rows * group,), (group,),
                    scratch=scratch, final=False, file=FILE, free=FREE)]
    for k in range(passes):
        last = k == passes - 1
        sources = dict(STAGE="SWEEP", SHIFT=k * wide, SOURCE=0 if k == 0 else 2 - k % 2, LAST=int(last))
        stages.append(Stage("move_tiles", macros | sources, (parts * p.rows * group,), (group,),
                            domain=p.domain if last else (), scratch=scratch, final=last, file=FILE, free=FREE,
                            kept={"chain": WORD * (1 + (p.rows * parts << wide))}))
    return stages


@variant("top", cl=FILE, rank=1, serves="GPUs: the first few of every tile, then the first few of those")
def top_of_tiles(p: Sort, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if not _short(p, device) and 2 * p.k > group_size(device) * _each(p, device):
        return Refusal("more elements are wanted than half a tile: rows are sorted whole")
    return Offer(lambda: _top_stages(p, device))


def _top_stages(p: Sort, device: Device) -> list[Stage]:
    group, each, stages, source = group_size(device), _each(p, device), list[Stage](), 0
    first, n = -(-p.n // (group * each)), p.n
    room = p.rows * first * p.k * p.item
    scratch = {} if _short(p, device) else {"first": room, "second": room}
    while n > group * each:
        parts = -(-n // (group * each))
        macros = dict(_macros(p, device, each), STAGE="WHOLE", N=n, K=p.k, HELD=1, SHARED=0, ROW_DIGITS=0,
                      SOURCE=source, CANDIDATES=1, PARTS=parts)
        stages.append(Stage("sort_tiles", macros, (parts * p.rows * group,), (group,), scratch=scratch, final=False,
                            file=FILE, free=FREE))
        source, n = 2 if source == 1 else 1, parts * p.k
    return [*stages, _rows_stage(replace(p, n=n), device, source, scratch)]
