"""What explains a model: against closed forms, and PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

import clnet
from clnet import Trainer, interpret
from clnet.errors import ConfigError, DataError
from clnet.interpret import plots
from clnet.layers import Activation, Conv2d, Dense, Flatten, MaxPool2d
from clnet.model import Sequential

DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=(7, 5)).astype(np.float32)
IMAGES = DRAWS.normal(size=(4, 1, 8, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    with clnet.on("numpy"):
        clnet.seed(0)
        yield


def curved() -> Sequential:
    return Sequential(Dense(in_features=5, out_features=8), Activation("tanh"), Dense(in_features=8, out_features=3))


def convolutions() -> Sequential:
    return Sequential(Conv2d(1, 3, 3, padding=1), Activation("relu"), MaxPool2d(2), Conv2d(3, 4, 3),
                      Activation("relu"), Flatten(), Dense(in_features=16, out_features=3))


def test_of_a_linear_model_saliency_is_its_weights() -> None:
    model = Sequential(Dense(in_features=5, out_features=3))
    w = model[0].weight.numpy()  # (out, in)
    np.testing.assert_allclose(interpret.saliency(model, X, target=2), np.repeat(w[2:3], 7, 0), rtol=1e-6)
    best = (X @ w.T + model[0].bias.numpy()).argmax(1)
    np.testing.assert_allclose(interpret.saliency(model, X, absolute=True), np.abs(w[best]), rtol=1e-6)
    np.testing.assert_allclose(interpret.smooth_grad(model, X, 1, samples=3), np.repeat(w[1:2], 7, 0), rtol=1e-5)
    b = DRAWS.normal(size=5)
    np.testing.assert_allclose(interpret.integrated_gradients(model, X, [0, 1, 2, 0, 1, 2, 0], b, 1),
                               (X - b) * w[[0, 1, 2, 0, 1, 2, 0]], rtol=1e-4, atol=1e-6)
    one = Sequential(Dense(in_features=5, out_features=1))
    np.testing.assert_allclose(interpret.saliency(one, X), np.repeat(one[0].weight.numpy(), 7, 0), rtol=1e-6)


def test_integrated_gradients_add_up_to_the_difference() -> None:
    model, b = curved(), DRAWS.normal(size=5).astype(np.float32)
    found = interpret.integrated_gradients(model, X, 1, baseline=b)
    ends = [model(a).numpy()[:, 1] for a in (X, np.repeat(b[None], 7, 0))]
    np.testing.assert_allclose(found.sum(1), ends[0] - ends[1], atol=1e-5)
    poor = interpret.integrated_gradients(model, X, 1, baseline=b, steps=1)
    assert np.abs(poor.sum(1) - (ends[0] - ends[1])).max() > 1e-3


def test_smooth_gradients_are_means_over_their_draws() -> None:
    model = curved()
    found, draws = interpret.smooth_grad(model, X, 0, noise=0.3, samples=4, seed=5), np.random.default_rng(5)
    sigma = 0.3 * (X.max(1) - X.min(1))[:, None]
    each = [interpret.saliency(model, X + sigma * draws.standard_normal(X.shape, np.float32), 0) for _ in range(4)]
    np.testing.assert_allclose(found, np.mean(each, 0), rtol=1e-5, atol=1e-6)


def test_gradients_and_maps_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    nn, functional = torch.nn, torch.nn.functional
    model = convolutions()
    theirs = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3), nn.ReLU(),
                           nn.Flatten(), nn.Linear(16, 3))
    for p, (_, v) in zip(theirs.parameters(), sorted(model.variables().items(), key=lambda i: (
            i[0].split(".")[1], "bias" in i[0])), strict=True):
        p.data = torch.tensor(v.numpy())
    x = torch.tensor(IMAGES, requires_grad=True)
    (g,) = torch.autograd.grad(theirs(x)[:, 1].sum(), x)
    np.testing.assert_allclose(interpret.saliency(model, IMAGES, 1), g.numpy(), rtol=1e-4, atol=1e-6)
    maps = theirs[:5](x)
    (g,) = torch.autograd.grad(theirs[5:](maps)[:, 1].sum(), maps)
    cam = torch.relu((g.mean((2, 3), keepdim=True) * maps).sum(1, keepdim=True))
    cam = functional.interpolate(cam, (8, 8), mode="bilinear", align_corners=False)[:, 0].detach().numpy()
    np.testing.assert_allclose(interpret.grad_cam(model, IMAGES, target=1), cam, rtol=1e-4, atol=1e-6)
    assert interpret.grad_cam(model, IMAGES, "layers.0").shape == (4, 8, 8)
    y = np.array([0, 1, 2, 1])
    functional.cross_entropy(theirs(x), torch.tensor(y)).backward()
    found = interpret.parameter_gradients(Trainer(model, "cross_entropy", "adam"), IMAGES, y.astype(np.int32))
    np.testing.assert_allclose(found["layers.0.weight"], theirs[0].weight.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert plots.heatmaps(IMAGES, interpret.saliency(model, IMAGES, 1)).size[0] > 300


def test_what_is_inside() -> None:
    model = convolutions()
    bias = model[0].bias.numpy().copy()
    bias[1] = -100
    model[0].bias.assign(bias)
    found = interpret.activations(model, IMAGES)
    assert list(found) == [f"layers.{k}" for k in range(7)] and found["layers.3"].shape == (4, 4, 2, 2)
    np.testing.assert_allclose(found["layers.1"], np.maximum(found["layers.0"], 0))
    dead = interpret.dead_units(model, IMAGES)
    assert dead["layers.1"].tolist() == dead["layers.2"].tolist() == [False, True, False]
    kernels = interpret.filters(model)
    assert kernels.shape == (3, 1, 3, 3) and kernels.min() == 0 and kernels.max() == 1
    assert interpret.filters(model, "layers.3").shape == (4, 3, 3, 3)
    assert np.array_equal(interpret.embeddings(model, IMAGES), found["layers.5"])
    a = DRAWS.normal(size=(40, 6)) * np.arange(1, 7)
    ours, theirs = interpret.pca(a, 2), PCA(2).fit(a)
    np.testing.assert_allclose(ours.shares, theirs.explained_variance_ratio_)
    np.testing.assert_allclose(np.abs(ours.points), np.abs(theirs.transform(a)), rtol=1e-8)
    np.testing.assert_allclose(interpret.pca(a, 6).points @ interpret.pca(a, 6).axes + ours.mean, a)
    for picture in (plots.histograms(found), plots.pictures(kernels), plots.bars({"layers.1": 1 / 3}),
                    plots.points(ours.points, np.arange(40) % 3, shares=ours.shares)):
        assert picture.size[0] >= 300


def test_the_most_wrong_examples() -> None:
    trainer = Trainer(curved(), "cross_entropy", "adam")
    y = (X[:, 0] > 0).astype(np.int32)
    found, p = interpret.most_wrong(trainer, X, y, 3), trainer.predict_proba(X)
    wrong = np.flatnonzero(p.argmax(1) != y)
    assert set(found.samples) <= set(wrong) and len(found.samples) == min(3, len(wrong))
    assert (np.diff(found.of_label) >= 0).all() and found.of_label[0] == pytest.approx(p[wrong, y[wrong]].min())


@pytest.mark.parametrize(("call", "words"), [
    (lambda m: interpret.saliency(m, np.zeros((2, 5), int)), r"turn whole numbers into floats"),
    (lambda m: interpret.saliency(m, np.zeros(5)), r"one sample is x\[None\]"),
    (lambda m: interpret.saliency(m, X, 3), r"classes from 0 to 2"),
    (lambda m: interpret.integrated_gradients(m, X, baseline=[1, 2]), r"baseline that fits samples \(5,\)"),
    (lambda m: interpret.grad_cam(m, X), r"expected images"),
    (lambda m: interpret.grad_cam(convolutions(), IMAGES, "layers.9"), r"one of layers.0, .*; did you mean"),
    (lambda m: interpret.activations(m, X, "layers.7"), r"layers.0, layers.1, layers.2; got 'layers.7'"),
    (lambda m: interpret.filters(m), r"the model has none"),
    (lambda m: interpret.parameter_gradients(m, X, X), r"got no loss"),
    (lambda m: interpret.pca(X, 9), r"k up to the smaller"),
    (lambda m: interpret.saliency("model", X), r"expected a model or a Trainer"),
])
def test_slips_say_what_was_meant(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words):
        call(curved())
