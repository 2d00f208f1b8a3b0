"""The edges of a graph as layers compute with them: sums, means, maxima and softmax at nodes.

They are sorted once, by targets, and by sources for the way back; see edges.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.spec import INTS
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError, IndexingError, ShapeError
from .edges import _edge_dot, _edge_max, _edge_offsets, _edge_order, _edge_sum, _edge_take, _edge_total
from .index import _gather
from .joining import concat
from .packed import offsets_of
from .pointwise import arange, bit_and, cast, detach, equal, exp, maximum, ones, where
from .segment import segment_spread
from .view import reshape

FAMILY = "index"


class Edges(NamedTuple):
    """The edges of a graph of `nodes` nodes, in the order of their targets. Where sources are nodes of another kind,
    `out` says how many there are.

    target, source   (E) int32, `nodes` where an end of the edge is outside
    back             (E) int32: the edges in the order of their sources
    at, out          (nodes + 1) int32: edges at[v] … at[v + 1] end at v, back[out[v]] … back[out[v + 1]] start there
    order            (E) int32: which of the edges as they were given each is; None: they were sorted
    """

    target: Tensor
    source: Tensor
    back: Tensor
    at: Tensor
    out: Tensor
    nodes: int
    order: Tensor | None

    @classmethod
    def of(cls, who: str, edges: TensorLike, count: int, copies: int = 1) -> Edges:
        """Those of (2, E), sources over targets in any order, which is sorted on the device; or of (3, E), sources,
        targets that rise, and the order by sources: `Graph.edges`, sorted once.

        count    nodes
        copies   of the graph, one after another: as many nodes and edges more
        Raises DTypeError, ShapeError, and IndexingError for nodes outside [0, count) where the host knows them.
        """
        given = as_tensor(edges)
        if given.dtype not in INTS:
            raise DTypeError(f"{who}: expected integer edges (2, E); got {given.dtype}{given.shape}; cast to int32.")
        if given.ndim != 2 or given.shape[0] not in (2, 3):
            raise ShapeError(
                f"{who}: expected edges (2, E), sources over targets, or those of a Graph, (3, E), beside the nodes; "
                f"got shape {given.shape}; a list of pairs is np.asarray(pairs).T.")
        known = given.value
        if known is not None:
            _expect(who, known, count)
        given = cast(given, "int32")
        source, target = (_copied(i, copies, count) for i in _rows_of(given, count))
        size, count = given.shape[1], copies * count
        if given.shape[0] == 3:
            order, back = None, _copied(given[2], copies, size)
        else:
            order = _edge_order(target, rows=count)
            source, target = (_taken(i, order) for i in (source, target))
            back = _edge_order(source, rows=count)
        at, out = _edge_offsets(target, rows=count), _edge_offsets(_taken(source, back), rows=count)
        return cls(target, source, back, at, out, count, order)

    @property
    def ends(self) -> tuple[Tensor, ...]:
        """What the ops take."""
        return self[:5]

    @property
    def size(self) -> int:
        """How many edges there are."""
        return self.target.shape[0]

    def own(self, values: Tensor) -> Tensor:
        """Values of the edges as they were given, (E, …), in this order; those of one copy for all."""
        if values.shape[0] != self.size:
            values = concat([values] * (self.size // values.shape[0]))
        if self.order is None:
            return values
        flat = _gather(reshape(values, (1, values.shape[0], -1)), self.order, fill="zero")
        return reshape(flat, values.shape)

    def of_kinds(self, kind: Tensor, count: int) -> Edges:
        """The same, each from a node (source, kind) of source · count + kind; those of a kind that is none are out."""
        there = bit_and(bit_and(kind >= 0, kind < count), self.source < self.nodes)
        source, rows = where(there, self.source * count + kind, self.nodes * count), self.nodes * count
        back = _edge_order(source, rows=rows)
        return self._replace(source=source, back=back, out=_edge_offsets(_taken(source, back), rows=rows))


def _rows_of(given: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(source, target), `count` for both where either is no number of a node."""
    source, target = given[0], given[1]
    inside = bit_and(bit_and(source >= 0, source < count), bit_and(target >= 0, target < count))
    return where(inside, source, count), where(inside, target, count)


def _copied(x: Tensor, copies: int, step: int) -> Tensor:
    """Numbers below `step` for each of some copies of what they count; those of none stay such."""
    if copies == 1:
        return x
    y = reshape(arange(n=copies, dtype="int32") * step, (copies, 1)) + reshape(x, (1, x.shape[0]))
    return reshape(where(reshape(x, (1, x.shape[0])) >= step, copies * step, y), (copies * x.shape[0],))


def _taken(x: Tensor, index: Tensor) -> Tensor:
    return reshape(_gather(reshape(x, (1, x.shape[0], 1)), index, fill="zero"), index.shape)


def _expect(who: str, edges: np.ndarray[Any, Any], count: int) -> None:
    """Raises IndexingError, ShapeError for edges that the host knows."""
    ends = edges[:2]
    if ends.size and (ends.min() < 0 or ends.max() >= count):
        e = int(np.flatnonzero(((ends < 0) | (ends >= count)).any(0))[0])
        raise IndexingError(f"{who}: expected edges between nodes 0 to {count - 1}; got edge {e}, from "
                            f"{ends[0, e]} to {ends[1, e]}; x has {count} rows, a row a node.")
    if len(edges) == 3 and ((np.diff(edges[1]) < 0).any()
                            or not np.array_equal(edges[2], np.argsort(edges[0], kind="stable"))):
        raise ShapeError(f"{who}: expected edges (3, E) as a Graph has them, sorted by target, with their order by "
                         "source; got others; give (2, E), in any order.")


def pieces(who: str, offsets: TensorLike, count: int) -> Edges:
    """Rows of a batch as edges into what they belong to, so that sums and maxima over edges are those over its rows.
    offsets (N + 1): where the rows of each begin and the last ones end. Raises ShapeError, DTypeError.
    """
    at = offsets_of(who, offsets, count)
    numbers = segment_spread(arange(n=at.shape[0] - 1, dtype="int32"), at, count)
    return Edges(numbers, numbers, arange(n=count, dtype="int32"), at, at, at.shape[0] - 1, None)


def neighbour_sum(x: Tensor, edges: Edges, w: Tensor | None = None, reverse: bool = False) -> Tensor:
    """y[v] = Σ of w[e] · x[source of e] over the edges into v; reversed, of x[target of e] over those out of it.

    x (V, D), w (E) or None: ones; or x (V, H, D), w (E, H); y of x's shape.
    """
    heads = x.shape[1:2] if x.ndim == 3 else (1,)
    weights = ones((edges.size, *heads), x.dtype) if w is None else reshape(w, (edges.size, *heads))
    y = _edge_sum(cast(weights, x.dtype), reshape(x, (x.shape[0], *heads, x.shape[-1])), *edges.ends, reverse=reverse)
    return reshape(y, (y.shape[0], *x.shape[1:]))


def edge_dot(g: Tensor, x: Tensor, edges: Edges) -> Tensor:
    """y[e, h] = Σ over d of g[target of e, h, d] · x[source of e, h, d]: g, x (V, H, D) -> (E, H)"""
    return _edge_dot(g, x, *edges.ends)


def edge_sum(m: Tensor, edges: Edges, reverse: bool = False) -> Tensor:
    """y[v] = Σ of m[e] over the edges into v; reversed, over those out of it: (E, D) -> (V, D)"""
    return _edge_total(m, *edges.ends, reverse=reverse)


def degrees(edges: Edges, dtype: str, reverse: bool = False) -> Tensor:
    """How many edges end at each node; reversed, start there: (V, 1)"""
    at = edges.out if reverse else edges.at
    return cast(reshape(at[1:] - at[:-1], (edges.nodes, 1)), dtype)


def edge_mean(m: Tensor, edges: Edges, reverse: bool = False) -> Tensor:
    """The mean of m[e] over the edges at each node, 0 where there is none."""
    return edge_sum(m, edges, reverse) / maximum(degrees(edges, m.dtype, reverse), 1)


def edge_max(m: Tensor, edges: Edges, reverse: bool = False) -> Tensor:
    """The maximum of m[e] over the edges at each node, 0 where there is none; backward to the first."""
    return _edge_max(m, *edges.ends, reverse=reverse)


def edge_take(x: Tensor, edges: Edges, reverse: bool = False) -> Tensor:
    """y[e] = x[target of e]; reversed, x[source of e]: (V, D) -> (E, D)"""
    return _edge_take(x, *edges.ends, reverse=reverse)


AGGREGATE = {"sum": edge_sum, "mean": edge_mean, "max": edge_max}


def edge_softmax(s: Tensor, edges: Edges, own: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """softmax over the edges into each node, s (E, H), and over a score of its own, (V, H): (weights of the edges, of
    the nodes' own). A score of −∞ has no part; a node without any gives zeros.
    """
    top = detach(edge_max(s, edges))
    if own is not None:
        top = where(degrees(edges, s.dtype) > 0, maximum(top, detach(own)), detach(own))
    top = where(equal(top, -np.inf), 0, top)
    e = exp(s - edge_take(top, edges))
    whole, mine = edge_sum(e, edges), None if own is None else exp(own - top)
    whole = whole if mine is None else whole + mine
    whole = where(equal(whole, 0), 1, whole)
    return e / edge_take(whole, edges), None if mine is None else mine / whole
