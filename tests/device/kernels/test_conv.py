"""Convolution and pooling: the device against the float64 reference, both against PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet.core.autodiff import gradients
from clnet.core.op import OPS
from clnet.core.tensor import tensor
from clnet.engine.reference import NumpyEngine
from clnet.kernels import tuning
from clnet.kernels.variant import Choice
from clnet.ops.conv import conv, conv_transpose
from clnet.ops.pool import avg_pool, global_pool, max_pool

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
    ((3, 16, 1, 1), (12, 16, 5, 3), 1, (2, 1), 1, 1),   # most taps meet the border alone
    ((2, 8, 1, 2), (6, 4, 3, 5), (1, 2), (1, 2), 1, 2),
    ((2, 3, 2, 3), (5, 3, 7, 5), 2, (5, 4), (1, 2), 1),
    ((2, 4, 1), (3, 4, 3), 2, 3, 2, 1),
    ((1, 6, 1, 3, 2), (2, 3, 2, 5, 3), (1, 2, 1), 1, 1, 2),  # one plane, of which taps span two
    ((1, 3, 4, 5, 6), (5, 3, 2, 3, 3), (1, 2, 1), 1, 1, 1),
    ((2, 3, 9, 17), (6, 1, 3, 3), (1, 2), 1, 1, 3),     # few results a group: lanes along a row
    ((1, 2, 8, 15), (2, 2, 3, 5), 1, (1, 2), 1, 1),
    ((1, 2, 7, 16), (2, 1, 3, 3), 1, 1, 1, 2),
    ((3, 5, 11, 33), (5, 1, 3, 3), 2, 1, 1, 5),
    ((2, 4, 23, 14), (8, 1, 7, 5), (2, 1), (3, 2), 1, 4),
    ((2, 3, 5, 6, 17), (3, 1, 3, 2, 3), (1, 2, 2), 1, (1, 2, 1), 3),
    ((2, 3, 7, 7), (3, 1, 7, 7), 1, 3, 1, 3),           # whole planes, several a work-item
    ((5, 9, 7, 7), (9, 1, 5, 5), 1, 2, 1, 9),           # rows that half a register holds: two images in one
    ((3, 16, 9, 15), (16, 1, 3, 3), (1, 2), 1, 1, 16),
    ((2, 8, 40, 8), (16, 1, 7, 3), 1, (3, 1), 1, 8),
    ((1, 5, 28, 28), (5, 1, 5, 5), 1, 2, 1, 5),
    ((3, 7, 14, 15), (7, 1, 5, 7), 2, (2, 3), 1, 7),
    ((3, 5, 1, 1), (5, 1, 5, 5), 1, 2, 1, 5),
    ((2, 2, 9, 33), (2, 1, 3, 3), 1, 0, 3, 2),
    ((1, 2, 40, 9), (2, 1, 3, 3), 1, 14, 14, 2),        # rows of taps that share no pixels
    ((1, 2, 13, 8), (2, 1, 15, 11), 1, (7, 5), 1, 2),   # more rows of taps than registers
    ((2, 3, 6, 5), (3, 1, 3, 3), 1, 4, 1, 3),           # a border wider than the kernel
    ((1, 2, 300, 90), (2, 1, 5, 5), 1, 2, 1, 2),        # planes in blocks of rows
    ((12, 16, 3, 9), (33, 16, 3, 3), 1, 1, 1, 1),  # from 16 channels on: tiles of 2 x 2, rows of them across images
    ((1, 47, 9, 29), (32, 47, 3, 3), 1, 0, 1, 1),
    ((2, 64, 14, 14), (128, 32, 3, 3), 1, (1, 2), 1, 2),
    ((9, 401, 3, 3), (203, 401, 1, 1), 1, 0, 1, 1),        # few pixels of several images: no product of matrices
    ((2, 40, 7, 9), (35, 40, 3, 3), 2, 1, 1, 1),        # weights of more values a channel than are packed at once
    ((1, 66, 5, 7), (38, 33, 3, 3), 2, 1, 1, 2),
    ((1, 2, 40000), (20, 2, 7), 1, 3, 1, 1),            # rows that no block holds
    ((2, 3, 30011), (40, 3, 6), 4, (1,), 2, 1),
    ((1, 2, 40001), (2, 1, 80), 4, 0, 1, 2),
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


def both(engine: Any, *tensors: Any) -> list[Any]:
    """Values on the device, after comparing them with the reference."""
    values = engine.values(list(tensors))
    for value, expected in zip(values, REFERENCE.values(list(tensors)), strict=True):
        close(value, expected)
    return list(values)


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_and_its_gradients(engine: Any, case: Any) -> None:
    xs, ws, stride, padding, dilation, groups = case
    x, w, b = draw(*xs), draw(*ws), draw(ws[0])
    inputs = [tensor(v) for v in (x, w, b)]
    y = conv(*inputs, stride=stride, padding=padding, dilation=dilation, groups=groups)
    g = draw(*y.shape)
    values = both(engine, y, *gradients(y, inputs, tensor(g)))
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, w, b)]
    expected = getattr(torch.nn.functional, f"conv{len(xs) - 2}d")(*leaves, stride, padding, dilation, groups)
    for value, want in zip(values, [expected, *torch.autograd.grad(expected, leaves, torch.tensor(g))], strict=True):
        close(value, want.detach().numpy())


@pytest.mark.parametrize(("xs", "ws", "stride", "padding", "more", "dilation", "groups"), [
    ((2, 4, 5, 6), (4, 3, 3, 3), 2, 1, 1, 1, 1),
    ((1, 4, 5), (4, 2, 3), 1, 0, 2, 3, 2),
    ((1, 16, 3, 3), (16, 20, 2, 2), (2, 3), (1, 0), (1, 2), 1, 1),
    ((2, 20, 14, 15), (20, 33, 2, 2), 2, 0, 0, 1, 1),
    ((1, 18, 9001), (18, 20, 8), 4, 2, 1, 1, 1),
    ((1, 2, 1, 1, 1), (2, 3, 2, 5, 3), (2, 3, 2), 1, (1, 0, 1), 1, 2),  # one plane, of which taps span two
    ((5, 6, 1, 1), (6, 7, 4, 3), (3, 2), 0, (2, 1), 1, 1),              # one place
], ids=str)
def test_transposed_convolution(engine: Any, xs: Any, ws: Any, stride: Any, padding: Any, more: Any, dilation: Any,
                                groups: int) -> None:
    x, w, b = draw(*xs), draw(*ws), draw(ws[1] * groups)
    inputs = [tensor(v) for v in (x, w, b)]
    y = conv_transpose(*inputs, stride=stride, padding=padding, output_padding=more, dilation=dilation, groups=groups)
    g = draw(*y.shape)
    values = both(engine, y, *gradients(y, inputs, tensor(g)))
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, w, b)]
    expected = getattr(torch.nn.functional, f"conv_transpose{len(xs) - 2}d")(*leaves, stride, padding, more, groups,
                                                                             dilation)
    for value, want in zip(values, [expected, *torch.autograd.grad(expected, leaves, torch.tensor(g))], strict=True):
        close(value, want.detach().numpy())


def test_nothing_of_it_falls_back_to_the_host(engine: Any) -> None:
    before = dict(getattr(engine, "fallbacks", {}))
    x, w = tensor(draw(2, 6, 8, 9)), tensor(draw(20, 6, 3, 3))
    y = max_pool(conv(x, w, padding="same"), 2)
    engine.values([y, *gradients(y, [x, w], tensor(draw(*y.shape)))])
    assert dict(getattr(engine, "fallbacks", {})) == before


@pytest.mark.parametrize("name", ["conv", "conv_data_gradient", "conv_weight_gradient", "max_pool", "max_pool_index",
                                  "max_pool_gradient", "sum_pool", "sum_pool_gradient"])
def test_samples_agree_in_both_precisions(engine: Any, name: str) -> None:
    op = OPS[name]
    assert op.samples is not None
    for k, case in enumerate(op.samples()):
        dtype = "float64" if k % 2 and getattr(engine.device, "fp64", True) else "float32"
        both(engine, op(*[tensor(a) for a in case.arrays(RNG, (-2, 2), dtype)], **case.attrs))


@pytest.mark.parametrize("name", ["conv", "conv_data_gradient"])
def test_the_tiles_of_gpus_are_right_on_any_device(engine: Any, name: str,
                                                   chosen_for: Callable[..., list[Choice]]) -> None:
    if not engine.compiles:
        pytest.skip("the NumPy engine launches no kernels")
    op = OPS[name]
    assert op.samples is not None
    asked = chosen_for(op, kind="gpu")
    engine.plans.clear()
    drawn = [([tensor(a) for a in case.arrays(RNG, (-2, 2), "float32")], case.attrs) for case in op.samples()]
    both(engine, *[op(*inputs, **attrs) for inputs, attrs in drawn])
    engine.plans.clear()
    assert any(choice.stages for choice in asked)


@pytest.mark.parametrize(("xs", "ws", "stride", "padding", "dilation", "groups"), [
    ((2, 4, 9, 15), (33, 4, 3, 3), 1, 1, 1, 1),
    ((1, 8, 27, 28), (16, 8, 3, 3), 2, 1, 1, 1),
    ((2, 6, 13, 14), (24, 3, 3, 2), (2, 1), (1, 0), 1, 2),
    ((1, 3, 4, 9, 13), (24, 3, 2, 3, 3), (1, 2, 1), 1, 1, 1),
    ((1, 130, 20, 9), (40, 130, 5, 3), 1, (2, 1), 1, 1),
], ids=str)
def test_tiles_that_go_on_beyond_rows(engine: Any, chosen_for: Callable[..., list[Choice]], xs: Any, ws: Any,
                                      stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    """Those of processors with sixteen registers."""
    if not engine.compiles or not engine.device.is_cpu:
        pytest.skip("tiles of CPUs")
    asked = chosen_for(OPS["conv"], vector_width=8)
    engine.plans.clear()
    x, w, b = (tensor(draw(*shape)) for shape in (xs, ws, ws[:1]))
    both(engine, conv(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups))
    engine.plans.clear()
    assert any("FLAT" in stage.defines for choice in asked for stage in choice.stages)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("stride", [1, 3])
def test_rows_that_no_block_holds_are_columns(engine: Any, chosen_for: Callable[..., list[Choice]], lanes: int,
                                              stride: int) -> None:
    if not engine.compiles or not engine.device.is_cpu:
        pytest.skip("tiles of CPUs")
    asked = [chosen_for(OPS[name], vector_width=lanes) for name in ("conv", "conv_data_gradient",
                                                                    "conv_weight_gradient")]
    engine.plans.clear()
    x, w = tensor(draw(1, 18, 33333 * stride)), tensor(draw(19, 18, 5))
    y = conv(x, w, None, stride=stride, padding=2)
    both(engine, y, *gradients(y, [x, w], tensor(draw(*y.shape))))
    engine.plans.clear()
    for choices in asked:
        assert [stage.defines["RX"] for choice in choices for stage in choice.stages if "RX" in stage.defines]
        assert all(stage.defines.get("RX", 1) == 1 for choice in choices for stage in choice.stages)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize(("xs", "ws", "stride", "padding", "dilation", "groups", "told"), [
    ((2, 24, 27, 28), (16, 24, 3, 3), 2, 1, 1, 1, {8: "FLAT UNROLLED", 16: ""}),          # 31 of 32 registers
    ((3, 20, 15, 14), (33, 20, 3, 3), 2, 1, 1, 1, {8: "FLAT UNROLLED", 16: "UNROLLED"}),  # seven pixels, and eight
    ((1, 18, 30, 29), (7, 18, 1, 1), 2, 0, 1, 1, {8: "FLAT UNROLLED", 16: "UNROLLED"}),   # phases without a tap
    ((2, 24, 40, 31), (10, 12, 5, 5), 2, 2, 1, 2, {8: "FLAT", 16: ""}),
    ((1, 16, 20, 33), (16, 16, 3, 3), 3, 1, 1, 1, {8: "FLAT", 16: ""}),
    ((1, 16, 19, 15), (12, 16, 3, 4), (2, 1), 1, 1, 1, {8: "UNROLLED", 16: "UNROLLED"}),
    ((1, 17, 13, 26), (12, 17, 3, 4), (1, 2), (1, 0), (2, 1), 1, {8: "FLAT UNROLLED", 16: "UNROLLED"}),
    ((1, 16, 5, 9, 15), (24, 16, 2, 3, 3), 2, 1, 1, 1, {8: "FLAT", 16: ""}),
    ((2, 24, 28, 28), (16, 24, 2, 2), 2, 0, 1, 1, {8: "FLAT UNROLLED", 16: "UNROLLED"}),  # one tap a phase
], ids=str)
def test_phases_of_a_data_gradient(engine: Any, chosen_for: Callable[..., list[Choice]], lanes: int, xs: Any, ws: Any,
                                   stride: Any, padding: Any, dilation: Any, groups: int,
                                   told: dict[int, str]) -> None:
    """Written out or in loops, in rows or beyond their ends."""
    if not engine.compiles or not engine.device.is_cpu:
        pytest.skip("tiles of CPUs")
    asked = chosen_for(OPS["conv_data_gradient"], vector_width=lanes, l1_cache=32 << 10, l2_cache=1 << 20,
                       compute_units=2)
    engine.plans.clear()
    x, w = tensor(draw(*xs)), tensor(draw(*ws))
    y = conv(x, w, None, stride=stride, padding=padding, dilation=dilation, groups=groups)
    both(engine, *gradients(y, [x], tensor(draw(*y.shape))))
    engine.plans.clear()
    said = {name for choice in asked for stage in choice.stages for name in stage.defines}
    assert said & {"FLAT", "UNROLLED"} == set(told[lanes].split())


@pytest.mark.parametrize("tile", [(2, 4), (6, 2), (24, 1)], ids=str)
def test_any_tile_of_transformed_patches_is_right(engine: Any, chosen_for: Callable[..., list[Choice]],
                                                  tile: tuple[int, int]) -> None:
    """Also one that is larger than the results, or than the registers."""
    if not engine.compiles or not engine.device.is_cpu:
        pytest.skip("tiles of CPUs")
    asked = [chosen_for(OPS[name]) for name in ("conv", "conv_data_gradient", "conv_weight_gradient")]
    engine.plans.clear()
    with tuning.overriding(("winograd", ""), {"tile": tile}):
        x, w = tensor(draw(4, 20, 9, 7)), tensor(draw(18, 20, 3, 3))
        y = conv(x, w, None, padding=1)
        both(engine, y, *gradients(y, [x, w], tensor(draw(*y.shape))))
    engine.plans.clear()
    for choices in asked:
        assert any((s.defines.get("MR"), s.defines.get("NV")) == tile for c in choices for s in c.stages)


@pytest.mark.parametrize(("xs", "ws", "groups"), [
    ((2, 20, 3, 3), (18, 20, 3, 3), 1), ((5, 16, 2, 2), (33, 16, 3, 3), 1), ((1, 33, 2, 5), (16, 33, 3, 3), 1),
    ((1, 34, 4, 2), (34, 17, 3, 3), 2), ((3, 47, 2, 2), (40, 47, 3, 3), 1)], ids=str)
def test_few_results_of_transformed_patches_are_right(engine: Any, chosen_for: Callable[..., list[Choice]], xs: Any,
                                                      ws: Any, groups: int) -> None:
    """Which the rules leave to the direct sum."""
    if not engine.compiles or not engine.device.is_cpu:
        pytest.skip("tiles of CPUs")
    asked = [chosen_for(OPS[name]) for name in ("conv", "conv_data_gradient")]
    engine.plans.clear()
    with tuning.overriding(("winograd", ""), {"packed": -1e9}):
        x, w = tensor(draw(*xs)), tensor(draw(*ws))
        y = conv(x, w, None, padding=1, groups=groups)
        both(engine, y, *gradients(y, [x, w], tensor(draw(*y.shape))))
    engine.plans.clear()
    for choices in asked:
        assert any(s.kernel == "winograd_pack" for c in choices for s in c.stages)


@pytest.mark.parametrize(("xs", "ws", "more"), [
    ((2, 20, 3, 3), (18, 20, 3, 3), {"padding": 1}), ((21, 16, 1, 2), (33, 16, 3, 3), {"padding": 1}),
    ((1, 33, 7, 5), (70, 33, 3, 3), {"padding": (1, 2)}), ((3, 34, 6, 6), (34, 17, 2, 3), {"groups": 2, "padding": 2}),
    ((5, 40, 7, 7), (40, 40, 3, 3), {"stride": 2, "padding": 1}), ((1, 40, 9, 20), (24, 40, 3, 1), {"stride": (1, 3)}),
    ((4, 18, 5, 5), (37, 18, 3, 2), {"dilation": 2, "padding": 2}), ((2, 90, 11), (64, 90, 5), {"padding": 3})],
                         ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_that_are_read_once_for_all_images(engine: Any, chosen_for: Callable[..., list[Choice]],
                                                   monkeypatch: pytest.MonkeyPatch, xs: Any, ws: Any, more: Any,
                                                   dtype: str) -> None:
    """Images that blocks hold whole and in part, tiles of one and of several pixels, borders wider than the taps."""
    if not engine.compiles or not engine.device.is_cpu:
        pytest.skip("tiles of CPUs")
    one = dataclasses.replace(engine.device, compute_units=1)
    monkeypatch.setattr(engine, "device", one)  # of more cores one might be without result channels
    asked = [chosen_for(OPS[name]) for name in ("conv", "conv_data_gradient")]
    engine.plans.clear()
    with tuning.overriding(("conv", ""), {"deep": (1e9, 1e9), "deep_channels": 1, "deep_packed": 1e9, "deep_block": 1}):
        x, w = (tensor(draw(*s).astype(dtype)) for s in (xs, ws))
        y = conv(x, w, None, **more)
        both(engine, (y * y + 1), *gradients(y, [x, w], tensor(draw(*y.shape).astype(dtype))))
    engine.plans.clear()
    stepped = set(more) & {"stride"}
    for choices in asked[:1] if stepped else asked:
        assert any(s.kernel == "conv_deep" for c in choices for s in c.stages)


@pytest.mark.parametrize(("xs", "ws"), [
    ((2, 40, 3, 3), (37, 40, 1, 1)), ((1, 70, 5, 6), (50, 70, 3, 3)), ((2, 3, 9, 9), (3, 3, 5, 5)),
    ((2, 18, 6, 6), (21, 18, 3, 3)), ((1, 6, 12), (9, 6, 3)),
], ids=str)
def test_what_follows_a_weight_gradient_is_computed_with_it(engine: Any, xs: Any, ws: Any) -> None:
    """By the kernel itself where its sums are one part, else by what adds the parts."""
    x, w, m = (tensor(draw(*shape)) for shape in (xs, ws, ws))
    y = conv(x, w, padding=ws[2] // 2)
    g, = gradients(y, [w], tensor(draw(*y.shape)))
    both(engine, w - (0.5 * g + m) * 0.1, m * g)


def test_second_derivatives(engine: Any) -> None:
    x, w = tensor(draw(2, 4, 6, 7)), tensor(draw(16, 4, 3, 3))
    y = conv(x, w, stride=2, padding=1)
    gx, gw = gradients(y, [x, w], tensor(draw(*y.shape)))
    both(engine, *gradients((gx * gx).sum() + (gw * gw).sum(), [x, w]))


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pooling_and_its_gradients(engine: Any, case: Any) -> None:
    xs, size, stride, padding, dilation, ceil_mode = case
    x = np.round(2 * draw(*xs))  # many ties
    t, d = tensor(x), len(xs) - 2
    outputs = {"max": max_pool(t, size, stride, padding, dilation, ceil_mode)}
    if dilation == 1:
        outputs |= {f"avg {pad}": avg_pool(t, size, stride, padding, ceil_mode, pad) for pad in (True, False)}
    g = draw(*outputs["max"].shape)
    results = {k: both(engine, y, gradients(y, [t], tensor(g))[0]) for k, y in outputs.items()}
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    leaf = torch.tensor(x, requires_grad=True)
    for kind, (value, slope) in results.items():
        if kind == "max":
            want = getattr(torch.nn.functional, f"max_pool{d}d")(leaf, size, stride, padding, dilation, ceil_mode)
        else:
            want = getattr(torch.nn.functional, f"avg_pool{d}d")(leaf, size, stride, padding, ceil_mode,
                                                                 kind == "avg True")
        close(value, want.detach().numpy())
        close(slope, torch.autograd.grad(want, leaf, torch.tensor(g))[0].numpy())


def test_the_first_maximum_or_nan_wins(engine: Any) -> None:
    x = np.array([[[1, 1, 0, 2, 2, np.nan, np.nan, 5, -np.inf, -np.inf, np.nan, -np.inf]]], "float32")
    t = tensor(x)
    y = max_pool(t, 2)
    np.testing.assert_array_equal(engine.values([y])[0], [[[1, 2, np.nan, np.nan, -np.inf, np.nan]]])
    slope = gradients(y, [t], tensor(np.arange(1, 7, dtype="float32").reshape(1, 1, 6)))[0]
    np.testing.assert_array_equal(engine.values([slope])[0], [[[1, 0, 0, 2, 0, 3, 4, 0, 5, 0, 6, 0]]])


@pytest.mark.parametrize("mode", ["avg", "max", "sum"])
def test_global_pooling(engine: Any, mode: str) -> None:
    x = draw(2, 3, 5, 4)
    fold = {"avg": np.mean, "max": np.max, "sum": np.sum}[mode]
    (y, kept) = both(engine, global_pool(tensor(x), mode), global_pool(tensor(x), mode, keepdims=True))
    close(y, fold(x, axis=(2, 3)))
    assert kept.shape == (2, 3, 1, 1)


@pytest.mark.parametrize("channels", [2, 16])
def test_nan_and_infinity_stay_where_they_are(engine: Any, channels: int) -> None:
    x, w = draw(1, channels, 8, 31), draw(channels + 14, channels, 3, 3)
    x[0, 0, 2, 5], x[0, 1, 4, 17] = np.nan, np.inf
    y = conv(tensor(x), tensor(w), padding=1)
    np.testing.assert_array_equal(np.isfinite(engine.values([y])[0]), np.isfinite(REFERENCE.values([y])[0]))


@pytest.mark.parametrize("channels", [15, 16])
def test_a_second_run_gives_the_same_bits(engine: Any, channels: int) -> None:
    x, w = draw(4, channels, 7, 9), draw(33, channels, 3, 3)
    g = draw(4, 33, 7, 9)

    def run() -> Any:
        inputs = [tensor(x), tensor(w)]
        y = conv(*inputs, padding=1)
        return engine.values([y, *gradients(y, inputs, tensor(g))])

    for a, b in zip(run(), run(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_batches(engine: Any) -> None:
    x, w = tensor(np.zeros((0, 3, 5, 5), "float32")), tensor(draw(4, 3, 3, 3))
    y = conv(x, w)
    gx, gw = gradients(y, [x, w], tensor(np.zeros((0, 4, 3, 3), "float32")))
    one = conv_transpose(tensor(np.zeros((0, 3, 1, 1), "float32")), tensor(draw(3, 6, 4, 2)))
    values = engine.values([y, gx, gw, max_pool(x, 2), one])
    assert [v.shape for v in values] == [(0, 4, 3, 3), (0, 3, 5, 5), (4, 3, 3, 3), (0, 3, 2, 2), (0, 6, 4, 2)]
    assert not values[2].any()
