"""Optimizers that keep parameters sparse or inside bounds: a gradient step, then the regulariser solved exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.tensor import Tensor, TensorLike
from ..errors import ConfigError
from .base import Memory, Optimizer, Scalars
from .rate import Schedule
from .series import Series


def soft(z: Tensor, k: TensorLike) -> Tensor:
    """sign(z) · max(|z| − k, 0)"""
    return F.sign(z) * F.relu(F.abs(z) - k)


# prox_{ηR}(z) by name: of z, k = η · strength and the optimizer's fields.
PROXIMAL: dict[str, Callable[[Tensor, Any, Any], Any]] = {
    "l1": lambda z, k, o: soft(z, k),
    "l2": lambda z, k, o: z / (1 + k),
    "elasticnet": lambda z, k, o: soft(z, k * o.l1_ratio) / (1 + k * (1 - o.l1_ratio)),
    "nonneg": lambda z, k, o: F.relu(z),
    "box": lambda z, k, o: F.clip(z, *o.bounds),
}


def proximal(o: Any, z: Tensor, k: TensorLike) -> Any:
    """prox_k(z) of the regulariser of an optimizer's fields."""
    return o.regularizer(z, k) if callable(o.regularizer) else PROXIMAL[o.regularizer](z, k, o)


def check_regularizer(o: Optimizer, regularizer: object, bounds: tuple[float, float]) -> None:
    """Raises ConfigError for a regulariser that is none, and for bounds that are not (low, high)."""
    who = type(o).__name__
    if not callable(regularizer) and regularizer not in PROXIMAL:
        raise ConfigError(
            f"{who}(regularizer={regularizer!r}): expected {', '.join(PROXIMAL)} or a callable (z, k).")
    if not bounds[0] <= bounds[1]:
        raise ConfigError(f"{who}(bounds={bounds}): expected (low, high).")


# q₁ = 1, q_{t+1} = (1 + √(1 + 4q_t²)) / 2, by t − 1
_FISTA = Series(1.0, lambda q, _: (1 + math.sqrt(1 + 4 * q * q)) / 2)


class ProximalGradientDescent(Optimizer):
    """w ← prox_{ηR}(w − ηg);  accelerated (FISTA): x ← prox_{ηR}(w − ηg), w ← x + (q_t − 1) / q_{t+1} · (x − x₋₁)

    R is strength · (‖w‖₁, ½‖w‖², their mixture by l1_ratio), w ≥ 0, or bounds;
    a callable is prox(z, k) itself with k = η · strength. Accelerated, gradients are taken at w and x is the solution:
    `use_solution` gives it to the model when training is over.
    Paper: Parikh & Boyd 2014, Foundations and Trends in Optimization 1; Beck & Teboulle 2009,
    SIAM Journal on Imaging Sciences 2.
    """

    spec_name = "ProximalGradientDescent"
    aliases = ("FISTA", "ISTA")
    state = ("x",)
    regularizer: Any = field("l1", doc="l1, l2, elasticnet, nonneg, box or a callable (z, k)")
    strength: float = field(0.01, doc="factor of R", ge=0)
    l1_ratio: float = field(0.5, doc="share of ‖w‖₁ in elasticnet", ge=0, le=1)
    accelerated: bool = field(False, doc="FISTA")
    bounds: tuple[float, float] = field((-1.0, 1.0), doc="of box")

    def validate(self) -> None:
        check_regularizer(self, self.regularizer, self.bounds)

    def slots(self) -> tuple[str, ...]:
        return self.state if self.accelerated else ()

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return w

    def scalars(self, t: int) -> dict[str, float]:
        return {"beyond": (_FISTA[t - 1] - 1) / _FISTA[t]} if self.accelerated else {}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        z, k = w - h.lr * g, h.lr * self.strength
        x = proximal(self, z, k)
        if not self.accelerated:
            return x
        before, s.x = s.x, x
        return x + h.beyond * (x - before)

    def use_solution(self) -> None:
        """w ← x, where accelerated."""
        for section in self.sections:
            if self.accelerated:
                section.arena.flat.assign(section.memory["x"].tensor)


class ADMM(Optimizer):
    """min f(w) + R(z) with w = z:  w ← w − η(g + ρ(w − z + u)), `inner_steps` times;  then z ← prox_{R/ρ}(w + u),
    u ← u + w − z.

    R as for ProximalGradientDescent; z is the solution: `use_solution` gives it to the model when training is over.
    minimizer   (v, ρ) → argmin_w f(w) + ρ/2 ‖w − v‖², in place of the gradient steps, where it is known
    adaptive_rho   ρ ← 2ρ, u ← u/2 where ‖w − z‖ > 10 ρ‖z − z₋₁‖; the other way round where less than a tenth
    Training ends where ‖w − z‖ and ρ‖z − z₋₁‖ are both below √n · tol after an epoch.
    Paper: Boyd, Parikh, Chu, Peleato, Eckstein 2011, Foundations and Trends in Machine Learning 3.
    """

    spec_name = "ADMM"
    state = ("z", "u", "penalty")
    rho: float = positive(1.0, doc="ρ")
    inner_steps: int = positive(1, doc="gradient steps between two of z and u")
    regularizer: Any = field("l1", doc="l1, l2, elasticnet, nonneg, box or a callable (z, k)")
    strength: float = field(0.1, doc="factor of R", ge=0)
    l1_ratio: float = field(0.5, doc="share of ‖w‖₁ in elasticnet", ge=0, le=1)
    bounds: tuple[float, float] = field((-1.0, 1.0), doc="of box")
    adaptive_rho: bool = field(False, doc="whether ρ follows the residuals")
    minimizer: Any = field(None, doc="a callable (v, ρ), or None")
    tol: float = field(1e-4, doc="residual an element that counts as none", ge=0)

    def validate(self) -> None:
        check_regularizer(self, self.regularizer, self.bounds)
        if self.minimizer is not None and not callable(self.minimizer):
            raise ConfigError(f"ADMM(minimizer={self.minimizer!r}): expected a callable (v, rho), or None.")

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | float:
        """penalty: ρ, ‖w − z‖, ρ‖z − z₋₁‖."""
        return np.array([self.rho, math.inf, math.inf]) if slot == "penalty" else 0.0

    def state_bytes(self, size: int) -> int:
        return (2 if self.state_dtype else 4) * 2 * size + 12

    def scalars(self, t: int) -> dict[str, float]:
        return {"turn": float(t % self.inner_steps == 0)}

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        rho, turn = s.penalty[0], h.turn > 0.5
        w = self.minimizer(s.z - s.u, rho) if self.minimizer else w - h.lr * (g + rho * (w - s.z + s.u))
        z = proximal(self, w + s.u, self.strength / rho)
        u = s.u + w - z
        primal, dual = F.sqrt(F.sum(F.square(w - z))), rho * F.sqrt(F.sum(F.square(z - s.z)))
        factor: TensorLike = 1.0
        if self.adaptive_rho:
            factor = F.where(primal > 10 * dual, 2.0, F.where(dual > 10 * primal, 0.5, 1.0)).astype(w.dtype)
        s.z, s.u = F.where(turn, z, s.z), F.where(turn, u / factor, s.u)
        s.penalty = F.where(turn, F.stack([rho * factor, primal, dual], 0), s.penalty)
        return w

    def converged(self) -> str:
        left = [np.asarray(s.memory["penalty"].numpy(), np.float64)[1:] / math.sqrt(s.arena.size)
                for s in self.sections]
        near = max(float(np.max(r)) for r in left) if left else math.inf
        return f"ADMM converged: its residuals are below {self.tol:g} an element" if near < self.tol else ""

    def use_solution(self) -> None:
        """w ← z"""
        for section in self.sections:
            section.arena.flat.assign(section.memory["z"].tensor)


class FTRL(Optimizer):
    """σ = (√(q + g²) − √q) / α;  z ← z + g − σw;  q ← q + g²;  w ← 0 if |z| ≤ λ₁,
    else −(z − sign(z)λ₁) / ((β + √q) / α + λ₂)

    w depends on z and q alone: with warm_start z begins where it gives the first w. lr is a factor on α.
    Paper: McMahan et al. 2013, KDD.
    """

    spec_name = "FTRL"
    aliases = ("Ftrl",)
    state = ("z", "q")
    wide_state = "its parameters are computed from its state alone"
    lr: float | Schedule = field(1.0, doc="factor on α, or a schedule of it by step")
    alpha: float = positive(0.005, doc="α, learning rate")
    beta: float = field(1.0, doc="β", ge=0)
    l1: float = field(1.0, doc="λ₁", ge=0)
    l2: float = field(1.0, doc="λ₂", ge=0)
    warm_start: bool = field(True, doc="whether the first parameters count")

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | float:
        if slot == "q" or not self.warm_start:
            return 0.0
        w = w.astype(np.float64)
        return -w * (self.beta / (self.alpha * self.rate(1)) + self.l2) - np.sign(w) * self.l1

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        alpha = self.alpha * h.lr
        z, q = s.z + g - (F.sqrt(s.q + g * g) - F.sqrt(s.q)) / alpha * w, s.q + g * g
        s.z, s.q = z, q
        beyond = -(z - F.sign(z) * self.l1) / ((self.beta + F.sqrt(q)) / alpha + self.l2)
        return F.where(F.abs(z) <= self.l1, 0.0, beyond)
