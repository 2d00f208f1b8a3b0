"""Sums, maxima and dot products over the edges of a graph, with edges that were sorted once: no float atomics, forward
and backward.

Edges lie in the order of their targets: those into node v are at[v] … at[v + 1]; `back` is their order by sources, and
those out of node v are out[v] … out[v + 1] of it. Every op comes in two directions, at the target of an edge or,
reversed, at its source, and each is the other's adjoint: so gradients of gradients are the same kernels. Nodes outside
are dropped. `Edges` (graphs.py) holds the numbers, and functions for layers.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import Array
from ..core.formula import composite
from ..core.op import Case, Cotangents, kernel
from ..core.spec import Spec, promote
from ..core.tensor import Tensor, constant
from ..errors import DTypeError, ShapeError
from ..kernels.choosers import EDGE_ARGMAX, EDGE_DOT, EDGE_OFFSETS, EDGE_ORDER, EDGE_SUM, EDGE_TOTAL
from .index import _gather, _rows
from .pointwise import arange, cast, equal, where
from .view import reshape

FAMILY = "index"


# --- how edges are sorted
def _order_samples() -> list[Case]:
    few, many = np.array([2, 0, 3, 2, 0, 1], np.int32), np.random.default_rng(8).integers(0, 38, 300).astype(np.int32)
    return [Case((few,), dict(rows=3)), Case((many,), dict(rows=37))]


def _numbers(name: str, index: Spec) -> None:
    if index.dtype != "int32" or len(index.shape) != 1:
        raise (ShapeError if index.dtype == "int32" else DTypeError)(
            f"{name}: expected an int32 index (edges); got {index}.")


def _order_infer(index: Spec, *, rows: int) -> Spec:
    _numbers("edge_order", index)
    return Spec(index.shape, "int32")


@kernel(cl="edges.cl", samples=_order_samples, infer=_order_infer, accepts="any", launch=EDGE_ORDER,
        define=lambda index, *, rows: constant(0, "int32", index.shape), differentiable=False)
def _edge_order(index: Array, *, rows: int) -> Array:
    """y = the stable order of the edges by index, those that are no number of a row last"""
    return np.argsort(np.where((index < 0) | (index >= rows), rows, index), kind="stable").astype(np.int32)


def _offset_samples() -> list[Case]:
    return [Case((np.sort(c.args[0]),), c.attrs) for c in _order_samples()]


def _offsets_infer(index: Spec, *, rows: int) -> Spec:
    _numbers("edge_offsets", index)
    return Spec((rows + 1,), "int32")


@kernel(cl="edges.cl", samples=_offset_samples, infer=_offsets_infer, accepts="any", launch=EDGE_OFFSETS,
        define=lambda index, *, rows: constant(0, "int32", (rows + 1,)), differentiable=False)
def _edge_offsets(index: Array, *, rows: int) -> Array:
    """y[v] = how many of the rising numbers are below v: int32 (rows + 1)"""
    return np.searchsorted(index, np.arange(rows + 1)).astype(np.int32)


# --- the ops. All take (target, source, back, at, out) last.
def _sorted(edges: int, nodes: int, seed: int) -> list[Array]:
    """Random edges, some of which have an end outside."""
    rng = np.random.default_rng(seed)
    target, source = np.sort(rng.integers(0, nodes + 1, edges)), rng.integers(0, nodes + 1, edges)
    source[target == nodes] = nodes
    back = np.argsort(source, kind="stable")
    at, out = (np.searchsorted(i, np.arange(nodes + 1)) for i in (target, source[back]))
    return [a.astype(np.int32) for a in (target, source, back, at, out)]


SIZES = ((9, 4, 1, 3), (300, 37, 2, 9), (140, 20, 1, 70))  # edges, nodes, heads, features


def _walk(reverse: bool, target: Array, source: Array, at: Array, out: Array) -> tuple[Array, Array, int]:
    """(row that each edge adds to, row that it reads, how many there are of the first): both the number of rows, where
    either is outside.
    """
    row, other, rows, others = ((source, target, len(out) - 1, len(at) - 1) if reverse
                                else (target, source, len(at) - 1, len(out) - 1))
    outside = (row < 0) | (row >= rows) | (other < 0) | (other >= others)
    return np.where(outside, rows, row), np.where(outside, others, other), rows


def _padded(x: Array) -> Array:
    return np.concatenate([x, np.zeros_like(x, shape=(1, *x.shape[1:]))])


def _sum_samples() -> list[Case]:
    return [Case(((e, h), (n, h, d), *_sorted(e, n, e)), dict(reverse=reverse))
            for (e, n, h, d), reverse in zip(SIZES, (False, True, False), strict=True)]


def _sum_infer(w: Spec, x: Spec, target: Spec, source: Spec, back: Spec, at: Spec, out: Spec, *, reverse: bool) -> Spec:
    if len(x.shape) != 3 or w.shape != (target.shape[0], x.shape[1]):
        raise ShapeError(f"edge_sum: expected weights (edges, heads) and x (nodes, heads, features); "
                         f"got {w.shape} and {x.shape} for {target.shape[0]} edges.")
    return Spec(_at_rows(x, at, out, reverse), promote(w.dtype, x.dtype))


def _at_rows(x: Spec | Tensor, at: Spec | Tensor, out: Spec | Tensor, reverse: bool) -> tuple[int, ...]:
    """The shape of sums of x at the nodes."""
    return ((out if reverse else at).shape[0] - 1, *x.shape[1:])


@kernel(cl="edges.cl", samples=_sum_samples, infer=_sum_infer, accepts="float", launch=EDGE_SUM,
        define=lambda w, x, target, source, back, at, out, *, reverse:
        constant(0, x.dtype, _at_rows(x, at, out, reverse)))
def _edge_sum(w: Array, x: Array, target: Array, source: Array, back: Array, at: Array, out: Array, *,
              reverse: bool) -> Array:
    """y[v, h] = Σ of w[e, h] · x[source[e], h] over the edges e with target[e] = v; reversed, with ends exchanged"""
    row, other, rows = _walk(reverse, target, source, at, out)
    y = np.zeros((rows + 1, *x.shape[1:]), x.dtype)
    np.add.at(y, row, w[:, :, None] * _padded(x)[other])
    return y[:rows]


@_edge_sum.defvjp
def _(g: Tensor, y: Tensor, w: Tensor, x: Tensor, *ends: Tensor, reverse: bool) -> Cotangents:
    at_target, at_source = (x, g) if reverse else (g, x)
    return (_edge_dot(at_target, at_source, *ends), _edge_sum(w, g, *ends, reverse=not reverse),
            None, None, None, None, None)


def _dot_samples() -> list[Case]:
    return [Case(((n, h, d), (n, h, d), *_sorted(e, n, e))) for e, n, h, d in SIZES]


def _dot_infer(g: Spec, x: Spec, target: Spec, source: Spec, back: Spec, at: Spec, out: Spec) -> Spec:
    if len(g.shape) != 3 or g.shape[1:] != x.shape[1:]:
        raise ShapeError(f"edge_dot: expected two values (nodes, heads, features); got {g.shape} and {x.shape}.")
    return Spec((target.shape[0], g.shape[1]), promote(g.dtype, x.dtype))


@kernel(cl="edges.cl", samples=_dot_samples, infer=_dot_infer, accepts="float", launch=EDGE_DOT,
        define=lambda g, x, target, *rest: constant(0, g.dtype, (target.shape[0], g.shape[1])))
def _edge_dot(g: Array, x: Array, target: Array, source: Array, back: Array, at: Array, out: Array) -> Array:
    """y[e, h] = Σ over d of g[target[e], h, d] · x[source[e], h, d]; 0 where an end is outside"""
    row, other, _ = _walk(False, target, source, at, out)
    return np.asarray((_padded(g)[row] * _padded(x)[other]).sum(-1))


@_edge_dot.defvjp
def _(h: Tensor, y: Tensor, g: Tensor, x: Tensor, *ends: Tensor) -> Cotangents:
    return (_edge_sum(h, x, *ends, reverse=False), _edge_sum(h, g, *ends, reverse=True), None, None, None, None, None)


def _total_samples() -> list[Case]:
    return [Case(((e, d), *_sorted(e, n, e)), dict(reverse=reverse))
            for (e, n, _, d), reverse in zip(SIZES, (True, False, False), strict=True)]


def _total_infer(x: Spec, target: Spec, source: Spec, back: Spec, at: Spec, out: Spec, *, reverse: bool) -> Spec:
    if len(x.shape) != 2 or x.shape[0] != target.shape[0]:
        raise ShapeError(f"edge_total: expected values (edges, features) of {target.shape[0]} edges; got {x.shape}.")
    return Spec(_at_rows(x, at, out, reverse), x.dtype)


@kernel(cl="edges.cl", samples=_total_samples, infer=_total_infer, accepts="float", launch=EDGE_TOTAL,
        define=lambda x, target, source, back, at, out, *, reverse:
        constant(0, x.dtype, _at_rows(x, at, out, reverse)))
def _edge_total(x: Array, target: Array, source: Array, back: Array, at: Array, out: Array, *,
                reverse: bool) -> Array:
    """y[v] = Σ of x[e] over the edges e with target[e] = v; reversed, with source[e] = v"""
    rows = len(out if reverse else at) - 1
    y = np.zeros((rows + 1, x.shape[1]), x.dtype)
    np.add.at(y, _rows(source if reverse else target, rows), x)
    return y[:rows]


@_edge_total.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *ends: Tensor, reverse: bool) -> Cotangents:
    return _edge_take(g, *ends, reverse=reverse), None, None, None, None, None


def _take_samples() -> list[Case]:
    return [Case(((n, d), *_sorted(e, n, e)), dict(reverse=reverse))
            for (e, n, _, d), reverse in zip(SIZES, (True, False, False), strict=True)]


@composite("v d, e, e, e, p, q -> e d", samples=_take_samples, rule="lookup")
def _edge_take(x: Tensor, target: Tensor, source: Tensor, back: Tensor, at: Tensor, out: Tensor, *,
               reverse: bool) -> Tensor:
    """y[e] = x[target[e]]; reversed, x[source[e]]; 0 where it is outside"""
    found = _gather(reshape(x, (1, *x.shape)), source if reverse else target, fill="zero")
    return reshape(found, (target.shape[0], x.shape[1]))


@_edge_take.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *ends: Tensor, reverse: bool) -> Cotangents:
    return _edge_total(g, *ends, reverse=reverse), None, None, None, None, None


def _argmax_infer(x: Spec, target: Spec, source: Spec, back: Spec, at: Spec, out: Spec, *, reverse: bool) -> Spec:
    return Spec(_total_infer(x, target, source, back, at, out, reverse=reverse).shape, "int32")


@kernel(cl="edges.cl", samples=_total_samples, infer=_argmax_infer, launch=EDGE_ARGMAX, differentiable=False,
        define=lambda x, target, source, back, at, out, *, reverse:
        constant(-1, "int32", _at_rows(x, at, out, reverse)))
def _edge_argmax(x: Array, target: Array, source: Array, back: Array, at: Array, out: Array, *,
                 reverse: bool) -> Array:
    """y[v] = the first edge e with target[e] = v whose x[e] is largest, feature by feature; −1 where there is none"""
    rows = len(out if reverse else at) - 1
    y, top = np.full((rows + 1, x.shape[1]), -1, np.int32), np.zeros((rows + 1, x.shape[1]), x.dtype)
    for e, v in enumerate(_rows(source if reverse else target, rows)):
        better = (y[v] < 0) | (x[e] > top[v]) | (np.isnan(x[e]) & ~np.isnan(top[v]))
        y[v], top[v] = np.where(better, e, y[v]), np.where(better, x[e], top[v])
    return y[:rows]


@composite("e d, e, e, e, p, q -> v d", samples=_total_samples, infer=_total_infer)
def _edge_max(x: Tensor, target: Tensor, source: Tensor, back: Tensor, at: Tensor, out: Tensor, *,
              reverse: bool) -> Tensor:
    """y[v] = max of x[e] over the edges e with target[e] = v, 0 where there is none; reversed, with source[e] = v"""
    best = _edge_argmax(x, target, source, back, at, out, reverse=reverse)
    flat = where(best < 0, x.size, cast(best, "int64") * x.shape[1] + arange(n=x.shape[1], dtype="int64"))
    return reshape(_gather(reshape(x, (1, x.size, 1)), reshape(flat, (flat.size,)), fill="zero"), best.shape)


@_edge_max.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *ends: Tensor, reverse: bool) -> Cotangents:
    best = _edge_argmax(x, *ends, reverse=reverse)
    index = ends[1 if reverse else 0]
    first = reshape(_gather(reshape(best, (1, *best.shape)), index, fill="zero"), x.shape)
    mine = equal(first, reshape(arange(n=x.shape[0], dtype="int32"), (x.shape[0], 1)))
    return where(mine, _edge_take(g, *ends, reverse=reverse), 0), None, None, None, None, None
