"""Every optimizer on two problems with known ends: Rosenbrock's valley and the digits;
then what each promises beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.state import Parameter
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.layers import Dense, Flatten
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.optimizers import ASGD, FTRL, Adam, Adam8bit, CosineAnnealingLR, Optimizer, ProximalGradientDescent
from clnet.train import Trainer, data
from clnet.workbench.evidence.layer_checks import trajectory
from clnet.workbench.evidence.registry import load_all

load_all()
STEPS = 3000


def falling(lr: float) -> CosineAnnealingLR:
    return CosineAnnealingLR(STEPS, lr=lr)


# name: (fields, f after 3000 steps from (−1.2, 1), where f = 24.2; at most)
VALLEY: dict[str, tuple[dict[str, Any], float]] = {
    "SGD": (dict(lr=1e-3), 0.03), "GradientDescent": (dict(lr=1e-3), 0.03),
    "MiniBatchGradientDescent": (dict(lr=1e-3), 0.03), "ASGD": (dict(lr=1e-3, lambd=0.0), 0.03),
    "Momentum": (dict(lr=5e-4), 1e-5), "NAG": (dict(lr=5e-4), 1e-5), "Adam": (dict(lr=0.05), 1e-6),
    "AdamW": (dict(lr=0.05, weight_decay=0.0), 1e-6), "AMSGrad": (dict(lr=0.1), 1e-6), "AdaMax": (dict(lr=0.05), 1e-3),
    "Nadam": (dict(lr=0.02), 1e-3), "RAdam": (dict(lr=falling(0.05), clip_norm=1.0), 1e-3),
    "RMSprop": (dict(lr=falling(0.01)), 1e-3), "Adagrad": (dict(lr=0.3), 0.01), "AdaDelta": (dict(lr=1.0), 0.6),
    "Lion": (dict(lr=falling(0.01)), 1e-5), "Rprop": (dict(lr=0.01), 1e-5),
    "FTRL": (dict(alpha=1.0, l1=0.0, l2=0.0), 0.01),
    "ADMM": (dict(lr=1e-3, rho=0.1, strength=0.0), 0.03), "ModifiedGradientDescent": (dict(lr=1e-3), 0.03),
    "ProximalGradientDescent": (dict(lr=1e-3, strength=0.0, accelerated=True), 1e-4),
    "Adam8bit": (dict(lr=falling(0.05)), 1e-4), "LARS": (dict(lr=falling(3.0), weight_decay=0.0), 1e-4),
    "LAMB": (dict(lr=falling(0.02), weight_decay=0.0), 1e-5),
}
# name: (fields, epochs): at least 0.9 of the test images, on which guessing has 0.1
DIGITS: dict[str, tuple[dict[str, Any], int]] = {
    "SGD": (dict(lr=0.3), 8), "GradientDescent": (dict(lr=1.0), 60), "MiniBatchGradientDescent": (dict(lr=0.3), 8),
    "Momentum": (dict(lr=0.05), 8), "NAG": (dict(lr=0.05), 8), "ASGD": (dict(lr=0.3), 8), "AdaDelta": (dict(lr=1.0), 8),
    "Lion": (dict(lr=0.003), 8), "Rprop": (dict(lr=0.01), 60), "FTRL": (dict(alpha=0.3, l1=0.01, l2=0.0), 8),
    "ADMM": (dict(lr=0.3, rho=0.1, strength=1e-4), 8), "ModifiedGradientDescent": (dict(lr=0.3, forget=0.01), 8),
    "ProximalGradientDescent": (dict(lr=0.3, strength=1e-4), 8), "Adagrad": (dict(lr=0.05), 8),
    "LARS": (dict(lr=0.3, trust_coefficient=0.05), 8), "LAMB": (dict(lr=0.02), 8), "RMSprop": (dict(lr=0.003), 8),
    **{n: (dict(lr=0.01), 8) for n in ("Adam", "AdamW", "AMSGrad", "AdaMax", "Nadam", "RAdam", "Adam8bit")},
}


def descend(optimizer: Optimizer, f: Callable[..., Any], starts: Sequence[Any], steps: int) -> list[Any]:
    """The parameters after recorded steps down f."""
    params = [Parameter(a, f"p{k}") for k, a in enumerate(starts)]
    optimizer.attach(params)

    def body(h: Any) -> tuple[()]:
        found = gradients(f(*(p.tensor for p in params)), [p.tensor for p in optimizer.parameters])
        optimizer.apply(found, h)
        return ()

    step = Recorded(body, "descent")
    for t in range(1, steps + 1):
        step(optimizer.hyper(t))
    return [p.numpy() for p in params]


def rosenbrock(w: Any) -> Any:
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] * w[0]) ** 2


@pytest.mark.parametrize("rule", sorted(VALLEY))
def test_rosenbrock(rule: str, engine: Any) -> None:
    fields, value = VALLEY[rule]
    (w,) = descend(Optimizer.registry[rule](**fields), rosenbrock, [np.array([-1.2, 1.0], np.float32)], STEPS)
    assert rosenbrock(w.astype(np.float64)) < value


@pytest.mark.parametrize("rule", sorted(DIGITS))
def test_digits(rule: str, engine: Any) -> None:
    fields, epochs = DIGITS[rule]
    train, test = data.load("digits").split(0.2, 0)
    init.seed(0)
    model = Sequential(Flatten(), Dense(out_features=32, activation="relu"), Dense(out_features=10)).build((1, 8, 8))
    trainer = Trainer(model, CrossEntropyLoss(), Optimizer.registry[rule](**fields))
    trainer.fit(train, epochs, verbose=False)
    assert trainer.evaluate(test)["accuracy"] >= 0.9


def test_every_first_order_optimizer_is_tried() -> None:
    modules = ("first_order", "adaptive", "proximal", "layerwise", "quantized", "modified")
    present = {n for n, c in Optimizer.registry.items() if c.__module__.rpartition(".")[2] in modules}
    assert present == set(VALLEY) == set(DIGITS)


# --- promises
def lasso(accelerated: bool, steps: int) -> tuple[Any, Any]:
    """(our solution of ½‖Xw − y‖² / n + 0.1 ‖w‖₁, coordinate descent's)"""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 12))
    y = x @ np.r_[2.0, -3.0, 1.0, np.zeros(9)] + 0.1 * rng.normal(size=60)
    w = np.zeros(12)
    for _ in range(500):
        for i in range(12):
            z = x[:, i] @ (y - x @ w + x[:, i] * w[i]) / 60
            w[i] = np.sign(z) * max(abs(z) - 0.1, 0) / (x[:, i] @ x[:, i] / 60)
    xs, ys = tensor(x.astype(np.float32)), tensor(y.astype(np.float32).reshape(-1, 1))
    optimizer = ProximalGradientDescent(0.2, strength=0.1, accelerated=accelerated)

    def error(w: Any) -> Any:
        return F.sum((xs @ w.reshape(-1, 1) - ys) ** 2) / 120.0

    (found,) = descend(optimizer, error, [np.ones(12, np.float32)], steps)
    if accelerated:
        optimizer.use_solution()
        found = optimizer.parameters[0].numpy()
    return found, w


@pytest.mark.parametrize("accelerated", [False, True])
def test_proximal_steps_solve_the_lasso(accelerated: bool, engine: Any) -> None:
    found, wanted = lasso(accelerated, 400)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert ((found == 0) == (np.abs(wanted) < 1e-12)).all() and (found == 0).sum() >= 6


def test_ftrl_keeps_useless_parameters_at_zero(engine: Any) -> None:
    rng = np.random.default_rng(2)
    path = trajectory(FTRL(alpha=0.1, l1=2.0, warm_start=False), [np.zeros(6, np.float32)],
                      lambda w, _: [np.r_[w[0][:2] - 1, 0.1 * rng.standard_normal(4)].astype(np.float32)], 60)
    assert (path[-1][0][2:] == 0).all() and (path[-1][0][:2] > 0.2).all()


def test_the_average_is_nearer_than_the_path(engine: Any) -> None:
    """Noisy gradients of ½‖w‖²: the end wanders, its average does not."""
    rng = np.random.default_rng(3)
    optimizer, p = ASGD(lr=0.3, lambd=0.0, alpha=0.0, t0=20.0), Parameter(np.ones(8, np.float32), "p")
    for _ in range(150):
        p.grad = tensor((p.numpy() + rng.standard_normal(8)).astype(np.float32))
        optimizer.update([p])
    last = np.linalg.norm(p.numpy())
    optimizer.use_average()
    assert np.linalg.norm(p.numpy()) < 0.5 * last


def test_eight_bits_follow_adam(engine: Any) -> None:
    """Over 50 noisy steps of 5000 parameters: within 5 % of the way that Adam goes;
    a byte and a little in place of four.
    """
    rng = np.random.default_rng(4)
    start = rng.standard_normal(5000).astype(np.float32)
    grads = [(rng.standard_normal(5000) * np.exp(rng.standard_normal(5000))).astype(np.float32) for _ in range(50)]
    ours, theirs = Adam8bit(lr=0.01), Adam(lr=0.01)
    ends = [trajectory(o, [start], lambda _, t: [grads[t - 1] + 0.5 * start], 50)[-1][0] for o in (ours, theirs)]
    assert np.linalg.norm(ends[0] - ends[1]) < 0.05 * np.linalg.norm(ends[1] - start)
    sizes = [sum(v.spec.nbytes for v in o.memories[0].values()) for o in (ours, theirs)]
    assert sizes == [ours.state_bytes(5000), theirs.state_bytes(5000)]
    assert sizes[0] < 0.32 * sizes[1]  # 3 blocks of 2048 for 5000 elements
