"""Layers whose state outlasts a call: a sequence in parts, recorded steps, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import init
from clnet.engine.record import Recorded
from clnet.errors import ClnetError
from clnet.layers import Dense, Reservoir, Spiking, no_tape
from clnet.model import Sequential
from clnet.model import files as model_io
from clnet.optimizers import SGD
from clnet.train import Trainer
from clnet.train.callbacks import Checkpoint

X = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)


def test_a_reservoir_goes_on_where_it_stopped(engine: Any) -> None:
    """Two halves give what the whole gives, as calls and as recorded steps; after reset_state it starts anew."""
    init.seed(0)
    layer = Reservoir(2, 6, density=0.5, keep_state=True)
    whole = layer(X).numpy()
    layer.reset_state()
    parts = [layer(X[:, k : k + 2]).numpy() for k in (0, 2)]
    assert np.abs(np.concatenate(parts, 1) - whole).max() < 1e-6
    layer.reset_state()

    def body(x: Any) -> Any:
        with no_tape():
            return layer(x)

    step = Recorded(body, "half")
    assert np.abs(np.concatenate([step(X[:, k : k + 2]).numpy() for k in (0, 2)], 1) - whole).max() < 1e-6
    with pytest.raises(ClnetError, match=r"Reservoir: expected a batch of 3.*reset_state"):
        layer(X[:2])


def test_spikes_one_step_at_a_time_are_those_of_the_sequence(engine: Any) -> None:
    init.seed(1)
    layer = Spiking(2, 8, tau=3.0, threshold=0.3, refractory=1)
    whole = layer(X).numpy()
    steps = np.stack([layer(X[:, t]).numpy() for t in range(4)], 1)
    assert np.array_equal(steps, whole) and 0 < whole.sum() < whole.size


def test_a_recorded_step_begins_anew_after_reset_state(engine: Any) -> None:
    init.seed(0)
    layer = Reservoir(2, 6, density=0.5, keep_state=True)

    def body(x: Any) -> Any:
        with no_tape():
            return layer(x)

    step = Recorded(body, "part")
    first, second = (step(X[:, :2]).numpy() for _ in range(2))
    layer.reset_state()
    assert np.array_equal(step(X[:, :2]).numpy(), first) and not np.array_equal(first, second)
    layer.reset_state()
    assert np.array_equal(step(X[:2, :2]).numpy(), first[:2]), "a batch of another size"


def run(epochs: int, **more: Any) -> tuple[Trainer, Any]:
    init.seed(0)
    model = Sequential(Reservoir(2, 6, density=0.5, keep_state=True), Dense(6, 1))
    trainer = Trainer(model, "mse", SGD(lr=0.1), ())
    return trainer, trainer.fit(np.tile(X, (2, 1, 1)), np.zeros((6, 4, 1)), epochs, 3, verbose=False, **more)


def test_a_run_that_is_resumed_has_what_layers_kept(tmp_path: Any) -> None:
    """The same bits as those of the run that went on."""
    with clnet.on("numpy"):
        whole, history = run(3)
        run(2, callbacks=Checkpoint(tmp_path / "run", every=9, steps=3))
        again, resumed = run(3, resume=tmp_path / "run")
        assert resumed.steps == history.steps and len(history.steps) == 6
        (kept,) = model_io.states(whole.model).values()
        assert np.array_equal(kept.numpy(), next(iter(model_io.states(again.model).values())).numpy())
        assert kept.numpy().any() and "state" not in "".join(whole.model.variables())


@pytest.mark.parametrize(("make", "shape", "words"), [
    (lambda: Reservoir(2, 1, density=1e-6), (1, 2, 2), "expected a matrix with a cycle"),
    (lambda: Spiking(2, 3), (2,), "one step"),
    (lambda: Spiking(2, 3), (1, 0, 2), "at least one step"),
    (lambda: Spiking(2, 3, tau=0.5), (1, 2, 2), "tau")])
def test_what_is_refused(make: Any, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ClnetError, match=words):
        make()(np.zeros(shape, np.float32))
