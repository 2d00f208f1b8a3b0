"""Fields after they were set: what is built refuses another value, everything else takes it and computes with it, recorded or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine.record import Recorded
from clnet.errors import ConfigError
from clnet.layers import LSTM, Activation, BatchNorm, Dense, Dropout, Layer, MaxPool2d, Residual
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.optimizers import SGD, Adam, Group, ReduceLROnPlateau
from clnet.train import Trainer

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 4)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)


def mlp() -> Sequential:
    return Sequential(Dense(out_features=5), Activation("relu"), Dense(out_features=2)).build((4,))


@pytest.mark.parametrize(("layer", "name", "value", "words"), [
    (lambda: Dense(in_features=3, out_features=2), "out_features", 99,
     r"Dense: expected out_features to stay 2, .* got 99; make another: Dense\(in_features=3, out_features=99\)\."),
    (lambda: mlp()[0], "in_features", 5, r"expected in_features to stay 4"),
    (lambda: Dense(in_features=3, out_features=2), "bias", False, r"make another: Dense\(in_features=3, out_features=2, bias=False\)"),
    (lambda: Dense(in_features=3, out_features=2), "activation", "tanh", "expected activation to stay None"),
    (lambda: LSTM(input_size=3, hidden_size=2), "hidden_size", 4, "expected hidden_size to stay 2"),
    (lambda: Residual(layer=Dense(in_features=3, out_features=3)), "layer", Dense(in_features=3, out_features=3), "expected layer to stay"),
    (lambda: Dropout(p=0.5), "p", 1.5, r"Dropout\(p=1.5\): p must be less than 1"),
    (lambda: Activation("relu"), "name", "relw", "did you mean 'relu'"),
    (lambda: Dense(out_features=2), "out_features", "2", "out_features must be a valid integer"),
    (lambda: MSELoss(), "reduction", "meen", "expected one of 'mean', 'sum', 'none'"),
    (lambda: Adam(), "lr", -1.0, "expected a learning rate of at least 0"),
    (lambda: ReduceLROnPlateau(lr=0.1), "lr", 0.2, "expected lr to stay 0.1"),
    (lambda: Group(roles=("bias",)), "roles", ("weight",), "expected roles to stay"),
])
def test_a_change_that_cannot_be_is_refused_and_nothing_has_changed(layer: Any, name: str, value: Any, words: str) -> None:
    thing = layer()
    before = repr(thing)
    with pytest.raises(ConfigError, match=words):
        setattr(thing, name, value)
    assert repr(thing) == before


def test_what_is_not_built_yet_takes_a_change() -> None:
    layer = Dense(out_features=2)
    layer.out_features = 3
    assert layer(X).shape == (8, 3)
    pool = MaxPool2d(kernel_size=2)
    pool.kernel_size = 3
    assert pool(np.zeros((1, 1, 9, 9), np.float32)).shape == (1, 1, 3, 3)


def test_attributes_that_are_no_fields_are_free() -> None:
    layer = Dense(in_features=3, out_features=2)
    layer.note, layer.out_feature = "mine", 3
    assert layer.note == "mine" and layer.out_features == 2


def test_a_setup_may_complete_the_fields_of_its_layer() -> None:
    class Wide(Layer):
        """y = x · W"""

        width: int | None = clnet.config.field(None, doc="columns")
        n: int | None = clnet.config.bound(doc="rows")
        signature = "... n -> ... width"

        def setup(self, new: Any) -> None:
            self.width = self.width or 2 * (self.n or 0)
            self.w = new.weight(self.n, self.width)

        def forward(self, x: Any) -> Any:
            return x @ self.w

    try:
        layer = Wide()
        assert layer(X).shape == (8, 8) and layer.width == 8
        with pytest.raises(ConfigError, match="expected width to stay 8"):
            layer.width = 9
    finally:
        Layer.registry.pop("Wide")


def test_a_class_with_a_constructor_of_its_own_is_told_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"Net: expected a class without __init__, .*setup\(self, new\)"):
        class Net(Layer):
            def __init__(self) -> None:
                self.first = Dense(out_features=3)
    Layer.registry.pop("Net", None)


def test_recorded_steps_see_a_change(device: Any) -> None:
    model, loss = Sequential(Activation("relu")), MSELoss()
    step, value = Recorded(model), Recorded(lambda y: loss(y, X[:, :2]))
    np.testing.assert_array_equal(step(X).numpy(), np.maximum(X, 0))
    model[0].name = "tanh"
    np.testing.assert_allclose(step(X).numpy(), np.tanh(X), rtol=1e-5, atol=1e-6)
    mean = float(value(Y).numpy())
    loss.reduction = "sum"
    np.testing.assert_allclose(float(value(Y).numpy()), mean * Y.size, rtol=1e-5)


def test_a_recorded_model_trains_and_evaluates(device: Any) -> None:
    model = Sequential(Dropout(p=0.5))
    step = Recorded(model)
    assert (step(np.ones((40, 40), np.float32)).numpy() == 0).any()
    model.eval()
    assert (step(np.ones((40, 40), np.float32)).numpy() == 1).all()


def test_a_changed_rate_is_that_of_the_next_step(device: Any) -> None:
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


def test_a_changed_field_is_saved(tmp_path: Any) -> None:
    model = Sequential(Dense(in_features=4, out_features=2), Dropout(p=0.5))
    model[1].p = 0.25
    model.save(tmp_path / "m.safetensors")
    assert clnet.load(tmp_path / "m.safetensors")[1].p == 0.25


# --- a Sequential as a list
def test_layers_are_put_in_and_taken_out(device: Any) -> None:
    model = mlp().eval()
    first, y = model[:1](X).numpy(), model(X).numpy()
    assert model[:1][0] is model[0] and isinstance(model[1:], Sequential) and len(model[1:]) == 2
    model[1] = Activation("tanh")
    changed = np.tanh(first) @ model[2].weight.numpy().T + model[2].offset.numpy()
    np.testing.assert_allclose(model(X).numpy(), changed, rtol=1e-5, atol=1e-6)
    model[1] = Activation("relu")
    np.testing.assert_allclose(model(X).numpy(), y, rtol=1e-6)
    head = model.pop()
    assert model.append(BatchNorm()).insert(1, Dense(out_features=5)).extend([head]) is model
    assert [type(layer).__name__ for layer in model] == ["Dense", "Dense", "Activation", "BatchNorm", "Dense"]
    assert not model[3].training
    del model[1], model[-2]
    np.testing.assert_allclose(model(X).numpy(), y, rtol=1e-6)


def test_another_head_is_trained_on(device: Any) -> None:
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


@pytest.mark.parametrize(("call", "words"), [
    (lambda m: m.append(3), "layers"),
    (lambda m: m.__setitem__(0, "relu"), "layers"),
    (lambda m: m.__delitem__(slice(None)), "layers"),
    (lambda m: m["first"], "expected the number of a layer, or a slice; got 'first'"),
])
def test_what_is_no_layer_is_refused(call: Any, words: str) -> None:
    model = mlp()
    with pytest.raises(ConfigError, match=words):
        call(model)
    assert len(model) == 3


def test_a_first_call_that_fails_leaves_nothing_behind() -> None:
    clnet.seed(3)
    model = Sequential(Dense(out_features=5), Dense(in_features=5, out_features=2), Dense(in_features=3, out_features=1))
    text, state = model.to_json(), clnet.init.generator().bit_generator.state
    with pytest.raises(clnet.ShapeError, match=r"layers\.2: Dense: in_features is 3"):
        model(X)
    assert model.to_json() == text and clnet.init.generator().bit_generator.state == state
    assert not model[0].built and "weight" not in vars(model[0])
    model[2] = Dense(out_features=1)
    assert model(X[:, :3]).shape == (8, 1)
