"""Metrics equal scikit-learn's: as functions on arrays, and in a Trainer whose batches are uneven."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as theirs

import clnet
from clnet import Trainer, metrics
from clnet.errors import ConfigError, DataError
from clnet.layers import Conv2d, Dense, Softmax
from clnet.losses import BCELoss, CrossEntropyLoss, SparseCategoricalCrossEntropyLoss
from clnet.metrics import F1, CohenKappa, Confusion, TopK
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Callback, Checkpoint, EarlyStopping
from clnet.train.metrics import resolve

DRAWS = np.random.default_rng(0)
N = 150
WEIGHTS = {"alike": None, "weighted": DRAWS.random(N)}
RATIOS: dict[str, Callable[..., Any]] = {
    "f1": theirs.f1_score, "precision": theirs.precision_score, "recall": theirs.recall_score,
    "iou": theirs.jaccard_score, "dice": theirs.f1_score}
NUMBERS: dict[str, Callable[..., Any]] = {
    "mae": theirs.mean_absolute_error, "mse": theirs.mean_squared_error, "mape": theirs.mean_absolute_percentage_error,
    "r2": theirs.r2_score, "rmse": theirs.root_mean_squared_error}


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    with clnet.on("numpy"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        yield


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_classes(classes: int, weights: str) -> None:
    """Of seven classes one is in no label, and one in no prediction either."""
    w, y = WEIGHTS[weights], DRAWS.integers(0, classes, N)
    p = np.where(DRAWS.random(N) < 0.5, y, DRAWS.integers(0, classes, N))
    if classes == 7:
        y[y >= 5], p[p == 6] = 0, 1
    for how in ("macro", "micro", "weighted", None, *(["binary"] if classes == 2 else [])):
        for name, other in RATIOS.items():
            same(getattr(metrics, name)(y, p, average=how, sample_weight=w), other(y, p, average=how, sample_weight=w))
    same(metrics.accuracy(y, p, sample_weight=w), theirs.accuracy_score(y, p, sample_weight=w))
    same(metrics.balanced_accuracy(y, p, sample_weight=w), theirs.balanced_accuracy_score(y, p, sample_weight=w))
    same(metrics.mcc(y, p, sample_weight=w), theirs.matthews_corrcoef(y, p, sample_weight=w))
    for by in (None, "linear", "quadratic"):
        same(metrics.cohen_kappa(y, p, weights=by, sample_weight=w),
             theirs.cohen_kappa_score(y, p, weights=by, sample_weight=w))
    for by in (None, "true", "pred", "all"):
        same(metrics.confusion_matrix(y, p, normalize=by, sample_weight=w),
             theirs.confusion_matrix(y, p, normalize=by, sample_weight=w))
    words = np.array(["ant", "bee", "cat", "dog", "emu", "fox", "gnu"])
    same(metrics.f1(words[y], words[p]), theirs.f1_score(y, p, average="binary" if classes == 2 else "macro"))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_scores(weights: str) -> None:
    """Many of them equal, which ranks have to take together."""
    w, y = WEIGHTS[weights], DRAWS.integers(0, 4, N)
    p = DRAWS.random((N, 4)).round(1) + 1e-3
    p /= p.sum(1, keepdims=True)
    for how in ("macro", "weighted", None):
        same(metrics.roc_auc(y, p, average=how, sample_weight=w),
             theirs.roc_auc_score(y, p, average=how, multi_class="ovr", sample_weight=w))
        same(metrics.average_precision(y, p, average=how, sample_weight=w),
             theirs.average_precision_score(y, p, average=how, sample_weight=w))
    same(metrics.log_loss(y, p, sample_weight=w), theirs.log_loss(y, p, sample_weight=w))
    same(metrics.perplexity(y, p, sample_weight=w), np.exp(theirs.log_loss(y, p, sample_weight=w)))
    for k in (1, 3):
        same(metrics.top_k(y, p, k=k, sample_weight=w), theirs.top_k_accuracy_score(y, p, k=k, sample_weight=w))
    yes, s = y > 1, p[:, 3]
    same(metrics.roc_auc(yes, s, sample_weight=w), theirs.roc_auc_score(yes, s, sample_weight=w))
    same(metrics.average_precision(yes, s, sample_weight=w), theirs.average_precision_score(yes, s, sample_weight=w))
    same(metrics.log_loss(yes, s, sample_weight=w), theirs.log_loss(yes, s, sample_weight=w))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_several_labels_and_numbers(weights: str) -> None:
    w, y, p = WEIGHTS[weights], (DRAWS.random((N, 4)) < 0.3).astype(int), (DRAWS.random((N, 4)) < 0.4).astype(int)
    y[:, 2] = 0
    for how in ("macro", "micro", "weighted", None):
        for name, other in RATIOS.items():
            same(getattr(metrics, name)(y, p, average=how, sample_weight=w), other(y, p, average=how, sample_weight=w))
    s = DRAWS.random((N, 4)).round(1)
    same(metrics.average_precision(y, s, sample_weight=w), theirs.average_precision_score(y, s, sample_weight=w))
    there = [0, 1, 3]
    same(metrics.roc_auc(y, s, sample_weight=w), theirs.roc_auc_score(y[:, there], s[:, there], sample_weight=w))
    for shape in ((N,), (N, 3)):
        a, b = DRAWS.normal(size=(2, *shape)) + 3
        for name in NUMBERS if len(shape) == 1 else ("mae", "mse", "mape", "r2"):
            same(getattr(metrics, name)(a, b, sample_weight=w), NUMBERS[name](a, b, sample_weight=w))


def test_a_single_class_and_what_is_not_there() -> None:
    ones = [1, 1, 1]
    assert metrics.f1(ones, ones) == metrics.balanced_accuracy(ones, ones) == 1.0
    assert metrics.f1([0, 0], [0, 0]) == metrics.mcc(ones, ones) == metrics.average_precision([0, 0], [0.1, 0.3]) == 0.0
    assert np.isnan(metrics.cohen_kappa(ones, ones)) and np.isnan(metrics.roc_auc(ones, [0.1, 0.2, 0.3]))
    assert np.isnan(metrics.r2([1.0], [1.0]))
    whole = metrics.confusion_matrix(["b", "a", "b", "c"], ["a", "a", "a", "b"])
    assert whole.worst() == [("b", "a", 2), ("c", "b", 1)] and "label  a  b  c" in str(whole)
    assert whole.plot().size[0] > 300


@pytest.mark.parametrize(("call", "words"), [
    (lambda: metrics.f1([0, 1], [0, 1, 1]), r"as many samples, at least one; got shapes \(2,\) and \(3,\)"),
    (lambda: metrics.f1([0, 1], [0.2, 0.9]), r"got fractions, as 0.2; decide first"),
    (lambda: metrics.f1([0, 1], [0, np.nan]), r"got 1 NaN in y_pred"),
    (lambda: metrics.f1([0, 1], [0, 1], sample_weight=[1]), r"sample_weight of at least 0 for each of 2"),
    (lambda: metrics.roc_auc([0, 1, 2], [0.1, 0.2, 0.3]), r"got 3; pass a score of each class"),
    (lambda: metrics.log_loss([0, 1], [-3.0, 2.0]), r"probabilities in \[0, 1\].*predict_proba"),
    (lambda: metrics.top_k([0, 1], np.eye(2)), r"more than k, and labels"),
    (lambda: metrics.mae(["a"], ["b"]), r"numbers of one shape"),
])
def test_arrays_that_do_not_fit_say_why(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: metrics.f1([0], [0], avrage="macro"), r"got 'avrage'; did you mean 'average'\?"),
    (lambda: F1(average="marco"), r"did you mean 'macro'\?"),
    (lambda: resolve("f1_marco"), r"did you mean 'f1_macro'\?"),
    (lambda: resolve(["f1", "f1_score"]), r"'f1' again"),
    (lambda: TopK(0), r"at least 1"), (lambda: CohenKappa("square"), r"'linear' or 'quadratic'"),
    (lambda: Confusion("rows"), r"'true', 'pred' or 'all'"), (lambda: resolve([3]), r"got 3"),
])
def test_slips_of_names_and_arguments(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


# --- in a Trainer
X = DRAWS.normal(size=(103, 5)).astype(np.float32)
CLASS = ((X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0) + 2 * (X[:, 2] > 1)).clip(0, 3)
ALL = ["f1", "f1_micro", F1(average=None), "precision_weighted", metrics.recall, "jaccard", "mcc", "kappa",
       CohenKappa("quadratic"), "balanced_accuracy", "top_2", "auc", "average_precision", "log_loss", "perplexity"]


def made(loss: Any, outputs: int, wanted: Any) -> Trainer:
    clnet.seed(0)
    return Trainer(Sequential(Dense(in_features=5, out_features=outputs)), loss, SGD(lr=0.05), metrics=wanted)


def test_a_trainer_has_them_over_uneven_batches_without_ignored_labels() -> None:
    y = CLASS.copy()
    y[:13] = -100
    with pytest.raises(ConfigError, match="'cohen_kappa' again"):
        made(CrossEntropyLoss(), 4, ALL)
    trainer = made(CrossEntropyLoss(), 4, [m for m in ALL if m != "kappa"])
    found = trainer.evaluate(X, y, batch_size=24)
    p = trainer.predict_proba(X)[13:].astype(np.float64)
    y, best = y[13:], p.argmax(1)
    expected = {
        **{f"f1_{k}": v for k, v in enumerate(theirs.f1_score(y, best, average=None))},
        "f1": theirs.f1_score(y, best, average="macro"), "f1_micro": theirs.f1_score(y, best, average="micro"),
        "precision_weighted": theirs.precision_score(y, best, average="weighted"),
        "recall": theirs.recall_score(y, best, average="macro"), "iou": theirs.jaccard_score(y, best, average="macro"),
        "mcc": theirs.matthews_corrcoef(y, best),
        "cohen_kappa": theirs.cohen_kappa_score(y, best, weights="quadratic"),
        "balanced_accuracy": theirs.balanced_accuracy_score(y, best), "top_2": theirs.top_k_accuracy_score(y, p, k=2),
        "roc_auc": theirs.roc_auc_score(y, p / p.sum(1, keepdims=True), multi_class="ovr"),
        "average_precision": theirs.average_precision_score(y, p), "log_loss": theirs.log_loss(y, p),
        "perplexity": np.exp(theirs.log_loss(y, p))}
    assert {n: v for n, v in found.items() if n != "loss"} == pytest.approx(expected, abs=1e-6)


def test_yes_and_no_labels_and_masks() -> None:
    yes, labels = (CLASS > 1).astype(np.float32)[:, None], np.stack([CLASS > k for k in range(3)], 1)
    one = made(BCELoss(from_logits=True), 1, ["f1", "mcc", "roc_auc", "average_precision", "log_loss"])
    found, z = one.evaluate(X, yes, batch_size=24), one.predict(X)[:, 0]
    p = 1 / (1 + np.exp(-z.astype(np.float64)))
    assert {n: v for n, v in found.items() if n != "loss"} == pytest.approx(
        {"f1": theirs.f1_score(yes, z > 0), "mcc": theirs.matthews_corrcoef(yes[:, 0], z > 0),
         "roc_auc": theirs.roc_auc_score(yes, z), "average_precision": theirs.average_precision_score(yes, z),
         "log_loss": theirs.log_loss(yes, p)}, abs=1e-6)
    several = made(BCELoss(from_logits=True), 3, ["f1", "roc_auc", "iou_micro"])
    found, z = several.evaluate(X, labels, batch_size=24), several.predict(X)
    assert {n: v for n, v in found.items() if n != "loss"} == pytest.approx(
        {"f1": theirs.f1_score(labels, z > 0, average="macro"), "roc_auc": theirs.roc_auc_score(labels, z),
         "iou_micro": theirs.jaccard_score(labels, z > 0, average="micro")}, abs=1e-6)
    with pytest.raises(ConfigError, match="expected for 'mcc' one class a sample"):
        made(BCELoss(from_logits=True), 3, "mcc").evaluate(X, labels)
    images, masks = DRAWS.normal(size=(11, 1, 4, 5)).astype(np.float32), DRAWS.integers(0, 2, (11, 1, 4, 5))
    pixels = Trainer(Sequential(Conv2d(1, 1, 1)), BCELoss(from_logits=True), SGD(), metrics=["iou", "dice", "roc_auc"])
    found, z = pixels.evaluate(images, masks.astype(np.float32), batch_size=4), pixels.predict(images).ravel()
    same([found["iou"], found["dice"]], [theirs.jaccard_score(masks.ravel(), z > 0),
                                         theirs.f1_score(masks.ravel(), z > 0)])
    same(found["roc_auc"], theirs.roc_auc_score(masks.ravel(), z))


def test_training_resuming_and_stopping_by_them(tmp_path: Path) -> None:
    """A run that is interrupted within an epoch has the numbers of one that was not; the best is the highest."""
    class Stop(Callback):
        def on_batch_end(self, trainer: Trainer) -> None:
            if trainer.optimizer.t == 6:
                raise KeyboardInterrupt

    wanted = ["f1", "roc_auc", "top_2", "confusion_matrix"]
    kept = {"epochs": 3, "batch_size": 24, "validation": 0.2, "verbose": False}
    whole = made(CrossEntropyLoss(), 4, wanted)
    history = whole.fit(X, CLASS, **kept, callbacks=EarlyStopping("val_f1", patience=9))
    path = tmp_path / "run.safetensors"
    made(CrossEntropyLoss(), 4, wanted).fit(X, CLASS, **kept, callbacks=[Checkpoint(path, steps=5), Stop()])
    again = made(CrossEntropyLoss(), 4, wanted).fit(X, CLASS, **kept, resume=path)
    for column in ("f1", "roc_auc", "top_2", "val_f1", "val_roc_auc"):
        assert again[column] == history[column]
    assert np.array_equal(again.matrices["confusion_matrix"], history.matrices["confusion_matrix"])
    assert again.matrices["confusion_matrix"].counts.sum() == 82
    assert history.matrices["val_confusion_matrix"].counts.sum() == 21
    assert EarlyStopping("val_f1").sign == EarlyStopping("val_f1_2").sign == EarlyStopping("top_2").sign == -1
    assert EarlyStopping("val_log_loss").sign == 1


def test_a_batch_that_was_left_out_is_in_no_count() -> None:
    x = X.copy()
    x[7] = np.nan
    trainer = made(CrossEntropyLoss(), 4, ["confusion_matrix", "roc_auc"])
    with pytest.warns(RuntimeWarning, match="left out"):
        history = trainer.fit(x, CLASS, epochs=1, batch_size=10, verbose=False, on_nan="skip")
    assert history.matrices["confusion_matrix"].counts.sum() in (93, 100)
    assert 0 < history["roc_auc"][0] < 1


def test_probabilities_behind_a_softmax_read_alike() -> None:
    """Of the same network, what logits give and what their softmax gives."""
    wanted = ["log_loss", "roc_auc", "f1"]
    logits = made(CrossEntropyLoss(), 4, wanted)
    found = logits.evaluate(X, CLASS)
    model = Sequential(*logits.model, Softmax())
    behind = Trainer(model, SparseCategoricalCrossEntropyLoss(), SGD(), metrics=wanted).evaluate(X, CLASS)
    assert behind == pytest.approx(found, abs=1e-6)
    with pytest.raises(ConfigError, match="choose 'rmse' or 'r2'"):
        Trainer(model, "mse", SGD(), metrics="log_loss").evaluate(X, np.eye(4)[CLASS])


OWN = """
from clnet.train.metrics import metric, resolve

@metric
def f1(output, target):
    return 0.0

mine, = resolve(["f1"])
assert mine.fn is f1, mine

from clnet.metrics import F1, METRICS, Metric

assert METRICS["f1"] is mine and "mcc" in METRICS and F1().name == "f1"

class Other(F1):
    key = "f1"

assert type(METRICS["f1"]) is Other
"""


def test_ones_own_metric_stays_though_that_of_the_name_is_imported_after_it() -> None:
    subprocess.run([sys.executable, "-c", OWN], check=True)
