"""Loops of one's own: gradients of a recorded function, and an optimizer's update outside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.engine import on
from clnet.errors import UseError
from clnet.layers import Dense
from clnet.optimizers import LBFGS, SGD, Optimizer, StepLR


def losses(recorded: bool, optimizer: Optimizer) -> list[float]:
    """Of four steps."""
    clnet.seed(0)
    rng, layer = np.random.default_rng(0), Dense(4, 2)
    weights = list(layer.parameters())

    def slopes(x: Any) -> Any:
        loss = F.mean(layer(x) ** 2)
        return (loss, *clnet.gradients(loss, weights))

    call, out = clnet.Recorded(slopes) if recorded else slopes, []
    for _ in range(4):
        loss, *grads = call(rng.normal(size=(16, 4)).astype(np.float32))
        for w, g in zip(weights, grads, strict=True):
            w.grad = g
        optimizer.update(weights)
        out.append(loss.item())
    return out


def test_gradients_are_recorded_and_the_update_is_outside(engine: Any) -> None:
    with on(engine):
        plain, recorded = (losses(r, SGD(lr=StepLR(lr=0.5, step_size=2, gamma=0.1))) for r in (False, True))
    assert plain == pytest.approx(recorded, rel=1e-6)
    assert plain[1] != pytest.approx(plain[0], rel=1e-3)


def test_an_update_that_would_be_recorded_is_refused(engine: Any) -> None:
    """It would count one step for all that follow, with the first rate and the first correction of biases."""
    layer = Dense(4, 2)

    def step(x: Any) -> Any:
        loss = F.mean(layer(x) ** 2)
        for w in (weights := list(layer.parameters())):
            (w.grad,) = clnet.gradients(loss, [w])
        optimizer.update(weights)
        return loss

    def search(x: Any) -> Any:
        LBFGS().update(list(layer.parameters()), lambda: F.mean(layer(x) ** 2))

    x, optimizer = np.ones((3, 4), np.float32), SGD(lr=0.1)
    with on(engine):
        for call in (step, search):
            with pytest.raises(UseError, match=r"^update: expected a call of its own for each step.*outside"):
                clnet.Recorded(call)(x)
        assert optimizer.t == 0
        step(x)
    assert optimizer.t == 1
