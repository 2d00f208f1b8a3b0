"""Fully connected layers."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import bound, field, fraction, positive
from ..core.tensor import Tensor
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
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=7, out_features=5), [(3, 7)]), (dict(out_features=4, bias=False), [(2, 3, 6)]),
                (dict(out_features=5, activation="tanh"), [(3, 7)])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        self.weight = new.weight(self.out_features, n)
        self.bias = new.bias(self.out_features, fan_in=n) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        return activation(self.activation)(F.linear(x, self.weight, self.bias))


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
    use_bias: bool = field(True, alias="bias", doc="whether b₁ and b₂ are added")
    signature = "... d_model -> ... d_out"
    examples = [(dict(d_model=4), [(3, 4)]), (dict(d_ff=6, d_out=3, activation="gelu", bias=False), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        n, out = self.d_model or 0, self.d_out or self.d_model or 0
        wide = self.d_ff or 4 * n
        self.w1, self.w2 = new.weight(wide, n), new.weight(out, wide)
        self.b1 = new.bias(wide, fan_in=n) if self.use_bias else None
        self.b2 = new.bias(out, fan_in=wide) if self.use_bias else None
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.drop(activation(self.activation)(F.linear(x, self.w1, self.b1))), self.w2, self.b2)


class SwiGLU(Layer):
    """y = (gate(x · W_gᵀ) ∘ (x · W_uᵀ)) · W_dᵀ, gate = silu

    x (…, in_features), W_g and W_u (hidden_features, in_features),
    W_d (out_features, hidden_features), y (…, out_features).
    Paper: Shazeer 2020, arXiv:2002.05202.
    """

    spec_name = "SwiGLULayer"
    aliases = ("swiglu",)
    in_features: int | None = bound(doc="size of the last axis of the input")
    hidden_features: int | None = field(None, doc="width of the gated product; None: in_features", gt=0)
    out_features: int | None = field(None, doc="size of the last axis of the output; None: in_features", gt=0)
    use_bias: bool = field(False, alias="bias", doc="whether the three maps add a bias")
    gate_activation: Act = field("silu", doc="function of the gate")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=4, hidden_features=6), [(3, 4)]),
                (dict(bias=True, out_features=3, gate_activation="gelu"), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        wide, out = self.hidden_features or n, self.out_features or n
        self.w_gate, self.w_up, self.w_down = new.weight(wide, n), new.weight(wide, n), new.weight(out, wide)
        self.b_gate, self.b_up, self.b_down = (
            new.bias(m, fan_in=k) if self.use_bias else None for m, k in ((wide, n), (wide, n), (out, wide)))

    def forward(self, x: Tensor) -> Tensor:
        gate = activation(self.gate_activation)(F.linear(x, self.w_gate, self.b_gate))
        return F.linear(gate * F.linear(x, self.w_up, self.b_up), self.w_down, self.b_down)


class GeGLU(SwiGLU):
    """y = (gelu(x · W_gᵀ) ∘ (x · W_uᵀ)) · W_dᵀ: SwiGLU with another gate

    x (…, in_features), W_g and W_u (hidden_features, in_features),
    W_d (out_features, hidden_features), y (…, out_features).
    Paper: Shazeer 2020, arXiv:2002.05202.
    """

    spec_name = "GeGLULayer"
    gate_activation: Act = field("gelu", doc="function of the gate")
    examples = [(dict(in_features=4, hidden_features=6), [(3, 4)])]


class GatedLinearUnit(Layer):
    """y = (x · W_vᵀ + b_v) ∘ gate(x · W_gᵀ + b_g), gate = σ

    x (…, in_features), W_v and W_g (out_features, in_features), b (out_features), y (…, out_features).
    No projection follows.
    Paper: Dauphin, Fan, Auli, Grangier 2017, arXiv:1612.08083; other gates: Shazeer 2020, arXiv:2002.05202.
    """

    spec_name = "GatedLinearUnitLayer"
    aliases = ("GLU", "glu")
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="size of the last axis of the output")
    gate_activation: Act = field("sigmoid", doc="function of the gate; None: identity")
    use_bias: bool = field(True, alias="bias", doc="whether b_v and b_g are added")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=5, out_features=3), [(4, 5)]),
                (dict(out_features=4, gate_activation="gelu", bias=False), [(2, 3, 5)])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        self.w_value, self.w_gate = new.weight(out, n), new.weight(out, n)
        self.b_value, self.b_gate = (new.bias(out, fan_in=n) if self.use_bias else None for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        value = F.linear(x, self.w_value, self.b_value)
        return value * activation(self.gate_activation)(F.linear(x, self.w_gate, self.b_gate))


class ReGLU(GatedLinearUnit):
    """y = (x · W_vᵀ + b_v) ∘ max(x · W_gᵀ + b_g, 0): GatedLinearUnit with another gate

    x (…, in_features), W_v and W_g (out_features, in_features), b (out_features), y (…, out_features).
    Paper: Shazeer 2020, arXiv:2002.05202.
    """

    spec_name = "ReGLULayer"
    gate_activation: Act = field("relu", doc="function of the gate; None: identity")
    examples = [(dict(in_features=5, out_features=3), [(4, 5)])]


class BilinearGLU(GatedLinearUnit):
    """y = (x · W_vᵀ + b_v) ∘ (x · W_gᵀ + b_g): GatedLinearUnit without a function on the gate

    x (…, in_features), W_v and W_g (out_features, in_features), b (out_features), y (…, out_features).
    Paper: Mnih, Hinton 2007, "Three new graphical models for statistical language modelling";
    Shazeer 2020, arXiv:2002.05202.
    """

    spec_name = "BilinearGLULayer"
    gate_activation: Act = field(None, doc="function of the gate; None: identity")
    examples = [(dict(in_features=5, out_features=3), [(4, 5)])]


class Highway(Layer):
    """y = t ∘ h + (1 − t) ∘ x;  h = act(x · W_hᵀ + b_h), t = gate(x · W_tᵀ + b_t)

    x and y (…, features), W (features, features), b (features). b_t starts at gate_bias_init:
    below zero most of x is carried through.
    Paper: Srivastava, Greff, Schmidhuber 2015, arXiv:1505.00387.
    """

    spec_name = "HighwayLayer"
    aliases = ("highway",)
    features: int | None = bound(doc="size of the last axis of input and output")
    activation: Act = field("tanh", doc="function of the transform h")
    gate_activation: Act = field("sigmoid", doc="function of the gate t")
    gate_bias_init: float = field(-1.0, doc="initial value of b_t")
    signature = "... features -> ... features"
    examples = [(dict(features=5), [(4, 5)]), (dict(activation="relu", gate_bias_init=0.5), [(2, 3, 5)])]

    def setup(self, new: New) -> None:
        n = self.features or 0
        self.w_h, self.w_t = new.weight(n, n), new.weight(n, n)
        self.b_h = new.bias(n, fan_in=n)
        self.b_t = new.value([self.gate_bias_init] * n, role="bias")

    def forward(self, x: Tensor) -> Tensor:
        h = activation(self.activation)(F.linear(x, self.w_h, self.b_h))
        t = activation(self.gate_activation)(F.linear(x, self.w_t, self.b_t))
        return x + t * (h - x)
