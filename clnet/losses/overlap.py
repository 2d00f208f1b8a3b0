"""Losses between masks: how far two sets are from being one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.tensor import Tensor
from .base import Loss, expect, rest
from .reading import PROBABILITIES

MASKS = np.array([[[0.1, 0.9], [0.6, 0.3]], [[0.7, 0.2], [0.05, 0.8]], [[0.4, 0.55], [0.15, 0.35]]], np.float32)
TRUTH = np.array([[[0, 1], [1, 0]], [[1, 0], [0, 1]], [[0, 0], [0, 0]]], np.float32)


class DiceLoss(Loss):
    """1 − (2 Σ p y + s) / (Σ p + Σ y + s) per sample, or over the whole batch at once

    prediction and target (N, ...) of one shape, in [0, 1]. Empty against empty is 0.
    Paper: Milletari, Navab, Ahmadi 2016, arXiv:1606.04797.
    """

    spec_name = "DiceLoss"
    aliases = ("Dice", "dice")
    per = "sample"
    reads = PROBABILITIES
    smooth: float = positive(1e-6, doc="s, what empty masks have in common")
    per_sample: bool = field(
        True, doc="whether every sample has an overlap of its own; without, the value is one number")
    examples = [({}, MASKS, TRUTH), (dict(per_sample=False, smooth=1.0), MASKS, TRUTH)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        expect("DiceLoss", "target", target, 0.0, 1.0)

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        both, either = F.sum(prediction * target, rest(prediction)), F.sum(prediction + target, rest(prediction))
        return self.overlap(both, either) if self.per_sample else F.stack([both, either], 1)

    def overlap(self, both: Tensor, either: Tensor) -> Tensor:
        return 1.0 - (2.0 * both + self.smooth) / (either + self.smooth)

    def reduce(self, values: Tensor, weight: Tensor | None, *operands: Any) -> Tensor:
        if self.per_sample:
            return super().reduce(values, weight)
        total = F.sum(values if weight is None else weight.reshape(-1, 1) * values, 0)
        return self.overlap(total[0], total[1])


class JaccardLoss(Loss):
    """1 − (Σ min(p, y) + ε) / (Σ max(p, y) + ε) per sample; on ties half of the slope of each

    prediction and target (N, ...) of one shape, at least 0. For y in {0, 1} it is 1 − I / (A + B − I).
    Empty against empty is 0.
    Paper: Jaccard 1912, New Phytologist 11; Rahman & Wang 2016, Advances in Visual Computing.
    """

    spec_name = "JaccardLoss"
    aliases = ("Jaccard", "jaccard", "iou")
    per = "sample"
    eps: float = positive(1e-6, doc="ε, what empty masks have in common")
    examples = [({}, MASKS, TRUTH), (dict(eps=0.5), MASKS, MASKS[::-1].copy() + 0.01)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        for name, t in zip(self.inputs, (prediction, target), strict=True):
            expect("JaccardLoss", name, t, low=0.0)

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        axes = rest(prediction)
        both = F.sum(F.minimum(prediction, target), axes)
        either = F.sum(F.maximum(prediction, target), axes)
        return 1.0 - (both + self.eps) / (either + self.eps)
