"""Numbers below 1.2e-38, with which Intel's cores take a hundred times as long: kernels of CPUs take them for zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.tensor import tensor

SUBNORMAL = np.array([1e-40, -1e-40, 0.0, 1e-45, 2e-38, -0.0], np.float32)


def test_subnormals_are_zeros_on_cpus(engine: Any) -> None:
    if not engine.device.is_cpu or engine.device.is_host:
        pytest.skip("CPUs alone take them for zeros")
    z, tiny = tensor(SUBNORMAL), tensor(np.full((4, 4), 1e-20, np.float32))
    doubled, positive, product = engine.values([z * 2.0, z > 0.0, tiny @ tiny])
    assert np.array_equal(doubled, np.array([0, 0, 0, 0, 4e-38, 0], np.float32))
    assert np.array_equal(np.signbit(doubled), np.signbit(SUBNORMAL))
    assert positive.tolist() == [False, False, False, False, True, False]
    assert not product.any()  # 4e-40


def test_no_more_than_that_is_lost(engine: Any) -> None:
    """Numbers around the bound: results are off by the least normal number at most, for each operand."""
    x = (np.logspace(-44, -30, 200) * np.tile([1, -1], 100)).astype(np.float32)
    wide, least = x.astype(np.float64), float(np.finfo(np.float32).tiny)
    values = engine.values([f(tensor(x)) for f in (lambda t: t * 0.5, lambda t: t + t, F.tanh, F.relu, abs)])
    wants = [wide * 0.5, wide + wide, np.tanh(wide), np.maximum(wide, 0), abs(wide)]
    for value, want in zip(values, wants, strict=True):
        assert np.all(abs(value - want) <= 2 * least + 2e-7 * abs(want))


def test_the_host_keeps_them(engine: Any) -> None:
    """What kernels set in a processor's registers is not left to NumPy, on no thread that waited for them."""
    for _ in range(20):
        engine.values([tensor(np.full((256, 256), 1e-20, np.float32)) @ tensor(np.full((256, 256), 1e-20, np.float32))])
        assert (np.full(1000, 1e-40, np.float32) * np.float32(0.5)).all()
