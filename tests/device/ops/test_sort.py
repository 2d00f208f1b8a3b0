"""Sorting against NumPy: every dtype, NaN and signed zeros, sizes that vary, bad input, the kernels of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.tensor import realize, tensor
from clnet.engine import on
from clnet.engine.record import Recorded
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


@pytest.fixture(params=("nvidia", "other"))
def gpu(request: pytest.FixtureRequest, engine: Any, as_gpu: Callable[..., Any]) -> Any:
    """One whose groups tell each other what they came to, as NVIDIA's may, and one whose groups don't."""
    if not engine.compiles:
        pytest.skip("the NumPy engine has no kernels")
    if engine.device.runtime == "pocl" and request.param == "nvidia":
        pytest.skip("groups of PoCL need not run side by side")
    if engine.device.is_gpu and request.param == "other":
        pytest.skip("a GPU is what it is")
    return engine if engine.device.is_gpu else as_gpu(engine, max_work_group=16, local_memory=1 << 13,
                                                      runtime=request.param)


@pytest.fixture
def long(gpu: Any) -> int:
    """[elements] of a row that is long for it."""
    return 5 << 20 if gpu.device.compute_units > 64 else 20000


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


def test_the_first_of_long_rows_of_gpus(gpu: Any, long: int) -> None:
    """Found by digits; where more are equal than there is room for, by their numbers, too."""
    x = drawn("float32", (1, long))
    equal = np.ones_like(x)
    equal[0, 70:80] = 2
    with on(gpu):
        step = Recorded(lambda t: F.topk(t, 60)[1])
        for values in (x, np.round(x), equal, np.full_like(x, np.nan)):
            order = np.argsort(np.where(np.isnan(values), np.inf, -values), -1, kind="stable")
            assert np.array_equal(step(values).numpy(), order[:, :60])
        whole = drawn("uint64", (1, long))
        assert np.array_equal(F.topk(whole, 60, largest=False)[1].numpy(), np.argsort(whole, kind="stable")[:, :60])
        assert "top_keys" in {launch.name for launch in next(iter(step.replays.values())).plan.launches}


def test_running_values_in_tiles_of_gpus(gpu: Any, long: int) -> None:
    """Of two launches and, where groups hand on what they came to, of one: equal bits however they meet."""
    for n in (700, long):
        x = np.random.default_rng(0).normal(size=(2, n)).astype(np.float32)
        x[:, 350:400] = x.max(1, keepdims=True)
        with on(gpu):
            step = Recorded(lambda t: (F.cumsum(t), F.cummax(t)[1], F.cumsum(F.cast(t, "int32"))))
            sums, places, whole = (t.numpy() for t in step(x))
            assert all(step(x)[0].numpy().tobytes() == sums.tobytes() for _ in range(5))
        assert np.abs(sums - np.cumsum(x, 1, np.float64)).max() <= 2e-6 * np.abs(sums).max()
        assert np.array_equal(whole, np.cumsum(x.astype(np.int32), 1, np.int64))
        with on("numpy"):
            assert np.array_equal(places, F.cummax(x)[1].numpy())
    names = {launch.name for launch in next(iter(step.replays.values())).plan.launches}
    assert ("cumulative_chain" in names) == gpu.device.known.words64


def test_running_sums_of_every_size(engine: Any, serves_all: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    with on(engine):
        serves_all(lambda x: (F.cumsum(x, 0), F.cumprod(x), F.logcumsumexp(x), *F.cummax(x, 0)),
                   [(rng.normal(size=(n, 7)).astype(np.float32),) for n in (12, 9, 5, 14, 3)])
