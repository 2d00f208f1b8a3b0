"""Weights of samples and classes: a sample of weight 2 is the sample twice, a class's weight is that of the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

import clnet
from clnet.errors import ConfigError, DataError
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss
from clnet.train.weighing import weighing_of

DRAWS = np.random.default_rng(0)
X, Y = DRAWS.normal(size=(12, 3)).astype(np.float32), np.repeat([0, 1, 2], [6, 4, 2])


def trained(x: Any, y: Any, loss: Any = "cross_entropy", optimizer: Any = None, **named: Any) -> Any:
    """The weights after three steps on all samples."""
    clnet.seed(0)
    model = clnet.Sequential(Dense(3, 3))
    trainer = clnet.Trainer(model, loss, optimizer or clnet.optimizers.SGD(lr=0.5))
    trainer.fit(x, y, epochs=3, batch_size=64, verbose=False, **named)
    return np.concatenate([p.numpy().ravel() for p in model.parameters()]), trainer


def test_a_sample_of_weight_two_is_the_sample_twice_and_one_of_zero_is_left_out() -> None:
    times = np.array([2, 1, 0, 1, 3, 1, 1, 0, 1, 2, 1, 1])
    twice = np.repeat(np.arange(12), times)
    with clnet.on("numpy"):
        weighed, trainer = trained(X, Y, sample_weight=times)
        np.testing.assert_allclose(weighed, trained(X[twice], Y[twice])[0], rtol=2e-5)
        np.testing.assert_array_equal(weighed, trained(clnet.data.Dataset(X, Y, sample_weight=times), None)[0])
        assert trainer.evaluate(X, Y) == trainer.evaluate(clnet.data.Dataset(X, Y, sample_weight=times))
        searched = [trained(*d, optimizer=clnet.optimizers.LBFGS(), **n)[0] for d, n in
                    (((X, Y), {"sample_weight": times}), ((X[twice], Y[twice]), {}))]
        np.testing.assert_allclose(*searched, rtol=2e-3, atol=1e-4)


def test_classes_weigh_as_in_the_loss() -> None:
    share = {0: 1.0, 1: 2.0, 2: 5.0}
    with clnet.on("numpy"):
        np.testing.assert_allclose(trained(X, Y, class_weight=share)[0],
                                   trained(X, Y, CrossEntropyLoss(weight=(1.0, 2.0, 5.0)))[0], rtol=2e-5)
        both = trained(X, Y, class_weight=share, sample_weight=np.arange(12))[0]
        product = np.arange(12) * np.array([1, 2, 5])[Y]
        np.testing.assert_allclose(both, trained(X, Y, sample_weight=product)[0], rtol=2e-5)
    balanced = weighing_of(clnet.data.Dataset(X, Y), "balanced", CrossEntropyLoss()).classes
    np.testing.assert_allclose(balanced, compute_class_weight("balanced", classes=np.arange(3), y=Y))
    named = clnet.data.Dataset(X, Y, ("a", "b", "c"))
    assert weighing_of(named, {"c": 3}, CrossEntropyLoss()).classes == (1.0, 1.0, 3.0)


def test_weights_go_with_their_samples() -> None:
    samples = clnet.data.Dataset(X, Y, sample_weight=np.arange(12.0))
    train, test = samples.split(0.25, seed=1)
    for part in (train, test):
        np.testing.assert_array_equal(X[part.sample_weight.astype(int)], part.x)


@pytest.mark.parametrize(("named", "says"), [
    ({"class_weight": {3: 1.0}}, "class numbers below 3; got 3"),
    ({"class_weight": "balance"}, '"balanced" or a weight'),
    ({"class_weight": {0: -1.0}}, "at least 0; got -1.0"),
    ({"sample_weight": np.ones(5)}, r"a sample, 12.*got shape \(5,\)"),
    ({"sample_weight": -np.ones(12)}, "at least 0 a sample"),
    ({"class_weight": "balanced", "loss": lambda o, t: (o - 1.0).sum()}, "a loss of clnet.losses with weights"),
    ({"class_weight": "balanced", "y": Y + 0.5, "loss": "mse"}, "class numbers; got float32"),
])
def test_slips_are_named(named: dict[str, Any], says: str) -> None:
    with clnet.on("numpy"), pytest.raises((ConfigError, DataError), match=says):
        trained(X, named.pop("y", Y), **named)
