"""The reductions of GPUs, on whatever device: along rows and across columns,
in one launch and in parts, with vectors and without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine

rng = np.random.default_rng(5)

# shape, axes, launches: a second one merges parts
SHAPES = [((3000, 20), 0, 2), ((3000, 21), 0, 2), ((40, 64), 0, 1), ((9, 7), 1, 1), ((2, 5000), 1, 1),
          ((2, 50000), 1, 1), ((3, 50001), 1, 2), ((5, 3, 40, 40), (0, 2, 3), 1), ((50, 3, 40, 40), (0, 2, 3), 1),
          ((60000,), 0, 1), ((400000,), 0, 2), ((1, 1), 0, 1), ((600, 3, 40), (0, 2), 1), ((4, 33000), 0, 1),
          ((700, 64), 1, 1), ((700, 24), 1, 1), ((301, 300), 1, 1)]


@pytest.fixture(params=[4, 64])
def gpu(engine: Any, as_gpu: Any, request: pytest.FixtureRequest) -> Any:
    """An engine over a GPU of few or of many compute units."""
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    return as_gpu(engine, compute_units=request.param)


def check(gpu: Any, outputs: list[Any], tol: float = 1e-5) -> None:
    for mine, oracle in zip(gpu.values(outputs), NumpyEngine().values(outputs), strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=tol, atol=tol * max(1, np.abs(oracle).max()))


@pytest.mark.parametrize(("shape", "axes", "launches"), SHAPES)
def test_folds(gpu: Any, shape: Any, axes: Any, launches: int) -> None:
    x = tensor(rng.standard_normal(shape, np.float32))
    y = F.sum(F.square(x) + 1.0, axes) * 2.0
    with clnet.on(gpu):
        made = len(explain(y).launches)
    assert made <= launches and (made == launches or gpu.device.compute_units < 64)
    check(gpu, [y, F.max(x, axes), F.min(-x, axes)])


@pytest.mark.parametrize(("shape", "axes"), [((1500, 4096), 0), ((1700, 1031), 0), ((40, 70000), 1), ((30, 40001), 1)])
def test_an_item_adds_long_ways_in_blocks(gpu: Any, shape: Any, axes: int) -> None:
    """Where there are results enough for all units, or few units: vectors and single elements, along rows and across
    columns, and NaN and infinity.
    """
    a = rng.random(shape, np.float32)
    x = tensor(a)
    with clnet.on(gpu):
        blocks = "TWO_SUM(" in "".join(explain(F.sum(x, axes)).sources)
    assert blocks or gpu.device.compute_units == 64
    (y,), exact = gpu.values([F.sum(x, axes)]), a.sum(axes, dtype=np.float64)
    assert np.max(np.abs(y - exact) / exact) < 2.0**-22
    a[7:9, 7:9] = 3e38
    a[11, 11] = np.nan
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(gpu.values([F.sum(tensor(a), axes)])[0], a.sum(axes), rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 900, 20), (1025, 64), (1100, 128), (1030, 100)])
def test_many_short_rows(gpu: Any, shape: Any) -> None:
    """Rows of a few vectors share work-groups, also where these are not full; rows that lie apart, and two operands."""
    x, g = tensor(rng.standard_normal(shape, np.float32)), tensor(rng.integers(-3, 4, shape).astype(np.float32))
    turned = F.permute(tensor(rng.standard_normal((shape[-2], *shape[:-2], shape[-1]), np.float32)),
                       *range(1, len(shape) - 1), 0, len(shape) - 1)
    y = F.sum(x * g, -1) - 1.0
    with clnet.on(gpu):
        assert ("work-group of 256 for each o" in "".join(explain(y).sources)) == (gpu.device.compute_units < 64)
    check(gpu, [y, F.max(x, -1), F.sum(turned * F.cast(g, "bfloat16"), -1)], 2e-5)


@pytest.mark.parametrize("shape", [(5000, 12), (3, 20000), (7, 9)])
def test_folds_of_two_values(gpu: Any, shape: Any) -> None:
    """The first maximum wins ties, however the axes were cut; NaN wins everything."""
    a = np.round(rng.standard_normal(shape) * 2).astype(np.float32)
    for axis in (0, 1):
        check(gpu, [F.argmax(tensor(a), axis), F.argmin(tensor(a), axis)], 0)
    a[shape[0] // 2, 5] = np.nan
    assert gpu.values([F.argmax(tensor(a), 0)])[0][5] == shape[0] // 2
    assert np.isnan(gpu.values([F.max(tensor(a), 1)])[0][shape[0] // 2])


def test_several_folds_share_a_launch(gpu: Any) -> None:
    x, g = (tensor(rng.standard_normal((4000, 24), np.float32)) for _ in range(2))
    outputs = [F.sum(x, 0), F.sum(x * g, 0) / 3.0, F.max(g, 0)]
    with clnet.on(gpu):
        assert len(explain(*outputs).launches) <= 2
    check(gpu, outputs)


def test_the_order_of_the_sum_is_fixed(gpu: Any) -> None:
    a = rng.standard_normal((3000, 20), np.float32)
    first, again = (gpu.values([F.sum(tensor(a), 0), F.sum(tensor(a))]) for _ in range(2))
    assert all(p.tobytes() == q.tobytes() for p, q in zip(first, again, strict=True))


@pytest.mark.parametrize(("dtype", "tol"), [("float16", 2**-11), ("bfloat16", 2**-8), ("int8", 0), ("int32", 0),
                                            ("bool", 0)])
def test_types(gpu: Any, dtype: str, tol: float) -> None:
    """Sums are exact in the wider type they are made in, and rounded once."""
    a = rng.integers(0, 2, (3000, 20)).astype(np.float32)
    for axes in (0, 1):
        check(gpu, [F.sum(F.cast(tensor(a), dtype), axes), F.max(F.cast(tensor(a), dtype), axes)], tol)
