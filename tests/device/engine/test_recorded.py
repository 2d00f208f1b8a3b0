"""Recorded functions that are recorded again."""

from __future__ import annotations

from typing import Any

import numpy as np

from clnet import ops as F
from clnet.core.state import Variable
from clnet.core.tensor import Tensor
from clnet.engine.record import Recorded


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_an_equal_step_recorded_anew_takes_the_plan_of_the_first(engine: Any) -> None:
    """A network made anew, in a fold of a cross-validation, say: leaves and results are its own."""
    def step(seed: int) -> tuple[Recorded, Variable, Variable]:
        w, b = Variable(normal(5, 7, seed=seed)), Variable(normal(7, seed=seed + 1))

        def fn(unused: Tensor, x: Tensor) -> Tensor:
            y = F.relu(x @ w + b) - 0.5
            w.assign(w - 0.1 * F.mean(y))
            return y

        return Recorded(fn), w, b

    plans = list[Any]()
    for seed in (1, 2, 3):
        recorded, w, b = step(seed)
        x, before = normal(4, 5, seed=seed + 9), w.numpy()
        y = recorded(normal(2), x).numpy()
        want = np.maximum(x.astype(np.float64) @ before + b.numpy(), 0) - 0.5
        assert np.allclose(y, want, atol=1e-5)
        assert np.allclose(w.numpy(), before - 0.1 * want.mean(), atol=1e-5)
        plans += [r.plan(r.specs) for r in recorded.recordings.values()]
    assert len(plans) == 3 * engine.compiles
    assert len(set(map(id, plans))) == engine.compiles
