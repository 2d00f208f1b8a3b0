"""Metrics follow the loss and the shapes, and an epoch's number is that of all its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from clnet import init
from clnet.errors import ConfigError, DataError, NonFiniteError
from clnet.layers import Activation, Dense, Softmax
from clnet.losses import (
    BCELoss,
    CategoricalCrossEntropyLoss,
    CrossEntropyLoss,
    FocalLoss,
    HingeLoss,
    MarginLoss,
    MSELoss,
    OrdinalRegressionLoss,
    PoissonLoss,
    SparseCategoricalCrossEntropyLoss,
)
from clnet.metrics import METRICS
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Trainer, metric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(83, 5)).astype(np.float32)
YES = (X[:, :1] > 0).astype(np.float32)
CLASS = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0)


def trainer(loss: Any, outputs: int, *last: Any, **more: Any) -> Trainer:
    init.seed(0)
    return Trainer(Sequential(Dense(in_features=5, out_features=outputs), *last), loss, SGD(lr=0.01), **more)


FITTING = {
    "classes": (CrossEntropyLoss(), 3, (), CLASS, ["accuracy"]),
    "one-hot": (CrossEntropyLoss(), 3, (), np.eye(3, dtype=np.float32)[CLASS], ["accuracy"]),
    "probabilities of classes": (SparseCategoricalCrossEntropyLoss(), 3, (Softmax(),), CLASS, ["accuracy"]),
    "lengths of capsules": (MarginLoss(), 3, (Activation("sigmoid"),), CLASS, ["accuracy"]),
    "scores of ranks": (OrdinalRegressionLoss(num_classes=3), 1, (), CLASS, ["accuracy"]),
    "a probability": (BCELoss(), 1, (Activation("sigmoid"),), YES, ["binary_accuracy"]),
    "a logit": (BCELoss(from_logits=True), 1, (), YES.astype(np.uint8), ["binary_accuracy"]),
    "a margin": (HingeLoss(), 1, (), 2 * YES - 1, ["binary_accuracy"]),
    "several labels": (FocalLoss(from_logits=True), 3, (), X[:, :3] > 0, ["label_accuracy"]),
    "a number": (MSELoss(), 1, (), X[:, :1], ["rmse", "r2"]),
    "several numbers": (MSELoss(), 3, (), X[:, 1:4] * 3 + 1000, ["rmse", "r2"]),
    "more numbers than R² is taken of": (MSELoss(), 17, (), np.repeat(X[:, :1], 17, 1), ["rmse"]),
    "rates": (PoissonLoss(), 1, (Activation("softplus"),), YES, ["rmse", "r2"]),
    "logarithms of rates": (PoissonLoss(log_input=True), 1, (), YES, []),
    "a function": (lambda p, y: ((p - y) ** 2).mean(), 1, (), YES, []),
}


@pytest.mark.parametrize("case", FITTING)
def test_defaults_fit_the_loss_and_the_shapes(engine: Any, case: str) -> None:
    loss, outputs, last, y, names = FITTING[case]
    made = trainer(loss, outputs, *last)
    history = made.fit((X, y), 1, 32, validation=(X, y), verbose=False)
    assert [c for c in history.columns() if c not in ("epoch", "lr", "seconds", "samples/s")] == [
        "loss", *names, "val_loss", *(f"val_{n}" for n in names)]
    found, given = made.evaluate((X, y)), made.predict(X)
    if "accuracy" in names:
        ranks = isinstance(loss, OrdinalRegressionLoss)
        classes = (given[:, 0, None] > loss.thresholds.numpy()).sum(1) if ranks else given.argmax(1)
        assert found["accuracy"] == pytest.approx(accuracy_score(CLASS, classes))
    elif names and names[0].endswith("accuracy"):
        assert found[names[0]] == pytest.approx(((given > (0.5 if case == "a probability" else 0)) == (y > 0.5)).mean())
        assert 0 < found[names[0]] < 1
    elif names:
        assert found["rmse"] == pytest.approx(np.sqrt(((given.astype(np.float64) - y) ** 2).mean()), rel=1e-5)
        if "r2" in names:
            assert found["r2"] == pytest.approx(r2_score(y, given), rel=1e-4)


def test_an_epochs_number_is_not_the_mean_of_its_batches(engine: Any) -> None:
    """Batches that differ, the last one short: R² and RMSE are of all samples, as scikit-learn's."""
    order = np.argsort(X[:, 0])
    x, y = X[order], (X[order, :1] * 40 + 1e4).astype(np.float32)
    made = trainer(MSELoss(), 1, metrics=("rmse", "r2", "mae", "mse"))
    made.model.variables()["layers.0.bias"].assign(np.array([1e4], np.float32))
    found, given = made.evaluate((x, y), batch_size=10), made.predict(x)
    assert found["r2"] == pytest.approx(r2_score(y, given), abs=1e-4)
    assert found["rmse"] == pytest.approx(root_mean_squared_error(y, given), rel=1e-5)
    assert found["mse"] == pytest.approx(found["rmse"] ** 2, rel=1e-6)
    assert found["mae"] == pytest.approx(np.abs(given - y).mean(), rel=1e-5)


def test_ignored_labels_do_not_count(engine: Any) -> None:
    y = CLASS.copy()
    y[:40] = -100
    made = trainer(CrossEntropyLoss(), 3)
    found = made.evaluate((X, y))
    assert found["accuracy"] == pytest.approx((made.predict(X).argmax(1) == CLASS)[40:].mean())


@pytest.mark.parametrize(("loss", "outputs", "last", "y", "asked", "words"), [
    (MSELoss(), 1, (), X[:, :1], "accuracy", "choose 'rmse' or 'r2'"),
    (BCELoss(), 1, (Activation("sigmoid"),), YES, "accuracy", "which reads probabilities; choose 'binary_accuracy'"),
    (CrossEntropyLoss(), 3, (), CLASS, "binary_accuracy", "choose 'accuracy'"),
    (CrossEntropyLoss(), 3, (), CLASS, "r2", "choose 'accuracy'"),
    (lambda p, y: (p * y).mean(), 1, (), YES, "binary_accuracy", "leave it out, or pass a function"),
    (MSELoss(), 17, (), np.repeat(X[:, :1], 17, 1), "r2", "at most 16 numbers a sample"),
])
def test_a_metric_that_does_not_fit_names_the_one_that_does(engine: Any, loss: Any, outputs: int, last: Any, y: Any,
                                                            asked: str, words: str) -> None:
    made = trainer(loss, outputs, *last, metrics=(asked,))
    for run in (lambda: made.fit((X, y), 1, verbose=False), lambda: made.evaluate((X, y))):
        with pytest.raises(ConfigError, match=words):
            run()


def test_functions_are_metrics_too(engine: Any) -> None:
    def bias(output: Any, target: Any) -> Any:
        return (output - target).mean()

    made = trainer(MSELoss(), 1, metrics=("rmse", bias))
    assert made.evaluate((X, YES), batch_size=10)["bias"] == pytest.approx((made.predict(X) - YES).mean(), abs=1e-6)
    with pytest.raises(ConfigError, match="expected whole to give a scalar"):
        def whole(output: Any, target: Any) -> Any:
            return output - target
        trainer(MSELoss(), 1, metrics=(whole,)).evaluate((X, YES))
    try:
        metric(bias)
        assert list(trainer(MSELoss(), 1, metrics="bias").evaluate((X, YES))) == ["loss", "bias"]
    finally:
        del METRICS["bias"]


def test_numbers_of_classes_are_scikit_learns_over_batches_of_any_size(engine: Any) -> None:
    """Counts are summed on the device and scores kept there; the last batch is short and some labels do not count."""
    y = CLASS.copy()
    y[:9] = -100
    made = trainer(CrossEntropyLoss(), 3, metrics=["f1", "roc_auc", "confusion_matrix"])
    p = made.predict_proba(X)[9:].astype(np.float64)
    found = made.evaluate((X, y), batch_size=24)
    assert found["f1"] == pytest.approx(f1_score(CLASS[9:], p.argmax(1), average="macro"), abs=1e-6)
    auc = roc_auc_score(CLASS[9:], p / p.sum(1, keepdims=True), multi_class="ovr")
    assert found["roc_auc"] == pytest.approx(auc, abs=1e-6)
    assert np.array_equal(found["confusion_matrix"], confusion_matrix(CLASS[9:], p.argmax(1)))


OUTSIDE = [(BCELoss(), 1, YES,
            r"Activation\(\"sigmoid\"\) as the model's last layer, or say BCELoss\(from_logits=True\)"),
           (SparseCategoricalCrossEntropyLoss(), 3, CLASS, r"Softmax\(\)"),
           (CategoricalCrossEntropyLoss(), 3, np.eye(3)[CLASS], r"Softmax\(\)")]


@pytest.mark.parametrize(("loss", "outputs", "y", "words"), OUTSIDE)
def test_outputs_that_are_no_probabilities_are_noticed(engine: Any, loss: Any, outputs: int, y: Any,
                                                       words: str) -> None:
    """At the first look at the losses, with no number read for it: the loss of such an output is NaN."""
    made = trainer(loss, outputs)
    before = made.model[0].weight.numpy()
    with pytest.raises(NonFiniteError, match=words):
        made.fit((X, y), 1, verbose=False)
    assert np.array_equal(made.model[0].weight.numpy(), before)
    with pytest.raises(DataError, match=words):
        made.evaluate((X, y))
