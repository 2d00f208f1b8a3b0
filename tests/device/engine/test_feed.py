"""Inputs from the host on GPUs (any device plays one): batches in flight never mix, and an array may be changed once it
was handed over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded


@pytest.fixture
def gpu(engine: Any, as_gpu: Any) -> Any:
    if engine.device.is_host:
        pytest.skip("the host engine has no queues")
    return as_gpu(engine)


def test_batches_in_flight_do_not_mix(gpu: Any) -> None:
    """Every step sees its own batch, however far the host is ahead."""
    weights = np.arange(64, dtype=np.float32).reshape(8, 8)
    with clnet.on(gpu):
        step = Recorded(lambda x, k, y: (F.tanh(x @ tensor(weights) * 0.01) + k, y + 1), "step")
        given, found = [], []
        x = np.zeros((2000, 8), np.float32)
        for n in range(12):
            x[:] = n + 1  # the same array, changed as soon as the call is back
            found.append(step(x, np.float32(n), np.full(3, n, np.int32)))
            given.append(n)
        for n, (a, b) in zip(given, found, strict=True):
            np.testing.assert_allclose(a.numpy(), np.tanh(np.full((2000, 8), n + 1.0) @ weights * 0.01) + n, rtol=1e-5,
                                       atol=1e-6)
            assert b.numpy().tolist() == [n + 1] * 3


def test_small_and_large_inputs_may_take_turns_in_one_step(gpu: Any) -> None:
    """Small ones travel in the queue of the launches, large ones beside it, through the same slots."""
    weights, row = np.arange(64, dtype=np.float32).reshape(8, 8), np.arange(8, dtype=np.float32)
    with clnet.on(gpu):
        large = tensor(np.full((4000, 8), 100, np.float32))
        step = Recorded(lambda x, k: F.tanh(x @ tensor(weights) * 1e-3) + k, "step")
        found = []
        for n in range(12):
            x = large if n % 3 else np.full((4000, 8), n, np.float32)
            found.append(step(x, row + n))
        for n, y in enumerate(found):
            x = np.full((4000, 8), 100 if n % 3 else n) @ weights * 1e-3
            np.testing.assert_allclose(y.numpy(), np.tanh(x) + row + n, rtol=1e-5, atol=1e-6)


def test_host_arrays_and_tensors_may_take_turns(gpu: Any) -> None:
    with clnet.on(gpu):
        step = Recorded(lambda x, y: x * 2 + y, "step")
        a = np.arange(6, dtype=np.float32)
        for x, y in ((a, a), (tensor(a), a), (a, tensor(a)), (tensor(a), tensor(a)), (a + 1, a)):
            want = 2 * np.asarray(x.numpy() if hasattr(x, "numpy") else x) + a
            np.testing.assert_array_equal(step(x, y).numpy(), want)


def test_transfers_are_counted(gpu: Any) -> None:
    with clnet.on(gpu):
        step = Recorded(lambda x: x + 1, "step")
        step(np.zeros(1000, np.float32))
        before = gpu.transfers.snapshot()
        step(np.zeros(1000, np.float32))
        assert (gpu.transfers.snapshot() - before).bytes_to_device == 4000
