"""Functions that clnet's kernels compute themselves, as far as their digits go."""

from __future__ import annotations

from typing import Any

import numpy as np

from clnet import ops as F
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
