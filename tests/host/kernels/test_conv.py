"""Convolution and pooling on the reference: derivatives against differences, spellings of padding, errors."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from clnet.core.autodiff import gradients
from clnet.core.op import OPS
from clnet.core.tensor import tensor
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, ShapeError
from clnet.kernels.conv import conv_gpu
from clnet.kernels.dealing import share
from clnet.ops.conv import conv, conv_transpose
from clnet.ops.pool import global_pool, max_pool
from clnet.workbench import played
from clnet.workbench.kernel_page import choice

RNG = np.random.default_rng(7)
REFERENCE = NumpyEngine()


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("name", ["conv", "conv_data_gradient", "conv_weight_gradient", "max_pool", "max_pool_gradient",
                                  "sum_pool", "sum_pool_gradient"])
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


@pytest.mark.parametrize("pixels", [1 << 12, 16384, 16896, 50176])
def test_weight_gradients_of_few_channels_use_a_gpu_s_units(pixels: int) -> None:
    """16 x 9 results are one tile: their sums over pixels are cut, also where they do not suffice for every unit."""
    device = played.device("h200")
    table = conv_gpu._table(device)
    cut = conv_gpu._cut(table, "weights", *conv_gpu._limits(device), 1, 16, 9, pixels, 4)
    assert cut is not None
    assert cut.split >= min(device.compute_units, pixels // dict(table)["part"]) // 2


@pytest.mark.parametrize("profile", ["avx2", "avx512", "epyc", "pocl"])
@pytest.mark.parametrize("n, c, o, side", [(32, 64, 64, 8), (32, 16, 16, 32), (16, 128, 256, 14), (1, 256, 256, 14),
                                           (8, 512, 512, 4), (64, 3, 32, 28)])
def test_sums_of_a_weight_gradient_take_no_more_memory_than_its_data(profile: str, n: int, c: int, o: int,
                                                                     side: int) -> None:
    """But a work-item a core, of which none is without."""
    found = choice("conv_weight_gradient", (f"float32 {n}x{o}x{side}x{side}", f"float32 {n}x{c}x{side}x{side}"),
                   dict(stride=(1, 1), low=(1, 1), high=(1, 1), dilation=(1, 1), size=(3, 3), groups=1), profile)
    assert found.stages is not None
    stage = found.stages[0]
    parts, items, cores = stage.defines["PARTS"], prod(stage.grid[1:]), played.device(profile).compute_units
    data, sums = n * c * side * side, parts * o * c * 9
    assert (stage.scratch, len(found.stages)) == (({"partial": 4 * sums}, 2) if parts > 1 else ({}, 1))
    assert sums <= data or (parts - 1) * items < cores
    assert parts * items >= min(cores, n * items)


@pytest.mark.parametrize("profile", ["avx2", "pocl", "epyc"])
@pytest.mark.parametrize("n, c, o, side, k, step", [(16, 256, 512, 14, 1, 2), (32, 160, 160, 7, 3, 1),
                                                    (8, 20, 50, 31, 3, 2), (8, 512, 128, 14, 1, 1)])
def test_many_cores_share_a_weight_gradient(profile: str, n: int, c: int, o: int, side: int, k: int, step: int) -> None:
    """No core of four, eight or 64 is left behind: eight work-items left 56 of 64 without one."""
    low, result = k // 2, (side + 2 * (k // 2) - k) // step + 1
    found = choice("conv_weight_gradient", (f"float32 {n}x{o}x{result}x{result}", f"float32 {n}x{c}x{side}x{side}"),
                   dict(stride=(step, step), low=(low, low), high=(low, low), dilation=(1, 1), size=(k, k), groups=1),
                   profile)
    assert found.stages is not None
    parts, *across = found.stages[0].grid
    cores = played.device(profile).compute_units
    assert share(parts, across[0], across[1], cores, 4) <= 2 / cores


@pytest.mark.parametrize("profile, n, side, images", [("avx512", 5, 7, 2), ("avx512", 1, 7, 1), ("avx512", 5, 9, 1),
                                                      ("avx2", 5, 7, 1), ("epyc", 5, 7, 1)])
def test_two_images_share_a_register_where_rows_are_short(profile: str, n: int, side: int, images: int) -> None:
    """Not where each row takes more than half of it, nor where cores would be left without work (64 of them)."""
    found = choice("conv", (f"float32 {n}x32x{side}x{side}", "float32 32x1x5x5"),
                   dict(stride=(1, 1), low=(2, 2), high=(2, 2), dilation=(1, 1), groups=32), profile)
    assert found.taken is not None and found.taken.name == "plane" and found.stages is not None
    stage = found.stages[-1]
    assert stage.defines["WIDE"] == images * stage.lanes
    assert stage.grid[2] == -(-n // images)


@pytest.mark.parametrize("profile, n, shared", [("epyc", 16, True), ("epyc", 256, False), ("pocl", 16, True),
                                                ("avx512", 16, False)])
def test_cores_that_share_few_images_read_weights_that_stay_in_a_cache(profile: str, n: int, shared: bool) -> None:
    """Weights of 4.7 MB, all read for each image, took sixteen cores 1.3 times as long."""
    found = choice("conv", (f"float32 {n}x256x14x14", "float32 512x256x3x3"),
                   dict(stride=(2, 2), low=(1, 1), high=(1, 1), dilation=(1, 1), groups=1), profile)
    assert found.stages is not None
    defines = found.stages[-1].defines
    read = defines["OB"] * defines["NV"] * played.device(profile).vector_width * 256 * 9 * 4
    assert (read <= 512 << 10) == shared, defines


@pytest.mark.parametrize("op, data, weight, taken", [
    ("conv", "8x512x3x3", "512x512x3x3", "deep"), ("conv", "1x512x7x7", "512x512x3x3", "deep"),
    ("conv_data_gradient", "8x512x3x3", "512x512x3x3", "deep"), ("conv", "32x512x7x7", "512x512x3x3", "winograd"),
    ("conv", "8x128x14x14", "128x128x3x3", "winograd"), ("conv", "8x32x3x3", "32x32x3x3", "blocks")])
@pytest.mark.parametrize("profile", ["avx2", "avx512"])
def test_weights_are_read_once_for_few_results_of_many_channels(profile: str, op: str, data: str, weight: str,
                                                                taken: str) -> None:
    """Eight images of 512 channels and 3x3 took twice as long, their data gradient four times (Zen 4)."""
    more = {"size": tuple(map(int, data.split("x")[2:]))} if op == "conv_data_gradient" else {}
    found = choice(op, (f"float32 {data}", f"float32 {weight}"),
                   dict(stride=(1, 1), low=(1, 1), high=(1, 1), dilation=(1, 1), groups=1) | more, profile)
    assert found.taken is not None and found.taken.name == taken
