"""Pooling by the kernels of GPUs, on CPUs that play GPU too: values, places and ways back, from rows and operands that
vectors fit and that they don't.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet.ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, tensor
from clnet.engine import on
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine

RNG = np.random.default_rng(5)
ORACLE = NumpyEngine()

CASES = [  # x, window, stride, padding, dilation, ceil_mode
    ((2, 3, 8, 16), 2, 2, 0, 1, False),     # vectors of four, of windows that share nothing
    ((2, 3, 8, 16), 3, 2, 1, 1, False),     # padding beside whole vectors
    ((2, 3, 9, 12), 3, 1, 1, 1, False),
    ((2, 3, 8, 12), 3, 1, 1, 1, False),     # two rows an item on the way back
    ((1, 2, 10, 16), 3, 2, 2, 2, True),
    ((1, 2, 7, 20), 3, 1, 1, 2, False),
    ((2, 3, 6, 28), 2, 2, 0, 1, False),     # of two
    ((2, 3, 7, 9), 3, 2, 1, 1, True),
    ((2, 2, 9, 24), (2, 3), (2, 3), (0, 1), 1, True),
    ((1, 2, 6, 40), (1, 2), (1, 5), 0, 1, False),   # elements that no window holds
    ((2, 3, 33), 3, 2, 1, 1, False),
    ((2, 3, 64), 4, 4, 2, 1, True),
    ((1, 2, 5, 6, 8), (2, 3, 2), (2, 1, 2), (1, 1, 0), 1, True),
    ((1, 2, 4, 7, 12), 2, (1, 3, 2), 0, (2, 3, 1), False),
    ((2, 3, 7, 7), 7, None, 0, 1, False),
]


@pytest.fixture
def gpu(engine: Any, as_gpu: Any) -> Any:
    """An engine over a small GPU that is this CPU, or over the GPU itself."""
    profile = engine.device
    if profile.kind == "gpu":
        return engine
    if profile.is_host or profile.runtime == "pocl":
        pytest.skip("a CPU that compiles fast plays the GPU")
    return as_gpu(engine, key="small gpu", max_work_group=64, local_memory=16384)


def with_holes(*shape: int) -> np.ndarray[Any, Any]:
    """Many ties, some NaN and infinities."""
    x = np.round(2 * RNG.standard_normal(shape)).astype(np.float32)
    x[RNG.random(shape) < 0.03] = np.nan
    x[RNG.random(shape) < 0.05] = -np.inf
    return x


def agree(engine: Any, outputs: list[Tensor], kernels: int) -> None:
    with on(engine):
        assert [name for name, _ in explain(*outputs).launches].count("pool") == kernels, str(explain(*outputs).plan)
    for mine, oracle in zip(engine.values(outputs), ORACLE.values(outputs), strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(oracle, np.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pooling_and_its_gradients(case: Any, gpu: Any) -> None:
    """One launch forward, which finds maxima and their places, and one back."""
    shape, *how = case
    for dtype in ("float32", "float64") if gpu.device.fp64 else ("float32",):
        x = tensor(with_holes(*shape).astype(dtype))
        y = F.max_pool(x, *how)
        g = tensor(RNG.standard_normal(y.shape).astype(dtype))
        agree(gpu, [y, *gradients(y, [x], g)], 2)
        if how[3] == 1:
            x = tensor(RNG.standard_normal(shape).astype(dtype))
            y = F.avg_pool(x, *how[:3], how[4])
            agree(gpu, [y, *gradients(y, [x], g)], 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES[:6:2], ids=str)
def test_16_bits_are_read_as_they_are(case: Any, dtype: str, gpu: Any) -> None:
    shape, *how = case
    x = tensor(np.round(8 * RNG.standard_normal(shape)).astype(np.float32)).astype(dtype)
    y = F.max_pool(x, *how)
    g = tensor(np.round(8 * RNG.standard_normal(y.shape)).astype(np.float32)).astype(dtype)
    outputs = [y, *gradients(y, [x], g)]
    agree(gpu, outputs, 2)
    with on(gpu):
        plan = explain(*outputs).plan
    moved = sum(s.nbytes for s in plan.launches if s.name == "pool")
    assert moved == 2 * (x.spec.nbytes + y.spec.nbytes + y.size), str(plan)


def test_operands_that_begin_anywhere(gpu: Any) -> None:
    """Pieces of larger arrays, at every alignment, are read where they lie."""
    whole = tensor(RNG.standard_normal((3, 4, 8, 16)).astype(np.float32))
    flat = F.reshape(whole, (-1,))
    for start in (0, 1, 2, 4):
        x = F.reshape(flat[start : start + 8 * 16 * 3], (1, 3, 8, 16))
        agree(gpu, [F.max_pool(x, 2), F.avg_pool(x, 2)], 2)


def test_what_the_kernels_do_not_suit(gpu: Any) -> None:
    """Windows of many elements along a row, and of more than a byte numbers, are left to formulas."""
    for shape, size, kernels in (((1, 2, 3, 80), (1, 40), 1), ((2, 3, 18, 18), 17, 0)):
        x = tensor(RNG.standard_normal(shape).astype(np.float32))
        y = F.max_pool(x, size)
        agree(gpu, [y, *gradients(y, [x], tensor(RNG.standard_normal(y.shape).astype(np.float32)))], kernels)


# --- the two of one launch
def test_places_and_maxima_of_one_search(engine: Any) -> None:
    """Whoever asks for both gets both from one launch, with what reads either or both in it;
    who asks for one has no more.
    """
    if engine.device.is_host:
        pytest.skip("the host engine has no launches")
    x = tensor(with_holes(2, 3, 8, 16))
    value = F.max_pool(x, 2)
    place = F.pool._max_pool_index(x, size=(2, 2), stride=(2, 2), low=(0, 0), high=(0, 0), dilation=(1, 1))
    both = F.where(F.equal(place, 0), value, -1.0)
    for outputs in ([value, place], [both, F.relu(value)], [value], [place * 2]):
        agree(engine, outputs, 1)
        assert len(explain(*outputs).launches) == 1
    assert "max_pool_index" not in explain(value).plan.launches[0].ops
    agree(engine, [F.max_pool(x, 2), F.max_pool_indices(x, 2)], 1)
