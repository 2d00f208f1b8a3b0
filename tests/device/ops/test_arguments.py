"""Arguments that were taken for something else once: masks, axes, sizes, amounts and numbers, and empty arrays. Values
are NumPy's or PyTorch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine.reference import NumpyEngine
from clnet.errors import IndexingError

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X = tensor(A)
EVEN = A % 2 == 0


# --- masks and indices
@pytest.mark.cheap
@pytest.mark.parametrize("key", [
    np.array([True, False]), [False, True], (slice(None), [True, False, True]), EVEN, (..., EVEN[0, 0]), EVEN[:, :, 0],
    (1, [True, False, True]), (slice(None), EVEN[0]), (np.array([False, False]),), True, False, (True, 0),
    (None, [True, False]), (slice(None, None, -1), [2, 0]), (0, [2, 0]), np.array([], np.int64), [], (..., 1),
    np.bool_(True)], ids=lambda k: str(k).replace("\n", ""))
def test_keys_are_numpys(key: Any, engine: Any) -> None:
    assert np.array_equal(engine.values([X[key]])[0], A[key])


def test_a_mask_that_the_device_has_is_read_but_not_in_a_recorded_step(engine: Any) -> None:
    assert np.array_equal(X[X > 9].numpy(), A[A > 9]) and np.array_equal(X[X[:, 0, 0] > 9].numpy(), A[1:])
    with pytest.raises(IndexingError, match=r"use where\(mask, x, 0\)"):
        clnet.Recorded(lambda t: t[t > 9])(A)


def test_the_gradient_of_a_selection_is_where_it_was(engine: Any) -> None:
    (g,) = gradients(F.sum(F.square(X[EVEN])), [X])
    assert np.array_equal(engine.values([g])[0], np.where(EVEN, 2 * A, 0))


# --- empty arrays have gradients
@pytest.mark.parametrize("make", [
    lambda: (layers.GroupNorm(1, 2), (0, 2, 4)), lambda: (layers.InstanceNorm(num_features=2), (0, 2, 4)),
    lambda: (layers.PReLU(channels=2), (0, 2)),
    lambda: (layers.BatchNorm(num_features=2).eval(), (0, 2, 3)),
    lambda: (layers.DeformConv2d(in_channels=2, out_channels=3, kernel_size=3), (0, 2, 5, 5))],
    ids=["GroupNorm", "InstanceNorm", "PReLU", "BatchNorm", "DeformConv2d"])
def test_layers_go_back_through_an_empty_batch(make: Any, engine: Any) -> None:
    layer, shape = make()
    y = layer(np.zeros(shape, np.float32))
    assert y.shape[0] == 0 and layer.backward(F.ones(y.shape)).numpy().shape == shape
    assert all(not p.grad.numpy().any() for p in layer.parameters())


def test_products_of_nothing(engine: Any) -> None:
    a, b = F.zeros((0, 2)) + 0, tensor(np.ones((1, 2), np.float32))
    flipped = F.flip(tensor(np.zeros((0, 4), np.float32)), (0, 1))
    g, product = engine.values([gradients(F.sum(a * b), [b])[0], F.zeros((5, 0)) @ flipped])
    assert g.tolist() == [[0, 0]] and product.shape == (5, 4) and not product.any()


# --- values and slopes
def test_integers_to_powers_that_the_device_knows(engine: Any) -> None:
    for dtype in ("int8", "int16", "int32", "int64"):
        x = np.array([-7, 7, 3, 1, -1, -1, 0, 2, -3] * 3, dtype)
        y = np.array([-1, -1, -2, -1, -3, -4, -1, 0, 3] * 3, dtype)
        found, want = F.pow(tensor(x), tensor(y) + 0), [0, 0, 0, 1, -1, 1, 0, 1, -27] * 3
        assert engine.values([found])[0].tolist() == want == NumpyEngine().values([found])[0].tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_shifts_beyond_the_width_are_numpys(dtype: str, engine: Any) -> None:
    info = np.iinfo(dtype)
    x = np.repeat(np.array([1, 7, info.max, info.min], dtype), 8)
    y = np.tile(np.array([0, 1, info.bits - 1, info.bits, info.bits + 1, 100, 40, -1 if info.min else 3], dtype), 4)
    found = [tensor(x) << tensor(y), tensor(x) >> tensor(y), tensor(x) << (info.bits + 8), tensor(x) >> (info.bits + 8)]
    want = [x << y, x >> y, np.zeros_like(x), np.where(x < 0, -1, 0).astype(dtype)]
    for got, exact, expected in zip(engine.values(found), NumpyEngine().values(found), want, strict=True):
        assert np.array_equal(got, expected) and np.array_equal(exact, expected)


def test_variances_of_too_few(engine: Any) -> None:
    found = [F.var(tensor(np.array(v, np.float32)), ddof=d) for v, d in (([1, 2], 3), ([1, 1], 2), ([1, 2], 1))]
    assert np.array_equal(engine.values(found), [np.inf, np.nan, 0.5], equal_nan=True)


def test_clip_has_its_whole_slope_at_the_bounds(engine: Any) -> None:
    z, low = tensor(np.array([0, 0.5, 1, 2, -1, np.nan], np.float32)), tensor(np.float32(0))
    y = F.clip(z, low, 1.0)
    value, slope, to_low = engine.values([y, *gradients(F.sum(F.where(F.isnan(y), 0.0, y)), [z, low])])
    assert np.array_equal(value, [0, 0.5, 1, 1, 0, np.nan], equal_nan=True)
    assert slope.tolist()[:5] == [1, 1, 1, 0, 0] and to_low == 1


@pytest.mark.parametrize("values, axes", [([0, 2, 3], (0,)), ([0, 0, 3, 2], (0,)), ([0, 0, 0, 2], (0,)),
                                          ([1, -2, 3, 0.5, 4], (0,)), ([[0, 2], [3, 4]], (0, 1)),
                                          ([[0, 2, 5], [3, 0, 4]], (0,)), ([7], (0,))])
def test_derivatives_of_products_hold_at_zeros(values: Any, axes: Any, engine: Any) -> None:
    """d²/dxᵢdxⱼ Π x = Π of the others, and the same once more."""
    a = np.array(values, np.float32)
    v = tensor(a)
    y = F.sum(F.prod(v, axes))
    flat = F.reshape(gradients(y, [v])[0], a.size)
    second = [gradients(flat[k], [v])[0] for k in range(a.size)]
    third = gradients(F.reshape(second[0], a.size)[a.size - 1], [v])[0]

    def others(*gone: int) -> float:
        lines = np.moveaxis(a, axes, range(-len(axes), 0)).reshape(-1, int(np.prod([a.shape[k] for k in axes])))
        numbers = np.moveaxis(np.arange(a.size).reshape(a.shape), axes, range(-len(axes), 0)).reshape(lines.shape)
        mine = next(k for k in range(len(lines)) if gone[0] in numbers[k])
        if len(set(gone)) < len(gone) or not set(gone) <= set(numbers[mine]):
            return 0.0
        return float(np.prod([x for x, n in zip(lines[mine], numbers[mine], strict=True) if n not in gone]))

    n = range(a.size)
    got = [np.ravel(g) for g in engine.values([flat, *second, third])]
    assert np.allclose(got[0], [others(k) for k in n])
    assert np.allclose(got[1:-1], [[others(k, m) for m in n] for k in n])
    assert np.allclose(got[-1], [others(0, a.size - 1, m) for m in n])


# --- Python numbers that a dtype cannot hold
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint64", "bool"])
def test_comparisons_with_numbers_outside_are_numpys(dtype: str, engine: Any) -> None:
    a = np.array([0, 1, 1, 0, 1], dtype)
    names = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    calls = [(name, n, turned) for name in names for n in (-100, 1 << 40, -(1 << 62), 1 << 70)
             for turned in (False, True)]
    found = [getattr(F, name)(*((n, tensor(a)) if turned else (tensor(a), n))) for name, n, turned in calls]
    for (name, n, turned), got in zip(calls, engine.values(found), strict=True):
        wide = a.astype(object)
        want = getattr(np, name)(*((n, wide) if turned else (wide, n))).astype(bool)
        assert np.array_equal(got, want), (name, n, turned)


def test_where_holds_both(engine: Any) -> None:
    labels = tensor(np.array([1, 255], np.uint8))
    y = F.where(np.array([True, False]), labels, -100)
    assert y.dtype == "int16" and engine.values([y])[0].tolist() == [1, -100]
    assert F.where(np.array([True, False]), labels, 7).dtype == "uint8"
