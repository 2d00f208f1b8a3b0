"""Meshes: heat that spreads as the exponential of a Laplacian says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....layers.mesh import eigenbasis
from ..registry import Subject, draw
from ..results import Result
from . import equal, holds

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


def _exponential(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    total = term = np.eye(len(a))
    for k in range(1, TERMS):
        term = term @ a / k
        total = total + term
    return total
