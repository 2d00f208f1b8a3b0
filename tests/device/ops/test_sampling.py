"""Images read between their pixels: points outside, NaN and infinities, and blocks of points that are not whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine


def test_points_outside_and_nan_and_infinities(engine: Any) -> None:
    """What is not read does not count: an infinity stays with the points beside it."""
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    x[0, 0, 0, 0] = np.inf
    px = np.float32([[2.5, -1.0, -5e8, 4.0, np.nan, 0.5, 3.0, -0.5]])
    py = np.float32([[1.5, 1.0, 1.0, 2.0, 1.0, 0.0, 2.0, 2.0]])
    y, = engine.values([F.bilinear(x, px, py)])
    assert np.array_equal(y[0, 0], np.float32([8.5, 0, 0, 0, np.nan, np.inf, 11, 4]), equal_nan=True)


@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize(("n", "c", "h", "w", "points"), [(2, 3, 5, 4, 131), (5, 1, 1, 7, 64), (1, 37, 9, 1, 20)])
def test_gradients_are_the_references(n: int, c: int, h: int, w: int, points: int, padding: str, engine: Any) -> None:
    rng = np.random.default_rng(points)
    x, flow = rng.standard_normal((n, c, h, w)), rng.standard_normal((n, c, points))
    px, py = (rng.integers(-2, m + 2, (n, points)) + rng.uniform(0.05, 0.95, (n, points)) for m in (w, h))

    def values(used: Any, dtype: str) -> list[Any]:
        with on(used):
            given = [tensor(v.astype(dtype)) for v in (x, px, py)]
            y = F.bilinear(*given, padding=padding)
            return used.values([y, *gradients(y, given, tensor(flow.astype(dtype)))])

    for got, wanted in zip(values(engine, "float32"), values(NumpyEngine(), "float64"), strict=True):
        assert np.allclose(got, wanted, rtol=0, atol=3e-6 * max(1.0, np.abs(wanted).max()))
