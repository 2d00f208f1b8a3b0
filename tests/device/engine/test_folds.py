"""Reductions on every device: how exact long ones are,
and lengths around where CPUs cut them into blocks and columns into vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine.compile.folds import BLOCK
from clnet.engine.compile.folds_cpu import ACROSS

rng = np.random.default_rng(11)
# Shape, axes. One running total of a million times 0.1 was off by 2.6e-4, one a column of 65536 random numbers by 1e-5.
LONG = [((1 << 20,), 0), ((65536, 24), 0), ((3, 70000), 1), ((300, 5, 33, 31), (0, 2, 3)), ((200000, 3), 0),
        ((2, 9001, 40), 1)]
# PyTorch 2.13 (CPU) is off by 3.9e-8 to 6.5e-8 for a million or more in all,
# and by 1.1e-7 to 2.0e-7 for columns of them.
COUNTS = [((10**6,), 0), ((10**5, 10), 0), ((10, 10**5), 1), ((10**7,), 0), ((10**6, 10), 0)]
HALF, WHOLE = 2.0**-24, 2.0**-23  # [of the value] what rounding once may lose, and a unit in the last place


def off(found: Any, exact: Any) -> float:
    """The largest relative error."""
    return float(np.max(np.abs(np.asarray(found, np.float64) - exact) / exact))


@pytest.mark.parametrize(("shape", "axes"), LONG)
@pytest.mark.parametrize("kind", ["random", "equal"])
def test_long_sums_keep_their_digits(shape: Any, axes: Any, kind: str, engine: Any) -> None:
    """Random numbers err at random; equal ones round to the same side again and again."""
    x = rng.random(shape, np.float32) if kind == "random" else np.full(shape, 0.1, np.float32)
    (y,), most = engine.values([F.sum(tensor(x), axes)]), 2e-7 if kind == "random" else 1e-6
    assert off(y, x.sum(axes, dtype=np.float64)) < most


@pytest.mark.parametrize(("shape", "axes"), [*COUNTS, pytest.param((10**8,), 0, marks=pytest.mark.slow),
                                             pytest.param((10**7, 10), 0, marks=pytest.mark.slow)])
def test_sums_of_millions_are_those_of_float64_rounded(shape: Any, axes: Any, engine: Any) -> None:
    """Also where they are hidden: in means, and in gradients of what was broadcast. Twice the same bits."""
    x = tensor(rng.random(shape, np.float32))
    one = tensor(np.ones([1 if k == axes else n for k, n in enumerate(shape)], np.float32))
    exact = x.value.sum(axes, dtype=np.float64)
    outputs = [F.sum(x, axes), F.mean(x, axes),
               F.reshape(gradients(x * one, [one], np.ones(shape, np.float32))[0], exact.shape)]
    found, again = engine.values(outputs), engine.values(outputs)
    assert off(found[0], exact) < WHOLE and off(found[2], exact) < WHOLE
    assert off(found[1], exact / shape[axes]) < WHOLE + HALF
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, again, strict=True))


# Results that lie behind the outermost axis: of channels, of columns, of what has two axes before them.
BEHIND = [((64, 5, 23, 31), (0, 2, 3)), ((4096, 40), 0), ((66, 50, 41), (0, 1)), ((48, 3, 1000), (0, 2))]


@pytest.mark.parametrize(("shape", "axes"), BEHIND)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8"])
def test_results_behind_the_outermost_axis(shape: Any, axes: Any, dtype: str, engine: Any) -> None:
    """CPUs fold them in two stages, which lose no digits and take all dtypes."""
    if dtype == "float64" and not engine.device.fp64:
        pytest.skip("no float64")
    x = tensor(rng.integers(1, 100, shape) if dtype == "int8" else rng.random(shape)).astype(dtype)
    exact = x.numpy().astype(np.float64)
    total, mean, top, low, some = engine.values([F.sum(x, axes), F.mean(x.astype("float32"), axes), F.max(x, axes),
                                                 F.min(x, axes), F.any(x > 0, axes)])
    unit = {"float64": 1e-14, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int8": 0}.get(dtype, WHOLE)
    assert off(total.astype(np.float64), exact.sum(axes)) <= unit
    assert off(mean, exact.mean(axes)) <= WHOLE + HALF
    assert np.array_equal(top, exact.max(axes)) and np.array_equal(low, exact.min(axes)) and some.all()


@pytest.mark.cheap
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("width", [8, 16, 40, 1024, 70000])
def test_rows_of_16_bits(width: int, dtype: str, engine: Any) -> None:
    """Rows of whole vectors, whose results alone are scalars; 70000 ones are more than float16 holds, their mean is 1,
    and so it is of 65536, which CPUs fold in two stages.
    """
    x, columns = tensor(np.ones((3, width))).astype(dtype), tensor(np.ones((65536, 3))).astype(dtype)
    total, top, *means, spread, power = [a.astype(np.float64) for a in engine.values([
        F.sum(x * 2, 1), F.max(x, 1), F.mean(x, 1), F.mean(x), F.mean(columns, 0), F.std(columns, 0),
        F.logsumexp(x, 1)])]
    unit = 2.0**-11 if dtype == "float16" else 2.0**-8
    assert all(np.array_equal(a, np.ones_like(a)) for a in (top, *means)) and not spread.any()
    assert np.isinf(total).all() if dtype == "float16" and width > 32767 else off(total, 2.0 * width) <= unit
    assert off(power, 1 + np.log(width)) <= unit


@pytest.mark.parametrize("sizes", [(40, 33, 63, 50), (20, 25, 31, 18), (5, 6, 7)])
def test_results_behind_the_outermost_axis_in_every_number(sizes: Any, serves_all: Any) -> None:
    """One plan for batches of every size of a class, with gradients; small ones are folded in one stage."""
    def fn(x: Any, g: Any) -> Any:
        return F.sum(x * x, (0, 2, 3)), *gradients(F.sum(x * g, (0, 2)), [x, g], np.ones((7, 33), np.float32))

    g = rng.standard_normal((7, 1, 33)).astype(np.float32)
    serves_all(fn, [(rng.standard_normal((n, 7, 40, 33)).astype(np.float32), g) for n in sizes], alone=2e-6,
               digits=4e-6)


@pytest.mark.slow
def test_a_billion_ones_are_a_billion(engine: Any) -> None:
    """Beyond 2^24 float32 does not count one by one."""
    n = 1_228_800_000
    assert float(engine.values([F.sum(F.ones((n,)))])[0]) == n
    assert engine.values([F.sum(F.ones((n // 8, 8)), 0)])[0].tolist() == [n // 8] * 8


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_long_sums_leave_the_numbers_as_short_ones_do(value: float, engine: Any) -> None:
    """What their roundings lost is no number then, and is not added."""
    x = np.ones((3000, 16), np.float32)
    x[1000:1002] = value
    with np.errstate(over="ignore"):
        want = np.float32(value) + np.float32(value)
    for axes in (0, 1, None):
        (y,) = engine.values([F.sum(tensor(x), axes)])
        rows = y[1000:1002] if axes == 1 else y
        assert np.array_equal(rows, np.full_like(rows, want), equal_nan=True)


def test_long_products_keep_their_digits(engine: Any) -> None:
    x = np.exp(rng.standard_normal((5, 40000)) * 1e-2).astype(np.float32)
    (y,) = engine.values([F.prod(tensor(x), 1)])
    np.testing.assert_allclose(y, x.prod(1, dtype=np.float64), rtol=2e-5)


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 16 * BLOCK - 1, 16 * BLOCK + 17])
@pytest.mark.parametrize("width", [1, 3, 16 * ACROSS - 1, 16 * ACROSS, 32 * ACROSS + 21])
def test_blocks_and_vectors_and_what_is_left(length: int, width: int, engine: Any) -> None:
    """Sums, maxima, their places and products of integers, along the last axis, the first, and one in the middle."""
    x = rng.integers(-9, 10, (length, width)).astype(np.float32)
    for a, axes in ((x, 0), (x, 1), (x.reshape(1, length, width), 1), (x[:, None], (0, 2)), (x[:, None], (0, 1))):
        t = tensor(np.ascontiguousarray(a))
        found = engine.values([F.sum(t, axes), F.max(t * 2, axes), F.argmin(t, axes), F.sum(t.astype("int32"), axes)])
        kept = [n for k, n in enumerate(a.shape) if k not in np.atleast_1d(axes)]
        flat = np.moveaxis(a, axes, range(np.size(axes))).reshape(-1, *kept)
        for mine, want in zip(found, (flat.sum(0), 2 * flat.max(0), flat.argmin(0), flat.sum(0)), strict=True):
            assert np.array_equal(mine, want), (axes, a.shape)


@pytest.mark.parametrize(("rows", "width"), [*((37, n) for n in (1, 2, 3, 5, 9, 10, 15, 23, 31, 63, 79, 100)),
                                             (300, 1001), (401, 968)])
def test_columns_of_every_number(rows: int, width: int, engine: Any) -> None:
    """Vectors of every width down the rows, the last ones narrower; large rows are fetched ahead, past the end."""
    x = np.random.default_rng(width).integers(-500, 500, (rows, width)).astype(np.float32)
    total, top, place = engine.values([F.sum(x, 0), F.max(x, 0), F.argmax(x, 0)])
    assert np.array_equal(total, x.sum(0)) and np.array_equal(top, x.max(0)) and np.array_equal(place, x.argmax(0))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 17, 31, 63, 128, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_rows_of_every_number(width: int, dtype: str, engine: Any) -> None:
    """Vectors along the rows, whose lanes merge by halves: of equal numbers the first is found, in any lane."""
    x = np.random.default_rng(width).integers(0, 6, (67, width)).astype(dtype)
    t = tensor(x)
    found = engine.values([F.argmax(t, 1), F.argmin(t, 1), F.max(t, 1), F.min(t, 1), F.sum(t.astype("float32"), 1)])
    for mine, want in zip(found, (x.argmax(1), x.argmin(1), x.max(1), x.min(1), x.sum(1, np.float64)), strict=True):
        assert np.array_equal(mine, want)
