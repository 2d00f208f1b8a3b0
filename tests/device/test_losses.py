"""Every registered loss on every device: value and slope, independent values, reductions, sample weights, configuration, training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.autodiff import gradients
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, DataError, DTypeError, ShapeError
from clnet.layers import Dense
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
from clnet.model import Sequential
from clnet.optimizers import Adam
from clnet.tensor import tensor
from clnet.train import Trainer
from clnet.workbench import golden
from clnet.workbench.catalog import goals
from clnet.workbench.golden import compare as golden_values
from clnet.workbench.golden import load
from clnet.workbench.layer_checks import loss_parity, round_trip, slope
from clnet.workbench.registry import load_all, loss_example, make_loss, subjects

load_all()
LOSSES = sorted(Loss.registry)
EXAMPLES = [pytest.param(Loss.registry[name], k, id=f"{name}-{k}") for name in LOSSES for k in range(len(Loss.registry[name].examples))]
ALL = [pytest.param(Loss.registry[name], id=name) for name in LOSSES]
REDUCTIONS = ("mean", "sum", "none")


def given(loss: Loss, inputs: list[Any]) -> list[Any]:
    return [tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]


def test_all_of_the_catalogue_are_there() -> None:
    assert {g.name for g in goals("loss")} == set(LOSSES)
    assert len(LOSSES) == 38


# --- values and slopes
@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_value_and_slope(cls: type[Loss], k: int, device: Any) -> None:
    if k and device.device.runtime == "pocl":
        pytest.skip("first example only: its compiler is slow")
    result = loss_parity(cls, k, device)
    assert result, str(result)


@pytest.mark.device
@pytest.mark.parametrize("cls", ALL)
def test_independent_values(cls: type[Loss], device: Any) -> None:
    (subject,) = subjects(["loss"], cls.__name__)
    found = golden_values(subject, device)
    assert len(found) >= 2
    assert all(found), "; ".join(str(r) for r in found if not r)


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


@pytest.mark.device
@pytest.mark.parametrize("cls", ALL)
def test_value_and_grad_is_one_with_the_separate_calls(cls: type[Loss], device: Any) -> None:
    loss, inputs = make_loss(cls)
    got = slope(loss, *given(loss, inputs), engine=device)
    want = slope(loss, *given(loss, inputs))
    assert len(got) == 1 + (loss.differentiated if isinstance(inputs[0], np.ndarray) else len(inputs[0].parameters()))
    np.testing.assert_allclose(got[0], loss(*given(loss, inputs)).numpy(), rtol=1e-6)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


# --- sample weights: 2 is the sample twice, 0 is the sample left out
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


@pytest.mark.parametrize(("weight", "error", "words"), [
    ([1.0, 2.0, 3.0], ShapeError, r"first axes of the values \(2, 3\)"), (1.0, ShapeError, "one number a sample"), ([1.0, -1.0], DataError, "at least 0")])
def test_weights_that_cannot_be(weight: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        MSELoss()(np.zeros((2, 3)), np.zeros((2, 3)), sample_weight=weight)


# --- configuration
@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_configuration_round_trip(cls: type[Loss], k: int) -> None:
    loss, _ = make_loss(cls, k)
    result = round_trip(loss)
    assert result, str(result)
    assert all(Loss.lookup(name) is cls for name in (cls.__name__, cls.spec_name, *cls.aliases))


def test_names_are_one_loss_each() -> None:
    names = [n for cls in Loss.registry.values() for n in {cls.__name__, cls.spec_name, *cls.aliases}]
    assert len(names) == len(set(names))


# --- training
RNG = np.random.default_rng(0)
X = RNG.standard_normal((48, 4)).astype(np.float32)
SCORE = (X @ np.array([1.0, -2.0, 0.5, 1.5], np.float32))[:, None]
TRAINED: dict[str, tuple[dict[str, Any], int, str | None, Any]] = {  # fields, outputs, last activation, target
    **dict.fromkeys(("MSELoss", "MAELoss", "RMSELoss", "HuberLoss", "LogCoshLoss", "QuantileLoss", "CharbonnierLoss", "ElasticNetLoss"), ({}, 1, None, SCORE)),
    **dict.fromkeys(("HingeLoss", "SquaredHingeLoss", "ExponentialLoss", "ModifiedHuberLoss", "WassersteinLoss"), ({}, 1, None, np.sign(SCORE))),
    **dict.fromkeys(("BCELoss", "FocalLoss"), (dict(from_logits=True), 1, None, (SCORE > 0).astype(np.float32))),
    **dict.fromkeys(("WeightedCrossEntropyLoss", "DiceLoss", "JaccardLoss"), ({}, 1, "sigmoid", (SCORE > 0).astype(np.float32))),
    "CrossEntropyLoss": ({}, 3, None, np.digitize(SCORE[:, 0], (-1, 1))), "MarginLoss": ({}, 3, "sigmoid", np.digitize(SCORE[:, 0], (-1, 1))),
    "SparseCategoricalCrossEntropyLoss": ({}, 3, "softmax", np.digitize(SCORE[:, 0], (-1, 1))),
    "OrdinalRegressionLoss": (dict(num_classes=3), 1, None, np.digitize(SCORE[:, 0], (-1, 1))),
    **dict.fromkeys(("CategoricalCrossEntropyLoss", "KLDivLoss"), ({}, 3, "softmax", np.eye(3, dtype=np.float32)[np.digitize(SCORE[:, 0], (-1, 1))])),
    "PoissonLoss": (dict(log_input=True), 1, None, np.floor(np.exp(SCORE.clip(-1, 2)))), "ScaleInvariantDepthLoss": ({}, 4, "softplus", np.exp(X)),
    "CosineSimilarityLoss": ({}, 3, None, X[:, :3]), "QuantumLoss": ({}, 4, None, X),
}


@pytest.mark.device
@pytest.mark.parametrize("name", sorted(TRAINED))
def test_a_trainer_makes_it_smaller(name: str, device: Any) -> None:
    if device.device.runtime == "pocl" and name not in ("HingeLoss", "OrdinalRegressionLoss"):
        pytest.skip("two of them: its compiler is slow")
    fields, outputs, last, target = TRAINED[name]
    loss = Loss.registry[name](**fields)
    trainer = Trainer(Sequential(Dense(out_features=outputs, activation=last)), loss, Adam(lr=0.05), metrics=())
    history = trainer.fit((X, target), epochs=6, batch_size=16, verbose=False)
    losses = history["loss"]
    assert losses[-1] < losses[0]
    assert np.isfinite(losses).all()


# --- data and fields that cannot be
@pytest.mark.device
def test_a_label_only_the_device_has_gives_nan(device: Any) -> None:
    labels = tensor(np.array([1, 3], np.int32)) + 0
    for loss in (CrossEntropyLoss(reduction="none"), SparseCategoricalCrossEntropyLoss(reduction="none")):
        value = loss(np.full((2, 3), 0.3, np.float32), labels).numpy()
        assert np.isfinite(value[0])
        assert np.isnan(value[1])


@pytest.mark.device
def test_float64_targets_do_not_widen_the_loss(device: Any) -> None:
    p = tensor(np.zeros((2, 3), np.float32))
    assert MSELoss()(p, np.ones((2, 3))).dtype == "float32"
    assert MSELoss()(p, np.ones((2, 3), np.int64)).item() == 1.0


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
    (lambda: ElasticNetLoss(params=(1.0,)), "list of Parameters"), (lambda: NoiseContrastiveEstimationLoss(num_noise=0), "num_noise")])
def test_fields_that_cannot_be(build: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()


def test_golden_files_say_where_they_come_from() -> None:
    for name in golden.names("loss"):
        assert str(golden.read("loss", name)["source"])
        assert name in LOSSES
