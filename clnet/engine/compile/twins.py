"""Two ops of one launch: where a graph holds an op and its twin over the same first operands (`Kernel.launch_with`),
kernels compute both together.

A value and its gradient are such a pair. What the gradient is multiplied by melts into the kernel when it is there
before the launch, so the pair waits for it; where that factor depends on the value itself, each op keeps a launch of
its own. Results of one size, maxima and where they are, leave the kernel together, element by element: nothing waits,
and what reads both melts into it too.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...core import op as ops
from ...core.size import same
from .frozen import frozen
from .node import Graph, Kernel, Node, Pointwise, Stages, View
from .reads import operands

if TYPE_CHECKING:
    from ..device.devices import Device

Users = Mapping[Node, Sequence[Node]]


class _Pairs:
    """What was found of a graph's twins: which node each has, its stages then, and what it waits for."""

    def __init__(self) -> None:
        self.twin: dict[Node, Kernel] = {}
        self.stages: dict[Node, Stages] = {}
        self.asked: dict[Hashable, Stages | None] = {}  # layers repeat
        self.waits: dict[Node, tuple[Node, ...]] = {}

    def join(self, n: Kernel, twin: Kernel, users: Users, device: Device) -> None:
        """Notes n and its twin as a pair, where the device has a kernel for both that nothing between them forbids."""
        stages = self.both(n, device)
        if not stages or any(s.also for s in stages) == same(twin.size, n.size):
            return
        factors = _factors(n, users) if not same(twin.size, n.size) else []
        if not any(self.needs(f, twin) for f in factors):
            self.stages[n], self.stages[twin], self.twin[n], self.twin[twin] = stages, Stages(), twin, n
            self.waits[n] = self.waits[twin] = tuple(f for f in factors if not self.needs(f, n))

    def both(self, n: Kernel, device: Device) -> Stages | None:
        """What computes n and its twin together; None where nothing does."""
        assert n.op.launch_both is not None
        given = operands(n.op, n.inputs)
        key = n.op.key, tuple(given), frozen(n.attrs)
        if key not in self.asked:
            stages = n.op.launch_both.choice(device, given, **n.attrs).stages
            self.asked[key] = None if stages is None else Stages(stages)
        return self.asked[key]

    def before(self, n: Node) -> tuple[Node, ...]:
        """What n reads and waits for."""
        return (*n.inputs, *self.waits.get(n, ()))

    def needs(self, n: Node, source: Node) -> bool:
        """Whether n is source, depends on it, or waits for what does."""
        seen, todo, lowest = {n}, [n], self._lowest(source.number)
        while todo:
            now = todo.pop()
            if now is source:
                return True
            new = [i for i in self.before(now) if i.number >= lowest and i not in seen]
            seen.update(new)
            todo += new
        return False

    def _lowest(self, number: int) -> int:
        """Nodes of lower numbers than this need none of `number` or above: what a node reads has a lower one than the
        node, and only waits may have a higher one.
        """
        for n in sorted(self.waits, key=lambda n: -n.number):
            if n.number < number <= max((w.number for w in self.waits[n]), default=0):
                number = n.number
        return number

    def ordered(self, nodes: Sequence[Node]) -> list[Node]:
        """In the order given, but behind what they read and wait for."""
        done: dict[Node, None] = {}
        for n in nodes:
            todo = [n]
            while todo:
                if missing := [i for i in self.before(todo[-1]) if i not in done]:
                    todo += missing
                else:
                    done.setdefault(todo.pop())
        return list(done)


def paired(graph: Graph, device: Device) -> Graph:
    """A graph in which twins know each other (`Kernel.twin`) and stand behind what both wait for;
    the graph itself where it has none.
    """
    kernels = {_call(n, n.op): n for n in graph.nodes if isinstance(n, Kernel)}
    found = [(n, kernels[call]) for n in kernels.values()
             if n.op.twin is not None and (call := _call(n, n.op.twin)) in kernels]
    if not found:
        return graph
    users: dict[Node, list[Node]] = defaultdict(list)
    for n in graph.nodes:
        for i in n.inputs:
            users[i].append(n)
    pairs = _Pairs()
    for n, twin in found:
        pairs.join(n, twin, users, device)
    return _copied(graph, pairs) if pairs.twin else graph


def _call(n: Kernel, op: ops.Kernel) -> tuple[object, ...]:
    return op, n.inputs[: len(op.args)], tuple(n.attrs.items())


def _factors(n: Node, users: Users) -> list[Node]:
    """What n meets first on its way through views and ops of one operand."""
    found, todo = dict[Node, None](), [n]
    while todo:
        now = todo.pop()
        for user in users.get(now, ()):
            others = [i for i in user.inputs if i is not now]
            if isinstance(user, Pointwise) and others:
                found.update(dict.fromkeys(others))
            elif isinstance(user, (Pointwise, View)) and same(user.size, n.size):
                todo.append(user)
    return list(found)


def _copied(graph: Graph, pairs: _Pairs) -> Graph:
    """The graph anew, with what the pairs say."""
    copies: dict[Node, Node] = {}
    for number, n in enumerate(pairs.ordered(graph.nodes)):
        copy = dataclasses.replace(n, number=number, inputs=tuple(copies[i] for i in n.inputs),
                                   waits=tuple(copies[w] for w in pairs.waits.get(n, ())))
        if isinstance(copy, Kernel):
            copy.stages = pairs.stages.get(n, copy.stages)
        copies[n] = copy
    for n, twin in pairs.twin.items():
        copy, other = copies[n], copies[twin]
        assert isinstance(copy, Kernel) and isinstance(other, Kernel)
        copy.twin = other
    return Graph(list(copies.values()), graph.leaves, [copies[n] for n in graph.outputs])
