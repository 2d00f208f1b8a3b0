"""Steps by second derivatives: H v is the gradient of g · v, so that H is never formed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config.fields import choice, field, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Scalars
from .closure import ClosureOptimizer, Place, Search, dot, settled
from .quasi_newton import LineSearchOptimizer

CURVATURE = 3  # units in the last place of pᵀp · |H| below which a curvature counts as none


class SecondOrder(ClosureOptimizer, abstract=True):
    """Base of optimizers that solve H d = −g by conjugate gradients, one recorded iteration after another."""

    vectors: ClassVar[tuple[str, ...]] = ("x", "d", "g", "g0", "r", "p", "hp")

    def mu(self) -> float:
        """What is added to the diagonal of H."""
        return 0.0

    def _conjugate(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Sequence[Tensor]:
        """An iteration: z ← z + a p, r ← r + a Hp, p ← (r·r / rr) p − r, Hp; from z = 0 where h.start is 1. z is v.d.
        """
        v, start = at.v, h.start > 0.5
        z = F.where(start, 0.0, v.d + h.a * v.p)
        r = F.where(start, v.g, v.r + h.a * v.hp)
        rr = dot(r, r)
        p = F.where(start, 0.0, rr / h.rr * v.p) - r
        hp = at.product(at.loss(batch, h), p) + h.mu * p
        v.d, v.r, v.p, v.hp = z, r, p, hp
        return [rr, dot(p, hp), dot(z, z), dot(z, p), dot(p, p)]

    def _finish(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        """d = z + a p, or −g where h.down is 1; a search may begin at w. g · d and dᵀHd."""
        v, down = at.v, h.down > 0.5
        d = F.where(down, -v.g, v.d + h.a * v.p)
        r = v.r + h.a * v.hp
        v.d, v.x, v.g0 = d, at.w, v.g
        return [dot(v.g, d), dot(d, r - v.g)]

    def _solved(self, search: Search, radius: float, most: int, forcing: float) -> tuple[float, float, bool]:
        """(g · d, dᵀHd, whether |d| = radius) for d ≈ −H⁻¹g: until |Hd + g| ≤ forcing · |g|, a direction of negative
        curvature or the radius.
        """
        a, rr, gg, start = 0.0, 1.0, math.nan, 1.0
        for k in range(most + 1):
            rr, php, zz, zp, pp = search.evaluate("conjugate", self._conjugate, a=a, rr=rr, start=start, mu=self.mu())
            gg, start = (rr, 0.0) if k == 0 else (gg, 0.0)
            if not math.isfinite(php) or math.sqrt(rr) <= forcing * math.sqrt(gg) or k == most:
                return (*self._ended(search, 0.0), False)
            if php <= CURVATURE * search.eps * pp:
                if math.isfinite(radius):
                    return (*self._ended(search, _to(radius, zz, zp, pp)), True)
                return (*self._ended(search, 0.0, down=not k), False)
            a = rr / php
            if zz + 2 * a * zp + a * a * pp >= radius * radius:
                return (*self._ended(search, _to(radius, zz, zp, pp)), True)
        raise AssertionError

    def _ended(self, search: Search, a: float, down: bool = False) -> tuple[float, float]:
        slope, curved = search.numbers("finish", self._finish, a=a, down=float(down))
        return slope, curved


def _to(radius: float, zz: float, zp: float, pp: float) -> float:
    """The a > 0 with |z + a p| = radius."""
    return (-zp + math.sqrt(max(zp * zp + pp * (radius * radius - zz), 0.0))) / pp


class NewtonMethod(SecondOrder, LineSearchOptimizer):
    """(H + μI) d = −g;  w ← w + a d, a by a line search.

    solver "cg": by conjugate gradients until |residual| ≤ min(½, √|g|) · |g|; where they meet negative curvature, what
    they have by then, at first −g. "cholesky": H column by column, μ raised from 1e-3 by doubling until H + μI is
    positive definite; H has n² numbers, and its factors are made on the host in double precision.
    Source: Nocedal & Wright 2006, chapter 7.
    """

    spec_name = "NewtonMethod"
    aliases = ("Newton", "NewtonCG")
    damping: float = field(0.0, doc="μ", ge=0)
    solver: str = choice("cg", ("cg", "cholesky"), doc="cg or cholesky")
    line_search: str | None = choice("backtracking", ("backtracking", "strong_wolfe"),
                                     doc="backtracking or strong_wolfe")
    max_cg: int = positive(200, doc="products with H a direction, with cg")
    force: bool = field(False, doc="whether cholesky takes more than 20000 parameters")

    def numbers_kept(self, size: int) -> int:
        return size * size if self.solver == "cholesky" else 0

    def mu(self) -> float:
        return self.damping

    def first(self, slope: float, before: float) -> float:
        return self.rate(self.t + 1)

    def turn(self, search: Search, pair: bool, reset: bool = False) -> float:
        self.kept["learned"] = 0.0 if reset else 1.0
        if reset:
            return self._ended(search, 0.0, down=True)[0]
        if self.solver == "cholesky":
            (slope,) = search.numbers("placed", self._placed, given=(self._dense(search),), zero=0.0)
        else:
            norm = math.sqrt(search.numbers("norm", self._norm, zero=0.0)[0])
            slope = self._solved(search, math.inf, self.max_cg, min(0.5, math.sqrt(norm)))[0]
        return slope if slope < 0 else self.turn(search, pair, reset=True)

    def _norm(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        return [dot(at.v.g, at.v.g) + h.zero]

    # --- dense
    def _column(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Tensor:
        """Column k of H, and behind it the k-th element of g."""
        here = F.equal(F.arange(n=at.arena.size, dtype="float32"), h.k.astype("float32")).astype(at.w.dtype)
        column = at.product(at.loss(batch, h), here)
        return F.concat([column, dot(at.v.g, here).reshape(1)], 0)

    def _placed(self, at: Place, d: Tensor, h: Scalars) -> Sequence[Tensor]:
        at.v.d, at.v.x, at.v.g0 = d, at.w, at.v.g
        return [dot(at.v.g, d) + h.zero]

    def _dense(self, search: Search) -> np.ndarray[Any, Any]:
        """−(H + μI)⁻¹ g"""
        found = np.array([search.evaluate("column", self._column, k=float(k)) for k in range(search.at.arena.size)])
        hessian, g, mu = 0.5 * (found[:, :-1] + found[:, :-1].T), found[:, -1], self.damping
        while np.isfinite(hessian).all() and math.isfinite(mu):
            try:
                half = np.linalg.cholesky(hessian + mu * np.eye(len(g)))
                return np.asarray(-np.linalg.solve(half.T, np.linalg.solve(half, g)), search.dtype)
            except np.linalg.LinAlgError:
                mu = max(1e-3, 2 * mu)
        return np.asarray(-g, search.dtype)


class TrustRegion(SecondOrder):
    """min g · p + ½ pᵀHp with |p| ≤ Δ, by conjugate gradients to the boundary (Steihaug);  ρ = what the loss fell by
    over what the model promised;  w ← w + p where ρ > η.

    ρ < ¼: Δ ← shrink · Δ; ρ > ¾ on the boundary: Δ ← min(grow · Δ, max_radius). Where the promise is below rounding,
    p is taken as long as the gradient becomes less. lr has no meaning here.
    Paper: Steihaug 1983, SIAM Journal on Numerical Analysis 20.
    """

    spec_name = "TrustRegion"
    radius: float = positive(1.0, doc="Δ at first")
    min_radius: float = positive(1e-6, doc="Δ at which to end")
    max_radius: float = positive(10.0, doc="largest Δ")
    eta: float = field(0.1, doc="η, least ρ of a step that is made", ge=0, lt=0.25)
    shrink: float = field(0.25, doc="factor of Δ after a bad step", gt=0, lt=1)
    grow: float = field(2.0, doc="factor of Δ after a good step that ended at the boundary", gt=1)
    max_cg: int = positive(100, doc="products with H a step")

    def validate(self) -> None:
        if self.lr != 1.0:
            raise ConfigError(f"TrustRegion(lr={self.lr!r}): expected no rate, for the radius bounds a step; "
                              "set radius= and max_radius=.")
        if not self.min_radius < self.radius <= self.max_radius:
            raise ConfigError(
                f"TrustRegion(radius={self.radius}): expected min_radius {self.min_radius} < radius <= max_radius "
                f"{self.max_radius}.")

    def advance(self, search: Search) -> str:
        f, top = self.begun(search)
        for _ in range(self.max_iter):
            if (end := self.over(f, top)) is not None:
                return end
            search.iterations += 1
            radius = self.kept.setdefault("radius", self.radius)
            if radius <= self.min_radius:
                self.kept["radius"] = self.radius  # for another batch
                return f"no step longer than {self.min_radius:g} lowers the loss as expected"
            slope, curved, edge = self._solved(search, radius, self.max_cg, max(1e-6, 4 * search.eps))
            promised = -(slope + 0.5 * curved)
            new, _, there = search.evaluate("loss", self._evaluate, a=1.0)
            if promised <= 4 * search.eps * abs(f):
                if settled(new, there) and there < top:
                    f, top = new, there
                    continue
                search.evaluate("loss", self._evaluate, a=0.0)
                return "what the model promises is below rounding"
            if self._judged((f - new) / promised if settled(new, there) else -math.inf, radius, edge):
                f, top = new, there
            else:
                search.evaluate("loss", self._evaluate, a=0.0)
        return ""

    def _judged(self, ratio: float, radius: float, edge: bool) -> bool:
        """Whether a step of this ρ is made; sets the next Δ."""
        if ratio < 0.25:
            self.kept["radius"] = radius * self.shrink
        elif ratio > 0.75 and edge:
            self.kept["radius"] = min(radius * self.grow, self.max_radius)
        return ratio > self.eta


