"""Activations: rows (one C expression each, so they melt into whatever computes their input) and their name table.

The derivative of a costly activation is a row too: a backward pass evaluates one expression per element, not a formula
of ten. NaN stays NaN; an infinite input gives the limit, never 0 · ∞.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.op import pointwise
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError
from ..names import ending
from .normalization import log_softmax, softmax
from .pointwise import bit_and, clip, exp, expm1, reciprocal, relu, rsqrt, sigmoid, softplus, square, tanh, where
from .reduce import sum
from .special import special

F = "float"
PEAK = 1 / math.sqrt(2 * math.pi)  # the normal density at 0
K, K3 = math.sqrt(2 / math.pi), 0.044715  # gelu_tanh: tanh(K (x + K3 x³))

# Beyond ±FAR the error function is ±1 and the density 0 in float64; a sigmoid is flat beyond ±FLAT.
FAR, FLAT = 40.0, 1000.0


# --- gelu
def _gelu_slope(x: Array) -> Any:
    return special.ndtr(x) + np.where(np.abs(x) > FAR, 0.0, x) * PEAK * np.exp(-0.5 * np.square(np.clip(x, -FAR, FAR)))


def _gelu_bend(x: Tensor) -> Tensor:
    """d²/dx² gelu = φ(x) (2 − x²)."""
    near = clip(x, -FAR, FAR)
    return PEAK * exp(-0.5 * near * near) * (2.0 - near * near)


gelu = pointwise(
    "gelu", "GELU(x)", lambda x: np.where(x < -FAR, 0.0, x) * special.ndtr(x),
    lambda g, y, x: gelu_gradient(g, x), accepts=F, cost=18, doc="y = x · Φ(x), Φ the normal distribution function")
gelu_gradient = pointwise(
    "gelu_gradient", "g * GELU_SLOPE(x)",
    lambda g, x: g * _gelu_slope(x), lambda c, y, g, x: (gelu_gradient(c, x), c * g * _gelu_bend(x)), accepts=F,
    cost=30, doc="y = g · (Φ(x) + x φ(x))")


# --- gelu_tanh
def _gelu_tanh(x: Array) -> Any:
    return np.where(x < -FAR, 0.0, x) * (0.5 + 0.5 * np.tanh(K * x * (1 + K3 * x * x)))


def _gelu_tanh_slope(x: Array) -> Any:
    near = np.clip(x, -FAR, FAR)
    t = np.tanh(K * near * (1 + K3 * near * near))
    return np.where(x != x, x, 0.5 * (1 + t) + 0.5 * near * (1 - t * t) * K * (1 + 3 * K3 * near * near))


def _gelu_tanh_bend(x: Tensor) -> Tensor:
    """d²/dx² of x/2 (1 + tanh u): (1 − t²)(u' + x/2 (u'' − 2 t u'²)); 1 − t² without cancellation."""
    x = clip(x, -FAR, FAR)
    u, u1, u2 = K * x * (1.0 + K3 * x * x), K * (1.0 + 3 * K3 * x * x), 6 * K * K3 * x
    up, down = sigmoid(2.0 * u), sigmoid(-2.0 * u)
    return 4.0 * up * down * (u1 + 0.5 * x * (u2 - 2.0 * (up - down) * u1 * u1))


# x/2 (1 + tanh u) = x / (1 + exp(−2u)): one exponential.
_TWO_U = f"({2 * K!r} * x * (1 + {K3!r} * x * x))"
gelu_tanh = pointwise(
    "gelu_tanh", f"x < {-FAR} ? (T)(0) : x / (1 + exp(-{_TWO_U}))", _gelu_tanh,
    lambda g, y, x: gelu_tanh_gradient(g, x), accepts=F, cost=16,
    doc="y = x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))")
_SLOPE = f"(1 / (1 + exp(-{_TWO_U})))"
gelu_tanh_gradient = pointwise(
    "gelu_tanh_gradient",
    f"g * (x > {FAR} ? (T)(1) : (x < {-FAR} ? (T)(0) : (T)({_SLOPE} * (1 + x * (1 - {_SLOPE}) * ({2 * K!r} + "
    f"{6 * K * K3!r} * x * x)))))",
    lambda g, x: g * _gelu_tanh_slope(x), lambda c, y, g, x: (gelu_tanh_gradient(c, x), c * g * _gelu_tanh_bend(x)),
    accepts=F, cost=24, doc="y = g · d/dx gelu_tanh(x)")


# --- swish
# In float32 the slope below −88 is 0, and 0 · ∞ for an infinite cotangent: cut it there for every type.
STEEP = 88.0


def _swish_slope(x: Array) -> Any:
    x = np.where(x < -STEEP, -np.inf, x)
    s, near = special.expit(x), np.clip(x, -FLAT, FLAT)
    return s * (1 + near * special.expit(-near))


def _swish_bend(x: Tensor) -> Tensor:
    """d²/dx² x s(x) = s (1 − s) (2 + x (1 − 2s))."""
    x = clip(x, -FLAT, FLAT)
    s = sigmoid(x)
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


swish = pointwise(
    "swish", f"x < {-FLAT} ? (T)(0) : x / (1 + exp(-x))", lambda x: np.where(x < -FLAT, 0.0, x) * special.expit(x),
    lambda g, y, x: swish_gradient(g, x), accepts=F, cost=15, doc="y = x · σ(x)")
swish_gradient = pointwise(
    "swish_gradient",
    f"g * (x > {STEEP} ? (T)(1) : (x < {-STEEP} ? (T)(0) : (T)((1 + x * (1 - 1 / (1 + exp(-x)))) / (1 + exp(-x)))))",
    lambda g, x: g * _swish_slope(x), lambda c, y, g, x: (swish_gradient(c, x), c * g * _swish_bend(x)), accepts=F,
    cost=20, doc="y = g · σ(x) (1 + x (1 − σ(x)))")
silu = swish


# --- piecewise: the parameters are operands, so a slope may be a number, a schedule or a trained tensor
_leaky_relu = pointwise(
    "leaky_relu", "x > 0 ? x : x * s", lambda x, s: np.where(x > 0, x, x * s),
    lambda g, y, x, s: (where(x > 0, g, g * s), where(x > 0, 0.0, g * x)), accepts=F, args=("x", "s"),
    doc="y = x if x > 0 else s · x")
_elu = pointwise(
    "elu", "x > 0 ? x : a * expm1(x)", lambda x, a: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0))),
    lambda g, y, x, a: (where(x > 0, g, g * (y + a)), where(x > 0, 0.0, g * expm1(where(x > 0, 0.0, x)))), accepts=F,
    cost=13, args=("x", "a"), doc="y = x if x > 0 else a (eˣ − 1)")
_hard_clip = pointwise(
    "hard_clip", "x <= a ? a : (x >= b ? b : x)", lambda x, a, b: np.where(x <= a, a, np.where(x >= b, b, x)),
    lambda g, y, x, a, b: (where(bit_and(x > a, x < b), g, 0.0), where(x <= a, g, 0.0),
                           where(bit_and(x > a, x >= b), g, 0.0)),
    accepts=F, args=("x", "a", "b"), doc="y = min(max(x, a), b); the gradient at a bound is 0")
softsign = pointwise(
    "softsign", "ABS(x) > 1.0e30 ? (x > 0 ? (T)(1) : (T)(-1)) : x / (1 + ABS(x))",
    lambda x: np.where(np.isinf(x), np.sign(x), x) / (1 + np.where(np.isinf(x), 0, np.abs(x))),
    lambda g, y, x: g * square(reciprocal(1.0 + abs(x))), accepts=F, cost=6, doc="y = x / (1 + |x|)")


# --- mish: tanh(ln(1 + e)) = n / (n + 2), n = e (e + 2), e = eˣ
def _mish_slope(x: Tensor) -> Tensor:
    near = clip(x, -FLAT, FAR)
    e = exp(near)
    n = e * (e + 2.0)
    return where(x > FAR, 1.0, n / (n + 2.0) + near * 4.0 * e * (1.0 + e) * square(reciprocal(n + 2.0)))


mish = pointwise(
    "mish", f"x > {FAR} ? x : (x < {-FLAT} ? (T)(0) : x * (1 - 2 / (2 + exp(x) * (2 + exp(x)))))",
    lambda x: np.where(x < -FLAT, 0.0, x) * np.tanh(np.logaddexp(x, 0)), lambda g, y, x: g * _mish_slope(x), accepts=F,
    cost=16, doc="y = x · tanh(ln(1 + eˣ))")


def linear(x: TensorLike) -> Tensor:
    """y = x"""
    return as_tensor(x)


def leaky_relu(x: TensorLike, slope: TensorLike = 0.01) -> Tensor:
    """y = x if x > 0 else slope · x. A trained slope (any shape that broadcasts) makes it PReLU."""
    return _leaky_relu(x, slope)


def elu(x: TensorLike, alpha: TensorLike = 1.0) -> Tensor:
    """y = x if x > 0 else α (eˣ − 1). Paper: Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289."""
    return _elu(x, alpha)


def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """y = max(x, 0) + min(α (e^(x/α) − 1), 0). Raises ConfigError for α = 0. Paper: Barron 2017, arXiv:1704.07483."""
    if not arguments.real("celu", "alpha", alpha):
        raise ConfigError("celu: expected an alpha other than 0; got 0; relu is the limit.")
    return alpha * _elu(as_tensor(x) / alpha, 1.0)


def selu(x: TensorLike) -> Tensor:
    """y = λ · elu(x, α), λ = 1.0507…, α = 1.6733…. Paper: Klambauer et al. 2017, arXiv:1706.02515."""
    return 1.0507009873554805 * _elu(x, 1.6732632423543772)


def relu6(x: TensorLike) -> Tensor:
    """y = min(max(x, 0), 6). Paper: Howard et al. 2017, arXiv:1704.04861."""
    return _hard_clip(x, 0.0, 6.0)


def hard_tanh(x: TensorLike) -> Tensor:
    """y = min(max(x, −1), 1)"""
    return _hard_clip(x, -1.0, 1.0)


def hard_sigmoid(x: TensorLike) -> Tensor:
    """y = min(max(x/6 + 1/2, 0), 1). Paper: Courbariaux, Bengio, David 2015, arXiv:1511.00363."""
    return _hard_clip(as_tensor(x) / 6.0 + 0.5, 0.0, 1.0)


def hard_swish(x: TensorLike) -> Tensor:
    """y = x · hard_sigmoid(x), 0 for x ≤ −3. Paper: Howard et al. 2019, arXiv:1905.02244."""
    x = as_tensor(x)
    return where(x <= -3.0, 0.0, x) * hard_sigmoid(x)


def squash(x: TensorLike, axis: int = -1, eps: float = 1e-8) -> Tensor:
    """y = |x|² / (1 + |x|²) · x / √(|x|² + ε), |x| over `axis`: a vector's direction, its length from 0 to 1.

    Raises ShapeError, ConfigError for an ε ≤ 0. Paper: Sabour, Frosst, Hinton 2017, arXiv:1710.09829.
    """
    x = as_tensor(x)
    eps = arguments.real("squash", "eps", eps, above=0.0)
    length = sum(x * x, arguments.axis("squash", axis, x.ndim), keepdims=True)
    # 1 / (1 + 1 / |x|²) would divide by 0, |x|² / (1 + |x|²) infinity by infinity
    return where(length > 1e30, 1.0, length / (1.0 + where(length > 1e30, 0.0, length))) * x * rsqrt(length + eps)


ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "linear": linear, "relu": relu, "leaky_relu": leaky_relu, "sigmoid": sigmoid, "tanh": tanh, "gelu": gelu,
    "gelu_tanh": gelu_tanh, "swish": swish, "silu": silu, "softmax": softmax, "log_softmax": log_softmax,
    "softplus": softplus, "elu": elu, "relu6": relu6, "celu": celu, "selu": selu, "hard_tanh": hard_tanh,
    "hard_sigmoid": hard_sigmoid, "hard_swish": hard_swish, "softsign": softsign, "mish": mish,
}


def activation(what: str | Callable[..., Tensor] | None) -> Callable[..., Tensor]:
    """y = activation(what)(x): that of a name; a callable stays itself, None is linear.
    Raises ConfigError with the nearest name.
    """
    if what is None:
        return linear
    if callable(what):
        return what
    if isinstance(what, str) and what in ACTIVATIONS:
        return ACTIVATIONS[what]
    known = ", ".join(sorted(ACTIVATIONS))
    raise ConfigError(
        f"activation: expected one of {known}, or a function of a tensor; got {what!r}{ending(str(what), ACTIVATIONS)}")
