"""Least squares: steps by the residuals' Jacobian, for losses ½ Σ r²."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops as F
from ..config.fields import choice, field, positive
from ..core.autodiff import gradients
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from ..show import size as shown_size
from .base import Scalars
from .closure import ClosureOptimizer, Place, Search, dot, settled
from .quasi_newton import identity, outer, times

LARGEST = 1 << 28  # elements of a Jacobian: 1 GiB in float32
TOGETHER = 32  # rows that are put together at a time
FORCING = 1e-6  # what may be left of the normal equations' residual
MENDED = 20  # conjugate gradients behind an inverse
STALLED = 0.25  # of what was left before: a step that gains less gains nothing
LEAST = 1e-12  # pivot of a matrix with a diagonal of 1


class LevenbergMarquardt(ClosureOptimizer):
    """(JᵀJ + λD) d = −Jᵀr with J = ∂r/∂w, D = diag(JᵀJ) or I;  w ← w + d and λ ← down · λ where ½ Σ r² becomes less,
    else λ ← up · λ.

    J (m × n) is made on the device, a column for each parameter or a row for each residual, whichever are fewer, and
    the equations are solved there, by an inverse of n² numbers and conjugate gradients on J. diag(JᵀJ) is the largest
    so far in the step, so that parameters which lose their influence do not run away (Moré 1978). For losses that are
    sums of squares: MSELoss, or a function (output, target) with an attribute `residuals`, (output, target) → r with
    loss = ½ Σ r²; a closure returns r itself. lr has no meaning here. Ends where λ reaches max_damping: no step lowers
    the loss.
    Paper: Levenberg 1944, Quarterly of Applied Mathematics 2; Marquardt 1963, SIAM Journal 11.
    """

    spec_name = "LevenbergMarquardt"
    aliases = ("LM",)
    vectors: ClassVar[tuple[str, ...]] = ("x", "d", "g", "p", "diagonal", "scale")
    matrices: ClassVar[tuple[str, ...]] = ("inverse",)
    damping: float = positive(1e-3, doc="λ at first")
    up: float = field(10.0, doc="factor of λ after a step that is not made", gt=1)
    down: float = field(0.1, doc="factor of λ after one that is", gt=0, lt=1)
    min_damping: float = positive(1e-12, doc="least λ")
    max_damping: float = positive(1e12, doc="largest λ")
    scale: str = choice("diag", ("diag", "identity"), doc="D: diag(JᵀJ) or I")

    force: bool = field(False, doc="whether more than 20000 parameters are taken")

    def numbers_kept(self, size: int) -> int:
        return size * size

    def validate(self) -> None:
        if self.lr != 1.0:
            raise ConfigError(
                f"LevenbergMarquardt(lr={self.lr!r}): expected no rate, for λ bounds a step; set damping=.")
        if self.maximize:
            raise ConfigError("LevenbergMarquardt(maximize=True): expected squares, which have no largest sum.")
        if not self.min_damping <= self.damping < self.max_damping:
            raise ConfigError(f"LevenbergMarquardt(damping={self.damping}): expected min_damping {self.min_damping} <= "
                              f"damping < max_damping {self.max_damping}.")

    # --- formulas
    def _residuals(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Tensor:
        with at.objective.recording():
            r = at.objective.residuals(batch, h.first, h.row).reshape(-1)
        if r.size == 1 and at.arena.size > 1:
            raise ShapeError(
                "LevenbergMarquardt: expected residuals, a number a sample or more; got a single one; return r in "
                "place of its sum of squares, or take LBFGS.")
        return r

    def _evaluate(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Sequence[Tensor]:
        """w = x + a d, and there ½ Σ r², its slope along d, its largest |gradient element|."""
        at.move(at.v.x + h.a * at.v.d)
        r = self._residuals(at, batch, h)
        f = 0.5 * dot(r, r)
        at.v.g = at.gradient(f)
        return [f, dot(at.v.g, at.v.d), F.max(F.abs(at.v.g))]

    def _values(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Tensor:
        """r where w is, from where steps are tried"""
        at.v.x = at.w
        return self._residuals(at, batch, h)

    def _row(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Tensor:
        """∂r_k/∂w"""
        r = self._residuals(at, batch, h)
        return at.gradient(dot(r, _unit(r, h.k)))

    def _column(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Tensor:
        """∂r/∂w_k: the gradient by u of (Jᵀu)_k, which is linear in u"""
        r = self._residuals(at, batch, h)
        u = h.k.astype(r.dtype) * F.zeros(r.shape, r.dtype)
        pulled = at.gradient(dot(r, u))
        (column,) = gradients(dot(pulled, _unit(pulled, h.k)), [u])
        return column

    def _normal(self, at: Place, j: Tensor, r: Tensor, h: Scalars) -> Sequence[Tensor]:
        """The matrix of S(JᵀJ + λD)S with S = diag(JᵀJ)^-½, or I, to be inverted; d = 0"""
        squares = F.sum(j * j, 0)
        squares = F.where(squares > 0, squares, 1.0)
        at.v.scale = 1.0 / F.sqrt(squares)
        largest = F.where(h.anew > 0.5, squares, F.maximum(at.v.diagonal, squares))
        at.v.diagonal = largest if self.scale == "diag" else F.ones(squares.shape, squares.dtype)
        scaled = j * at.v.scale
        extra = h.damping * at.v.diagonal * at.v.scale * at.v.scale
        at.v.inverse = scaled.T @ scaled + identity(at.v.inverse) * extra
        at.v.d, at.v.p = F.zeros(at.w.shape, at.w.dtype), F.zeros(at.w.shape, at.w.dtype)
        return [F.sum(extra)]

    def _sweep(self, at: Place, h: Scalars) -> Tensor:
        """A sweep of the symmetric matrix A over its k-th row and column; after all of them it is −A⁻¹.

        a_ij − a_ik a_kj / a_kk, in the row and column a_ik / a_kk, and −1 / a_kk where they meet.
        """
        a = at.v.inverse
        unit = _unit(at.w, h.k)
        column = F.sum(a * unit, 1)
        pivot = F.sum(column * unit)
        pivot = F.where(pivot > LEAST, pivot, LEAST)
        rest = column * (1.0 - unit)
        here, there = unit.reshape(-1, 1), unit.reshape(1, -1)
        kept = a * ((1.0 - here) * (1.0 - there)) - outer(rest, rest) / pivot
        at.v.inverse = kept + (outer(rest, unit) + outer(unit, rest) - here * there) / pivot
        return pivot

    def _conjugate(self, at: Place, j: Tensor, r: Tensor, h: Scalars) -> Sequence[Tensor]:
        """d ← d + a p, what is left of the normal equations, and the next p: conjugate gradients with the inverse"""
        v = at.v
        d = v.d + h.a * v.p
        s = -times(j.T, r + times(j, d)) - h.damping * v.diagonal * d
        z = -v.scale * times(v.inverse, v.scale * s)
        left = dot(s, z)
        p = z + left / h.before * v.p
        jp = times(j, p)
        v.d, v.p = d, p
        return [left, dot(jp, jp) + h.damping * dot(p, v.diagonal * p)]

    # --- the step
    def advance(self, search: Search) -> str:
        f, top = self.begun(search)
        for k in range(self.max_iter):
            if (end := self.over(f, top)) is not None:
                return end
            search.iterations += 1
            r = search.evaluated("residuals", self._values)
            j = self._jacobian(search, r.size)
            new, there = self._lower(search, j, r, (f, top), k == 0)
            if new == math.inf:
                self.kept["damping"] = self.damping  # for another batch
                return f"no step lowers the loss with a damping up to {self.max_damping:g}"
            change, f = f - new, new
            if change <= max(self.tol_change, 4 * search.eps * f) and there >= top:
                return "neither loss nor gradient become less"
            top = there
        return ""

    def _lower(self, search: Search, j: Tensor, r: Tensor, now: tuple[float, float], anew: bool) -> tuple[float, float]:
        """(½ Σ r², its largest |gradient element|) at a point that is lower than x, where they are `now`; (inf, inf)
        where there is none.

        Near a minimum Σ r² has no more digits that differ while its gradient still has: the lesser gradient decides.
        """
        f, steepest = now
        damping = self.kept.setdefault("damping", self.damping)
        while damping <= self.max_damping:
            self._solve(search, j, r, damping, anew)
            new, _, top = search.evaluate("loss", self._evaluate, a=1.0)
            flat = abs(new - f) <= 4 * search.eps * f
            if settled(new, top) and (top < steepest if flat else new < f):
                self.kept["damping"] = max(damping * self.down, self.min_damping)
                return new, top
            self.kept["damping"] = damping = damping * self.up
        search.evaluate("loss", self._evaluate, a=0.0)
        return math.inf, math.inf

    def _solve(self, search: Search, j: Tensor, r: Tensor, damping: float, anew: bool) -> None:
        """d for a λ: the matrix inverted by sweeps, whose rounding is mended by conjugate gradients on J."""
        search.numbers("normal", self._normal, given=(j, r), damping=damping,
                       anew=float(anew))
        for k in range(search.at.arena.size):
            search.tensor("sweep", self._sweep, k=float(k))
        a, left, first = 0.0, 1.0, math.inf
        for k in range(MENDED):
            before = left
            left, curved = search.numbers("conjugate", self._conjugate, given=(j, r), damping=damping, a=a, before=left)
            first = min(first, left) if math.isinf(first) else first
            # At a minimum whose residuals are not 0 what is left becomes their rounding, which no direction mends.
            if not (left > FORCING**2 * first and curved > 0) or (k and left > STALLED * before):
                return
            a = left / curved

    # --- the Jacobian
    def _jacobian(self, search: Search, m: int) -> Tensor:
        """J (m, n), on the device."""
        n = search.at.arena.size
        if m * n > LARGEST:
            raise ConfigError(
                f"LevenbergMarquardt: expected a Jacobian of at most {LARGEST} elements; got {m} residuals of {n} "
                f"parameters, which take {shown_size(4 * m * n)}; make batches smaller, or take LBFGS.")
        name, formula = ("row", self._row) if m <= n else ("column", self._column)
        parts = [search.evaluated(name, formula, k=float(k)) for k in range(min(m, n))]
        blocks = [search.tensor(f"{name}s {len(p)}", _stacked, given=p, zero=0.0) for p in _cut(parts)]
        while len(blocks) > 1:
            sizes = [tuple(b.shape[0] for b in p) for p in _cut(blocks)]
            blocks = [search.tensor(f"{name} blocks {s}", _joined, given=p, zero=0.0)
                      for s, p in zip(sizes, _cut(blocks), strict=True)]
        return blocks[0] if name == "row" else search.tensor("turned", _turned, given=(blocks[0],), zero=0.0)


def _unit(like: Tensor, k: Tensor) -> Tensor:
    """The k-th unit vector, of a vector's size."""
    return F.equal(F.arange(n=like.shape[0], dtype="int32"), k.astype("int32")).astype(like.dtype)


def _cut(parts: list[Tensor]) -> list[list[Tensor]]:
    return [parts[k : k + TOGETHER] for k in range(0, len(parts), TOGETHER)]


def _stacked(at: Place, *parts: Tensor) -> Tensor:
    whole: Tensor = F.stack(parts[:-1], 0)
    return whole


def _joined(at: Place, *parts: Tensor) -> Tensor:
    return F.concat(parts[:-1], 0)


def _turned(at: Place, j: Tensor, h: Scalars) -> Tensor:
    return j.T + h.zero.astype(j.dtype)
