"""Reductions on every device: how exact long ones are, and lengths around where CPUs cut them into blocks and columns into vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.engine.folds import ACROSS, BLOCK
from clnet.tensor import tensor

rng = np.random.default_rng(11)
# Shape, axes. One running total of a million times 0.1 was off by 2.6e-4, one a column of 65536 random numbers by 1e-5.
LONG = [((1 << 20,), 0), ((65536, 24), 0), ((3, 70000), 1), ((300, 5, 33, 31), (0, 2, 3)), ((200000, 3), 0), ((2, 9001, 40), 1)]


@pytest.mark.parametrize(("shape", "axes"), LONG)
@pytest.mark.parametrize("kind", ["random", "equal"])
def test_long_sums_keep_their_digits(shape: Any, axes: Any, kind: str, device: Any) -> None:
    """Random numbers err at random; equal ones round to the same side again and again."""
    x = rng.random(shape, np.float32) if kind == "random" else np.full(shape, 0.1, np.float32)
    y, most = device.values([F.sum(tensor(x), axes)])[0], 1e-6 if kind == "random" else 5e-6
    np.testing.assert_allclose(y, x.sum(axes, dtype=np.float64), rtol=most)


def test_long_products_keep_their_digits(device: Any) -> None:
    x = np.exp(rng.standard_normal((5, 40000)) * 1e-2).astype(np.float32)
    (y,) = device.values([F.prod(tensor(x), 1)])
    np.testing.assert_allclose(y, x.prod(1, dtype=np.float64), rtol=2e-5)


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 16 * BLOCK - 1, 16 * BLOCK + 17])
@pytest.mark.parametrize("width", [1, 3, 16 * ACROSS - 1, 16 * ACROSS, 32 * ACROSS + 21])
def test_blocks_and_vectors_and_what_is_left(length: int, width: int, device: Any) -> None:
    """Sums, maxima, their places and products of integers, along the last axis, the first, and one in the middle."""
    x = rng.integers(-9, 10, (length, width)).astype(np.float32)
    for a, axes in ((x, 0), (x, 1), (x.reshape(1, length, width), 1), (x[:, None], (0, 2)), (x[:, None], (0, 1))):
        t = tensor(np.ascontiguousarray(a))
        found = device.values([F.sum(t, axes), F.max(t * 2, axes), F.argmin(t, axes), F.sum(t.astype("int32"), axes)])
        flat = np.moveaxis(a, axes, range(np.size(axes))).reshape(-1, *(n for k, n in enumerate(a.shape) if k not in np.atleast_1d(axes)))
        for mine, want in zip(found, (flat.sum(0), 2 * flat.max(0), flat.argmin(0), flat.sum(0)), strict=True):
            assert np.array_equal(mine, want), (axes, a.shape)
