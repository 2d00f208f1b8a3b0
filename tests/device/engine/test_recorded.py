"""Recorded functions that are recorded again."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.spec import Spec
from clnet.core.state import Variable
from clnet.core.tensor import Tensor, tensor
from clnet.engine.record import Recorded
from clnet.errors import ConfigError
from clnet.layers import Dense


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


def test_an_equal_step_takes_the_plans_of_all_sizes_too(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")

    def step(seed: int, scale: float = 0.5) -> tuple[Recorded, np.ndarray[Any, Any]]:
        w = Variable(normal(5, 7, seed=seed))
        return Recorded(lambda x, y: F.mean(F.tanh(x @ w) * scale, axes=0) + F.sum(y)), w.numpy()

    def plans(recorded: Recorded) -> list[Any]:
        return [r._plan for r in recorded.recordings.values()]

    sizes = [(20, 30), (22, 31), (90, 17), (3, 40), (7, 200), (22, 31)]
    first = step(1)[0]
    for n, m in sizes:
        first(normal(n, 5), normal(m))
    for seed, scale, same in ((2, 0.5, True), (3, 0.25, False)):
        recorded, w = step(seed, scale)
        for n, m in sizes:
            x, y = normal(n, 5, seed=seed), normal(m, seed=seed)
            want = (np.tanh(x.astype(np.float64) @ w) * scale).mean(0) + y.astype(np.float64).sum()
            assert np.allclose(recorded(x, y).numpy(), want, atol=2e-5)
        assert len(plans(recorded)) == len(plans(first)) >= 3
        assert [a is b for a, b in zip(plans(recorded), plans(first), strict=True)] == [same] * len(plans(first))


def test_a_plan_that_is_kept_keeps_no_values(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")

    def run() -> None:
        big = Variable(normal(1000, 300))
        step = Recorded(lambda x: x @ big)
        for n in (20, 30, 40):
            step(normal(n, 1000))

    run()
    before = engine.pool.statistics().active
    engine.plans.clear()
    run()
    gc.collect()
    assert engine.pool.statistics().active == before


def test_explain_lists_the_classes_of_sizes_and_the_kernels_of_each(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    w = tensor(normal(24, 6))
    step = Recorded(lambda x: x @ w, "scores")
    for n in (20, 30, 17, 200, 5, 3, 1000, 300):
        step(normal(n, 24))
    found = clnet.explain(step)
    assert list(found.plans) == ["float32[20, 24]", "float32[17..256, 24]", "float32[2..16, 24]", "float32[257.., 24]"]
    for choices in found.choices.values():
        assert len(choices) == 1
        assert choices[0][1].taken is not None
    assert found.choices["float32[17..256, 24]"][0][0] == "matmul float32[n, 6]"
    assert re.search(r"float32\[257\.\., 24\] +many", str(found))


def test_shapes_that_are_said_to_come_are_sizes_from_the_first_call_on(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    step = Recorded(lambda x, y: x * 2 + F.sum(y), "step")
    step.expect((Spec((n, 5)), Spec((n, 3))) for n in (20, 33, 20))
    for n in (33, 20, 90):
        x, y = normal(n, 5), normal(n, 3)
        assert np.allclose(step(x, y).numpy(), x * 2 + y.astype(np.float64).sum(), atol=1e-4)
    assert list(clnet.explain(step).plans) == ["float32[17..256, 5], float32[17..256, 3]"]
    alone = Recorded(lambda x: x * 2)
    alone.expect([(Spec((4, 5)),)])
    alone(normal(4, 5))
    assert list(clnet.explain(alone).plans) == ["float32[4, 5]"]


def test_explain_says_what_it_takes(engine: Any) -> None:
    step = Recorded(lambda x: x * 2)
    said = r"one recorded step alone; got (Recorded|Trainer); .*trainer\.steps\.train"
    for wrong in ((step, step), (clnet.Trainer(Dense(out_features=2), "mse", "sgd"),)):
        with pytest.raises(ConfigError, match=said):
            clnet.explain(*wrong)


def test_a_sum_that_is_emptied_where_it_goes_elsewhere_is_read_first(engine: Any) -> None:
    """A compiler may read later what the same launch writes over: 20 elements have a rest behind vectors."""
    held, taken = Variable(np.zeros(20, np.float32)), Variable(np.zeros(20, np.float32))

    def step(x: Any, due: Any) -> tuple[()]:
        total = held.tensor + x
        taken.assign(F.where(due > 0.5, taken.tensor * 0.9 + 0.1 * total, taken.tensor))
        held.assign(F.where(due > 0.5, 0.0, total))
        return ()

    run, x = Recorded(step), np.arange(20, dtype=np.float32)
    for due in (0, 1, 0):
        run(x, np.float32(due))
    np.testing.assert_allclose(taken.numpy(), 0.2 * x, rtol=1e-6)
    np.testing.assert_allclose(held.numpy(), x, rtol=0)


def test_what_a_variable_was_is_copied_before_it_is_written_over(engine: Any) -> None:
    """To another variable, in a swap, in a view, and as a result."""
    a, b, c = (Variable(np.arange(6, dtype=np.float32) + 10 * k, "v") for k in range(3))

    def step(x: Any) -> Any:
        was = a.tensor
        c.assign(b.tensor.reshape(2, 3)[::-1].reshape(6))
        b.assign(was)
        a.assign(was + x)
        return was

    def swap(x: Any) -> Any:
        one, other = a.tensor, b.tensor
        a.assign(other)
        b.assign(one)
        return x + 0

    one, ten = np.arange(6, dtype=np.float32), np.arange(6, dtype=np.float32) + 10
    found = Recorded(step)(np.ones(1, np.float32))
    for v, want in ((found, one), (a, one + 1), (b, one), (c, np.roll(ten, 3))):
        np.testing.assert_array_equal(v.numpy(), want)
    Recorded(swap)(np.ones(1, np.float32))
    np.testing.assert_array_equal(a.numpy(), one)
    np.testing.assert_array_equal(b.numpy(), one + 1)
