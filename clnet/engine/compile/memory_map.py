"""Where every value of a plan lives: results in buffers of their own or over the leaf that they update, all between in
one arena, by how long each is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...core.size import number, varies
from .accesses import in_memory
from .emit import Emitter, Params
from .fusion import Fusion, Map, Schedule
from .index import var
from .layout import Address, Layout, Piece, Slot, layout
from .node import Assembly, Leaf, Node, Pointwise, View
from .reads import base_at
from .sources import Code


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
