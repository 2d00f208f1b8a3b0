"""Optimizers that scale each parameter tensor's step by the norms of the tensor: segment sums over the flat vector."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config.fields import field, fraction, positive
from ..core.state import Parameter
from ..core.tensor import Tensor
from .base import Memory, Optimizer, Scalars
from .first_order import moments
from .rate import Schedule

PLAIN = ("bias", "normalization")


class _LayerWise(Optimizer):
    exclude_bias: bool = field(True, doc="whether biases and normalisation take plain steps without decay",
                               kw_only=True)

    def kind(self, p: Parameter) -> str:
        return "plain" if self.exclude_bias and p.role in PLAIN else "scaled"

    def decay(self, h: Scalars) -> float:
        return 0.0 if h.section.kind == "plain" else float(h.decay)

    def norms(self, x: Tensor, h: Scalars) -> Tensor:
        """‖x‖₂ of every parameter tensor in the flat vector, in float32 or wider."""
        x = F.cast(x, "float32") if x.dtype in ("float16", "bfloat16") else x
        return F.sqrt(F.segment_dot(x, x, h.section.offsets))

    def each(self, factors: Tensor, x: Tensor, h: Scalars) -> Tensor:
        """factors[k] · x, tensor by tensor."""
        return F.segment_spread(factors, h.section.offsets, x.size) * x


def _ratio(top: Tensor, bottom: Tensor, size: Tensor, other: Tensor) -> Tensor:
    """top / bottom, 1 where either size is 0."""
    usable = F.bit_and(size > 0, other > 0)
    return F.where(usable, top / F.where(usable, bottom, 1.0), 1.0)


class LARS(_LayerWise):
    """k = c‖w‖ / (‖g‖ + λ‖w‖ + ε) of each tensor (1 if either norm is 0);  e = ηk(g + λw);  v ← μv + e;
    w ← w − v (Nesterov: μv + e)

    Paper: You, Gitman, Ginsburg 2017, arXiv:1708.03888.
    """

    spec_name = "LARS"
    state = ("v",)
    lr: float | Schedule = field(0.3, doc="learning rate, or a schedule of it by step")
    momentum: float = fraction(0.9, doc="μ")
    weight_decay: float = field(1e-4, doc="λ", ge=0)
    trust_coefficient: float = positive(0.001, doc="c")
    eps: float = field(1e-8, doc="ε", ge=0)
    nesterov: bool = field(False, doc="look ahead")

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        decay = self.decay(h)
        e = g + decay * w if decay else g
        if h.section.kind == "plain":
            e = h.lr * e
        else:
            nw, ng = self.norms(w, h), self.norms(g, h)
            e = self.each(h.lr * _ratio(self.trust_coefficient * nw, ng + decay * nw + self.eps, nw, ng), e, h)
        s.v = self.momentum * s.v + e
        return w - (self.momentum * s.v + e if self.nesterov else s.v)


class LAMB(_LayerWise):
    """m, v as Adam;  u = m̂ / (√v̂ + ε) + λw;  k = ‖w‖ / ‖u‖ of each tensor
    (1 if either is 0, at most max_trust_ratio);  w ← w − ηku

    Paper: You et al. 2020, arXiv:1904.00962.
    """

    spec_name = "LAMB"
    state = ("m", "v")
    lr: float | Schedule = field(1e-3, doc="learning rate, or a schedule of it by step")
    b1: float = fraction(0.9, doc="β₁, memory of the mean")
    b2: float = fraction(0.999, doc="β₂, memory of the square")
    eps: float = positive(1e-6, doc="ε")
    weight_decay: float = field(0.01, doc="λ, decoupled", ge=0)
    max_trust_ratio: float | None = field(None, doc="bound on k", gt=0)

    def scalars(self, t: int) -> dict[str, float]:
        return {"unbias_m": 1 / (1 - self.b1**t), "unbias_v": 1 / (1 - self.b2**t)}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        moments(self.b1, self.b2, g, s)
        u, decay = (s.m * h.unbias_m) / (F.sqrt(s.v * h.unbias_v) + self.eps), self.decay(h)
        u = u + decay * w if decay else u
        if h.section.kind == "plain":
            return w - h.lr * u
        nw, nu = self.norms(w, h), self.norms(u, h)
        k = _ratio(nw, nu, nw, nu)
        return w - self.each(h.lr * (k if self.max_trust_ratio is None else F.minimum(k, self.max_trust_ratio)), u, h)
