"""How a product's macro tiles are dealt to the cores of a CPU: how many rows and columns a work-item gets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, log2

from .problem import Pair

PAIRED = 2       # cores up to which was measured what neighbours in a row cost each other
IDLE = 1.1       # times as long, where a core has nothing to do
SLACK = 0.05     # of the time more, for each halving of the work-items that uneven cores want
# Of many cores; measured on sixteen of a Xeon with Intel's runtime, and on no other number of them.
BEHIND = 0.075   # of its time the slowest core is behind, for each doubling of cores
KEPT = 2         # work-items of one core that no other takes over

ROW_TILES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # work-items that rows are divided into


def split(panels: float, row_tiles: float, panels_most: int, rows_most: int, wanted: int, cores: int, batch: int,
          cost: float, item_cost: float, panel_pack: float, row_pack: float, shared: Pair,
          edge: Pair) -> tuple[float, int, int]:
    """Cycles, and (panels, row tiles) of a work-item:
    the shortest time of the busiest core, each of them packing its columns and rows. The last of all may be in part.

    `wanted`: work-items that a core should have, since cores are uneven. `shared`, `edge`: cycles a row tile where
    columns are divided, and a panel where rows are; `edge` where neighbours are at work at one time, since each core
    has one work-item.
    """
    best: tuple[float, int, int, int] | None = None
    for across, down in _divisions(panels, row_tiles, panels_most, rows_most):
        count = ceil(panels / across) * ceil(row_tiles / down) * batch
        alone = count <= cores
        time = (cost * batch * _share(panels / across, row_tiles / down, batch, cores, wanted)
                + ceil(count / cores) * (item_cost + across * panel_pack + down * row_pack
                                         + down * (shared[0] + alone * edge[0]) * (across < panels)
                                         + across * (shared[1] + alone * edge[1]) * (down < row_tiles)))
        if count < cores:
            time *= IDLE
        if cores <= PAIRED:
            time *= 1 + SLACK * log2(max(1, cores * wanted / count))
        best = min(best, (time, count, across, down)) if best else (time, count, across, down)
    assert best is not None
    return best[0], *best[2:]


def _divisions(panels: float, row_tiles: float, panels_most: int, rows_most: int) -> Iterator[Pair]:
    """(panels, row tiles) of a work-item: for each number of work-items across the fewest panels that make so many."""
    widths = [1]
    while (count := ceil(panels / widths[-1])) > 1:
        widths.append(max(widths[-1] + 1, ceil(panels / (count - 1))))
    for down in sorted({ceil(ceil(row_tiles) / p) for p in ROW_TILES} | {rows_most}):
        if down <= rows_most:
            yield from ((across, down) for across in widths if across <= panels_most)


def _share(across: float, down: float, batch: int, cores: int, wanted: int) -> float:
    """The share of all work in whose time the last core is done. The slowest of many cores is behind; where each has
    more than two work-items, others take over from it, and all end within one of them: half of one later at the mean,
    where four are `wanted`. Where one is, cores count as even.
    """
    if cores <= PAIRED:
        return busiest(across, down, batch, cores)
    item, most = 1 / (max(across, 1) * max(down, 1) * batch), _most(ceil(down), ceil(across), batch, cores)
    if most <= KEPT:
        return most * item * (1 + BEHIND * log2(cores) * (wanted > 1))
    if wanted == 1:
        return busiest(across, down, batch, cores)
    return (1 + (cores - 1) * item * wanted / 8) / cores


@lru_cache(4096)
def _most(down: int, across: int, batch: int, cores: int) -> int:
    """The most work-items that a core gets, where a grid is halved along its longest side until each core has a part
    (Intel's runtime, by TBB; others are taken to be no better): 16 cores get two at most of 3 by 8, but one of 4 by 4,
    and four of 6 by 6.
    """
    count = down * across * batch
    if cores <= 1 or count == 1:
        return count
    longest, *others = sorted((down, across, batch), reverse=True)
    return _most(longest - longest // 2, *others, ceil(cores / 2))


def busiest(across: float, down: float, batch: int, cores: int) -> float:
    """The share of all work that the busiest core has, of so many work-items each way, the last of which are in part:
    whole ones by turns; cut ones take no time where a core has none of the last turn, else no more than whole ones
    would, and Graham's bound (1969) holds.
    """
    across, down = max(across, 1), max(down, 1)
    item, whole = 1 / (across * down * batch), int(across) * int(down) * batch
    turns, left = ceil(whole / cores), item * max(across % 1, down % 1)
    all_turns = ceil(ceil(across) * ceil(down) * batch / cores)
    return max(turns * item, min(all_turns * item, (1 + (cores - 1) * left) / cores))


def least_share(panels: float, tiles: float, batch: int, cores: int) -> float:
    """The least share that the busiest core can have where panels, or tiles of rows, or both are dealt to cores. One
    tile stays with one core: a second one comes too late for half of it.
    """
    if ceil(panels) * ceil(tiles) * batch == 1:
        return 1 / cores
    return min(busiest(across, down, batch, cores) for across, down in ((panels, 1), (1, tiles), (panels, tiles)))
