"""Graph -> launches. Every pointwise node gets a home: the epilogue of the kernel, fold or map that computes its input
where it can, else a map of its own; then it is decided what is stored, what stays in registers and what is recomputed.

Launches are ordered; a node may join an earlier launch only if all it reads is there by then, so there are no cycles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ..op import OPS
from .graph import STRIDED, Graph, Node, contiguous, row_major, strided, through_views
from .index import Flat, Index, var

CHEAP = 10  # a value that costs less than this many additions is recomputed rather than stored


@dataclass(eq=False)
class Launch:
    """One kernel to run (several stages for some kernels): its core, what it stores, what it reads."""

    position: int
    kind: str  # map, reduction, kernel, host
    domain: tuple[int, ...]
    cores: list[Node] = field(default_factory=list)
    stores: list[Node] = field(default_factory=list)
    size: int = 0

    def __repr__(self) -> str:
        names = [n.op.name for n in (self.cores or self.stores) if n.op]
        return f"<{self.kind} {'+'.join(names)} {self.domain} -> {len(self.stores)} outputs>"


@dataclass
class Schedule:
    """Launches in order; `stored` are the nodes with memory; `placed` maps a node to (assemble node, element offset)."""

    graph: Graph
    launches: list[Launch]
    stored: set[Node]
    placed: dict[Node, tuple[Node, int]]
    home: dict[Node, Launch]


def base_at(node: Node, i: Index | None = None) -> tuple[Node, bool]:
    """(first non-view ancestor, whether it is read element for element in row-major order)."""
    flat = var("i", node.size)
    ix, conditions, base = through_views(node, i or Flat(flat).unflatten(node.shape))
    return base, not conditions and base.size == node.size and ix.flatten(base.shape).expr == flat


def operand(n: Node, i: Node) -> tuple[Node, int, tuple[int, ...]]:
    """(node in memory, element offset, strides) through which kernel node n reads its input i."""
    layout = strided(i)
    if layout is not None and ((n.op is not None and n.op.name in STRIDED) or contiguous(i.shape, layout[2])):
        return layout
    return i, 0, row_major(i.shape)


class _Scheduler:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.launches: list[Launch] = []
        self.home: dict[Node, Launch] = {}
        self.must: set[Node] = set()
        self.floating: set[Node] = set()
        self.front = 0
        self.placed: dict[Node, tuple[Node, int]] = {}
        self.cost: dict[Node, int] = {}
        self.bases: dict[Node, list[tuple[Node, bool]]] = {}
        self.uses: dict[Node, int] = defaultdict(int)
        for n in graph.nodes:
            for i in n.inputs:
                self.uses[i] += 1

    def run(self) -> Schedule:
        for n in self.graph.outputs:
            if n.kind != "leaf":
                self.demand(n)
        for n in self.graph.nodes:
            if n.kind == "pointwise":
                self.bases[n] = [base_at(i) for i in n.inputs]
                self.cost[n] = (n.op.cost if n.op else 0) + sum(self._load_cost(i, b) for i, (b, _) in zip(n.inputs, self.bases[n], strict=True))
            if n.kind == "view" and n in self.must:
                self.bases[n] = [base_at(n)]
                self.cost[n] = 1
        for n in list(self.graph.nodes):  # assembling adds copies, with homes of their own
            self.assign(n)
        for n in self.floating.copy():
            self.ground(n)
        stored = self.decide()
        launches = sorted((launch for launch in self.launches if launch.stores), key=lambda launch: launch.position)  # the rest was recomputed elsewhere
        for position, launch in enumerate(launches):
            launch.position = position
        return Schedule(self.graph, launches, stored, self.placed, self.home)

    def demand(self, n: Node) -> None:
        """n must be in memory, contiguous."""
        self.must.add(n)

    def _load_cost(self, i: Node, base: Node) -> int:
        if base.kind == "pointwise" and base in self.cost:
            return 1 if self.uses[base] > 1 and self.cost[base] > CHEAP else self.cost[base]
        return 1

    # --- homes
    def assign(self, n: Node) -> None:
        kind = n.kind
        if kind in ("kernel", "host"):
            self._operands(n)
            self._new(n, kind, n.shape)
        elif kind == "reduction":
            self._reduction(n)
        elif kind == "assemble":
            self._assemble(n)
        elif kind == "pointwise" or (kind == "view" and n in self.must):
            self._join(n)

    def _new(self, n: Node, kind: str, domain: tuple[int, ...], *, front: bool = False) -> Launch:
        self.front -= front
        launch = Launch(self.front if front else len(self.launches), kind, domain, size=n.size)
        if kind != "map":
            launch.cores.append(n)
        self.launches.append(launch)
        self.home[n] = launch
        return launch

    def _operands(self, n: Node) -> None:
        """A kernel reads memory: its operands are leaves, stored nodes, or strided views of those."""
        for i in n.inputs:
            base = operand(n, i)[0]
            if base.kind != "leaf":
                self.demand_late(base)

    def demand_late(self, n: Node) -> None:
        """Like demand, for a node that has been visited: a view or constant gets a copy of its own now."""
        self.must.add(n)
        if n in self.floating:
            self.ground(n)
        elif n not in self.home and n.kind in ("view", "pointwise"):
            self.bases.setdefault(n, [base_at(n)] if n.kind == "view" else [base_at(i) for i in n.inputs])
            self.cost.setdefault(n, 1)
            self._join(n)

    def _reduction(self, n: Node) -> None:
        axes, shape = n.attrs["axes"], n.inputs[0].shape
        source = base_at(n.inputs[0])[0]
        if source in self.floating:
            self.ground(source)
        for launch in self.launches:
            alike = launch.kind == "reduction" and launch.cores[0].attrs["axes"] == axes and launch.cores[0].inputs[0].shape == shape
            if alike and self.ready(source, launch.position):
                launch.cores.append(n)
                self.home[n] = launch
                return
        self._new(n, "reduction", shape)

    def ready(self, base: Node, position: int) -> bool:
        """Whether a launch at `position` can read base from memory or recompute it."""
        if base.kind == "leaf" or (base.kind == "pointwise" and not base.inputs):
            return True
        if base in self.floating:
            self.ground(base)
        return base in self.home and self.home[base].position < position

    def _join(self, n: Node) -> None:
        """The latest launch that computes an input of n element for element, if everything else n reads is there by then."""
        bases = self.bases[n]
        if n not in self.must and all(b.kind == "leaf" or not b.inputs or (identity and b in self.floating) for b, identity in bases):
            self.floating.add(n)  # reads only leaves: it can wait for a consumer and go where that goes
            return
        same = {self.home[b] for b, identity in bases if identity and b in self.home and b.kind != "assemble"}
        for launch in sorted(same, key=lambda launch: -launch.position):
            if self._fits(n, launch, bases):
                self._settle(n, launch)
                return
        for b, identity in bases:
            if b in self.floating and not identity:
                self.ground(b)
        self._settle(n, self._sibling(n, bases) or self._new(n, "map", n.shape))

    def _settle(self, n: Node, launch: Launch) -> None:
        """n, and the waiting nodes it reads element for element, are computed in this launch."""
        self.home[n] = launch
        self.floating.discard(n)
        if launch.kind == "map" and len(n.shape) > len(launch.domain):
            launch.domain = n.shape
        for b, identity in self.bases[n]:
            if identity and b in self.floating:
                self._settle(b, launch)

    def ground(self, n: Node) -> None:
        """A waiting node that nobody took along gets a launch at the front, where its leaves are."""
        self._settle(n, self._new(n, "map", n.shape, front=True))

    def _fits(self, n: Node, launch: Launch, bases: list[tuple[Node, bool]]) -> bool:
        if launch.kind == "host" or self._result_size(launch) != n.size:
            return False
        return all((identity and (b in self.floating or self.home.get(b) is launch)) or self.ready(b, launch.position) for b, identity in bases)

    def _result_size(self, launch: Launch) -> int:
        return launch.cores[0].size if launch.cores else launch.size

    def _sibling(self, n: Node, bases: list[tuple[Node, bool]]) -> Launch | None:
        """A map over the same number of elements that reads one of the same inputs: one pass serves both."""
        mine = {b for b, identity in bases if identity}
        for launch in reversed(self.launches[-8:]):
            if launch.kind == "map" and launch.size == n.size and self._fits(n, launch, bases):
                reads = {b for m, h in self.home.items() if h is launch for b, identity in self.bases.get(m, ()) if identity}
                if mine & reads:
                    return launch
        return None

    def _assemble(self, n: Node) -> None:
        """A concatenation by placement: each part is computed straight into its place, or copied there."""
        at, last = 0, self.launches[0] if self.launches else None
        for part in n.inputs:
            base, identity = base_at(part)
            if base in self.floating:
                self.ground(base)
            if not identity or base not in self.home or base in self.placed or base in self.graph.outputs or base.kind == "assemble":
                base = self._copy(part)
            self.placed[base] = (n, at)
            self.must.add(base)
            at += part.size
            last = max(last or self.home[base], self.home[base], key=lambda launch: launch.position)
        assert last is not None
        self.home[n] = last

    def _copy(self, part: Node) -> Node:
        copy = Node(len(self.graph.nodes), OPS["detach"], (part,), {}, part.spec)
        self.graph.nodes.append(copy)
        self.bases[copy], self.cost[copy] = [base_at(part)], 1
        self._new(copy, "map", part.shape)
        return copy

    # --- what is stored
    def decide(self) -> set[Node]:
        """Backwards: where each value is needed decides whether it is stored, kept in registers, or recomputed there."""
        sites: dict[Node, set[Launch]] = defaultdict(set)
        stored: set[Node] = set()
        for n in sorted(self.home, key=lambda n: (self.home[n].position, n.number), reverse=True):
            home = self.home[n]
            if n.kind == "assemble" or (n not in self.must and not sites[n]):
                continue
            at = {home}
            if n in self.must or n.kind == "host":
                stored.add(n)
            elif n.kind == "pointwise":
                at = self._evaluate_at(n, home, sites[n], stored)
            elif sites[n] - at:
                stored.add(n)
            if n in stored:
                home.stores.insert(0, n)
            reads = self.bases[n] if n in self.bases else [base_at(i) for i in n.inputs] if n.kind == "reduction" else []
            for b, _ in reads:
                sites[b] |= at
        return stored

    def _evaluate_at(self, n: Node, home: Launch, sites: set[Launch], stored: set[Node]) -> set[Launch]:
        away = sites - {home}
        if not away:
            return {home}
        # A result of a fold or kernel costs only its store; a scalar is not worth a launch of its own.
        if self.cost[n] <= (3 if home.cores else 4 * CHEAP if n.size == 1 else CHEAP):
            return set(sites)
        if away == sites and len(away) == 1 and max(self._domain(launch) for launch in away) <= 2 * n.size:
            return away
        stored.add(n)
        return {home}

    def _domain(self, launch: Launch) -> int:
        return math.prod(launch.domain)


def schedule(graph: Graph) -> Schedule:
    """The launches that compute the graph's outputs."""
    return _Scheduler(graph).run()
