"""Where every value of a plan lives: results in buffers of their own or over the leaf that they update, all between in
one arena, by how long each is needed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...core.size import number, varies
from .accesses import in_memory
from .emit import Emitter, Params
from .fusion import Fusion, Map, Schedule
from .index import var
from .node import Assembly, Leaf, Node, Pointwise, View
from .reads import base_at
from .sources import Code

SLOT = 512  # [bytes] slots start at multiples of this: every device's alignment divides it
TIGHT = 1.01  # times the least possible that an arena may take without another order being tried
TRIES, PLACED = 24, 1200  # orders that are tried, and slots that are placed for that in all


@dataclass(frozen=True)
class Address:
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


@dataclass
class MemoryMap:
    """Addresses of nodes and of the temporary memory of fusions, and what has to be allocated.

    slots    what lies in the arena: how large, from which fusion to which
    outputs  address of each output
    blocks   number of a result -> [bytes]       copies   (output, leaf to copy it to, bytes) after the last launch
    """

    parts: Mapping[Node, tuple[Node, int]]
    nodes: dict[Node, Address] = field(default_factory=dict)
    scratch: dict[tuple[Fusion, str], Address] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    outputs: list[Address] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, int, int]] = field(default_factory=list)

    def address(self, n: Node) -> Address:
        """Where n is in memory, through the concatenation of which it is a part, if any."""
        if isinstance(n, Leaf):
            return Address("leaf", n.leaf)
        if n in self.parts:
            whole, at = self.parts[n]
            a = self.address(whole)
            return Address(a.kind, a.number, a.offset + at)
        return self.nodes[n]

    def root(self, n: Node) -> Node:
        """The concatenation in whose memory n is, or n."""
        return self.root(self.parts[n][0]) if n in self.parts else n

    def held(self, slot: Slot) -> Address:
        """The address of one more slot."""
        self.slots.append(slot)
        return Address("slot", len(self.slots) - 1)

    @functools.cached_property
    def layout(self) -> Layout:
        """Where the slots lie for the shape at hand."""
        return layout(self.slots, [number(s.nbytes) for s in self.slots])


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


def memory_map(schedule: Schedule, code: Sequence[Code], into: Mapping[int, int]) -> MemoryMap:
    """Memory for all that the code stores; `into` says which outputs overwrite which leaf."""
    return _Mapper(schedule, code).run(into)


class _Mapper:
    def __init__(self, schedule: Schedule, code: Sequence[Code]) -> None:
        self.schedule, self.code = schedule, code
        self.map = MemoryMap(schedule.parts)

    def run(self, into: Mapping[int, int]) -> MemoryMap:
        values = [base_at(n)[0] if self._aliased(n) else n for n in self.schedule.graph.outputs]
        for k, n in enumerate(values):
            self._output(k, n, into.get(k))
        self._arena()
        self.map.outputs = [self.map.address(n) for n in values]
        return self.map

    def _aliased(self, n: Node) -> bool:
        """Whether n is the memory of what it is a view of."""
        base, identity = base_at(n)
        return isinstance(n, View) and identity and n not in self.schedule.stored and base is not n

    # --- outputs
    def _output(self, k: int, n: Node, leaf: int | None) -> None:
        """Gives output k a buffer of its own, or that of the leaf it overwrites where nobody needs its old value later.
        """
        nodes = self.map.nodes
        if isinstance(n, Leaf):
            if leaf is not None and n.leaf != leaf:
                self.map.copies.append((k, leaf, n.spec.nbytes))
            return
        if leaf is not None and n not in nodes and self._free(n, leaf):
            nodes[n] = Address("leaf", leaf)
            return
        if n not in nodes:
            nodes[n] = Address("out", len(self.map.blocks))
            self.map.blocks[len(self.map.blocks)] = n.spec.nbytes
        if leaf is not None:
            self.map.copies.append((k, leaf, n.spec.nbytes))

    def _free(self, n: Node, leaf: int) -> bool:
        """Whether n may be written over leaf: its readers are done, and a reader in the same fusion
        reads element for element.
        """
        home = self.schedule.home[n]
        target = next(m for m in self.schedule.graph.nodes if isinstance(m, Leaf) and m.leaf == leaf)
        if isinstance(n, Assembly):
            return n not in self.schedule.parts and not any(target in c.reads for c in self.code)
        if n in self.schedule.parts or not isinstance(home, Map):
            return False
        readers = [c.fusion for c in self.code if c.fusion.position >= home.position and target in c.reads]
        if not readers:
            return True
        return (all(fusion is home for fusion in readers) and self._elementwise(home, target)
                and self._read_first(home, n, target))

    def _read_first(self, home: Fusion, n: Node, target: Node) -> bool:
        """Whether all that the fusion takes from the leaf is read before n is written over it. What n itself cannot
        do without is; the rest (of an accumulator that is emptied where its sum goes elsewhere) a compiler may read
        later, for it is told that pointers are to different memory (`restrict`).
        """
        needs, reads = {target}, {target}
        for m in self._inside(home):
            sure = [i in needs for i in m.inputs]
            chosen = isinstance(m, Pointwise) and m.op.name == "where"
            if sure and (sure[0] or all(sure[1:]) if chosen else any(sure)):
                needs.add(m)
            if m is not n and any(i in reads for i in m.inputs):
                reads.add(m)
        return n in needs or not any(m in reads for m in home.stores)

    def _inside(self, fusion: Fusion) -> list[Node]:
        """What it computes, operands first."""
        found: set[Node] = set()
        waiting = list(fusion.stores)
        while waiting:
            m = waiting.pop()
            if m not in found and (m not in self.schedule.stored or self.schedule.home[m] is fusion):
                found.add(m)
                waiting += m.inputs
        return sorted(found, key=lambda m: m.number)

    def _elementwise(self, fusion: Fusion, target: Node) -> bool:
        e = Emitter(Params(), in_memory(self.schedule, fusion))
        flat = var("i", fusion.size)
        for n in fusion.stores:
            e.at(n, flat)
        return all(ld.flat == flat for ld in e.loads if ld.node is target)

    # --- the arena
    def _lives(self) -> dict[Node, tuple[int, int]]:
        """The first and the last fusion that touch each value in between."""
        life: dict[Node, tuple[int, int]] = {}
        for p, code in enumerate(self.code):
            for n in (*code.fusion.stores, *code.reads):
                if not isinstance(n, Leaf):
                    life[n] = life.get(n, (p, p))[0], p
        return life

    def _arena(self) -> None:
        """Slots by liveness."""
        lives = self._lives()
        of: dict[Node, list[Node]] = {}
        for n in lives:
            root = self.map.root(n)
            if not isinstance(root, Leaf) and root not in self.map.nodes:
                of.setdefault(root, []).append(n)
        for root, some in of.items():
            first, last = min(lives[n][0] for n in some), max(lives[n][1] for n in some)
            slot = Slot(root.spec.nbytes, first, last, self._pieces(root, some, lives))
            self.map.nodes[root] = self.map.held(slot)
        for p, code in enumerate(self.code):
            for name, size in (code.sources[0].params.scratch.items() if code.sources else ()):
                self.map.scratch[code.fusion, name] = self.map.held(Slot(size, p, p))

    def _pieces(self, root: Node, some: Sequence[Node], lives: Mapping[Node, tuple[int, int]]) -> tuple[Piece, ...]:
        """Of a concatenation its parts, where all of it is made of them and their places vary with no shape."""
        parts = [n for n in some if n is not root and self.map.parts[n][0] is root]
        if varies(root.spec.nbytes, *(x for n in parts for x in (n.spec.nbytes, self.map.parts[n][1]))):
            return ()
        item = root.spec.nbytes // max(root.size, 1)
        found = [Piece(self.map.parts[n][1] * item, n.spec.nbytes, lives[n][0]) for n in parts]
        return tuple(found) if sum(p.nbytes for p in found) == root.spec.nbytes else ()
