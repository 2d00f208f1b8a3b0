"""Optimizers whose rate adapts to each parameter's gradients. w parameters, g gradient, s state, h scalars of the step.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Memory, Optimizer, Scalars
from .first_order import decayed, moments
from .rate import Schedule
from .series import Series


class RMSprop(Optimizer):
    """v ← αv + (1 − α)g²;  d = g / (√v + ε) (centered: v − ḡ²; momentum: b ← μb + d);  w ← w − η·d.

    Paper: Tieleman & Hinton 2012, lecture 6.5.
    """

    spec_name = "RMSprop"
    aliases = ("RMSProp",)
    state = ("v", "ga", "buf")
    alpha: float = fraction(0.99, doc="α, memory of the square")
    eps: float = positive(1e-8, doc="ε")
    momentum: float = fraction(0.0, doc="μ")
    centered: bool = field(False, doc="subtract the squared mean gradient")
    weight_decay: float = field(0.0, doc="λ, coupled", ge=0)

    def slots(self) -> tuple[str, ...]:
        return ("v", *(("ga",) if self.centered else ()), *(("buf",) if self.momentum else ()))

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        g = decayed(w, g, h)
        s.v = self.alpha * s.v + (1 - self.alpha) * g * g
        v = s.v
        if self.centered:
            s.ga = self.alpha * s.ga + (1 - self.alpha) * g
            v = v - s.ga * s.ga
        d = g / (F.sqrt(v) + self.eps)
        if self.momentum:
            s.buf = self.momentum * s.buf + d
            d = s.buf
        return w - h.lr * d


class Adagrad(Optimizer):
    """q ← q + g²;  w ← w − η / (1 + (t − 1)·lr_decay) · g / (√q + ε)

    Paper: Duchi, Hazan, Singer 2011, JMLR 12.
    """

    spec_name = "Adagrad"
    aliases = ("AdaGrad",)
    state = ("q",)
    lr_decay: float = field(0.0, doc="how fast the rate falls", ge=0)
    initial_accumulator: float = field(0.0, doc="q before the first step", ge=0)
    eps: float = positive(1e-10, doc="ε")
    weight_decay: float = field(0.0, doc="λ, coupled", ge=0)

    def pace(self, lr: float, t: int) -> float:
        return lr / (1 + (t - 1) * self.lr_decay)

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> float:
        return self.initial_accumulator

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        g = decayed(w, g, h)
        s.q = s.q + g * g
        return w - h.lr * g / (F.sqrt(s.q) + self.eps)


class AdaDelta(Optimizer):
    """v ← ρv + (1 − ρ)g²;  d = √(u + ε) / √(v + ε) · g;  u ← ρu + (1 − ρ)d²;  w ← w − ηd

    Paper: Zeiler 2012, arXiv:1212.5701.
    """

    spec_name = "AdaDelta"
    aliases = ("Adadelta",)
    state = ("v", "u")
    lr: float | Schedule = field(1.0, doc="learning rate, or a schedule of it by step")
    rho: float = fraction(0.95, doc="ρ, memory of the squares")
    eps: float = positive(1e-6, doc="ε")
    weight_decay: float = field(0.0, doc="λ, coupled", ge=0)

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        g = decayed(w, g, h)
        s.v = self.rho * s.v + (1 - self.rho) * g * g
        d = F.sqrt(s.u + self.eps) / F.sqrt(s.v + self.eps) * g
        s.u = self.rho * s.u + (1 - self.rho) * d * d
        return w - h.lr * d


class AdaMax(Optimizer):
    """m ← β₁m + (1 − β₁)g;  u ← max(β₂u, |g| + ε);  w ← w − η · m̂ / u

    Paper: Kingma & Ba 2015, arXiv:1412.6980.
    """

    spec_name = "AdaMax"
    aliases = ("Adamax",)
    state = ("m", "u")
    lr: float | Schedule = field(2e-3, doc="learning rate, or a schedule of it by step")
    b1: float = fraction(0.9, doc="β₁, memory of the mean")
    b2: float = fraction(0.999, doc="β₂, memory of the maximum")
    eps: float = positive(1e-8, doc="ε")

    def scalars(self, t: int) -> dict[str, float]:
        return {"unbias_m": 1 / (1 - self.b1**t)}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        s.m = self.b1 * s.m + (1 - self.b1) * g
        s.u = F.maximum(self.b2 * s.u, F.abs(g) + self.eps)
        return w - h.lr * h.unbias_m * s.m / s.u


@functools.lru_cache(maxsize=8)
def _momenta(b1: float, decay: float) -> Series:
    """Π μ₁ … μ_t by t."""
    return Series(1.0, lambda product, t: product * _momentum(b1, decay, t))


def _momentum(b1: float, decay: float, t: int) -> float:
    return b1 * (1 - 0.5 * 0.96 ** (t * decay))


class Nadam(Optimizer):
    """μ_t = β₁(1 − ½·0.96^(tψ));  m, v as Adam;
    w ← w − η · (μ_{t+1} m / (1 − Π μ₁…μ_{t+1}) + (1 − μ_t) g / (1 − Π μ₁…μ_t)) / (√v̂ + ε)

    Paper: Dozat 2016, ICLR workshop.
    """

    spec_name = "Nadam"
    aliases = ("NAdam",)
    state = ("m", "v")
    lr: float | Schedule = field(2e-3, doc="learning rate, or a schedule of it by step")
    b1: float = fraction(0.9, doc="β₁, memory of the mean")
    b2: float = fraction(0.999, doc="β₂, memory of the square")
    eps: float = positive(1e-8, doc="ε")
    momentum_decay: float = field(4e-3, doc="ψ", ge=0)

    def scalars(self, t: int) -> dict[str, float]:
        now, following = (_momentum(self.b1, self.momentum_decay, k) for k in (t, t + 1))
        product = _momenta(self.b1, self.momentum_decay)[t]
        return {"mean": following / (1 - product * following), "now": (1 - now) / (1 - product),
                "unbias_v": 1 / (1 - self.b2**t)}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        moments(self.b1, self.b2, g, s)
        return w - h.lr * (h.mean * s.m + h.now * g) / (F.sqrt(s.v * h.unbias_v) + self.eps)


class RAdam(Optimizer):
    """m, v as Adam;  w ← w − η · m̂ · r_t · √(1 − β₂ᵗ) / (√v + ε) once the variance of the quotient is finite
    (ρ_t > 5), before that w ← w − η · m̂.

    Paper: Liu et al. 2020, arXiv:1908.03265.
    """

    spec_name = "RAdam"
    state = ("m", "v")
    lr: float | Schedule = field(1e-3, doc="learning rate, or a schedule of it by step")
    b1: float = fraction(0.9, doc="β₁, memory of the mean")
    b2: float = fraction(0.999, doc="β₂, memory of the square")
    eps: float = positive(1e-8, doc="ε")

    def scalars(self, t: int) -> dict[str, float]:
        """plain, adapted: the factors of m and of m / (√v + ε); one of them is 0."""
        last, forgotten = 2 / (1 - self.b2) - 1, self.b2**t
        now = last - 2 * t * forgotten / (1 - forgotten)
        r = 1 / (1 - self.b1**t)
        if now <= 5:
            return {"plain": r, "adapted": 0.0}
        root = math.sqrt((now - 4) * (now - 2) * last / ((last - 4) * (last - 2) * now) * (1 - forgotten))
        return {"plain": 0.0, "adapted": r * root}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        moments(self.b1, self.b2, g, s)
        return w - h.lr * s.m * (h.plain + h.adapted / (F.sqrt(s.v) + self.eps))


class Lion(Optimizer):
    """c = β₁m + (1 − β₁)g;  w ← w − η(sign c + λw);  m ← β₂m + (1 − β₂)g

    Paper: Chen et al. 2023, arXiv:2302.06675.
    """

    spec_name = "Lion"
    state = ("m",)
    lr: float | Schedule = field(1e-4, doc="learning rate, or a schedule of it by step")
    b1: float = fraction(0.9, doc="β₁, share of the memory in a step")
    b2: float = fraction(0.99, doc="β₂, memory")
    weight_decay: float = field(0.0, doc="λ, decoupled", ge=0)

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        direction = F.sign(self.b1 * s.m + (1 - self.b1) * g)
        s.m = self.b2 * s.m + (1 - self.b2) * g
        return w - h.lr * decayed(w, direction, h)


class Rprop(Optimizer):
    """e = sign(g · g₋₁);  s ← clip(s · (η₊ if e > 0, η₋ if e < 0, else 1));  g ← 0 where e < 0;  w ← w − s · sign g

    lr is the first step size s.
    Paper: Riedmiller & Braun 1993, IEEE ICNN.
    """

    spec_name = "Rprop"
    state = ("before", "size")
    etas: tuple[float, float] = field((0.5, 1.2), doc="η₋, η₊")
    step_sizes: tuple[float, float] = field((1e-6, 50.0), doc="least and greatest s")

    def validate(self) -> None:
        if not 0 < self.etas[0] < 1 < self.etas[1] or not 0 < self.step_sizes[0] <= self.step_sizes[1]:
            raise ConfigError(
                "Rprop: expected 0 < η₋ < 1 < η₊ and 0 < least ≤ greatest step; "
                f"got {self.etas} and {self.step_sizes}.")

    def batch(self, samples: int) -> int:
        return samples  # signs of noise would be followed as readily

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> float:
        return self.rate(1) if slot == "size" else 0.0

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        agreed = F.sign(g) * F.sign(s.before)
        factor = F.where(agreed > 0, self.etas[1], F.where(agreed < 0, self.etas[0], 1.0))
        s.size = F.clip(s.size * factor, *self.step_sizes)
        s.before = g = F.where(agreed < 0, 0.0, g)
        return w - s.size * F.sign(g)
