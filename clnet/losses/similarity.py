"""Losses between embeddings: what belongs together near, what does not apart."""

from __future__ import annotations

import math

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from .base import Loss, expect_among, rest, same_shape


def _norm(x: Tensor, axes: int | tuple[int, ...], keepdims: bool = False) -> Tensor:
    """‖x‖, slope 0 at 0."""
    return F.sqrt(F.sum(F.square(x), axes, keepdims))


class CosineSimilarityLoss(Loss):
    """1 − p·y / max(‖p‖ ‖y‖, ε) along an axis

    prediction and target of one shape; the mean runs over the vectors.
    """

    spec_name = "CosineSimilarityLoss"
    aliases = ("CosineSimilarity", "cosine_similarity", "cosine")
    per = "sample"
    axis: int = field(-1, doc="the axis of the vectors")
    eps: float = positive(1e-8, doc="ε, keeps the quotient finite for vectors of length 0")
    examples = [({}, (4, 5), (4, 5)), (dict(axis=1), (2, 3, 4), (2, 3, 4))]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        if not -prediction.ndim <= self.axis < prediction.ndim:
            raise ShapeError(
                f"CosineSimilarityLoss: expected an axis in [{-prediction.ndim}, {prediction.ndim}) for "
                f"{prediction.shape}; got {self.axis}.")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        size = _norm(prediction, self.axis) * _norm(target, self.axis)
        return 1.0 - F.sum(prediction * target, self.axis) / F.maximum(size, self.eps)


class ContrastiveLoss(Loss):
    """½ (y D² + (1 − y) max(0, m − D)²), D = ‖a − b‖, y = 1 for pairs that belong together

    a and b (N, ...), y (N) in {0, 1}; gradients go to a and b, and that of the second part is 0 at D = 0.
    Paper: Hadsell, Chopra, LeCun 2006, CVPR.
    """

    spec_name = "ContrastiveLoss"
    aliases = ("Contrastive", "contrastive")
    per = "sample"
    inputs = ("a", "b", "target")
    differentiated = 2
    margin: float = positive(1.0, doc="m: how far apart pairs that do not belong together should be")
    examples = [(dict(margin=3.0), (4, 5), (4, 5), np.array([1, 0, 0, 1], np.float32)),
                ({}, (3, 2, 2), (3, 2, 2), np.array([1, 1, 0], np.float32))]

    def check(self, a: Tensor, b: Tensor, target: Tensor) -> None:  # type: ignore[override]
        same_shape("ContrastiveLoss", self.inputs, a, b)
        if a.ndim < 1 or target.shape != a.shape[:1]:
            raise ShapeError(
                f"ContrastiveLoss: expected vectors (N, ...) and a target (N); got {a.shape} and {target.shape}.")
        expect_among("ContrastiveLoss", "target", target, (0.0, 1.0))

    def formula(self, a: Tensor, b: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        squared = F.sum(F.square(a - b), rest(a))
        return 0.5 * F.where(target > 0.5, squared, F.square(F.relu(self.margin - F.sqrt(squared))))


class TripletLoss(Loss):
    """max(0, D(a, p) − D(a, n) + m), D(u, v) = ‖u − v + ε‖

    Anchors a, positives p and negatives n, all (N, D); gradients go to all three.
    Paper: Schroff, Kalenichenko, Philbin 2015, arXiv:1503.03832.
    """

    spec_name = "TripletLoss"
    aliases = ("Triplet", "triplet")
    per = "sample"
    inputs = ("anchor", "positive", "negative")
    differentiated = 3
    margin: float = positive(1.0, doc="m: how much farther the negative should be")
    eps: float = positive(1e-6, doc="ε, keeps distances of equal vectors smooth")
    examples = [({}, (4, 5), (4, 5), (4, 5)), (dict(margin=3.0), (3, 2), (3, 2), (3, 2))]

    def check(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> None:  # type: ignore[override]
        same_shape("TripletLoss", self.inputs, anchor, positive, negative)
        if anchor.ndim < 2:
            raise ShapeError(f"TripletLoss: expected vectors (N, ...); got {anchor.shape}.")

    def formula(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        axes = rest(anchor)
        return F.relu(_norm(anchor - positive + self.eps, axes) - _norm(anchor - negative + self.eps, axes)
                      + self.margin)


class NoiseContrastiveEstimationLoss(Loss):
    """softplus(−D_t) + Σ_j softplus(D_j), D = score − ln(k q); without q, D is the score

    Scores of the targets (N) and of k noise samples each (N, k); maybe ln q of both, of the same shapes.
    Without them it is negative sampling.
    Paper: Gutmann & Hyvärinen 2010, AISTATS; Mikolov et al. 2013, arXiv:1310.4546.
    """

    spec_name = "NoiseContrastiveEstimationLoss"
    aliases = ("NCELoss", "NoiseContrastiveEstimation", "nce")
    per = "sample"
    inputs = ("target_score", "noise_score", "target_log_q", "noise_log_q")
    optional = ("target_log_q", "noise_log_q")
    differentiated = 2
    num_noise: int = field(10, doc="k, noise samples per target", gt=0)
    examples = [(dict(num_noise=3), (4,), (4, 3)), (dict(num_noise=2), (5,), (5, 2), (5,), (5, 2))]

    def check(self, target_score: Tensor, noise_score: Tensor, target_log_q: Tensor,  # type: ignore[override]
              noise_log_q: Tensor) -> None:
        if target_score.ndim != 1 or noise_score.shape != (target_score.shape[0], self.num_noise):
            raise ShapeError(
                f"NoiseContrastiveEstimationLoss: expected scores (N) and (N, {self.num_noise}); got "
                f"{target_score.shape} and {noise_score.shape}; set num_noise to the number of noise samples.")
        if (target_log_q is None) != (noise_log_q is None):
            raise ShapeError(
                "NoiseContrastiveEstimationLoss: expected both target_log_q and noise_log_q, or none; got one.")
        if target_log_q is not None:
            same_shape("NoiseContrastiveEstimationLoss", ("target_score", "target_log_q"), target_score, target_log_q)
            same_shape("NoiseContrastiveEstimationLoss", ("noise_score", "noise_log_q"), noise_score, noise_log_q)

    def formula(self, target_score: Tensor, noise_score: Tensor, target_log_q: Tensor,  # type: ignore[override]
                noise_log_q: Tensor) -> Tensor:
        if target_log_q is not None:
            ln_k = math.log(self.num_noise)
            target_score, noise_score = target_score - target_log_q - ln_k, noise_score - noise_log_q - ln_k
        return F.softplus(-target_score) + F.sum(F.softplus(noise_score), 1)
