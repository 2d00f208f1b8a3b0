"""Activations that learn."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from .base import Layer, New


class PReLU(Layer):
    """y = max(x, 0) + a · min(x, 0), a learned

    x of any shape with a single a, or (N, C, ...) with one a per channel. At 0 the slope is a.
    Paper: He, Zhang, Ren, Sun 2015, arXiv:1502.01852.
    """

    spec_name = "PReLU"
    aliases = ("prelu",)
    channels: int = positive(1, doc="number of a: 1, or the size of axis 1")
    initial: float = field(0.25, doc="a at first")
    examples = [(dict(channels=3), [(2, 3, 5)]), (dict(initial=0.1), [(4, 7)])]

    def setup(self, new: New) -> None:
        self.slope = new.value(np.full(self.channels, self.initial))

    def forward(self, x: Tensor) -> Tensor:
        if self.channels == 1:
            return F.where(x > 0, x, F.reshape(self.slope, ()) * x)
        if x.ndim < 2 or x.shape[1] != self.channels:
            raise ShapeError(f"PReLU(channels={self.channels}): expected x (N, {self.channels}, ...); got {x.shape}.")
        return F.where(x > 0, x, F.reshape(self.slope, (1, self.channels, *(1,) * (x.ndim - 2))) * x)
