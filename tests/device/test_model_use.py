"""model.use: another engine in the middle of things, with everything that training has changed so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.engine import current, on
from clnet.errors import NoDeviceError
from clnet.layers import BatchNorm, Dense, Dropout
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.model_io import held, values
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


def test_values_are_equal_bits_after_the_switch(device: Any) -> None:
    t = trainer()
    fit(t)
    memory = [v for a in t.optimizer.arenas for v in a.memory.values()]
    assert memory and all(any(v is w for w in held(t.model)) for v in memory)
    before, state = values(t.model), [v.numpy().copy() for v in memory]
    for name in ("numpy", device.device.key):
        assert t.model.use(name) is t.model
        assert current().device.key == name
        for n, v in values(t.model).items():
            np.testing.assert_array_equal(v, before[n])
        for v, w in zip(memory, state, strict=True):
            np.testing.assert_array_equal(v.numpy(), w)


def test_training_goes_on_as_if_it_had_not_switched(device: Any) -> None:
    found = []
    for path in ((), ("numpy", device.device.key)):
        t = trainer()
        with on(device):
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


def test_the_block_ends_where_it_did(device: Any) -> None:
    model = trainer().model
    with on(device):
        model.use("numpy")
        assert current().device.is_host
    assert current() is device


def test_opencl_is_any_device_but_the_host(device: Any) -> None:
    if device.device.is_host:
        pytest.skip("there is none")
    model = trainer().model
    y = model.use("opencl").eval()(DATA[0]).numpy()
    assert not current().device.is_host
    np.testing.assert_allclose(model.use("numpy")(DATA[0]).numpy(), y, rtol=1e-5, atol=1e-6)


def test_an_unknown_device_changes_nothing(device: Any) -> None:
    model = trainer().model
    with pytest.raises(NoDeviceError):
        model.use("abacus")
    assert current() is device
