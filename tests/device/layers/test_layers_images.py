"""Layers of images: what is theirs alone, beside the checks that every layer gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import layers
from clnet import ops as F
from clnet.core.op import OPS, Pointwise, View
from clnet.core.tensor import tensor
from clnet.workbench.evidence import checks

RNG = np.random.default_rng(4)


def image(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# --- resizing
@pytest.mark.parametrize(("n", "m", "mode", "corners"), [
    (5, 8, "linear", False), (8, 5, "linear", False), (4, 12, "linear", False), (12, 4, "linear", False),
    (5, 9, "linear", True), (9, 4, "linear", True), (1, 3, "linear", True), (3, 1, "linear", True),
    (1, 4, "linear", False), (6, 4, "nearest", False), (4, 7, "nearest", False), (3, 9, "nearest", False),
    (9, 3, "nearest", False), (100, 37, "linear", False), (37, 100, "nearest", False)])
def test_resize_reads_the_places_of_its_rule(n: int, m: int, mode: str, corners: bool, engine: Any) -> None:
    x = image(2, 3, n, 2)
    i = np.arange(m)
    middles = i * (n - 1) / max(m - 1, 1) if corners else np.maximum((i + 0.5) * n / m - 0.5, 0)
    t = i * n // m if mode == "nearest" else middles
    low = np.minimum(np.floor(t).astype(int), n - 1)
    f = (t - low)[:, None]
    want = x[:, :, low] * (1 - f) + x[:, :, np.minimum(low + 1, n - 1)] * f
    np.testing.assert_allclose(F.resize(x, (m, 2), mode, corners).numpy(), want, atol=1e-5)


@pytest.mark.parametrize(("kind", "batch"), [("cpu", 33), ("gpu", 34)])
@pytest.mark.parametrize("op", ["resample", "resample_adjoint"])
def test_resampling_with_the_geometry_of_every_device(op: str, kind: str, batch: int, engine: Any,
                                                      chosen_for: Callable[..., object]) -> None:
    """On whatever device there is. Batches differ, so that no plan is there already."""
    if kind == "cpu" and engine.device.kind == "gpu":
        pytest.skip("kernels for CPUs load vectors wherever they lie, which GPUs do not allow")
    chosen_for(OPS[op], kind=kind, compute_units=3, vector_width=4)
    for rule, n, m, d in (("linear", 7, 11, 1), ("linear", 7, 3, 13), ("corners", 4, 9, 1), ("area", 11, 4, 5),
                          ("nearest", 5, 7, 3)):
        how = dict(rule=rule, n=n, m=m)
        result = checks.compare(lambda x, how=how: OPS[op](x, **how),
                                [image(batch, m if op.endswith("adjoint") else n, d)], engine)
        assert result, f"{how}: {result}"


@pytest.mark.parametrize(("n", "m"), [(7, 3), (5, 5), (3, 5), (12, 4), (10, 1), (11, 7)])
def test_adaptive_pooling_is_the_mean_of_its_share(n: int, m: int, engine: Any) -> None:
    x = image(2, 2, n, 3)
    want = np.stack([x[:, :, i * n // m : -(-(i + 1) * n // m)].mean(2) for i in range(m)], 2).mean(3, keepdims=True)
    np.testing.assert_allclose(F.adaptive_avg_pool(x, (m, 1)).numpy(), want, atol=1e-6)


def test_repeating_pixels_and_shuffling_them_move_nothing(engine: Any) -> None:
    x = image(1, 4, 3, 2)
    y, z = F.resize(tensor(x), (9, 4)) + 0.0, F.pixel_shuffle(tensor(x), 2) + 0.0
    for t in (y, z):
        assert all(node.op is None or isinstance(node.op, (View, Pointwise)) for node in checks.walk([t]))
    assert (y.numpy() == x.repeat(3, 2).repeat(2, 3)).all()


def test_pixel_shuffle_undoes_its_inverse(engine: Any) -> None:
    y = image(2, 3, 6, 9)
    x = y.reshape(2, 3, 2, 3, 3, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 27, 2, 3)
    assert (layers.PixelShuffle(upscale_factor=3)(x).numpy() == y).all()


# --- sampling
def test_the_identity_grid_gives_the_image(engine: Any) -> None:
    x = image(2, 3, 4, 5)
    theta = np.tile(np.eye(2, 3, dtype=np.float32), (2, 1, 1))
    for corners in (False, True):
        grid = F.affine_grid(theta, size=(4, 5), align_corners=corners)
        np.testing.assert_allclose(F.grid_sample(x, grid, align_corners=corners).numpy(), x, atol=1e-5)


def test_warping_by_whole_pixels_shifts_and_holds_the_border(engine: Any) -> None:
    x = image(1, 2, 4, 5)
    flow = np.zeros((1, 2, 4, 5), np.float32)
    flow[:, 0], flow[:, 1] = 2, -1
    want = x[:, :, np.maximum(np.arange(4) - 1, 0)][:, :, :, np.minimum(np.arange(5) + 2, 4)]
    assert (F.warp(x, flow).numpy() == want).all()


def test_points_outside_read_nothing_at_any_distance(engine: Any) -> None:
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    grid = np.array([[-9, 0], [9, 0], [0, 1e30], [-1e30, 1e30]], np.float32).reshape(1, 1, 4, 2)
    assert (F.grid_sample(x, grid).numpy() == 0).all()


def test_deformable_convolution_starts_as_half_a_convolution(engine: Any) -> None:
    x = image(1, 2, 4, 5)
    layer = layers.DeformConv2d(in_channels=2, out_channels=3)
    plain = layers.Conv2d(in_channels=2, out_channels=3, kernel_size=3, padding=1, bias=False)
    plain.weight.assign(layer.weight.tensor)
    bias = layer.bias.numpy()[:, None, None]
    np.testing.assert_allclose(layer(x).numpy() - bias, 0.5 * plain(x).numpy(), atol=1e-5)  # σ(0) = 1/2


# --- normalisation
def test_spectral_norm_of_what_is_used_is_one(engine: Any) -> None:
    layer = layers.SpectralNorm({"type": "Dense", "in_features": 6, "out_features": 4, "bias": False})
    used = layer(np.eye(6, dtype=np.float32)).numpy()
    assert abs(np.linalg.norm(used, 2) - 1) < 1e-5
    raw = layer.layer.weight.numpy()
    np.testing.assert_allclose(used.T * np.linalg.norm(raw, 2), raw, atol=1e-5)


def test_spectral_norm_follows_a_weight_that_changes(engine: Any) -> None:
    layer = layers.SpectralNorm({"type": "Dense", "in_features": 3, "out_features": 2, "bias": False},
                                n_power_iterations=3)
    x = np.eye(3, dtype=np.float32)
    layer(x)
    layer.layer.weight.assign(tensor(np.array([[0, 0, 5], [1, 0, 0]], np.float32)))
    stale = np.linalg.norm(layer.eval()(x).numpy(), 2)
    u = layer.u.numpy()
    layer.train()
    for _ in range(6):
        used = layer(x).numpy()
    assert abs(np.linalg.norm(used, 2) - 1) < 1e-4 and abs(stale - 1) > 1e-3
    assert (layer.u.numpy() != u).any()


def test_instance_norm_keeps_statistics(engine: Any) -> None:
    x = image(4, 3, 5, 2) * 2 + 1
    layer = layers.InstanceNorm(num_features=3, track_running_stats=True, momentum=0.25)
    layer(x)
    mean, var = 0.25 * x.mean((0, 2, 3)), 0.75 + 0.25 * x.var((2, 3), ddof=1).mean(0)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, atol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), var, atol=1e-5)
    want = (x - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None]
    np.testing.assert_allclose(layer.eval()(x).numpy(), want, atol=1e-5)


# --- blocks and networks
@pytest.mark.parametrize("fields", [dict(out_channels=4, groups=2), dict(out_channels=3, stride=2)])
def test_fused_convolution_is_the_sum_of_its_branches(fields: Any, engine: Any) -> None:
    layer, x = layers.RepConv2d(in_channels=4, **fields), image(3, 4, 5, 4)
    for _ in range(3):
        layer(x * 2 + 1)
    fused = layer.eval()(x)
    parts = [norm(conv(x)) for conv, norm in ((layer.conv3, layer.bn3), (layer.conv1, layer.bn1))]
    parts += [layer.bn(x)] if layer.bn else []
    np.testing.assert_allclose(fused.numpy(), sum(p.numpy() for p in parts), atol=1e-5)


@pytest.mark.parametrize(("cls", "shape", "how"), [
    (layers.MaxPool2d, (2, 3, 7, 6), dict(kernel_size=3, stride=2, padding=1)),
    (layers.MaxPool2d, (1, 2, 7, 5), dict(kernel_size=(2, 1), dilation=2)),
    (layers.MaxPool3d, (1, 2, 4, 5, 6), dict(kernel_size=2, ceil_mode=True)),
])
def test_max_pooling_says_where_its_maxima_are(cls: Any, shape: Any, how: Any, engine: Any) -> None:
    x = image(*shape)
    y, where = (t.numpy() for t in cls(return_indices=True, **how)(x))
    there = np.take_along_axis(x.reshape(*shape[:2], -1), where.reshape(*shape[:2], -1), 2)
    assert where.dtype == np.int64 and (there.reshape(y.shape) == y).all()
