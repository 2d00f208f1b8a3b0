"""Two ops of one launch: where a graph holds an op and its twin over the same first operands (`Op.deflaunch_with`), kernels compute both together.

A value and its gradient are such a pair. What the gradient is multiplied by melts into the kernel when it is there before the launch, so
the pair waits for it; where that factor depends on the value itself, each op keeps a launch of its own. Results of one size, maxima and
where they are, leave the kernel together, element by element: nothing waits, and what reads both melts into it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .graph import Graph, Node, operands


def paired(graph: Graph, device: Any) -> Graph:
    """The graph, with twins marked as such (`Node.twin`) behind what both wait for."""
    twins = {_call(n, n.op): n for n in graph.nodes if n.kind == "kernel"}
    found = [(n, twins[_call(n, n.op.twin)]) for n in graph.nodes if n.op and n.op.twin and _call(n, n.op.twin) in twins]
    users: dict[Node, list[Node]] = defaultdict(list)
    for n in graph.nodes if found else ():
        for i in n.inputs:
            users[i].append(n)
    for n, twin in found:
        _join(n, twin, users, device)
    if found:
        graph.nodes = _ordered(graph.nodes)
    return graph


def _call(n: Node, op: Any) -> Any:
    return op, n.inputs[: len(op.args)], tuple(n.attrs.items())


def _join(n: Node, twin: Node, users: dict[Node, list[Node]], device: Any) -> None:
    assert n.op is not None and n.op.launch_both is not None
    stages = n.op.launch_both(device, operands(n.op, n.inputs), **n.attrs) if n.stages is not None else None
    if not stages or any(s.also for s in stages) == (twin.size == n.size):
        return
    factors = _factors(n, users) if twin.size != n.size else []
    if not any(_needs(f, twin) for f in factors):
        n.stages, twin.stages, n.twin, twin.twin = stages, [], twin, n
        n.waits = twin.waits = tuple(f for f in factors if not _needs(f, n))


def _factors(n: Node, users: dict[Node, list[Node]]) -> list[Node]:
    """What n meets first on its way through views and ops of one operand."""
    found, todo = dict[Node, None](), [n]
    while todo:
        now = todo.pop()
        for user in users[now]:
            others = [i for i in user.inputs if i is not now]
            if user.kind == "pointwise" and others:
                found.update(dict.fromkeys(others))
            elif user.kind in ("pointwise", "view") and user.size == n.size:
                todo.append(user)
    return list(found)


def _needs(n: Node, source: Node) -> bool:
    """Whether n is source, depends on it, or waits for what does."""
    seen, todo = {n}, [n]
    while todo:
        now = todo.pop()
        if now is source:
            return True
        new = [i for i in (*now.inputs, *now.waits) if i not in seen]
        seen.update(new)
        todo += new
    return False


def _ordered(nodes: Iterable[Node]) -> list[Node]:
    """In the order given, but behind what they read and wait for; numbered anew."""
    done: dict[Node, None] = {}
    for n in nodes:
        todo = [n]
        while todo:
            if missing := [i for i in (*todo[-1].inputs, *todo[-1].waits) if i not in done]:
                todo += missing
            else:
                done.setdefault(todo.pop())
    for number, n in enumerate(done):
        n.number = number
    return list(done)
