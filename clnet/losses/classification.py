"""Losses between classes: probabilities p or logits z against labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops as F
from ..config import field, fraction, positive
from ..errors import ConfigError, DataError, DTypeError, ShapeError
from ..ops.losses import binary_cross_entropy_with_logits, cross_entropy, label_weights
from ..spec import is_float
from ..tensor import Tensor, as_tensor
from .base import Loss

TINY = 2.0**-126  # smallest normal float32: below it a device's logarithm may be that of 0
FLOOR = -100.0  # what ln 0 counts as

# What the examples are made of.
PROBABILITIES = np.array([[0.1, 0.9, 0.5, 0.3], [0.7, 0.2, 0.6, 0.95], [0.05, 0.4, 0.8, 0.55]], np.float32)
HALVES = np.array([[0, 1, 1, 0], [1, 0, 0.25, 1], [0, 0, 1, 0.5]], np.float32)
LABELS = np.array([4, 0, 2, 2], np.int32)
PIXELS = np.array([[0, 2, 1, 1], [2, 2, -100, 0]], np.int32)
ROWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.4, 0.1]], np.float32)
MAPS = np.array([[[0.2, 0.5], [0.8, 0.5]], [[0.9, 0.3], [0.1, 0.7]]], np.float32)


def _log(p: Any) -> Any:
    """max(ln p, −100), slope 0 where p is 0; nothing is computed on the branch not taken."""
    safe = p > TINY
    return F.where(safe, F.log(F.where(safe, p, 1.0)), FLOOR)


def _classes_last(x: Tensor) -> Tensor:
    """(N, C, ...) -> (N, ..., C)"""
    return F.permute(x, 0, *range(2, x.ndim), 1) if x.ndim > 2 else x


def _weights(values: Any, classes: int, who: str) -> Any:
    if values is None:
        return None
    if len(values) not in (1, classes):
        raise ConfigError(f"{who}: expected one weight per class, {classes}; got {len(values)}.")
    return as_tensor(list(values))


class BCELoss(Loss):
    """−w (v y ln p + (1 − y) ln(1 − p)), logarithms at least −100; on logits z: max(z, 0) − z y + ln(1 + e^−|z|), with v on y's part

    prediction and target of one shape, p and y in [0, 1]; w and v have one number per element of the last axis, or one in all.
    """

    spec_name = "BinaryCrossEntropyLoss"
    aliases = ("BinaryCrossEntropy", "bce", "binary_cross_entropy")
    from_logits: bool = field(False, doc="whether the prediction is a logit, before the sigmoid")
    weight: tuple[float, ...] | None = field(None, doc="w, factor of every term")
    pos_weight: tuple[float, ...] | None = field(None, doc="v, factor of the terms with y = 1")
    examples = [({}, PROBABILITIES, HALVES), (dict(from_logits=True), (3, 4), HALVES),
                (dict(weight=(0.5, 1.0, 2.0, 1.5), pos_weight=(3.0,)), PROBABILITIES, HALVES),
                (dict(from_logits=True, weight=(0.5,), pos_weight=(3.0, 1.0, 2.0, 0.5)), (3, 4), HALVES)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        _in_unit_interval("BCELoss", "target", target)
        if not self.from_logits:
            _in_unit_interval("BCELoss", "prediction", prediction, "; set from_logits=True for logits")

    def formula(self, prediction: Any, target: Any) -> Any:
        y, n = target, prediction.shape[-1] if prediction.ndim else 1
        w, v = _weights(self.weight, n, "BCELoss"), _weights(self.pos_weight, n, "BCELoss")
        if not self.from_logits:
            yes, no = y * _log(prediction), (1.0 - y) * _log(1.0 - prediction)
            value = -(no + (yes if v is None else v * yes))
        elif v is None:
            value = binary_cross_entropy_with_logits(prediction, y)
        else:  # −v y ln σ(z) − (1 − y) ln(1 − σ(z)), with ln σ(z) = −softplus(−z)
            value = v * y * F.softplus(-prediction) + (1.0 - y) * F.softplus(prediction)
        return value if w is None else w * value


def _in_unit_interval(who: str, what: str, t: Tensor, hint: str = "") -> None:
    """Raises DataError for values known on the host that lie outside [0, 1]."""
    if t.value is None or not t.size:
        return
    low, high = float(t.value.min()), float(t.value.max())
    if low < 0 or high > 1:
        raise DataError(f"{who}: expected a {what} in [0, 1]; got values from {low:.6g} to {high:.6g}{hint}.")


class CrossEntropyLoss(Loss):
    """−Σ_c q_c w_c ln softmax(z)_c, q = (1 − a) onehot(label) + a / C, a = label_smoothing

    z (N, C) or (N, C, ...); labels (N, ...) of integers, or (N, C, ...) of probabilities. The mean runs over all samples and positions that
    are not ignored, and divides by the sum of their labels' weights; with nothing left it is 0. Labels outside [0, C) raise DataError when
    they are known on the host, and give NaN on the device.
    """

    spec_name = "CrossEntropyLoss"
    aliases = ("CrossEntropy", "cross_entropy", "SoftmaxCrossEntropy")
    per = "sample"
    labels = True
    weight: tuple[float, ...] | None = field(None, doc="w, factor per class")
    label_smoothing: float = fraction(0.0, doc="a, share of the uniform distribution in q")
    ignore_index: int = field(-100, doc="label of samples that do not count")
    examples = [({}, (4, 5), LABELS), (dict(weight=(0.5, 1.0, 2.0, 1.5, 0.25), label_smoothing=0.1), (4, 5), LABELS),
                (dict(ignore_index=2, reduction="sum"), (4, 5), LABELS), ({}, (2, 3, 4), PIXELS), (dict(label_smoothing=0.2), (3, 4), ROWS)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        sparse = (prediction.shape[0], *prediction.shape[2:]) if prediction.ndim > 1 else None
        if prediction.ndim < 2 or target.shape not in (prediction.shape, sparse):
            raise ShapeError(f"CrossEntropyLoss: expected logits (N, C, ...) with labels (N, ...) or probabilities (N, C, ...); "
                             f"got {prediction.shape} and {target.shape}; classes go on axis 1.")
        if is_float(target.dtype) and target.shape != prediction.shape:
            raise DTypeError(f"CrossEntropyLoss: expected integer labels of shape {sparse}, or probabilities of shape {prediction.shape}; "
                             f"got {target.dtype} of shape {target.shape}; cast them.")

    def formula(self, prediction: Any, target: Any) -> Any:
        w = _weights(self.weight, prediction.shape[1], "CrossEntropyLoss")
        if target.shape == prediction.shape:
            target = _classes_last(target if is_float(target.dtype) else target.astype(prediction.dtype))
        return cross_entropy(_classes_last(prediction), target, self.label_smoothing, self.ignore_index, w)

    def __call__(self, prediction: Any, target: Any) -> Tensor:
        p, y = self.operands(prediction, target)
        self.check(p, y)
        values = self.formula(p, y)
        if self.reduction != "mean" or y.shape == p.shape:
            return self.reduce(values)
        if self.weight is None:
            total = F.sum(F.not_equal(y, self.ignore_index).astype(values.dtype))
        else:
            total = F.sum(label_weights(y, _weights(self.weight, p.shape[1], "CrossEntropyLoss"), self.ignore_index))
        return F.sum(values) / F.where(F.equal(total, 0.0), 1.0, total)


class CategoricalCrossEntropyLoss(Loss):
    """−Σ_c q_c ln max(p_c, ε), q = (1 − a) y + a / C, a = label_smoothing; with from_logits p = softmax(z)

    prediction and target (N, C) or (N, C, ...), probabilities that sum to 1 over axis 1. The mean runs over samples and positions; the
    slope is 0 where p is clamped.
    """

    spec_name = "CategoricalCrossEntropyLoss"
    aliases = ("CategoricalCrossEntropy", "categorical_crossentropy")
    per = "sample"
    from_logits: bool = field(False, doc="whether the prediction is logits, before the softmax")
    label_smoothing: float = fraction(0.0, doc="a, share of the uniform distribution in q")
    eps: float = positive(1e-12, doc="ε, least probability")
    examples = [({}, ROWS, ROWS[::-1].copy()), (dict(from_logits=True), (3, 4), ROWS), (dict(label_smoothing=0.1), MAPS, MAPS[::-1].copy())]

    def formula(self, prediction: Any, target: Any) -> Any:
        if prediction.ndim < 2:
            raise ShapeError(f"CategoricalCrossEntropyLoss: expected probabilities (N, C, ...); got shape {prediction.shape}; classes go on axis 1.")
        if self.from_logits:
            return cross_entropy(_classes_last(prediction), _classes_last(target), self.label_smoothing)
        a = self.label_smoothing
        q = target if a == 0 else (1 - a) * target + a / prediction.shape[1]
        kept = prediction > self.eps
        logs = F.where(kept, F.log(F.where(kept, prediction, 1.0)), math.log(self.eps))
        return -F.sum(q * logs, 1)
