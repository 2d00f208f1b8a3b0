"""Training on graphs: nodes of one by a mask, many in batches of all sizes, neighbours of nodes, kinds of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.errors import DataError, ShapeError
from clnet.layers import GraphConvolution, GraphIsomorphism, GraphSAGE, HeterogeneousGraphConv, Readout
from clnet.model import Graph as Model
from clnet.model import Input
from clnet.model import Model as wired
from clnet.optimizers import SGD, Adam
from clnet.train import Trainer
from clnet.train.data import Graph, Graphs, Neighbours, load

# Friendships of 34 members of a karate club, and whom each followed when it split: Zachary 1977, "An information flow
# model for conflict and fission in small groups".
FRIENDS = """
0-1 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-10 0-11 0-12 0-13 0-17 0-19 0-21 0-31 1-2 1-3 1-7 1-13 1-17 1-19 1-21 1-30 2-3 2-7
2-8 2-9 2-13 2-27 2-28 2-32 3-7 3-12 3-13 4-6 4-10 5-6 5-10 5-16 6-16 8-30 8-32 8-33 9-33 13-33 14-32 14-33 15-32 15-33
18-32 18-33 19-33 20-32 20-33 22-32 22-33 23-25 23-27 23-29 23-32 23-33 24-25 24-27 24-31 25-31 26-29 26-33 27-33 28-31
28-33 29-32 29-33 30-32 30-33 31-32 31-33 32-33"""
SIDES = np.array([int(c) for c in "0000000001000011001010111111111111"])


def karate() -> Graph:
    return Graph.of_pairs([tuple(map(int, p.split("-"))) for p in FRIENDS.split()], np.eye(34, dtype=np.float32),
                          undirected=True)


def convolutions(kind: Any = GraphConvolution, hidden: int = 8, out: int = 2) -> Model:
    init.seed(0)
    x, edges = Input(), Input(dtype="int32")
    h = kind(out_features=hidden, activation="tanh")(x, edges)
    return wired([x, edges], kind(out_features=out)(h, edges))


def test_karate_club(engine: Any) -> None:
    """Of the two leaders' sides alone, which side the 32 others took: 30 of them at least are right."""
    graph, leaders = karate(), np.isin(np.arange(34), [0, 33])
    assert graph.size == 156
    known, others = Graphs(graph, SIDES, mask=leaders), Graphs(graph, SIDES, mask=~leaders)
    trainer = Trainer(convolutions(), "cross_entropy", Adam(lr=0.01))
    history = trainer.fit(known, epochs=100, validation=others, verbose=False)
    assert history.rows[-1]["val_accuracy"] >= 30 / 32
    (out,) = trainer.predict(Graphs(graph))
    assert out.shape == (34, 2) and abs((out.argmax(1) == SIDES)[~leaders].mean()
                                        - trainer.evaluate(others)["accuracy"]) < 1e-6


def test_a_mask_is_a_mean_over_some_nodes(engine: Any) -> None:
    """The loss of the first step is float64's over the nodes that count; targets of two numbers have it as well."""
    graph, mask, goal = karate(), np.arange(34) % 3 == 0, np.random.default_rng(0).normal(size=(34, 2))
    for y, loss in ((SIDES, "cross_entropy"), (goal, "mse")):
        trainer = Trainer(convolutions(), loss, SGD(lr=0.1))
        (out,) = trainer.predict(Graphs(graph))
        first = trainer.fit(Graphs(graph, y, mask=mask), epochs=1, verbose=False)["loss"][0]
        z = out.astype(np.float64)[mask]
        want = (np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), y[mask]]) if loss == "cross_entropy"
                else np.mean((z - y[mask]) ** 2))
        assert abs(first - want) <= 1e-5


def rings_and_trees(count: int) -> tuple[list[Graph], np.ndarray[Any, Any]]:
    """Rings of 8 to 24 nodes with a tail each, and trees of as many."""
    rng, graphs = np.random.default_rng(0), []
    for k in range(count):
        nodes = int(rng.integers(8, 25))
        parents = [(i, int(rng.integers(max(0, i - 3), i))) for i in range(1, nodes)]
        pairs = [(i, (i + 1) % (nodes - 2)) for i in range(nodes - 2)] + [(nodes - 2, 0), (nodes - 1, nodes - 2)]
        graphs.append(Graph.of_pairs(pairs if k % 2 else parents, nodes=nodes, undirected=True))
    return graphs, np.arange(count) % 2


def reader() -> Model:
    init.seed(0)
    x, edges, offsets = Input(), Input(dtype="int32"), Input(dtype="int32")
    h = GraphIsomorphism(out_features=16, activation="tanh")(x, edges)
    h = GraphIsomorphism(out_features=16, activation="tanh")(h, edges)
    return wired([x, edges, offsets], Readout(out_features=2, pooling="mean")(h, offsets))


def test_batches_of_all_sizes_compile_nothing_after_the_first(engine: Any) -> None:
    """Eight graphs a batch, no two batches of as many nodes and edges."""
    graphs, y = rings_and_trees(64)
    data, trainer = Graphs(graphs, y), Trainer(reader(), "cross_entropy", Adam(lr=0.01))
    trainer.fit(data, epochs=1, batch_size=8, verbose=False)
    before = trainer.steps.train.recorded
    history = trainer.fit(data, epochs=2, batch_size=8, seed=1, verbose=False)
    assert trainer.steps.train.recorded == before <= 2 and len(history.steps) == 16
    out = trainer.predict(data)
    alone = np.concatenate([trainer.predict(Graphs([g])) for g in graphs[:3]])
    assert out.shape == (64, 2) and np.abs(out[:3] - alone).max() <= 1e-5


@pytest.mark.slow
def test_rings_are_told_from_trees(engine: Any) -> None:
    """95 of 100 graphs that were not trained on."""
    graphs, y = rings_and_trees(400)
    train, test = Graphs(graphs, y).split(0.25, 0)
    trainer = Trainer(reader(), "cross_entropy", Adam(lr=0.01))
    trainer.fit(train, epochs=40, batch_size=32, verbose=False)
    assert trainer.evaluate(test)["accuracy"] >= 0.95


def alike_digits() -> tuple[Graph, np.ndarray[Any, Any]]:
    """Digits, each with edges from the eight that are nearest."""
    digits = load("digits")
    x = digits.x.reshape(len(digits), -1)
    far = (x**2).sum(1)[:, None] + (x**2).sum(1) - 2 * x @ x.T
    np.fill_diagonal(far, np.inf)
    near = np.argsort(far, 1, kind="stable")[:, :8]
    return Graph(x, np.stack([near.ravel(), np.repeat(np.arange(len(x)), 8)])), digits.y


@pytest.mark.slow
def test_digits_by_sampled_neighbours(engine: Any) -> None:
    """Trained on a fifth of them with up to five neighbours of five: 95 % of the others are right, on the whole graph
    as with all neighbours of some.
    """
    graph, y = alike_digits()
    known = np.random.default_rng(0).permutation(len(y)) < 360
    trainer = Trainer(convolutions(GraphSAGE, 32, 10), "cross_entropy", Adam(lr=0.01))
    trainer.fit(Neighbours(graph, y, mask=known, sizes=(5, 5)), epochs=10, batch_size=64, verbose=False)
    assert trainer.steps.train.recorded <= 2
    whole = trainer.evaluate(Graphs(graph, y, mask=~known))
    assert whole["accuracy"] >= 0.95
    some = Neighbours(graph, y, mask=~known, sizes=(-1, -1))
    assert abs(trainer.evaluate(some, batch_size=200)["accuracy"] - whole["accuracy"]) < 1e-6


def test_neighbours_train_the_nodes_that_were_asked_for(engine: Any) -> None:
    """All edges of all nodes: the whole graph's loss; results in the order of the nodes."""
    graph, mask = karate(), np.arange(34) % 2 == 0
    losses = []
    for data in (Graphs(graph, SIDES, mask=mask), Neighbours(graph, SIDES, mask=mask, sizes=(-1, -1))):
        trainer = Trainer(convolutions(), "cross_entropy", SGD(lr=0.1))
        losses.append(trainer.fit(data, epochs=2, verbose=False)["loss"])
    assert np.abs(np.subtract(*losses)).max() <= 1e-5
    (whole,), some = trainer.predict(Graphs(graph)), trainer.predict(Neighbours(graph, mask=mask, sizes=(-1, -1)))
    assert some.shape == (17, 2) and np.abs(some - whole[mask]).max() <= 1e-5


def test_kinds_reach_the_model(engine: Any) -> None:
    """Kinds of edges and nodes stand behind the edges, in the order that the layer takes them in."""
    g = Graph.of_types({"user": np.ones((3, 2)), "item": np.eye(4)},
                       {("user", "buys", "item"): [[0, 1, 2], [0, 1, 2]], ("item", "like", "item"): [[0, 1], [3, 3]]})
    init.seed(0)
    x, edges, kinds, nodes = (Input() for _ in range(4))
    layer = HeterogeneousGraphConv(out_features=2, num_relations=2, num_node_types=2)
    trainer = Trainer(wired([x, edges, kinds, nodes], layer(x, edges, kinds, nodes)), "mse", SGD(lr=0.1))
    data = Graphs(g, np.zeros((7, 2)))
    assert data.names == ("x", "edges", "edge_types", "node_types")
    history = trainer.fit(data, epochs=20, verbose=False)
    assert history["loss"][-1] < 0.5 * history["loss"][0]


def test_what_is_refused(engine: Any) -> None:
    graph = karate()
    with pytest.raises(DataError, match="expected targets too"):
        Trainer(convolutions(), "cross_entropy", SGD(lr=0.1)).fit(Graphs(graph), verbose=False)
    with pytest.raises(ShapeError, match="expected"):
        Trainer(convolutions(), "cross_entropy", SGD(lr=0.1)).fit(
            Graphs(graph, SIDES, inputs=["x", "edges", "offsets"]), verbose=False)
    with pytest.raises(DataError, match="on both sides"):
        Trainer(convolutions(), "cross_entropy", SGD(lr=0.1)).fit(Graphs(graph, SIDES), validation=0.2, verbose=False)
