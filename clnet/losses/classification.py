"""Losses between classes: probabilities p or logits z against labels."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .. import ops as F
from ..config.bounded import NonNegativeFloat
from ..config.fields import field, fraction, positive
from ..core.spec import is_float
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError
from ..ops.losses import binary_cross_entropy_with_logits, check_labels, cross_entropy, label_weights, pick_label
from .base import Loss, class_weights, classes_last, expect, expect_among, floored_log
from .reading import CLASS_LOGITS, CLASS_PROBABILITIES, PROBABILITIES, slip

# What the examples are made of.
CHANCES = np.array([[0.1, 0.9, 0.5, 0.3], [0.7, 0.2, 0.6, 0.95], [0.05, 0.4, 0.8, 0.55]], np.float32)
HALVES = np.array([[0, 1, 1, 0], [1, 0, 0.25, 1], [0, 0, 1, 0.5]], np.float32)
YES_NO = np.round(HALVES)
LABELS = np.array([4, 0, 2, 2], np.int32)
PIXELS = np.array([[0, 2, 1, 1], [2, 2, -100, 0]], np.int32)
ROWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.4, 0.1]], np.float32)
MAPS = np.array([[[0.2, 0.5], [0.8, 0.5]], [[0.9, 0.3], [0.1, 0.7]]], np.float32)
NO_LABEL = -(2**31)  # what is ignored where nothing is


class _Binary(Loss):
    """Prediction and target of one shape, y in [0, 1]."""

    reads = PROBABILITIES

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        expect(type(self).__name__, "target", target, 0.0, 1.0)


def _two_logs(p: Tensor, y: Tensor, v: Tensor | None = None) -> Tensor:
    """−(v y ln p + (1 − y) ln(1 − p)), logarithms at least −100"""
    yes, no = y * floored_log(p), (1.0 - y) * floored_log(1.0 - p)
    return -(no + (yes if v is None else v * yes))


class BCELoss(_Binary):
    """−w (v y ln p + (1 − y) ln(1 − p)), logarithms at least −100;
    with from_logits max(z, 0) − z y + ln(1 + e^−|z|), with v on y's part

    The prediction is probabilities p in [0, 1], behind a sigmoid; logits z, any numbers before it, are taken with
    from_logits=True. prediction and target y of one shape, y in [0, 1]; w and v have one number per element of the last
    axis, or one in all. A p outside [0, 1] raises DataError when it is known on the host, and gives NaN on the device.
    """

    spec_name = "BinaryCrossEntropyLoss"
    aliases = ("BinaryCrossEntropy", "bce", "binary_cross_entropy", "binary_crossentropy")
    from_logits: bool = field(False, doc="whether the prediction is a logit, before the sigmoid")
    weight: tuple[NonNegativeFloat, ...] | None = field(None, doc="w, factor of every term")
    pos_weight: tuple[NonNegativeFloat, ...] | None = field(None, doc="v, factor of the terms with y = 1")
    examples = [({}, CHANCES, HALVES), (dict(from_logits=True), (3, 4), HALVES),
                (dict(weight=(0.5, 1.0, 2.0, 1.5), pos_weight=(3.0,)), CHANCES, HALVES),
                (dict(from_logits=True, weight=(0.5,), pos_weight=(3.0, 1.0, 2.0, 0.5)), (3, 4), HALVES)]

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        y, n, dtype = target, prediction.shape[-1] if prediction.ndim else 1, prediction.dtype
        w, v = (class_weights(field, n, dtype, "BCELoss") for field in (self.weight, self.pos_weight))
        if not self.from_logits:
            value = _two_logs(prediction, y, v)
        elif v is None:
            value = binary_cross_entropy_with_logits(prediction, y)
        else:  # −v y ln σ(z) − (1 − y) ln(1 − σ(z)), with ln σ(z) = −softplus(−z)
            value = v * y * F.softplus(-prediction) + (1.0 - y) * F.softplus(prediction)
        return value if w is None else w * value


class WeightedCrossEntropyLoss(_Binary):
    """−w (y ln p + (1 − y) ln(1 − p)), logarithms at least −100

    prediction and target of one shape, p and y in [0, 1]; w has one number per element of the last axis, or one in all.
    """

    spec_name = "WeightedCrossEntropyLoss"
    aliases = ("WeightedCrossEntropy", "weighted_cross_entropy")
    weight: tuple[NonNegativeFloat, ...] | None = field(None, doc="w, factor of every term")
    examples = [(dict(weight=(0.5, 1.0, 2.0, 1.5)), CHANCES, HALVES), ({}, CHANCES, HALVES)]

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        w = class_weights(self.weight, prediction.shape[-1] if prediction.ndim else 1, prediction.dtype,
                          "WeightedCrossEntropyLoss")
        value = _two_logs(prediction, target)
        return value if w is None else w * value


class FocalLoss(_Binary):
    """−a (1 − q)^γ ln q; q = p, a = α where y = 1, q = 1 − p, a = 1 − α where y = 0; with from_logits p = σ(z)

    prediction and target of one shape, p in [0, 1] (logarithms of at least ε, slope 0 below),
    y in {0, 1}. Without α a is 1.
    Paper: Lin et al. 2017, arXiv:1708.02002.
    """

    spec_name = "FocalLoss"
    aliases = ("Focal", "focal")
    gamma: float = field(2.0, doc="γ, how little well-classified elements count", ge=0)
    alpha: float | None = field(0.25, doc="α, share of y = 1", ge=0, le=1)
    from_logits: bool = field(False, doc="whether the prediction is a logit, before the sigmoid")
    eps: float = positive(1e-12, doc="ε, least probability")
    examples = [({}, CHANCES, YES_NO), (dict(from_logits=True, gamma=1.5, alpha=0.6), (3, 4), YES_NO),
                (dict(gamma=0.5, alpha=None), CHANCES, YES_NO)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        expect_among("FocalLoss", "target", target, (0.0, 1.0))

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        yes = target > 0.5
        if self.from_logits:  # ln q = −softplus(−u), ln(1 − q) = −softplus(u)
            u = F.where(yes, prediction, -prediction)
            value = F.exp(-self.gamma * F.softplus(u)) * F.softplus(-u)
        else:
            q = F.where(yes, prediction, 1.0 - prediction)
            value = -_power(1.0 - q, self.gamma) * floored_log(q, self.eps, math.log(self.eps))
        return value if self.alpha is None else F.where(yes, self.alpha, 1.0 - self.alpha) * value


def _power(x: Tensor, n: float) -> Tensor:
    """xⁿ for x ≥ 0, slope 0 at 0 also where that of the power is infinite."""
    if n == 0:
        return F.ones(x.shape, x.dtype)
    nothing = x <= 0.0
    return F.where(nothing, 0.0, F.pow(F.where(nothing, 1.0, x), n))


class CrossEntropyLoss(Loss):
    """−Σ_c q_c w_c ln softmax(z)_c, q = (1 − a) onehot(label) + a / C, a = label_smoothing

    z (N, C) or (N, C, ...); labels (N, ...) of integers, or (N, C, ...) of probabilities. The mean runs over all
    samples and positions that are not ignored, and divides by the sum of their labels' weights; with nothing left it is
    0. Labels outside [0, C) raise DataError when they are known on the host, and give NaN on the device.
    """

    spec_name = "CrossEntropyLoss"
    aliases: ClassVar[tuple[str, ...]] = ("CrossEntropy", "cross_entropy", "SoftmaxCrossEntropy")
    per = "sample"
    reads = CLASS_LOGITS
    labels = True
    weight: tuple[NonNegativeFloat, ...] | None = field(None, doc="w, factor per class")
    label_smoothing: float = fraction(0.0, doc="a, share of the uniform distribution in q")
    ignore_index: int = field(-100, doc="label of samples that do not count")
    examples = [({}, (4, 5), LABELS), (dict(weight=(0.5, 1.0, 2.0, 1.5, 0.25), label_smoothing=0.1), (4, 5), LABELS),
                (dict(ignore_index=2, reduction="sum"), (4, 5), LABELS), ({}, (2, 3, 4), PIXELS),
                (dict(label_smoothing=0.2), (3, 4), ROWS)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        sparse = (prediction.shape[0], *prediction.shape[2:]) if prediction.ndim > 1 else None
        if prediction.ndim < 2 or target.shape not in (prediction.shape, sparse):
            raise ShapeError(
                f"{type(self).__name__}: expected logits (N, C, ...) with labels (N, ...) or probabilities "
                f"(N, C, ...); got {prediction.shape} and {target.shape}; "
                f"classes go on axis 1{slip(prediction.shape, target.shape, True)}.")
        if is_float(target.dtype) and target.shape != prediction.shape:
            raise DTypeError(
                f"{type(self).__name__}: expected integer labels of shape {sparse}, or probabilities of shape "
                f"{prediction.shape}; got {target.dtype} of shape {target.shape}; cast them: y.astype(int).")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        w = class_weights(self.weight, prediction.shape[1], prediction.dtype, type(self).__name__)
        if target.shape == prediction.shape:
            target = classes_last(target if is_float(target.dtype) else target.astype(prediction.dtype))
        return cross_entropy(classes_last(prediction), target, self.label_smoothing, self.ignore_index, w)

    def counts(self, prediction: Tensor, target: Tensor) -> Tensor | None:
        if target.shape == prediction.shape:
            return None
        w = class_weights(self.weight, prediction.shape[1], prediction.dtype, type(self).__name__)
        if w is None:
            return F.not_equal(target, self.ignore_index).astype(prediction.dtype)
        return label_weights(target, w, self.ignore_index)


class CategoricalCrossEntropyLoss(Loss):
    """−Σ_c q_c ln max(p_c, ε), q = (1 − a) y + a / C, a = label_smoothing; with from_logits p = softmax(z)

    prediction and target (N, C) or (N, C, ...), probabilities that sum to 1 over axis 1. The mean runs over samples and
    positions; the slope is 0 where p is clamped.
    """

    spec_name = "CategoricalCrossEntropyLoss"
    aliases = ("CategoricalCrossEntropy", "categorical_crossentropy")
    per = "sample"
    reads = CLASS_PROBABILITIES
    from_logits: bool = field(False, doc="whether the prediction is logits, before the softmax")
    label_smoothing: float = fraction(0.0, doc="a, share of the uniform distribution in q")
    eps: float = positive(1e-12, doc="ε, least probability")
    examples = [({}, ROWS, ROWS[::-1].copy()), (dict(from_logits=True), (3, 4), ROWS),
                (dict(label_smoothing=0.1), MAPS, MAPS[::-1].copy())]

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        if prediction.ndim < 2:
            raise ShapeError(
                f"CategoricalCrossEntropyLoss: expected probabilities (N, C, ...); got shape {prediction.shape}; "
                "classes go on axis 1.")
        if self.from_logits:
            return cross_entropy(classes_last(prediction), classes_last(target), self.label_smoothing)
        a = self.label_smoothing
        q = target if a == 0 else (1 - a) * target + a / prediction.shape[1]
        return -F.sum(q * floored_log(prediction, self.eps, math.log(self.eps)), 1)


class SparseCategoricalCrossEntropyLoss(Loss):
    """−ln max(p[label], ε); with from_logits p = softmax(z)

    prediction (N, C) or (N, C, ...), probabilities that sum to 1 over axis 1; labels (N, ...) of integers. The mean
    runs over samples and positions that are not ignored; the slope is 0 where p is clamped. Labels outside [0, C) raise
    DataError when they are known on the host, and give NaN on the device.
    """

    spec_name = "SparseCategoricalCrossEntropyLoss"
    aliases = ("SparseCategoricalCrossEntropy", "sparse_categorical_crossentropy")
    per = "sample"
    reads = CLASS_PROBABILITIES
    labels = True
    from_logits: bool = field(False, doc="whether the prediction is logits, before the softmax")
    ignore_index: int | None = field(None, doc="label of samples that do not count")
    eps: float = positive(1e-12, doc="ε, least probability")
    examples = [({}, ROWS, np.array([3, 0, 1], np.int32)), (dict(from_logits=True), (4, 5), LABELS),
                (dict(ignore_index=-1), MAPS, np.array([[1, 0], [-1, 1]], np.int32))]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        sparse = (prediction.shape[0], *prediction.shape[2:]) if prediction.ndim > 1 else None
        if target.shape != sparse:
            raise ShapeError(
                f"{type(self).__name__}: expected probabilities (N, C, ...) with integer labels (N, ...); got "
                f"{prediction.shape} and {target.shape}; classes go on axis 1, and one-hot targets to "
                f"CategoricalCrossEntropyLoss{slip(prediction.shape, target.shape, True)}.")
        check_labels(type(self).__name__, target, prediction.shape[1], self.ignore_index)

    @property
    def _ignored(self) -> int:
        return NO_LABEL if self.ignore_index is None else self.ignore_index

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        p = classes_last(prediction)
        if self.from_logits:
            return cross_entropy(p, target, ignore_index=self._ignored)
        return -floored_log(pick_label(p, target, self._ignored), self.eps, math.log(self.eps))

    def counts(self, prediction: Tensor, target: Tensor) -> Tensor | None:
        return None if self.ignore_index is None else F.not_equal(target, self.ignore_index).astype(prediction.dtype)
