"""Arguments of ops, layers, losses and optimizers that make no sense: who refuses them, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import layers, losses, optimizers
from clnet import ops as F
from clnet.core.arguments import axes, axis, choice, integer, per_axis, real, sizes
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.errors import ClnetError, ConfigError, DTypeError, ShapeError
from clnet.ops.border import pad_with
from clnet.ops.indexing import getitem

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X, SCALAR, ROW = tensor(A), tensor(np.float32(3)), tensor(np.array([0, 2, 3], np.float32))
EVEN = A % 2 == 0
IMAGE = F.ones((1, 3, 4, 4))


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def ints(*values: int, dtype: str = "int32") -> Any:
    return tensor(np.array(values, dtype))


@pytest.mark.parametrize("call, words", [
    (lambda: optimizers.Adam(lr=float("inf")), "lr must be a finite number"),
    (lambda: optimizers.SGD(momentum=float("nan")), "momentum"),
    (lambda: layers.BatchNorm(num_features=2, eps=float("inf")), "eps must be a finite"),
    (lambda: layers.PReLU(initial=float("nan")), "initial"),
    (lambda: layers.Masking(mask_value=float("nan")), "mask_value"),
    (lambda: losses.CrossEntropyLoss(weight=(1.0, -1.0)), r"weight\[1\]"),
    (lambda: losses.BCELoss(pos_weight=(float("inf"),)), "pos_weight"),
    (lambda: layers.Softmax(mask=(True, False)), "variant='masked'"),
    (lambda: layers.ConvLSTM2d(hidden_channels=1, spatial_size=(-1, 2)), "spatial_size"),
    (lambda: layers.Conv2d(out_channels=1, kernel_size=3, stride=0), "stride"),
    (lambda: layers.Conv2d(out_channels=1, kernel_size=3, padding=-1), "padding"),
    (lambda: layers.Dropout(p=1.5), "p must be less than 1"),
    (lambda: layers.GroupNorm(3, 4), "num_groups"),
    (lambda: layers.Conv2d(in_channels=4, out_channels=4, kernel_size=3, groups=3), "groups")])
def test_fields_that_make_no_sense(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


@pytest.mark.parametrize("key", [(..., ...), 7, (0, 0, 0, 0), 1.0, "a", slice(1.5), slice(None, None, 0),
                                 np.array([True]), EVEN[0], ([0, 1], [0, 1, 2]), [0.5], np.ones(2),
                                 ([0, 3], slice(None), 0)])
def test_keys_that_are_none(key: Any) -> None:
    with pytest.raises(IndexError) as caught:
        getitem(X, key)
    assert isinstance(caught.value, ClnetError) and "getitem: expected" in str(caught.value)


def test_masks_are_no_row_numbers() -> None:
    for call in (lambda: F.gather(X, [True, False]), lambda: F.scatter_add(X, np.array([True, False]), 2),
                 lambda: F.take_along_axis(ROW, ROW.numpy() > 1, 0)):
        with pytest.raises(DTypeError, match=r"expected integer indices; got bool; x\[mask\]"):
            call()


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: F.split(X, [-1, 5], 2), ShapeError, "split: expected sizes .* of at least 0"),
    (lambda: F.split(X, 3, 7), ShapeError, r"split: expected an axis in \[-3, 3\); got 7"),
    (lambda: F.split(SCALAR, 1), ShapeError, "a scalar"),
    (lambda: F.stack([X, X], 7), ShapeError, r"stack: expected an axis in \[-4, 4\); got 7"),
    (lambda: F.stack([]), ShapeError, "stack: expected at least one"),
    (lambda: F.take_along_axis(X, np.zeros((2, 3, 4), np.int32), 7), ShapeError, "take_along_axis: expected an axis"),
    (lambda: F.take_along_axis(SCALAR, np.int32(0), 0), ShapeError, "take_along_axis: .* a scalar"),
    (lambda: pad_with(IMAGE, ((-2, 1), (-1, 1)), "reflect"), ShapeError,
     "pad_with: expected .* of at least 0; got .*; crop with slices"),
    (lambda: pad_with(IMAGE, ((-2, 1), (-1, 1)), "circular"), ShapeError, "pad_with"),
    (lambda: pad_with(IMAGE, ((1, 1),), "mirror"), ConfigError, "pad_with: .*mode"),
    (lambda: F.pad(X, (0.9, 0, 0), (0, 0, 0)), ShapeError, "pad: expected low"),
    (lambda: F.pad(X, (1,), (0,)), ShapeError, "3 integers"),
    (lambda: F.argmax(F.zeros((0, 3)), 0), ShapeError, "argmax: expected at least one element"),
    (lambda: F.max(F.zeros((0, 3)), 0), ShapeError, "max: "),
    (lambda: F.argmin(F.zeros(0)), ShapeError, "argmin: "), (lambda: F.min(F.zeros((2, 0)), -1), ShapeError, "min: "),
    (lambda: F.pow(ints(2), -1), DTypeError, "pow: expected exponents of at least 0"),
    (lambda: 2 ** ints(1, -1), DTypeError, "got -1"),
    (lambda: F.transpose(X, 0, 5), ShapeError, "transpose: expected an axis"),
    (lambda: F.transpose(ROW), ShapeError, "transpose"),
    (lambda: F.transpose(SCALAR), ShapeError, "transpose"),
    (lambda: F.einsum("ijk->im", X), ShapeError, "einsum: .* got 'm'"),
    (lambda: F.einsum("ijk->ii", X), ShapeError, "einsum"),
    (lambda: F.resize(IMAGE, 2.5), ShapeError, "resize: expected size"),
    (lambda: F.sum(X, 1.0), ShapeError, r"sum: expected distinct axes .*; got 1.0; write 1\."),
    (lambda: F.sum(X, True), ShapeError, "sum"),
    (lambda: F.mean(X, (0, -3)), ShapeError, "distinct"),
    (lambda: F.windows(X, (2,), (0,)), ConfigError, "windows: expected stride"),
    (lambda: F.windows(X, ()), ConfigError, "windows"), (lambda: F.zeros((-1, 2)), ShapeError, "zeros: expected shape"),
    (lambda: F.ones(2.0), ShapeError, "ones: .*; write 2"),
    (lambda: F.arange(2.5, "float32"), ConfigError, "arange: expected n"),
    (lambda: F.arange(300, "uint8"), DTypeError, "arange"),
    (lambda: F.one_hot([0, 1], -1), ConfigError, "one_hot: expected classes"),
    (lambda: ints(1) + 2**40, DTypeError, r"add: expected an integer in .* int32 can hold; got 1099511627776; cast"),
    (lambda: F.pad(ints(1), (1,), (0,), value=float("nan")), DTypeError, "pad: .* got nan"),
    (lambda: F.pad(ints(1), (1,), (0,), value=1.5), DTypeError, "pad"),
    (lambda: F.full(3, -1, "uint8"), DTypeError, "full"), (lambda: X + 10**400, DTypeError, "add"),
    (lambda: F.exp(X, dtype="int8"), ConfigError, "nothing more; got dtype"),
    (lambda: F.rnn_cell(F.ones((3, 4)), F.ones((3, 1, 1, 4)), F.ones((4, 4))), ShapeError,
     r"rnn_cell: expected xp \(B, 1H\), h \(B, H\)"),
    (lambda: F.gru_cell(F.ones((3, 12)), F.ones((1, 4)), F.ones((12, 4))), ShapeError, "gru_cell"),
    (lambda: F.lstm_cell(F.ones((3, 16)), (F.ones((3, 4)), F.ones((1, 4))), F.ones((16, 4))), ShapeError, r"c\(1, 4\)"),
    (lambda: layers.LSTM(4, 3)(np.zeros((2, 0, 4), np.float32)), ShapeError, "at least one step"),
    (lambda: F.var(X, ddof=0.5), ConfigError, "ddof"),
    (lambda: F.linear(X, F.ones((5, 4)), F.ones((3, 1, 5))), ShapeError, r"linear: expected a bias of shape \(5,\)"),
    (lambda: F.matmul(X[0], F.ones((4, 2)), beta=1.0, c=F.ones((5, 3, 2))), ShapeError, "matmul: expected a c"),
    (lambda: F.softmax(ROW, mask=np.ones((2, 3), bool)), ShapeError, "softmax: expected a mask"),
    (lambda: tensor([[1, 2], [3]]), ShapeError, "lists of equal length"),
    (lambda: F.group_norm(X, 0), ConfigError, "num_groups"),
    (lambda: F.layer_norm(X, eps=-1.0), ConfigError, "eps ≥ 0"),
    (lambda: F.random.bernoulli(1.5, (2,), 0, 0), ConfigError, "bernoulli: expected p"),
    (lambda: F.random.randint(0, 300, 2, 0, 0, "uint8"), DTypeError, "randint"),
]


@pytest.mark.parametrize("call, error, words", REFUSED, ids=[str(k) for k in range(len(REFUSED))])
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, ClnetError)


def test_sizes_that_work() -> None:
    assert F.zeros(3).shape == F.ones(np.int64(3)).shape == F.full([3], 2).shape == (3,)
    assert F.windows(X, 2).shape == (2, 3, 3, 2)
    assert F.max(F.zeros((0, 3)), 1).shape == (0,)
    assert NumpyEngine().values([F.sum(F.zeros((0, 3)), 0)])[0].tolist() == [0, 0, 0]
    assert layers.PReLU()(SCALAR).shape == () and F.reshape(X, np.array([4, 6])).shape == (4, 6)
    assert F.permute(X, -1, 0, 1).shape == (4, 2, 3)


def test_kinds() -> None:
    assert axis("f", np.int8(-1), 3) == 2
    assert [axes("f", a, n) for a, n in (((-1, 0), 3), (None, 2), ((), 2))] == [(0, 2), (0, 1), ()]
    assert integer("f", "n", np.uint8(3), 1) == 3 and sizes("f", range(3)) == (0, 1, 2)
    assert per_axis("f", "stride", [1, 2], 2, 1) == (1, 2) and real("f", "p", np.float32(0.5), 0, most=1) == 0.5
    assert choice("f", "mode", "same", ("same", "valid")) == "same"
    for odd in (True, 1.0, "1", None, 1 << 64, X, np.float32(1)):
        for call in (lambda v: axis("f", v, 3), lambda v: integer("f", "n", v), lambda v: sizes("f", v),
                     lambda v: per_axis("f", "n", v, 1, 0)):
            with pytest.raises((ShapeError, ConfigError), match=r"^f: expected .*; got "):
                call(odd)
    with pytest.raises(ConfigError, match=r"did you mean 'valid'\?$"):
        choice("f", "mode", "vaild", ("same", "valid"))
    with pytest.raises(ConfigError, match="f: expected p ≥ 0 and ≤ 1; got nan"):
        real("f", "p", float("nan"), 0, most=1)


def test_what_may_be_infinite() -> None:
    padded = layers.Pad(padding=((1, 0),), value=-np.inf)(np.zeros((1, 2), np.float32))
    assert np.isneginf(NumpyEngine().values([padded])[0][0, 0])
