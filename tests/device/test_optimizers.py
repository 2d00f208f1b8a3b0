"""Every registered optimizer on every device: trajectories of independent libraries, state, groups, clipping."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError
from clnet.layers import Dense
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.optimizers import SGD, Adam, CosineAnnealingLR, Optimizer, ReduceLROnPlateau, RMSprop, StepLR
from clnet.state import Parameter
from clnet.tensor import tensor
from clnet.train import Trainer
from clnet.workbench.golden import KEPT
from clnet.workbench.layer_checks import round_trip, trajectory
from clnet.workbench.registry import load_all

load_all()
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "optimizer"
ALL = [pytest.param(cls, id=name) for name, cls in sorted(Optimizer.registry.items())]


def variants() -> list[Any]:
    out = []
    for path in sorted(GOLDEN.glob("*.npz")):
        with np.load(path) as file:
            out += [pytest.param(path.stem, int(n.split(".")[0]), id=f"{path.stem}-{n.split('.')[0]}") for n in file if n.endswith(".fields")]
    return out


def run(name: str, k: int, dtype: Any) -> tuple[list[Any], list[Any]]:
    """(what our steps give, what the other library gave) after the kept steps."""
    kept = np.load(GOLDEN / f"{name}.npz")
    count = sum(n.startswith("start.") for n in kept)
    starts = [kept[f"start.{j}"].astype(dtype) for j in range(count)]
    grads = [kept[f"grad.{j}"] for j in range(count)]
    path = trajectory(Optimizer.registry[name](**json.loads(str(kept[f"{k}.fields"]))), starts, lambda _, t: [g[t - 1] for g in grads], KEPT[-1])
    return [np.stack([path[t - 1][j] for t in KEPT]) for j in range(count)], [kept[f"{k}.path.{j}"] for j in range(count)]


@pytest.mark.device
@pytest.mark.parametrize(("name", "k"), variants())
def test_50_steps_on_the_device(name: str, k: int, device: Any) -> None:
    if k and device.device.runtime == "pocl":
        pytest.skip("first variant only: its compiler is slow")
    for got, want in zip(*run(name, k, np.float32), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "k"), variants())
def test_50_steps_on_the_reference(name: str, k: int) -> None:
    """Double precision; the rate reaches the step as a float32, which bounds the agreement."""
    with on(NumpyEngine("float64")):
        for got, want in zip(*run(name, k, np.float64), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.device
@pytest.mark.parametrize("cls", ALL)
def test_comes_down_a_bowl(cls: type[Optimizer], device: Any) -> None:
    """f(w) = ½ Σ c w²: every optimizer gets lower, none leaves."""
    scale = np.array([1.0, 3.0, 0.3], np.float32)
    path = trajectory(cls(), [np.array([1.0, -1.0, 0.5], np.float32)], lambda w, _: [scale * w[0]], 20)
    first, last = (float((scale * w[0] ** 2).sum()) for w in (path[0], path[-1]))
    assert last < first


@pytest.mark.parametrize("cls", ALL)
def test_state_continues_identically(cls: type[Optimizer]) -> None:
    rng = np.random.default_rng(0)
    grads = [rng.standard_normal(3).astype(np.float32) for _ in range(6)]
    whole = trajectory(cls(), [np.ones(3, np.float32)], lambda _, t: [grads[t - 1]], 6)
    with on(NumpyEngine("float32")):
        p, optimizer = Parameter(np.ones(3, np.float32), "p"), cls()
        for t, g in enumerate(grads):
            if t == 3:
                fresh, again = Parameter(p.numpy(), "p"), cls()
                again.attach([fresh])
                again.load_state_dict(optimizer.state_dict())
                p, optimizer = fresh, again
            p.grad = tensor(g)
            optimizer.update([p])
    np.testing.assert_allclose(p.numpy(), whole[-1][0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("cls", ALL)
def test_configuration_round_trip(cls: type[Optimizer]) -> None:
    result = round_trip(cls(lr=CosineAnnealingLR(5, lr=0.1), clip_norm=1.0))
    assert result, str(result)
    assert all(Optimizer.lookup(name) is cls for name in (cls.__name__, cls.spec_name, *cls.aliases))


def test_the_specification_s_spelling() -> None:
    assert Optimizer.lookup("RMSProp") is RMSprop


def test_state_is_what_the_fields_need() -> None:
    p = [Parameter(np.ones(3, np.float32))]
    sizes = []
    for optimizer in (SGD(), SGD(momentum=0.9), Adam(), Adam(amsgrad=True), RMSprop(), RMSprop(centered=True, momentum=0.5)):
        optimizer.attach(p)
        sizes.append(len(optimizer.memories[0]))
        optimizer.arenas[0].release()
    assert sizes == [0, 1, 2, 3, 1, 3]


@pytest.mark.device
def test_clipping(device: Any) -> None:
    g = [np.array([3.0, 0.0], np.float32), np.array([4.0], np.float32)]
    starts = [np.zeros(2, np.float32), np.zeros(1, np.float32)]
    by_norm = trajectory(SGD(lr=1.0, clip_norm=1.0), starts, lambda *_: g, 1)[0]
    np.testing.assert_allclose(np.concatenate(by_norm), [-0.6, 0, -0.8], rtol=1e-5)
    by_value = trajectory(SGD(lr=1.0, clip_value=0.5), starts, lambda *_: g, 1)[0]
    np.testing.assert_allclose(np.concatenate(by_value), [-0.5, 0, -0.5])
    small = trajectory(SGD(lr=1.0, clip_norm=100.0), starts, lambda *_: g, 1)[0]
    np.testing.assert_allclose(np.concatenate(small), [-3, 0, -4], rtol=1e-6)


@pytest.mark.device
@pytest.mark.parametrize("cls", ALL)
def test_a_zero_gradient_is_safe(cls: type[Optimizer], device: Any) -> None:
    path = trajectory(cls(), [np.ones(1, np.float32)], lambda *_: [np.zeros(1, np.float32)], 2)
    assert np.isfinite(path[-1][0]).all()


def test_a_schedule_drives_the_steps() -> None:
    path = trajectory(SGD(lr=StepLR(1, 0.5, lr=1.0)), [np.zeros(1, np.float32)], lambda *_: [np.ones(1, np.float32)], 3)
    np.testing.assert_allclose([w[0][0] for w in path], [-1, -1.5, -1.75])


@pytest.mark.device
def test_a_change_of_rate_compiles_and_plans_nothing(device: Any) -> None:
    x, y = np.ones((24, 3), np.float32), np.ones((24, 1), np.float32)
    trainer = Trainer(Sequential(Dense(in_features=3, out_features=1)), MSELoss(), SGD(lr=ReduceLROnPlateau(0.5, 0, 10.0, "abs", monitor="loss", lr=0.1)), ())
    trainer.fit((x, y), 2, 8, verbose=False)

    def made() -> tuple[int, int, int]:
        counters = device.programs.counters()
        return len(trainer.steps.train.replays), counters.builds, counters.disk_hits

    before, rate = made(), trainer.optimizer.rate(1)
    trainer.fit((x, y), 2, 8, verbose=False)
    assert made() == before and trainer.optimizer.rate(1) < rate


@pytest.mark.parametrize("call", [
    lambda: SGD(lr=-1.0), lambda: SGD(momentum=1.0), lambda: SGD(nesterov=True), lambda: Adam(b1=1.0), lambda: Adam(eps=0.0), lambda: Adam(clip_norm=0.0),
    lambda: SGD(lr="fast"), lambda: SGD(lr=True), lambda: SGD(lr=float("nan")),
])
def test_configuration_errors(call: Any) -> None:
    with pytest.raises(ConfigError):
        call()
