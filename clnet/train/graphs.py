"""Data sets of graphs: many that are batched, one with masks over its nodes, and one that is too large for a step."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import as_array
from ..core.spec import Spec, dtype_name
from ..errors import ConfigError, DataError
from .graph import EDGE_VALUES, GRAPH_VALUES, NODE_VALUES, VALUES, Graph
from .packed import PackedSequences
from .samples import Batch, Index, Trial, single

Array = np.ndarray[Any, Any]
INPUTS = ("x", "edges", *VALUES, "offsets")


class Graphs(PackedSequences):
    """Graphs with a target each, y (N, …), or a target a node, y[k] (Vₖ, …), one array a graph (or one, of one graph).
    In a batch their nodes lie one after another, as one block-diagonal graph.

    graphs   a Graph, or several; a Graph of several is taken apart
    y        None for `predict`
    mask     of targets a node: which of them count, bool, as y; the others become `ignore`, in losses and metrics
    inputs   what the model is given, in this order, of "x", "edges", "edge_weight", "edge_features", "edge_types",
             "node_types", "features" and "offsets"; None: all that there is, with the offsets where targets are one a
             graph, or, without targets, a list was given
    ignore   the label of nodes that do not count (NaN where targets are no integers)
    A batch of `tokens` has as many nodes at most. Raises DataError, ConfigError.
    """

    unit, part = "graph", "node"

    def __init__(self, graphs: Graph | Sequence[Graph], y: Any = None, *, mask: Any = None,
                 inputs: Sequence[str] | None = None, ignore: int = -100, title: str = "graphs") -> None:
        listed = [graphs] if isinstance(graphs, Graph) else list(graphs)
        if not listed or not all(isinstance(g, Graph) for g in listed):
            raise DataError(f"{title}: expected Graph, one or several; got {graphs!r}.")
        self.title, self.several, self.multiple_of, self.padding = title, False, 1, [0]
        self.graph = Graph.batch(listed) if len(listed) > 1 else listed[0]
        self.lengths = np.diff(self.graph.offsets)
        self.values, self.labelled, self.ignore = [self.graph.x], y is not None, None
        self._take_labels(y, mask, arguments.integer("Graphs", "ignore", ignore))
        self.names = self._named(inputs, y is None and isinstance(graphs, Graph) and graphs.graphs == 1)
        self.beside = None
        self.given = (self.graph.x.dtype.name, self.y_values.dtype.name)

    def _named(self, inputs: Sequence[str] | None, alone: bool) -> tuple[str, ...]:
        there = [n for n in INPUTS if n in ("x", "edges", "offsets") or getattr(self.graph, n) is not None]
        if inputs is None:
            return tuple(n for n in there if n != "offsets" or not (self.stepwise or alone))
        if isinstance(inputs, str) or (wrong := [n for n in inputs if n not in there]) or not inputs:
            raise ConfigError(f"{type(self).__name__}(inputs={inputs!r}): expected names among {', '.join(there)}"
                              f"{f'; got {wrong[0]!r}' if not isinstance(inputs, str) and wrong else ''}.")
        return tuple(inputs)

    def _take_labels(self, y: Any, mask: Any, ignore: int) -> None:
        count, nodes = len(self.lengths), self.graph.nodes
        if y is None:
            self.stepwise, self.y_values = False, np.zeros(count, np.int32)
            return
        values = self._a_node(y)
        self.stepwise = values is not None
        found = single(as_array(y, self.title)) if values is None else values
        if values is None and (not found.ndim or len(found) != count):
            raise DataError(f"{self.title}: expected a target a graph, {count}, or a target a node, an array for each "
                            f"graph; got shape {found.shape}.")
        self.y_values = found
        if mask is None:
            return
        counts = self._a_node(mask)
        if counts is None or counts.dtype != bool or counts.shape != (nodes,) or not self.stepwise:
            raise DataError(f"{self.title}: expected as mask a bool a node, {nodes}, beside a target a node; got "
                            f"{'none a node' if counts is None else f'{counts.dtype} of shape {counts.shape}'}.")
        if not counts.any():
            raise DataError(f"{self.title}: expected a mask with at least one node; got none.")
        self.ignore = ignore
        labels = found if found.dtype.kind == "f" else single(found.astype(np.int64))
        beside = counts.reshape(nodes, *(1,) * (labels.ndim - 1))
        self.y_values = np.where(beside, labels, self._filler_of(labels, ignore)).astype(labels.dtype)

    def _a_node(self, given: Any) -> Array | None:
        """Values of all nodes, None where these are not one a node."""
        if isinstance(given, (list, tuple)) and len(given) == len(self.lengths) and all(
                isinstance(a, (np.ndarray, list)) for a in given):
            parts = [single(as_array(a, self.title)) for a in given]
            for k, (a, n) in enumerate(zip(parts, self.lengths, strict=True)):
                if not a.ndim or len(a) != n:
                    raise DataError(f"{self.title}: expected a value for each of the {n} nodes of graph {k}; got shape "
                                    f"{a.shape}; a target a graph is an array y (N, ...).")
            return np.concatenate(parts)
        found = as_array(given, self.title)
        whole = len(self.lengths) == 1 and found.ndim and len(found) == self.graph.nodes
        return single(found) if whole and (self.graph.nodes != 1 or found.ndim == 1) else None

    @staticmethod
    def _filler_of(labels: Array, ignore: int) -> Any:
        return np.nan if labels.dtype.kind == "f" else ignore

    # --- what it holds
    @property
    def total(self) -> int:
        return len(self.y_values) if self.ignore is None else int(self.known(self.y_values).sum())

    def known(self, y: Array) -> Array:
        if self.ignore is None:
            return np.ones(len(y), bool)
        there: Array = ~np.isnan(y) if y.dtype.kind == "f" else y != self.ignore
        return np.asarray(there.reshape(len(y), -1).all(1))

    def __repr__(self) -> str:
        of = self.part if self.stepwise else self.unit
        return (f"<{type(self).__name__} {self.title}: {len(self)}, {self.graph!r}, inputs {', '.join(self.names)}, "
                f"y {self.y_values.dtype}{list(self.y_values.shape[1:])} a {of}>")

    def one(self, index: int) -> Any:
        begin, end = self.graph.offsets[index], self.graph.offsets[index + 1]
        return self._picked(np.array([index])), self.y_values[begin:end] if self.stepwise else self.y_values[index]

    def chosen(self, index: Any) -> Any:
        numbers = np.atleast_1d(np.arange(len(self))[index])
        if not len(numbers):
            raise DataError(f"{self.title}: expected at least one graph; got none.")
        found: Graphs = object.__new__(type(self))
        vars(found).update(vars(self))
        found.y_values = self.y_values[self._steps(numbers) if self.stepwise else numbers]
        found.graph, found.lengths = self._picked(numbers), self.lengths[numbers]
        found.values = [found.graph.x]
        return found

    def _picked(self, numbers: Array) -> Graph:
        """These graphs as one."""
        g, nodes = self.graph, self._steps(numbers)
        first = g.at[g.offsets]  # where the edges of each graph begin
        many = np.diff(first)[numbers]
        lengths = self.lengths[numbers]
        at, of = np.cumsum(lengths) - lengths, np.cumsum(many) - many
        edges = np.repeat(first[:-1][numbers] - of, many) + np.arange(many.sum())
        shift = np.repeat([at - g.offsets[:-1][numbers], of - first[:-1][numbers]], many, axis=1)
        found: Graph = object.__new__(Graph)
        found.x, found.offsets = g.x[nodes], np.concatenate([[0], np.cumsum(lengths)])
        found.edges = (g.edges[:, edges] + shift[[0, 0, 1]]).astype(np.int32)
        found.order = np.argsort(np.argsort(g.order[edges], kind="stable"), kind="stable").astype(np.int32)
        for names, rows in ((EDGE_VALUES, edges), (NODE_VALUES, nodes), (GRAPH_VALUES, numbers)):
            for name in names:
                value = getattr(g, name)
                setattr(found, name, None if value is None else value[rows])
        return found

    # --- batches
    def lengths_of(self, order: Array) -> Array:
        return np.maximum(self.lengths[order], 1)

    def _inputs_of(self, graph: Graph) -> tuple[Array, ...]:
        return tuple(graph.offsets.astype(np.int32) if n == "offsets" else getattr(graph, n) for n in self.names)

    def rows(self, index: Index) -> Batch:
        numbers = np.atleast_1d(np.arange(len(self))[index])
        y = self.y_values[self._steps(numbers) if self.stepwise else numbers]
        return self._inputs_of(self._picked(numbers)), y

    def shape_of(self, part: Array) -> tuple[int, ...]:
        """(graphs, edges, nodes)"""
        edges = np.diff(self.graph.at[self.graph.offsets])
        return len(part), int(edges[part].sum()), int(self.lengths[part].sum())

    def specs(self, count: int, steps: int, rows: int = 0) -> list[Spec]:
        """Of the inputs of a batch of so many graphs, edges and nodes."""
        def spec(name: str) -> Spec:
            if name in ("edges", "offsets"):
                return Spec((3, steps) if name == "edges" else (count + 1,), "int32")
            a = getattr(self.graph, name)
            size = steps if name in EDGE_VALUES else count if name in GRAPH_VALUES else rows
            return Spec((size, *a.shape[1:]), dtype_name(a.dtype))

        return [spec(n) for n in self.names]

    def targets(self) -> Array:
        return self.y_values[self.known(self.y_values)]

    def place(self, row: int, targets: bool = False, samples: Array | None = None) -> str:
        if targets:
            row = int(np.flatnonzero(self.known(self.y_values))[row])
        if targets and not self.stepwise:
            return f"{self.unit} {row}"
        numbers = np.arange(len(self)) if samples is None else samples
        ends = np.cumsum(self.lengths[numbers])
        k = int(np.searchsorted(ends, row, "right"))
        node = row - (ends[k] - self.lengths[numbers[k]])
        return f"{self.unit} {numbers[k]}, {self.part} {node}" if len(self) > 1 else f"{self.part} {node}"


class Neighbours(Graphs):
    """Nodes of one graph that is too large for a step, with targets y (V, …): a batch is some of them and, hop by hop,
    of the edges into each node that it reached `sizes` at most, drawn anew for every batch.

    mask    which nodes are trained on (evaluated, predicted): the samples; None: all
    sizes   edges a node in each hop, as many hops as the model has layers over graphs; −1: all
    seed    of the draws; the same nodes in one batch have the same neighbours
    Nodes of a batch come first, in its order; targets of those around them become `ignore`. Raises DataError.
    Paper: Hamilton et al. 2017, arXiv:1706.02216.
    """

    unit, apart = "node", False

    def __init__(self, graph: Graph, y: Any = None, *, mask: Any = None, sizes: Sequence[int] = (10, 10),
                 seed: int = 0, inputs: Sequence[str] | None = None, ignore: int = -100,
                 title: str = "neighbours") -> None:
        if not isinstance(graph, Graph) or graph.graphs != 1 or not graph.nodes:
            raise DataError(f"{title}: expected one Graph with nodes; got {graph!r}.")
        if not sizes or any(not isinstance(n, int) or isinstance(n, bool) or (n < 1 and n != -1) for n in sizes):
            raise DataError(f"{title}: expected sizes of at least 1, one a hop, or -1 for all edges; got {sizes!r}.")
        self.sizes, self.seed, self.hidden = tuple(sizes), int(seed), ignore
        labels = np.zeros(graph.nodes, np.int32) if y is None else y
        super().__init__(graph, labels, mask=np.ones(graph.nodes, bool) if mask is None else mask, inputs=inputs,
                         ignore=ignore, title=title)
        if not self.stepwise:
            raise DataError(f"{title}: expected a target a node, {graph.nodes}; got shape {np.shape(y)}.")
        self.labelled = y is not None
        self.nodes = np.flatnonzero(self.known(self.y_values)) if mask is None else np.flatnonzero(np.asarray(mask))
        self.starts = graph.at

    def __len__(self) -> int:
        return len(self.nodes)

    def one(self, index: int) -> Any:
        return self.nodes[index], self.y_values[self.nodes[index]]

    def chosen(self, index: Any) -> Any:
        found: Neighbours = object.__new__(type(self))
        vars(found).update(vars(self))
        found.nodes = np.atleast_1d(self.nodes[index])
        if not len(found.nodes):
            raise DataError(f"{self.title}: expected at least one node; got none.")
        return found

    def lengths_of(self, order: Array) -> Array:
        return np.ones(len(order), np.int64)

    def shape_of(self, part: Array) -> tuple[int, ...]:
        """At most: of that many nodes none of which have a neighbour in common."""
        nodes = edges = 0
        new = len(part)
        for size in self.sizes:
            nodes, new = nodes + new, new * (size if size > 0 else max(1, self.graph.size // self.graph.nodes))
            edges += new
        return len(part), min(edges, self.graph.size), min(nodes + new, self.graph.nodes)

    def trials(self) -> list[Trial]:
        return [(self.specs(1, self.graph.size, self.graph.nodes), self.y_values)]

    @property
    def total(self) -> int:
        return len(self.nodes)

    def parted(self, output: Array, part: Array, axis: int | None) -> Any:
        return output[: len(part)]

    def rows(self, index: Index) -> Batch:
        seeds = np.atleast_1d(self.nodes[index])
        sampled, around = self._around(seeds)
        y = self.y_values[around].copy()
        y[len(seeds) :] = self._filler_of(y, self.hidden)
        return self._inputs_of(sampled), y

    def _around(self, seeds: Array) -> tuple[Graph, Array]:
        """The graph of what was drawn around these nodes, and the number of each of its nodes."""
        draws = np.random.Generator(np.random.Philox(key=[self.seed & (2**64 - 1), zlib.crc32(seeds.tobytes())]))
        g, nodes, last, taken = self.graph, seeds, seeds, [np.zeros(0, np.int64)]
        for size in self.sizes:
            taken.append(self._into(last, size, draws))
            reached = np.unique(g.edges[0, taken[-1]])
            last = np.setdiff1d(reached, nodes, assume_unique=True)
            nodes = np.concatenate([nodes, last])
        edges = np.unique(np.concatenate(taken))
        rank = np.argsort(nodes, kind="stable")
        ends = rank[np.searchsorted(nodes[rank], g.edges[:2, edges])]
        values = {n: a[edges] for n in EDGE_VALUES if (a := getattr(g, n)) is not None}
        types = {n: a[nodes] for n in NODE_VALUES if (a := getattr(g, n)) is not None}
        return Graph(g.x[nodes], ends, features=g.features, **values, **types), nodes

    def _into(self, nodes: Array, size: int, draws: np.random.Generator) -> Array:
        """Numbers of edges into these nodes, `size` a node at most, drawn without putting back (Floyd)."""
        first, many = self.starts[nodes], self.starts[nodes + 1] - self.starts[nodes]
        few = many <= size if size > 0 else np.ones(len(nodes), bool)
        count = many[few]
        whole = np.repeat(first[few] - np.cumsum(count) + count, count) + np.arange(count.sum())
        first, many = first[~few], many[~few]
        picked = np.empty((len(many), max(size, 0)), np.int64)
        for k in range(picked.shape[1]):
            most = many - size + k
            drawn = np.minimum((draws.random(len(many)) * (most + 1)).astype(np.int64), most)
            picked[:, k] = np.where((picked[:, :k] == drawn[:, None]).any(1), most, drawn)
        return np.concatenate([whole, (first[:, None] + picked).ravel()])
