"""Losses that hold networks, are given networks, or have parameters of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.state import Generator, Parameter
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, ShapeError
from clnet.layers import Conv2d, Dense, Dropout
from clnet.layers.base import Layer
from clnet.losses import (
    ElasticNetLoss,
    Loss,
    OrdinalRegressionLoss,
    PerceptualLoss,
    PhysicsInformedLoss,
    RealESRGANLoss,
    RotationPredictionLoss,
    WassersteinLoss,
    clip_weights,
    gradient_penalty,
)
from clnet.model import Sequential
from clnet.optimizers import SGD, Adam
from clnet.train import Trainer
from clnet.train.callbacks import Checkpoint
from clnet.workbench.evidence.checks import directional

RNG = np.random.default_rng(5)
IMAGES = RNG.standard_normal((2, 3, 4, 6, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def same_values() -> None:
    init.seed(0)


def learn(optimizer: Any, model: Layer, objective: Any, steps: int) -> None:
    """Steps of an optimizer on a scalar, recorded once."""
    optimizer.attach(model.parameters())
    step = Recorded(lambda h: optimizer.apply(gradients(objective(), [p.tensor for p in optimizer.parameters]), h)
                    or (), "learn")
    for t in range(1, steps + 1):
        step(optimizer.hyper(t))


class _Pyramid(Layer):
    """Two features, as extractors return them: after one convolution and after two."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.first = Conv2d(in_channels=4, out_channels=3, kernel_size=3)
        self.second = Conv2d(in_channels=3, out_channels=2, kernel_size=3)

    def forward(self, x: Any) -> Any:
        a = F.tanh(self.first(x))
        return a, self.second(a)


# --- perceptual losses
def test_a_perceptual_loss_is_the_distance_of_features(engine: Any) -> None:
    phi = _Pyramid()
    p, y = IMAGES
    loss = PerceptualLoss(extractor=phi, layer_weights=(0.5, 2.0), reduction="none")
    pairs = [(a.numpy(), b.numpy()) for a, b in zip(phi(p), phi(y), strict=True)]
    want = sum(w * ((a - b) ** 2).mean((1, 2, 3)) for w, (a, b) in zip((0.5, 2.0), pairs, strict=True))
    np.testing.assert_allclose(loss(p, y).numpy(), want, rtol=1e-5)
    x, target = tensor(p), tensor(y)
    to_p, to_y = gradients(F.sum(loss(x, target)), [x, target])
    assert np.abs(to_p.numpy()).max() > 0
    assert (to_y.numpy() == 0).all(), "the target counts as constant"
    result = directional(lambda q: loss(q, target), [p], np.random.default_rng(0))
    assert result, str(result)
    with pytest.raises(ConfigError, match="one of layer_weights per feature of the extractor, 2; got 1"):
        PerceptualLoss(extractor=phi, layer_weights=(1.0,))(p, y)


def test_the_extractor_stays_as_it_is(engine: Any) -> None:
    phi = Sequential(Conv2d(in_channels=4, out_channels=3, kernel_size=3), Dropout(p=0.5))
    loss, (p, y) = PerceptualLoss(extractor=phi), IMAGES
    assert loss(p, y).item() == loss(p, y).item(), "it runs in evaluation mode"
    assert phi.training
    assert phi.layers[1].training
    assert loss.variables() == {}
    again = Loss.from_config(loss.config())
    assert repr(again) == repr(loss)


def test_real_esrgan_is_the_sum_of_its_parts(engine: Any) -> None:
    phi, critic = _Pyramid(), Conv2d(in_channels=4, out_channels=1, kernel_size=3)
    p, y = IMAGES
    got = RealESRGANLoss(l1_weight=2.0, perceptual_weight=0.5, gan_weight=0.25, extractor=phi,
                         discriminator=critic)(p, y).item()
    seen = PerceptualLoss(extractor=phi, distance="l1")(p, y).item()
    fooled = np.logaddexp(0, -critic(p).numpy()).mean()
    assert got == pytest.approx(2 * np.abs(p - y).mean() + 0.5 * seen + 0.25 * fooled, rel=1e-5)


# --- Wasserstein critics
def test_the_gradient_penalty_of_a_linear_critic(engine: Any) -> None:
    """A linear critic has the slope w everywhere: λ (‖w‖ − 1)², with the derivative 2 λ (‖w‖ − 1) w / ‖w‖."""
    critic = Dense(in_features=5, out_features=1)
    real, fake = RNG.standard_normal((2, 8, 5)).astype(np.float32)
    penalty = gradient_penalty(critic, real, fake, lam=10.0)
    w = critic.weight.numpy()
    size = np.linalg.norm(w)
    assert penalty.item() == pytest.approx(10 * (size - 1) ** 2, rel=1e-4)
    (slope,) = gradients(penalty, [critic.weight.tensor])
    np.testing.assert_allclose(slope.numpy(), 20 * (size - 1) * w / size, rtol=1e-4)


def test_the_gradient_penalty_of_a_curved_critic(engine: Any) -> None:
    """Second derivatives through tanh against differences, u the same in every call."""
    critic = Sequential(Dense(in_features=3, out_features=4, activation="tanh"), Dense(in_features=4, out_features=1))
    real, fake = RNG.standard_normal((2, 6, 3)).astype(np.float32)
    w = critic.layers[0].weight

    def penalty(value: Any) -> Any:
        def of(x: Any) -> Any:
            return critic.layers[1](F.tanh(F.linear(x, value, critic.layers[0].bias)))

        return gradient_penalty(of, real, fake, random=Generator(7))

    result = directional(penalty, [w.numpy()], np.random.default_rng(0))
    assert result, str(result)
    whole = gradient_penalty(critic, real, fake, random=Generator(7))
    assert whole.item() == pytest.approx(penalty(w.tensor).item(), rel=1e-5)
    first, second = (gradient_penalty(critic, real, fake).item() for _ in range(2))
    assert first != second, "new points every time"


def test_what_a_penalty_needs(engine: Any) -> None:
    with pytest.raises(ShapeError, match="of one shape"):
        gradient_penalty(Dense(out_features=1), np.zeros((2, 3)), np.zeros((3, 3)))
    with pytest.raises(ConfigError, match="random=Generator"):
        gradient_penalty(lambda x: x, np.zeros((2, 3)), np.zeros((2, 3)))


@pytest.mark.parametrize("attached", [False, True])
def test_clipped_weights(attached: bool, engine: Any) -> None:
    critic = Sequential(Dense(in_features=5, out_features=3), Dense(in_features=3, out_features=1))
    before = [p.numpy() for p in critic.parameters()]
    if attached:
        SGD(lr=0.1).attach(critic.parameters())
    clip_weights(critic, 0.1)
    for p, old in zip(critic.parameters(), before, strict=True):
        np.testing.assert_allclose(p.numpy(), np.clip(old, -0.1, 0.1), rtol=1e-6)


def test_clipping_needs_a_bound_and_an_optimizer_of_its_own(engine: Any) -> None:
    critic, other = Dense(in_features=2, out_features=1), Dense(in_features=2, out_features=1)
    SGD(lr=0.1).attach([*critic.parameters(), *other.parameters()])
    with pytest.raises(ConfigError, match="optimizer of its own"):
        clip_weights(critic)
    with pytest.raises(ConfigError, match="bound above 0"):
        clip_weights(critic, 0)


def test_a_critic_learns_to_tell(engine: Any) -> None:
    x = np.concatenate([RNG.normal(1.0, 0.3, (32, 2)), RNG.normal(-1.0, 0.3, (32, 2))]).astype(np.float32)
    y = np.repeat([[1.0], [-1.0]], 32, 0).astype(np.float32)
    critic = Sequential(Dense(in_features=2, out_features=8, activation="tanh"), Dense(in_features=8, out_features=1))
    loss = WassersteinLoss()
    learn(Adam(lr=0.05), critic, lambda: loss(critic(x), y) + gradient_penalty(critic, x[:32], x[32:]), 80)
    scores = critic(x).numpy()
    assert scores[:32].mean() - scores[32:].mean() > 1
    assert gradient_penalty(critic, x[:32], x[32:], lam=1.0).item() < 0.3


# --- turned images
def test_turned_images_are_numpys(engine: Any) -> None:
    x = RNG.standard_normal((2, 3, 5, 5)).astype(np.float32)
    images, labels = RotationPredictionLoss.make_task(x)
    for k in range(4):
        np.testing.assert_array_equal(images.numpy()[2 * k : 2 * k + 2], np.rot90(x, k, (2, 3)))
    assert labels.numpy().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert RotationPredictionLoss()(np.zeros((8, 4), np.float32), labels).item() == pytest.approx(np.log(4))
    with pytest.raises(ShapeError, match="square"):
        RotationPredictionLoss.make_task(x[:, :, :4])
    with pytest.raises(ShapeError, match="one per quarter turn"):
        RotationPredictionLoss()(np.zeros((8, 3), np.float32), labels)


# --- parameters of the loss, and of the model in the loss
def ranks() -> tuple[Any, Any]:
    x = np.linspace(-3, 3, 60, dtype=np.float32)[:, None]
    return x, np.digitize(x[:, 0], (-2.0, 1.5, 2.0))


def test_thresholds_are_trained_with_the_model(engine: Any) -> None:
    data, loss = ranks(), OrdinalRegressionLoss(num_classes=4)
    model = Sequential(Dense(in_features=1, out_features=1))
    start = loss.thresholds.numpy()
    trainer = Trainer(model, loss, Adam(lr=0.2), metrics=())
    trainer.fit(data, epochs=40, batch_size=20, verbose=False)
    cuts = (loss.thresholds.numpy() - model.layers[0].bias.numpy()) / model.layers[0].weight.numpy()[0, 0]
    assert np.abs(loss.thresholds.numpy() - start).max() > 0.5
    np.testing.assert_allclose(cuts, (-2.0, 1.5, 2.0), atol=0.35)


def test_thresholds_are_in_checkpoints(engine: Any, tmp_path: Path) -> None:
    def run(epochs: int, resume: Any = None) -> tuple[OrdinalRegressionLoss, Any]:
        loss = OrdinalRegressionLoss(num_classes=4)
        model = Sequential(Dense(in_features=1, out_features=1))
        model.layers[0].weight.assign(tensor(np.ones((1, 1), np.float32)))
        trainer = Trainer(model, loss, Adam(lr=0.2), metrics=())
        kept = [Checkpoint(tmp_path / "run.ckpt")] if resume is None else []
        trainer.fit(ranks(), epochs=epochs, batch_size=20, verbose=False, resume=resume, callbacks=kept)
        return loss, trainer

    first, _ = run(2)
    again, _ = run(2, tmp_path / "run.ckpt")
    np.testing.assert_array_equal(first.thresholds.numpy(), again.thresholds.numpy())
    assert np.abs(first.thresholds.numpy() - OrdinalRegressionLoss(num_classes=4).thresholds.numpy()).max() > 0.1


def test_the_penalty_of_given_parameters(engine: Any) -> None:
    layer = Dense(in_features=3, out_features=2)
    loss = ElasticNetLoss(alpha=0.5, l1_ratio=0.25, params=layer.parameters())
    p, y = RNG.standard_normal((2, 4, 2))
    w, b = layer.weight.numpy(), layer.bias.numpy()
    penalty = 0.5 * (0.25 * (np.abs(w).sum() + np.abs(b).sum()) + 0.375 * ((w**2).sum() + (b**2).sum()))
    assert loss(p, y).item() == pytest.approx(((p - y) ** 2).mean() + penalty, rel=1e-5)
    assert loss.variables() == {}, "they stay the model's"
    (slope,) = gradients(loss(p, y), [layer.weight.tensor])
    np.testing.assert_allclose(slope.numpy(), 0.5 * (0.25 * np.sign(w) + 0.75 * w), rtol=1e-5)
    with pytest.raises(ConfigError, match="pass them again"):
        loss.config()


def test_a_penalty_makes_weights_small(engine: Any) -> None:
    x = RNG.standard_normal((64, 6)).astype(np.float32)
    y = x[:, :1] * 2
    sizes = []
    for alpha in (0.0, 0.3):
        model = Sequential(Dense(in_features=6, out_features=1))
        loss = ElasticNetLoss(alpha=alpha, l1_ratio=1.0, params=[model.layers[0].weight])
        Trainer(model, loss, Adam(lr=0.05), metrics=()).fit((x, y), epochs=40, batch_size=32, verbose=False)
        sizes.append(np.abs(model.layers[0].weight.numpy()[0]))
    assert sizes[1][0] < sizes[0][0] - 0.05
    assert sizes[1][1:].max() < 0.05


# --- differential equations
class _Known(Layer):
    """u(x, t) = e^(−k² t) sin(k x), k its parameter: the heat equation where k² is that of the equation"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.k = Parameter(np.float32(2.0), "k")

    def forward(self, x: Any) -> Any:
        k = self.k.tensor
        return (F.exp(-F.square(k) * x[:, 1]) * F.sin(k * x[:, 0])).reshape(-1, 1)


POINTS = RNG.uniform(0, 1, (9, 2)).astype(np.float32)


def jet(network: Layer, x: Any, engine: Any, **fields: Any) -> list[Any]:
    return engine.values(list(PhysicsInformedLoss(residual_fn="heat", **fields).jet(network, tensor(x))))


@pytest.mark.parametrize(("fields", "rtol"), [({}, 2e-5), (dict(derivatives="fd", h=0.02), 5e-3)])
def test_derivatives_of_a_known_function(fields: dict[str, Any], rtol: float, engine: Any) -> None:
    u, first, second = jet(_Known(), POINTS, engine, **fields)
    x, t = POINTS.T.astype(np.float64)
    s, c, e = np.sin(2 * x), np.cos(2 * x), np.exp(-4 * t)
    np.testing.assert_allclose(u[:, 0], e * s, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(first[:, 0], np.stack([2 * e * c, -4 * e * s], 1), rtol=rtol, atol=4 * rtol)
    want = np.stack([np.stack([-4 * e * s, -8 * e * c], 1), np.stack([-8 * e * c, 16 * e * s], 1)], 1)
    np.testing.assert_allclose(second[:, 0], want, rtol=rtol, atol=16 * rtol)


def test_the_solution_has_no_residual(engine: Any) -> None:
    network = _Known()
    heat = PhysicsInformedLoss(residual_fn="heat")
    assert heat(network, x_pde=POINTS).item() < 1e-8
    wave = PhysicsInformedLoss(residual_fn="wave")(network, x_pde=POINTS).item()
    x, t = POINTS.T.astype(np.float64)
    assert wave == pytest.approx(((20 * np.exp(-4 * t) * np.sin(2 * x)) ** 2).mean(), rel=1e-4)
    poisson = PhysicsInformedLoss(residual_fn=lambda x, u, first, second: second[:, 0, 0, 0] + 4.0 * u[:, 0])
    assert poisson(network, x_pde=POINTS).item() < 1e-8, "u'' = −4 u"
    flux = PhysicsInformedLoss(residual_fn="heat", boundary_fn=lambda x, u, first, second: first[:, :, 0] - 1.0,
                               pde_weight=0.0, boundary_weight=3.0)
    edge = np.array([[0.0, 0.0], [0.0, 0.1]], np.float32)
    assert flux(network, x_pde=POINTS, x_boundary=edge).item() == pytest.approx(
        3 * ((2 * np.exp([0, -0.4]) - 1) ** 2).mean(), rel=1e-4)


def test_slopes_of_the_network_against_differences(engine: Any) -> None:
    """∂loss/∂k of r = u_t − u_xx/4 at k = 2, through second derivatives."""
    network = _Known()
    loss = PhysicsInformedLoss(residual_fn=lambda x, u, first, second: first[:, :, 1] - 0.25 * second[:, :, 0, 0])
    value, (slope,) = loss.value_and_grad(network, x_pde=POINTS)
    x, t = POINTS.T.astype(np.float64)

    def at(k: float) -> float:
        return float(((0.75 * k * k * np.exp(-k * k * t) * np.sin(k * x)) ** 2).mean())

    assert value.item() == pytest.approx(at(2), rel=1e-4)
    assert slope.item() == pytest.approx((at(2 + 1e-5) - at(2 - 1e-5)) / 2e-5, rel=1e-3)
    (want,) = NumpyEngine("float64").values([slope])
    assert slope.item() == pytest.approx(float(want), rel=1e-4)


def test_a_network_learns_poissons_equation(engine: Any) -> None:
    """u'' = −π² sin πx on [0, 1], u = 0 at both ends: u = sin πx."""
    if engine.device.runtime == "pocl":
        pytest.skip("once is enough: its compiler is slow")
    network = Sequential(Dense(in_features=1, out_features=12, activation="tanh"),
                         Dense(in_features=12, out_features=1))

    def residual(x: Any, u: Any, first: Any, second: Any) -> Any:
        return 0.1 * (second[:, :, 0, 0] + np.pi**2 * F.sin(np.pi * x))

    loss = PhysicsInformedLoss(residual_fn=residual, boundary_weight=10.0)
    x = np.linspace(0, 1, 24, dtype=np.float32)[:, None]
    learn(Adam(lr=0.02), network, lambda: loss(network, x_pde=x, x_boundary=x[[0, -1]]), 400)
    assert np.abs(network(x).numpy() - np.sin(np.pi * x)).max() < 0.1


@pytest.mark.parametrize(("given", "words"), [
    (dict(), "at least one kind"), (dict(x=POINTS), "both x and u"), (dict(x_pde=POINTS[0]), r"x_pde \(N, D\)"),
    (dict(x=POINTS, u=POINTS), "values of the shape")])
def test_points_that_cannot_be(given: Any, words: str, engine: Any) -> None:
    with pytest.raises(ShapeError, match=words):
        PhysicsInformedLoss(residual_fn="heat")(_Known(), **given)


def test_fields_that_cannot_be(engine: Any) -> None:
    with pytest.raises(ConfigError, match="laplace, heat, wave"):
        PhysicsInformedLoss(residual_fn="fluid")
    with pytest.raises(ShapeError, match="network first"):
        PhysicsInformedLoss(residual_fn="heat")(POINTS, x_pde=POINTS)
    with pytest.raises(ConfigError, match="extractor"):
        PerceptualLoss()
