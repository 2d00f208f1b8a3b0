"""Optimizers on the reference: trajectories of independent libraries, state, groups, configuration."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

from clnet import init, optimizers
from clnet.core.state import Parameter
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, UnknownNameError, UseError
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.model import files as model_io
from clnet.optimizers import (
    SGD,
    Adam,
    AdaptiveFitness,
    CosineAnnealingLR,
    Group,
    Optimizer,
    RMSprop,
    StepLR,
)
from clnet.optimizers.closure import ClosureOptimizer
from clnet.optimizers.series import Series
from clnet.train import Trainer
from clnet.workbench.evidence import golden
from clnet.workbench.evidence.golden import KEPT
from clnet.workbench.evidence.layer_checks import round_trip, trajectory
from clnet.workbench.evidence.registry import load_all

load_all()
# Those that a gradient a step is enough for; the others have tests of their own, test_searches.py.
ALL = [pytest.param(cls, id=name) for name, cls in sorted(Optimizer.registry.items())
       if not issubclass(cls, ClosureOptimizer)]


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


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


def test_the_specification_s_spelling() -> None:
    assert Optimizer.lookup("RMSProp") is RMSprop


@pytest.mark.parametrize("call", [
    lambda: SGD(lr=-1.0), lambda: SGD(momentum=1.0), lambda: SGD(nesterov=True), lambda: Adam(b1=1.0),
    lambda: Adam(eps=0.0), lambda: Adam(clip_norm=0.0),
    lambda: SGD(lr="fast"), lambda: SGD(lr=True), lambda: SGD(lr=float("nan")),
])
def test_configuration_errors(call: Any) -> None:
    with pytest.raises(ConfigError):
        call()


@pytest.mark.parametrize(("name", "k"), variants())
def test_50_steps_on_the_reference(name: str, k: int) -> None:
    """Double precision; the rate reaches the step as a float32, which bounds the agreement."""
    with on(NumpyEngine("float64")):
        for got, want in zip(*run(name, k, np.float64), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("cls", ALL)
def test_state_continues_identically(cls: type[Optimizer]) -> None:
    """A copy in the middle, schedules and groups included, goes on with the same bits."""
    rng = np.random.default_rng(0)
    grads = [[rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (3,))] for _ in range(6)]

    def make() -> Optimizer:
        return cls(lr=AdaptiveFitness(lr=0.01), groups=(Group(roles=("bias",), lr=0.02),))

    def run(split: int) -> list[Any]:
        params, optimizer = [Parameter(np.ones(s), "p", r) for s, r in (((2, 3), "weight"), ((3,), "bias"))], make()
        for t, g in enumerate(grads):
            if t == split:
                fresh, again = [Parameter(p.numpy(), p.name, p.role) for p in params], make()
                again.attach(fresh)
                again.load_state_dict(optimizer.state_dict())
                params, optimizer = fresh, again
            for p, x in zip(params, g, strict=True):
                p.grad = tensor(x)
            optimizer.update(params)
            optimizer.end_epoch({"loss": (t - 2.0) ** 2})
        return [p.numpy() for p in params]

    with on(NumpyEngine("float32")):
        for a, b in zip(run(3), run(-1), strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("cls", ALL)
def test_configuration_round_trip(cls: type[Optimizer]) -> None:
    result = round_trip(cls(lr=CosineAnnealingLR(5, lr=0.1), clip_norm=1.0))
    assert result, str(result)
    assert all(Optimizer.lookup(name) is cls for name in (cls.__name__, cls.spec_name, *cls.aliases))


def test_state_is_what_the_fields_need() -> None:
    p = [Parameter(np.ones(3, np.float32))]
    sizes = []
    for optimizer in (SGD(), SGD(momentum=0.9), Adam(), Adam(amsgrad=True), RMSprop(),
                      RMSprop(centered=True, momentum=0.5)):
        optimizer.attach(p)
        sizes.append(len(optimizer.memories[0]))
        optimizer.arenas[0].release()
    assert sizes == [0, 1, 2, 3, 1, 3]


def test_groups_that_fit_nothing() -> None:
    with on("numpy"), pytest.raises(ConfigError, match="not frozen"):
        train(SGD(groups=(Group(names=("*",), frozen=True),)))
    with pytest.raises(ConfigError, match="without weight_decay"):
        Optimizer.registry["AdaMax"](groups=(Group(roles=("bias",), weight_decay=0.1),))
    assert round_trip(Adam(groups=(Group(roles=("bias",), lr=StepLR(3), weight_decay=0.0),
                                   Group(names=("a.*",), frozen=True))))


def test_a_schedule_drives_the_steps() -> None:
    path = trajectory(SGD(lr=StepLR(1, 0.5, lr=1.0)), [np.zeros(1, np.float32)], lambda *_: [np.ones(1, np.float32)], 3)
    np.testing.assert_allclose([w[0][0] for w in path], [-1, -1.5, -1.75])


def test_a_series_is_the_same_in_whatever_order_it_is_asked() -> None:
    asked: list[int] = []

    def following(before: float, t: int) -> float:
        asked.append(t)
        return before * 0.5 + t

    series, by_hand = Series(1.0, following), [1.0]
    for t in range(1, 9):
        by_hand.append(by_hand[-1] * 0.5 + t)
    assert [series[t] for t in (8, 0, 3, 8)] == [by_hand[t] for t in (8, 0, 3, 8)]
    assert asked == list(range(1, 9))


def test_an_optimizer_begins_in_the_memory_of_the_parameters() -> None:
    weights = [Parameter(np.ones((400, 500), np.float32)) for _ in range(3)]
    nbytes = sum(w.spec.nbytes for w in weights)
    with on("numpy"):
        tracemalloc.start()
        try:
            Adam().attach(weights)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert nbytes <= most < 1.1 * nbytes, "one flat copy; zeros take none, and nothing is widened"


def test_a_state_begins_as_a_number_or_an_array() -> None:
    class Own(Optimizer):
        state = ("number", "first", "count", "few")

        def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | float:
            return {"number": 0.25, "first": w, "count": np.full(w.shape, 3, np.int32), "few": np.arange(2.0)}[slot]

    class Wrong(Own):
        def start(self, slot: str, w: np.ndarray[Any, Any]) -> Any:
            return {"number": 1, "first": None}[slot]

    del Optimizer.registry["Own"], Optimizer.registry["Wrong"]
    w = np.array([[1.0, 2.0], [-3.0, 0.5]])
    with on("numpy"):
        for dtype, narrow in (("float32", None), ("float64", None), ("bfloat16", None), ("float32", "bfloat16")):
            own = Own(state_dtype=narrow)
            own.attach([Parameter(w, dtype=dtype)])
            memory, wide = own.memories[0], "float32" if dtype == "bfloat16" else dtype
            assert {n: v.dtype for n, v in memory.items()} == {
                "number": narrow or wide, "first": narrow or wide, "count": "int32", "few": wide}
            for name, value in (("number", np.full(4, 0.25)), ("first", w.ravel()), ("count", np.full(4, 3)),
                                ("few", np.arange(2.0))):
                np.testing.assert_array_equal(memory[name].numpy().astype(np.float64), value)
        with pytest.raises(ConfigError, match=r"Wrong.start\('first'\): expected a number.*got None"):
            Wrong().attach([Parameter(w)])


def test_habits_of_pytorch_are_told() -> None:
    classes = [c for c in vars(optimizers).values()
               if isinstance(c, type) and issubclass(c, optimizers.Optimizer) and c is not optimizers.Optimizer]
    assert len(classes) > 5
    for cls in classes:
        for call in (lambda o: o.step(), lambda o: o.step(lambda: 0.0), lambda o: o.zero_grad()):
            with pytest.raises((UseError, UnknownNameError), match="a Trainer does all of a step"):
                call(cls())
