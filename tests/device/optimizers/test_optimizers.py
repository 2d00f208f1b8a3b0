"""Every registered optimizer on every device: trajectories of independent libraries, state, groups, clipping."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.core.spec import np_dtype
from clnet.engine import on
from clnet.engine.record import Recorded
from clnet.engine.reference import NumpyEngine
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss, MSELoss
from clnet.model import Sequential
from clnet.model import files as model_io
from clnet.optimizers import (
    ADMM,
    SGD,
    Adam,
    Group,
    Optimizer,
    ReduceLROnPlateau,
    StepLR,
)
from clnet.optimizers.closure import ClosureOptimizer
from clnet.train import Trainer, data
from clnet.train.examples import digits_model
from clnet.workbench.evidence import golden
from clnet.workbench.evidence.golden import KEPT
from clnet.workbench.evidence.layer_checks import trajectory
from clnet.workbench.evidence.registry import load_all

load_all()
# Those that a gradient a step is enough for; the others have tests of their own, test_searches.py.
ALL = [pytest.param(cls, id=name) for name, cls in sorted(Optimizer.registry.items())
       if not issubclass(cls, ClosureOptimizer)]


def variants() -> list[Any]:
    kept = [(name, n.split(".")[0]) for name in golden.names("optimizer") for n in golden.read("optimizer", name)
            if n.endswith(".fields") and "grad.0" in golden.read("optimizer", name)]
    return [pytest.param(name, int(k), id=f"{name}-{k}") for name, k in kept]


def run(name: str, k: int, dtype: Any) -> tuple[list[Any], list[Any]]:
    """(what our steps give, what the other library gave) after the kept steps."""
    kept = golden.read("optimizer", name)
    count = sum(n.startswith("start.") for n in kept)
    starts = [kept[f"start.{j}"].astype(dtype) for j in range(count)]
    grads = [kept[f"grad.{j}"] for j in range(count)]
    path = trajectory(Optimizer.registry[name](**json.loads(str(kept[f"{k}.fields"]))), starts,
                      lambda _, t: [g[t - 1] for g in grads], KEPT[-1])
    assert count, f"{name}.npz keeps no parameters"
    return ([np.stack([path[t - 1][j] for t in KEPT]) for j in range(count)],
            [kept[f"{k}.path.{j}"] for j in range(count)])


@pytest.mark.parametrize(("name", "k"), variants())
def test_50_steps_on_the_device(name: str, k: int, engine: Any) -> None:
    if k and engine.device.runtime == "pocl":
        pytest.skip("first variant only: its compiler is slow")
    for got, want in zip(*run(name, k, np.float32), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cls", ALL)
def test_comes_down_a_bowl(cls: type[Optimizer], engine: Any) -> None:
    """f(w) = ½ Σ c w²: every optimizer gets lower, none leaves."""
    scale = np.array([1.0, 3.0, 0.3], np.float32)
    path = trajectory(cls(), [np.array([1.0, -1.0, 0.5], np.float32)], lambda w, _: [scale * w[0]], 20)
    first, last = (float((scale * w[0] ** 2).sum()) for w in (path[0], path[-1]))
    assert last < first


def test_state_in_bfloat16_is_rounded_as_on_the_reference(engine: Any) -> None:
    rng = np.random.default_rng(3)
    start, slopes = rng.standard_normal(1003).astype(np.float32), rng.standard_normal((6, 1003)).astype(np.float32)

    def state() -> dict[str, Any]:
        optimizer = Adam(state_dtype="bfloat16")
        trajectory(optimizer, [start], lambda _, t: [slopes[t - 1]], 6)
        return {n: v.numpy() for n, v in optimizer.memories[0].items()}

    here = state()
    with on("numpy"):
        there = state()
    for n, value in here.items():
        assert value.dtype == np_dtype("bfloat16"), n
        # A last bit of float32 decides where it is drawn close to the border: once in 2¹⁶ by chance.
        assert np.mean(value == there[n]) > 0.99, n
        assert np.allclose(value.astype(np.float32), there[n].astype(np.float32), rtol=2**-6)


def test_clipping(engine: Any) -> None:
    g = [np.array([3.0, 0.0], np.float32), np.array([4.0], np.float32)]
    starts = [np.zeros(2, np.float32), np.zeros(1, np.float32)]
    by_norm = trajectory(SGD(lr=1.0, clip_norm=1.0), starts, lambda *_: g, 1)[0]
    np.testing.assert_allclose(np.concatenate(by_norm), [-0.6, 0, -0.8], rtol=1e-5)
    by_value = trajectory(SGD(lr=1.0, clip_value=0.5), starts, lambda *_: g, 1)[0]
    np.testing.assert_allclose(np.concatenate(by_value), [-0.5, 0, -0.5])
    small = trajectory(SGD(lr=1.0, clip_norm=100.0), starts, lambda *_: g, 1)[0]
    np.testing.assert_allclose(np.concatenate(small), [-3, 0, -4], rtol=1e-6)


@pytest.mark.parametrize("cls", ALL)
def test_a_zero_gradient_is_safe(cls: type[Optimizer], engine: Any) -> None:
    for start in (1.0, 0.0):
        path = trajectory(cls(), [np.full((1, 1), start, np.float32)], lambda *_: [np.zeros((1, 1), np.float32)], 2)
        pulled = 2e-2 if cls is ADMM else 1e-2  # a decay may act, and ADMM draws by a hundredth of w a step to z = 0
        assert np.isfinite(path[-1][0]).all() and abs(path[-1][0][0, 0] - start) < pulled


@pytest.mark.parametrize("cls", ALL)
def test_one_parameter_step_by_step_as_on_the_reference(cls: type[Optimizer], engine: Any) -> None:
    def path() -> Any:
        return np.array([w[0][0, 0] for w in trajectory(cls(), [np.full((1, 1), 0.7, np.float32)],
                                                        lambda w, t: [w[0] * 0.5 + 0.1 * t], 8)])

    got = path()
    with on(NumpyEngine("float64")):
        want = path()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


# --- groups
def net() -> Any:
    init.seed(0)
    return Sequential(Dense(in_features=4, out_features=8, activation="tanh"),
                      Dense(in_features=8, out_features=3)).build((4,))


def train(optimizer: Optimizer, epochs: int = 2) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(trainer, values before, values after)"""
    rng = np.random.default_rng(0)
    model = net()
    before = model_io.values(model)
    trainer = Trainer(model, CrossEntropyLoss(), optimizer)
    trainer.fit((rng.normal(size=(16, 4)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32)), epochs, 8,
                verbose=False)
    return trainer, before, model_io.values(model)


def launches(step: Recorded) -> int:
    return len(next(iter(step.replays.values())).plan.launches)


def test_groups_have_their_own_rate_and_decay(engine: Any) -> None:
    """A group is what an optimizer with these settings would do to its parameters."""
    parts = (Group(names=("layers.0.*",), lr=0.0), Group(roles=("bias",), lr=StepLR(1, 0.5, lr=0.1), weight_decay=0.0))
    _, before, after = train(SGD(lr=0.05, weight_decay=0.5, groups=parts), 1)
    assert all(np.array_equal(before[n], after[n]) for n in before if n.startswith("layers.0"))
    _, _, plain = train(SGD(lr=0.05, weight_decay=0.5,
                            groups=(Group(names=("layers.0.*",), lr=0.0), Group(roles=("bias",), lr=0.0))), 1)
    assert not np.array_equal(after["layers.1.bias"], before["layers.1.bias"])
    assert np.array_equal(plain["layers.1.bias"], before["layers.1.bias"])
    assert not np.array_equal(after["layers.1.weight"], before["layers.1.weight"])


def test_frozen_parameters_stay_and_cost_nothing(engine: Any) -> None:
    whole, _, _ = train(Adam())
    trainer, before, after = train(Adam(groups=(Group(names=("layers.0.*",), frozen=True),)))
    assert all(np.array_equal(before[n], after[n]) == n.startswith("layers.0") for n in before)
    assert launches(trainer.steps.train) < launches(whole.steps.train)  # no gradient of the first layer
    steps = trainer.steps
    trainer.fit((np.zeros((8, 4), np.float32), np.zeros(8, np.int32)), 1, 8, verbose=False)
    assert trainer.steps is steps and trainer.optimizer.t == 5  # a second fit goes on


def test_launches_of_an_update(engine: Any) -> None:
    """A whole step of the MLP with Adam; a group adds its packing and its update;
    norms of tensors do not count tensors.
    """
    def count(optimizer: Optimizer, layers: int = 2) -> int:
        init.seed(0)
        model = Sequential([Dense(in_features=6, out_features=6, activation="relu") for _ in range(layers)]).build((6,))
        optimizer.attach(model.parameters())
        grads = [np.ones(p.shape, np.float32) for p in optimizer.parameters]

        def body(*given: Any) -> tuple[()]:
            optimizer.apply(list(given[:-1]), given[-1])
            return ()

        step = Recorded(body)
        step(*grads, optimizer.hyper(1))
        # without the packing of given gradients
        return sum(set(s.ops) != {"detach"} for s in next(iter(step.replays.values())).plan.launches)

    mlp = Trainer(digits_model("mlp"), CrossEntropyLoss(), Adam(), metrics=())
    mlp.fit(data.load("digits").take(slice(64)), 1, 64, verbose=False)
    assert launches(mlp.steps.train) - 1 <= 16  # one writes the loss into the table
    assert count(Adam()) == 1 and count(Adam(groups=(Group(roles=("bias",), lr=0.1),))) == 2
    for name in ("LARS", "LAMB"):
        assert count(Optimizer.registry[name](), 12) <= count(Optimizer.registry[name](), 2) <= 8


def test_a_change_of_rate_compiles_and_plans_nothing(engine: Any) -> None:
    x, y = np.ones((24, 3), np.float32), np.ones((24, 1), np.float32)
    trainer = Trainer(Sequential(Dense(in_features=3, out_features=1)), MSELoss(),
                      SGD(lr=ReduceLROnPlateau(0.5, 0, 10.0, "abs", monitor="loss", lr=0.1)), ())
    trainer.fit((x, y), 2, 8, verbose=False)

    def made() -> tuple[int, int, int]:
        counters = engine.programs.counters()
        return len(trainer.steps.train.replays), counters.builds, counters.disk_hits

    before, rate = made(), trainer.optimizer.rate(1)
    trainer.fit((x, y), 2, 8, verbose=False)
    assert made() == before and trainer.optimizer.rate(1) < rate
