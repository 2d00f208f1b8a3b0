"""Where the values of a plan lie: addresses, and places in the arena for slots that are held for a while each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SLOT = 512  # [bytes] slots start at multiples of this: every device's alignment divides it
TIGHT = 1.01  # times the least possible that an arena may take without another order being tried
TRIES, PLACED = 24, 1200  # orders that are tried, and slots that are placed for that in all


class Address(NamedTuple):
    """Where a value lives: "leaf", "out" or "slot" with its number, or "arena" with a byte offset; plus an element
    offset. A slot's place in the arena is known once all are laid.
    """

    kind: str
    number: int
    offset: int = 0

    def start(self, itemsize: int) -> int:
        """[bytes] from the start of its buffer, for elements of this size."""
        return self.offset * itemsize + (self.number if self.kind == "arena" else 0)

    def laid(self, starts: Sequence[int]) -> Address:
        """Of a slot the address in the arena, where slots start there."""
        return Address("arena", starts[self.number], self.offset) if self.kind == "slot" else self

    def __str__(self) -> str:
        return f"{self.kind}[{self.number}]" + (f"+{self.offset}" if self.offset else "")


class Piece(NamedTuple):
    """A part of a slot: where it begins in it, how large it is, and the fusion that first writes it."""

    start: int
    nbytes: int
    first: int


class Slot(NamedTuple):
    """What the arena holds of a value, or of temporary memory of a fusion, from one fusion to another; of a
    concatenation whose parts are computed in their places, each from its own fusion on (`pieces`; none: all of it from
    the first).
    """

    nbytes: int
    first: int
    last: int
    pieces: tuple[Piece, ...] = ()

    def rooms(self, size: int) -> list[tuple[int, int, int, int]]:
        """(start, end, first, last) of what it holds, in multiples of SLOT, for this size [bytes]."""
        if not self.pieces:
            return [(0, size, self.first, self.last)]
        return [(p.start // SLOT * SLOT, _whole(p.start + p.nbytes), p.first, self.last) for p in self.pieces]


def _whole(nbytes: int) -> int:
    """The least multiple of SLOT, and one at least, that holds so many bytes."""
    return -(-nbytes // SLOT) * SLOT or SLOT


class Layout(NamedTuple):
    """Where slots lie.

    starts   [bytes] from the arena's start, of each slot
    arena    [bytes] for all of them             least    [bytes] the most that lives at one time: no arena is smaller
    """

    starts: list[int]
    arena: int
    least: int


def layout(slots: Sequence[Slot], sizes: Sequence[int]) -> Layout:
    """Places for slots of these sizes [bytes], each at the lowest offset free during its whole life: big ones first;
    where that takes more than TIGHT of the least possible, the one that ends topmost goes before all others, some
    times, and the best order stays.
    """
    whole = [_whole(size) for size in sizes]
    rooms = [slot.rooms(size) for slot, size in zip(slots, whole, strict=True)]
    order = sorted(range(len(whole)), key=lambda k: (-whole[k], slots[k].first))
    least, best = _live(rooms), None
    for _ in range(max(1, min(TRIES, PLACED // max(len(whole), 1)))):
        at = _placed(rooms, order)
        ends = [a + size for a, size in zip(at, whole, strict=True)]
        arena = max(ends, default=0)
        if best is None or arena < best.arena:
            best = Layout(at, arena, least)
        if arena <= TIGHT * least:
            break
        order.insert(0, order.pop(max(range(len(order)), key=lambda i: ends[order[i]])))
    assert best is not None
    return best


Rooms = Sequence[tuple[int, int, int, int]]


def _live(rooms: Sequence[Rooms]) -> int:
    """[bytes] The most that is held at one time: no arena is smaller."""
    change: dict[int, int] = {}
    for start, end, first, last in (room for some in rooms for room in some):
        change[first] = change.get(first, 0) + end - start
        change[last + 1] = change.get(last + 1, 0) - (end - start)
    return max(itertools.accumulate(change[k] for k in sorted(change)), default=0)


def _placed(rooms: Sequence[Rooms], order: Sequence[int]) -> list[int]:
    """The offsets of slots that are placed in this order."""
    taken, at = _Taken(sum(map(len, rooms))), [0] * len(rooms)
    for k in order:
        at[k] = taken.place(rooms[k])
    return at


class _Taken:
    """Which bytes of an arena are taken when, in arrays: a deep network asks for each of its slots about all others."""

    def __init__(self, most: int) -> None:
        self._count = 0
        self._start, self._end, self._first, self._last = np.zeros((4, most), np.int64)

    def place(self, rooms: Rooms) -> int:
        """The lowest offset at which all of them are free; they are taken from now on."""
        low, high = [], []  # of offsets between which a room would lie where something is
        for start, end, first, last in rooms:
            k = self._count
            beside = np.flatnonzero((self._first[:k] <= last) & (self._last[:k] >= first))
            low.append(self._start[beside] - end)
            high.append(self._end[beside] - start)
        lows, highs = np.concatenate(low), np.concatenate(high)
        order = np.argsort(lows, kind="stable")
        ends = np.maximum.accumulate(np.concatenate([[0], highs[order]]))
        free = np.flatnonzero(ends[:-1] <= lows[order])
        at = int(ends[free[0]] if free.size else ends[-1])
        for start, end, first, last in rooms:
            k = self._count
            self._start[k], self._end[k], self._first[k], self._last[k] = at + start, at + end, first, last
            self._count = k + 1
        return at
