"""Segment sums with the work-groups of a GPU on whatever device there is: pieces of all sizes, empty ones, and one that
spans many shares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.op import OPS
from clnet.core.tensor import tensor

EDGES = np.array([0, 0, 1, 300, 300, 4396, 8492, 8500, 30001, 30001], np.int32)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_both_geometries(kind: str, engine: Any, chosen_for: Callable[..., object]) -> None:
    if kind == "cpu" and engine.device.kind == "gpu":
        pytest.skip("kernels for CPUs load vectors wherever they lie, which GPUs do not allow")
    for name in ("segment_dot", "segment_spread"):
        chosen_for(OPS[name], kind=kind, compute_units=3, vector_width=4)
    if engine.compiles:
        engine.plans.clear()  # the other geometry's serve the same graph
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(30001).astype(np.float32) for _ in range(2))
    dots = F.segment_dot(tensor(x), tensor(y), tensor(EDGES))
    spread = F.segment_spread(dots, tensor(EDGES), 30001) * 2.0
    got, wide = engine.values([dots, spread])
    want = [float(np.dot(x[a:b].astype(np.float64), y[a:b])) for a, b in itertools.pairwise(EDGES)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(wide, 2 * np.repeat(got, np.diff(EDGES)))
    if engine.compiles:
        engine.plans.clear()
