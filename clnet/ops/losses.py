"""Losses as ops: what a formula of ops would read the logits several times for. Per sample;
reductions are the Loss classes'.

Classes stand on the last axis. Labels are integers; nothing makes a one-hot matrix in memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import arguments
from ..core.formula import composite
from ..core.op import OPS, Case, Cotangents, pointwise
from ..core.spec import is_float
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DataError, DTypeError, ShapeError
from ..kernels.choosers import row_kernel
from .normalization import log_softmax, softmax
from .pointwise import bit_and, cast, equal, where
from .pointwise import sigmoid as _sigmoid
from .reduce import mean, sum
from .view import reshape

NAN = math.nan  # one object: plans are cached by attributes, and NaN equals only itself


def _classes(x: Tensor) -> Tensor:
    """0 … C − 1 along the last axis, as labels are: 32 bits."""
    line: Tensor = OPS["arange"](n=x.shape[-1], dtype="int32")
    return line


def _hit(x: Tensor, labels: Tensor) -> Tensor:
    """In 32 bits, which hold every class: beside labels of 64 that are none it is for the caller to ask `_known`."""
    return equal(_classes(x), reshape(cast(labels, "int32"), (*labels.shape, 1)))


def _known(x: Tensor, labels: Tensor) -> Tensor:
    return bit_and(labels >= 0, labels < x.shape[-1])


def _macros(smoothing: float, ignore_index: int) -> dict[str, Any]:
    return dict(SMOOTHING=repr(smoothing), SMOOTHED=int(smoothing != 0), IGNORE=f"({ignore_index})")


def _samples() -> list[Case]:
    rng = np.random.default_rng(0)
    out = [Case((s, rng.integers(0, s[-1], s[:-1], dtype=np.int32)), dict(smoothing=a, ignore_index=-100))
           for s, a in (((5, 7), 0.0), ((3, 4, 10), 0.1), ((2, 1), 0.0), ((9, 130), 0.2))]
    return [*out, Case(((4, 3), np.array([0, -1, 2, -1], np.int32)), dict(smoothing=0.0, ignore_index=-1))]


@composite(cl="normalize.cl", samples=_samples, reads=("narrow",), rule="wide", launch=row_kernel("CROSS_ENTROPY"))
def _cross_entropy(x: Tensor, labels: Tensor, *, smoothing: float, ignore_index: int) -> Tensor:
    """y = ln Σ eˣ − Σ q x, q = (1 − a) onehot(label) + a / C; 0 where ignored, NaN where the label is no class"""
    # ln Σ eˣ − x is taken below the maximum: beside a logit of 1e4 the logarithm of the sum would lose its digits.
    log_p = log_softmax(x)
    picked = sum(where(_hit(x, labels), log_p, 0.0), -1)
    picked = picked if smoothing == 0 else picked * (1.0 - smoothing) + mean(log_p, -1) * smoothing
    value = where(_known(x, labels), -picked, NAN)
    return where(equal(labels, ignore_index), 0.0, value)


@_cross_entropy.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, labels: Tensor, *, smoothing: float, ignore_index: int) -> Cotangents:
    g = reshape(g, (*g.shape, 1))
    return g * _cross_entropy_slope(x, labels, smoothing=smoothing, ignore_index=ignore_index), None


@composite(cl="normalize.cl", samples=_samples, reads=("narrow",), launch=row_kernel("CROSS_ENTROPY_SLOPE"))
def _cross_entropy_slope(x: Tensor, labels: Tensor, *, smoothing: float, ignore_index: int) -> Tensor:
    """dx = softmax(x) − q, q = (1 − a) onehot(label) + a / C; 0 where ignored, NaN where the label is no class"""
    low = smoothing / x.shape[-1]
    column = reshape(labels, (*labels.shape, 1))
    value = softmax(x) - where(_hit(x, labels), 1.0 - smoothing + low, low)
    return where(equal(column, ignore_index), 0.0, where(_known(x, column), value, NAN))


_cross_entropy_slope.launch_with(_cross_entropy, row_kernel("CROSS_ENTROPY_AND_SLOPE"))


@composite("... n, ... n -> ...", cl="normalize.cl",
           samples=lambda: [Case((s, s)) for s in ((5, 7), (2, 3, 33), (3, 1))], accepts="float", domain=(0.01, 1.0),
           reads=("narrow",), rule="wide", launch=row_kernel("SOFT_CROSS_ENTROPY"))
def _soft_cross_entropy(x: Tensor, q: Tensor) -> Tensor:
    """y = Σ q (ln Σ eˣ − x)"""
    return sum(where(equal(q, 0.0), 0.0, -q * log_softmax(x)), -1)


@_soft_cross_entropy.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, q: Tensor) -> Cotangents:
    g = reshape(g, (*g.shape, 1))
    return g * (softmax(x) * sum(q, -1, keepdims=True) - q), -g * log_softmax(x)


def cross_entropy(logits: TensorLike, target: TensorLike, smoothing: float = 0.0, ignore_index: int = -100,
                  weight: TensorLike | None = None) -> Tensor:
    """y = −Σ_c q_c w_c log_softmax(logits)_c per sample, q = (1 − a) onehot(label) + a / C
    (a: smoothing, w: class weights).

    logits (..., C), target (...) of integers or bools, or (..., C) of probabilities, weight (C,); result (...).
    Value and gradient are a row kernel each, and one kernel where both are asked for, but for weights with smoothing.
    Where target is `ignore_index` the value is 0.
    A label outside [0, C) raises DataError when the labels are known on the host; on the device the sample's value is
    NaN. Raises ShapeError for shapes that do not fit, DTypeError for labels that are no integers, ConfigError.
    """
    x, target = as_tensor(logits), as_tensor(target)
    smoothing = arguments.real("cross_entropy", "smoothing", smoothing, 0, most=1)
    ignore_index = arguments.integer("cross_entropy", "ignore_index", ignore_index)
    if target.dtype.startswith(("float", "bfloat")):
        return _probabilities(x, target, smoothing, weight)
    if x.ndim != target.ndim + 1 or x.shape[:-1] != target.shape:
        raise ShapeError(
            f"cross_entropy: expected labels of shape {x.shape[:-1]} for logits {x.shape}; "
            f"got {target.shape}; classes go on the last axis.")
    check_labels("cross_entropy", target, x.shape[-1], ignore_index)
    if weight is None:
        return _cross_entropy(x, target, smoothing=smoothing, ignore_index=ignore_index)
    return _weighted(x, target, smoothing, ignore_index, as_tensor(weight))


def _probabilities(x: Tensor, q: Tensor, smoothing: float, weight: TensorLike | None) -> Tensor:
    if x.shape != q.shape:
        raise ShapeError(f"cross_entropy: expected probabilities of the shape of the logits {x.shape}; got {q.shape}.")
    q = q if smoothing == 0 else q * (1.0 - smoothing) + smoothing / x.shape[-1]
    return _soft_cross_entropy(x, q if weight is None else q * as_tensor(weight))


def _weighted(x: Tensor, labels: Tensor, smoothing: float, ignore_index: int, weight: Tensor) -> Tensor:
    if weight.shape != x.shape[-1:]:
        raise ShapeError(f"cross_entropy: expected one weight a class, shape {x.shape[-1:]}; got {weight.shape}.")
    if not smoothing:
        weights = label_weights(labels, weight, ignore_index)
        return weights * _cross_entropy(x, labels, smoothing=0.0, ignore_index=ignore_index)
    y = log_softmax(x)
    value = -sum(where(_hit(x, labels), y * weight, 0.0), -1) * (1.0 - smoothing) - mean(y * weight, -1) * smoothing
    return where(equal(labels, ignore_index), 0.0, where(_known(x, labels), value, NAN))


def label_weights(labels: TensorLike, weight: TensorLike, ignore_index: int = -100) -> Tensor:
    """y = w[label] per sample, 0 where ignored: what the mean of a weighted cross entropy divides by.
    No gather, no one-hot.
    """
    labels, weight = as_tensor(labels), as_tensor(weight)
    return where(equal(labels, ignore_index), 0.0, sum(where(_hit(weight, labels), weight, 0.0), -1))


def pick_label(p: Tensor, labels: TensorLike, ignore_index: int) -> Tensor:
    """y = p[label] per sample, classes on the last axis; 1 where ignored, NaN where the label is no class.
    No gather, no one-hot.
    """
    labels = as_tensor(labels)
    picked = where(_known(p, labels), sum(where(_hit(p, labels), p, 0.0), -1), NAN)
    return where(equal(labels, ignore_index), 1.0, picked)


def check_labels(who: str, labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raises DataError when labels known on the host are not integers in [0, classes);
    device-side ones are not looked at.
    """
    if is_float(labels.dtype):
        raise DTypeError(f"{who}: expected integer labels; got {labels.dtype}; cast them.")
    if labels.value is None:
        return
    bad = (labels.value < 0) | (labels.value >= classes)
    if ignore_index is not None:
        bad &= labels.value != ignore_index
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        where_ = at[0] if len(at) == 1 else at
        raise DataError(f"{who}: expected labels in [0, {classes}); got {labels.value[at]} at index {where_}; "
                        "check the number of classes, or mark samples to skip with ignore_index.")


# --- two classes
binary_cross_entropy_with_logits = pointwise(
    "binary_cross_entropy_with_logits", "x != x ? x : ((x > 0 ? x : (T)(0)) - x * y + log1p(exp(-ABS(x))))",
    lambda x, y: np.logaddexp(x, 0) - x * y, lambda g, out, x, y: (g * (_sigmoid(x) - y), -g * x), accepts="float",
    cost=26, args=("x", "y"),
    doc="y = max(x, 0) − x y + ln(1 + e^−|x|) = −y ln σ(x) − (1 − y) ln(1 − σ(x))")
