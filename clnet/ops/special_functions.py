"""Inverse functions, Γ and its like, logarithms of sums: rows as in pointwise.py, and two formulas."""

from __future__ import annotations

import math

import numpy as np

from ..core.formula import composite
from ..core.function import function
from ..core.op import Case, Cotangents, pointwise
from ..core.spec import FLOATS
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError
from .pointwise import equal, erf, exp, log, log1p, round, rsqrt, sigmoid, sqrt, tan, where
from .special import special

FAMILY = "pointwise"
F = "float"
TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)
# Giles 2010, "Approximating the erfinv function": polynomials in w − 2.5, w = −ln(1 − x²), and in √w − 3 from w = 5 on.
NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
        0.246640727, 1.50140941)
FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
       1.00167406, 2.83297682)
BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # of the asymptotic series of ψ

arcsin = pointwise("arcsin", "asin(x)", np.arcsin, lambda g, y, x: g * rsqrt(1.0 - x * x), accepts=F,
                   domain=(-0.9, 0.9), cost=16)
arccos = pointwise("arccos", "acos(x)", np.arccos, lambda g, y, x: -g * rsqrt(1.0 - x * x), accepts=F,
                   domain=(-0.9, 0.9), cost=16)
arcsinh = pointwise("arcsinh", "asinh(x)", np.arcsinh, lambda g, y, x: g * rsqrt(1.0 + x * x), accepts=F, cost=20)
arccosh = pointwise("arccosh", "acosh(x)", np.arccosh, lambda g, y, x: g * rsqrt(x - 1.0) * rsqrt(x + 1.0), accepts=F,
                    domain=(1.2, 4.0), cost=20)
arctanh = pointwise("arctanh", "atanh(x)", np.arctanh, lambda g, y, x: g / ((1.0 - x) * (1.0 + x)), accepts=F,
                    domain=(-0.9, 0.9), cost=20)
arctan2 = pointwise("arctan2", "atan2(x, y)", np.arctan2, lambda g, out, x, y: _turned(g, x, y), accepts=F, cost=20,
                    doc="y = the angle of the point (y, x), from −π to π: arctan(x / y) by the signs of both")
hypot = pointwise("hypot", "hypot(x, y)", np.hypot, lambda g, out, x, y: _along(g, out, x, y), accepts=F, cost=16,
                  doc="y = √(x² + y²), without overflow; the gradient at the origin is 0")
logaddexp = pointwise(
    "logaddexp",
    f"x == y ? x + (T)({math.log(2)!r}) : (x > y ? x + log1p(exp(y - x)) : y + log1p(exp(x - y)))", np.logaddexp,
    lambda g, out, x, y: (g * sigmoid(x - y), g * sigmoid(y - x)), accepts=F, cost=24, rule="wide",
    doc="y = ln(eˣ + eʸ), without overflow")
lgamma = pointwise("lgamma", "lgamma(x)", lambda x: np.where(np.isneginf(x), np.inf, special.gammaln(x)),
                   lambda g, y, x: _by_slope(g, x), accepts=F, domain=(2.5, 6.0), cost=40, rule="wide",
                   doc="y = ln |Γ(x)|")


def _by_slope(g: Tensor, x: Tensor) -> Tensor:
    """g · d/dx ln Γ(x)."""
    return g * digamma(x)


def _turned(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Cotangents of arctan2; 0 at the origin, where there is none."""
    square = x * x + y * y
    scale = g / where(equal(square, 0), 1.0, square)
    return scale * y, -scale * x


def _along(g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Cotangents of hypot."""
    scale = g / where(equal(out, 0), 1.0, out)
    return scale * x, scale * y


def _polynomial(factors: tuple[float, ...], x: Tensor) -> Tensor:
    y = x * factors[0] + factors[1]
    for c in factors[2:]:
        y = y * x + c
    return y


@function(lambda: [Case((np.array([[0.3, 1.0, 2.5, 4.0], [-0.4, -1.7, 11.0, 40.0]], np.float32),))])
def digamma(x: TensorLike) -> Tensor:
    """y = ψ(x) = d/dx ln Γ(x): eight steps up and the asymptotic series, reflected for x ≤ 0; not finite at the poles
    0, −1, −2, … Raises DTypeError for integers.
    """
    x = as_tensor(x)
    if x.dtype not in FLOATS:
        raise DTypeError(f"digamma: expected floats; got {x.dtype}; cast it to float32.")
    low = x <= 0
    t = where(low, 1.0 - x, x)
    s = t + 8.0
    q = 1.0 / (s * s)
    y = log(s) - 0.5 / s - q * _polynomial(BERNOULLI[::-1], q)
    for k in range(8):
        y = y - 1.0 / (t + float(k))
    turned = where(low, x - round(x), 0.25)
    return where(low, y - math.pi / tan(turned * math.pi), y)


@composite(accepts=F, domain=(-0.95, 0.95), samples=lambda: [Case(((3, 17),)), Case(((5,),))])
def erfinv(x: Tensor) -> Tensor:
    """y with erf(y) = x, for −1 ≤ x ≤ 1: ±∞ at the ends, NaN beyond

    A polynomial of float32's precision, and two of Newton's steps: all over float64; of other types up to |x| = ½, for
    beyond it their erf, close to ±1, has fewer digits than the polynomial. Paper: Giles 2010, GPU Computing Gems,
    chapter 10.
    """
    inside = (x > -1.0) & (x < 1.0)
    z = where(inside, x, 0.0)
    w = -log((1.0 - z) * (1.0 + z))
    y = where(w < 5.0, _polynomial(NEAR, w - 2.5), _polynomial(FAR, sqrt(where(w < 5.0, 5.0, w)) - 3.0)) * z
    trusted = True if x.dtype == "float64" else (z > -0.5) & (z < 0.5)
    for _ in range(2):
        y = where(trusted, y - (erf(y) - z) / (TWO_BY_ROOT_PI * exp(-y * y)), y)
    ends = where(equal(x, 1.0), math.inf, where(equal(x, -1.0), -math.inf, math.nan))
    return where(inside, y, ends.astype(y.dtype))


@erfinv.defvjp
def _(g: Tensor, y: Tensor, x: Tensor) -> Cotangents:
    return g * exp(y * y) / TWO_BY_ROOT_PI


@function(lambda: [Case((np.array([[0.5, 0.1, 0.9], [0.02, 0.97, 0.25]], np.float32),))])
def logit(x: TensorLike) -> Tensor:
    """y = ln(x / (1 − x)), the inverse of the sigmoid: ∓∞ at 0 and 1, NaN beyond. Raises DTypeError for integers."""
    x = as_tensor(x)
    return log(x) - log1p(-x)


@function(lambda: [Case(((3, 4), (3, 4), (4,)))])
def lerp(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor:
    """z = x + weight · (y − x)"""
    x = as_tensor(x)
    return x + weight * (as_tensor(y) - x)
