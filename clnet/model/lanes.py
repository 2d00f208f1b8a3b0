"""Where boxes that read each other stand: in rows, what is read above what reads it, and in lanes side by side. What is
too long is folded into columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Lanes:
    """row: of each box; lane: of each box, and of each edge that passes rows between its ends."""

    row: dict[Any, int]
    lane: dict[Hashable, int]
    rows: int
    taken: set[tuple[int, int]] = field(default_factory=set)

    def free(self, rows: Iterable[int], sides: Sequence[int]) -> int:
        """The first of these lanes that is free in all of the rows; it is taken from then on."""
        rows = list(rows)
        lane = next(k for k in sides if not any((r, k) in self.taken for r in rows))
        self.taken |= {(r, lane) for r in rows}
        return lane


def lanes(boxes: Sequence[Any]) -> Lanes:
    """The longest way through stands in lane 0, straight; what lies beside it, layers as well as edges that pass them,
    in the nearest lane that is free, right or left.

    boxes   in an order in which each stands behind its `inputs`
    """
    row: dict[Any, int] = {}
    for b in boxes:
        row[b] = 1 + max((row[i] for i in b.inputs), default=-1)
    for b in reversed(boxes):  # what nothing is above goes down to its first reader
        if not b.inputs and (readers := [row[r] for r in boxes if b in r.inputs]):
            row[b] = max(0, min(readers) - 1)
    found = Lanes(row, {}, 1 + max(row.values()))
    near = sorted(range(-len(boxes), len(boxes) + 1), key=lambda k: (abs(k), -k))
    for way in _ways(boxes, row):
        spans = range(row[way[0]], row[way[-1]] + 1)
        lane = found.free(spans, near)
        found.lane |= dict.fromkeys([*way, *itertools.pairwise(way)], lane)
    edges = [(i, b) for b in boxes for i in b.inputs if row[b] - row[i] > 1 and (i, b) not in found.lane]
    for a, b in sorted(edges, key=lambda e: row[e[1]] - row[e[0]]):
        between = range(row[a] + 1, row[b])
        own = (found.lane[a], found.lane[b])
        straight = [k for k in dict.fromkeys(own) if not any((r, k) in found.taken for r in between)]
        sides = sorted(near, key=lambda k: (min(abs(k - o) for o in own), -k))
        found.lane[a, b] = found.free(between, [*straight, *sides])
    return found


def _ways(boxes: Sequence[Any], row: dict[Any, int]) -> list[list[Any]]:
    """The boxes in ways from top to bottom, each the longest through those that are left."""
    left, ways = list(boxes), []
    while left:
        length: dict[Any, tuple[int, Any]] = {}
        inside = set(left)
        for b in left:
            length[b] = max(((length[i][0] + 1, i) for i in b.inputs if i in inside), key=lambda n: n[0],
                            default=(1, None))
        now: Any = max(left, key=lambda b: (length[b][0], -row[b]))
        way = []
        while now is not None:
            way.append(now)
            now = length[now][1]
        ways.append(way[::-1])
        left = [b for b in left if b not in set(way)]
    return ways


def cuts(found: Lanes, boxes: Sequence[Any], columns: int) -> list[int]:
    """The rows at which columns begin: near equal parts, where the fewest edges are cut."""
    begins, slack = [0], max(1, found.rows // columns // 4)
    for k in range(1, columns):
        wanted = round(k * found.rows / columns)
        near = [r for r in range(wanted - slack, wanted + slack + 1) if begins[-1] + 1 < r < found.rows - 1]
        if near:
            begins.append(min(near, key=lambda r: (_cut(found, boxes, r), abs(r - wanted))))
    return begins


def _cut(found: Lanes, boxes: Sequence[Any], row: int) -> int:
    """Of how many boxes edges enter a row."""
    return len({i for b in boxes if found.row[b] >= row for i in b.inputs if found.row[i] < row})


def crossings(found: Lanes, boxes: Sequence[Any]) -> list[int]:
    """How many edges enter each row from above."""
    crossing = [0] * (found.rows + 1)
    for b in boxes:
        for i in b.inputs:
            for r in range(found.row[i] + 1, found.row[b] + 1):
                crossing[r] += 1
    return crossing
