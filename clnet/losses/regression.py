"""Losses between numbers. d = prediction − target."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config import positive
from .base import Loss


class MSELoss(Loss):
    """d²"""

    spec_name = "MeanSquaredErrorLoss"
    aliases = ("mse",)

    def formula(self, prediction: Any, target: Any) -> Any:
        return F.square(prediction - target)


class MAELoss(Loss):
    """|d|; the subgradient at 0 is 0."""

    spec_name = "MeanAbsoluteErrorLoss"
    aliases = ("mae",)

    def formula(self, prediction: Any, target: Any) -> Any:
        return F.abs(prediction - target)


class HuberLoss(Loss):
    """½d² where |d| ≤ δ, else δ·(|d| − ½δ).

    Paper: Huber 1964, Annals of Mathematical Statistics 35.
    """

    spec_name = "HuberLoss"
    aliases = ("huber",)
    delta: float = positive(1.0, doc="where the parabola becomes a line, in units of d")

    def formula(self, prediction: Any, target: Any) -> Any:
        d = prediction - target
        # clip(d) · (d − ½ clip(d)) is both branches at once; nothing is computed on the branch not taken.
        c = F.clip(d, -self.delta, self.delta)
        return c * (d - 0.5 * c)
