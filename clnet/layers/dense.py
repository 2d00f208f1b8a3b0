"""Fully connected layers."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config import bound, field, fraction, positive
from ..ops.activations import activation
from .base import Layer, New
from .fields import Act
from .utility import Dropout


class Dense(Layer):
    """y = act(x · Wᵀ + b)

    x (…, in_features), W (out_features, in_features), b (out_features), y (…, out_features).
    """

    spec_name = "DenseLayer"
    aliases = ("FullyConnected", "FullyConnectedLayer", "dense")
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="size of the last axis of the output")
    bias: bool = field(True, doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=7, out_features=5), [(3, 7)]), (dict(out_features=4, bias=False), [(2, 3, 6)]),
                (dict(out_features=5, activation="tanh"), [(3, 7)])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        self.weight = new.weight(self.out_features, n)
        self.offset = new.bias(self.out_features, fan_in=n) if self.bias else None

    def forward(self, x: Any) -> Any:
        return activation(self.activation)(F.linear(x, self.weight, self.offset))


class FeedForward(Layer):
    """y = dropout(act(x · W₁ᵀ + b₁)) · W₂ᵀ + b₂

    x (…, d_model), W₁ (d_ff, d_model), b₁ (d_ff), W₂ (d_out, d_ff), b₂ (d_out), y (…, d_out).
    Paper: Vaswani et al. 2017, arXiv:1706.03762, section 3.3.
    """

    spec_name = "FeedForwardLayer"
    d_model: int | None = bound(doc="size of the last axis of the input")
    d_ff: int | None = field(None, doc="width between the two maps; None: 4 · d_model", gt=0)
    d_out: int | None = field(None, doc="size of the last axis of the output; None: d_model", gt=0)
    activation: Act = field("relu", doc="function between the two maps")
    dropout: float = fraction(0.0, doc="probability that an element between the maps is dropped in training")
    bias: bool = field(True, doc="whether b₁ and b₂ are added")
    signature = "... d_model -> ... d_out"
    examples = [(dict(d_model=4), [(3, 4)]), (dict(d_ff=6, d_out=3, activation="gelu", bias=False), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        n, out = self.d_model or 0, self.d_out or self.d_model or 0
        wide = self.d_ff or 4 * n
        self.w1, self.w2 = new.weight(wide, n), new.weight(out, wide)
        self.b1 = new.weight(wide, fan_in=n, role="bias") if self.bias else None
        self.b2 = new.weight(out, fan_in=wide, role="bias") if self.bias else None
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Any) -> Any:
        return F.linear(self.drop(activation(self.activation)(F.linear(x, self.w1, self.b1))), self.w2, self.b2)


class SwiGLU(Layer):
    """y = (gate(x · W_gᵀ) ∘ (x · W_uᵀ)) · W_dᵀ, gate = silu

    x (…, in_features), W_g and W_u (hidden_features, in_features), W_d (out_features, hidden_features), y (…, out_features).
    Paper: Shazeer 2020, arXiv:2002.05202.
    """

    spec_name = "SwiGLULayer"
    aliases = ("swiglu",)
    in_features: int | None = bound(doc="size of the last axis of the input")
    hidden_features: int | None = field(None, doc="width of the gated product; None: in_features", gt=0)
    out_features: int | None = field(None, doc="size of the last axis of the output; None: in_features", gt=0)
    bias: bool = field(False, doc="whether the three maps add a bias")
    gate_activation: Act = field("silu", doc="function of the gate")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=4, hidden_features=6), [(3, 4)]), (dict(bias=True, out_features=3, gate_activation="gelu"), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        wide, out = self.hidden_features or n, self.out_features or n
        self.w_gate, self.w_up, self.w_down = new.weight(wide, n), new.weight(wide, n), new.weight(out, wide)
        self.b_gate, self.b_up, self.b_down = (
            new.weight(m, fan_in=k, role="bias") if self.bias else None for m, k in ((wide, n), (wide, n), (out, wide)))

    def forward(self, x: Any) -> Any:
        gate = activation(self.gate_activation)(F.linear(x, self.w_gate, self.b_gate))
        return F.linear(gate * F.linear(x, self.w_up, self.b_up), self.w_down, self.b_down)
