"""Gradient checkpointing: the same bits for less memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.layers.base import Layer
from clnet.workbench.bench.suites import memory as bench_memory
from clnet.workbench.bench.suites import steps as bench_steps
from clnet.workbench.evidence import registry

WIDTH, DEPTH, BATCH = 256, 4, 512


def block() -> list[Any]:
    return [{"type": "LayerNorm"}, {"type": "Dense", "out_features": 4 * WIDTH, "activation": "gelu"},
            {"type": "Dropout", "p": 0.2}, {"type": "Dense", "out_features": WIDTH, "activation": "tanh"}]


def network(checkpointed: bool) -> Any:
    clnet.seed(3)
    layers = [{"type": "Checkpoint", "layer": block()} if checkpointed else {"type": "Sequential", "layers": block()}
              for _ in range(DEPTH)]
    return clnet.Sequential(*map(Layer.from_config, layers)).build((WIDTH,))


def slopes(model: Any, x: Any) -> list[Any]:
    return gradients(F.mean(F.square(model(x))), [p.tensor for p in model.parameters()])


def test_equal_bits_with_dropout(engine: Any) -> None:
    x = tensor(np.random.default_rng(0).standard_normal((8, WIDTH)).astype(np.float32))
    plain, again = (engine.values(slopes(network(c), x)) for c in (False, True))
    assert any(np.abs(g).max() > 0 for g in plain)
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_peak_memory_falls_and_is_forecast(engine: Any) -> None:
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("memory is measured where kernels build quickly")
    x = tensor(np.random.default_rng(0).standard_normal((BATCH, WIDTH)).astype(np.float32))
    peaks = []
    for checkpointed in (False, True):
        model = network(checkpointed)
        # The gradients side by side in the arena, as an optimizer reads them.
        step = Recorded(lambda x, m=model: F.mean(F.concat([g.reshape(-1) for g in slopes(m, x)])), "gradients")
        engine.run([x, *(p.tensor for p in model.parameters())])
        engine.pool.trim()
        before = clnet.memory()["active"]
        engine.pool.reset_peak()
        step(x)
        engine.finish()
        peaks.append(clnet.memory()["peak"] - before)
        memory = model.summary((WIDTH,), batch=BATCH).memory
        assert abs(sum(memory[k] for k in ("activations", "gradients", "inputs")) - peaks[-1]) <= 0.1 * peaks[-1]
    inner = BATCH * 4 * WIDTH * 4 * 2 * (DEPTH - 1)  # of all blocks but one: before and behind the activation
    assert peaks[1] < peaks[0] - inner // 2


@pytest.mark.slow  # half a minute of compiling
def test_forecast_of_a_residual_network_in_training(engine: Any) -> None:
    """Convolutions, batch norm and Adam in an arena: `summary()` plans the step that training takes."""
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("memory is measured where kernels build quickly")
    registry.load_all()
    task = next(t for t in bench_steps.tasks() if t.name == "resnet20 b32")
    task = dataclasses.replace(bench_memory.checkpointed(task), x=(16, 3, 32, 32), y=(16,))
    assert 0.95 < bench_memory.forecast(task, engine) / bench_memory.measure(task, engine) < 1.05


def test_nested_regions_and_shared_inputs(engine: Any) -> None:
    x, w = (tensor(np.random.default_rng(k).standard_normal((5, 5)).astype(np.float32)) for k in range(2))

    def inner(x: Any, w: Any) -> Any:
        return F.tanh(x @ w) * x

    def outer(x: Any, w: Any) -> Any:
        return F.checkpoint(inner, F.exp(F.checkpoint(inner, x, w)), w)

    def plain(x: Any, w: Any) -> Any:
        return inner(F.exp(inner(x, w)), w)

    for f in (outer, lambda x, w: F.checkpoint(outer, x, w)):
        found = engine.values(gradients(F.sum(f(x, w)), [x, w]))
        for a, b in zip(found, engine.values(gradients(F.sum(plain(x, w)), [x, w])), strict=True):
            np.testing.assert_array_equal(a, b)


def test_parameters_in_an_arena_learn(engine: Any) -> None:
    """As a Trainer holds them: slices of one vector, some of them first asked for inside the region."""
    x = tensor(np.random.default_rng(0).standard_normal((8, WIDTH)).astype(np.float32))
    found = []
    for checkpointed in (False, True):
        model, optimizer = network(checkpointed), clnet.optimizers.SGD(lr=0.5)
        optimizer.attach(model.parameters())
        optimizer.apply(slopes(model, x), optimizer.hyper(1))
        found.append([p.numpy() for p in model.parameters()])
    start = [p.numpy() for p in network(True).parameters()]
    for a, b, old in zip(*found, start, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != old).any()


def test_tensors_used_from_outside_have_gradients(engine: Any) -> None:
    x, w = tensor(np.ones(3, np.float32)), tensor(np.arange(3, dtype=np.float32))
    outside = F.exp(w)
    found = engine.values(gradients(F.sum(F.checkpoint(lambda x: F.sin(x) * outside, x)), [x, w]))
    for a, b in zip(found, engine.values(gradients(F.sum(F.sin(x) * outside), [x, w])), strict=True):
        np.testing.assert_array_equal(a, b)


def test_second_derivative_through_a_region(engine: Any) -> None:
    x = tensor(np.linspace(-1, 1, 6, dtype=np.float32))

    def twice(f: Any) -> Any:
        (first,) = gradients(F.sum(f(x)), [x])
        return gradients(F.sum(first * first), [x])[0]

    def f(x: Any) -> Any:
        return F.sin(F.exp(x)) * x

    np.testing.assert_allclose(twice(lambda x: F.checkpoint(f, x)).numpy(), twice(f).numpy(), rtol=1e-6, atol=1e-6)
