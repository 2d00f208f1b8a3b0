"""How a product's macro tiles are dealt to the cores of a CPU: how many rows and columns a work-item gets."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2

from ..dealing import PAIRED, share
from .problem import Pair

IDLE = 1.1       # times as long, where a core has nothing to do
SLACK = 0.05     # of the time more, for each halving of the work-items that uneven cores want

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
        time = (cost * batch * share(panels / across, row_tiles / down, batch, cores, wanted)
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
