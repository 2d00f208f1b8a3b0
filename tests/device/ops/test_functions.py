"""Functions that clnet's kernels compute themselves, as far as their digits go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor


def test_tanh_keeps_its_digits(engine: Any) -> None:
    """2.9 units in the last place by the polynomial, on CPUs; OpenCL asks for 5."""
    rng = np.random.default_rng(0)
    small = rng.choice([-1, 1], 100_000) * 10 ** rng.uniform(-30, 1, 100_000)
    x = np.concatenate([np.linspace(-12, 12, 400_001), small]).astype(np.float32)
    (y,) = engine.values([F.tanh(tensor(x))])
    exact = np.tanh(x.astype(np.float64))
    units = np.abs(y - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert units.max() <= (3 if engine.device.is_cpu else 5)


def test_tanh_ends(engine: Any) -> None:
    (y,) = engine.values([F.tanh(tensor(np.array([np.inf, -np.inf, np.nan, 1e30, -200, 0.0], np.float32)))])
    np.testing.assert_array_equal(y, np.array([1, -1, np.nan, 1, -1, 0], np.float32))


@pytest.mark.parametrize("dtype, least, most", [("float32", -36, 38), ("float64", -306, 307), ("float16", -4, 4)])
def test_norms_of_all_magnitudes(dtype: str, least: int, most: int, engine: Any) -> None:
    """Also where squares vanish or overflow, among rows and between columns, and the slopes."""
    size = np.concatenate([10.0 ** np.arange(least, most), [0]])
    rows = np.random.default_rng(0).uniform(0.1, 1, (len(size), 21)) * size[:, None]
    x = rows.astype(dtype)
    scale = np.where(size > 0, size, 1)[:, None]
    exact = np.linalg.norm(x.astype(np.float64) / scale, axis=1) * scale[:, 0]
    slope = np.divide(x, exact[:, None], out=np.zeros_like(rows), where=exact[:, None] > 0)
    t = tensor(x)
    y = F.norm(t, 1)
    outputs = [y, *gradients(y, [t], np.ones(y.shape, dtype)), F.norm(tensor(np.ascontiguousarray(x.T)), 0)]
    found, by, across = engine.values(outputs)
    most_off = {"float32": 4e-7, "float64": 1e-15, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(found, exact, rtol=most_off, atol=0)
    np.testing.assert_allclose(across, exact, rtol=most_off, atol=0)
    np.testing.assert_allclose(by, slope, rtol=2 * most_off, atol=0)


def test_norms_of_what_is_not_finite(engine: Any) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[inf, 1, 0], [-inf, inf, 1], [nan, 1, 0], [nan, inf, 0], [3e38, 3e38, 0]], np.float32)
    (y,) = engine.values([F.norm(tensor(x), 1)])
    np.testing.assert_array_equal(y, np.array([inf, inf, nan, nan, inf], np.float32))
