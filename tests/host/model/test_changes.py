"""Fields that may change and that may not, before and after a layer is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine import on
from clnet.errors import ConfigError
from clnet.layers import LSTM, Activation, Dense, Dropout, Layer, MaxPool2d, Residual
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.optimizers import Adam, Group, ReduceLROnPlateau

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def mlp() -> Sequential:
    return Sequential(Dense(out_features=5), Activation("relu"), Dense(out_features=2)).build((4,))


def test_attributes_that_are_no_fields_are_free() -> None:
    layer = Dense(in_features=3, out_features=2)
    layer.note, layer.out_feature = "mine", 3
    assert layer.note == "mine" and layer.out_features == 2


def test_a_class_with_a_constructor_of_its_own_is_told_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"Net: expected a class without __init__, .*setup\(self, new\)"):
        class Net(Layer):
            def __init__(self) -> None:
                self.first = Dense(out_features=3)
    Layer.registry.pop("Net", None)


@pytest.mark.parametrize(("layer", "name", "value", "words"), [
    (lambda: Dense(in_features=3, out_features=2), "out_features", 99,
     r"Dense: expected out_features to stay 2, .* got 99; make another: Dense\(in_features=3, out_features=99\)\."),
    (lambda: mlp()[0], "in_features", 5, r"expected in_features to stay 4"),
    (lambda: Dense(in_features=3, out_features=2), "bias", False,
     r"make another: Dense\(in_features=3, out_features=2, bias=False\)"),
    (lambda: Dense(in_features=3, out_features=2), "activation", "tanh", "expected activation to stay None"),
    (lambda: LSTM(input_size=3, hidden_size=2), "hidden_size", 4, "expected hidden_size to stay 2"),
    (lambda: Residual(layer=Dense(in_features=3, out_features=3)), "layer", Dense(in_features=3, out_features=3),
     "expected layer to stay"),
    (lambda: Dropout(p=0.5), "p", 1.5, r"Dropout\(p=1.5\): p must be less than 1"),
    (lambda: Activation("relu"), "name", "relw", "did you mean 'relu'"),
    (lambda: Dense(out_features=2), "out_features", "2", "out_features must be a valid integer"),
    (lambda: MSELoss(), "reduction", "meen", "expected one of 'mean', 'sum', 'none'"),
    (lambda: Adam(), "lr", -1.0, "expected a learning rate of at least 0"),
    (lambda: ReduceLROnPlateau(lr=0.1), "lr", 0.2, "expected lr to stay 0.1"),
    (lambda: Group(roles=("bias",)), "roles", ("weight",), "expected roles to stay"),
])
def test_a_change_that_cannot_be_is_refused_and_nothing_has_changed(layer: Any, name: str, value: Any,
                                                                    words: str) -> None:
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


def test_a_changed_field_is_saved(tmp_path: Any) -> None:
    model = Sequential(Dense(in_features=4, out_features=2), Dropout(p=0.5))
    model[1].p = 0.25
    model.save(tmp_path / "m.safetensors")
    assert clnet.load(tmp_path / "m.safetensors")[1].p == 0.25


@pytest.mark.parametrize(("call", "words"), [
    (lambda m: m.append(3), "layers"),
    (lambda m: m.__setitem__(0, None), "layers"),
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
    model = Sequential(Dense(out_features=5), Dense(in_features=5, out_features=2),
                       Dense(in_features=3, out_features=1))
    text, state = model.to_json(), clnet.init.generator().bit_generator.state
    with pytest.raises(clnet.ShapeError, match=r"layers\.2: Dense: in_features is 3"):
        model(X)
    assert model.to_json() == text and clnet.init.generator().bit_generator.state == state
    assert not model[0].built and "weight" not in vars(model[0])
    model[2] = Dense(out_features=1)
    assert model(X[:, :3]).shape == (8, 1)
