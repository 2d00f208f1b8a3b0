"""Layers that draw random numbers: the published generator's own bits, then the formula. The mask is one constant, so
backward has the same.
"""

from __future__ import annotations

from typing import Any

import torch
from philox import Draws


def draws(layer: Any) -> Draws:
    """What a fresh layer draws, first to last."""
    return Draws(layer.random.key)


def dropout(c: Any, x: Any, p: Any) -> Any:
    return x[0] * torch.from_numpy((draws(c).uniform(x[0].shape) < 1 - c.p) / (1 - c.p))


def gaussian_noise(c: Any, x: Any, p: Any) -> Any:
    return x[0] + torch.from_numpy(draws(c).normal(x[0].shape) * c.std + c.mean)


RULES = {
    "Dropout": dropout,
    "GaussianNoise": gaussian_noise,
}
