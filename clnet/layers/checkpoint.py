"""Layers whose inner values are computed again in the backward pass."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import field
from ..core.tensor import Tensor
from .base import Layer
from .fields import Children


class Checkpoint(Layer):
    """y = layer(x), whose inner values are computed again for the gradient instead of kept

    x (…), y of the layer's shape. `layer` may be several, run one after the other: one region. Costs one more forward
    of it and saves the memory of all values inside; numbers are the same, dropout's too.
    Paper: Chen, Xu, Zhang, Guestrin 2016, arXiv:1604.06174.
    """

    integers = True
    family = "utility"
    spec_name = "GradientCheckpointing"
    layer: Children = field(doc="what is computed twice: a layer, or several in order")
    examples = [(dict(layer=[{"type": "Dense", "in_features": 5, "out_features": 7, "activation": "tanh"},
                             {"type": "Dense", "out_features": 4}]), [(3, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        return F.checkpoint(self._inner, x)

    def _inner(self, x: Tensor) -> Tensor:
        for layer in self.layer if isinstance(self.layer, tuple) else (self.layer,):
            x = layer(x)
        return x
