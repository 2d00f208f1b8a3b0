"""Arguments that were taken for something else once: masks, axes, sizes, amounts and numbers, and empty arrays. Values are NumPy's or PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers, losses, optimizers
from clnet import ops as F
from clnet.arguments import axes, axis, choice, integer, per_axis, real, sizes
from clnet.autodiff import gradients
from clnet.engine.reference import NumpyEngine
from clnet.errors import ClnetError, ConfigError, DTypeError, IndexingError, ShapeError
from clnet.ops.border import pad_with
from clnet.ops.indexing import getitem
from clnet.tensor import tensor

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X, SCALAR, ROW = tensor(A), tensor(np.float32(3)), tensor(np.array([0, 2, 3], np.float32))
EVEN = A % 2 == 0
IMAGE = F.ones((1, 3, 4, 4))


def ints(*values: int, dtype: str = "int32") -> Any:
    return tensor(np.array(values, dtype))


# --- masks and indices
@pytest.mark.parametrize("key", [
    np.array([True, False]), [False, True], (slice(None), [True, False, True]), EVEN, EVEN[0, 0].tolist() and (..., EVEN[0, 0]), EVEN[:, :, 0],
    (1, [True, False, True]), (slice(None), EVEN[0]), (np.array([False, False]),), True, False, (True, 0), (None, [True, False]),
    (slice(None, None, -1), [2, 0]), (0, [2, 0]), np.array([], np.int64), [], (..., 1), np.bool_(True)],
    ids=lambda k: str(k).replace("\n", ""))
def test_keys_are_numpys(key: Any, device: Any) -> None:
    assert np.array_equal(device.values([X[key]])[0], A[key])


def test_a_mask_that_the_device_has_is_read_but_not_in_a_recorded_step(device: Any) -> None:
    assert np.array_equal(X[X > 9].numpy(), A[A > 9]) and np.array_equal(X[X[:, 0, 0] > 9].numpy(), A[1:])
    with pytest.raises(IndexingError, match=r"use where\(mask, x, 0\)"):
        clnet.Recorded(lambda t: t[t > 9])(A)


def test_the_gradient_of_a_selection_is_where_it_was(device: Any) -> None:
    (g,) = gradients(F.sum(F.square(X[EVEN])), [X])
    assert np.array_equal(device.values([g])[0], np.where(EVEN, 2 * A, 0))


@pytest.mark.parametrize("key", [(..., ...), 7, (0, 0, 0, 0), 1.0, "a", slice(1.5), slice(None, None, 0), np.array([True]), EVEN[0], ([0], [1]), [0.5],
                                 np.ones(2), ([1, 0], slice(None), None, 2)])
def test_keys_that_are_none(key: Any) -> None:
    with pytest.raises(IndexError) as caught:
        getitem(X, key)
    assert isinstance(caught.value, ClnetError) and "getitem: expected" in str(caught.value)


def test_masks_are_no_row_numbers() -> None:
    for call in (lambda: F.gather(X, [True, False]), lambda: F.scatter_add(X, np.array([True, False]), 2), lambda: F.take_along_axis(ROW, ROW.numpy() > 1, 0)):
        with pytest.raises(DTypeError, match=r"expected integer indices; got bool; x\[mask\]"):
            call()


# --- what is refused, by whom, and how
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: F.split(X, [-1, 5], 2), ShapeError, "split: expected sizes .* of at least 0"),
    (lambda: F.split(X, 3, 7), ShapeError, r"split: expected an axis in \[-3, 3\); got 7"), (lambda: F.split(SCALAR, 1), ShapeError, "a scalar"),
    (lambda: F.stack([X, X], 7), ShapeError, r"stack: expected an axis in \[-4, 4\); got 7"), (lambda: F.stack([]), ShapeError, "stack: expected at least one"),
    (lambda: F.take_along_axis(X, np.zeros((2, 3, 4), np.int32), 7), ShapeError, "take_along_axis: expected an axis"),
    (lambda: F.take_along_axis(SCALAR, np.int32(0), 0), ShapeError, "take_along_axis: .* a scalar"),
    (lambda: pad_with(IMAGE, ((-2, 1), (-1, 1)), "reflect"), ShapeError, "pad_with: expected .* of at least 0; got .*; crop with slices"),
    (lambda: pad_with(IMAGE, ((-2, 1), (-1, 1)), "circular"), ShapeError, "pad_with"),
    (lambda: pad_with(IMAGE, ((1, 1),), "mirror"), ConfigError, "pad_with: .*mode"),
    (lambda: F.pad(X, (0.9, 0, 0), (0, 0, 0)), ShapeError, "pad: expected low"), (lambda: F.pad(X, (1,), (0,)), ShapeError, "3 integers"),
    (lambda: F.argmax(F.zeros((0, 3)), 0), ShapeError, "argmax: expected at least one element"), (lambda: F.max(F.zeros((0, 3)), 0), ShapeError, "max: "),
    (lambda: F.argmin(F.zeros(0)), ShapeError, "argmin: "), (lambda: F.min(F.zeros((2, 0)), -1), ShapeError, "min: "),
    (lambda: F.pow(ints(2), -1), DTypeError, "pow: expected exponents of at least 0"), (lambda: 2 ** ints(1, -1), DTypeError, "got -1"),
    (lambda: F.transpose(X, 0, 5), ShapeError, "transpose: expected an axis"), (lambda: F.transpose(ROW), ShapeError, "transpose"),
    (lambda: F.transpose(SCALAR), ShapeError, "transpose"), (lambda: F.einsum("ijk->im", X), ShapeError, "einsum: .* got 'm'"),
    (lambda: F.einsum("ijk->ii", X), ShapeError, "einsum"), (lambda: F.resize(IMAGE, 2.5), ShapeError, "resize: expected size"),
    (lambda: F.sum(X, 1.0), ShapeError, r"sum: expected distinct axes .*; got 1.0; write 1\."), (lambda: F.sum(X, True), ShapeError, "sum"),
    (lambda: F.mean(X, (0, -3)), ShapeError, "distinct"), (lambda: F.windows(X, (2,), (0,)), ConfigError, "windows: expected stride"),
    (lambda: F.windows(X, ()), ConfigError, "windows"), (lambda: F.zeros((-1, 2)), ShapeError, "zeros: expected shape"),
    (lambda: F.ones(2.0), ShapeError, "ones: .*; write 2"), (lambda: F.arange(2.5, "float32"), ConfigError, "arange: expected n"),
    (lambda: F.arange(300, "uint8"), DTypeError, "arange"), (lambda: F.one_hot([0, 1], -1), ConfigError, "one_hot: expected classes"),
    (lambda: ints(1) + 2**40, DTypeError, r"add: expected an integer in .* int32 can hold; got 1099511627776; cast"),
    (lambda: F.pad(ints(1), (1,), (0,), value=float("nan")), DTypeError, "pad: .* got nan"), (lambda: F.pad(ints(1), (1,), (0,), value=1.5), DTypeError, "pad"),
    (lambda: F.full(3, -1, "uint8"), DTypeError, "full"), (lambda: X + 10**400, DTypeError, "add"),
    (lambda: F.exp(X, dtype="int8"), ConfigError, "nothing more; got dtype"),
    (lambda: F.rnn_cell(F.ones((3, 4)), F.ones((3, 1, 1, 4)), F.ones((4, 4))), ShapeError, r"rnn_cell: expected xp \(B, 1H\), h \(B, H\)"),
    (lambda: F.gru_cell(F.ones((3, 12)), F.ones((1, 4)), F.ones((12, 4))), ShapeError, "gru_cell"),
    (lambda: F.lstm_cell(F.ones((3, 16)), (F.ones((3, 4)), F.ones((1, 4))), F.ones((16, 4))), ShapeError, r"c\(1, 4\)"),
    (lambda: layers.LSTM(4, 3)(np.zeros((2, 0, 4), np.float32)), ShapeError, "at least one step"), (lambda: F.var(X, ddof=0.5), ConfigError, "ddof"),
    (lambda: F.linear(X, F.ones((5, 4)), F.ones((3, 1, 5))), ShapeError, r"linear: expected a bias of shape \(5,\)"),
    (lambda: F.matmul(X[0], F.ones((4, 2)), beta=1.0, c=F.ones((5, 3, 2))), ShapeError, "matmul: expected a c"),
    (lambda: F.softmax(ROW, mask=np.ones((2, 3), bool)), ShapeError, "softmax: expected a mask"),
    (lambda: tensor([[1, 2], [3]]), ShapeError, "lists of equal length"),
    (lambda: F.group_norm(X, 0), ConfigError, "num_groups"), (lambda: F.layer_norm(X, eps=-1.0), ConfigError, "eps ≥ 0"),
    (lambda: F.random.bernoulli(1.5, (2,), 0, 0), ConfigError, "bernoulli: expected p"),
    (lambda: F.random.randint(0, 300, 2, 0, 0, "uint8"), DTypeError, "randint"),
]


@pytest.mark.parametrize("call, error, words", REFUSED, ids=[str(k) for k in range(len(REFUSED))])
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ClnetError)


def test_sizes_that_work() -> None:
    assert F.zeros(3).shape == F.ones(np.int64(3)).shape == F.full([3], 2).shape == (3,) and F.windows(X, 2).shape == (2, 3, 3, 2)
    assert F.max(F.zeros((0, 3)), 1).shape == (0,) and F.sum(F.zeros((0, 3)), 0).numpy().tolist() == [0, 0, 0]
    assert layers.PReLU()(SCALAR).shape == () and F.reshape(X, np.array([4, 6])).shape == (4, 6) and F.permute(X, -1, 0, 1).shape == (4, 2, 3)


# --- the module itself
def test_kinds() -> None:
    assert axis("f", np.int8(-1), 3) == 2 and axes("f", (-1, 0), 3) == (0, 2) and axes("f", None, 2) == (0, 1) and axes("f", (), 2) == ()
    assert integer("f", "n", np.uint8(3), 1) == 3 and sizes("f", range(3)) == (0, 1, 2) and per_axis("f", "stride", [1, 2], 2, 1) == (1, 2)
    assert real("f", "p", np.float32(0.5), 0, most=1) == 0.5 and choice("f", "mode", "same", ("same", "valid")) == "same"
    for odd in (True, 1.0, "1", None, 1 << 64, X, np.float32(1)):
        for call in (lambda v: axis("f", v, 3), lambda v: integer("f", "n", v), lambda v: sizes("f", v), lambda v: per_axis("f", "n", v, 1, 0)):
            with pytest.raises((ShapeError, ConfigError), match=r"^f: expected .*; got "):
                call(odd)
    with pytest.raises(ConfigError, match=r"did you mean 'valid'\?$"):
        choice("f", "mode", "vaild", ("same", "valid"))
    with pytest.raises(ConfigError, match="f: expected p ≥ 0 and ≤ 1; got nan"):
        real("f", "p", float("nan"), 0, most=1)


@pytest.mark.parametrize("call, words", [
    (lambda: optimizers.Adam(lr=float("inf")), "lr must be a finite number"), (lambda: optimizers.SGD(momentum=float("nan")), "momentum"),
    (lambda: layers.BatchNorm(num_features=2, eps=float("inf")), "eps must be a finite"), (lambda: layers.PReLU(initial=float("nan")), "initial"),
    (lambda: layers.Masking(mask_value=float("nan")), "mask_value"), (lambda: losses.CrossEntropyLoss(weight=(1.0, -1.0)), r"weight\[1\]"),
    (lambda: losses.BCELoss(pos_weight=(float("inf"),)), "pos_weight"), (lambda: layers.Softmax(mask=(True, False)), "variant='masked'"),
    (lambda: layers.ConvLSTM2d(hidden_channels=1, spatial_size=(-1, 2)), "spatial_size"),
    (lambda: layers.Conv2d(out_channels=1, kernel_size=3, stride=0), "stride"),
    (lambda: layers.Conv2d(out_channels=1, kernel_size=3, padding=-1), "padding"), (lambda: layers.Dropout(p=1.5), "p must be less than 1"),
    (lambda: layers.GroupNorm(3, 4), "num_groups"), (lambda: layers.Conv2d(in_channels=4, out_channels=4, kernel_size=3, groups=3), "groups")])
def test_fields_that_make_no_sense(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


def test_what_may_be_infinite() -> None:
    assert np.isneginf(layers.Pad(padding=((1, 0),), value=-np.inf)(np.zeros((1, 2), np.float32)).numpy()[0, 0])


# --- empty arrays have gradients
@pytest.mark.parametrize("make", [
    lambda: (layers.GroupNorm(1, 2), (0, 2, 4)), lambda: (layers.InstanceNorm(num_features=2), (0, 2, 4)), lambda: (layers.PReLU(channels=2), (0, 2)),
    lambda: (layers.BatchNorm(num_features=2).eval(), (0, 2, 3)), lambda: (layers.DeformConv2d(in_channels=2, out_channels=3, kernel_size=3), (0, 2, 5, 5))],
    ids=["GroupNorm", "InstanceNorm", "PReLU", "BatchNorm", "DeformConv2d"])
def test_layers_go_back_through_an_empty_batch(make: Any, device: Any) -> None:
    layer, shape = make()
    y = layer(np.zeros(shape, np.float32))
    assert y.shape[0] == 0 and layer.backward(F.ones(y.shape)).numpy().shape == shape
    assert all(not p.grad.numpy().any() for p in layer.parameters())


def test_products_of_nothing(device: Any) -> None:
    a, b = F.zeros((0, 2)) + 0, tensor(np.ones((1, 2), np.float32))
    flipped = F.flip(tensor(np.zeros((0, 4), np.float32)), (0, 1))
    g, product = device.values([gradients(F.sum(a * b), [b])[0], F.zeros((5, 0)) @ flipped])
    assert g.tolist() == [[0, 0]] and product.shape == (5, 4) and not product.any()


# --- values and slopes
def test_integers_to_powers_that_the_device_knows(device: Any) -> None:
    for dtype in ("int8", "int16", "int32", "int64"):
        x, y = np.array([-7, 7, 3, 1, -1, -1, 0, 2, -3] * 3, dtype), np.array([-1, -1, -2, -1, -3, -4, -1, 0, 3] * 3, dtype)
        found = F.pow(tensor(x), tensor(y) + 0)
        assert device.values([found])[0].tolist() == [0, 0, 0, 1, -1, 1, 0, 1, -27] * 3 == NumpyEngine().values([found])[0].tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_shifts_beyond_the_width_are_numpys(dtype: str, device: Any) -> None:
    info = np.iinfo(dtype)
    x = np.repeat(np.array([1, 7, info.max, info.min], dtype), 8)
    y = np.tile(np.array([0, 1, info.bits - 1, info.bits, info.bits + 1, 100, 40, -1 if info.min else 3], dtype), 4)
    found = [tensor(x) << tensor(y), tensor(x) >> tensor(y), tensor(x) << (info.bits + 8), tensor(x) >> (info.bits + 8)]
    want = [x << y, x >> y, np.zeros_like(x), np.where(x < 0, -1, 0).astype(dtype)]
    for got, exact, expected in zip(device.values(found), NumpyEngine().values(found), want, strict=True):
        assert np.array_equal(got, expected) and np.array_equal(exact, expected)


def test_variances_of_too_few(device: Any) -> None:
    found = [F.var(tensor(np.array(v, np.float32)), ddof=d) for v, d in (([1, 2], 3), ([1, 1], 2), ([1, 2], 1))]
    assert np.array_equal(device.values(found), [np.inf, np.nan, 0.5], equal_nan=True)


def test_clip_has_its_whole_slope_at_the_bounds(device: Any) -> None:
    z, low = tensor(np.array([0, 0.5, 1, 2, -1, np.nan], np.float32)), tensor(np.float32(0))
    y = F.clip(z, low, 1.0)
    value, slope, to_low = device.values([y, *gradients(F.sum(F.where(F.isnan(y), 0.0, y)), [z, low])])
    assert np.array_equal(value, [0, 0.5, 1, 1, 0, np.nan], equal_nan=True) and slope.tolist()[:5] == [1, 1, 1, 0, 0] and to_low == 1


@pytest.mark.parametrize("values, axes", [([0, 2, 3], (0,)), ([0, 0, 3, 2], (0,)), ([0, 0, 0, 2], (0,)), ([1, -2, 3, 0.5, 4], (0,)), ([[0, 2], [3, 4]], (0, 1)),
                                          ([[0, 2, 5], [3, 0, 4]], (0,)), ([7], (0,))])
def test_derivatives_of_products_hold_at_zeros(values: Any, axes: Any, device: Any) -> None:
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
        together = len(set(gone)) == len(gone) and set(gone) <= set(numbers[mine])
        return float(np.prod([x for x, n in zip(lines[mine], numbers[mine], strict=True) if n not in gone])) if together else 0.0

    n = range(a.size)
    got = [np.ravel(g) for g in device.values([flat, *second, third])]
    assert np.allclose(got[0], [others(k) for k in n]) and np.allclose(got[1:-1], [[others(k, m) for m in n] for k in n])
    assert np.allclose(got[-1], [others(0, a.size - 1, m) for m in n])


# --- Python numbers that a dtype cannot hold
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint64", "bool"])
def test_comparisons_with_numbers_outside_are_numpys(dtype: str, device: Any) -> None:
    a = np.array([0, 1, 1, 0, 1], dtype)
    names = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    calls = [(name, n, turned) for name in names for n in (-100, 1 << 40, -(1 << 62), 1 << 70) for turned in (False, True)]
    found = [getattr(F, name)(*((n, tensor(a)) if turned else (tensor(a), n))) for name, n, turned in calls]
    for (name, n, turned), got in zip(calls, device.values(found), strict=True):
        wide = a.astype(object)
        assert np.array_equal(got, getattr(np, name)(*((n, wide) if turned else (wide, n))).astype(bool)), (name, n, turned)


def test_where_holds_both(device: Any) -> None:
    labels = tensor(np.array([1, 255], np.uint8))
    y = F.where(np.array([True, False]), labels, -100)
    assert y.dtype == "int16" and device.values([y])[0].tolist() == [1, -100]
    assert F.where(np.array([True, False]), labels, 7).dtype == "uint8"
