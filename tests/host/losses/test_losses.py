"""Losses on the reference: values, reductions, sample weights, configuration, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, DataError, DTypeError, ShapeError
from clnet.losses import (
    BCELoss,
    CategoricalCrossEntropyLoss,
    ContrastiveLoss,
    CosineSimilarityLoss,
    CrossEntropyLoss,
    DiceLoss,
    DistillationLoss,
    ElasticNetLoss,
    FocalLoss,
    HingeLoss,
    KLDivLoss,
    Loss,
    MarginLoss,
    MSELoss,
    NoiseContrastiveEstimationLoss,
    OrdinalRegressionLoss,
    PoissonLoss,
    QuantileLoss,
    QuantumLoss,
    SparseCategoricalCrossEntropyLoss,
    TripletLoss,
)
from clnet.workbench.evidence.catalog import goals
from clnet.workbench.evidence.golden import load
from clnet.workbench.evidence.layer_checks import round_trip
from clnet.workbench.evidence.registry import load_all, loss_example, make_loss, subjects

LOSSES = sorted(Loss.registry)
EXAMPLES = [pytest.param(Loss.registry[name], k, id=f"{name}-{k}") for name in LOSSES
            for k in range(len(Loss.registry[name].examples))]
ALL = [pytest.param(Loss.registry[name], id=name) for name in LOSSES]

load_all()


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


@pytest.mark.parametrize(("weight", "error", "words"), [
    ([1.0, 2.0, 3.0], ShapeError, r"first axes of the values \(2, 3\)"), (1.0, ShapeError, "one number a sample"),
    ([1.0, -1.0], DataError, "at least 0")])
def test_weights_that_cannot_be(weight: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        MSELoss()(np.zeros((2, 3)), np.zeros((2, 3)), sample_weight=weight)


def test_names_are_one_loss_each() -> None:
    names = [n for cls in Loss.registry.values() for n in {cls.__name__, cls.spec_name, *cls.aliases}]
    assert len(names) == len(set(names))


Z34, NO = np.zeros((3, 4)), np.zeros(3)


@pytest.mark.parametrize(("loss", "inputs", "error", "words"), [
    (CrossEntropyLoss(), (Z34, np.array([0, 4, 1])), DataError, "got 4 at index 1"),
    (CrossEntropyLoss(), (Z34, np.array([0, 1, -1])), DataError, "got -1 at index 2"),
    (CrossEntropyLoss(), (np.zeros((2, 3, 2)), np.array([[0, 1], [9, 0]])), DataError, r"got 9 at index \(1, 0\)"),
    (CrossEntropyLoss(), (Z34, np.array([0.0, 1.0, 2.0])), DTypeError, "integer labels"),
    (CrossEntropyLoss(), (Z34, np.array([0, 1])), ShapeError, "classes go on axis 1"),
    (CrossEntropyLoss(weight=(1.0, 2.0)), (Z34, np.array([0, 1, 2])), ConfigError, "one weight per class, 4; got 2"),
    (SparseCategoricalCrossEntropyLoss(), (Z34 + 0.25, np.array([0, 4, 1])), DataError, "got 4 at index 1"),
    (SparseCategoricalCrossEntropyLoss(), (Z34, Z34), ShapeError, "one-hot targets to CategoricalCrossEntropyLoss"),
    (SparseCategoricalCrossEntropyLoss(), (Z34, NO), DTypeError, "integer labels"),
    (MarginLoss(), (Z34, np.array([0, 4, 1])), DataError, "got 4 at index 1"),
    (MarginLoss(), (Z34, Z34 + 0.5), DataError, "one-hot target"),
    (OrdinalRegressionLoss(num_classes=5), (Z34, np.array([0, 5, 1])), DataError, "got 5 at index 1"),
    (OrdinalRegressionLoss(num_classes=4), (Z34, np.array([0, 3, 1])), ShapeError, r"logits \(N, 3\) or scores \(N\)"),
    (DistillationLoss(), (Z34, Z34, np.array([0, 4, 1])), DataError, "got 4 at index 1"),
    (BCELoss(), (np.full((2,), 1.5), np.ones(2)), DataError, "from_logits=True"),
    (BCELoss(), (np.full((2,), 0.5), np.array([1.0, 2.0])), DataError, "target in"),
    (FocalLoss(), (np.full((2,), 0.5), np.array([1.0, 0.5])), DataError, r"target of \{0, 1\}; got 0.5, 1"),
    (HingeLoss(), (np.zeros(2), np.array([1.0, 2.0])), DataError, r"\{-1, 1\} or \{0, 1\}; got 1, 2"),
    (HingeLoss(), (NO, np.array([1.0, 0.0, -1.0])), DataError, "got -1, 0, 1"),
    (DiceLoss(), (NO[:, None] - 1, NO[:, None]), DataError, "take the sigmoid"),
    (KLDivLoss(), (NO[:, None] - 1, NO[:, None]), DataError, "log_input=True"),
    (PoissonLoss(), (NO - 1, NO), DataError, "log_input=True"),
    (PoissonLoss(), (NO, NO - 1), DataError, "target of at least 0"),
    (CategoricalCrossEntropyLoss(), (NO, NO), ShapeError, "classes go on axis 1"),
    (CosineSimilarityLoss(axis=2), (Z34, Z34), ShapeError, "expected an axis"),
    (QuantumLoss(), (np.zeros((2, 3)), np.zeros((2, 3))), ShapeError, "real and imaginary parts"),
    (ContrastiveLoss(), (Z34, Z34, np.zeros(4)), ShapeError, r"target \(N\)"),
    (ContrastiveLoss(), (Z34, Z34, NO + 0.5), DataError, r"\{0, 1\}"),
    (ContrastiveLoss(), (Z34, Z34), ShapeError, "expected a, b, target; got 2 inputs"),
    (TripletLoss(), (Z34, Z34, Z34[:2]), ShapeError, "negative of the anchor's shape"),
    (NoiseContrastiveEstimationLoss(), (NO, Z34), ShapeError, "set num_noise"),
    (NoiseContrastiveEstimationLoss(num_noise=4), (NO, Z34, NO), ShapeError, "expected both"),
    (MSELoss(), (np.zeros((3, 1)), NO), ShapeError, r"y\[:, None\]"),
])
def test_errors(loss: Loss, inputs: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        loss(*inputs)


@pytest.mark.parametrize(("build", "words"), [
    (lambda: QuantileLoss(quantile=1.0), r"QuantileLoss\(quantile=1.0\)"), (lambda: FocalLoss(alpha=1.5), "alpha"),
    (lambda: MSELoss(reduction="max"), "expected one of"),
    (lambda: DistillationLoss(temperature=0), "temperature"), (lambda: OrdinalRegressionLoss(), "num_classes"),
    (lambda: ElasticNetLoss(params=(1.0,)), "list of Parameters"),
    (lambda: NoiseContrastiveEstimationLoss(num_noise=0), "num_noise")])
def test_fields_that_cannot_be(build: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()


REDUCTIONS = ("mean", "sum", "none")


def test_all_of_the_catalogue_are_there() -> None:
    assert {g.name for g in goals("loss")} == set(LOSSES)
    assert len(LOSSES) == 38


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_reductions_and_slopes_are_what_others_say(cls: type[Loss], k: int) -> None:
    """The reference, in float64."""
    (subject,) = subjects(["loss"], cls.__name__)
    kept = load(subject)
    for reduction in REDUCTIONS:
        (value,) = NumpyEngine("float64").values([example_of(cls, k, reduction)])
        np.testing.assert_allclose(value, kept[f"{k}.{reduction}"], rtol=1e-9, atol=1e-9, err_msg=reduction)
    example = subject.examples()[k]
    xs = [tensor(x) for x in example.inputs]
    y = example.function(*xs)
    for j, g in enumerate(NumpyEngine("float64").values(gradients(y, xs, F.ones(y.shape, y.dtype)))):
        np.testing.assert_allclose(g, kept[f"{k}.grad.{j}"], rtol=1e-8, atol=1e-9, err_msg=example.names[j])


def example_of(cls: type[Loss], k: int, reduction: str) -> Any:
    loss, inputs = make_loss(cls, k)
    loss.reduction = reduction
    example = loss_example(loss, inputs)
    return example.function(*map(tensor, example.inputs))


@pytest.mark.parametrize("cls", ALL)
def test_reductions_agree(cls: type[Loss]) -> None:
    each, total, mean = (NumpyEngine("float64").values([example_of(cls, 0, r)])[0] for r in ("none", "sum", "mean"))
    assert total.shape == mean.shape == ()
    np.testing.assert_allclose(each.sum(), total, rtol=1e-12)


BATCH_AXIS = {"CTCLoss": (1, 0, 0, 0)}
UNWEIGHTED = {"PhysicsInformedLoss": "no samples", "ElasticNetLoss": "a penalty on predictions does not count samples"}


def repeated(x: Any, counts: Any, axis: int) -> Any:
    return np.repeat(x, counts, axis)


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_a_weight_is_a_number_of_samples(cls: type[Loss], k: int) -> None:
    loss, inputs = make_loss(cls, k)
    if cls.__name__ in UNWEIGHTED or (cls.__name__ == "CTCLoss" and k):
        pytest.skip(UNWEIGHTED.get(cls.__name__, "targets one after the other"))
    axes = BATCH_AXIS.get(cls.__name__, (0,) * len(inputs))
    counts = np.arange(inputs[0].shape[axes[0]]) % 3
    more = [repeated(x, counts, axis) for x, axis in zip(inputs, axes, strict=True)]
    for loss.reduction in ("mean", "sum"):
        got, want = loss(*inputs, sample_weight=counts), loss(*more)
        np.testing.assert_allclose(*NumpyEngine("float64").values([got, want]), rtol=1e-12, atol=1e-15)


def test_weights_of_other_shapes() -> None:
    p, y = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    w = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    assert MSELoss()(p, y, sample_weight=w).item() == pytest.approx((w * p * p).sum() / w.sum())
    assert MSELoss(reduction="none")(p, y, sample_weight=[0.5, 2.0]).numpy().tolist() == [[0, 0.5, 2], [18, 32, 50]]
    assert MSELoss()(p, y, sample_weight=[0.0, 0.0]).item() == 0
    assert MSELoss()(np.array([np.inf, 1.0]), np.zeros(2), sample_weight=[0.0, 1.0]).item() == 1
    loss = CrossEntropyLoss(weight=(1.0, 3.0), ignore_index=-1)
    z, labels = np.array([[1.0, 2.0], [0.5, 0.0], [3.0, 1.0]]), np.array([1, 0, -1])
    each = CrossEntropyLoss(reduction="none", ignore_index=-1)(z, labels).numpy()
    assert loss(z, labels, sample_weight=[2.0, 1.0, 5.0]).item() == pytest.approx((6 * each[0] + each[1]) / 7, rel=1e-6)


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_configuration_round_trip(cls: type[Loss], k: int) -> None:
    loss, _ = make_loss(cls, k)
    result = round_trip(loss)
    assert result, str(result)
    assert all(Loss.lookup(name) is cls for name in (cls.__name__, cls.spec_name, *cls.aliases))
