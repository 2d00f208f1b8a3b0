"""Blocks of other layers."""

from __future__ import annotations

from ..config.fields import field
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.activations import activation
from .base import Layer
from .fields import Act, Child, Children


class Residual(Layer):
    """y = act(projection(x) + layer(x))

    x (…), y of the layer's shape. `layer` may be several, run one after the other;
    without a projection x is added as it is.
    Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385.
    """

    spec_name = "ResidualLayer"
    aliases = ("residual",)
    layer: Children = field(doc="the branch: a layer, or several in order")
    projection: Child | None = field(None, doc="layer on the other branch; None: identity")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(layer={"type": "Dense", "in_features": 5, "out_features": 5}), [(3, 5)]),
                (dict(layer=[{"type": "Dense", "out_features": 5}, {"type": "Activation", "name": "tanh"},
                             {"type": "Dense", "out_features": 4}],
                      projection={"type": "Dense", "out_features": 4, "bias": False}, activation="relu"), [(3, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for layer in self.layer if isinstance(self.layer, tuple) else (self.layer,):
            y = layer(y)
        short = x if self.projection is None else self.projection(x)
        if short.shape != y.shape:
            raise ShapeError(
                f"Residual: expected a layer that keeps the shape {short.shape}; got {y.shape}; give a projection.")
        return activation(self.activation)(short + y)
