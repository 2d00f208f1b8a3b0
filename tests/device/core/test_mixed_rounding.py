"""Mixed precision against an oracle that rounds where memory does: from step to step, and value by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import init, layers
from clnet.core.op import View
from clnet.core.recording import eager
from clnet.core.spec import is_float
from clnet.core.state import capture
from clnet.core.tensor import as_tensor, walk
from clnet.engine.reference import NumpyEngine
from clnet.layers import MaxPool2d
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Trainer, data
from clnet.train.examples import BATCH, MODELS, digits_model

DIGITS = data.load("digits").split(0.2, 0)


def smooth_cnn() -> Sequential:
    """The digits' cnn with averages in the place of maxima and without ReLU."""
    init.seed(0)
    kept = [layer for layer in MODELS["cnn"]() if not isinstance(layer, layers.Activation)]
    return Sequential([layers.AvgPool2d(kernel_size=2) if isinstance(layer, MaxPool2d) else layer
                       for layer in kept]).build((1, 8, 8))


def unlike(n: int) -> Any:
    """n digits without equal pixels: where one value is rounded to its neighbour, hundreds like it are not as well."""
    x = DIGITS[0].x[:n]
    return x + 0.1 * np.random.default_rng(0).standard_normal(x.shape, np.float32), DIGITS[0].y[:n]


@pytest.mark.parametrize("kind", [pytest.param("mlp", marks=pytest.mark.slow), "cnn"])
def test_losses_follow_those_of_the_rounding_oracle(kind: str, engine: Any) -> None:
    """Sums in another order round some values to their neighbour, and each step makes some three times of that,
    whatever the kernels.

    So each step is compared from the same state, that of the oracle, beside the steps of a training on its own.
    Gradients of ReLU and of maxima jump where a value is rounded to its neighbour across 0 or another value, on any
    device: one such element of 16384 moves an update by 2e-3 to 5e-3. So this cnn has none of them, and the next test
    compares one that has value by value.
    """
    if kind == "cnn" and engine.device.runtime == "pocl":
        pytest.skip("PoCL compiles slowly")
    oracle, batch, (x, y) = NumpyEngine(rounded=True), 5 * BATCH, unlike(20 * BATCH)

    def made(precision: str) -> Trainer:
        return Trainer(smooth_cnn() if kind == "cnn" else digits_model(kind), CrossEntropyLoss(), SGD(lr=0.01),
                       precision=precision)

    def stepped(trainer: Trainer, k: int) -> tuple[float, Any]:
        part = slice(k * batch, (k + 1) * batch)
        loss = trainer.fit((x[part], y[part]), 1, batch, verbose=False).steps[-1]
        return loss, np.concatenate([p.numpy().ravel() for p in trainer.model.parameters()])

    for precision, alike, moved, alone in (("bf16", 4e-5, 2**-7, 2e-4), ("fp16", 1e-5, 2**-10, 5e-5)):
        single, follower = made(precision), made(precision)
        with clnet.on(oracle):
            leader = made(precision)
        for k in range(4):
            start = np.concatenate([p.numpy().ravel() for p in leader.model.parameters()])
            for mine, its in zip(follower.model.variables().values(), leader.model.variables().values(), strict=True):
                mine.assign(its.numpy())
            with clnet.on(oracle):
                loss, end = stepped(leader, k)
            led, there = stepped(follower, k)
            assert led == pytest.approx(loss, rel=alike)
            assert np.linalg.norm(there - end) <= moved * np.linalg.norm(end - start)
            assert stepped(single, k)[0] == pytest.approx(loss, rel=alone)


def updates_of_a_step(trainer: Trainer, x: Any, y: Any) -> list[Any]:
    """What the next training step of the trainer would assign, recorded only."""
    with eager(False), capture() as before:
        trainer.steps.formulas.train(*map(as_tensor, (x, y, trainer.steps.arguments(trainer.optimizer.t, 0))))
        roots = [v.tensor for v in before]
    for v, old in before.items():
        v._tensor = old
    return roots


@pytest.mark.parametrize("precision", [pytest.param("bf16", marks=pytest.mark.slow), "fp16"])
def test_every_value_of_a_step_is_the_one_that_its_inputs_make(precision: str, engine: Any) -> None:
    """Each op of a training step of the digits' cnn from the device's own values of its inputs: no error of an earlier
    one hides or makes another.

    16-bit values: the neighbour of the exact one where that lies in the middle but for float32's error, which is rare;
    else the nearest.
    """
    if engine.device.runtime == "pocl":
        pytest.skip("PoCL compiles slowly")
    exactly, rounding, batch = NumpyEngine(), NumpyEngine(rounded=True), DIGITS[0].take(slice(BATCH))
    trainer = Trainer(digits_model("cnn"), CrossEntropyLoss(), SGD(lr=0.01), precision=precision)
    trainer.fit(batch, 1, BATCH, verbose=False)
    roots = updates_of_a_step(trainer, batch.x.astype(np.float32), batch.y.astype(np.int32))
    # constants stay float32 in kernels
    parts = [t for t in walk(roots) if t.op is not None and not isinstance(t.op, View) and t.op.name != "full"]
    known = {id(t): exactly._cast(v, t.dtype) for t, v in zip(parts, engine.values(parts), strict=True)}
    computed, names = set(known), set()
    for t in walk(roots):
        if t.op is None:
            exact = exactly._leaf(t)
        else:
            exact = exactly._cast(np.asarray(t.op.ref(*(known[id(i)] for i in t.inputs), **t.attrs)), t.dtype)
        found = known.setdefault(id(t), exact)
        if id(t) not in computed or not t.size:
            continue
        names.add(t.op.name)
        if not is_float(t.dtype):
            assert np.array_equal(found, exact), t
            continue
        noise = 2e-6 * np.abs(exact).max()
        if t.dtype == "float32":
            np.testing.assert_allclose(found, exact, rtol=1e-5, atol=noise, err_msg=str(t))
            continue
        off, near = np.abs(found - exact), np.abs(rounding._cast(exact, t.dtype) - found)
        ulp = np.maximum(np.abs(exact), 2.0**-14) * (2.0**-7 if precision == "bf16" else 2.0**-10)
        assert np.all(off <= ulp * 0.5001 + noise), t
        assert np.mean(near > 0) <= 0.01, t
    assert {"conv", "conv_data_gradient", "conv_weight_gradient", "max_pool", "max_pool_gradient", "standardize_affine",
            "matmul", "relu"} <= names
