"""Line searches: how far to go along a direction, decided on the host by a few losses and slopes.

φ(a) = f(x + a d) is given as a function a → Point. Rounding is allowed for: where losses differ by less than that, the
slopes decide.
Source: Nocedal & Wright 2006, algorithms 3.5 and 3.6; Hager & Zhang 2005, SIAM Journal on Optimization 16 (rounding).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

MOST = 25  # evaluations of a search


@dataclass(frozen=True)
class Point:
    """φ(a) and φ'(a)."""

    a: float
    f: float
    slope: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.f) and math.isfinite(self.slope)


Phi = Callable[[float], Point]


@dataclass(frozen=True)
class Wolfe:
    """What a step has to fulfil: φ(a) ≤ φ(0) + c₁ a φ'(0) + rounding, |φ'(a)| ≤ c₂ |φ'(0)|."""

    start: Point
    c1: float
    c2: float
    rounding: float

    def low(self, p: Point) -> bool:
        """Enough of a decrease (Armijo)."""
        if not p.finite:
            return False
        if abs(p.f - self.start.f) <= self.rounding:  # then f says nothing, and the slope takes its place
            return p.slope <= (2 * self.c1 - 1) * self.start.slope
        return p.f <= self.start.f + self.c1 * p.a * self.start.slope

    def flat(self, p: Point) -> bool:
        return abs(p.slope) <= -self.c2 * self.start.slope

    def over(self, p: Point, other: Point) -> bool:
        """Whether p lies higher than another point, by more than rounding."""
        return not p.finite or p.f > other.f + self.rounding


def strong_wolfe(phi: Phi, start: Point, first: float, c1: float, c2: float, rounding: float,
                 most: int = MOST) -> Point | None:
    """A point that fulfils both conditions, or after `most` evaluations the lowest that fulfils the first;
    None where there is none. `start` is φ(0) with a negative slope, `first` the step that is tried first.
    """
    wolfe, before, a = Wolfe(start, c1, c2, rounding), start, first
    for k in range(most):
        p = phi(a)
        if not wolfe.low(p) or (k and wolfe.over(p, before)):
            return _zoom(phi, wolfe, before, p, most - k - 1)
        if wolfe.flat(p):
            return p
        if p.slope >= 0:
            return _zoom(phi, wolfe, p, before, most - k - 1)
        least, furthest = p.a + 1.1 * (p.a - before.a), p.a + 4 * (p.a - before.a)
        further = _cubic(before, p)
        a, before = min(max(further, least), furthest) if math.isfinite(further) else furthest, p
    return before if before.a else None


def _zoom(phi: Phi, wolfe: Wolfe, low: Point, high: Point, most: int) -> Point | None:
    """Between a low point and one that is too far."""
    for _ in range(most):
        width = high.a - low.a
        if abs(width) <= 1e-12 * max(abs(high.a), abs(low.a)):
            break
        a = _cubic(low, high)
        least, last = sorted((low.a + 0.1 * width, high.a - 0.1 * width))
        p = phi(min(max(a, least), last) if math.isfinite(a) else low.a + 0.5 * width)
        if not wolfe.low(p) or wolfe.over(p, low):
            high = p
            continue
        if wolfe.flat(p):
            return p
        if p.slope * width >= 0:
            high = low
        low = p
    return low if low.a else None


def _cubic(p: Point, q: Point) -> float:
    """The minimum of the cubic through two points with their slopes (59 in Nocedal & Wright); NaN where it has none."""
    if not (p.finite and q.finite):
        return math.nan
    m = p.slope + q.slope - 3 * (p.f - q.f) / (p.a - q.a)
    square = m * m - p.slope * q.slope
    if square < 0:
        return math.nan
    root = math.copysign(math.sqrt(square), q.a - p.a)
    below = q.slope - p.slope + 2 * root
    return q.a - (q.a - p.a) * (q.slope + root - m) / below if below else math.nan


def backtracking(phi: Phi, start: Point, first: float, c1: float, rounding: float, most: int = 40) -> Point | None:
    """The first of the steps first, first / 2, first / 4, … with φ(a) ≤ φ(0) + c₁ a φ'(0); None where none has."""
    wolfe, a = Wolfe(start, c1, 1.0, rounding), first
    for _ in range(most):
        p = phi(a)
        if wolfe.low(p):
            return p
        a /= 2
    return None
