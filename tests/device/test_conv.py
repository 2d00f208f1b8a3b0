"""Convolution and pooling: the device against the float64 reference, both against PyTorch, derivatives against differences."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from clnet.autodiff import gradients
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, ShapeError
from clnet.op import OPS
from clnet.ops.conv import conv, conv_transpose
from clnet.ops.pool import avg_pool, global_pool, max_pool
from clnet.tensor import tensor

RNG = np.random.default_rng(7)
REFERENCE = NumpyEngine()

# x, w, stride, padding, dilation, groups. Widths around the register tile of 14, channels around vectors of 16.
CONVOLUTIONS = [
    ((2, 3, 17), (17, 3, 5), 2, 1, 2, 1),
    ((2, 4, 9, 15), (33, 4, 3, 3), 1, 1, 1, 1),
    ((1, 17, 7, 29), (15, 17, 3, 3), 1, 0, 1, 1),
    ((3, 2, 13, 13), (16, 2, 3, 2), (2, 3), (1, 2), 1, 1),
    ((1, 8, 11, 14), (12, 4, 3, 3), 1, 2, 2, 2),
    ((2, 6, 8, 10), (6, 1, 3, 3), 1, 1, 1, 6),
    ((2, 5, 6, 7), (9, 5, 1, 1), 1, 0, 1, 1),
    ((2, 5, 7, 7), (9, 5, 1, 1), 2, 0, 1, 1),
    ((1, 3, 1, 1), (4, 3, 3, 3), 1, 1, 1, 1),
    ((1, 3, 4, 5, 6), (5, 3, 2, 3, 3), (1, 2, 1), 1, 1, 1),
    ((2, 3, 9, 17), (6, 1, 3, 3), (1, 2), 1, 1, 3),     # few results a group: lanes along a row
    ((1, 2, 8, 15), (2, 2, 3, 5), 1, (1, 2), 1, 1),
    ((1, 2, 7, 16), (2, 1, 3, 3), 1, 1, 1, 2),
    ((3, 5, 11, 33), (5, 1, 3, 3), 2, 1, 1, 5),
    ((2, 4, 23, 14), (8, 1, 7, 5), (2, 1), (3, 2), 1, 4),
    ((2, 3, 5, 6, 17), (3, 1, 3, 2, 3), (1, 2, 2), 1, (1, 2, 1), 3),
    ((3, 16, 3, 5), (33, 16, 3, 3), 1, 1, 1, 1),        # from 16 channels on: tiles of 2 x 2, rows of them across images
    ((1, 47, 7, 29), (32, 47, 3, 3), 1, 0, 1, 1),
    ((2, 64, 14, 14), (128, 32, 3, 3), 1, (1, 2), 1, 2),
]
POOLS = [  # x, window, stride, padding, dilation, ceil_mode
    ((2, 3, 33), 2, None, 0, 1, False),
    ((2, 3, 9, 35), 3, 2, 1, 1, False),
    ((2, 3, 8, 10), 3, 2, 1, 1, True),
    ((1, 2, 12, 11), 3, 1, 1, 2, False),
    ((1, 2, 5, 6, 7), (2, 3, 2), (2, 2, 3), (1, 1, 0), 1, True),
]


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def close(a: Any, b: Any, tolerance: float = 1e-5) -> None:
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0) <= tolerance * (1 + np.abs(b).max(initial=0))


def both(device: Any, *tensors: Any) -> list[Any]:
    """Values on the device, after comparing them with the reference."""
    values = device.values(list(tensors))
    for value, expected in zip(values, REFERENCE.values(list(tensors)), strict=True):
        close(value, expected)
    return list(values)


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_and_its_gradients(device: Any, case: Any) -> None:
    xs, ws, stride, padding, dilation, groups = case
    x, w, b = draw(*xs), draw(*ws), draw(ws[0])
    inputs = [tensor(v) for v in (x, w, b)]
    y = conv(*inputs, stride=stride, padding=padding, dilation=dilation, groups=groups)
    g = draw(*y.shape)
    values = both(device, y, *gradients(y, inputs, tensor(g)))
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, w, b)]
    expected = getattr(torch.nn.functional, f"conv{len(xs) - 2}d")(*leaves, stride, padding, dilation, groups)
    for value, want in zip(values, [expected, *torch.autograd.grad(expected, leaves, torch.tensor(g))], strict=True):
        close(value, want.detach().numpy())


@pytest.mark.parametrize(("xs", "ws", "stride", "padding", "more", "dilation", "groups"), [
    ((2, 4, 5, 6), (4, 3, 3, 3), 2, 1, 1, 1, 1),
    ((1, 4, 5), (4, 2, 3), 1, 0, 2, 3, 2),
    ((1, 16, 3, 3), (16, 20, 2, 2), (2, 3), (1, 0), (1, 2), 1, 1),
], ids=str)
def test_transposed_convolution(device: Any, xs: Any, ws: Any, stride: Any, padding: Any, more: Any, dilation: Any, groups: int) -> None:
    x, w, b = draw(*xs), draw(*ws), draw(ws[1] * groups)
    inputs = [tensor(v) for v in (x, w, b)]
    y = conv_transpose(*inputs, stride=stride, padding=padding, output_padding=more, dilation=dilation, groups=groups)
    g = draw(*y.shape)
    values = both(device, y, *gradients(y, inputs, tensor(g)))
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, w, b)]
    expected = getattr(torch.nn.functional, f"conv_transpose{len(xs) - 2}d")(*leaves, stride, padding, more, groups, dilation)
    for value, want in zip(values, [expected, *torch.autograd.grad(expected, leaves, torch.tensor(g))], strict=True):
        close(value, want.detach().numpy())


def test_nothing_of_it_falls_back_to_the_host(device: Any) -> None:
    before = dict(getattr(device, "fallbacks", {}))
    x, w = tensor(draw(2, 6, 8, 9)), tensor(draw(20, 6, 3, 3))
    y = max_pool(conv(x, w, padding="same"), 2)
    device.values([y, *gradients(y, [x, w], tensor(draw(*y.shape)))])
    assert dict(getattr(device, "fallbacks", {})) == before


@pytest.mark.parametrize("name", ["conv", "conv_data_gradient", "conv_weight_gradient", "max_pool", "max_pool_gradient", "sum_pool", "sum_pool_gradient"])
def test_derivatives_are_the_limits_of_differences(name: str) -> None:
    """d/dε Σ g · f(x + ε v) at 0, in float64 on the reference."""
    op = OPS[name]
    assert op.samples is not None
    for case in op.samples():
        arrays = case.arrays(RNG, (-2, 2), "float64")
        inputs = [tensor(a) for a in arrays]
        free = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        y = op(*inputs, **case.attrs)
        g = RNG.standard_normal(y.shape)
        slopes = REFERENCE.values(gradients(y, [inputs[i] for i in free], tensor(g)))
        directions = [RNG.standard_normal(arrays[i].shape) for i in free]
        moved = []
        for step in (1e-6, -1e-6):
            at = [a + step * directions[free.index(i)] if i in free else a for i, a in enumerate(arrays)]
            moved.append(float((g * op.ref(*at, **case.attrs)).sum()))
        slope = sum(float((s * d).sum()) for s, d in zip(slopes, directions, strict=True))
        assert abs((moved[0] - moved[1]) / 2e-6 - slope) <= 1e-6 * (1 + abs(slope))


@pytest.mark.parametrize("name", ["conv", "conv_data_gradient", "conv_weight_gradient", "max_pool", "max_pool_index", "max_pool_gradient",
                                  "sum_pool", "sum_pool_gradient"])
def test_samples_agree_in_both_precisions(device: Any, name: str) -> None:
    op = OPS[name]
    assert op.samples is not None
    for k, case in enumerate(op.samples()):
        dtype = "float64" if k % 2 and getattr(device.device, "fp64", True) else "float32"
        both(device, op(*[tensor(a) for a in case.arrays(RNG, (-2, 2), dtype)], **case.attrs))


@pytest.mark.parametrize("name", ["conv", "conv_data_gradient"])
def test_the_tiles_of_gpus_are_right_on_any_device(device: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(device, "plans"):
        pytest.skip("the NumPy engine launches no kernels")
    op = OPS[name]
    assert op.launch is not None and op.samples is not None
    launch, asked = op.launch, []

    def as_gpu(profile: Any, operands: Any, **attrs: Any) -> Any:
        asked.append(launch(dataclasses.replace(profile, kind="gpu"), operands, **attrs))
        return asked[-1]

    monkeypatch.setattr(op, "launch", as_gpu)
    device.plans.clear()
    both(device, *[op(*[tensor(a) for a in case.arrays(RNG, (-2, 2), "float32")], **case.attrs) for case in op.samples()])
    device.plans.clear()
    assert any(asked)


def test_second_derivatives(device: Any) -> None:
    x, w = tensor(draw(2, 4, 6, 7)), tensor(draw(16, 4, 3, 3))
    y = conv(x, w, stride=2, padding=1)
    gx, gw = gradients(y, [x, w], tensor(draw(*y.shape)))
    both(device, *gradients((gx * gx).sum() + (gw * gw).sum(), [x, w]))


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pooling_and_its_gradients(device: Any, case: Any) -> None:
    xs, size, stride, padding, dilation, ceil_mode = case
    x = np.round(2 * draw(*xs))  # many ties
    t, d = tensor(x), len(xs) - 2
    outputs = {"max": max_pool(t, size, stride, padding, dilation, ceil_mode)}
    if dilation == 1:
        outputs |= {f"avg {pad}": avg_pool(t, size, stride, padding, ceil_mode, pad) for pad in (True, False)}
    g = draw(*outputs["max"].shape)
    results = {k: both(device, y, gradients(y, [t], tensor(g))[0]) for k, y in outputs.items()}
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaf = torch.tensor(x, requires_grad=True)
    for kind, (value, slope) in results.items():
        if kind == "max":
            want = getattr(torch.nn.functional, f"max_pool{d}d")(leaf, size, stride, padding, dilation, ceil_mode)
        else:
            want = getattr(torch.nn.functional, f"avg_pool{d}d")(leaf, size, stride, padding, ceil_mode, kind == "avg True")
        close(value, want.detach().numpy())
        close(slope, torch.autograd.grad(want, leaf, torch.tensor(g))[0].numpy())


def test_the_first_maximum_or_nan_wins(device: Any) -> None:
    x = np.array([[[1, 1, 0, 2, 2, np.nan, np.nan, 5, -np.inf, -np.inf, np.nan, -np.inf]]], "float32")
    t = tensor(x)
    y = max_pool(t, 2)
    np.testing.assert_array_equal(device.values([y])[0], [[[1, 2, np.nan, np.nan, -np.inf, np.nan]]])
    slope = gradients(y, [t], tensor(np.arange(1, 7, dtype="float32").reshape(1, 1, 6)))[0]
    np.testing.assert_array_equal(device.values([slope])[0], [[[1, 0, 0, 2, 0, 3, 4, 0, 5, 0, 6, 0]]])


@pytest.mark.parametrize("mode", ["avg", "max", "sum"])
def test_global_pooling(device: Any, mode: str) -> None:
    x = draw(2, 3, 5, 4)
    fold = {"avg": np.mean, "max": np.max, "sum": np.sum}[mode]
    (y, kept) = both(device, global_pool(tensor(x), mode), global_pool(tensor(x), mode, keepdims=True))
    close(y, fold(x, axis=(2, 3)))
    assert kept.shape == (2, 3, 1, 1)


@pytest.mark.parametrize("channels", [2, 16])
def test_nan_and_infinity_stay_where_they_are(device: Any, channels: int) -> None:
    x, w = draw(1, channels, 6, 19), draw(channels + 14, channels, 3, 3)
    x[0, 0, 2, 5], x[0, 1, 4, 17] = np.nan, np.inf
    y = conv(tensor(x), tensor(w), padding=1)
    np.testing.assert_array_equal(np.isfinite(device.values([y])[0]), np.isfinite(REFERENCE.values([y])[0]))


@pytest.mark.parametrize("channels", [15, 16])
def test_a_second_run_gives_the_same_bits(device: Any, channels: int) -> None:
    x, w = draw(3, channels, 7, 9), draw(33, channels, 3, 3)
    g = draw(3, 33, 7, 9)

    def run() -> Any:
        inputs = [tensor(x), tensor(w)]
        y = conv(*inputs, padding=1)
        return device.values([y, *gradients(y, inputs, tensor(g))])

    for a, b in zip(run(), run(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_batches(device: Any) -> None:
    x, w = tensor(np.zeros((0, 3, 5, 5), "float32")), tensor(draw(4, 3, 3, 3))
    y = conv(x, w)
    gx, gw = gradients(y, [x, w], tensor(np.zeros((0, 4, 3, 3), "float32")))
    values = device.values([y, gx, gw, max_pool(x, 2)])
    assert [v.shape for v in values] == [(0, 4, 3, 3), (0, 3, 5, 5), (4, 3, 3, 3), (0, 3, 2, 2)]
    assert not values[2].any()


def test_padding_has_four_spellings() -> None:
    x, w = tensor(draw(1, 2, 5, 6)), tensor(draw(3, 2, 3, 2))
    same = conv(x, w, padding="same")
    assert same.shape == (1, 3, 5, 6)
    assert same.attrs == conv(x, w, padding=((1, 1), (0, 1))).attrs
    assert conv(x, w, padding="valid").attrs == conv(x, w).attrs
    assert conv(x, w, padding=(1, 2)).shape == (1, 3, 5, 9)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda x, w: conv(x, w, groups=2), ShapeError, "x has 4 channels"),
    (lambda x, w: conv(x, tensor(draw(3, 2, 3, 3)), groups=2), ShapeError, "multiple of groups"),
    (lambda x, w: conv(x, tensor(draw(3, 4, 9, 3))), ShapeError, "no larger than the padded input"),
    (lambda x, w: conv(x, w, stride=-1), ConfigError, "stride"),
    (lambda x, w: conv(x, w, dilation=(1, 2, 3)), ConfigError, "dilation"),
    (lambda x, w: conv(x, w, padding="same", stride=2), ConfigError, "same"),
    (lambda x, w: conv(x, w, padding=-1), ConfigError, "padding"),
    (lambda x, w: conv(x, w, bias=tensor(draw(4))), ShapeError, "bias"),
    (lambda x, w: conv(tensor(draw(4, 4)), w), ShapeError, "spatial axes"),
    (lambda x, w: conv_transpose(x, w), ShapeError, r"weight \(C"),
    (lambda x, w: conv_transpose(x, tensor(draw(4, 2, 3, 3)), output_padding=1), ConfigError, "output_padding"),
    (lambda x, w: max_pool(x, 9), ShapeError, "no larger"),
    (lambda x, w: max_pool(x, 2, padding=2), ConfigError, "half"),
    (lambda x, w: global_pool(x, "median"), ConfigError, "mode"),
])
def test_errors_name_the_call_and_the_way_out(call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        call(tensor(draw(1, 4, 7, 8)), tensor(draw(3, 4, 3, 3)))
