"""Meshes: heat that spreads as the exponential of a Laplacian says; what a collapse leaves is a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....layers.mesh import eigenbasis
from ....ops.mesh import TABLE, VERTICES
from ..registry import Subject, draw
from ..results import Result
from . import equal, holds, true

TERMS = 40  # of the exponential's series


@holds("layer", "DiffusionConv")
def heat_is_the_exponential_of_the_laplacian(subject: Subject) -> Iterator[Result]:
    """With the whole basis Φ e^(−λ t) Φᵀ M = e^(−t M⁻¹ L), whose series knows no eigenvectors."""
    (x,), n = draw([(6, 2)], "heat"), 6
    ring = np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)
    ring[0, 3] = ring[3, 0] = 0.5
    laplacian, mass = np.diag(ring.sum(0)) - ring, np.array([1, 2, 1.5, 1, 0.5, 1])
    layer = subject.thing(in_features=2, out_features=2, num_time_scales=1, t_min=0.3, t_max=0.3, bias=False,
                          activation=None)
    layer.weight.assign(np.eye(2, dtype=np.float32))
    yield equal(layer(x, *eigenbasis(laplacian, n, mass)).numpy(), _exponential(-0.3 * laplacian / mass[:, None]) @ x,
                1e-5)


@holds("op", "mesh_collapse")
def what_is_left_is_a_closed_mesh(subject: Subject) -> Iterator[Result]:
    """An edge that goes takes two edges, two triangles and a vertex along: the Euler number stays, neighbours are so in
    both directions, and the edges of a triangle have its three vertices.
    """
    (norms,) = draw([(12,)], "norms")
    for count in (1, 2):
        plan = np.asarray(subject.thing(norms, TABLE, VERTICES, count=count).numpy())
        rows = 12 - 3 * count
        near = plan[5 * count + rows : 5 * count + 5 * rows].reshape(rows, 4)
        ends = plan[5 * count + 5 * rows :].reshape(rows, 2)
        triangles = {frozenset((e, *pair)) for e in range(rows) for pair in near[e].reshape(2, 2).tolist()}
        vertices = len(set(ends.ravel().tolist()))
        yield true(vertices - rows + len(triangles) == 2, f"Euler number {vertices - rows + len(triangles)}")
        yield true(all((near[f] == e).sum() == 1 for e in range(rows) for f in near[e]), "a neighbour has another")
        yield true(all(len(set(ends[list(t)].ravel().tolist())) == 3 for t in triangles), "no triangle")
        yield true(plan[0] == np.argmin(norms), "not the shortest first")


def _exponential(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    total = term = np.eye(len(a))
    for k in range(1, TERMS):
        term = term @ a / k
        total = total + term
    return total
