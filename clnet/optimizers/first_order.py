"""Gradient descent and the Adam family: lines of maths on flat vectors. w parameters, g gradient, s state,
h scalars of the step.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops as F
from ..config.fields import field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Memory, Optimizer, Scalars
from .rate import Schedule


def decayed(w: Tensor, g: Tensor, h: Scalars) -> Tensor:
    """g + λw: decay that is part of the gradient."""
    return g + h.decay * w if h.decay else g


def moments(b1: float, b2: float, g: Tensor, s: Memory) -> None:
    """m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²"""
    s.m = b1 * s.m + (1 - b1) * g
    s.v = b2 * s.v + (1 - b2) * g * g


class SGD(Optimizer):
    """g ← g + λw;  b ← μb + (1 − τ)g (b = g at t = 1);  w ← w − η(g + μb with Nesterov, else b).

    Paper: Robbins & Monro 1951; Polyak 1964; Nesterov 1983.
    """

    spec_name = "SGD"
    state = ("buf",)
    momentum: float = fraction(0.0, doc="μ")
    dampening: float = fraction(0.0, doc="τ")
    weight_decay: float = field(0.0, doc="λ, coupled", ge=0)
    nesterov: bool = field(False, doc="look ahead")

    def slots(self) -> tuple[str, ...]:
        return self.state if self.momentum else ()

    def validate(self) -> None:
        if self.nesterov and not (self.momentum and not self.dampening):
            raise ConfigError(
                f"{type(self).__name__}(nesterov=True): expected a momentum and no dampening; got {self.momentum} and "
                f"{self.dampening}.")

    def scalars(self, t: int) -> dict[str, float]:
        return {"keep": 0.0 if t == 1 else self.momentum, "take": 1.0 if t == 1 else 1.0 - self.dampening}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        g = decayed(w, g, h)
        if self.momentum:
            s.buf = h.keep * s.buf + h.take * g
            g = g + self.momentum * s.buf if self.nesterov else s.buf
        return w - h.lr * g


class Momentum(SGD):
    """b ← μb + g;  w ← w − ηb

    Paper: Polyak 1964, USSR Computational Mathematics 4.
    """

    spec_name = "Momentum"
    momentum: float = fraction(0.9, doc="μ")


class NAG(SGD):
    """b ← μb + g;  w ← w − η(g + μb)

    Paper: Nesterov 1983; Sutskever, Martens, Dahl, Hinton 2013, ICML.
    """

    spec_name = "NAG"
    aliases = ("Nesterov", "NesterovAcceleratedGradient")
    momentum: float = fraction(0.9, doc="μ")
    nesterov: bool = field(True, doc="look ahead")


class GradientDescent(Optimizer):
    """w ← w − ηg, g over the full training set.

    Paper: Cauchy 1847, Comptes rendus 25.
    """

    spec_name = "GradientDescent"

    def batch(self, samples: int) -> int:
        return samples

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        return w - h.lr * g


class MiniBatchGradientDescent(GradientDescent):
    """w ← w − ηg, g over a batch of `batch_size` samples.

    Paper: Robbins & Monro 1951, Annals of Mathematical Statistics 22.
    """

    spec_name = "MiniBatchGradientDescent"
    batch_size: int = positive(32, doc="samples a step, where fit is not told another number")

    def batch(self, samples: int) -> int:
        return min(self.batch_size, samples)


class ASGD(Optimizer):
    """η = lr / (1 + λ·lr·(t − 1))^α;  w ← (1 − λη)w − ηg;  a ← a + (w − a) / max(1, t − 1 − t₀)

    a is the average of the path; `use_average` gives it to the model when training is over.
    Paper: Polyak & Juditsky 1992, SIAM Journal on Control and Optimization 30.
    """

    spec_name = "ASGD"
    state = ("ax",)
    lambd: float = field(1e-4, doc="λ, decay", ge=0)
    alpha: float = field(0.75, doc="α, power of the rate's decay", ge=0)
    t0: float = field(1e6, doc="t₀, step after which averaging begins", ge=0)

    def pace(self, lr: float, t: int) -> float:
        return float(lr / (1 + self.lambd * lr * (t - 1)) ** self.alpha)

    def scalars(self, t: int) -> dict[str, float]:
        return {"share": 1 / max(1.0, t - 1 - self.t0)}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        w = w * (1 - self.lambd * h.lr) - h.lr * g
        s.ax = s.ax + h.share * (w - s.ax)
        return w

    def use_average(self) -> None:
        """w ← a"""
        for section in self.sections:
            section.arena.flat.assign(section.memory["ax"].tensor)


class Adam(Optimizer):
    """m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²;  w ← w − η · m̂ / (√v̂ + ε), with g ← g + λw first.

    With amsgrad v̂ is taken of the largest v so far.
    Paper: Kingma & Ba 2015, arXiv:1412.6980; amsgrad: Reddi, Kale, Kumar 2018, arXiv:1904.09237.
    """

    spec_name = "Adam"
    state: ClassVar[tuple[str, ...]] = ("m", "v", "vmax")
    lr: float | Schedule = field(1e-3, doc="learning rate, or a schedule of it by step")
    b1: float = fraction(0.9, doc="β₁, memory of the mean")
    b2: float = fraction(0.999, doc="β₂, memory of the square")
    eps: float = positive(1e-8, doc="ε, keeps the quotient away from zero")
    weight_decay: float = field(0.0, doc="λ, coupled: part of the gradient", ge=0)
    amsgrad: bool = field(False, doc="whether steps never grow because a large gradient is forgotten")

    def slots(self) -> tuple[str, ...]:
        return self.state if self.amsgrad else self.state[:2]

    def scalars(self, t: int) -> dict[str, float]:
        return {"unbias_m": 1 / (1 - self.b1**t), "unbias_v": 1 / (1 - self.b2**t)}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        return self.adapted(w, decayed(w, g, h), s, h)

    def adapted(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        """w after the step along the mean gradient over the root of the mean square."""
        moments(self.b1, self.b2, g, s)
        v = s.v
        if self.amsgrad:
            s.vmax = v = F.maximum(s.vmax, v)
        return w - h.lr * (s.m * h.unbias_m) / (F.sqrt(v * h.unbias_v) + self.eps)


class AdamW(Adam):
    """w ← (1 − ηλ)w, then Adam with the undecayed gradient.

    Paper: Loshchilov & Hutter 2019, arXiv:1711.05101.
    """

    spec_name = "AdamW"
    weight_decay: float = field(0.01, doc="λ, decoupled", ge=0)

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        return self.adapted(w * (1 - h.lr * h.decay), g, s, h)


class AMSGrad(Adam):
    """m ← β₁m + (1 − β₁)g;  v ← β₂v + (1 − β₂)g²;  u ← max(u, v);  w ← w − η · m̂ / (√û + ε)

    Paper: Reddi, Kale, Kumar 2018, arXiv:1904.09237.
    """

    spec_name = "AMSGrad"
    aliases = ("AMSGradOptimizer",)
    amsgrad: bool = field(True, doc="whether steps never grow because a large gradient is forgotten")
