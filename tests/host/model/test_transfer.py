"""What a network keeps of another's training: parameters that stay as they are, values by names and shapes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import clnet
from clnet.errors import ConfigError
from clnet.layers import Dense
from clnet.model import Sequential


def network() -> Sequential:
    model: Sequential = Sequential(Dense(4, 8, activation="relu"), Dense(8, 3))
    return model


def test_frozen_parameters_stay_and_thaw() -> None:
    with clnet.on("numpy"):
        model = network()
        x, y = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32), np.arange(16) % 3
        trainer = clnet.Trainer(model, "cross_entropy", "sgd")

        def moved() -> list[str]:
            before = {n: v.numpy().copy() for n, v in model.variables().items()}
            trainer.fit(x, y, epochs=1, batch_size=16, verbose=False)
            return [n for n, v in model.variables().items() if (v.numpy() != before[n]).any()]

        assert moved() == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
        assert model.freeze("layers.0") is model
        assert moved() == ["layers.1.weight", "layers.1.bias"]
        model.freeze("*.bias").unfreeze("layers.0.weight")
        assert moved() == ["layers.0.weight", "layers.1.weight"]
        assert len(model.parameters()) == 2 and model.summary().trainable == 4 * 8 + 8 * 3


def test_a_trained_model_is_copied_and_pickled() -> None:
    with clnet.on("numpy"):
        model = network().use("numpy")
        x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
        clnet.Trainer(model, "mse", "adam").fit(x, x[:, :3], epochs=1, verbose=False)
        wanted = model.freeze("*.bias")(x).numpy()
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):  # noqa: S301
            assert (again(x).numpy() == wanted).all()
            assert [v.path for v in again.parameters()] == ["layers.0.weight", "layers.1.weight"]
            again[0].weight.assign(again[0].weight * 0)
            assert (model(x).numpy() == wanted).all()


def test_names_that_nothing_has_are_told() -> None:
    with pytest.raises(ConfigError, match=r"^Sequential\.freeze: .* got 'layers\.2'; did you mean 'layers\.[01]'\?$"):
        network().freeze("layers.2")
    with pytest.raises(ConfigError, match=r"^Sequential\.unfreeze: .* got 'none'|^Sequential\.unfreeze: .* got none"):
        network().unfreeze()
    with pytest.raises(ConfigError, match=r"expected a model with parameters; got none; call it once"):
        Sequential(Dense(out_features=2)).freeze("*")
