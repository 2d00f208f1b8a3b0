"""model.use: another engine in the middle of things, with everything that training has changed so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import init
from clnet.engine import current, on
from clnet.errors import NoDeviceError
from clnet.layers import BatchNorm, Dense, Dropout
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.model.files import held, values
from clnet.optimizers import Adam
from clnet.train import Trainer

RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(32, 6)).astype(np.float32), RNG.integers(0, 3, 32).astype(np.int32)


def trainer() -> Trainer:
    init.seed(2)
    layers = [Dense(out_features=8, activation="tanh"), BatchNorm(), Dropout(p=0.3), Dense(out_features=3)]
    return Trainer(Sequential(layers).build((6,)), CrossEntropyLoss(), Adam(lr=0.01))


def fit(t: Trainer, epochs: int = 1) -> None:
    t.fit(DATA, epochs, 8, verbose=False)


def test_values_are_equal_bits_after_the_switch(engine: Any) -> None:
    t = trainer()
    fit(t)
    memory = [v for a in t.optimizer.arenas for v in a.memory.values()]
    assert memory and all(any(v is w for w in held(t.model)) for v in memory)
    before, state = values(t.model), [v.numpy().copy() for v in memory]
    for name in ("numpy", engine.device.key):
        assert t.model.use(name) is t.model
        assert t.model.device.key == name
        for n, v in values(t.model).items():
            np.testing.assert_array_equal(v, before[n])
        for v, w in zip(memory, state, strict=True):
            np.testing.assert_array_equal(v.numpy(), w)


def test_training_goes_on_as_if_it_had_not_switched(engine: Any) -> None:
    found = []
    for path in ((), ("numpy", engine.device.key)):
        t = trainer()
        with on(engine):
            fit(t)
            for name in path:
                t.model.use(name)
                fit(t)
            if not path:
                fit(t)
                fit(t)
            assert t.optimizer.t == 12
            found.append(values(t.model))
    for n, v in found[0].items():
        np.testing.assert_allclose(found[1][n], v, rtol=2e-4, atol=2e-6, err_msg=n)


def ran_on(t: Any) -> str:
    t.realize()
    return str(t.storage.engine.device.key)


def test_models_stay_where_they_were_put(engine: Any) -> None:
    here, there = trainer(), trainer()
    there.model.use("numpy")
    here.model.use(engine.device.key)
    assert current() is engine
    for t in (here, there):
        fit(t, 2)
    x = DATA[0]
    assert {ran_on(here.model(x)), ran_on((here.model(x) * 2).sum())} == {engine.device.key}
    assert {ran_on(there.model(x)), ran_on((there.model(x) * 2).sum())} == {"numpy"}
    assert ran_on(clnet.tensor(x) * 2) == engine.device.key
    for t in (here, there):
        assert {v.tensor.storage.engine.device.key for a in t.optimizer.arenas
                for v in (a.flat, *a.memory.values())} == {t.model.device.key}
    for n, v in values(here.model).items():
        np.testing.assert_allclose(values(there.model)[n], v, rtol=2e-4, atol=2e-6, err_msg=n)
    np.testing.assert_allclose(here.predict(x), there.predict(x), rtol=1e-4, atol=1e-5)
    together = here.model.eval()(x) + there.model.eval()(x)
    np.testing.assert_allclose(together.numpy(), 2 * here.predict(x), rtol=1e-4, atol=1e-5)


def test_a_moved_model_is_explained_where_it_is(engine: Any) -> None:
    if engine.device.is_host:
        pytest.skip("the host plans nothing")
    model = trainer().model.use(engine.device.key)
    with clnet.on("numpy"):
        assert clnet.explain(model(DATA[0])).plan.launches
        with pytest.raises(clnet.NoDeviceError, match="got numpy"):
            clnet.explain(clnet.tensor(DATA[0]) * 2)


def test_gradients_of_a_model_are_computed_where_it_is(engine: Any) -> None:
    model = trainer().model.eval().use("numpy")
    y = model(DATA[0])
    assert ran_on(model.backward(clnet.ops.ones(y.shape))) == "numpy"
    assert {ran_on(p.grad) for p in model.parameters()} == {"numpy"}
    model.update(0.1)
    assert np.isfinite(model(DATA[0]).numpy()).all()


def test_a_model_without_a_device_is_on_the_one_in_use(engine: Any) -> None:
    model = trainer().model.eval()
    assert model.device == engine.device
    with on("numpy"):
        assert model.device.is_host
        assert ran_on(model(DATA[0])) == "numpy"
    assert ran_on(model(DATA[0])) == engine.device.key


def test_opencl_is_any_device_but_the_host(engine: Any) -> None:
    if engine.device.is_host:
        pytest.skip("there is none")
    model = trainer().model
    y = model.use("opencl").eval()(DATA[0]).numpy()
    assert not model.device.is_host
    np.testing.assert_allclose(model.use("numpy")(DATA[0]).numpy(), y, rtol=1e-5, atol=1e-6)


def test_an_unknown_device_changes_nothing(engine: Any) -> None:
    model = trainer().model
    with pytest.raises(NoDeviceError):
        model.use("abacus")
    assert current() is engine
