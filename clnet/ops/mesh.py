"""Edges of triangle meshes that collapse, and sums of their features along the way."""

from __future__ import annotations

import numpy as np

from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.spec import Spec
from ..core.tensor import Tensor, constant
from ..errors import ShapeError
from ..kernels.choosers import MESH_COLLAPSE, MESH_MERGE

FAMILY = "index"
# Of an octahedron: edges by their vertices, and the other edges of the two triangles at each, counter-clockwise.
VERTICES = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [2, 3], [3, 4], [4, 1], [5, 1], [5, 2], [5, 3], [5, 4]],
                    np.int32)
TABLE = np.array([[4, 1, 3, 7], [5, 2, 0, 4], [6, 3, 1, 5], [7, 0, 2, 6], [1, 0, 8, 9], [2, 1, 9, 10], [3, 2, 10, 11],
                  [0, 3, 11, 8], [9, 4, 7, 11], [10, 5, 4, 8], [11, 6, 5, 9], [8, 7, 6, 10]], np.int32)


def _samples() -> list[Case]:
    open_table = TABLE.copy()
    open_table[[0, 3, 7], 2:] = -1  # a hole: the triangles at these edges are gone
    return [Case(((12,), TABLE, VERTICES), dict(count=1)), Case(((12,), open_table, VERTICES), dict(count=1)),
            Case(((12,), TABLE, VERTICES), dict(count=3))]


def _infer(norms: Spec, table: Spec, vertices: Spec, *, count: int) -> Spec:
    edges = norms.shape[0]
    if norms.shape != (edges,) or table.shape != (edges, 4) or vertices.shape != (edges, 2):
        raise ShapeError(f"mesh_collapse: expected norms (E), neighbours (E, 4) and vertices (E, 2); got "
                         f"{norms.shape}, {table.shape} and {vertices.shape}.")
    return Spec((5 * count + 7 * (edges - 3 * count),), "int32")


@kernel(cl="mesh.cl", samples=_samples, infer=_infer, accepts="any", launch=MESH_COLLAPSE, differentiable=False,
        define=lambda norms, table, vertices, *, count: constant(-1, "int32", (0,)))
def _mesh_collapse(norms: Array, table: Array, vertices: Array, *, count: int) -> Array:
    """y = (e, a, b, c, d) of `count` collapses, the edges that are left, their neighbours and their vertices, flat

    Edges go by norm, ties by number: an edge (u, v) of two triangles (e, a, b), (e, c, d) whose edges are all there and
    differ, if u and v have two common neighbours; then b is a, d is c, v is u. −1 where too few can go.
    """
    near, ends, edges = np.array(table, np.int64), np.array(vertices, np.int64), len(norms)
    log: list[list[int]] = []
    alive = np.ones(edges, bool)
    for e in np.lexsort((np.arange(edges), norms)):
        row = near[e].tolist()
        there = len(log) < count and alive[e] and min(row) >= 0 and len(set(row)) == 4
        if not there or _common(ends[alive], *ends[e]) != 2:
            continue
        for keep, drop in (row[:2], row[2:]):
            _join(near, e, keep, drop)
            alive[drop] = False
        alive[e] = False
        ends[ends == ends[e, 1]] = ends[e, 0]
        log.append([e, *row])
    left, full = np.flatnonzero(alive), len(log) == count
    number = np.full(edges + 1, -1)
    number[left] = np.arange(len(left))
    rest = [left, number[near[left]].ravel(), ends[left].ravel()]
    y = np.full(5 * count + 7 * (edges - 3 * count), -1, np.int32)
    y[: 5 * len(log)] = np.array(log, np.int32).ravel()
    if full:
        y[5 * count :] = np.concatenate(rest)
    return y


def _common(ends: Array, u: int, v: int) -> int:
    """How many vertices have an edge to both."""
    around = [set(ends[(ends == w).any(1)].ravel().tolist()) - {u, v} for w in (u, v)]
    return len(around[0] & around[1])


def _join(near: Array, e: int, keep: int, drop: int) -> None:
    """Edge `keep` takes the place of `drop`: its triangles are the other ones of both."""
    own, other = (near[f, 2:] if e in near[f, :2] else near[f, :2] for f in (keep, drop))
    near[keep] = row = [*own, *other]
    for q in row[2:]:
        if q >= 0:
            near[q][near[q] == drop] = keep


PLAN = np.array([5, 2, 1, 9, 10, 6, 3, 2, 10, 11], np.int32)  # of two collapses


@kernel(cl="mesh.cl", samples=lambda: [Case(((12, 3), PLAN), dict(count=2, reverse=r)) for r in (False, True)],
        infer=lambda x, plan, *, count, reverse: x, accepts="float", launch=MESH_MERGE,
        define=lambda x, plan, *, count, reverse: x)
def _mesh_merge(x: Array, plan: Array, *, count: int, reverse: bool) -> Array:
    """y = x with y[a] += y[e] + y[b], y[c] += y[e] + y[d], collapse after collapse; reversed, the adjoint"""
    y = np.array(x)
    for e, a, b, c, d in plan[: 5 * count].reshape(count, 5)[:: -1 if reverse else 1]:
        if e < 0:
            continue
        if reverse:
            y[e] += y[a] + y[c]
            y[b] += y[a]
            y[d] += y[c]
        else:
            y[a] += y[e] + y[b]
            y[c] += y[e] + y[d]
    return y


@_mesh_merge.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, plan: Tensor, *, count: int, reverse: bool) -> Cotangents:
    return _mesh_merge(g, plan, count=count, reverse=not reverse), None
