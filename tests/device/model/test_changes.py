"""Changes of a model that computes: recorded steps see them, and training goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.engine.record import Recorded
from clnet.errors import ConfigError
from clnet.layers import Activation, BatchNorm, Dense, Dropout
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Trainer

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 4)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)


def mlp() -> Sequential:
    return Sequential(Dense(out_features=5), Activation("relu"), Dense(out_features=2)).build((4,))


def test_recorded_steps_see_a_change(engine: Any) -> None:
    model, loss = Sequential(Activation("relu")), MSELoss()
    step, value = Recorded(model), Recorded(lambda y: loss(y, X[:, :2]))
    np.testing.assert_array_equal(step(X).numpy(), np.maximum(X, 0))
    model[0].name = "tanh"
    np.testing.assert_allclose(step(X).numpy(), np.tanh(X), rtol=1e-5, atol=1e-6)
    mean = float(value(Y).numpy())
    loss.reduction = "sum"
    np.testing.assert_allclose(float(value(Y).numpy()), mean * Y.size, rtol=1e-5)


def test_a_recorded_model_trains_and_evaluates(engine: Any) -> None:
    model = Sequential(Dropout(p=0.5))
    step = Recorded(model)
    assert (step(np.ones((40, 40), np.float32)).numpy() == 0).any()
    model.eval()
    assert (step(np.ones((40, 40), np.float32)).numpy() == 1).all()


def test_a_changed_rate_is_that_of_the_next_step(engine: Any) -> None:
    trainer = Trainer(mlp(), MSELoss(), SGD(lr=0.1), metrics=())
    trainer.fit((X, Y), 1, 8, verbose=False)
    before = trainer.model[0].weight.numpy().copy()
    replays = trainer.steps.train.replays
    trainer.optimizer.lr = 0.0
    trainer.fit((X, Y), 1, 8, verbose=False)
    np.testing.assert_array_equal(trainer.model[0].weight.numpy(), before)
    assert trainer.steps.train.replays is replays  # a rate is an argument: nothing is recorded again
    with pytest.raises(ConfigError, match=r"SGD: expected momentum to stay 0.0, .*SGD\(lr=0.0, momentum=0.9\)"):
        trainer.optimizer.momentum = 0.9


# --- a Sequential as a list
def test_layers_are_put_in_and_taken_out(engine: Any) -> None:
    model = mlp().eval()
    first, y = model[:1](X).numpy(), model(X).numpy()
    assert model[:1][0] is model[0] and isinstance(model[1:], Sequential) and len(model[1:]) == 2
    model[1] = Activation("tanh")
    changed = np.tanh(first) @ model[2].weight.numpy().T + model[2].bias.numpy()
    np.testing.assert_allclose(model(X).numpy(), changed, rtol=1e-5, atol=1e-6)
    model[1] = Activation("relu")
    np.testing.assert_allclose(model(X).numpy(), y, rtol=1e-6)
    head = model.pop()
    assert model.append(BatchNorm()).insert(1, Dense(out_features=5)).extend([head]) is model
    assert [type(layer).__name__ for layer in model] == ["Dense", "Dense", "Activation", "BatchNorm", "Dense"]
    assert not model[3].training
    del model[1], model[-2]
    np.testing.assert_allclose(model(X).numpy(), y, rtol=1e-6)


def test_another_head_is_trained_on(engine: Any) -> None:
    trainer = Trainer(mlp(), MSELoss(), SGD(lr=0.1), metrics=())
    trainer.fit((X, Y), 1, 8, verbose=False)
    body = trainer.model[0].weight.numpy().copy()
    trainer.model[2] = Dense(out_features=3)
    data = X, np.zeros((8, 3), np.float32)
    before = trainer.evaluate(data)["loss"]
    trainer.fit(data, 5, 8, verbose=False)
    assert trainer.predict(X).shape == (8, 3)
    assert trainer.evaluate(data)["loss"] < before
    assert not np.array_equal(trainer.model[0].weight.numpy(), body)
