"""A direction from gradients alone, and a line search along it: conjugate gradients, BFGS and its relatives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config.fields import choice, field, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Memory, Scalars
from .closure import ClosureOptimizer, Place, Search, dot, settled
from .line_search import Point, backtracking, strong_wolfe

CURVED = 1e-10  # least yᵀs of a pair that says something about the curvature
ROUNDING = 4  # units in the last place of the loss that are taken for nothing
IDLE = 3  # iterations in a row without any gain, after which there is none to come
SEARCHES = ("strong_wolfe", "backtracking")


class LineSearchOptimizer(ClosureOptimizer, abstract=True):
    """Base of optimizers whose step is w ← w + a d, a by a line search along a direction d with d · g < 0.

    Where d does not go down, d = −g and the memory begins anew. Ends where |g| ≤ tol_grad everywhere, where neither
    loss nor gradient become less, or where no step along −g lowers the loss.
    """

    c1: float = field(1e-4, doc="c₁, share of the expected decrease that a step must bring", gt=0, lt=0.5)
    c2: float = field(0.9, doc="c₂, share of the slope that may be left", gt=0, lt=1)
    line_search: str | None = choice("strong_wolfe", SEARCHES, doc="strong_wolfe or backtracking")

    def validate(self) -> None:
        if not self.c1 < self.c2:
            raise ConfigError(f"{type(self).__name__}(c1={self.c1}, c2={self.c2}): expected c1 < c2.")

    # --- what an optimizer states
    def direction(self, g: Tensor, s: Tensor, y: Tensor, v: Memory, memory: Memory, h: Scalars) -> Tensor:
        """d. s = w − x and y = g − g0 of the last iteration, which count where h.pair is 1; new memory is written."""
        raise NotImplementedError(f"{type(self).__name__}.direction")

    def turn(self, search: Search, pair: bool, reset: bool = False) -> float:
        """Makes the direction at w, from where the next search begins; the slope along it.

        pair    whether an iteration on this batch led here, which the memory is to learn from
        reset   whether d = −g with the memory as new
        """
        fresh = not self.kept.get("learned")
        slope, anew = search.numbers("direction", self._turn, pair=float(pair), reset=float(reset), fresh=float(fresh),
                                     restart=float(self.restarts(search)))
        self.kept["learned"] = 0.0 if anew else float(pair) or float(not fresh)
        return slope

    def learn(self, search: Search) -> None:
        """The memory learns from the iteration that led here."""
        self.turn(search, True)

    def restarts(self, search: Search) -> bool:
        """Whether the memory is left out this time, by count."""
        return False

    def first(self, slope: float, before: float) -> float:
        """The step that is tried first; `before` is how much the loss fell in the last iteration, 0 where unknown."""
        likely = 2.02 * before / -slope if before > 0 else 1.01 / math.sqrt(-slope)
        return min(1.0, likely) * self.rate(self.t + 1)

    # --- formulas
    def _turn(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        g = at.v.g
        d = self.direction(g, at.w - at.v.x, g - at.v.g0, at.v, at.s, h)
        slope = dot(g, d)
        down = F.bit_and(slope < 0, h.reset < 0.5)
        for name, variable in at.s.all().items():
            setattr(at.s, name, F.where(down, variable, self.blank(name, variable)))
        at.v.d = F.where(down, d, -g)
        at.v.x, at.v.g0 = at.w, g
        return [F.where(down, slope, -dot(g, g)), F.where(down, 0.0, 1.0)]

    def blank(self, name: str, value: Tensor) -> Tensor:
        """A memory that has learned nothing."""
        nothing: Tensor = F.zeros(value.shape, value.dtype)
        return nothing

    # --- the step
    def advance(self, search: Search) -> str:
        f, top = self.begun(search)
        least, idle, pair, reset = top, 0, False, False
        for _ in range(self.max_iter):
            if (end := self.over(f, top)) is not None:
                return end
            search.iterations += 1
            found, new = self._along(search, f, self.turn(search, pair, reset))
            if found is None:
                if not self.kept.get("learned"):
                    return "no step along −gradient lowers the loss"
                pair, reset = False, True
                continue
            change, f, top, pair, reset = f - found.f, found.f, new, True, False
            self.kept["fell"] = change
            idle = idle + 1 if change <= self.tol_change and top >= least else 0
            if idle == IDLE:
                return "neither loss nor gradient become less"
            least = min(least, top)
        if pair and self.state and settled(f, top) and top > self.tol_grad:
            self.learn(search)  # the next step may be on another batch
        return ""

    def _along(self, search: Search, f: float, slope: float) -> tuple[Point | None, float]:
        """(where the line search ended, or None with w = x; the largest |gradient element| there)"""
        tops: dict[float, float] = {}

        def phi(a: float) -> Point:
            value, along, tops[a] = search.evaluate("loss", self._evaluate, a=a)
            last[0] = Point(a, value, along)
            return last[0]

        start = Point(0.0, f, slope)
        last = [start]
        first, rounding = self.first(slope, self.kept.get("fell", 0.0)), ROUNDING * search.eps * abs(f)
        found: Point | None
        if self.line_search == "strong_wolfe":
            found = strong_wolfe(phi, start, first, self.c1, self.c2, rounding)
        elif self.line_search == "backtracking":
            found = backtracking(phi, start, first, self.c1, rounding)
        else:
            found = phi(first)
        if (end := found or start) != last[0]:
            phi(end.a)  # back to where it was best
        return found, tops.get(end.a, math.inf)


class ConjugateGradient(LineSearchOptimizer):
    """d ← −g + βd;  w ← w + a d. β: FR g·g / g₀·g₀; PR+ max(0, g·y / g₀·g₀); HS max(0, g·y / d·y); DY g·g / d·y, with
    y = g − g₀. Every `restart` iterations β = 0.

    Paper: Fletcher & Reeves 1964, Computer Journal 7; Polak & Ribière 1969, RIRO 3; Hestenes & Stiefel 1952;
    Dai & Yuan 1999, SIAM Journal on Optimization 10.
    """

    spec_name = "ConjugateGradient"
    aliases = ("CG", "NonlinearCG")
    state = ("m",)
    beta: str = choice("PR+", ("PR+", "FR", "HS", "DY"), doc="formula of β")
    c2: float = field(0.4, doc="c₂, share of the slope that may be left", gt=0, lt=1)
    restart_every: int | None = field(None, doc="iterations after which β = 0; None: as many as parameters", gt=0)

    def restarts(self, search: Search) -> bool:
        every = self.restart_every or search.at.arena.size
        self.kept["since"] = self.kept.get("since", 0.0) + 1
        if self.kept["since"] <= every:
            return False
        self.kept["since"] = 1.0
        return True

    def direction(self, g: Tensor, s: Tensor, y: Tensor, v: Memory, memory: Memory, h: Scalars) -> Tensor:
        over = dot(v.g0, v.g0) if self.beta in ("FR", "PR+") else dot(v.d, y)
        above = dot(g, g) if self.beta in ("FR", "DY") else F.relu(dot(g, y))
        beta = F.where(over > 0, above / F.where(over > 0, over, 1.0), 0.0) * (1.0 - h.restart)
        # βd is what is remembered: on another batch the next step begins with it and the gradient there
        memory.m = F.where(h.pair > 0, beta * v.d, memory.m)
        return memory.m - g


class BFGS(LineSearchOptimizer):
    """d = −Hg;  H ← (I − s yᵀ/ρ) H (I − y sᵀ/ρ) + s sᵀ/ρ with ρ = yᵀs, where ρ > 1e-10; before the first
    H = ρ / yᵀy · I.

    H has n² numbers. Source: Broyden, Fletcher, Goldfarb, Shanno 1970; Nocedal & Wright 2006, algorithm 6.1.
    """

    spec_name = "BFGS"
    state = ("h",)
    force: bool = field(False, doc="whether more than 20000 parameters are taken")

    def numbers_kept(self, size: int) -> int:
        return size * size

    def state_bytes(self, size: int) -> int:
        return 4 * size * size

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.eye(w.size)

    def blank(self, name: str, value: Tensor) -> Tensor:
        return identity(value)

    def direction(self, g: Tensor, s: Tensor, y: Tensor, v: Memory, memory: Memory, h: Scalars) -> Tensor:
        ys, yy = dot(y, s), dot(y, y)
        learn = F.bit_and(h.pair > 0, ys > CURVED)
        safe = F.where(learn, ys, 1.0)
        h0 = F.where(F.bit_and(learn, h.fresh > 0), safe / F.where(learn, yy, 1.0), 1.0) * memory.h
        memory.h = F.where(learn, self.updated(h0, s, y, safe), memory.h)
        return -times(memory.h, g)

    def updated(self, h: Tensor, s: Tensor, y: Tensor, ys: Tensor) -> Tensor:
        """H after the pair."""
        hy = times(h, y)
        return h + outer(s, s) * ((ys + dot(y, hy)) / (ys * ys)) - (outer(hy, s) + outer(s, hy)) / ys


class DFP(BFGS):
    """d = −Hg;  H ← H + s sᵀ / yᵀs − (Hy)(Hy)ᵀ / yᵀHy, where yᵀs > 1e-10; before the first H = yᵀs / yᵀy · I.

    H has n² numbers. Source: Davidon 1959, ANL-5990; Fletcher & Powell 1963, Computer Journal 6.
    """

    spec_name = "DFP"
    c2: float = field(0.1, doc="c₂; errors of the line search stay in H longer than with BFGS", gt=0, lt=1)

    def updated(self, h: Tensor, s: Tensor, y: Tensor, ys: Tensor) -> Tensor:
        hy = times(h, y)
        yhy = dot(y, hy)
        return h + outer(s, s) / ys - outer(hy, hy) / F.where(yhy > 0, yhy, 1.0)


def identity(like: Tensor) -> Tensor:
    """The unit matrix of a matrix's size."""
    n = F.arange(n=like.shape[0], dtype="int32")
    return F.where(F.equal(n.reshape(-1, 1), n.reshape(1, -1)), 1.0, 0.0).astype(like.dtype)


def times(a: Tensor, v: Tensor) -> Tensor:
    """A v"""
    return (a @ v.reshape(-1, 1)).reshape(-1)


def outer(a: Tensor, b: Tensor) -> Tensor:
    """a bᵀ"""
    return a.reshape(-1, 1) * b.reshape(1, -1)


class LBFGS(LineSearchOptimizer):
    """d = −Hg, H that BFGS makes of the last `history` pairs (s, y) with yᵀs > 1e-10 and H₀ = yᵀs / yᵀy · I.

    The two loops run over inner products of pairs and gradient, which one pass over memory gives: the host has them in
    double precision, the device combines the vectors in another pass. Without a line search the first step is
    lr · min(1, 1 / ‖g‖₁), and lr after it.
    Paper: Liu & Nocedal 1989, Mathematical Programming 45; Chen, Wang, Zhou 2014, NIPS (inner products).
    """

    spec_name = "LBFGS"
    aliases = ("L-BFGS",)
    state: ClassVar[tuple[str, ...]] = ("s", "y")
    tried: ClassVar[dict[str, Any]] = {"max_iter": 1, "history": 3}
    history: int = positive(10, doc="pairs that are remembered")
    line_search: str | None = choice("strong_wolfe", (*SEARCHES, None), doc="strong_wolfe, backtracking or None")

    def slots(self) -> tuple[str, ...]:
        return tuple(f"{n}{k}" for n in self.state for k in range(self.history))

    def first(self, slope: float, before: float) -> float:
        if self.kept.get("pairs"):
            return self.rate(self.t + 1)
        return min(1.0, 1.0 / self._size) * self.rate(self.t + 1)

    _size = 1.0  # ‖g‖₁ where d = −g

    def turn(self, search: Search, pair: bool, reset: bool = False) -> float:
        if reset:
            self._forget()
        pull = np.array(self._learn(search) if pair else search.numbers("project", self._project, zero=0.0)
                        if self.kept.get("pairs") else ())
        self.kept["learned"] = self.kept.get("pairs", 0.0)
        if not self.kept["learned"]:
            slope, self._size = search.numbers("down", self._down, zero=0.0)
            return slope
        weights = self._weights(pull)
        slope, named = float(weights @ pull), {f"c{k}": float(c) for k, c in enumerate(weights)}
        if slope < 0 and self.line_search is None:
            search.tensor("combine", self._combine, (), **named)  # no search asks for the slope of what was rounded
        elif slope < 0:
            slope, = search.numbers("slope", self._slope, (), **named)
        return slope if slope < 0 else self.turn(search, False, reset=True)

    def learn(self, search: Search) -> None:
        self._learn(search)

    # --- on the device
    def _basis(self, s: Memory, first: int = 0) -> list[Tensor]:
        """The vectors s₀ y₀ s₁ y₁ …, from pair `first` on and around."""
        order = [(k + first) % self.history for k in range(self.history)]
        return [getattr(s, f"{n}{k}") for k in order for n in self.state]

    def _project(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        """The inner products of the basis with g, g · g"""
        g = at.v.g
        return [*(dot(b, g) for b in self._basis(at.s)), dot(g, g) + h.zero]

    def _replace(self, k: int, at: Place, h: Scalars) -> Sequence[Tensor]:
        """Pair k becomes that of the last iteration. The inner products of the basis, from k on, with y and g, g · g;
        those of s with what is older are never needed.
        """
        s, y, g = at.w - at.v.x, at.v.g - at.v.g0, at.v.g
        setattr(at.s, f"s{k}", s)
        setattr(at.s, f"y{k}", y)
        basis = [s, y, *self._basis(at.s, k)[2:]]
        return [*(dot(b, v) for v in (y, g) for b in basis), dot(g, g) + h.zero]

    def _combine(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        """d from its coefficients in the basis and g; a search may begin at w."""
        g, weights = at.v.g, [*h.values()]
        d = weights[-1] * g
        for c, b in zip(weights, self._basis(at.s), strict=False):
            d = d + c * b
        at.v.d, at.v.x, at.v.g0 = d, at.w, g
        return [weights[-1]]

    def _slope(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        """d, and g · d"""
        self._combine(at, h)
        return [dot(at.v.g, at.v.d)]

    def _down(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        """d = −g; a search may begin at w. g · d, ‖g‖₁"""
        g = at.v.g
        at.v.d, at.v.x, at.v.g0 = -g, at.w, g
        return [-dot(g, g), F.sum(F.abs(g)) + h.zero]

    # --- on the host
    def _forget(self) -> None:
        self.kept = {n: v for n, v in self.kept.items() if n == "fell"}

    def _learn(self, search: Search) -> list[float]:
        """Puts the last pair into the memory; the inner products of the basis with g, g · g."""
        m, k = self.history, int(self.kept.get("next", 0.0))
        found = search.numbers(f"pair {k}", _Replacing(self, k), zero=0.0)
        by_y, by_g = np.roll(np.reshape(found[:-1], (2, 2 * m)), 2 * k, axis=1)
        pairs = self.kept.get("pairs", 0.0)
        if by_y[2 * k] > CURVED:
            self.products[2 * k + 1, :] = self.products[:, 2 * k + 1] = by_y
            self.kept["next"], self.kept["pairs"] = float((k + 1) % m), min(pairs + 1, float(m))
        else:
            self.kept["pairs"] = min(pairs, m - 1.0)  # its place was that of the oldest
        return [*map(float, by_g), found[-1]]

    def _weights(self, pull: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The two loops in terms of coefficients: those of d in the basis and g; `pull` are the basis' products with g.
        """
        count, end, n = int(self.kept["pairs"]), int(self.kept["next"]), 2 * self.history
        pairs = [(end - 1 - k) % self.history for k in range(count)]  # the youngest first
        along = np.column_stack([self.products, pull[:n]])  # the inner products of the basis with the basis and g
        q, steps = np.zeros(n + 1), []
        q[n] = -1.0
        for k in pairs:
            steps.append(along[2 * k] @ q / along[2 * k, 2 * k + 1])
            q[2 * k + 1] -= steps[-1]
        k = pairs[0]
        q *= along[2 * k, 2 * k + 1] / along[2 * k + 1, 2 * k + 1]
        for k, a in zip(reversed(pairs), reversed(steps), strict=True):
            q[2 * k] += a - along[2 * k + 1] @ q / along[2 * k, 2 * k + 1]
        return q

    # --- what a run goes on with
    def restart(self) -> None:
        super().restart()
        self.products = np.zeros((2 * self.history, 2 * self.history))  # of the basis with the basis, where needed

    def counters(self) -> dict[str, float]:
        known = {f"kept.{i}.{j}": float(self.products[i, j]) for i, j in zip(*np.nonzero(self.products), strict=True)}
        return super().counters() | known

    def load_counters(self, found: Mapping[str, float]) -> None:
        super().load_counters(found)
        for name in [n for n in self.kept if "." in n]:
            i, j = map(int, name.split("."))
            self.products[i, j] = self.kept.pop(name)


class _Replacing:
    """LBFGS._replace of pair k, as a formula."""

    def __init__(self, optimizer: LBFGS, k: int) -> None:
        self.optimizer, self.k = optimizer, k

    def __call__(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        return self.optimizer._replace(self.k, at, h)
