"""Schedules against PyTorch's where it has them (values kept here),
their reactions to metrics, and what a checkpoint keeps of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.engine import on
from clnet.errors import ConfigError
from clnet.layers import Dense
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.optimizers import (
    SGD,
    AdaptiveFitness,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    Group,
    LambdaLR,
    LinearWarmup,
    MultiStepLR,
    NoamLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    Schedule,
    SequentialLR,
    StepLR,
)
from clnet.train import Trainer
from clnet.train.callbacks import Callback, Checkpoint
from clnet.workbench.evidence.layer_checks import round_trip

T = 24
EXAMPLES: dict[str, Schedule] = {s.__class__.__name__ + str(k): s for k, s in enumerate([
    ConstantLR(lr=0.3), StepLR(5, 0.5, lr=0.4), MultiStepLR((3, 7, 15), 0.2, lr=0.4), ExponentialLR(0.9, lr=0.4),
    PolynomialLR(18, 2.0, lr=0.4), PolynomialLR(10, 1.0, 0.1, lr=0.4), CosineAnnealingLR(T, 0.05, lr=0.4),
    CosineAnnealingWarmRestarts(4, 2, 0.05, lr=0.4), CosineAnnealingWarmRestarts(5, lr=0.4),
    OneCycleLR(0.4, T), OneCycleLR(0.4, T, 0.4, 10.0, 100.0, "linear"), CyclicLR(0.5, 3, 5, lr=0.1),
    CyclicLR(0.5, 4, mode="triangular2", lr=0.1), CyclicLR(0.5, 4, mode="exp_range", gamma=0.9, lr=0.1),
    LinearWarmup(6, init_lr=0.1, lr=0.4),
    SequentialLR((ConstantLR(lr=0.05), ExponentialLR(0.8, lr=0.4), StepLR(2, 0.5, lr=0.2)), (4, 12)),
    NoamLR(64, 8, 2.0), LinearWarmup(6, T, decay="cosine", end_lr=0.1, lr=0.4),
    LinearWarmup(6, 20, 0.1, "linear", 0.2, lr=0.4), ReduceLROnPlateau(lr=0.3), AdaptiveFitness(lr=0.3)])}


def by_torch(s: Any) -> Any:
    """PyTorch's schedule of the same configuration and its optimizer."""
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=getattr(s, "lr", getattr(s, "max_lr", 0.05)),
                                momentum=0.9)
    lib = torch.optim.lr_scheduler
    make: dict[str, Any] = {
        "ConstantLR": lambda: lib.LambdaLR(optimizer, lambda t: 1.0),
        "StepLR": lambda: lib.StepLR(optimizer, s.step_size, s.gamma),
        "MultiStepLR": lambda: lib.MultiStepLR(optimizer, list(s.milestones), s.gamma),
        "ExponentialLR": lambda: lib.ExponentialLR(optimizer, s.gamma),
        "PolynomialLR": lambda: lib.PolynomialLR(optimizer, s.total_steps, s.power),
        "CosineAnnealingLR": lambda: lib.CosineAnnealingLR(optimizer, s.t_max, s.eta_min),
        "CosineAnnealingWarmRestarts": lambda: lib.CosineAnnealingWarmRestarts(optimizer, s.t0, s.t_mult, s.eta_min),
        "OneCycleLR": lambda: lib.OneCycleLR(optimizer, s.max_lr, s.total_steps, pct_start=s.pct_start,
                                             anneal_strategy=s.anneal, div_factor=s.div_factor,
                                             final_div_factor=s.final_div_factor, cycle_momentum=False),
        "CyclicLR": lambda: lib.CyclicLR(optimizer, s.lr, s.max_lr, s.step_up, s.step_down, s.mode, s.gamma,
                                         cycle_momentum=False),
        "LinearWarmup": lambda: lib.LinearLR(optimizer, s.init_lr / s.lr, 1.0, s.warmup_steps),
    }
    return make[type(s).__name__](), optimizer


NOT_OF_PYTORCH = ("SequentialLR", "NoamLR", "ReduceLROnPlateau", "AdaptiveFitness")


@pytest.mark.parametrize("name", [
    n for n, s in EXAMPLES.items() if type(s).__name__ not in NOT_OF_PYTORCH
    and getattr(s, "decay", "constant") == "constant" and not getattr(s, "end_lr", 0)])
def test_as_pytorch(name: str) -> None:
    schedule, optimizer = by_torch(EXAMPLES[name])
    steps = T if isinstance(EXAMPLES[name], OneCycleLR) else 3 * T  # behind its one cycle PyTorch's raises
    for t in range(steps):
        assert math.isclose(EXAMPLES[name].at(t), optimizer.param_groups[0]["lr"], rel_tol=1e-9, abs_tol=1e-12), t
        if t + 1 < steps:
            optimizer.step()
            schedule.step()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateau_as_pytorch(mode: str, threshold_mode: str) -> None:
    torch = pytest.importorskip("torch")
    mine = ReduceLROnPlateau(0.3, 2, 0.05, threshold_mode, 1, mode, 1e-3, lr=0.5)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, 0.3, 2, 0.05, threshold_mode, 1, 1e-3)
    rates = set()
    for value in 1 + 0.4 * np.random.default_rng(3).random(60):
        mine.observe(float(value))
        other.step(float(value))
        assert math.isclose(mine.at(0), optimizer.param_groups[0]["lr"], rel_tol=1e-12)
        rates.add(mine.at(0))
    assert len(rates) > 3


def test_values_that_can_be_checked_by_hand() -> None:
    assert [StepLR(2, 0.5, lr=1.0).at(t) for t in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    np.testing.assert_allclose([CosineAnnealingLR(4, 0.2, lr=1.0).at(t) for t in (0, 2, 4, 6, 8)],
                               [1.0, 0.6, 0.2, 0.6, 1.0])
    np.testing.assert_allclose([PolynomialLR(10, 1.0, 0.1, lr=1.1).at(t) for t in (0, 5, 10, 12)], [1.1, 0.6, 0.1, 0.1])
    np.testing.assert_allclose([LinearWarmup(4, 8, 0.2, "linear", 0.5, lr=1.0).at(t) for t in (0, 2, 4, 6, 8, 20)],
                               [0.2, 0.6, 1.0, 0.75, 0.5, 0.5])
    np.testing.assert_allclose([LinearWarmup(4, 8, decay="cosine", lr=1.0).at(t) for t in (0, 4, 6, 8)],
                               [0.0, 1.0, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose([NoamLR(100, 4, 10.0).at(t) for t in (0, 3, 15)], [0.125, 0.5, 0.25])
    assert [LambdaLR(lambda t: 1 / (1 + t), lr=2.0).at(t) for t in (0, 1, 3)] == [2.0, 1.0, 0.5]
    np.testing.assert_allclose([OneCycleLR(0.1, 10, 0.1, anneal="linear").at(t) for t in (0, 9)], [0.1, 4e-7])
    later = SequentialLR((ConstantLR(lr=0.1), StepLR(2, 0.5, lr=1.0)), (3,))
    assert [later.at(t) for t in range(8)] == [0.1, 0.1, 0.1, 1, 1, 0.5, 0.5, 0.25]


def test_fitness_goes_up_and_down_between_bounds() -> None:
    s = AdaptiveFitness(2.0, 0.5, 0.2, 3.0, lr=1.0)
    seen = []
    for value in (5.0, 4.0, 4.5, math.nan, 4.2, 4.1, 4.1, 3.9):
        s.observe(value)
        seen.append(s.at(0))
    assert seen == [2.0, 3.0, 1.5, 0.75, 0.375, 0.2, 0.2, 0.4]


def test_units() -> None:
    """Warm-up per batch, then per epoch."""
    s = SequentialLR((LinearWarmup(4, lr=1.0), ExponentialLR(0.5, lr=1.0, unit="epoch")), (4,))
    assert [s.value(step, epoch) for step, epoch in ((0, 0), (2, 0), (4, 0), (9, 1), (15, 2))] == [
        0.0, 0.5, 1.0, 0.5, 0.25]
    by_epoch = StepLR(1, 0.1, lr=1.0, unit="epoch")
    assert [by_epoch.value(s, e) for s, e in ((0, 0), (99, 0), (100, 1))] == [1.0, 1.0, 0.1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_configuration_round_trip(name: str) -> None:
    assert round_trip(EXAMPLES[name])
    assert EXAMPLES[name].at(0) >= 0


def test_every_schedule_is_tried() -> None:
    assert {type(s).__name__ for s in EXAMPLES.values()} | {"LambdaLR"} == set(Schedule.registry)


@pytest.mark.parametrize("call", [
    lambda: StepLR(lr=0.1), lambda: StepLR(0), lambda: StepLR(3, lr=0.0), lambda: OneCycleLR(0.1, 1),
    lambda: LinearWarmup(5, 5, decay="cosine"),
    lambda: SequentialLR((ConstantLR(), ConstantLR()), ()), lambda: SequentialLR((ConstantLR(),) * 3, (4, 4)),
    lambda: StepLR(3, unit="batch"),
    lambda: LambdaLR(), lambda: LambdaLR(fn=3), lambda: CyclicLR(0.1, mode="square"), lambda: Group(lr=0.1),
    lambda: Group(roles=("bias",), lr=-1.0),
    lambda: SGD(groups=(Group(names=("a",), lr="fast"),)),
])
def test_errors(call: Any) -> None:
    with pytest.raises(ConfigError):
        call()


# --- inside a run
class Rates(Callback):
    """The rate of every step."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_batch_end(self, trainer: Any) -> None:
        self.seen.append(trainer.optimizer.rate(trainer.optimizer.t))


def run(lr: Any, epochs: int, **more: Any) -> tuple[Any, list[float]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 3)).astype(np.float32)
    y = (x @ np.array([[1.0], [2.0], [-1.0]]) + 0.1 * rng.normal(size=(24, 1))).astype(np.float32)
    init.seed(0)
    rates = Rates()
    trainer = Trainer(Sequential(Dense(in_features=3, out_features=1)), MSELoss(), SGD(lr=lr), metrics=())
    trainer.fit((x, y), epochs, 8, validation=(x, y), callbacks=[rates, *more.pop("callbacks", ())], verbose=False,
                **more)
    return trainer, rates.seen


def test_epochs_are_counted_and_metrics_followed() -> None:
    with on("numpy"):
        _, seen = run(StepLR(1, 0.5, lr=0.08, unit="epoch"), 3)
        assert seen == [0.08] * 3 + [0.04] * 3 + [0.02] * 3
        trainer, seen = run(ReduceLROnPlateau(0.5, 0, 10.0, "abs", lr=0.08), 4)  # nothing is an improvement by 10
        assert seen == [0.08] * 6 + [0.04] * 3 + [0.02] * 3
        assert [r["lr"] for r in trainer.history.rows] == [0.08, 0.08, 0.04, 0.02]


@pytest.mark.parametrize("make", [
    lambda: ReduceLROnPlateau(0.5, 0, 10.0, "abs", lr=0.08), lambda: AdaptiveFitness(lr=0.05),
    lambda: StepLR(1, 0.5, lr=0.08, unit="epoch"),
    lambda: SequentialLR((LinearWarmup(3, lr=0.1), ReduceLROnPlateau(0.5, 0, 10.0, "abs", lr=0.08)), (3,)),
])
def test_a_resumed_run_has_the_same_rates(make: Any, tmp_path: Any) -> None:
    with on("numpy"):
        whole, rates = run(make(), 5)
        run(make(), 2, callbacks=[Checkpoint(tmp_path / "c")])
        again, later = run(make(), 5, resume=tmp_path / "c")
        assert rates[6:] == later
        assert np.array_equal(whole.model[0].weight.numpy(), again.model[0].weight.numpy())


def test_a_schedule_that_follows_what_is_not_there() -> None:
    with on("numpy"), pytest.raises(ConfigError, match=r"val_accuracy.*expected monitor= to be one of loss, val_loss"):
        run(ReduceLROnPlateau(monitor="val_accuracy"), 1)
