"""Graph -> launches. Every pointwise node gets a home: the epilogue of the kernel, fold or map that computes its input
where it can, else a map of its own; then it is decided what is stored, what stays in registers and what is recomputed.

Launches are ordered; a node may join an earlier launch only if all it reads is there by then, so there are no cycles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from ..op import OPS
from ..spec import NARROW
from .graph import COPY, Graph, Node, kernel_operand, through_views
from .index import Flat, var

CHEAP = 10  # a value that costs less than this many additions is recomputed rather than stored
FEW = 32  # times smaller than what reads it
MOST_OPS = 128  # ops in one launch: longer kernels build slowly and spill


@dataclass(eq=False)
class Launch:
    """One kernel to run (several stages for some kernels): its core, what it stores, what it reads."""

    position: int
    kind: str  # map, reduction, kernel, host
    domain: tuple[int, ...]
    cores: list[Node] = field(default_factory=list)
    stores: list[Node] = field(default_factory=list)
    size: int = 0
    ops: int = 0

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


def base_at(node: Node) -> tuple[Node, bool]:
    """(first non-view ancestor, whether it is read element for element in row-major order)."""
    if node.kind != "view":
        return node, True
    flat = var("i", node.size)
    ix, conditions, base = through_views(node, Flat(flat).unflatten(node.shape))
    return base, not conditions and base.size == node.size and ix.flatten(base.shape).expr == flat


def pieced(node: Node) -> tuple[Node, int | None]:
    """(first non-view ancestor, the element of it at which node, row by row, is a contiguous piece; None where it is not one)."""
    if node.kind != "view" or not node.size:
        return node, 0
    flat = var("i", node.size)
    ix, conditions, base = through_views(node, Flat(flat).unflatten(node.shape))
    start = ix.flatten(base.shape).expr
    return base, start.const if not conditions and start == flat + start.const else None


def _bases(n: Node) -> list[tuple[Node, bool]]:
    """What a pointwise node reads: the ancestors in memory or registers, and whether element for element (not broadcast)."""
    found = ((base_at(i), i.size == n.size) for i in n.inputs)
    return [(base, identity and whole) for (base, identity), whole in found]


def fences(n: Node) -> list[Node]:
    """What has to be there before n may be computed although n does not read it: what it waits for, and the op `after` below the views that n reads."""
    found = [base_at(w)[0] for w in n.waits]
    for i in n.inputs:
        while i.kind == "view":
            found += [base_at(first)[0] for first in i.inputs[1:]]
            i = i.inputs[0]
    return found


def widens(n: Node) -> bool:
    """Whether n is float32 made of 16 bits: of no worth in memory, except where a kernel cannot read those."""
    return n.op is not None and n.op.name == "cast" and n.inputs[0].spec.dtype in NARROW


def rounds(n: Node) -> bool:
    """Whether n is 16 bits made of something else."""
    return n.op is not None and n.op.name == "cast" and n.spec.dtype in NARROW


def operand(n: Node, i: Node) -> tuple[Node, int, tuple[int, ...]]:
    """(node in memory, element offset, strides) through which kernel node n reads its input i."""
    assert n.op is not None
    return kernel_operand(n.op, i)


class _Scheduler:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.launches: list[Launch] = []
        self.home: dict[Node, Launch] = {}
        self.must: set[Node] = set()
        self.floating: dict[Node, int] = {}  # nodes that wait for a consumer, and how many would come along with each
        self.front = 0
        self.placed: dict[Node, tuple[Node, int]] = {}
        self.cost: dict[Node, int] = {}
        self.bases: dict[Node, list[tuple[Node, bool]]] = {}
        self.fences = {n: f for n in graph.nodes if n.kind != "view" and (f := fences(n))}
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
                self.bases[n] = _bases(n)
                self.cost[n] = (n.op.cost if n.op else 0) + sum(self._load_cost(n, b) for b, _ in self.bases[n])
            if n.kind == "view" and n in self.must:
                self.bases[n] = [base_at(n)]
                self.cost[n] = 1
        for n in list(self.graph.nodes):  # assembling adds copies, with homes of their own
            self.assign(n)
        for n in list(self.floating):
            if n in self.floating:
                self.ground(n)
        stored = self.decide()
        launches = sorted((launch for launch in self.launches if launch.stores), key=lambda launch: launch.position)  # the rest was recomputed elsewhere
        for position, launch in enumerate(launches):
            launch.position = position
        return Schedule(self.graph, launches, stored, self.placed, self.home)

    def demand(self, n: Node) -> None:
        """n must be in memory, contiguous."""
        self.must.add(n)

    def _load_cost(self, n: Node, base: Node) -> int:
        if base.size * FEW <= n.size:
            return 1  # one for many elements: where it takes long it is stored
        if widens(base) or (rounds(base) and base_at(base.inputs[0])[0].kind in ("kernel", "reduction")):
            return 1  # the 16 bits are in memory
        if base.kind == "pointwise" and base in self.cost:
            return 1 if self.uses[base] > 1 and self.cost[base] > CHEAP else self.cost[base]
        return 1

    # --- homes
    def assign(self, n: Node) -> None:
        kind = n.kind
        for f in self.fences.get(n, ()):
            if f in self.floating:
                self.ground(f)
        if kind in ("kernel", "host"):
            self._operands(n)
            if n.twin is not None and n.twin in self.home:
                self._beside(n, self.home[n.twin])
            else:
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

    def _beside(self, n: Node, launch: Launch) -> None:
        """n comes out of a kernel that computes its twin."""
        launch.cores.append(n)
        self.home[n] = launch
        launch.domain = max(launch.domain, n.shape, key=math.prod)

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
            self.bases.setdefault(n, [base_at(n)] if n.kind == "view" else _bases(n))
            self.cost.setdefault(n, 1)
            self._join(n)

    def _reduction(self, n: Node) -> None:
        axes, shape = n.attrs["axes"], n.inputs[0].shape
        source = base_at(n.inputs[0])[0]
        widened = source in self.floating and widens(source)  # the fold widens what it reads, wherever it stands
        if source in self.floating and not widened:
            self.ground(source)
        needs = [b for b, _ in self.bases[source]] if widened else [source]
        for launch in self.launches:
            alike = launch.kind == "reduction" and launch.cores[0].attrs["axes"] == axes and launch.cores[0].inputs[0].shape == shape
            if alike and all(self.ready(b, launch.position) for b in needs) and self._open(n, launch):
                launch.cores.append(n)
                self.home[n] = launch
                break
        else:
            launch = self._new(n, "reduction", shape)
        if widened:
            self.home[source] = launch
            self.floating.pop(source, None)

    def ready(self, base: Node, position: int) -> bool:
        """Whether a launch at `position` can read base from memory or recompute it."""
        if base.kind == "leaf" or (base.kind == "pointwise" and not base.inputs):
            return True
        if base in self.floating:
            self.ground(base)
        return base in self.home and self.home[base].position < position

    def _open(self, n: Node, launch: Launch) -> bool:
        """Whether what n has to wait for is there before the launch."""
        return all(self.ready(f, launch.position) for f in self.fences.get(n, ()))

    def _join(self, n: Node) -> None:
        """The latest launch that computes an input of n element for element, if everything else n reads is there by then.

        Where there is none, n waits for a consumer and goes where that goes, so that one launch serves a whole formula.
        """
        bases = self.bases[n]
        if COPY in n.attrs:  # made when its kernel asks for it
            self.floating[n] = 1
            return
        same = {self.home[b] for b in self._read(bases) if b in self.home and b.kind != "assemble"}
        for launch in sorted(same, key=lambda launch: -launch.position):
            if self._open(n, launch) and self._fits(bases, launch, n.size):
                self._settle(n, launch)
                return
        for b, identity in bases:
            if b in self.floating and not identity:
                self.ground(b)
        if (sibling := self._sibling(n, bases)) is not None and self._open(n, sibling):
            self._settle(n, sibling)
            return
        along = 1 + sum(self.floating[b] for b, identity in bases if identity and b in self.floating)
        if n in self.must or along > MOST_OPS // 4:
            self._settle(n, self._new(n, "map", n.shape))
        else:
            self.floating[n] = along

    def _settle(self, n: Node, launch: Launch) -> None:
        """n, and the waiting nodes it reads element for element, are computed in this launch."""
        self.home[n] = launch
        self.floating.pop(n, None)
        launch.ops += 1
        if launch.kind == "map" and len(n.shape) > len(launch.domain):
            launch.domain = n.shape
        for b, identity in self.bases[n]:
            if identity and b in self.floating:
                self._settle(b, launch)

    def ground(self, n: Node) -> None:
        """A waiting node that a fold, a kernel or a view needs gets a launch of its own: at the front if it reads only leaves."""
        self._settle(n, self._new(n, "map", n.shape, front=self._early(n)))

    def _early(self, n: Node) -> bool:
        if n in self.fences or COPY in n.attrs:
            return False
        return all(b.kind == "leaf" or not b.inputs or (b in self.floating and self._early(b)) for b, _ in self.bases[n])

    def _fits(self, bases: list[tuple[Node, bool]], launch: Launch, size: int) -> bool:
        """Whether a node that reads these bases can be computed in the launch; waiting ones would come along."""
        if launch.kind == "host" or size not in self._result_sizes(launch) or launch.ops >= MOST_OPS:
            return False
        return all(self._there(b, identity, launch) for b, identity in bases)

    def _there(self, b: Node, identity: bool, launch: Launch) -> bool:
        if identity and b in self.floating:
            return self._open(b, launch) and self._fits(self.bases[b], launch, b.size)
        return (identity and self.home.get(b) is launch) or self.ready(b, launch.position)

    def _result_sizes(self, launch: Launch) -> set[int]:
        return {core.size for core in launch.cores} or {launch.size}

    def _read(self, bases: list[tuple[Node, bool]]) -> set[Node]:
        """What is read element for element, also through nodes that wait and would come along."""
        found: set[Node] = set()
        for b, identity in bases:
            if identity:
                found |= self._read(self.bases[b]) if b in self.floating else {b}
        return found

    def _sibling(self, n: Node, bases: list[tuple[Node, bool]]) -> Launch | None:
        """A map over the same number of elements that reads one of the same inputs: one pass serves both."""
        mine = self._read(bases)
        for launch in reversed(self.launches[-8:]):
            if launch.kind == "map" and launch.size == n.size and mine and self._fits(bases, launch, n.size):
                reads = {b for m, h in self.home.items() if h is launch for b, identity in self.bases.get(m, ()) if identity}
                if mine & reads:
                    return launch
        return None

    def _assemble(self, n: Node) -> None:
        """A concatenation by placement: each part is computed straight into its place, or copied there."""
        at, k, last = 0, 0, self.launches[0] if self.launches else None
        while k < len(n.inputs):
            base, count = self._whole(n.inputs, k)
            if base in self.floating:
                self.ground(base)
            if not count or base not in self.home or base in self.placed or base in self.graph.outputs or base.kind == "assemble":
                base, count = self._copy(n.inputs[k]), 1
            self.placed[base] = (n, at)
            self.must.add(base)
            at, k = at + base.size, k + count
            last = max(last or self.home[base], self.home[base], key=lambda launch: launch.position)
        assert last is not None
        self.home[n] = last

    def _whole(self, parts: tuple[Node, ...], k: int) -> tuple[Node, int]:
        """(what parts[k] is a view of, how many parts from there on are all of it, piece by piece in memory order; 0 if they are not)."""
        first, size, count = pieced(parts[k])[0], 0, 0
        for part in parts[k:]:
            base, at = pieced(part)
            if base is not first or at != size:
                break
            size, count = size + part.size, count + 1
            if size == first.size:
                return first, count
        return first, 0

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
        if widens(n):
            return set(sites)  # memory holds the 16 bits, everybody widens them on the way
        if rounds(n) and home.cores:
            stored.add(n)  # or the float32 that it rounds would be kept in its place
            return {home}
        # A result of a fold or kernel costs only its store, and what folds alone read costs reading it again; a scalar is not worth a launch of its own.
        least = 2 * CHEAP if all(site.kind == "reduction" for site in away) else 3
        if self.cost[n] <= (least if home.cores else 4 * CHEAP if n.size == 1 else CHEAP):
            return set(sites)
        if away == sites and len(away) == 1 and not home.cores and self._fits_into(n, next(iter(away))):
            return away
        stored.add(n)
        return {home}

    def _fits_into(self, n: Node, launch: Launch) -> bool:
        """Whether the launch may compute n too: no more often than n has elements, and within the length of a kernel."""
        launch.ops += 1
        return math.prod(launch.domain) <= 2 * n.size and launch.ops <= MOST_OPS


def schedule(graph: Graph) -> Schedule:
    """The launches that compute the graph's outputs."""
    return _Scheduler(graph).run()
