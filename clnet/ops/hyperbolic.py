"""The Poincaré ball of curvature −c: all points with √c ‖x‖ < 1, along the last axis.

Functions of ‖x‖² that are smooth at 0 are written as such (with their series near 0),
so that the gradient at the origin is finite.
Paper: Ganea, Bécigneul, Hofmann 2018, arXiv:1805.09112.
"""

from __future__ import annotations

from ..core import arguments
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from .pointwise import less, log1p, minimum, sqrt, tanh, where
from .reduce import sum

NEAR = 1e-6  # squares below: the series' next term is under 1e-12


def _square(x: Tensor, c: float) -> Tensor:
    """c ‖x‖², the last axis kept. Raises ShapeError for a scalar, ConfigError for a c that is not positive."""
    if not x.ndim:
        raise ShapeError("hyperbolic: expected points along the last axis; got a scalar.")
    c = arguments.real("hyperbolic", "c", c, above=0)
    return sum(x * x, -1, keepdims=True) * c


def project(x: TensorLike, c: float = 1.0, eps: float = 1e-5) -> Tensor:
    """y = x · min(1, (1 − ε) / (√c ‖x‖)): points outside the ball come to its inner edge."""
    x = as_tensor(x)
    u = _square(x, c)
    inside = less(u, (1 - eps) ** 2)
    return where(inside, x, x * ((1 - eps) / sqrt(where(inside, 1.0, u))))


def exp0(v: TensorLike, c: float = 1.0) -> Tensor:
    """y = tanh(√c ‖v‖) · v / (√c ‖v‖): from the tangent space at the origin to the ball."""
    v = as_tensor(v)
    u = _square(v, c)
    near = less(u, NEAR)
    z = sqrt(where(near, 1.0, u))
    return v * where(near, 1.0 - u * (1 / 3), tanh(z) / z)


def log0(x: TensorLike, c: float = 1.0, eps: float = 1e-5) -> Tensor:
    """y = artanh(√c ‖x‖) · x / (√c ‖x‖), the norm in artanh at most 1 − ε: the inverse of exp0."""
    x = as_tensor(x)
    u = _square(x, c)
    near = less(u, NEAR)
    z = sqrt(where(near, 0.25, u))
    held = minimum(z, 1 - eps)
    return x * where(near, 1.0 + u * (1 / 3), (log1p(held) - log1p(-held)) * 0.5 / z)


def mobius_add(x: TensorLike, y: TensorLike, c: float = 1.0) -> Tensor:
    """x ⊕ y = ((1 + 2c⟨x, y⟩ + c‖y‖²) x + (1 − c‖x‖²) y) / (1 + 2c⟨x, y⟩ + c²‖x‖²‖y‖²)"""
    x, y = as_tensor(x), as_tensor(y)
    xx, yy, xy = _square(x, c), _square(y, c), sum(x * y, -1, keepdims=True) * (2 * c)
    return ((1.0 + xy + yy) * x + (1.0 - xx) * y) / (1.0 + xy + xx * yy)


def distance(x: TensorLike, y: TensorLike, c: float = 1.0) -> Tensor:
    """d(x, y) = 2 / √c · artanh(√c ‖(−x) ⊕ y‖), the length of the geodesic; the last axis is gone."""
    z = sqrt(_square(mobius_add(-as_tensor(x), y, c), c))
    root: float = c**0.5
    return sum((log1p(z) - log1p(-z)) * (1 / root), -1)
