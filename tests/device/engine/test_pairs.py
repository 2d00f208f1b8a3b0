"""Ops of one launch: a loss and its slope read the logits once, with the values that each has alone; where one needs
the other, two launches.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS, Kernel
from clnet.core.tensor import Tensor, tensor
from clnet.engine import on
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss, DistillationLoss
from clnet.model import Sequential
from clnet.optimizers import Adam
from clnet.train import Trainer
from clnet.workbench.evidence.cases import arrays, cases

PAIRS = sorted(name for name, op in OPS.items() if isinstance(op, Kernel) and op.twin)
ORACLE = NumpyEngine()
rng = np.random.default_rng(12)


@pytest.fixture(params=["", "as gpu"])
def either(request: pytest.FixtureRequest, engine: Any, as_gpu: Any) -> Any:
    """The engine of a device as it is, and with the kernels of GPUs."""
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    if not request.param:
        return engine
    if engine.device.kind == "gpu":
        pytest.skip("it is one")
    return as_gpu(engine)


@pytest.fixture
def launching(engine: Any) -> Any:
    if engine.device.is_host:
        pytest.skip("the host engine has no launches")
    return engine


def logits(rows: int, n: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal((rows, n), np.float32) * 3


def reading(outputs: list[Tensor], x: Tensor) -> list[Any]:
    """The launches that read the leaf x."""
    found = explain(*outputs)
    (leaf,) = [k for k, t in enumerate(found.graph.leaves) if t is x]
    return [s for s in found.plan.launches if any(p.kind == "leaf" and p.number == leaf for p in s.reads)]


def alone_and_together(engine: Any, make: Any) -> None:
    """make() records (value, gradient) anew."""
    value, gradient = make()
    with on(engine):
        launches = explain(value, gradient).plan.launches
        assert sum("cross_entropy" in s.ops for s in launches) == 1
        assert any({"cross_entropy", "cross_entropy_slope"} <= set(s.ops) for s in launches)
        together = engine.values([value, gradient])
        alone = [engine.values([make()[k]])[0] for k in range(2)]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(a, np.float64), np.asarray(b, np.float64))


# --- values
@pytest.mark.parametrize("name", PAIRS)
def test_both_are_what_each_is_alone(name: str, either: Any) -> None:
    op = OPS[name]
    every = cases(op)
    assert every
    for case in every:
        given = [tensor(a) for a in arrays(op, case)]
        both = [o(*given[: len(o.args)], **case.attrs) for o in (op, op.twin)]
        for o, mine in zip((op, op.twin), either.values(both), strict=True):
            (single,) = either.values([o(*given[: len(o.args)], **case.attrs)])
            np.testing.assert_array_equal(mine, single, err_msg=f"{o.name}: {case}")


@pytest.mark.parametrize("rows, n, smoothing", [(64, 1000, 0.0), (3, 9001, 0.1), (301, 5, 0.0), (1, 33, 0.2)])
def test_rows_of_all_lengths(rows: int, n: int, smoothing: float, either: Any) -> None:
    x, labels = tensor(logits(rows, n)), rng.integers(0, n, rows)
    labels[::3] = -100

    def make() -> tuple[Tensor, Tensor]:
        loss = F.mean(F.cross_entropy(x, labels, smoothing=smoothing))
        return loss, gradients(loss, [x])[0]

    alone_and_together(either, make)


def test_extremes(either: Any) -> None:
    """Infinite and huge logits, rows of −∞, NaN, labels to ignore and labels that are no class,
    which only the device has.
    """
    x = logits(12, 20)
    x[0], x[1, 3], x[2, 4], x[3], x[4, 5], x[5] = -np.inf, np.inf, -np.inf, 1e4 * np.sign(x[3]), np.nan, 3e38
    hidden = tensor(np.array([0, 3, 4, 1, 2, 3, -1, 20, -100, 5, 6, 7])) + 0
    line = tensor(x)
    nothing = tensor(np.full(12, -100)) + 0

    def some_left(ignored: int) -> tuple[Tensor, Tensor]:
        each = F.cross_entropy(line, hidden, ignore_index=ignored)
        return each, gradients(F.sum(each), [line])[0]

    def none_left() -> tuple[Tensor, Tensor]:
        loss = CrossEntropyLoss()(line, nothing)
        return loss, gradients(loss, [line])[0]

    for ignored in (-100, 20):
        alone_and_together(either, functools.partial(some_left, ignored))

    alone_and_together(either, none_left)
    value, slope = either.values(list(none_left()))
    assert value == 0 and not slope.any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_logits_of_other_widths(dtype: str, either: Any) -> None:
    if dtype == "float64" and not either.device.fp64:
        pytest.skip("no float64 here")
    x, labels = tensor(logits(40, 64)).astype(dtype), rng.integers(0, 64, 40)
    with on(either):
        x.numpy()

    def make() -> tuple[Tensor, Tensor]:
        loss = F.mean(F.cross_entropy(x.astype("float32") if dtype != "float64" else x, labels))
        return loss, gradients(loss, [x])[0]

    assert make()[1].dtype == dtype
    alone_and_together(either, make)


# --- launches
def test_a_step_reads_the_logits_once(launching: Any) -> None:
    """Value and gradient, the factor 1 / N in it: one launch, which moves the logits,
    the gradient, the labels and a value a row.
    """
    x, labels = tensor(logits(64, 48)), tensor(rng.integers(0, 48, 64).astype(np.int32))
    for factor in (1.0, tensor(np.float32(1024.0))):
        loss = F.mean(F.cross_entropy(x, labels)) * factor
        (step,) = reading([loss, *gradients(loss, [x])], x)
        assert abs(step.nbytes - (2 * x.spec.nbytes + labels.spec.nbytes + 64 * 4)) <= 4
        assert len(explain(loss, *gradients(loss, [x])).launches) == 2
        assert "cross_entropy_slope" not in {o for s in explain(loss).plan.launches for o in s.ops}
        assert not {"cross_entropy"} & {o for s in explain(*gradients(loss, [x])).plan.launches for o in s.ops}


WEIGHTS = tuple(np.linspace(0.5, 2, 48))


@pytest.mark.parametrize("fields", [dict(ignore_index=3), dict(weight=WEIGHTS), dict(label_smoothing=0.1),
                                    dict(ignore_index=3, reduction="sum")], ids=str)
def test_factors_from_labels_come_first(fields: dict[str, Any], launching: Any) -> None:
    """A mean divides by what the labels count, which the loss waits for,
    so that the gradient is written once, multiplied.
    """
    x, labels = tensor(logits(64, 48)), rng.integers(0, 48, 64)
    value, slope = CrossEntropyLoss(**fields).value_and_grad(x, labels)
    (step,) = reading([value, slope], x)
    assert "mul" in step.ops and {"cross_entropy", "cross_entropy_slope"} <= set(step.ops)
    plan = explain(value, slope).plan
    assert plan.outputs[1] in step.writes and len([s for s in plan.launches if "cross_entropy" in s.ops]) == 1
    for mine, oracle in zip(launching.values([value, slope]), ORACLE.values([value, slope]), strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_steps(precision: str, launching: Any) -> None:
    """One launch for the loss and its gradient, also where the loss is scaled
    and the logits are of 16 bits; ten steps learn.
    """
    if launching.device.runtime == "pocl" and precision != "fp32":
        pytest.skip("one precision is enough where compiling is slow")
    labels = rng.integers(0, 12, 96)
    x = (np.eye(12, 20)[labels] + 0.1 * rng.standard_normal((96, 20))).astype(np.float32)
    trainer = Trainer(Sequential(Dense(out_features=12)), CrossEntropyLoss(), Adam(lr=0.05),
                      precision=None if precision == "fp32" else precision, metrics=())
    history = trainer.fit((x, labels), 5, 32, verbose=False)
    assert history["loss"][-1] < history["loss"][0]
    (replay,) = trainer.steps.train.replays.values()
    kept = [s for s in replay.plan.launches if {"cross_entropy", "cross_entropy_slope"} & set(s.ops)]
    assert len(kept) == 1, str(replay.plan)
    elements = 32 * 12
    stored = {"fp32": 4, "bf16": 2, "fp16": 2}[precision]
    assert kept[0].nbytes <= 2 * stored * elements + 32 * (8 + 4) + 64


# --- where the factor is made of the value
def test_a_factor_made_of_the_value_keeps_two_launches(launching: Any) -> None:
    x, labels = tensor(logits(16, 8)), rng.integers(0, 8, 16)
    each = F.cross_entropy(x, labels)
    for loss in (F.sum(each * each), F.exp(F.mean(each))):
        outputs = [loss, *gradients(loss, [x])]
        assert len(reading(outputs, x)) == 2
        for mine, oracle in zip(launching.values(outputs), ORACLE.values(outputs), strict=True):
            np.testing.assert_allclose(mine, oracle, rtol=2e-5, atol=1e-6)


def test_losses_that_are_each_others_factors(launching: Any) -> None:
    """Of a product of two losses at most one can wait for the other."""
    x, z = tensor(logits(16, 8)), tensor(logits(16, 9))
    labels = rng.integers(0, 8, 16)
    loss = F.mean(F.cross_entropy(x, labels)) * F.mean(F.cross_entropy(z, labels))
    outputs = [loss, *gradients(loss, [x, z])]
    assert len(reading(outputs, x)) + len(reading(outputs, z)) == 3
    for mine, oracle in zip(launching.values(outputs), ORACLE.values(outputs), strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=2e-5, atol=1e-6)


def test_beside_other_terms(launching: Any) -> None:
    """Another loss of the same logits, a penalty on the gradient, one class, a step of a step."""
    x, t, labels = tensor(logits(16, 8)), logits(16, 8), rng.integers(0, 8, 16)
    value, slope = DistillationLoss().value_and_grad(x, t, labels)
    loss = F.mean(F.cross_entropy(x, labels))
    (g,) = gradients(loss, [x])
    inner = F.mean(F.cross_entropy(x - g, labels))
    penalty = loss + F.sum(g * g)
    one = tensor(logits(5, 1))
    alone = F.sum(F.cross_entropy(one, np.zeros(5, np.int64)))
    for outputs in ([value, slope], [penalty, *gradients(penalty, [x])], [inner, *gradients(inner, [x])],
                    [alone, *gradients(alone, [one])]):
        for mine, oracle in zip(launching.values(outputs), ORACLE.values(outputs), strict=True):
            np.testing.assert_allclose(mine, oracle, rtol=5e-5, atol=2e-6)


# --- normalisations: the gradient of the rows, and sums over rows
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("rows, n, dtype", [(700, 96, "float32"), (301, 5, "bfloat16"), (40, 4096, "float32"),
                                            (9, 4097, "float32"), (5, 8193, "float32"), (33, 64, "float16")])
def test_all_gradients_of_a_normalisation_read_its_rows_once(rows: int, n: int, dtype: str, kind: str,
                                                             either: Any) -> None:
    """Up to the length that registers (GPU) or private memory (CPU) hold. What the row's gradient is added to melts in.
    """
    x, g, rest = (tensor(rng.standard_normal((rows, n), np.float32)).astype(dtype) for _ in range(3))
    x, g, rest = (tensor(t.numpy()) for t in (x, g, rest))
    gamma, beta = (tensor(rng.standard_normal(n, np.float32)) for _ in range(2))

    def made() -> list[Tensor]:
        parameters = [gamma, beta] if kind == "layer_norm" else [gamma]
        y = getattr(F, kind)(x, *parameters)
        to_x, *others = gradients(y, [x, *parameters], g)
        return [to_x * 0.5 + rest, *others]

    with on(either):
        steps = [s for s in reading(made(), x) if s.name != "columns"]  # which is handed what the stage before it read
        assert len(steps) == (1 if n <= (4096 if either.device.kind == "gpu" else 8192) else 2)
        together = either.values(made())
    for mine, exact in zip(together, ORACLE.values(made()), strict=True):
        narrow = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
        np.testing.assert_allclose(np.asarray(mine, np.float64), exact, rtol=narrow, atol=narrow * np.abs(exact).max())
