"""Sorting against NumPy: every dtype, NaN and signed zeros, sizes that vary, bad input, the kernels of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.tensor import realize, tensor
from clnet.engine import on
from clnet.errors import ConfigError, ShapeError

DTYPES = ("float32", "int8", "uint64", pytest.param("float64", marks=pytest.mark.full),
          pytest.param("int64", marks=pytest.mark.full), pytest.param("bool", marks=pytest.mark.full))


def drawn(dtype: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(3)
    if not dtype.startswith("float"):
        return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    x = rng.normal(size=shape).astype(dtype)
    for k, odd in enumerate((0.0, -0.0, np.nan, np.inf, -np.inf)):
        x[rng.random(shape) < 0.02 * (k + 1)] = odd
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_places_are_numpys(dtype: str, engine: Any) -> None:
    for shape in ((3, 40), (2, 700), (1, 20000)):
        x = drawn(dtype, shape)
        want = np.argsort(x, -1, kind="stable")
        with on(engine):
            t = tensor(x)
            y, places = F.sort(t), F.argsort(t)
            realize(y, places)
            assert np.array_equal(places.numpy(), want)
            assert y.numpy().tobytes() == np.take_along_axis(x, want, -1).tobytes(), "signs of zeros move along"
            falling = F.argsort(t, descending=True).numpy()
            assert np.array_equal(F.topk(t, 5)[1].numpy(), falling[:, :5])
        down = np.take_along_axis(x, falling, -1).astype(np.float64)
        gone = np.isnan(down)
        assert (np.diff(gone.astype(int)) >= 0).all(), "NaN last"
        assert all((a[:-1] >= a[1:]).all() for a in (row[~g] for row, g in zip(down, gone, strict=True)))


def test_batches_of_every_size(engine: Any, serves_all: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    with on(engine):
        serves_all(lambda x: (F.sort(x, 0), F.argsort(x, descending=True), *F.topk(x, 2)),
                   [(rng.normal(size=(n, 7)).astype(np.float32),) for n in (12, 9, 5, 14, 3)], alone=0.0, digits=0.0)


def test_input_that_cannot_be_sorted(engine: Any) -> None:
    with on(engine):
        assert F.sort(np.zeros((0, 3), np.float32), 0).shape == (0, 3)
        assert F.topk(np.zeros((2, 3), np.float32), 0)[0].numpy().shape == (2, 0)
        with pytest.raises(ConfigError, match=r"k of at most 3, the size of axis 1"):
            F.topk(np.zeros((2, 3), np.float32), 4)
        with pytest.raises(ShapeError, match="an axis in"):
            F.sort(np.zeros((2, 3), np.float32), 2)


@pytest.fixture
def gpu(engine: Any, as_gpu: Callable[..., Any]) -> Any:
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("a CPU that compiles fast plays a GPU")
    return engine if engine.device.is_gpu else as_gpu(engine, max_work_group=16, local_memory=1 << 13)


def test_tiles_of_gpus(gpu: Any) -> None:
    """Several rows in a tile, one, and rows of many tiles: 112 or 240 elements are a tile here."""
    with on(gpu):
        for shape in ((30, 7), (2, 100), (1, 1000)):
            x = drawn("float32", shape)
            found = F.sort(x), F.argsort(x), F.topk(x, 5, largest=False)[1]
            realize(*found)
            y, order, top = (t.numpy() for t in found)
            want = np.argsort(x, -1, kind="stable")
            assert np.array_equal(order, want) and np.array_equal(top, want[:, :5])
            assert y.tobytes() == np.take_along_axis(x, want, -1).tobytes()


def test_running_values_in_tiles_of_gpus(gpu: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 700)).astype(np.float32)
    x[:, 350:400] = x.max(1, keepdims=True)
    with on(gpu):
        found = F.cumsum(x), F.cummax(x)[1]
        realize(*found)
    sums, places = (t.numpy() for t in found)
    assert np.abs(sums - np.cumsum(x, 1, np.float64)).max() <= 2e-6 * np.abs(sums).max()
    with on("numpy"):
        assert np.array_equal(places, F.cummax(x)[1].numpy())


def test_running_sums_of_every_size(engine: Any, serves_all: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    with on(engine):
        serves_all(lambda x: (F.cumsum(x, 0), F.cumprod(x), F.logcumsumexp(x), *F.cummax(x, 0)),
                   [(rng.normal(size=(n, 7)).astype(np.float32),) for n in (12, 9, 5, 14, 3)])
