"""Random changes of images beside NumPy, SciPy and matplotlib with the same numbers; what they do to targets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.stats
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv

import clnet
from clnet.augment import (
    ColorJitter,
    Compose,
    CutMix,
    MixUp,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Transform,
)
from clnet.augment.base import Batch, transform_of
from clnet.augment.mixing import beta
from clnet.errors import ConfigError, ShapeError
from clnet.ops.draws import uniform

DRAWS = np.random.default_rng(0)
X = DRAWS.random((8, 3, 9, 12)).astype(np.float32)
U = DRAWS.random((5, 8)).astype(np.float32)
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _on_the_host() -> Iterator[None]:
    with clnet.on("numpy"):
        yield


def changed(t: Transform, x: Array = X) -> Array:
    """The images of x, by the numbers U."""
    return t.forward(clnet.tensor(x), *(clnet.tensor(u[: len(x)]) for u in U[: t.numbers])).numpy()


def applied(t: Transform, y: Array, x: Array = X, **more: Any) -> Batch:
    return t.apply(Batch(clnet.tensor(x), (clnet.tensor(y),), **more), *map(clnet.tensor, U[: t.numbers]))


# --- the same numbers, other libraries
def test_flips_turn_the_samples_whose_number_is_small() -> None:
    turned = U[0] < 0.5
    assert 0 < turned.sum() < 8
    for t, axis in ((RandomHorizontalFlip(), 3), (RandomVerticalFlip(), 2)):
        np.testing.assert_array_equal(changed(t), np.where(turned[:, None, None, None], np.flip(X, axis), X))
    np.testing.assert_array_equal(changed(RandomHorizontalFlip(p=1.0)), X[..., ::-1])
    np.testing.assert_array_equal(changed(RandomHorizontalFlip(p=0.0)), X)


@pytest.mark.parametrize(("mode", "theirs"), [("constant", {"constant_values": 0.5}), ("edge", {}), ("reflect", {})])
def test_a_crop_is_a_window_of_the_padded_image(mode: Any, theirs: dict[str, Any]) -> None:
    got = changed(RandomCrop(padding=3, mode=mode, fill=0.5))
    padded = np.pad(X, ((0, 0), (0, 0), (3, 3), (3, 3)), mode, **theirs)
    corners = np.floor(U[:2] * 7).astype(int)
    for k, (top, left) in enumerate(corners.T):
        np.testing.assert_array_equal(got[k], padded[k, :, top : top + 9, left : left + 12])
    assert len({tuple(c) for c in corners.T}) > 4
    at_the_end = [clnet.tensor(np.full(8, 1 - 2.0**-24, np.float32))] * 2  # which 7 u rounds to 7
    last = RandomCrop(padding=3, mode=mode, fill=0.5).forward(clnet.tensor(X), *at_the_end).numpy()
    np.testing.assert_array_equal(last, padded[:, :, 6:, 6:])


def test_a_resized_crop_reads_its_box() -> None:
    t = RandomResizedCrop(scale=(0.2, 0.9))
    got = changed(t)
    area = 9 * 12 * (0.2 + 0.7 * U[0].astype(float))
    ratio = np.exp(np.log(0.75) + (np.log(4 / 3) - np.log(0.75)) * U[1])
    h, w = np.minimum(np.sqrt(area / ratio), 9), np.minimum(np.sqrt(area * ratio), 12)
    for k in range(8):
        down = U[2, k] * (9 - h[k]) + (np.arange(9) + 0.5) * h[k] / 9 - 0.5
        across = U[3, k] * (12 - w[k]) + (np.arange(12) + 0.5) * w[k] / 12 - 0.5
        for c in range(3):
            wanted = scipy.ndimage.map_coordinates(X[k, c], np.meshgrid(down, across, indexing="ij"), order=1,
                                                   mode="nearest")
            np.testing.assert_allclose(got[k, c], wanted, atol=2e-5)
    np.testing.assert_allclose(changed(RandomResizedCrop(scale=(1.0, 1.0), ratio=(4 / 3, 4 / 3))), X, atol=1e-5)


@pytest.mark.parametrize("fill", [0.0, 0.7])
def test_an_affine_map_is_scipys(fill: float) -> None:
    got = changed(RandomAffine(degrees=40, translate=0.2, scale=(0.7, 1.4), shear=20, fill=fill))
    u = U.astype(float)
    turn, lean, scale = np.radians(80 * u[0] - 40), np.radians(40 * u[1] - 20), 0.7 + 0.7 * u[2]
    for k in range(8):
        rotation = np.array([[np.cos(turn[k]), -np.sin(turn[k])], [np.sin(turn[k]), np.cos(turn[k])]])
        matrix = scale[k] * rotation @ np.array([[1, -np.tan(lean[k])], [0, 1]])  # of (across, down)
        inverse = np.linalg.inv(matrix)[::-1, ::-1]  # of (down, across)
        centre, shift = np.array([4, 5.5]), np.array([(0.4 * u[4, k] - 0.2) * 9, (0.4 * u[3, k] - 0.2) * 12])
        for c in range(3):
            wanted = scipy.ndimage.affine_transform(X[k, c], inverse, centre - inverse @ (centre + shift), order=1,
                                                    mode="grid-constant", cval=fill)
            np.testing.assert_allclose(got[k, c], wanted, atol=3e-5)
    np.testing.assert_allclose(changed(RandomRotation(degrees=40, fill=fill)),
                               changed(RandomAffine(degrees=(-40, 40), fill=fill)), atol=1e-6)
    np.testing.assert_array_equal(changed(RandomAffine(translate=(0.2, 0.2))), changed(RandomAffine(translate=0.2)))
    sideways = changed(RandomAffine(degrees=(0, 0), translate=(0.5, 0)), np.broadcast_to(X[:, :, :1], X.shape).copy())
    np.testing.assert_allclose(sideways[:, :, :1], sideways[:, :, 1:2], atol=1e-6)


def test_a_quarter_turn_is_clockwise() -> None:
    square = X[..., :9]
    quarter = [clnet.tensor(np.ones(8, np.float32))]
    got = RandomRotation(degrees=90).forward(clnet.tensor(square), *quarter).numpy()
    np.testing.assert_allclose(got, np.rot90(square, -1, (2, 3)), atol=1e-5)


def test_colours_are_those_of_the_formulas_that_are_known() -> None:
    luma = np.array([0.2989, 0.587, 0.114])[None, :, None, None]

    def blended(x: Array, other: Array | float, f: Array) -> Array:
        return np.clip(f[:, None, None, None] * x + (1 - f[:, None, None, None]) * other, 0, 1)

    wanted = blended(X.astype(float), 0.0, 0.6 + 0.8 * U[0])
    wanted = blended(wanted, (wanted * luma).sum(1).mean((1, 2))[:, None, None, None], 0.5 + U[1])
    wanted = blended(wanted, (wanted * luma).sum(1, keepdims=True), 2.0 * U[2])
    hsv = rgb_to_hsv(np.moveaxis(wanted, 1, -1))
    hsv[..., 0] = (hsv[..., 0] + (0.6 * U[3] - 0.3)[:, None, None]) % 1
    t = ColorJitter(brightness=0.4, contrast=0.5, saturation=1.0, hue=0.3)
    np.testing.assert_allclose(changed(t), np.moveaxis(hsv_to_rgb(hsv), -1, 1), atol=5e-6)
    grey = changed(t, X[:, :1])
    one = blended(X[:, :1].astype(float), 0.0, 0.6 + 0.8 * U[0])
    np.testing.assert_allclose(grey, blended(one, one.mean((1, 2, 3), keepdims=True), 0.5 + U[1]), atol=1e-6)
    same = changed(RandomGrayscale(p=1.0))
    np.testing.assert_allclose(same, np.broadcast_to((X * luma).sum(1, keepdims=True), X.shape), atol=1e-6)
    flat = np.full((1, 3, 2, 2), 0.25, np.float32)  # without a hue
    np.testing.assert_allclose(changed(ColorJitter(brightness=0, contrast=0, saturation=0, hue=0.5), flat), flat)


def test_erasing_fills_one_box_inside_the_image() -> None:
    got = changed(RandomErasing(p=0.8, scale=(0.1, 0.5), value=2.0))
    for k in range(8):
        area, ratio = 108 * (0.1 + 0.4 * U[1, k]), np.exp(np.log(0.3) + np.log(11) * U[2, k])
        h, w = min(np.floor(np.sqrt(area * ratio) + 0.5), 9), min(np.floor(np.sqrt(area / ratio) + 0.5), 12)
        top, left = int(U[3, k] * (9 - h + 1)), int(U[4, k] * (12 - w + 1))
        wanted = X[k].copy()
        if U[0, k] < 0.8:
            wanted[:, top : top + int(h), left : left + int(w)] = 2.0
        np.testing.assert_array_equal(got[k], wanted)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 1.0, 4.0])
def test_shares_are_drawn_from_a_beta_distribution(alpha: float) -> None:
    u = uniform((2, 20000), 7, 0)
    found = beta(alpha, u[0], u[1]).numpy()
    assert np.isfinite(found).all() and found.min() >= 0 and found.max() <= 1
    places = np.linspace(0.001, 0.999, 999)  # nearer to the ends float32 rounds
    share_below = np.searchsorted(np.sort(found), places) / found.size
    assert np.abs(share_below - scipy.stats.beta(alpha, alpha).cdf(places)).max() < 1.63 / found.size**0.5, "p = 0.01"
    ends = beta(alpha, clnet.tensor([0.0, 1 - 2.0**-24]), clnet.tensor([0.25, 0.25])).numpy()
    assert np.isfinite(ends).all()


# --- targets
def _share(alpha: float) -> Array:
    return np.asarray(beta(alpha, clnet.tensor(U[1]), clnet.tensor(U[2])).numpy())


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("weight", [None, DRAWS.random(8).astype(np.float32)])
def test_whole_numbers_count_by_their_shares_as_soft_targets_do(weight: Any) -> None:
    y, z = DRAWS.integers(0, 4, 8), DRAWS.normal(size=(8, 4)).astype(np.float32)
    share, eye = _share(0.7), np.eye(4, dtype=np.float32)
    whole = applied(MixUp(alpha=0.7), y, weight=None if weight is None else clnet.tensor(weight))
    soft = applied(MixUp(alpha=0.7), eye[y])
    np.testing.assert_allclose(whole.x.numpy(), share[:, None, None, None] * X
                               + (1 - share)[:, None, None, None] * np.roll(X, 1, 0), atol=1e-6)
    mixed = share[:, None] * eye[y] + (1 - share)[:, None] * np.roll(eye[y], 1, 0)
    np.testing.assert_allclose(soft.targets[0].numpy(), mixed, atol=1e-6)
    w = np.ones(8) if weight is None else weight
    first, second = w * share, np.roll(w, 1) * (1 - share)
    each = -np.log(_softmax(z.astype(float)))
    wanted = (first * each[range(8), y] + second * each[range(8), np.roll(y, 1)]).sum() / (first + second).sum()
    from clnet.train.augmenting import asked, seen
    from clnet.train.step import _joined

    output, target, shares = asked(whole, clnet.tensor(z), _joined)
    got = clnet.losses.CrossEntropyLoss()(output, target, sample_weight=shares).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    if weight is None:
        np.testing.assert_allclose(got, clnet.losses.CrossEntropyLoss()(z, soft.targets[0]).numpy(), rtol=1e-5)
    np.testing.assert_array_equal(seen(whole).numpy(), np.where(second > first, np.roll(y, 1), y))


def test_a_box_of_another_sample_counts_by_its_area() -> None:
    y = np.arange(8)
    found = applied(CutMix(alpha=0.8, p=0.9), y)
    x, other = found.x.numpy(), np.roll(X, 1, 0)
    theirs = (x == other).all(1)
    assert ((x == X).all(1) | theirs).all() and 0.05 < theirs.mean() < 0.9
    np.testing.assert_allclose(found.shares[1].numpy(), theirs.mean((1, 2)), atol=1e-6)
    np.testing.assert_allclose(found.shares[0].numpy() + found.shares[1].numpy(), 1, atol=1e-6)
    for box in theirs:
        assert box.sum() == box.any(1).sum() * box.any(0).sum(), "a rectangle"
    np.testing.assert_array_equal(changed(CutMix(alpha=0.8, p=0.9)), x)
    np.testing.assert_array_equal(changed(CutMix(p=0.0)), X)


def test_mixtures_of_mixtures_have_the_shares_of_all_four() -> None:
    images = np.eye(8, dtype=np.float32).reshape(8, 1, 2, 4)  # whose pixels are the shares themselves
    batch = Batch(clnet.tensor(images), (clnet.tensor(np.arange(8)),))
    for seed in (1, 2):
        batch = MixUp(alpha=1.0).apply(batch, *(uniform((8,), seed, k) for k in range(3)))
    assert len(batch.targets) == len(batch.shares) == 4
    total = sum(np.eye(8)[t.numpy()] * s.numpy()[:, None] for t, s in zip(batch.targets, batch.shares, strict=True))
    np.testing.assert_allclose(batch.x.numpy().reshape(8, 8), total, atol=1e-6)


@pytest.mark.parametrize("t", [RandomHorizontalFlip(), RandomVerticalFlip(), RandomCrop(padding=2), CutMix(),
                               RandomResizedCrop(), RandomAffine(degrees=30, translate=0.2), RandomRotation()])
def test_targets_that_are_pictures_move_with_their_images(t: Transform) -> None:
    y = DRAWS.integers(0, 5, (8, 9, 12)).astype(np.int32)
    found = applied(t, y, pictures=True)
    assert found.targets[0].dtype == "int32" and not found.shares
    got = found.targets[0].numpy()
    assert set(np.unique(got)) <= set(range(5)) and (got != y).any()
    exact = not isinstance(t, (RandomResizedCrop, RandomAffine, RandomRotation))
    both = applied(t, y, x=np.repeat(y[:, None], 2, 1).astype(np.float32), pictures=True)
    if exact:
        np.testing.assert_array_equal(both.x.numpy()[:, 0], got)
    floats = applied(t, y[:, None].astype(np.float32), pictures=True)
    np.testing.assert_array_equal(floats.targets[0].numpy()[:, 0], got)
    assert np.abs(both.x.numpy()[:, 0] - got).mean() < 1.2


# --- as people write them
def test_names_configurations_and_several() -> None:
    t = transform_of(["flip", RandomCrop(padding=2), MixUp, "RandomErasing", "colour"])
    assert repr(t) == ("Compose(transforms=(RandomHorizontalFlip(), RandomCrop(padding=2), MixUp(), RandomErasing(), "
                       "ColorJitter()))")
    assert Transform.from_config(json.loads(json.dumps(t.config()))).config() == t.config() and t.mixes
    assert sum(part.numbers for part in t.transforms) == t.numbers == 15
    assert transform_of("cutout").config() == {"type": "RandomErasing"} and MixUp(0.4).alpha == 0.4
    assert "default 15.0" in (RandomRotation.__doc__ or "")


@pytest.mark.parametrize(("make", "says"), [
    (lambda: transform_of("flop"), "did you mean 'flip'"), (lambda: transform_of(3), r"RandomCrop\(padding=2\)"),
    (lambda: transform_of([]), "at least one transform"), (lambda: RandomHorizontalFlip(p=2), "p must be less than"),
    (lambda: RandomResizedCrop(scale=(0.5, 0.2)), "least <= largest"), (lambda: MixUp(alpha=0), "greater than 0"),
    (lambda: RandomAffine(scale=(0.0, 1.0)), "above 0, the least first"),
    (lambda: RandomRotation(degrees=200), "an angle from 0 to 180"),
    (lambda: RandomAffine(degrees=(9, 3)), "the least first"),
    (lambda: RandomAffine(translate=(0.1, 2.0)), "shares of the sides"),
    (lambda: RandomHorizontalFlip()(X.transpose(0, 2, 3, 1)), "got 9 channels in shape.*turn them: x.transpose"),
    (lambda: RandomCrop(pading=2), "did you mean 'padding'"),
    (lambda: RandomCrop(padding=9, mode="reflect")(X), "larger than their padding; got 9 x 12"),
    (lambda: ColorJitter()(X.transpose(0, 2, 3, 1)), r"got 9 channels in shape \(8, 9, 12, 3\); turn them: x.tr"),
    (lambda: RandomCrop()(X[:, 0]), r"got shape \(8, 9, 12\); grey ones need an axis: x\[:, None\]"),
    (lambda: RandomCrop().preview(X[:, :2]), r"\(N, 1 or 3, height, width\)"),
])
def test_slips_are_named(make: Any, says: str) -> None:
    with pytest.raises((ConfigError, ShapeError), match=says):
        make()


def test_calls_draw_by_a_seed_and_bytes_keep_their_range() -> None:
    t = Compose(["crop", "color", "erase"])
    np.testing.assert_array_equal(t(X, 3).numpy(), t(X, 3).numpy())
    assert (t(X, 3).numpy() != t(X, 4).numpy()).any()
    generator = clnet.Generator(3)
    np.testing.assert_array_equal(t(X, generator).numpy(), t(X, 3).numpy())
    assert (t(X, generator).numpy() != t(X, 3).numpy()).any() and int(generator.counter.numpy()) == 2
    pixels = (X * 255).astype(np.uint8)
    np.testing.assert_allclose(t(pixels, 3).numpy(), t(pixels / np.float32(255), 3).numpy() * 255, atol=1e-3)


def test_a_preview_is_a_picture_of_rows() -> None:
    shown = Compose(["flip", "cutmix"]).preview(clnet.data.from_arrays(X, np.arange(8)), rows=2, seed=1)
    assert shown[:8] == b"\x89PNG\r\n\x1a\n" and shown.size[0] == 8 * 76 and "CutMix" in shown.heading
    assert RandomCrop().preview((X * 255).astype(np.uint8)[:2, :1]).size[0] == 2 * 76
    assert RandomCrop().preview(X, seed=1) == RandomCrop().preview(X, seed=1) != RandomCrop().preview(X, seed=2)
