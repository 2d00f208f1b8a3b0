"""What a node needs, in graphs in which some wait for later ones: a search that leaves out what cannot lead there finds
what a search through everything finds.
"""

from __future__ import annotations

import numpy as np

from clnet.core.spec import Spec
from clnet.engine.compile.node import Node
from clnet.engine.compile.twins import _Pairs

SPEC = Spec((1,), "float32")


def random_graph(rng: np.random.Generator, count: int) -> tuple[list[Node], _Pairs]:
    """Nodes that read up to two earlier ones; some wait for nodes that do not need them."""
    nodes: list[Node] = []
    for number in range(count):
        inputs = rng.choice(number, min(number, int(rng.integers(3))), replace=False) if number else []
        nodes.append(Node(number, None, tuple(nodes[i] for i in inputs), {}, SPEC))
    pairs = _Pairs()
    for n in rng.choice(count, count // 5, replace=False):
        wanted = nodes[rng.integers(count)]
        if not reached(pairs, wanted, nodes[n]):
            pairs.waits[nodes[n]] = (wanted,)
    return nodes, pairs


def reached(pairs: _Pairs, n: Node, source: Node) -> bool:
    seen, todo = {n}, [n]
    while todo:
        new = [i for i in pairs.before(todo.pop()) if i not in seen]
        seen.update(new)
        todo += new
    return source in seen


def test_needs_is_what_a_search_through_everything_finds() -> None:
    rng, found = np.random.default_rng(0), []
    for _ in range(30):
        nodes, pairs = random_graph(rng, 30)
        for n in nodes:
            for source in nodes:
                found.append(pairs.needs(n, source))
                assert found[-1] == reached(pairs, n, source), (n, source, pairs.waits)
    assert 0.05 < np.mean(found) < 0.95
    assert any(w.number > n.number for n, waited in pairs.waits.items() for w in waited)
