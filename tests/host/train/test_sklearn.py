"""Estimators of scikit-learn: its own checks, pipelines, searches over parameters, processes, pickles."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import clnet
from clnet import init
from clnet.errors import ConfigError
from clnet.layers import Conv2d, Dense, Flatten
from clnet.optimizers import SGD
from clnet.sklearn import Classifier, Regressor

X, Y = (a[::2] for a in load_iris(return_X_y=True))
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
FAST: dict[str, Any] = dict(hidden_layer_sizes=(16,), learning_rate=0.02, max_iter=30, random_state=0)


@pytest.fixture(autouse=True)
def _numpy() -> Iterator[None]:
    with clnet.on("numpy"):
        yield


def within_float32(estimator: Any) -> dict[str, str]:
    """What cannot pass: the check asks for 1e-7, and sums of float32 in another order differ by one unit, 1.2e-7."""
    return {"check_sample_weight_equivalence_on_dense_data": "equal to 1e-6, see the test of weights"}


@pytest.mark.slow
@parametrize_with_checks([Classifier(max_iter=40, learning_rate=0.01, random_state=0),
                          Regressor(max_iter=40, learning_rate=0.01, random_state=0)],
                         expected_failed_checks=within_float32)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_classifier_in_a_pipeline() -> None:
    made = make_pipeline(StandardScaler(), Classifier(**FAST)).fit(X, NAMES)
    proba = made.predict_proba(X)
    assert made.score(X, NAMES) > 0.9 and made.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert proba.shape == (75, 3) and np.allclose(proba.sum(1), 1, atol=1e-5)
    again = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert (again.predict_proba(X) == proba).all()
    assert again[1].partial_fit(made[0].transform(X), NAMES).n_iter_ == made[1].n_iter_ + 1
    same = clone(made).fit(X, NAMES)
    assert (same.predict_proba(X) == proba).all(), "random_state decides"


@pytest.mark.slow
def test_a_search_over_parameters_in_processes() -> None:
    scaled = StandardScaler().fit_transform(X)
    search = GridSearchCV(Classifier(**FAST, device="numpy"), {"learning_rate": [1e-6, 0.02]}, cv=2, n_jobs=2)
    search.fit(scaled, NAMES)
    assert search.best_params_ == {"learning_rate": 0.02} and search.best_score_ > 0.85
    assert cross_val_score(Classifier(**FAST), scaled, NAMES, cv=2).min() > 0.8


def test_a_regressor_of_one_number_and_of_two() -> None:
    x, y = make_regression(80, 5, n_targets=2, random_state=0)
    y = (y - y.mean(0)) / y.std(0)
    both = Regressor(**{**FAST, "max_iter": 60}).fit(x, y)
    one = Regressor(**{**FAST, "max_iter": 60}).fit(x, y[:, 0])
    assert both.predict(x).shape == (80, 2) and one.predict(x).shape == (80,)
    assert both.score(x, y) > 0.9 and one.score(x, y[:, 0]) > 0.9
    assert len(one.loss_curve_) == one.n_iter_ and one.loss_curve_[-1] < one.loss_curve_[0]


def test_networks_of_ones_own_are_copied_for_every_fit() -> None:
    images, labels = np.random.default_rng(0).normal(size=(24, 1, 6, 6)), np.arange(24) % 2
    network, rule = clnet.Sequential(Conv2d(1, 2, 3), Flatten(), Dense(out_features=2)), SGD(lr=0.1)
    first = Classifier(network, optimizer=rule, max_iter=2).fit(images, labels)
    assert first.model_ is not network and not rule.sections and not network[2].built
    made = Classifier(lambda shape, outputs: clnet.Sequential(Flatten(), Dense(out_features=outputs)), max_iter=1)
    assert made.fit(images, NAMES[::3][:24]).predict_proba(images).shape == (24, 3)


def test_early_stopping_and_weights_of_classes() -> None:
    scaled = StandardScaler().fit_transform(X)
    early = Classifier(**{**FAST, "max_iter": 60, "learning_rate": 0.2}, early_stopping=True, n_iter_no_change=2)
    assert early.fit(scaled, NAMES).n_iter_ < 60 and "val_loss" in early.history_
    heavy = Classifier(**FAST, class_weight={"setosa": 1e-4, "versicolor": 1.0, "virginica": 1e-4}).fit(scaled, NAMES)
    assert (heavy.predict(scaled) == "versicolor").mean() > 0.9
    warm = Classifier(**{**FAST, "max_iter": 2}, warm_start=True).fit(scaled, NAMES)
    kept = warm.model_
    assert warm.fit(scaled, NAMES).model_ is kept and warm.n_iter_ == 4


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_a_weight_counts_a_sample_so_many_times(kind: Any) -> None:
    """In one batch weights of 0, 1, 2, 3 equal leaving out and repeating to 1e-5; equal weights change no bit."""
    draws = np.random.default_rng(0)
    weight = draws.integers(0, 4, len(X))
    targets = Y if kind is Classifier else X[:, 0] - X[:, 1]
    settings = {**FAST, "batch_size": 1000}
    ask = (lambda made: made.predict_proba(X)) if kind is Classifier else (lambda made: made.predict(X))
    weighed = kind(**settings).fit(X, targets, sample_weight=weight)
    repeated = kind(**settings).fit(X.repeat(weight, 0), targets.repeat(weight))
    plain, even = kind(**settings).fit(X, targets), kind(**settings).fit(X, targets, sample_weight=np.full(len(X), 3.0))
    np.testing.assert_allclose(ask(weighed), ask(repeated), rtol=1e-5, atol=1e-5)
    assert np.array_equal(ask(plain), ask(even)) and np.abs(ask(weighed) - ask(plain)).max() > 1e-3
    again = kind(**settings).fit(X[weight > 0], targets[weight > 0]).partial_fit(X, targets, sample_weight=weight)
    assert again.n_iter_ == repeated.n_iter_ + 1


def test_weights_of_samples_and_of_classes_and_held_out_samples() -> None:
    scaled = StandardScaler().fit_transform(X)
    heavy = (NAMES == "versicolor") + 1e-4
    early = Classifier(**FAST, early_stopping=True, class_weight="balanced").fit(scaled, NAMES, sample_weight=heavy)
    assert early._weight == pytest.approx([3334.33, 0.33343, 3334.33], rel=1e-4) and "val_loss" in early.history_
    assert (Classifier(**FAST).fit(scaled, NAMES, sample_weight=heavy).predict(scaled) == "versicolor").mean() > 0.9
    with pytest.raises(ValueError, match=r"expected a sample_weight above 0|at least one non-zero"):
        Classifier(**FAST).fit(X, Y, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="Negative values"):
        Classifier(**FAST).fit(X, Y, sample_weight=np.full(len(X), -1.0))


def test_what_a_fit_draws_is_its_own() -> None:
    init.seed(5)
    wanted = init.uniform((3,), 1.0)
    init.seed(5)
    Classifier(**{**FAST, "max_iter": 1}).fit(X, NAMES)
    assert (init.uniform((3,), 1.0) == wanted).all()


@pytest.mark.parametrize(("make", "text"), [
    (lambda: Classifier(loss="mse"), "expected a loss between classes"),
    (lambda: Classifier(loss="cross_entropy", class_weight="balanced"), "expected no loss beside it"),
    (lambda: Classifier(model=3), r"expected a network, or a function \(shape, outputs\) -> network; got 3"),
    (lambda: Regressor(max_iter=0), "expected a number of epochs, at least 1"),
    (lambda: Classifier(learning_rate=-1.0), "expected a learning rate of at least 0"),
    (lambda: Classifier(hidden_layer_sizes=(0,)), "out_features must be greater than 0"),
])
def test_slips_are_told(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make().fit(X, Y)


def test_labels_that_were_not_known() -> None:
    made = Classifier(**{**FAST, "max_iter": 1}).partial_fit(X[:50], NAMES[:50], classes=["setosa", "versicolor"])
    with pytest.raises(ValueError, match=r"expected labels of the classes \['setosa', 'versicolor'\]; got 'virginica'"):
        made.partial_fit(X, NAMES)
