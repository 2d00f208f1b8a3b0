"""Which fusions are equal but for the memory that they work on: what is written for one serves all of them.

A network's layers repeat, and their weights are parts of one vector of parameters. A fusion's structure is all that its
kernels are written from: its nodes down to those in memory, by numbers in place of names, and of such *windows* into a
node in memory what alignment says of where they begin; the place itself is an argument.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from ...core.size import common_divisor
from ...kernels.operand import row_major
from .accesses import alignment, in_memory
from .emit import OperandParam, Params
from .frozen import frozen
from .fusion import Fusion, Schedule
from .node import COPY, Kernel, Node, View
from .reads import ALIGNED
from .source import Source

Window = tuple[Node, int]
RELAID = {"reshape", "permute", "expand"}  # views that begin where what they show begins


class Structure:
    """`key` is equal for fusions of equal kernels; `nodes` and `windows` are what they differ in, in one order."""

    def __init__(self, schedule: Schedule, fusion: Fusion) -> None:
        self.schedule, self.stores = schedule, set(fusion.stores)
        self.in_memory = in_memory(schedule, fusion)
        self.nodes: list[Node] = []
        self.windows: dict[Window, int] = {}
        self._numbers: dict[Node, int] = {}
        self._rows: list[Hashable] = []
        self._shifted: set[Node] = set()  # below views that read it from elsewhere than where it or a window begins
        ends = [tuple(self._number(n) for n in nodes) for nodes in (fusion.cores, fusion.stores)]
        self.key: tuple[object, ...] = (type(fusion), fusion.domain, fusion.size, *ends, *self._rows)

    def _number(self, node: Node) -> int:
        if node not in self._numbers:
            row = self._row(node)
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
            self._rows.append(row)
        return self._numbers[node]

    def _row(self, node: Node) -> Hashable:
        stored = self.in_memory(node)
        place = alignment(self.schedule, node) if stored or node in self.stores else 0
        if stored and not isinstance(node, View):
            return node.spec, place
        attrs = {k: v for k, v in node.attrs.items() if k != COPY}
        if isinstance(node, View) and node.op.name not in RELAID:
            self._shift(node)
        return (type(node), node.op and node.op.key, frozen(attrs), node.spec, stored, place, _stages(node),
                *(self._read(i) for i in node.inputs))

    def _read(self, node: Node) -> Hashable:
        """What a node that is read is, and how it lies there."""
        views, below = list[Hashable](), node
        while isinstance(below, View) and below.op.name in RELAID and not self.in_memory(below):
            views.append((below.op.name, below.shape))
            views.append(frozen(below.attrs))
            below = below.inputs[0]
        if isinstance(below, View) and below.op.name == "crop" and not self.in_memory(below):
            base = below.inputs[0]
            if self.in_memory(base) and not isinstance(base, View):
                start = sum(a * s for a, s in zip(below.attrs["start"], row_major(base.shape), strict=True))
                number = self.windows.setdefault((base, start), len(self.windows))
                return (*views, below.shape, frozen(below.attrs["step"]), self._number(base), number, start > 0,
                        common_divisor(start, ALIGNED))
        return self._number(node)

    def _shift(self, view: Node) -> None:
        """Notes what is in memory below a view that reads it elsewhere: where it begins is part of the text there."""
        todo = [view]
        while todo:
            for i in todo.pop().inputs:
                if i not in self._shifted:
                    self._shifted.add(i)
                    todo += [] if self.in_memory(i) else [i]

    # --- what was written for one, for another
    def serves(self, sources: list[Source]) -> bool:
        """Whether these sources of its own, which read windows, begin at places that are arguments and nothing else."""
        bases = {base for base, _ in self.windows}
        if bases & self._shifted:
            return False
        reads = [_place(r) for s in sources for r in s.params.reads]
        return all(base not in bases or not start or (base, start) in self.windows for base, start in reads)

    def adapted(self, sources: list[Source], first: Structure) -> list[Source]:
        """The sources of `first`, which is equal, with what is read and written here."""
        nodes = dict(zip(first.nodes, self.nodes, strict=True))
        windows = dict(zip(first.windows, self.windows, strict=True))

        def read(r: Node | OperandParam) -> Node | OperandParam:
            base, start = windows.get(_place(r)) or (nodes[_place(r)[0]], _place(r)[1])
            if isinstance(r, OperandParam):
                return OperandParam(base, r.name, start)
            return base

        return [replace(s, params=Params({read(r): p for r, p in s.params.reads.items()},
                                         {nodes[n]: p for n, p in s.params.writes.items()},
                                         s.params.scalars, s.params.scratch, s.params.kept)) for s in sources]


def _stages(node: Node) -> Hashable:
    """What the kernels of a core are asked for, and whether they compute a twin too."""
    if not isinstance(node, Kernel):
        return None
    return node.stages.key, node.twin and node.twin.spec


def _place(read: Node | OperandParam) -> Window:
    return (read.node, read.offset) if isinstance(read, OperandParam) else (read, 0)
