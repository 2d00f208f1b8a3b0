"""Mixtures of experts on devices, and layers that are given their gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init, layers
from clnet import ops as F
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Dataset, Trainer

DENSE = {"type": "Dense", "out_features": 3}


def drawn(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


# --- mixtures of experts
def mixture(**more: Any) -> Any:
    init.seed(4)
    return layers.MixtureOfExperts(experts=[DENSE] * 4, in_features=5, load_balance_weight=0.5, **more)


@pytest.mark.parametrize("top_k", [0, 1, 2])
def test_load_balance(top_k: int, engine: Any) -> None:
    """E · Σ f P is 1 for even scores, E / k · Σ of the largest P where all tokens agree."""
    layer = mixture(top_k=top_k)
    layer.gate.weight.assign(np.zeros((4, 5), np.float32))
    layer(drawn(6, 5))
    assert float(layer.aux_loss) == pytest.approx(0.5, rel=1e-6)
    layer.gate.weight.assign(np.repeat(np.array([[0.0], [40.0], [0.0], [20.0]], np.float32), 5, 1))
    layer(np.ones((6, 5), np.float32))
    assert float(layer.aux_loss) == pytest.approx(0.5 * {0: 1.0, 1: 4.0, 2: 2.0}[top_k], rel=1e-6)
    assert layer.eval()(drawn(6, 5)) is not None and layer.aux_loss == 0.0


def test_trainer_adds_auxiliary_losses(engine: Any) -> None:
    data = Dataset(drawn(8, 5), drawn(8, 3))
    found = []
    for weight in (0.0, 0.5):
        init.seed(4)
        experts = layers.MixtureOfExperts(experts=[DENSE] * 4, top_k=1, load_balance_weight=weight)
        model = Sequential(experts).build((5,))
        trainer = Trainer(model, MSELoss(), SGD(lr=0.1))
        history = trainer.fit(data, 1, 8, verbose=False)
        found.append((history["loss"][0], model.layers[0].gate.weight.numpy(), trainer.evaluate(data)["loss"]))
    assert model.layers[0].aux_loss == 0.0, "nothing of the recorded step stays"
    assert found[1][0] - found[0][0] >= 0.5 * 0.99, "at least the weight, when the load is even"
    assert (found[1][1] != found[0][1]).any(), "the router feels it"


def test_what_was_not_chosen_does_not_spread(engine: Any) -> None:
    layer = mixture(top_k=1)
    layer.gate.weight.assign(np.array([[9.0] * 5, [0.0] * 5, [-9.0] * 5, [0.0] * 5], np.float32))
    x = np.abs(drawn(6, 5))
    layer(x)
    layer.experts[2].weight.assign(np.full((3, 5), np.nan, np.float32))
    assert np.isfinite(layer(x).numpy()).all()
    assert np.isfinite(layer.backward(np.ones((6, 3), np.float32)).numpy()).all()
    assert (layer.experts[1].weight.grad.numpy() == 0).all()


# --- given gradients
def test_straight_through(engine: Any) -> None:
    layer = layers.Lambda(fn=F.sign, backward_fn=lambda x, g: g * 3.0)
    x = drawn(3, 4)
    assert (layer(x).numpy() == np.sign(x)).all()
    assert (layer.backward(np.ones((3, 4), np.float32)).numpy() == 3).all()
    again = layers.Lambda(fn=lambda x: F.sum(x, 1), output_shape=(),
                          backward_fn=lambda x, g: F.expand(F.reshape(g, (-1, 1)), x.shape) * 2.0)
    assert again(x).shape == (3,)
    assert (again.backward(np.ones(3, np.float32)).numpy() == 2).all()
