"""A graph as a value: nodes, edges that were sorted once, and what belongs to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from ..core.arrays import as_array
from ..errors import DataError
from .samples import single

Array = np.ndarray[Any, Any]


@runtime_checkable
class SparseMatrix(Protocol):
    """A sparse matrix of SciPy."""

    shape: tuple[int, ...]

    def tocoo(self) -> Any: ...


@runtime_checkable
class Network(Protocol):
    """A graph of NetworkX."""

    nodes: Any
    edges: Any

    def is_directed(self) -> bool: ...


class Graph:
    """Nodes with features x (V, F), directed edges between them, and values of either: what layers over graphs take.

    x              features (V, F); for numbers of symbols (V,); None: a single 1 a node
    edge_index     (2, E) integers, sources over targets, in any order: messages flow from source to target
    nodes          V, where x is None
    edge_weight    a number an edge, (E,)
    edge_features  (E, Fe)
    node_types     numbers of the kinds of nodes, (V,)
    edge_types     numbers of the kinds of edges, (E,)
    features       of the graph itself, (D,); of several graphs (G, D)
    offsets        (G + 1) where each of several graphs begins, and the last one ends; None: it is one
    Edges are sorted here, once, by target; `edges` (3, E) int32 is what layers are given: sources, targets, and the
    order by source, which the way back needs. Values of edges are kept in that order; `order` says which of the edges
    as they were given each is. Loops, equal edges and nodes without any are welcome; there may be no edge, and no node.
    Raises DataError for ends that are no nodes, edges between graphs, and sizes that do not agree.
    """

    def __init__(self, x: Any, edge_index: Any, *, nodes: int | None = None, edge_weight: Any = None,
                 edge_features: Any = None, node_types: Any = None, edge_types: Any = None, features: Any = None,
                 offsets: Any = None) -> None:
        ends = _ends(edge_index)
        values = np.ones((_count(nodes, ends), 1), np.float32) if x is None else single(as_array(x, "Graph.x"))
        if values.ndim not in (1, 2):
            raise DataError(f"Graph: expected features x (V, F), a row a node; got shape {values.shape}.")
        if nodes is not None and nodes != len(values):
            raise DataError(f"Graph(nodes={nodes!r}): expected the {len(values)} rows of x; leave it out.")
        self.x, v, e = values, len(values), ends.shape[1]
        _expect_inside(ends, v)
        self.order = np.argsort(ends[1], kind="stable").astype(np.int32)
        source, target = ends[:, self.order]
        self.edges = np.stack([source, target, np.argsort(source, kind="stable")]).astype(np.int32)
        self.offsets = _offsets(offsets, v)
        self._expect_within()
        self.node_types = _values("node_types", node_types, v, "iu", 1)
        weight, described, types = (_values(n, a, e, kinds, ndim) for n, a, kinds, ndim in (
            ("edge_weight", edge_weight, "fiu", 1), ("edge_features", edge_features, "fiub", 2),
            ("edge_types", edge_types, "iu", 1)))
        self.edge_weight, self.edge_features, self.edge_types = (
            None if a is None else a[self.order] for a in (weight, described, types))
        self.features = self._of_graphs(features)

    def _of_graphs(self, features: Any) -> Array | None:
        if features is None:
            return None
        found = single(as_array(features, "Graph.features"))
        found = found[None] if found.ndim == 1 and self.graphs == 1 else found
        if found.ndim != 2 or len(found) != self.graphs:
            raise DataError(f"Graph: expected features of {self.graphs} graphs, (graphs, D); got shape {found.shape}.")
        return found

    def _expect_within(self) -> None:
        at = np.searchsorted(self.offsets[1:], self.edges[:2], "right")
        if (apart := np.flatnonzero(at[0] != at[1])).size:
            source, target = self.edges[:2, apart[0]]
            raise DataError(f"Graph: expected edges within each of the {self.graphs} graphs; got one from "
                            f"node {source} to node {target}, of another graph.")

    # --- what it is made from
    @classmethod
    def of_pairs(cls, pairs: Iterable[Sequence[int]], x: Any = None, *, nodes: int | None = None,
                 undirected: bool = False, **values: Any) -> Self:
        """From a list of (source, target). undirected: each edge is two, one each way; a value is one for both, and a
        loop stays one. Raises DataError.
        """
        listed = list(pairs)
        ends = _ends(np.asarray(listed, np.int64).reshape(len(listed), -1).T if listed else np.zeros((2, 0), np.int64))
        if undirected:
            back = np.flatnonzero(ends[0] != ends[1])
            which = np.concatenate([np.arange(ends.shape[1]), back])
            ends = np.concatenate([ends, ends[::-1, back]], 1)
            values = {n: np.asarray(a)[which] if n.startswith("edge_") and a is not None else a
                      for n, a in values.items()}
        return cls(x, ends, nodes=nodes, **values)

    @classmethod
    def of_matrix(cls, matrix: Any, x: Any = None, **values: Any) -> Self:
        """From an adjacency matrix (V, V), of SciPy or dense: A[i, j] ≠ 0 is an edge from j to i of weight A[i, j], so
        that sums over neighbours are A · x. Weights of 1 all are left out. Raises DataError.
        """
        if isinstance(matrix, SparseMatrix):
            entries = matrix.tocoo()
            row, column, weight, shape = entries.row, entries.col, np.asarray(entries.data), matrix.shape
            row, column, weight = (a[weight != 0] for a in (row, column, weight))
        else:
            dense = as_array(matrix, "Graph.of_matrix")
            shape = dense.shape
            if dense.ndim == 2:
                row, column = np.nonzero(dense)
                weight = dense[row, column]
        if len(shape) != 2 or shape[0] != shape[1]:
            raise DataError(f"Graph.of_matrix: expected a square matrix (V, V); got shape {tuple(shape)}.")
        weight = weight.astype(np.float32)
        kept = None if (weight == 1).all() else weight
        return cls(x, np.stack([column, row]).astype(np.int64), nodes=shape[0], **{"edge_weight": kept, **values})

    @classmethod
    def of_networkx(cls, graph: Network, x: Any = None, *, attribute: str | None = None, weight: str = "weight",
                    **values: Any) -> Self:
        """From a graph of NetworkX, nodes numbered in its order; an undirected edge is two, one each way.

        attribute   name of the nodes' attribute that is x, in place of x
        weight      name of the edges' attribute that is edge_weight, where all have it
        Raises DataError.
        """
        numbers = {node: k for k, node in enumerate(graph.nodes)}
        if attribute is not None:
            lacking = [n for n, data in graph.nodes(data=True) if attribute not in data]
            if lacking:
                raise DataError(f"Graph.of_networkx(attribute={attribute!r}): expected it of every node; node "
                                f"{lacking[0]!r} has none.")
            x = np.array([data[attribute] for _, data in graph.nodes(data=True)])
            x = x[:, None] if x.ndim == 1 and x.dtype.kind == "f" else x
        listed = list(graph.edges(data=True))
        weights = [data[weight] for *_, data in listed if weight in data]
        if listed and len(weights) == len(listed):
            values = {"edge_weight": np.asarray(weights, np.float32), **values}
        return cls.of_pairs([(numbers[a], numbers[b]) for a, b, _ in listed], x, nodes=len(numbers),
                            undirected=not graph.is_directed(), **values)

    @classmethod
    def of_types(cls, nodes: Mapping[str, Any], edges: Mapping[tuple[str, str, str], Any]) -> Self:
        """Of several kinds: {name: features (V, F)} of nodes and {(source's name, relation, target's name): (2, E)} of
        edges, numbered within their kinds. Kinds are numbered in the order of the mappings, nodes lie kind after kind,
        and features are filled up with zeros to those of the widest. Raises DataError.
        """
        parts = {name: single(as_array(a, f"Graph.of_types: {name}")) for name, a in nodes.items()}
        if not parts or any(a.ndim != 2 for a in parts.values()):
            raise DataError("Graph.of_types: expected features (V, F) of each kind of nodes; got "
                            f"{ {n: a.shape for n, a in parts.items()} }.")
        first = dict(zip(parts, itertools.accumulate((len(a) for a in parts.values()), initial=0), strict=False))
        wide = max(a.shape[1] for a in parts.values())
        x = np.concatenate([np.pad(a, ((0, 0), (0, wide - a.shape[1]))) for a in parts.values()])
        ends, types = [np.zeros((2, 0), np.int64)], [np.zeros(0, np.int32)]
        for k, (kind, given) in enumerate(edges.items()):
            if len(kind) != 3 or kind[0] not in parts or kind[2] not in parts:
                raise DataError(f"Graph.of_types: expected (source, relation, target) with kinds of nodes among "
                                f"{', '.join(parts)}; got {kind!r}.")
            own = _ends(given)
            for end, name in zip(own, (kind[0], kind[2]), strict=True):
                _expect_inside(end[None], len(parts[name]), f" of kind {name!r}")
            ends.append(own + np.array([[first[kind[0]]], [first[kind[2]]]]))
            types.append(np.full(own.shape[1], k, np.int32))
        kinds = np.repeat(np.arange(len(parts), dtype=np.int32), [len(a) for a in parts.values()])
        return cls(x, np.concatenate(ends, 1), node_types=kinds, edge_types=np.concatenate(types))

    @classmethod
    def batch(cls, graphs: Sequence[Graph]) -> Graph:
        """Several as one, block-diagonal: nodes one after another, with the `offsets` of each. Raises DataError."""
        if not graphs:
            raise DataError("Graph.batch: expected at least one graph; got none.")
        first = graphs[0]
        for k, g in enumerate(graphs):
            if g.kinds() != first.kinds():
                raise DataError(f"Graph.batch: expected graphs with the same values; graph 0 has {first.kinds()}, "
                                f"graph {k} has {g.kinds()}.")
        sizes, edges = [g.nodes for g in graphs], [g.size for g in graphs]
        shift = np.repeat(np.cumsum([0, *sizes[:-1]]), edges), np.repeat(np.cumsum([0, *edges[:-1]]), edges)
        found: Graph = object.__new__(cls)
        joined = np.concatenate([g.edges for g in graphs], 1)
        found.edges = (joined + np.stack([shift[0], shift[0], shift[1]])).astype(np.int32)
        found.order = (np.concatenate([g.order for g in graphs]) + shift[1]).astype(np.int32)
        starts = np.cumsum([0, *sizes[:-1]])
        found.offsets = np.concatenate([[0], *(g.offsets[1:] + s for g, s in zip(graphs, starts, strict=True))])
        for name in ("x", *VALUES):
            parts = [getattr(g, name) for g in graphs]
            setattr(found, name, None if parts[0] is None else np.concatenate(parts))
        return found

    # --- what it holds
    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.x)

    @property
    def size(self) -> int:
        """How many edges there are."""
        return self.edges.shape[1]

    @property
    def graphs(self) -> int:
        """How many graphs it is."""
        return len(self.offsets) - 1

    @property
    def edge_index(self) -> Array:
        """(2, E): sources over targets, as they were given."""
        found = np.empty((2, self.size), np.int32)
        found[:, self.order] = self.edges[:2]
        return found

    @property
    def at(self) -> Array:
        """(V + 1): the edges into node v are at[v] … at[v + 1]."""
        return np.searchsorted(self.edges[1], np.arange(self.nodes + 1))

    def kinds(self) -> dict[str, tuple[int, ...]]:
        """Which values there are, with the axes of each."""
        return {n: a.shape[1:] for n in ("x", *VALUES) if (a := getattr(self, n)) is not None}

    def __len__(self) -> int:
        return self.graphs

    def __repr__(self) -> str:
        what = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n in ("x", *VALUES) if (a := getattr(self, n)) is not None)
        many = f"{self.graphs} graphs, " if self.graphs != 1 else ""
        return f"<Graph: {many}{self.nodes} nodes, {self.size} edges, {what}>"


NODE_VALUES, EDGE_VALUES, GRAPH_VALUES = ("node_types",), ("edge_weight", "edge_features", "edge_types"), ("features",)
VALUES = (*EDGE_VALUES, *NODE_VALUES, *GRAPH_VALUES)


# --- what is refused
def _ends(edge_index: Any) -> Array:
    ends = np.zeros((2, 0), np.int64) if _empty(edge_index) else np.asarray(as_array(edge_index, "Graph.edge_index"))
    if ends.ndim != 2 or ends.shape[0] != 2:
        way = "; a list of pairs is Graph.of_pairs(pairs, x)" if ends.ndim == 2 and ends.shape[1] == 2 else ""
        raise DataError(f"Graph: expected edge_index (2, E), sources over targets; got shape {ends.shape}{way}.")
    if ends.size and ends.dtype.kind not in "iu":
        raise DataError(f"Graph: expected integers, numbers of nodes, as edge_index; got {ends.dtype}.")
    return ends.astype(np.int64)


def _empty(edge_index: Any) -> bool:
    return isinstance(edge_index, (list, tuple)) and all(isinstance(a, (list, tuple)) and not a for a in edge_index)


def _count(nodes: int | None, ends: Array) -> int:
    if nodes is None:
        return int(ends.max(initial=-1)) + 1
    if not isinstance(nodes, (int, np.integer)) or isinstance(nodes, bool) or nodes < 0:
        raise DataError(f"Graph(nodes={nodes!r}): expected a whole number of nodes.")
    return int(nodes)


def _expect_inside(ends: Array, count: int, of: str = "") -> None:
    if ends.size and (ends.min() < 0 or ends.max() >= count):
        e = int(np.flatnonzero(((ends < 0) | (ends >= count)).any(0))[0])
        raise DataError(f"Graph: expected edges between nodes 0 to {count - 1}{of}; edge {e} has the end(s) "
                        f"{', '.join(map(str, ends[:, e].tolist()))}; there are {count} such nodes.")


def _offsets(offsets: Any, count: int) -> Array:
    found = np.array([0, count]) if offsets is None else np.asarray(as_array(offsets, "Graph.offsets"))
    rising = found.ndim == 1 and len(found) > 1 and found.dtype.kind in "iu" and (np.diff(found.astype(int)) >= 0).all()
    if not rising or found[0] != 0 or found[-1] != count:
        raise DataError(f"Graph: expected offsets (graphs + 1) that rise from 0 to the {count} nodes; got "
                        f"{offsets!r}.")
    return found.astype(np.int64)


def _values(name: str, given: Any, count: int, kinds: str, ndim: int) -> Array | None:
    if given is None:
        return None
    found = single(as_array(given, f"Graph.{name}"))
    if found.ndim != ndim or len(found) != count or (found.size and found.dtype.kind not in kinds):
        a = {"node_types": "kind a node, (V,)", "edge_types": "kind an edge, (E,)",
             "edge_weight": "number an edge, (E,)", "edge_features": "row an edge, (E, Fe)"}[name]
        raise DataError(f"Graph: expected as {name} a {a}, {count} of them; got {found.dtype} of shape {found.shape}.")
    return found.astype(np.float32) if name in ("edge_weight", "edge_features") else found
