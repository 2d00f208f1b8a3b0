"""Graph -> Schedule. Every pointwise node gets a home: the epilogue of the kernel, fold or map that computes its input
where it can, else a map of its own; then it is decided what is stored, what stays in registers and what is recomputed.

Fusions are ordered; a node may join an earlier one only if all it reads is there by then, so there are no cycles.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from ...core.op import OPS
from ...core.size import same, typical
from .fusion import Folds, Fusion, HostCall, KernelCall, Map, Schedule
from .node import COPY, Assembly, Call, Graph, Host, Kernel, Leaf, Node, Pointwise, Reduction, View
from .reads import base_at, bases, fences, operand, pieced, rounds, widens

CHEAP = 10  # a value that costs less than this many additions is recomputed rather than stored
FEW = 32  # times smaller than what reads it
MOST_OPS = 128  # ops in one fusion: longer kernels build slowly and spill


class _Scheduler:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.fusions: list[Fusion] = []
        self.home: dict[Node, Fusion] = {}
        self.members: dict[Fusion, list[Node]] = defaultdict(list)  # whose home it is
        self.must: set[Node] = set()
        self.floating: dict[Node, int] = {}  # nodes that wait for a consumer, and how many would come along with each
        self.folds: dict[object, list[Fusion]] = defaultdict(list)  # by the elements that they walk, and how
        self.front = 0  # position of the foremost fusion
        self.copies = 0  # made of parts that could not be computed in their places
        self.parts: dict[Node, tuple[Node, int]] = {}
        self.cost: dict[Node, int] = {}
        self.bases: dict[Node, list[tuple[Node, bool]]] = {}
        self.fences = {n: f for n in graph.nodes if not isinstance(n, View) and (f := fences(n))}
        self.uses: dict[Node, int] = defaultdict(int)
        for n in graph.nodes:
            for i in n.inputs:
                self.uses[i] += 1

    def run(self) -> Schedule:
        for n in self.graph.outputs:
            if not isinstance(n, Leaf):
                self.demand(n)
        for n in self.graph.nodes:
            if isinstance(n, Pointwise):
                self.bases[n] = bases(n)
                self.cost[n] = n.op.cost + sum(self._load_cost(n, b) for b, _ in self.bases[n])
            if isinstance(n, View) and n in self.must:
                self.bases[n] = [base_at(n)]
                self.cost[n] = 1
        for n in self.graph.nodes:
            self.assign(n)
        for n in list(self.floating):
            if n in self.floating:
                self.ground(n)
        stored = self.decide()
        # the rest was recomputed elsewhere
        fusions = sorted((fusion for fusion in self.fusions if fusion.stores), key=lambda fusion: fusion.position)
        for position, fusion in enumerate(fusions):
            fusion.position = position
        return Schedule(self.graph, fusions, stored, self.parts, self.home)

    def demand(self, n: Node) -> None:
        """n must be in memory, contiguous."""
        self.must.add(n)

    def _load_cost(self, n: Node, base: Node) -> int:
        if typical(base.size) * FEW <= typical(n.size):
            return 1  # one for many elements: where it takes long it is stored
        if widens(base) or (rounds(base) and isinstance(base_at(base.inputs[0])[0], (Kernel, Reduction))):
            return 1  # the 16 bits are in memory
        if base in self.cost and isinstance(base, Pointwise):
            return 1 if self.uses[base] > 1 and self.cost[base] > CHEAP else self.cost[base]
        return 1

    # --- homes
    def assign(self, n: Node) -> None:
        for f in self.fences.get(n, ()):
            if f in self.floating:
                self.ground(f)
        if isinstance(n, Call):
            self._call(n)
        elif isinstance(n, Reduction):
            self._reduction(n)
        elif isinstance(n, Assembly):
            self._assemble(n)
        elif isinstance(n, Pointwise) or (isinstance(n, View) and n in self.must):
            self._join(n)

    def _new(self, n: Node, fusion: Fusion) -> Fusion:
        """n's home, from now on one of the schedule's."""
        self.fusions.append(fusion)
        return self._house(n, fusion)

    def _house(self, n: Node, fusion: Fusion) -> Fusion:
        self.home[n] = fusion
        self.members[fusion].append(n)
        return fusion

    def _map(self, n: Node, *, front: bool = False) -> Fusion:
        """A map of n's own."""
        self.front -= front
        return self._new(n, Map(self.front if front else len(self.fusions), n.shape, size=n.size))

    def _call(self, n: Call) -> None:
        self._operands(n)
        if isinstance(n, Kernel) and n.twin is not None and n.twin in self.home:
            self._beside(n, self.home[n.twin])
        else:
            made = KernelCall if isinstance(n, Kernel) else HostCall
            self._new(n, made(len(self.fusions), n.shape, [n], size=n.size))

    def _beside(self, n: Node, fusion: Fusion) -> None:
        """n comes out of a kernel that computes its twin."""
        fusion.cores.append(n)
        self._house(n, fusion)
        fusion.domain = max(fusion.domain, n.shape, key=math.prod)

    def _operands(self, n: Call) -> None:
        """A kernel reads memory: its operands are leaves, stored nodes, or strided views of those."""
        for i in n.inputs:
            base = operand(n, i)[0]
            if not isinstance(base, Leaf):
                self.demand_late(base)

    def demand_late(self, n: Node) -> None:
        """Like demand, for a node that has been visited: a view or constant gets a copy of its own now."""
        self.must.add(n)
        if n in self.floating:
            self.ground(n)
        elif n not in self.home and isinstance(n, (View, Pointwise)):
            self.bases.setdefault(n, [base_at(n)] if isinstance(n, View) else bases(n))
            self.cost.setdefault(n, 1)
            self._join(n)

    def _reduction(self, n: Reduction) -> None:
        source = base_at(n.inputs[0])[0]
        widened = source in self.floating and widens(source)  # the fold widens what it reads, wherever it stands
        if source in self.floating and not widened:
            self.ground(source)
        needs = [b for b, _ in self.bases[source]] if widened else [source]
        alike = self.folds[n.attrs["axes"], n.inputs[0].shape]
        # Behind all that it reads; in a deep network nearly all of those alike stand before it.
        for fusion in alike[bisect.bisect(alike, self._behind(needs), key=attrgetter("position")) if alike else 0 :]:
            if self._open(n, fusion):
                fusion.cores.append(n)
                self._house(n, fusion)
                break
        else:
            fusion = self._new(n, Folds(len(self.fusions), n.inputs[0].shape, [n], size=n.size))
            alike.append(fusion)
        if widened:
            self._house(source, fusion)
            self.floating.pop(source, None)

    def ready(self, base: Node, position: int) -> bool:
        """Whether a fusion at `position` can read base from memory or recompute it."""
        return self._behind([base]) < position

    def _behind(self, bases: Sequence[Node]) -> float:
        """The position behind which a fusion can read all of these from memory or recompute them."""
        found = -math.inf
        for b in bases:
            if isinstance(b, Leaf) or (isinstance(b, Pointwise) and not b.inputs):
                continue
            if b in self.floating:
                self.ground(b)
            found = max(found, self.home[b].position if b in self.home else math.inf)
        return found

    def _open(self, n: Node, fusion: Fusion) -> bool:
        """Whether what n has to wait for is there before the fusion."""
        return all(self.ready(f, fusion.position) for f in self.fences.get(n, ()))

    def _join(self, n: Node) -> None:
        """The latest fusion that computes an input of n element for element,
        if everything else n reads is there by then.

        Where there is none, n waits for a consumer and goes where that goes, so that one fusion serves a whole formula.
        """
        bases = self.bases[n]
        if COPY in n.attrs:  # made when its kernel asks for it
            self.floating[n] = 1
            return
        homes = {self.home[b] for b in self._read(bases) if b in self.home and not isinstance(b, Assembly)}
        for fusion in sorted(homes, key=lambda fusion: -fusion.position):
            if self._open(n, fusion) and self._fits(bases, fusion, n.size):
                self._settle(n, fusion)
                return
        for b, identity in bases:
            if b in self.floating and not identity:
                self.ground(b)
        if (sibling := self._sibling(n, bases)) is not None and self._open(n, sibling):
            self._settle(n, sibling)
            return
        along = 1 + sum(self.floating[b] for b, identity in bases if identity and b in self.floating)
        if n in self.must or along > MOST_OPS // 4:
            self._settle(n, self._map(n))
        else:
            self.floating[n] = along

    def _settle(self, n: Node, fusion: Fusion) -> None:
        """n, and the waiting nodes it reads element for element, are computed in this fusion."""
        self._house(n, fusion)
        self.floating.pop(n, None)
        fusion.ops += 1
        if isinstance(fusion, Map) and len(n.shape) > len(fusion.domain):
            fusion.domain = n.shape
        for b, identity in self.bases[n]:
            if identity and b in self.floating:
                self._settle(b, fusion)

    def ground(self, n: Node) -> None:
        """A waiting node that a fold, a kernel or a view needs gets a fusion of its own:
        at the front if it reads only leaves.
        """
        self._settle(n, self._map(n, front=self._early(n)))

    def _early(self, n: Node) -> bool:
        if n in self.fences or COPY in n.attrs:
            return False
        return all(isinstance(b, Leaf) or not b.inputs or (b in self.floating and self._early(b))
                   for b, _ in self.bases[n])

    def _fits(self, bases: list[tuple[Node, bool]], fusion: Fusion, size: int) -> bool:
        """Whether a node that reads these bases can be computed in the fusion; waiting ones would come along."""
        if fusion.closed or size not in fusion.result_sizes or fusion.ops >= MOST_OPS:
            return False
        return all(self._there(b, identity, fusion) for b, identity in bases)

    def _there(self, b: Node, identity: bool, fusion: Fusion) -> bool:
        if identity and b in self.floating:
            return self._open(b, fusion) and self._fits(self.bases[b], fusion, b.size)
        return (identity and self.home.get(b) is fusion) or self.ready(b, fusion.position)

    def _read(self, bases: list[tuple[Node, bool]]) -> set[Node]:
        """What is read element for element, also through nodes that wait and would come along."""
        found: set[Node] = set()
        for b, identity in bases:
            if identity:
                found |= self._read(self.bases[b]) if b in self.floating else {b}
        return found

    def _sibling(self, n: Node, bases: list[tuple[Node, bool]]) -> Fusion | None:
        """A map over the same number of elements that reads one of the same inputs: one pass serves both."""
        mine = self._read(bases)
        for fusion in reversed(self.fusions[-8:]):
            if isinstance(fusion, Map) and same(fusion.size, n.size) and mine and self._fits(bases, fusion, n.size):
                here = self.members[fusion]
                reads = {b for m in here for b, identity in self.bases.get(m, ()) if identity}
                if mine & reads:
                    return fusion
        return None

    def _assemble(self, n: Node) -> None:
        """A concatenation by placement: each part is computed straight into its place, or copied there."""
        at, k, last = 0, 0, self.fusions[0] if self.fusions else None
        while k < len(n.inputs):
            base, count = self._whole(n.inputs, k)
            if base in self.floating:
                self.ground(base)
            if (not count or base not in self.home or base in self.parts or base in self.graph.outputs
                    or isinstance(base, Assembly)):
                base, count = self._copy(n.inputs[k]), 1
            self.parts[base] = (n, at)
            self.must.add(base)
            at, k = at + base.size, k + count
            last = max(last or self.home[base], self.home[base], key=lambda fusion: fusion.position)
        assert last is not None
        self._house(n, last)

    def _whole(self, parts: tuple[Node, ...], k: int) -> tuple[Node, int]:
        """(what parts[k] is a view of, how many parts from there on are all of it, piece by piece in memory order;
        0 if they are not).
        """
        first, size, count = pieced(parts[k])[0], 0, 0
        for part in parts[k:]:
            base, at = pieced(part)
            if base is not first or not same(at, size):
                break
            size, count = size + part.size, count + 1
            if same(size, first.size):
                return first, count
        return first, 0

    def _copy(self, part: Node) -> Node:
        copy = Pointwise(len(self.graph.nodes) + self.copies, OPS["detach"], (part,), {}, part.spec)
        self.copies += 1
        self.bases[copy], self.cost[copy] = [base_at(part)], 1
        self._map(copy)
        return copy

    # --- what is stored
    def decide(self) -> set[Node]:
        """Backwards: where each value is needed decides whether it is stored, kept in registers, or recomputed there.
        """
        sites: dict[Node, set[Fusion]] = defaultdict(set)
        stored: set[Node] = set()
        for n in sorted(self.home, key=lambda n: (self.home[n].position, n.number), reverse=True):
            home = self.home[n]
            if isinstance(n, Assembly) or (n not in self.must and not sites[n]):
                continue
            at = {home}
            if n in self.must or isinstance(n, Host):
                stored.add(n)
            elif isinstance(n, Pointwise):
                at = self._evaluate_at(n, home, sites[n], stored)
            elif sites[n] - at:
                stored.add(n)
            if n in stored:
                home.stores.insert(0, n)
            reads = (self.bases[n] if n in self.bases
                     else [base_at(i) for i in n.inputs] if isinstance(n, Reduction) else [])
            for b, _ in reads:
                sites[b] |= at
        return stored

    def _evaluate_at(self, n: Node, home: Fusion, sites: set[Fusion], stored: set[Node]) -> set[Fusion]:
        away = sites - {home}
        if not away:
            return {home}
        if widens(n):
            return set(sites)  # memory holds the 16 bits, everybody widens them on the way
        if rounds(n) and home.cores:
            stored.add(n)  # or the float32 that it rounds would be kept in its place
            return {home}
        # A result of a fold or kernel costs only its store, and what folds alone read costs reading it again; a scalar
        # is not worth a fusion of its own.
        least = 2 * CHEAP if all(isinstance(site, Folds) for site in away) else 3
        if self.cost[n] <= (least if home.cores else 4 * CHEAP if n.size == 1 else CHEAP):
            return set(sites)
        if away == sites and len(away) == 1 and not home.cores and self._fits_into(n, next(iter(away))):
            next(iter(away)).ops += 1
            return away
        stored.add(n)
        return {home}

    def _fits_into(self, n: Node, fusion: Fusion) -> bool:
        """Whether the fusion may compute n too: no more often than n has elements, and within the length of a kernel.
        """
        return typical(math.prod(fusion.domain)) <= 2 * typical(n.size) and fusion.ops < MOST_OPS


def schedule(graph: Graph) -> Schedule:
    """What computes the graph's outputs; the graph stays as it is."""
    return _Scheduler(graph).run()
