"""Convolutions of few channels in 16 bits, and their gradients: on tensor cores, and on a CPU that plays them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
import clnet.ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS
from clnet.core.tensor import placeholder
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.kernels.tuning import overriding

ROUNDING = {"bfloat16": 3e-3, "float16": 4e-4}  # as in test_conv_tensor.py
# x, w, stride, padding, dilation: channels one less than 16, 32 and 64, as many, one more; rows of whole vectors and
# others; phases, 1 x 1, one dimension
CASES = [
    ((2, 16, 8, 8), (16, 16, 3, 3), 1, 1, 1),
    ((3, 17, 9, 7), (24, 17, 3, 3), 1, 1, 1),
    ((2, 15, 4, 8), (33, 15, 3, 3), 1, 1, 1),
    ((3, 64, 4, 4), (48, 64, 3, 3), 1, 1, 1),
    ((2, 63, 3, 8), (64, 63, 3, 3), 1, 1, 1),
    ((2, 3, 6, 16), (16, 3, 3, 3), 1, 1, 1),
    ((2, 16, 8, 16), (32, 16, 3, 3), 2, 1, 1),
    ((2, 16, 8, 8), (32, 16, 1, 1), 2, 0, 1),
    ((2, 33, 11, 8), (17, 33, 3, 3), (2, 3), 1, 1),
    ((1, 32, 10, 10), (16, 32, 3, 2), 1, (2, 1), (2, 3)),
    ((3, 20, 40), (32, 20, 4), 1, 2, 1),
]


@pytest.fixture(params=["own", pytest.param("played", marks=pytest.mark.slow)])
def cores(request: pytest.FixtureRequest, tensor_cores: Any) -> Any:
    return tensor_cores(request.param == "played", compute_units=3)


def normal(rng: Any, shape: Any, dtype: str) -> Any:
    """Numbers that are exact in dtype."""
    rounded = clnet.tensor(rng.standard_normal(shape, np.float32)).astype(dtype).numpy()
    return clnet.tensor(rounded.astype(np.float32)).astype(dtype)


def outputs(case: Any, dtype: str) -> list[Any]:
    """relu(conv), and the gradients of conv."""
    xs, ws, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x, w = normal(rng, xs, dtype), normal(rng, ws, dtype)
    y = F.conv(x, w, stride=stride, padding=padding, dilation=dilation)
    return [F.relu(y), *gradients(y, [x, w], normal(rng, y.shape, dtype))]


def kernels(engine: Any, case: Any, dtype: str) -> list[list[str]]:
    """Of conv and its gradients."""
    xs, ws, stride, padding, dilation = case
    x, w = placeholder(xs, dtype), placeholder(ws, dtype)
    y = F.conv(x, w, stride=stride, padding=padding, dilation=dilation)
    calls = (("conv", (x, w), {}), ("conv_data_gradient", (y, w), {"size": xs[2:]}),
             ("conv_weight_gradient", (y, x), {"size": ws[2:]}))
    return [[s.kernel for s in OPS[name].launch(engine.device, operands, **y.attrs, **more)]
            for name, operands, more in calls]


def close(engine: Any, case: Any, dtype: str) -> None:
    assert kernels(engine, case, dtype) == [["conv_mma"], ["conv_mma"], ["conv_mma_sums", "conv_sum"]]
    with on(engine):
        found, again = (engine.values(outputs(case, dtype)) for _ in range(2))
        for value, repeat, expected in zip(found, again, NumpyEngine().values(outputs(case, dtype)), strict=True):
            value, reference = np.asarray(value, np.float64), np.asarray(expected, np.float64)
            assert np.linalg.norm(value - reference) <= ROUNDING[dtype] * np.linalg.norm(reference)
            np.testing.assert_array_equal(value, np.asarray(repeat, np.float64))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiles_at_their_edges(cores: Any, case: Any) -> None:
    close(cores, case, "bfloat16")


def test_a_cpu_plays_one_of_them(tensor_cores: Any) -> None:
    close(tensor_cores(True, compute_units=3), CASES[0], "bfloat16")


def test_float16(cores: Any) -> None:
    close(cores, CASES[1], "float16")


@pytest.mark.parametrize(("case", "numbers"), [
    (((3, 16, 9, 8), (16, 16, 3, 3), 1, 1, 1), dict(local=26 << 10)),  # blocks of rows, the last one short
    (((7, 20, 4, 4), (20, 20, 3, 3), 1, 1, 1), dict(pixels=48)),  # three images a tile, the last one alone
    # several tiles and parts of the weight gradient
    (((5, 40, 4, 8), (40, 40, 3, 3), 1, 1, 1), dict(sums=(16, 16), waves=4, resident=1)),
], ids=str)
def test_tiles_of_rows_and_of_images(cores: Any, case: Any, numbers: dict[str, Any]) -> None:
    with overriding(("conv_mma", ""), numbers):
        close(cores, case, "bfloat16")


def test_nan_stays_where_it_is(cores: Any) -> None:
    x = np.zeros((1, 16, 9, 16), np.float32)
    x[0, 3, 4, 5], x[0, 7, 2, 15] = np.nan, np.inf
    with on(cores):
        y = F.conv(clnet.tensor(x).astype("bfloat16"),
                   clnet.tensor(np.ones((16, 16, 3, 3), np.float32)).astype("bfloat16"), padding=1)
        found = y.numpy().astype(np.float32)
    expected = np.zeros((9, 16), bool)
    expected[3:6, 4:7], expected[1:4, 14:] = True, True
    assert (~np.isfinite(found) == expected).all()
