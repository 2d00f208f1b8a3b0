"""Losses where numbers end: large logits, probabilities of 0 and 1, empty masks, equal vectors, kinks, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import losses
from clnet.losses import Loss
from clnet.workbench.evidence.layer_checks import slope
from clnet.workbench.evidence.registry import load_all, make_loss

load_all()
LARGE = np.array([[100, -100, 100], [-100, 100, 0], [1e4, -1e4, 88]], np.float32)
YES_NO = np.array([[1, 1, 0], [0, 1, 1], [0, 1, 1]], np.float32)
SURE, NOT = np.array([[0, 1, 0], [1, 0, 0]], np.float32), np.array([[0, 1, 1], [0, 1, 0]], np.float32)
LABELS = np.array([1, 0, 2])


def each(name: str, *inputs: Any, engine: Any, **fields: Any) -> tuple[Any, ...]:
    """Values one by one and slopes, finite."""
    found = slope(Loss.registry[name](**fields, reduction="none"), *inputs, engine=engine)
    for a in found:
        assert np.isfinite(a).all(), (name, a)
    return found


@pytest.mark.parametrize("name", [
    "MSELoss", "MAELoss", "RMSELoss", "HuberLoss", "LogCoshLoss", "QuantileLoss", "CharbonnierLoss",
    "MeanBiasErrorLoss", "ElasticNetLoss", "CosineSimilarityLoss"])
def test_numbers_far_apart_and_equal(name: str, engine: Any) -> None:
    each(name, LARGE, -LARGE, engine=engine)
    value, g = each(name, LARGE, LARGE, engine=engine)
    if name not in ("ElasticNetLoss", "CosineSimilarityLoss", "MeanBiasErrorLoss"):
        np.testing.assert_allclose(value, 0.001 if name == "CharbonnierLoss" else 0, rtol=1e-6)
        assert (g == 0).all(), "the subgradient at a kink is 0"


def test_log_cosh_keeps_small_digits(engine: Any) -> None:
    d = np.array([1e-4, -3e-3, 0.999, 1.001, 90, -1e4], np.float32)
    value, g = each("LogCoshLoss", d, np.zeros(6, np.float32), engine=engine)
    x = d.astype(np.float64)
    np.testing.assert_allclose(value, np.abs(x) + np.log1p(np.expm1(-2 * np.abs(x)) / 2), rtol=1e-5)
    np.testing.assert_allclose(g, np.tanh(x), rtol=2e-6)


@pytest.mark.parametrize(("name", "fields"), [
    ("HingeLoss", {}), ("SquaredHingeLoss", {}), ("ModifiedHuberLoss", {}), ("WassersteinLoss", {}),
    ("BCELoss", dict(from_logits=True)), ("BCELoss", dict(from_logits=True, pos_weight=(2.0,))),
    ("FocalLoss", dict(from_logits=True)), ("FocalLoss", dict(from_logits=True, gamma=0.0)),
    ("FocalLoss", dict(from_logits=True, gamma=0.5))])
def test_two_classes_with_large_logits(name: str, fields: dict[str, Any], engine: Any) -> None:
    each(name, LARGE, YES_NO, engine=engine, **fields)
    if name == "BCELoss":
        value, g = each(name, LARGE[:2], YES_NO[:2], engine=engine, from_logits=True)
        np.testing.assert_allclose(value, [[0, 100, 100], [0, 0, np.log(2)]], atol=1e-6)
        np.testing.assert_allclose(g, [[0, -1, 1], [0, 0, -0.5]], atol=1e-6)


def test_the_exponential_loss_overflows_where_floats_end(engine: Any) -> None:
    each("ExponentialLoss", np.array([80, -80, 1e4], np.float32), np.array([1, 1, 1], np.float32), engine=engine)
    value, g = slope(losses.ExponentialLoss(reduction="none"), np.array([-100, 1], np.float32),
                     np.array([1, 1], np.float32), engine=engine)
    assert value[0] == np.inf
    assert g[0] == -np.inf


@pytest.mark.parametrize(("name", "fields"), [
    ("CrossEntropyLoss", {}), ("CrossEntropyLoss", dict(label_smoothing=0.1, weight=(1.0, 2.0, 0.0))),
    ("SparseCategoricalCrossEntropyLoss", dict(from_logits=True)), ("OrdinalRegressionLoss", dict(num_classes=4))])
def test_classes_with_large_logits(name: str, fields: dict[str, Any], engine: Any) -> None:
    value, g = each(name, LARGE, LABELS, engine=engine, **fields)
    if name == "CrossEntropyLoss" and not fields:
        np.testing.assert_allclose(value, [200 + np.log(2), 200, 1e4 - 88], rtol=1e-6)
        np.testing.assert_allclose(g[1], [-1, 1, 0], atol=1e-6)


def test_distillation_with_large_logits(engine: Any) -> None:
    each("DistillationLoss", LARGE, -LARGE, LABELS, engine=engine)
    value, g = each("DistillationLoss", LARGE, LARGE, engine=engine)
    np.testing.assert_allclose(value, 0, atol=1e-6)
    np.testing.assert_allclose(g, 0, atol=1e-6)


@pytest.mark.parametrize(("name", "fields", "largest"), [
    ("BCELoss", {}, 100), ("WeightedCrossEntropyLoss", dict(weight=(0.5,)), 50),
    ("FocalLoss", {}, -0.75 * np.log(1e-12)), ("FocalLoss", dict(gamma=0.5), -0.75 * np.log(1e-12)),
    ("CategoricalCrossEntropyLoss", {}, -np.log(1e-12)), ("KLDivLoss", {}, 100)])
def test_probabilities_0_and_1(name: str, fields: dict[str, Any], largest: float, engine: Any) -> None:
    value, _ = each(name, SURE, NOT, engine=engine, **fields)
    assert value.max() == pytest.approx(largest, rel=1e-5)
    value, _ = each(name, SURE, SURE, engine=engine, **fields)
    np.testing.assert_allclose(value, 0, atol=1e-5)


def test_a_label_of_probability_0(engine: Any) -> None:
    value, g = each("SparseCategoricalCrossEntropyLoss", np.eye(3, dtype=np.float32), LABELS, engine=engine)
    np.testing.assert_allclose(value, -np.log([1e-12, 1e-12, 1]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(g, np.diag([0, 0, -1]), atol=1e-6)


def test_nothing_left_is_zero(engine: Any) -> None:
    z = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    for loss in (losses.CrossEntropyLoss(), losses.CrossEntropyLoss(weight=(1.0, 2.0, 3.0, 4.0), label_smoothing=0.1),
                 losses.SparseCategoricalCrossEntropyLoss(from_logits=True, ignore_index=-100)):
        value, g = slope(loss, z, np.full(3, -100), engine=engine)
        assert value == 0
        assert (g == 0).all()


@pytest.mark.parametrize("name", ["DiceLoss", "JaccardLoss"])
def test_empty_masks(name: str, engine: Any) -> None:
    empty, full = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    np.testing.assert_allclose(each(name, empty, empty, engine=engine)[0], 0, atol=1e-6)
    np.testing.assert_allclose(each(name, full, full, engine=engine)[0], 0, atol=1e-6)
    np.testing.assert_allclose(each(name, empty, full, engine=engine)[0], 1, atol=1e-5)


def test_jaccard_gives_ties_half_of_each_slope(engine: Any) -> None:
    p, y = np.array([[0.5, 0.25]], np.float64), np.array([[0.5, 0.75]], np.float64)
    _, g = each("JaccardLoss", p, y, engine=engine, eps=1e-9)
    low, high = 0.75, 1.25  # d/dp of 1 − low / high: −½/high + ½ low/high² at the tie, −1/high where p is the smaller
    np.testing.assert_allclose(g, [[-0.5 / high + 0.5 * low / high**2, -1 / high]], rtol=1e-6)
    value, _ = each("JaccardLoss", np.round(p), np.round(y + 0.1), engine=engine, eps=1e-9)
    np.testing.assert_allclose(value, 1, atol=1e-6)  # I = 0 of A + B − I


def test_margins_at_their_kink(engine: Any) -> None:
    one = np.array([1.0, -1.0], np.float32)
    for name in ("HingeLoss", "SquaredHingeLoss"):
        value, g = each(name, one, one, engine=engine)
        assert (value == 0).all()
        assert (g == 0).all()
    value, g = each("ModifiedHuberLoss", -one, one, engine=engine)
    np.testing.assert_allclose(value, [4, 4])
    np.testing.assert_allclose(g, [-4, 4])


def test_equal_vectors(engine: Any) -> None:
    a = np.array([[1, 2], [0, 0], [3, -1]], np.float32)
    value, *g = each("ContrastiveLoss", a, a, np.array([1, 0, 0], np.float32), engine=engine)
    np.testing.assert_allclose(value, [0, 0.5, 0.5])
    assert all((s == 0).all() for s in g)
    value, *_ = each("TripletLoss", a, a, a, engine=engine)
    np.testing.assert_allclose(value, 1)
    value, *_ = each("TripletLoss", 1e4 * a, a, -a, engine=engine)
    value, g = each("CosineSimilarityLoss", a, a, engine=engine)
    np.testing.assert_allclose(value, [0, 1, 0], atol=1e-6)
    each("NoiseContrastiveEstimationLoss", LARGE[:, 0], LARGE, engine=engine, num_noise=3)


def test_states_that_are_equal_turned_and_gone(engine: Any) -> None:
    t = np.array([[0.6, 0, 0, 0.8], [1, 2, 3, 4], [1, 0, 0, 0], [1, 0, 0, 0]], np.float32)
    p = np.array([[0.6, 0, 0, 0.8], [-4, 2, -8, 6], [0, 0, 0, 1], [0, 0, 0, 0]], np.float32)
    p[1] = [-2, 1, -4, 3]  # i t
    value, _ = each("QuantumLoss", p, t, engine=engine)
    np.testing.assert_allclose(value, [0, 0, 1, 1], atol=1e-12)
    off = t[:1] + np.float32(1e-4) * np.array([[0, 0, 1, 0]], np.float32)
    small = each("QuantumLoss", off, t[:1], engine=engine)[0][0]
    assert small == pytest.approx(3.6e-9, rel=0.02), "1 − fidelity would be lost in rounding"
    q = LARGE[:1, :2].repeat(2, 1)
    overlap = abs(np.vdot(t.view(np.complex64)[1], q.view(np.complex64)[0]))
    overlap /= np.linalg.norm(t[1]) * np.linalg.norm(q)
    assert each("QuantumLoss", q, t[1:2], engine=engine)[0][0] == pytest.approx(1 - overlap**2, rel=1e-5)


def test_depths_and_rates_of_0(engine: Any) -> None:
    zero, one = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    each("ScaleInvariantDepthLoss", zero, one, engine=engine)
    value, _ = each("ScaleInvariantDepthLoss", 5 * one * np.array([1, 2, 3], np.float32),
                    one * np.array([1, 2, 3], np.float32), engine=engine, lam=1.0)
    np.testing.assert_allclose(value, 0, atol=1e-6)
    each("PoissonLoss", zero, zero, engine=engine)
    each("PoissonLoss", zero, one, engine=engine)
    each("PoissonLoss", 80 * one, one, engine=engine, log_input=True)
    each("MarginLoss", np.zeros((2, 3, 2), np.float32), np.array([1, 0]), engine=engine)


@pytest.mark.parametrize("name", sorted(set(Loss.registry) - {"PhysicsInformedLoss", "CTCLoss"}))
def test_nan_stays(name: str, engine: Any) -> None:
    if engine.device.runtime == "pocl" and name > "D":
        pytest.skip("some of them: its compiler is slow")
    loss, inputs = make_loss(Loss.registry[name])
    inputs[0][-1] = np.nan
    loss.reduction = "sum"
    assert np.isnan(loss(*inputs).numpy()), name
