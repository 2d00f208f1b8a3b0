"""Training steps of a layer over a large graph: forward, loss, gradients and update, data on the device.

PyTorch's are those of PyTorch Geometric where it is installed, else the same formulas with `index_add_`, and works say
which.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import init
from ....core.autodiff import gradients
from ....core.tensor import Tensor, tensor
from ....engine import on
from ....engine.record import Recorded
from ....layers import GraphAttention, GraphConvolution, GraphSAGE
from ....layers.base import Layer, no_tape
from ....losses import CrossEntropyLoss
from ....optimizers import Adam
from ....train.graph import Graph
from .. import networks_graph as bench_graph
from ..compare import Step, Work
from ..peers import Run, Torch
from . import Suite

if TYPE_CHECKING:
    from ....engine.protocol import Engine

FEATURES = 64


@dataclass(frozen=True)
class Task:
    """A layer from and to 64 features on a random graph, labels of 64 classes."""

    layer: type[Layer]
    fields: dict[str, Any]
    network: Callable[[Any], Any]
    nodes: int
    edges: int

    def graph(self) -> tuple[Graph, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(graph, edges as they were drawn, labels)"""
        rng = np.random.default_rng(0)
        x, edges = rng.standard_normal((self.nodes, FEATURES), np.float32), rng.integers(0, self.nodes, (2, self.edges))
        return Graph(x, edges), edges, rng.integers(0, FEATURES, self.nodes).astype(np.int32)


def ours(task: Task) -> Callable[[Engine], Run]:
    def prepare(engine: Engine) -> Run:
        graph, _, labels = task.graph()
        with on(engine):
            init.seed(0)
            layer, loss, optimizer = task.layer(FEATURES, **task.fields), CrossEntropyLoss(), Adam(lr=1e-3)
            optimizer.attach(layer.parameters())
            given = [tensor(a) for a in (graph.x, graph.edges, labels)]
            engine.run(given)

        def body(x: Tensor, edges: Tensor, y: Tensor, hyper: Tensor) -> Any:
            with no_tape():
                value = loss(layer(x, edges), y)
            optimizer.apply(gradients(value, [p.tensor for p in optimizer.parameters]), hyper)
            return value

        count = iter(range(1, 1 << 30))
        return Step(Recorded(body, "bench"), lambda: (*given, optimizer.hyper(next(count))))

    return prepare


def theirs(task: Task) -> Callable[[Torch], Run]:
    def prepare(peer: Torch) -> Run:
        torch, (graph, edges, labels) = peer.torch, task.graph()
        torch.manual_seed(0)
        model = task.network(torch).to(peer.where)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x: Any, ends: Any, y: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            value = torch.nn.functional.cross_entropy(model(x, ends), y)
            value.backward()
            optimizer.step()
            return value

        return functools.partial(step, *(peer.array(a) for a in (graph.x, edges, labels.astype(np.int64))))

    return prepare


def works() -> list[Work]:
    """GraphConvolution, GraphSAGE and GraphAttention of one head and of eight, on 10 000 and on 100 000 nodes."""
    there = importlib.util.find_spec("torch_geometric") is not None
    networks: Any = importlib.import_module("torch_geometric.nn") if there else None
    by, found = "torch_geometric" if there else "index_add", []
    for nodes, edges in ((10_000, 100_000), (100_000, 1_000_000)):
        for name, layer, fields, flops in (
                ("GraphConvolution", GraphConvolution, dict(out_features=FEATURES), 2),
                ("GraphSAGE", GraphSAGE, dict(out_features=FEATURES), 4),
                ("GraphAttention", GraphAttention, dict(out_features=FEATURES), 2),
                ("GraphAttention of 8 heads", GraphAttention, dict(out_features=FEATURES // 8, heads=8), 2)):
            network = functools.partial(bench_graph.network, networks, layer.__name__, fields.get("heads", 1), FEATURES)
            task = Task(layer, fields, network, nodes, edges)
            found.append(Work("graph", f"{name}, {nodes} nodes, {edges} edges, by {by}", ours(task), theirs(task),
                              quick=nodes == 10_000 and name == "GraphConvolution", numpy=False,
                              flops=2.0 * flops * nodes * FEATURES**2))
    return found


SUITE = Suite(works, bars=True)
