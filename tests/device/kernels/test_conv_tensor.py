"""Convolutions in 16-bit and TF32 arithmetic, at the edges of tiles of channels and positions, with steps and dilation;
forward and both gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clnet
import clnet.ops as F
from clnet.core.autodiff import gradients
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine
from clnet.kernels.tuning import defaults, overriding

# |error| / |result| (Frobenius, against float64 of the operands as they are):
# what rounding 16-bit results, or float32 operands, costs
ROUNDING = {"bfloat16": 3e-3, "float16": 4e-4, "bf16": 4e-3, "fp16": 6e-4, "tf32": 6e-4, "fp32": 1e-6}
# x, w, stride, padding, dilation: channels and positions one less than tiles,
# whole tiles, one more; phases; one to three dimensions
CASES = [
    ((2, 63, 9, 11), (64, 63, 3, 3), 1, 1, 1),
    ((3, 64, 12, 13), (65, 64, 3, 3), 1, 1, 1),
    ((1, 65, 16, 15), (127, 65, 3, 3), 1, 1, 1),
    ((2, 128, 7, 7), (129, 128, 1, 1), 1, 0, 1),
    ((5, 20, 5, 5), (40, 20, 3, 3), 1, 0, 1),
    ((2, 16, 12, 9), (24, 16, 3, 3), 2, 1, 1),
    ((2, 33, 11, 8), (17, 33, 3, 3), (2, 3), 1, 1),
    ((1, 32, 11, 11), (70, 32, 5, 5), 1, 2, 1),
    ((2, 64, 10, 10), (64, 64, 3, 3), 1, 2, 2),
    ((5, 64, 4, 4), (128, 64, 1, 1), 2, 0, 1),
    ((2, 16, 3, 4, 5), (16, 16, 2, 3, 1), 1, (1, 1, 0), 1),
    ((3, 48, 40), (32, 48, 4), 1, 2, 1),
]


@pytest.fixture(autouse=True)
def packed(engine: Any) -> Iterator[None]:
    """Few channels in 16 bits too go to the kernels that pack them; test_conv_mma.py has those that do not."""
    plans = getattr(engine, "plans", {})
    plans.clear()  # made with other numbers
    with overriding(("conv_mma", ""), {"channels": (1, 0)}):
        yield
    plans.clear()


@pytest.fixture
def always_tensor_cores() -> Iterator[None]:
    """Small convolutions of float32 go to tensor cores too, where there are any."""
    with overriding(("conv_wgmma", ""), {"products": 0}):
        yield


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


def skip_on_cpus(engine: Any, case: Any = None) -> None:
    """There 16-bit operands are cast, and no number of the tensor cores' kernels is read:
    three cases show it, and they compile slowly.
    """
    if engine.device.kind == "cpu" and case not in CASES[:3]:
        pytest.skip("three cases show what CPUs do")


def close(engine: Any, case: Any, dtype: str, arithmetic: str) -> None:
    found, again = (engine.values(outputs(case, dtype)) for _ in range(2))
    for value, repeat, expected in zip(found, again, NumpyEngine().values(outputs(case, dtype)), strict=True):
        value, reference = np.asarray(value, np.float64), np.asarray(expected, np.float64)
        assert np.linalg.norm(value - reference) <= ROUNDING[arithmetic] * np.linalg.norm(reference)
        np.testing.assert_array_equal(value, np.asarray(repeat, np.float64))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_tensors(engine: Any, case: Any, dtype: str) -> None:
    skip_on_cpus(engine, case)
    close(engine, case, dtype, dtype)


@pytest.mark.parametrize("case", CASES[:6], ids=str)
@pytest.mark.parametrize("precision", ["bf16", "fp16", "tf32"])
def test_float32_tensors_when_asked(engine: Any, always_tensor_cores: None, case: Any, precision: str) -> None:
    skip_on_cpus(engine, case)
    with clnet.precision(precision):
        close(engine, case, "float32", precision)


@pytest.mark.parametrize("tile", defaults("conv_wgmma")["tiles"], ids=str)
def test_every_tile(engine: Any, tile: Any) -> None:
    skip_on_cpus(engine)
    with overriding(("conv_wgmma", ""), {"tiles": (tile,)}):
        for channels in (16, 130):
            close(engine, ((2, channels, 17, 16), (130, channels, 3, 3), 1, 1, 1), "bfloat16", "bfloat16")


@pytest.mark.parametrize("block", defaults("conv_wgmma")["sums"], ids=str)
def test_every_block_of_the_weight_gradient(engine: Any, block: Any) -> None:
    skip_on_cpus(engine)
    with overriding(("conv_wgmma", ""), {"sums": (block,)}):
        close(engine, ((3, 70, 17, 16), (20, 70, 3, 3), 1, 1, 1), "bfloat16", "bfloat16")


def test_the_wish_is_part_of_the_record(engine: Any, always_tensor_cores: None) -> None:
    x, w = clnet.tensor(np.ones((2, 16, 8, 8), np.float32)), clnet.tensor(np.ones((16, 16, 3, 3), np.float32))
    with clnet.precision("tf32"):
        y = F.conv(x, w, padding=1)
    assert y.attrs["precision"] == "tf32" and "precision" not in F.conv(x, w, padding=1).attrs
    found = gradients(y, [x, w], clnet.tensor(np.ones(y.shape, np.float32)))
    assert {g.attrs.get("precision") for g in found} == {"tf32"}
    assert ("tf32 on tensor cores" in repr(explain(y))) == engine.device.hopper


def test_nan_stays_where_it_is(engine: Any) -> None:
    x = np.zeros((1, 16, 9, 20), np.float32)
    x[0, 3, 4, 5], x[0, 7, 2, 19] = np.nan, np.inf
    w = np.ones((16, 16, 3, 3), np.float32)
    y = F.conv(clnet.tensor(x).astype("bfloat16"), clnet.tensor(w).astype("bfloat16"), padding=1)
    expected = np.zeros((9, 20), bool)
    expected[3:6, 4:7], expected[1:4, 18:] = True, True
    assert (~np.isfinite(y.numpy().astype(np.float32)) == expected).all()
