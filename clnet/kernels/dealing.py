"""How a grid of work-items is dealt to the cores of a CPU: when the last of them is done, as a share of all work."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log2

PAIRED = 2       # cores up to which was measured what neighbours in a row cost each other
# Of many cores; measured on sixteen of a Xeon with Intel's runtime, and on no other number of them.
BEHIND = 0.075   # of its time the slowest core is behind, for each doubling of cores
KEPT = 2         # work-items of one core that no other takes over


def share(across: float, down: float, batch: int, cores: int, wanted: int) -> float:
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
