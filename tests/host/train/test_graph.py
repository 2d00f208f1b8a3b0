"""Graphs as values: from what they are made, how edges are sorted, what a batch of them is, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from clnet.errors import ConfigError, DataError
from clnet.train.data import Graph, Graphs, Neighbours

RNG = np.random.default_rng(0)
ENDS = np.array([[2, 0, 1, 2, 2], [1, 2, 0, 1, 2]])  # two equal edges and a loop


def random_graph(nodes: int, edges: int) -> Graph:
    ends = RNG.integers(0, nodes, (2, edges)) if nodes else np.zeros((2, 0), int)
    return Graph(RNG.normal(size=(nodes, 3)), ends, edge_features=RNG.normal(size=(ends.shape[1], 2)))


def test_edges_are_sorted_once() -> None:
    g = Graph(np.eye(3), ENDS, edge_weight=[1.0, 2, 3, 4, 5])
    source, target, back = g.edges
    assert target.tolist() == [0, 1, 1, 2, 2] and source.tolist() == [1, 2, 2, 0, 2]
    assert source[back].tolist() == [0, 1, 2, 2, 2] and g.edge_weight.tolist() == [3, 1, 4, 2, 5]
    assert np.array_equal(g.edge_index, ENDS) and g.at.tolist() == [0, 1, 3, 5]
    assert repr(g) == "<Graph: 3 nodes, 5 edges, x float32[3, 3], edge_weight float32[5]>"


def test_the_same_graph_from_all_that_it_comes_in() -> None:
    dense = np.zeros((4, 4))
    dense[ENDS[1, [0, 1, 2]], ENDS[0, [0, 1, 2]]] = 1  # A[i, j]: from j to i
    wanted = Graph(np.ones((4, 1)), ENDS[:, [0, 1, 2]])
    for found in (Graph.of_matrix(dense), Graph.of_matrix(sparse.csr_matrix(dense)),
                  Graph.of_pairs(ENDS[:, [0, 1, 2]].T.tolist(), nodes=4)):
        assert np.array_equal(found.edges, wanted.edges) and np.array_equal(found.x, wanted.x)
        assert found.edge_weight is None
    weighed = Graph.of_matrix(sparse.coo_matrix(dense * [[1, 2, 3, 4]]))
    assert weighed.edge_weight is not None and sorted(weighed.edge_weight.tolist()) == [1, 2, 3]


def test_networkx_and_undirected_edges() -> None:
    networkx = pytest.importorskip("networkx")
    drawn = networkx.Graph([("a", "b", {"weight": 2.0}), ("b", "b", {"weight": 3.0})])
    drawn.add_node("c")
    networkx.set_node_attributes(drawn, {"a": 1.5, "b": 2.5, "c": 3.5}, "heat")
    g = Graph.of_networkx(drawn, attribute="heat")
    assert g.x.tolist() == [[1.5], [2.5], [3.5]] and g.edges[:2].T.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert g.edge_weight is not None and g.edge_weight.tolist() == [2, 2, 3]
    with pytest.raises(DataError, match="node 'd' has none"):
        drawn.add_node("d")
        Graph.of_networkx(drawn, attribute="heat")


def test_kinds_of_nodes_and_edges_by_name() -> None:
    g = Graph.of_types({"user": np.ones((2, 3)), "item": np.ones((3, 1))},
                       {("user", "buys", "item"): [[0, 1], [2, 0]], ("item", "like", "item"): [[0], [1]]})
    assert g.x.tolist() == [[1, 1, 1]] * 2 + [[1, 0, 0]] * 3
    assert g.node_types is not None and g.node_types.tolist() == [0, 0, 1, 1, 1]
    assert g.edges[:2].T.tolist() == [[1, 2], [2, 3], [0, 4]]
    assert g.edge_types is not None and g.edge_types.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="nodes 0 to 1 of kind 'user'"):
        Graph.of_types({"user": np.ones((2, 3))}, {("user", "knows", "user"): [[0], [2]]})


def test_a_batch_is_one_graph_and_its_parts_are_found_again() -> None:
    """Graphs without edges, and without nodes, among them."""
    graphs = [random_graph(4, 6), random_graph(1, 0), random_graph(0, 0), random_graph(7, 20)]
    whole, data = Graph.batch(graphs), Graphs(graphs, [0, 1, 0, 1])
    assert whole.graphs == 4 and whole.offsets.tolist() == [0, 4, 5, 5, 12]
    again = Graph(whole.x, whole.edge_index, offsets=whole.offsets)
    assert np.array_equal(again.edges, whole.edges)
    (x, edges, features, offsets), y = data.rows(np.array([3, 2, 0]))
    assert offsets.tolist() == [0, 7, 7, 11] and y.tolist() == [1, 0, 0]
    picked = Graph.batch([graphs[k] for k in (3, 2, 0)])
    for a, b in ((x, picked.x), (edges, picked.edges), (features, picked.edge_features)):
        assert np.array_equal(a, b)
    part = data[[3, 2]]
    assert len(part) == 2 and np.array_equal(part.graph.edge_index, graphs[3].edge_index)
    assert data.shape_of(np.array([0, 3])) == (2, 26, 11)


def test_masks_leave_nodes_out() -> None:
    g = random_graph(5, 8)
    data = Graphs(g, [0, 1, 2, 1, 0], mask=[True, False, True, False, False])
    (_, edges, _), y = data.rows(slice(None))
    assert y.tolist() == [0, -100, 2, -100, -100] and data.total == 2 and np.array_equal(edges, g.edges)
    floats = Graphs(g, np.arange(5.0), mask=np.arange(5) > 2)
    assert np.isnan(floats.rows([0])[1][:3]).all() and floats.targets().tolist() == [3, 4]
    assert floats.place(1, targets=True) == "node 4"


def test_neighbours_are_a_part_of_the_graph() -> None:
    """Nodes asked for come first, each with as many of its edges as there is room for, all different; the same nodes
    have the same neighbours, and all edges are the whole neighbourhood.
    """
    g = random_graph(60, 900)
    data = Neighbours(g, np.arange(60) % 4, mask=np.arange(60) < 30, sizes=(4, 2))
    (x, edges, features), y = data.rows(np.array([3, 11, 5]))
    again = data.rows(np.array([3, 11, 5]))
    assert np.array_equal(again[0][1], edges) and np.array_equal(again[1], y)
    assert np.array_equal(x[:3], g.x[[3, 11, 5]]) and y[:3].tolist() == [3, 3, 1] and (y[3:] == -100).all()
    many = np.bincount(edges[1], minlength=len(x))
    assert (many[:3] == 4).all() and (many <= 4).all() and len(features) == edges.shape[1]
    table = {tuple(a.tolist()): b for a, b in zip(np.asarray(g.edge_features), g.edges[:2].T, strict=True)}
    for f, (s, t) in zip(features, edges[:2].T, strict=True):  # each edge is one of the graph's, between these nodes
        source, target = table[tuple(f.tolist())]
        assert np.array_equal(g.x[source], x[s]) and np.array_equal(g.x[target], x[t])
    assert len({tuple(f.tolist()) for f in features}) == len(features)
    (x, edges, _), _ = Neighbours(g, np.zeros(60, int), sizes=(-1,)).rows([7])
    assert edges.shape[1] == (g.edges[1] == 7).sum()


REFUSED: dict[str, tuple[Any, str]] = {
    "outside": (lambda: Graph(np.ones((3, 1)), [[0, 1], [3, 2]]), "nodes 0 to 2; edge 0 has the end"),
    "negative": (lambda: Graph(np.ones((3, 1)), [[0, -1], [1, 2]]), "edge 1 has"),
    "pairs": (lambda: Graph(np.ones((3, 1)), [[0, 1], [1, 2], [2, 0]]), "Graph.of_pairs"),
    "floats": (lambda: Graph(np.ones((3, 1)), [[0.5], [1]]), "expected integers"),
    "values": (lambda: Graph(np.ones((3, 1)), ENDS, edge_weight=[1.0, 2]), "5 of them"),
    "square": (lambda: Graph.of_matrix(np.ones((2, 3))), "square matrix"),
    "apart": (lambda: Graph(np.ones((3, 1)), ENDS, offsets=[0, 1, 3]), "of another graph"),
    "offsets": (lambda: Graph(np.ones((3, 1)), ENDS, offsets=[0, 4]), "rise from 0 to the 3 nodes"),
    "unlike": (lambda: Graph.batch([random_graph(2, 1), Graph(np.ones((2, 3)), [[0], [1]])]), "the same values"),
    "labels": (lambda: Graphs([random_graph(2, 1)] * 2, [1, 2, 3]), "a target a graph, 2"),
    "mask": (lambda: Graphs(random_graph(3, 1), [1, 2, 3], mask=[True]), "a bool a node, 3"),
    "nobody": (lambda: Graphs(random_graph(3, 1), [1, 2, 3], mask=[False] * 3), "at least one node"),
    "inputs": (lambda: Graphs(random_graph(3, 1), [1, 2, 3], inputs=["x", "weights"]), "got 'weights'"),
    "sizes": (lambda: Neighbours(random_graph(3, 1), [1, 2, 3], sizes=(0,)), "at least 1, one a hop"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises((DataError, ConfigError), match=words):
        make()
