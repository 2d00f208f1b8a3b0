"""Layers over graphs: edges sorted or not, copies of a graph, graphs without edges, dense matrices, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import init
from clnet.core.autodiff import gradients
from clnet.core.tensor import realize, tensor
from clnet.engine.record import Recorded
from clnet.errors import ClnetError, IndexingError, ShapeError
from clnet.layers import (
    PNA,
    EdgeConditionedConv,
    GraphAttention,
    GraphConvolution,
    GraphSAGE,
    HeterogeneousGraphConv,
    MeshEdgeConv,
    Readout,
    SpiralConv,
    no_tape,
)
from clnet.model import Input, Model
from clnet.ops.graphs import Edges, edge_softmax, neighbour_sum
from clnet.train.data import Graph

RNG = np.random.default_rng(0)
NODES, NEAR = 40, 3e-6
ENDS = RNG.integers(0, NODES - 1, (2, 300)).astype(np.int32)  # the last node has no edge
X = RNG.normal(size=(NODES, 8)).astype(np.float32)


def test_sorted_edges_and_others_give_the_same_in_any_order(engine: Any) -> None:
    """Values and gradients by edges as they come, shuffled, and of a Graph; twice, to the last bit."""
    init.seed(0)
    layer, w = GraphAttention(8, 4, heads=2), GraphConvolution(8, 4)
    weight, shuffled = RNG.uniform(0.5, 2, 300).astype(np.float32), RNG.permutation(300)
    g = Graph(X, ENDS, edge_weight=weight)
    assert g.edge_weight is not None
    found = []
    for edges, weights in ((ENDS, weight), (ENDS[:, shuffled], weight[shuffled]), (g.edges, g.edge_weight),
                           (g.edges, g.edge_weight)):
        x, e = tensor(X), tensor(weights)
        with no_tape():
            y = layer(x, edges) + w(x, edges, e).sum()
        values = [y, *gradients(y.sum(), [x, e, layer.weight.tensor, layer.att_src.tensor])]
        realize(*values)
        found.append([v.numpy() for v in values])
    assert all(np.array_equal(a, b) for a, b in zip(found[2], found[3], strict=True))
    for k, back in ((0, np.argsort(g.order)), (1, np.argsort(g.order)[shuffled])):
        own, of_graph = found[k], [*found[2][:2], found[2][2][back], *found[2][3:]]
        for a, b in zip(own, of_graph, strict=True):
            assert np.abs(a - b).max() <= NEAR * max(1, np.abs(b).max())


def test_sums_are_products_with_the_dense_matrix(engine: Any) -> None:
    """Both directions, and softmax over the edges into each node, in float64."""
    edges = Edges.of("test", tensor(ENDS), NODES)
    w = RNG.normal(size=(300, 1)).astype(np.float32)
    mine = tensor(w)
    dense = np.zeros((NODES, NODES))
    np.add.at(dense, (ENDS[1], ENDS[0]), w[:, 0].astype(np.float64))
    forward, back = neighbour_sum(tensor(X), edges, edges.own(mine)), neighbour_sum(
        tensor(X), edges, edges.own(mine), reverse=True)
    weights, _ = edge_softmax(edges.own(mine), edges)
    total = np.zeros((NODES, 1))
    np.add.at(total, ENDS[1], np.exp(w.astype(np.float64)))
    assert np.abs(forward.numpy() - dense @ X).max() <= 1e-5
    assert np.abs(back.numpy() - dense.T @ X).max() <= 1e-5
    assert edges.order is not None
    want = (np.exp(w.astype(np.float64)) / total[ENDS[1]])[edges.order.numpy()]
    assert np.abs(weights.numpy() - want).max() <= 1e-6


def test_samples_of_one_graph_and_a_batch_of_graphs(engine: Any) -> None:
    """(N, V, features), and N graphs as one block-diagonal graph: what each gives alone."""
    init.seed(0)
    layer = GraphSAGE(8, 3, aggregator="max")
    several = np.stack([X, X[::-1]])
    g = Graph(X, ENDS)
    both = Graph.batch([g, Graph(X[::-1], ENDS)])
    alone = [layer(x, g.edges).numpy() for x in several]
    for y in (layer(several, g.edges), layer(several, ENDS), layer(both.x, both.edges)):
        assert np.abs(y.numpy().reshape(2, NODES, 3) - alone).max() <= NEAR
    read = Readout(8, 2, pooling="mean")(both.x, both.offsets.astype(np.int32)).numpy()
    assert read.shape == (2, 2) and np.abs(read[0] - read[1]).max() <= NEAR  # the same nodes in another order


@pytest.mark.parametrize("nodes", [0, 3])
def test_graphs_without_edges(nodes: int, engine: Any) -> None:
    """Sums over no edges are 0: what is left is the node's own part and the bias, with its gradient."""
    none, x = np.zeros((2, 0), np.int32), np.ones((nodes, 2), np.float32)
    for layer in (GraphSAGE(2, 3), GraphSAGE(2, 3, aggregator="max"), GraphAttention(2, 3, heads=2, concat=False),
                  GraphAttention(2, 3, add_self_loops=False), GraphConvolution(2, 3)):
        y = layer(x, none)
        layer.backward(np.ones((nodes, 3), np.float32))
        bias = layer.bias
        assert y.shape == (nodes, 3) and np.isfinite(y.numpy()).all()
        assert bias.grad is not None and np.array_equal(bias.grad.numpy(), np.full(3, nodes, np.float32))
    alone = GraphAttention(2, 3, add_self_loops=False)
    assert np.array_equal(alone(x, none).numpy(), np.broadcast_to(alone.bias.numpy(), (nodes, 3)))


def test_edges_that_only_the_device_knows_are_dropped_where_they_lead_outside(engine: Any) -> None:
    init.seed(0)
    layer, wrong = GraphSAGE(8, 3), ENDS.copy()
    wrong[0, 7], wrong[1, 9] = NODES, -1
    step = Recorded(lambda x, edges: layer(x, edges), "outside")
    with no_tape():
        got = step(X, wrong).numpy()
        want = layer(X, np.delete(ENDS, [7, 9], 1)).numpy()
    assert np.abs(got - want).max() <= NEAR


def test_a_model_of_graph_layers_is_saved_and_loaded(engine: Any, tmp_path: Any) -> None:
    init.seed(0)
    x, edges, offsets = Input(), Input(dtype="int32"), Input(dtype="int32")
    h = GraphConvolution(out_features=5, activation="relu")(x, edges)
    h = GraphAttention(out_features=2, heads=2)(h, edges)
    model = Model([x, edges, offsets], Readout(out_features=2, pooling="max")(h, offsets))
    at = np.array([0, 15, NODES], np.int32)
    want = model(X, ENDS, at).numpy()
    model.save(tmp_path / "graph.safetensors")
    again = clnet.load(tmp_path / "graph.safetensors")
    assert again.to_json() == model.to_json() and np.array_equal(again(X, ENDS, at).numpy(), want)


REFUSED: dict[str, tuple[Any, str]] = {
    "outside": (lambda: GraphConvolution(8, 2)(X, np.array([[0, 1], [2, NODES]])), "got edge 1, from 1 to 40"),
    "pairs": (lambda: GraphConvolution(8, 2)(X, ENDS.T), "a list of pairs is np.asarray"),
    "none": (lambda: GraphConvolution(8, 2)(X), r"expected inputs \(x, edges"),
    "floats": (lambda: GraphSAGE(8, 2)(X, ENDS.astype(np.float32)), "expected integer edges"),
    "unsorted": (lambda: GraphSAGE(8, 2)(X, np.stack([*ENDS, np.arange(300)])), "sorted by target"),
    "width": (lambda: GraphSAGE(7, 2)(X, ENDS), "in_features is 7; got 8"),
    "weights": (lambda: GraphConvolution(8, 2)(X, ENDS, np.ones(7, np.float32)), "each of the 300 edges"),
    "features": (lambda: EdgeConditionedConv(8, 2, edge_features=3)(X, ENDS, np.ones((300, 2), np.float32)),
                 r"edge features \(E, 3\)"),
    "kinds": (lambda: HeterogeneousGraphConv(8, 2, num_relations=2)(X, ENDS), "kinds of edges"),
    "names": (lambda: PNA(8, 2, avg_log_degree=1.0, aggregators=("median",)), "got 'median'"),
    "offsets": (lambda: Readout(8, 2, pooling="sum")(X, np.array([0, 3, 50])), "rise from 0 to 40"),
    "pooling": (lambda: Readout(8, 2)(X, np.array([0, NODES])), "got None as pooling"),
    "spirals": (lambda: SpiralConv(8, 2, 3)(X, np.full((NODES, 3), NODES)), "neighbours from 0 to 39"),
    "unset": (lambda: MeshEdgeConv(8, 2, num_edges=NODES)(X), "set_neighbors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, engine: Any) -> None:
    call, words = REFUSED[case]
    with pytest.raises(ClnetError, match=words) as found:
        call()
    assert case != "outside" or isinstance(found.value, IndexingError)
    assert case != "pairs" or isinstance(found.value, ShapeError)
