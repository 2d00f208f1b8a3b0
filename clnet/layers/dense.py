"""Fully connected layers."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config import bound, field, positive
from .base import Layer, New


class Dense(Layer):
    """y = act(x · Wᵀ + b)

    x (…, in_features), W (out_features, in_features), b (out_features), y (…, out_features).
    """

    spec_name = "DenseLayer"
    aliases = ("FullyConnected", "FullyConnectedLayer", "dense")
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="size of the last axis of the output")
    bias: bool = field(True, doc="whether b is added")
    activation: str | None = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=7, out_features=5), [(3, 7)]), (dict(out_features=4, bias=False), [(2, 3, 6)])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        self.weight = new.weight(self.out_features, n)
        self.offset = new.bias(self.out_features, fan_in=n) if self.bias else None

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.weight, self.offset)
