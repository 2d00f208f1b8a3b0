"""Layers of images on the reference: what blocks and networks compute, sequences, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import layers
from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.errors import ConfigError, ShapeError
from clnet.workbench.evidence import checks

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def image(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def value(t: Any) -> Any:
    return t.numpy(checks.oracle())


@pytest.mark.parametrize("call", [
    lambda: F.resize(np.zeros((1, 2, 3)), 2, "cubic"), lambda: layers.Upsample2d(scale_factor=(2, 2, 2)),
    lambda: layers.Upsample2d(align_corners=True), lambda: layers.ConvLSTM2d(hidden_channels=1, peephole=True),
    lambda: layers.DeformConv2d(in_channels=3, out_channels=2, groups=2),
    lambda: layers.SpectralNorm(layer={"type": "Dropout"})(np.zeros((2, 3))), lambda: layers.RRDBNet(scale=3)])
def test_configuration_errors(call: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        call()


@pytest.mark.parametrize("call", [
    lambda: F.resize(np.zeros((1, 2, 3)), (2, 2)), lambda: F.resize(np.zeros((1, 2, 3)), 0),
    lambda: F.adaptive_avg_pool(np.zeros((1, 2, 0)), 1), lambda: F.pixel_shuffle(np.zeros((1, 6, 2, 2)), 2),
    lambda: F.grid_sample(np.zeros((1, 1, 2, 2)), np.zeros((1, 2, 2, 3))),
    lambda: F.affine_grid(np.zeros((1, 3, 3)), size=(2, 2)),
    lambda: F.deform_conv(np.zeros((1, 2, 4, 4)), np.zeros((1, 7, 3, 3)), np.zeros((1, 2, 2, 2))),
    lambda: layers.UNetDiscriminator(num_features=1, num_blocks=2)(np.zeros((1, 3, 6, 8))),
    lambda: layers.SpyNet(num_levels=1)(np.zeros((1, 4, 6, 8))),
    lambda: layers.ConvLSTM2d(hidden_channels=1)(np.zeros((1, 2, 1, 3, 3)), np.zeros((1, 1, 2, 2)), None)])
def test_shape_errors(call: Any) -> None:
    with pytest.raises(ShapeError, match="expected"):
        call()


@pytest.mark.parametrize(("cls", "fields"), [(layers.BasicBlock, dict(out_channels=4)),
                                             (layers.BottleneckBlock, dict(base_channels=1))])
def test_zero_init_starts_as_relu_of_the_input(cls: Any, fields: Any) -> None:
    x = image(2, 4, 3, 3)
    np.testing.assert_allclose(value(cls(**fields)(x)), np.maximum(x, 0), atol=1e-6)


def test_rrdb_is_three_blocks_and_a_share_of_them() -> None:
    x, block = image(1, 2, 3, 3), layers.RRDB(num_features=2, growth_channels=1, residual_scale=0.5)
    y = x
    for part in block.rdb:
        y = part(y)
    np.testing.assert_allclose(value(block(x)), x + 0.5 * value(y), atol=1e-6)


def test_dense_block_keeps_its_input() -> None:
    x = image(2, 3, 4, 4)
    y = value(layers.DenseBlock(num_layers=2, growth_rate=2)(x))
    assert y.shape == (2, 7, 4, 4) and (y[:, :3] == x).all()


def test_inverted_residual_adds_its_input_where_shapes_allow() -> None:
    block = layers.InvertedResidual(in_channels=2, out_channels=2)
    x = image(2, 2, 3, 3)
    block(x)
    list(block.conv.values())[-1].weight.assign(tensor(np.zeros(2, np.float32)))
    assert (value(block(x)) == x).all()


@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize("upsample", ["nearest", "pixelshuffle"])
def test_rrdbnet_scales(scale: int, upsample: str) -> None:
    net = layers.RRDBNet(num_features=1, growth_channels=1, num_blocks=1, scale=scale, upsample=upsample)
    assert net(image(1, 3, 2, 3)).shape == (1, 3, 2 * scale, 3 * scale)


def test_spynet_of_no_motion_nets_is_zero_and_takes_any_size() -> None:
    net = layers.SpyNet(in_channels=1, num_levels=3, channels=(2,), kernel_size=3)
    for level in net.nets:
        last = level.convs[-1]
        last.weight.assign(tensor(np.zeros(last.weight.shape, np.float32)))
        last.bias.assign(tensor(np.array([1, 2], np.float32)))
    v = value(net(image(1, 1, 5, 7), image(1, 1, 5, 7)))
    # Every level adds (1, 2) at its size, 4 + 2 + 1 times as much at full size; then back from 8 × 8.
    np.testing.assert_allclose(v, np.broadcast_to(np.array([7 * 7 / 8, 14 * 5 / 8])[:, None, None], (1, 2, 5, 7)),
                               atol=1e-5)


def test_conv_lstm_continues_a_sequence() -> None:
    x, layer = image(2, 4, 1, 3, 3), layers.ConvLSTM2d(hidden_channels=2, return_state=True)
    whole, h, c = (value(t) for t in layer(x))
    _, *state = layer(x[:, :2])
    rest, h2, c2 = (value(t) for t in layer(x[:, 2:], *state))
    for a, b in ((rest, whole[:, 2:]), (h2, h), (c2, c)):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 28, 28, 3), (2, 28, 28, 1), (2, 48, 64, 4)])
def test_an_image_whose_channels_are_last_is_not_taken_silently(shape: tuple[int, ...]) -> None:
    layer = layers.Conv2d(out_channels=2, kernel_size=3, padding="same")
    with pytest.warns(UserWarning, match=r"read as \d+ channels .* write np\.moveaxis\(x, -1, 1\); where"):
        layer(np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", [(2, 3, 28, 28), (2, 1, 28, 28), (2, 16, 4, 4), (2, 512, 2, 1), (2, 64, 100, 1)])
def test_channels_first_are_taken_without_a_word(shape: tuple[int, ...], recwarn: pytest.WarningsRecorder) -> None:
    layers.Conv2d(out_channels=2, kernel_size=3, padding="same")(np.zeros(shape, np.float32))
    layers.Conv2d(28, 2, 3, padding="same")(np.zeros((2, 28, 28, 3), np.float32))  # whoever says so means it
    assert not recwarn.list
