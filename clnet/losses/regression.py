"""Losses between numbers. d = prediction − target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.state import Parameter
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Loss, expect, rest
from .reading import VALUES

# What the examples are made of.
POSITIVE = np.array([[0.5, 1.2, 0.3, 2.0], [0.9, 0.1, 1.7, 0.6], [3.0, 0.25, 1.1, 0.8]], np.float32)
COUNTS = np.array([[0, 1, 2, 5], [3, 1, 0, 1], [2, 2, 4, 0]], np.float32)


class MSELoss(Loss):
    """d²"""

    spec_name = "MeanSquaredErrorLoss"
    reads = VALUES
    aliases = ("mse",)

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.square(prediction - target)

    def residuals(self, *inputs: Any) -> Tensor:
        """r with loss = ½ Σ r²: what least-squares methods work on. Raises ConfigError for reduction="none"."""
        if self.reduction == "none":
            raise ConfigError('MSELoss(reduction="none"): expected "mean" or "sum", which are one number.')
        prediction, target = self.operands(*inputs)
        self.check(prediction, target)
        d = prediction - target
        return d * math.sqrt(2 / d.size if self.reduction == "mean" else 2)


class MAELoss(Loss):
    """|d|; the subgradient at 0 is 0."""

    spec_name = "MeanAbsoluteErrorLoss"
    reads = VALUES
    aliases = ("mae",)

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.abs(prediction - target)


class RMSELoss(Loss):
    """√(mean d²), one number whatever the reduction; the subgradient at 0 is 0."""

    spec_name = "RootMeanSquaredErrorLoss"
    reads = VALUES
    aliases = ("rmse",)
    per = "whole"

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.square(prediction - target)

    def reduce(self, values: Tensor, weight: Tensor | None, *operands: Any) -> Tensor:
        return F.sqrt(self.average(values, weight))


class HuberLoss(Loss):
    """½d² where |d| ≤ δ, else δ·(|d| − ½δ).

    Paper: Huber 1964, Annals of Mathematical Statistics 35.
    """

    spec_name = "HuberLoss"
    reads = VALUES
    aliases = ("huber",)
    delta: float = positive(1.0, doc="where the parabola becomes a line, in units of d")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        d = prediction - target
        # clip(d) · (d − ½ clip(d)) is both branches at once; nothing is computed on the branch not taken.
        c = F.clip(d, -self.delta, self.delta)
        return c * (d - 0.5 * c)


class LogCoshLoss(Loss):
    """ln cosh d"""

    spec_name = "LogCoshLoss"
    reads = VALUES
    aliases = ("log_cosh", "logcosh")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        d = prediction - target
        # Near 0 as ln(1 + 2 sinh² d/2), which keeps the digits of small values;
        # beyond as |d| + ln(1 + e^−2|d|) − ln 2, which does not overflow.
        far = F.abs(d) > 1.0
        near, size = F.where(far, 0.0, d), F.where(far, F.abs(d), 1.0)
        return F.where(far, size + F.softplus(-2.0 * size) - math.log(2), F.log1p(2.0 * F.square(F.sinh(0.5 * near))))


class QuantileLoss(Loss):
    """q·max(−d, 0) + (1 − q)·max(d, 0): the pinball loss; the subgradient at 0 is 0.

    Paper: Koenker & Bassett 1978, Econometrica 46.
    """

    spec_name = "QuantileLoss"
    reads = VALUES
    aliases = ("quantile", "pinball")
    quantile: float = field(0.5, doc="q: the share of targets that should lie below the prediction", gt=0, lt=1)
    examples = [(dict(quantile=0.9), (4, 5), (4, 5)), ({}, (3, 4), (3, 4))]

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        d = prediction - target
        return self.quantile * F.relu(-d) + (1.0 - self.quantile) * F.relu(d)


class CharbonnierLoss(Loss):
    """√(d² + ε²): |d| without the kink.

    Paper: Charbonnier et al. 1994, IEEE ICIP 2.
    """

    spec_name = "CharbonnierLoss"
    reads = VALUES
    aliases = ("charbonnier", "Charbonnier")
    eps: float = positive(1e-3, doc="ε: half-width of the rounded kink, in units of d")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.sqrt(F.square(prediction - target) + self.eps**2)


class MeanBiasErrorLoss(Loss):
    """−d = target − prediction: signed and without a lower bound, so a measure rather than something to minimise."""

    spec_name = "MeanBiasErrorLoss"
    reads = VALUES
    aliases = ("mbe", "MeanBiasError")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return target - prediction


class PoissonLoss(Loss):
    """p − y ln(p + ε), p a rate; with log_input the prediction is z = ln p: eᶻ − y z

    y ≥ 0, p ≥ 0. The term ln y!, which has no slope, is left out.
    """

    spec_name = "PoissonLoss"
    aliases = ("Poisson", "poisson")

    @property
    def reads(self) -> str:  # type: ignore[override]
        return "" if self.log_input else VALUES

    log_input: bool = field(False, doc="whether the prediction is the logarithm of the rate")
    eps: float = positive(1e-8, doc="ε, keeps the logarithm finite at p = 0")
    examples = [({}, POSITIVE, COUNTS), (dict(log_input=True), (3, 4), COUNTS)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        expect("PoissonLoss", "target", target, low=0.0)
        if not self.log_input:
            expect("PoissonLoss", "prediction", prediction, low=0.0,
                   hint="; set log_input=True for logarithms of rates")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        if self.log_input:
            return F.exp(prediction) - target * prediction
        return prediction - target * F.log(prediction + self.eps)


class ScaleInvariantDepthLoss(Loss):
    """mean g² − λ (mean g)² per sample, g = ln(p + ε) − ln(y + ε)

    p, y > 0 of one shape (N, ...): depths; with λ = 1 their common scale does not count.
    Paper: Eigen, Puhrsch, Fergus 2014, arXiv:1406.2283.
    """

    spec_name = "ScaleInvariantDepthLoss"
    reads = VALUES
    aliases = ("ScaleInvariantDepth", "silog")
    per = "sample"
    lam: float = field(0.5, doc="λ: how much of a common scale is forgiven", ge=0, le=1)
    eps: float = positive(1e-8, doc="ε, keeps the logarithms finite at 0")
    examples = [({}, POSITIVE, POSITIVE[::-1].copy()),
                (dict(lam=1.0), POSITIVE.reshape(3, 2, 2), POSITIVE[::-1].reshape(3, 2, 2).copy())]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        for name, t in zip(self.inputs, (prediction, target), strict=True):
            expect("ScaleInvariantDepthLoss", name, t, low=0.0)

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        g = F.log(prediction + self.eps) - F.log(target + self.eps)
        middle = F.mean(g, rest(g), keepdims=True)
        # The variance and the rest of the mean: no difference of large numbers.
        spread: Any = F.mean(F.square(g - middle), rest(g))
        return spread + (1.0 - self.lam) * F.square(middle).reshape(spread.shape)


class ElasticNetLoss(Loss):
    """d² + α (ρ Σ|w| + ½(1 − ρ) Σ w²), w the parameters, or the prediction where none are given; |w| has slope 0 at 0

    The penalty is added once to the mean and to the sum of d²;
    with reduction="none" every value carries an equal share of it.
    Paper: Zou & Hastie 2005, Journal of the Royal Statistical Society B 67.
    """

    spec_name = "ElasticNetLoss"
    reads = VALUES
    aliases = ("ElasticNet", "elastic_net")
    alpha: float = field(0.01, doc="α, weight of the penalty", ge=0)
    l1_ratio: float = field(0.5, doc="ρ: share of the absolute values", ge=0, le=1)
    params: Any = field(None, doc="parameters to keep small (model.parameters()); they stay the model's")

    def validate(self) -> None:
        if self.params is not None and not (self.params and isinstance(self.params, tuple)
                                            and all(isinstance(p, Parameter) for p in self.params)):
            raise ConfigError(
                f"ElasticNetLoss: expected params as a list of Parameters; got {self.params!r}; "
                "pass model.parameters().")

    def config(self) -> dict[str, Any]:
        if self.params is not None:
            raise ConfigError(
                "ElasticNetLoss: expected plain values; got params, which are a model's; leave them out and pass them "
                "again after reading.")
        return super().config()

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.square(prediction - target)

    def reduce(self, values: Tensor, weight: Tensor | None, *operands: Any) -> Tensor:
        penalty: Any = 0.0
        for w in self.params or operands[:1]:
            w = w.tensor if isinstance(w, Parameter) else w
            penalty = penalty + self.l1_ratio * F.sum(F.abs(w)) + 0.5 * (1.0 - self.l1_ratio) * F.sum(F.square(w))
        share = values.size if self.reduction == "none" else 1
        return super().reduce(values, weight) + (self.alpha / share) * penalty.astype(values.dtype)
